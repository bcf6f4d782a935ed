package transport

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// While there is no link, and while the peer does not read, the newest
// notification is the only one that waits.
func TestOneSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemNet()
		n := m.start(t, 2, 2)
		for i := range 10 {
			n.Notify(1, fmt.Appendf(nil, "before %d", i))
			time.Sleep(time.Second)
		}
		peer := m.rawPeer(t, 1)
		nc := peer.accept(2)
		if got := hear(t, nc); got != "before 9" {
			t.Errorf("first heard %q", got)
		}
		// The first of these is being written, which holds until it is read.
		for i := range 10 {
			n.Notify(1, fmt.Appendf(nil, "after %d", i))
			synctest.Wait()
		}
		if a, b := hear(t, nc), hear(t, nc); a != "after 0" || b != "after 9" {
			t.Errorf("then heard %q and %q", a, b)
		}
		n.Notify(2, []byte("to myself"))
		n.Notify(9, []byte("to nobody"))
		n.Notify(1, nil)
		n.Notify(1, make([]byte, MaxNotificationBytes+1))
		nc.SetReadDeadline(time.Now().Add(time.Minute))
		if k, err := nc.Read(make([]byte, 1)); k != 0 || err == nil {
			t.Error("something else was sent")
		}
	})
}

// Notify copies what it is given.
func TestNotifyCopies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemNet()
		n := m.start(t, 2, 2)
		b := []byte("vote")
		n.Notify(1, b)
		copy(b, "void")
		if got := hear(t, m.rawPeer(t, 1).accept(2)); got != "vote" {
			t.Errorf("heard %q", got)
		}
	})
}

// A server that stops votes no more: what it sends while Close runs, on hearing that its links end, would come to
// the others as the vote of a candidate.
func TestNoNotificationWhileItCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemNet()
		release := make(chan struct{})
		n := m.start(t, 2, 2, func(o *Options) {
			dial := o.Dial
			o.Dial = func(ctx context.Context, address string) (net.Conn, error) {
				nc, err := dial(ctx, address)
				if err == nil && address == quorumAddr(1) {
					nc = slowClose{nc, release}
				}
				return nc, err
			}
		})
		n.Notify(1, []byte("follows"))
		nc := m.rawPeer(t, 1).accept(2)
		if got := hear(t, nc); got != "follows" {
			t.Fatalf("heard %q", got)
		}
		if _, err := m.listen(quorumAddr(1)); err != nil {
			t.Fatal(err)
		}
		n.Dial(1, false)
		synctest.Wait()
		closed := make(chan error)
		go func() { closed <- n.Close() }()
		synctest.Wait() // Close ends the link
		n.Notify(1, []byte("is a candidate"))
		_ = nc.SetReadDeadline(time.Now().Add(time.Second)) // never fails
		if k, err := nc.Read(make([]byte, 1)); k != 0 || err == nil {
			t.Error("a notification was sent")
		}
		close(release)
		if err := <-closed; err != nil {
			t.Error(err)
		}
	})
}

// slowClose is a connection whose end waits for release.
type slowClose struct {
	net.Conn
	release <-chan struct{}
}

func (c slowClose) Close() error {
	<-c.release
	return c.Conn.Close()
}

// A new connection begins with the last message that was ever sent, unless there
// is a newer one.
func TestLastMessageAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemNet()
		n := m.start(t, 1, 2)
		connect := func() net.Conn {
			nc := m.connect(t, electionAddr(1))
			say(t, nc, helloV1Of(2))
			return nc
		}
		nc := connect()
		n.Notify(2, []byte("one"))
		n.Notify(2, []byte("two"))
		for hear(t, nc) != "two" {
		}
		nc.Close()
		synctest.Wait()
		nc = connect()
		if got := hear(t, nc); got != "two" {
			t.Errorf("first heard %q", got)
		}
		nc.Close()
		synctest.Wait()
		n.Notify(2, []byte("three"))
		nc = connect()
		if got := hear(t, nc); got != "three" {
			t.Errorf("first heard %q", got)
		}
		nc.SetReadDeadline(time.Now().Add(time.Minute))
		if k, err := nc.Read(make([]byte, 1)); k != 0 || err == nil {
			t.Error("something else was sent")
		}
	})
}

// A message whose write fails is sent over the next link, which is made for it.
func TestFailedWriteIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemNet()
		peer := m.rawPeer(t, 1)
		n := m.start(t, 2, 2)
		n.Notify(1, []byte("one"))
		first := peer.accept(2)
		hear(t, first)
		n.Notify(1, []byte("two")) // not read
		time.Sleep(n.Options().ConnectTimeout)
		if got := hear(t, peer.accept(2)); got != "two" {
			t.Errorf("heard %q", got)
		}
		if n.count("peer 1 down") != 1 || n.count("peer 1 up") != 2 {
			t.Errorf("%q", n.take())
		}
	})
}

// Attempts to connect are made after 20 ms, 40 ms and so on up to a second;
// each resolves the name again, and each that fails is told. Something new to
// say is tried at once.
func TestBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemNet()
		m.setName("peer", "10.0.7.7")
		n := m.start(t, 2, 2, func(o *Options) { o.Peers[1] = []Address{{"peer", 2888, 3888}} })
		began := time.Now()
		n.Notify(1, []byte("vote"))
		time.Sleep(5 * time.Second)
		synctest.Wait()
		var at []int64
		for _, when := range m.dialed("10.0.7.7:3888") {
			at = append(at, when.Sub(began).Milliseconds())
		}
		if want := []int64{0, 20, 60, 140, 300, 620, 1260, 2260, 3260, 4260}; !slices.Equal(at, want) {
			t.Errorf("attempts at %v ms, want %v", at, want)
		}
		if k := n.count("peer 1 down"); k != len(at) {
			t.Errorf("%d attempts failed, %d were told", len(at), k)
		}
		if k := m.lookedUp(); k != len(at) {
			t.Errorf("%d attempts, the name was resolved %d times", len(at), k)
		}

		n.Notify(1, []byte("newer"))
		synctest.Wait()
		if k := len(m.dialed("10.0.7.7:3888")); k != 1 {
			t.Errorf("%d attempts at once for something new", k)
		}

		peer := m.rawPeer(t, 1)
		m.setName("peer", "10.0.0.1") // it is somewhere else now
		if got := hear(t, peer.accept(2)); got != "newer" {
			t.Errorf("heard %q", got)
		}
		time.Sleep(time.Hour)
		if peer.waiting() > 0 {
			t.Error("attempts go on")
		}
	})
}

// A peer that does not answer takes cnxTimeout, and is told then.
func TestUnreachablePeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemNet()
		m.setBlackhole(electionAddr(1))
		n := m.start(t, 2, 2, func(o *Options) { o.ConnectTimeout = 3 * time.Second })
		n.Notify(1, []byte("vote"))
		time.Sleep(3*time.Second - time.Millisecond)
		if n.count("peer 1 down") != 0 {
			t.Error("given up too early")
		}
		time.Sleep(2 * time.Millisecond)
		if n.count("peer 1 down") != 1 {
			t.Error("not given up in time")
		}
	})
}

// A server that restarts is talked to again, whichever of the two it is, and
// gets what the other has said last.
func TestRestart(t *testing.T) {
	for _, restarted := range []int64{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			m := newMemNet()
			other := 3 - restarted
			old, n := m.start(t, restarted, 2), m.start(t, other, 2)
			old.Notify(other, []byte("first"))
			n.Notify(restarted, []byte("reply"))
			synctest.Wait()
			if err := old.Close(); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			up, down := fmt.Sprintf("peer %d up", restarted), fmt.Sprintf("peer %d down", restarted)
			if n.count(up) != 1 || n.count(down) != 1 {
				t.Errorf("server %d was restarted: %q", restarted, n.take())
			}
			again := m.start(t, restarted, 2)
			again.Notify(other, []byte("second"))
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			if got := n.heard(restarted); !slices.Equal(got, []string{"first", "second"}) {
				t.Errorf("server %d was restarted: heard %q", restarted, got)
			}
			if got := again.heard(other); !slices.Equal(got, []string{"reply"}) {
				t.Errorf("server %d was restarted: it heard %q", restarted, got)
			}
			if n.count(up) != 2 || n.count(down) != 1 {
				t.Errorf("server %d was restarted: %q", restarted, n.take())
			}
		})
	}
}

// A peer that comes anew while we think that its old connection lives, since its
// end was never told, gets a new one: by its own doing if it is the larger one,
// on its request if it is the smaller.
func TestHalfOpenLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemNet()
		smaller := m.rawPeer(t, 1)
		n := m.start(t, 2, 3)
		larger := m.connect(t, electionAddr(2))
		say(t, larger, helloV1Of(3))
		n.Notify(1, []byte("one"))
		toSmaller := smaller.accept(2)
		hear(t, toSmaller)
		time.Sleep(youngLink)

		again := m.connect(t, electionAddr(2))
		say(t, again, helloV1Of(3), frameOf("again"))
		say(t, m.connect(t, electionAddr(2)), helloV1Of(1))
		back := smaller.accept(2)
		if got := hear(t, back); got != "one" {
			t.Errorf("the smaller one heard %q", got)
		}
		say(t, back, frameOf("again"))
		synctest.Wait()
		if !ended(larger) || !ended(toSmaller) {
			t.Error("the old connections are open")
		}
		for _, id := range []int64{1, 3} {
			if got := n.heard(id); !slices.Equal(got, []string{"again"}) {
				t.Errorf("%d: heard %q", id, got)
			}
			// A link in place of another: nobody was away.
			if up, down := n.count(fmt.Sprintf("peer %d up", id)), n.count(fmt.Sprintf("peer %d down", id)); up != 2 || down != 0 {
				t.Errorf("%d: up %d times, down %d times", id, up, down)
			}
		}
	})
}

// The link stays if the peer that has asked for another cannot be reached, and
// if it has asked before it can have seen the one that there is.
func TestAskingKeepsTheLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemNet()
		smaller := m.rawPeer(t, 1)
		n := m.start(t, 2, 3)
		n.Notify(1, []byte("one"))
		nc := smaller.accept(2)
		hear(t, nc)
		ask := func() { say(t, m.connect(t, electionAddr(2)), helloV1Of(1)) }
		ask()
		synctest.Wait()
		if smaller.waiting() > 0 {
			t.Error("a link that was just made is replaced")
		}
		time.Sleep(youngLink)
		smaller.l.Close()
		ask()
		synctest.Wait()
		n.Notify(1, []byte("two"))
		if got := hear(t, nc); got != "two" || n.count("peer 1 down") != 0 {
			t.Errorf("heard %q; %q", got, n.take())
		}
	})
}

// A peer that asks while it is dialled at an address where nothing answers, which was its own
// before, is dialled anew where its name leads now.
func TestAskingEndsAStaleAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemNet()
		m.setName("smaller", "10.0.7.7")
		m.setBlackhole("10.0.7.7:3888")
		n := m.start(t, 2, 3, func(o *Options) { o.Peers[1] = []Address{{"smaller", 2888, 3888}} })
		n.Notify(1, []byte("one"))
		time.Sleep(askPause)
		synctest.Wait()
		m.setName("smaller", "10.0.0.1")
		smaller := m.rawPeer(t, 1)
		began := time.Now()
		say(t, m.connect(t, electionAddr(2)), helloV1Of(1))
		if got := hear(t, smaller.accept(2)); got != "one" || time.Since(began) > 100*time.Millisecond {
			t.Errorf("heard %q after %v", got, time.Since(began))
		}
	})
}

// A peer that has asked while it had a young link is connected to at once when
// that is lost, with nothing to be sent.
func TestAskedAndLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemNet()
		smaller := m.rawPeer(t, 1)
		n := m.start(t, 2, 3)
		n.Notify(1, []byte("one"))
		nc := smaller.accept(2)
		hear(t, nc)
		say(t, m.connect(t, electionAddr(2)), helloV1Of(1))
		synctest.Wait()
		nc.Close()
		if got := hear(t, smaller.accept(2)); got != "one" {
			t.Errorf("heard %q", got)
		}
		_ = n
	})
}

// Servers that are not in the configuration are bounded; a place is free again
// when one goes. One that does not say anything goes.
func TestStrangersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemNet()
		n := m.start(t, 2, 3)
		var conns []net.Conn
		for i := range int64(maxStrangers) {
			nc := m.connect(t, electionAddr(2))
			say(t, nc, helloOf(helloV1, 100+i, "10.0.0.99:3888"), frameOf("vote"))
			conns = append(conns, nc)
		}
		synctest.Wait()
		late := func() net.Conn {
			nc := m.connect(t, electionAddr(2))
			say(t, nc, helloOf(helloV1, 500, "10.0.0.99:3888"))
			synctest.Wait()
			return nc
		}
		if nc := late(); !ended(nc) {
			t.Error("one too many is let in")
		}
		if lines := n.logged.refusals(); len(lines) != 1 || !strings.Contains(lines[0], "500 is one more") {
			t.Errorf("the log says %q", lines)
		}
		say(t, m.connect(t, electionAddr(2)), helloV1Of(3), frameOf("vote"))
		synctest.Wait()
		if n.count("peer 3 up") != 1 {
			t.Error("a member finds no place")
		}
		time.Sleep(time.Hour) // they have spoken: they stay
		conns[0].Close()
		synctest.Wait()
		nc := late()
		if ended(nc) {
			t.Error("the place of one that has gone is not free")
		}
		time.Sleep(n.Options().HandshakeTimeout)
		synctest.Wait()
		if !ended(nc) || n.count("peer 500 down") != 1 {
			t.Error("one that says nothing stays")
		}
		for _, nc := range conns[1:] {
			nc.Close()
		}
		synctest.Wait()
		if n.Transport.mu.strangers != 0 || len(n.Transport.mu.peers) != 2 {
			t.Errorf("%d strangers are left", n.Transport.mu.strangers)
		}
	})
}

// A stranger that is to be connected to, and cannot be, is forgotten after three
// attempts.
func TestStrangerOutOfReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemNet()
		n := m.start(t, 2, 3)
		say(t, m.connect(t, electionAddr(2)), helloOf(helloV1, 0, "10.0.0.99:3888"))
		time.Sleep(time.Minute)
		synctest.Wait()
		if k := len(m.dialed("10.0.0.99:3888")); k != maxAttempts {
			t.Errorf("%d attempts", k)
		}
		if n.Transport.mu.strangers != 0 {
			t.Error("it is not forgotten")
		}
		n.Notify(0, []byte("to nobody"))
	})
}

// Over TCP, with everything at once: three servers, each talking to both others
// while one of them is restarted again and again.
func TestElectionLinksOverTCP(t *testing.T) {
	nodes := startTCP(t, []int64{1, 2, 3})
	awaitVote := func(n *node, from int64, vote string) {
		t.Helper()
		n.await(t, fmt.Sprintf("%q from %d", vote, from), func() bool { return slices.Contains(n.notes[from], vote) })
	}
	for id, n := range nodes {
		for other := range nodes {
			n.Notify(other, fmt.Appendf(nil, "vote of %d", id))
		}
	}
	for id, n := range nodes {
		for other := range nodes {
			if other != id {
				awaitVote(n, other, fmt.Sprintf("vote of %d", other))
			}
		}
	}
	o := *nodes[1].Options()
	o.Listen = nil
	for i := range 5 {
		if err := nodes[1].Close(); err != nil {
			t.Fatal(err)
		}
		nodes[1] = start(t, o)
		vote := fmt.Sprintf("life %d", i)
		for other := int64(2); other <= 3; other++ {
			nodes[1].Notify(other, []byte(vote))
			awaitVote(nodes[other], 1, vote)
			nodes[other].Notify(1, []byte(vote))
			awaitVote(nodes[1], other, vote)
		}
	}
}

// TCP gives up what the peer has not acknowledged for the handshake timeout, not
// for a quarter of an hour.
func TestLimitUnsent(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	nc, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	limitUnsent(nc, 1234*time.Millisecond)
	if got, ok := unsentLimit(t, nc); ok && got != 1234 {
		t.Errorf("the limit is %d ms", got)
	}
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	limitUnsent(a, time.Second) // is no socket
	go io.Copy(io.Discard, b)
	if _, err := a.Write([]byte("x")); err != nil {
		t.Error(err)
	}
}

// A change of the ensemble makes links to new servers possible, dials moved ones at
// their new address, and closes the link to one that is gone, which is a stranger from
// then on.
func TestSetPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemNet()
		n := m.start(t, 3, 3)
		n.Notify(1, []byte("one"))
		n.Notify(2, []byte("two"))
		n.Notify(4, []byte("to nobody"))
		one, two := m.rawPeer(t, 1).accept(3), m.rawPeer(t, 2).accept(3)
		hear(t, one)
		hear(t, two)
		peers := memPeers(3)
		delete(peers, 1)
		peers[2] = []Address{{"10.0.0.22", 2888, 3888}}
		peers[0] = []Address{{"10.0.0.100", 2888, 3888}}
		zero := m.rawPeer(t, 100)
		n.SetPeers(peers)
		synctest.Wait()
		if k, err := one.Read(make([]byte, 1)); k != 0 || err == nil {
			t.Error("the link to the server that is gone is open")
		}
		if got := n.take(); !slices.Contains(got, "peer 1 down") {
			t.Errorf("told is %q", got)
		}
		n.Notify(1, []byte("to nobody"))
		n.Notify(0, []byte("zero"))
		if got := hear(t, zero.accept(3)); got != "zero" {
			t.Errorf("the new server hears %q", got)
		}
		n.Notify(2, []byte("two again"))
		if got := hear(t, two); got != "two again" {
			t.Errorf("over the old link comes %q", got)
		}
		two.Close()
		n.Notify(2, []byte("moved"))
		if got := hear(t, m.rawPeer(t, 22).accept(3)); got != "moved" && got != "two again" {
			t.Errorf("at the new address comes %q", got)
		}
		if k := len(n.Transport.mu.peers); k != 2 || n.Transport.mu.strangers != 0 {
			t.Errorf("%d peers, %d strangers", k, n.Transport.mu.strangers)
		}
		say(t, m.connect(t, electionAddr(3)), helloOf(helloV1, 1, electionAddr(1)))
		time.Sleep(time.Second)
		synctest.Wait()
		if n.Transport.mu.strangers != 1 {
			t.Error("the server that is gone is no stranger")
		}
	})
}
