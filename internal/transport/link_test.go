package transport

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/zk"
)

// Packets go both ways, in order, however they are grouped.
func TestPacketsBothWays(t *testing.T) {
	leader, learner, down, up := linked(t)
	if leader.remotes[down] == "" || learner.remotes[up] != leader.Options().Peers[1][0].quorum() {
		t.Errorf("remote ends %q and %q", leader.remotes[down], learner.remotes[up])
	}
	rnd := rand.New(rand.NewPCG(7, 8))
	toLearner, toLeader := randomPackets(rnd, 1000), randomPackets(rnd, 500)
	go func() {
		for rest := toLeader; len(rest) > 0; {
			n := min(len(rest), 1+rnd.IntN(20))
			learner.Send(up, rest[:n])
			rest = rest[n:]
		}
	}()
	for i := range toLearner {
		leader.Send(down, toLearner[i:i+1])
	}
	comparePackets(t, learner.awaitPackets(t, up, len(toLearner)), toLearner)
	comparePackets(t, leader.awaitPackets(t, down, len(toLeader)), toLeader)
	if a, b := leader.Progress(down), learner.Progress(up); a != b || a != uint64(len(encode(toLearner))+len(encode(toLeader))) {
		t.Errorf("progress %d and %d", a, b)
	}
}

// Options are those that the transport works with.
func (n *node) Options() *Options { return &n.Transport.o }

func (a Address) quorum() string { return target{a.Host, a.QuorumPort}.String() }

// What is sent before the link is up is sent first.
func TestSendBeforeUp(t *testing.T) {
	nodes := startTCP(t, []int64{1, 2})
	up := nodes[2].Dial(1, false)
	nodes[2].Send(up, []zab.Packet{ack(1)})
	nodes[2].awaitLink(t, 0)
	nodes[2].Send(up, []zab.Packet{ack(2)})
	down := nodes[1].awaitLink(t, 0)
	comparePackets(t, nodes[1].awaitPackets(t, down, 2), []zab.Packet{ack(1), ack(2)})
}

// LinkUp may send already.
func TestSendInLinkUp(t *testing.T) {
	nodes := startTCP(t, []int64{1, 2})
	nodes[2].guard.Lock()
	nodes[2].onUp = func(l zab.LinkID) { nodes[2].Send(l, []zab.Packet{ack(1)}) }
	nodes[2].guard.Unlock()
	nodes[2].Dial(1, false)
	comparePackets(t, nodes[1].awaitPackets(t, nodes[1].awaitLink(t, 0), 1), []zab.Packet{ack(1)})
}

// readSnapshot is a Handler.Snapshot that keeps n bytes.
func readSnapshot(n int, body *[]byte) func(zab.LinkID, zk.Zxid, SnapshotSource) error {
	return func(_ zab.LinkID, _ zk.Zxid, s SnapshotSource) (err error) {
		*body, err = consume(s, n)
		return err
	}
}

// A snapshot goes through in its place, packets before and behind it, over TCP
// and over a connection that can only block.
func TestStreamInPlace(t *testing.T) {
	body := randomBytes(rand.New(rand.NewPCG(9, 10)), 3<<20)
	var got []byte
	leader, learner, down, up := linked(t)
	learner.guard.Lock()
	learner.snapshot = readSnapshot(len(body), &got)
	learner.guard.Unlock()
	before := []zab.Packet{{Type: zab.LeaderInfo, Zxid: 1 << 32}, {Type: zab.Snap, Zxid: 5}}
	after := []zab.Packet{proposal(6, []byte("x")), {Type: zab.NewLeader, Zxid: 1 << 32}}
	leader.Send(down, before)
	leader.Stream(down, func(w io.Writer) error {
		for rest := body; len(rest) > 0; {
			n, err := w.Write(rest[:min(len(rest), 1000)])
			if err != nil {
				return err
			}
			rest = rest[n:]
		}
		_, err := w.Write([]byte(signature))
		return err
	})
	leader.Send(down, after)
	comparePackets(t, learner.awaitPackets(t, up, 4), append(before, after...))
	if !bytes.Equal(got, body) {
		t.Errorf("%d bytes of snapshot, want %d, or they differ", len(got), len(body))
	}
	events := strings.Join(learner.take(), "\n")
	if i, j := strings.Index(events, "snapshot"), strings.Index(events, "SNAP"); i < 0 || j < i {
		t.Errorf("the snapshot must be consumed before its packet is handed on:\n%s", events)
	}
}

// Streams and packets that are queued one behind the other keep their order.
func TestStreamsKeepOrder(t *testing.T) {
	leader, learner, down, up := linked(t)
	var want []zab.Packet
	for z := zk.Zxid(1); z <= 300; z += 3 {
		leader.Send(down, []zab.Packet{ack(z)})
		for k := zk.Zxid(1); k <= 2; k++ {
			leader.Stream(down, func(w io.Writer) error {
				_, err := w.Write(AppendPacket(nil, proposal(z+k, make([]byte, 2000))))
				return err
			})
		}
		want = append(want, ack(z), proposal(z+1, make([]byte, 2000)), proposal(z+2, make([]byte, 2000)))
	}
	comparePackets(t, learner.awaitPackets(t, up, len(want)), want)
}

func TestStreamError(t *testing.T) {
	leader, learner, down, up := linked(t)
	wrong := errors.New("the log is gone")
	leader.Send(down, []zab.Packet{ack(1)})
	leader.Stream(down, func(io.Writer) error { return wrong })
	var called atomic.Bool
	leader.Stream(down, func(io.Writer) error { called.Store(true); return nil })
	leader.Send(down, []zab.Packet{ack(2)})
	if err := leader.awaitEnd(t, down); !errors.Is(err, wrong) {
		t.Errorf("the link ended with %v", err)
	}
	learner.awaitEnd(t, up)
	comparePackets(t, learner.got(up), []zab.Packet{ack(1)})
	if called.Load() {
		t.Error("a stream behind the error ran")
	}
}

// A running stream sees the end of its link as an error, and LinkDown waits
// for it.
func TestStreamEndsWithLink(t *testing.T) {
	leader, learner, down, _ := linked(t)
	block := make(chan struct{})
	learner.guard.Lock()
	learner.onPacket = func(zab.LinkID, zab.Packet) { <-block } // reads no more
	learner.guard.Unlock()
	var running atomic.Bool
	running.Store(true)
	started := make(chan struct{})
	leader.Stream(down, func(w io.Writer) error {
		defer running.Store(false)
		close(started)
		p := AppendPacket(nil, ack(1))
		for {
			if _, err := w.Write(p); err != nil {
				return err
			}
		}
	})
	<-started
	leader.CloseLink(down, errors.New("enough"))
	if err := leader.awaitEnd(t, down); err == nil || err.Error() != "enough" {
		t.Errorf("the link ended with %v", err)
	}
	if running.Load() {
		t.Error("LinkDown came while the stream ran")
	}
	close(block)
}

func TestSnapshotErrors(t *testing.T) {
	wrong := errors.New("a path without a slash")
	for _, tt := range []struct {
		name string
		read func(zab.LinkID, zk.Zxid, SnapshotSource) error
		sent string
		want error
	}{
		{"refused by the handler", func(zab.LinkID, zk.Zxid, SnapshotSource) error { return wrong }, signature, wrong},
		{"no signature", func(_ zab.LinkID, _ zk.Zxid, s SnapshotSource) error { s.Discard(0); return nil }, "garbage, garbage, garbage", ErrPacket},
		{"read too far", func(_ zab.LinkID, _ zk.Zxid, s SnapshotSource) error {
			_, err := s.Fill(1)
			s.Discard(1)
			return err
		}, signature + "and more", ErrPacket},
	} {
		t.Run(tt.name, func(t *testing.T) {
			leader, learner, down, up := linked(t)
			learner.guard.Lock()
			learner.snapshot = tt.read
			learner.guard.Unlock()
			leader.Send(down, []zab.Packet{{Type: zab.Snap}})
			leader.Stream(down, func(w io.Writer) error {
				_, err := io.WriteString(w, tt.sent)
				return err
			})
			if err := learner.awaitEnd(t, up); !errors.Is(err, tt.want) {
				t.Errorf("the link ended with %v, want %v", err, tt.want)
			}
			if ps := learner.got(up); len(ps) > 0 {
				t.Errorf("the handler was given %v", ps)
			}
			leader.awaitEnd(t, down)
		})
	}
}

// While the reader of a link is kept in Work another one reads in its place, if it is asked
// to; the first one then touches nothing more, and the link ends once.
func TestStandIn(t *testing.T) {
	leader, learner, down, up := linked(t)
	release := make(chan struct{})
	var mu sync.Mutex // of calls and ended
	calls, ended := 0, false
	var kept sync.WaitGroup
	keeps := func() bool {
		mu.Lock()
		defer mu.Unlock()
		if calls++; calls%3 != 0 || ended {
			return false
		}
		kept.Add(1)
		return true
	}
	learner.guard.Lock()
	learner.onWork = func(r Reader) bool { // called by one reader after the other
		if !keeps() {
			return true
		}
		defer kept.Done()
		r.StandIn()
		<-release
		return false
	}
	learner.guard.Unlock()
	var want []zab.Packet
	for z := range zk.Zxid(20) {
		leader.Send(down, []zab.Packet{ack(z + 1)})
		want = append(want, ack(z+1))
		learner.awaitPackets(t, up, len(want))
	}
	comparePackets(t, learner.got(up), want)
	mu.Lock()
	ended = true
	mu.Unlock()
	close(release)
	kept.Wait()
	leader.Send(down, []zab.Packet{ack(21)})
	comparePackets(t, learner.awaitPackets(t, up, 21), append(want, ack(21)))
	leader.CloseLink(down, errors.New("enough"))
	learner.awaitEnd(t, up)
}

// A peer that stops reading gets what the system and MaxQueueBytes hold, and
// then its link is closed. Others notice nothing.
func TestSlowPeerIsClosed(t *testing.T) {
	nodes := startTCP(t, []int64{1, 2, 3}, func(o *Options) { o.MaxQueueBytes = 1 << 20 })
	block := make(chan struct{})
	nodes[2].guard.Lock()
	nodes[2].onPacket = func(zab.LinkID, zab.Packet) { <-block }
	nodes[2].guard.Unlock()
	nodes[2].Dial(1, false)
	slow := nodes[1].awaitLink(t, 0)
	up := nodes[3].Dial(1, false)
	quick := nodes[1].awaitLink(t, 1)

	run := []zab.Packet{proposal(1, make([]byte, 100000))}
	sent := 0
	for ; sent < 1000; sent++ {
		if nodes[1].whyEnded(slow) != nil {
			break
		}
		nodes[1].Send(slow, run)
	}
	if err := nodes[1].awaitEnd(t, slow); !errors.Is(err, ErrSlow) {
		t.Errorf("the link ended with %v after %d packets, want ErrSlow", err, sent)
	}
	nodes[1].Send(quick, []zab.Packet{ack(1)})
	comparePackets(t, nodes[3].awaitPackets(t, up, 1), []zab.Packet{ack(1)})
	close(block)
}

// A peer that reads slowly, with small buffers, still gets everything in order:
// the part that the socket does not take is left to the writer.
func TestPartialWrites(t *testing.T) {
	rnd := rand.New(rand.NewPCG(11, 12))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	n := start(t, Options{ID: 1, Peers: map[int64][]Address{1: {{"127.0.0.1", 1, 2}}, 2: {{"127.0.0.1", port, 1}}}})
	id := n.Dial(2, false)
	nc, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if err := nc.(*net.TCPConn).SetReadBuffer(64 << 10); err != nil {
		t.Fatal(err)
	}
	want := randomPackets(rnd, 1000)
	for rest := want; len(rest) > 0; {
		k := min(len(rest), 1+rnd.IntN(50))
		n.Send(id, rest[:k])
		rest = rest[k:]
	}
	in := newInput(io.LimitReader(nc, int64(len(encode(want)))))
	comparePackets(t, readAll(t, in, testLimit), want)
}

// A long run is sent piece by piece, in order with what comes before and behind.
func TestLongRun(t *testing.T) {
	leader, learner, down, up := linked(t)
	var want []zab.Packet
	data := make([]byte, 1<<10)
	for z := range zk.Zxid(4 * pieceBytes / zk.Zxid(len(data))) {
		want = append(want, proposal(z+1, data))
	}
	want = append(want, ack(0))
	for range 3 {
		leader.Send(down, want)
	}
	got := learner.awaitPackets(t, up, 3*len(want))
	comparePackets(t, got, slices.Concat(want, want, want))
}

// A link on a connection that is no socket is written to by its writer alone,
// and ends as any other.
func TestLinkWithoutSocket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemNet()
		leader, learner := m.start(t, 1, 2), m.start(t, 2, 2)
		up := learner.Dial(1, false)
		for z := zk.Zxid(1); z <= 5; z++ {
			learner.Send(up, []zab.Packet{ack(z)})
		}
		synctest.Wait()
		down := leader.came()[0]
		comparePackets(t, leader.got(down), []zab.Packet{ack(1), ack(2), ack(3), ack(4), ack(5)})
		leader.Send(down, []zab.Packet{ack(6)})
		learner.CloseLink(up, errors.New("over"))
		synctest.Wait()
		if err := learner.whyEnded(up); err == nil || err.Error() != "over" {
			t.Errorf("the learner's end ended with %v", err)
		}
		if err := leader.whyEnded(down); err == nil {
			t.Error("the leader's end lives on")
		}
		if leader.Progress(down) != 0 {
			t.Error("a link that has ended makes progress")
		}
		leader.Send(down, []zab.Packet{ack(7)}) // to nobody
		leader.CloseLink(down, nil)
	})
}

func TestCloseLinkWithoutReason(t *testing.T) {
	leader, learner, down, up := linked(t)
	leader.CloseLink(down, nil)
	if err := leader.awaitEnd(t, down); err == nil {
		t.Error("no reason is no error")
	}
	if err := learner.awaitEnd(t, up); !strings.Contains(err.Error(), "closed") && !strings.Contains(err.Error(), "reset") {
		t.Errorf("the other end ended with %v", err)
	}
}

// Close ends every link with ErrClosed and leaves nothing running, whatever
// the links are doing.
func TestCloseUnderLoad(t *testing.T) {
	nodes := startTCP(t, []int64{1, 2, 3})
	for id := int64(2); id <= 3; id++ {
		nodes[id].Dial(1, false)
		nodes[id].Notify(1, []byte("vote"))
		nodes[1].Notify(id, []byte("vote"))
	}
	nodes[1].awaitLink(t, 1)
	links := nodes[1].came()
	nodes[2].Dial(7, false)
	stop := make(chan struct{})
	sender := make(chan struct{})
	go func() {
		defer close(sender)
		for {
			select {
			case <-stop:
				return
			default:
			}
			for _, l := range links {
				nodes[1].Send(l, []zab.Packet{proposal(1, make([]byte, 1000)), ack(1)})
				nodes[1].Stream(l, func(w io.Writer) error { _, err := w.Write(AppendPacket(nil, ack(2))); return err })
			}
			nodes[1].Notify(2, []byte("vote"))
		}
	}()
	nodes[2].awaitPackets(t, nodes[2].awaitLink(t, 0), 1000)
	for _, n := range nodes {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		checkGone(t, n)
	}
	close(stop)
	<-sender
	if id := nodes[1].Dial(2, false); id != 0 {
		t.Errorf("Dial after Close returned %d", id)
	}
	nodes[1].Notify(2, []byte("x"))
	if err := nodes[1].Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
}

// checkGone fails unless every link that came up has ended.
func checkGone(t *testing.T, n *node) {
	t.Helper()
	for _, l := range n.came() {
		if n.whyEnded(l) == nil {
			t.Errorf("link %d has not ended", l)
		}
	}
	if len(n.Transport.mu.links) > 0 {
		t.Errorf("%d links are in the table", len(n.Transport.mu.links))
	}
}

// What is no peer is refused with one line that says who and why, and the
// learner beside it goes on.
func TestGarbageOnTheQuorumPort(t *testing.T) {
	nodes := startTCP(t, []int64{1, 2})
	leader := nodes[1]
	up := nodes[2].Dial(1, false)
	down := leader.awaitLink(t, 0)
	port, _ := leader.Addrs()
	for i, tt := range []struct{ name, sent, why string }{
		{"HTTP", "GET / HTTP/1.1\r\n\r\n", "packet type 1195725856"},
		{"a TLS hello", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "neither sslQuorum nor portUnification is set"},
		{"a client", "\x00\x00\x00\x2d\x00\x00\x00\x00", "packet type 45"},
		{"an election peer", string(leader.mu.hello), "packet type -1"},
		{"giant data", "\x00\x00\x00\x0b\x00\x00\x00\x00\x00\x00\x00\x00\x7f\xff\xff\xff", "FOLLOWERINFO with 2147483647 bytes of data"},
		{"giant identities", "\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\x7f\xff\xff\xff", "REQUEST with 2147483647 identities"},
		{"a snapshot", string(encode([]zab.Packet{{Type: zab.Snap}})) + signature, "a SNAP from a learner"},
	} {
		nc, err := net.Dial("tcp", port[0].String())
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		if _, err := io.WriteString(nc, tt.sent); err != nil {
			t.Fatal(err)
		}
		if err := leader.awaitEnd(t, leader.awaitLink(t, 1+i)); !errors.Is(err, ErrPacket) {
			t.Errorf("%s: the link ended with %v", tt.name, err)
		}
		if _, err := nc.Read(make([]byte, 1)); err == nil {
			t.Errorf("%s: it is answered", tt.name)
		}
		lines := leader.logged.refusals()
		if len(lines) != i+1 || !strings.Contains(lines[i], tt.why) || !strings.Contains(lines[i], nc.LocalAddr().String()) {
			t.Errorf("%s: the log says %q", tt.name, lines)
		}
	}
	leader.Send(down, []zab.Packet{ack(1)})
	comparePackets(t, nodes[2].awaitPackets(t, up, 1), []zab.Packet{ack(1)})
}

// Who connects to the quorum port has to say something in time; once a packet
// has come, time is the handler's matter.
func TestSilentLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemNet()
		n := m.start(t, 1, 2)
		began := time.Now()
		m.connect(t, quorumAddr(1))
		half := m.connect(t, quorumAddr(1))
		half.Write(AppendPacket(nil, ack(1))[:19])
		spoken := m.connect(t, quorumAddr(1))
		spoken.Write(AppendPacket(nil, ack(1)))
		time.Sleep(n.Options().HandshakeTimeout - time.Millisecond)
		synctest.Wait()
		if n.openLinks() != 3 {
			t.Errorf("%d links are open after %v", n.openLinks(), time.Since(began))
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		for _, l := range n.came() {
			silent := len(n.got(l)) == 0
			if err := n.whyEnded(l); silent != errors.Is(err, ErrSilent) {
				t.Errorf("link %d ended with %v", l, err)
			}
		}
		if len(n.came()) != 3 || len(n.logged.refusals()) != 2 {
			t.Errorf("%d links, the log says %q", len(n.came()), n.logged.refusals())
		}
	})
}

// info is the first packet of a learner.
func info(t zab.PacketType, id int64) zab.Packet {
	data := binary.BigEndian.AppendUint64(nil, uint64(id))
	return zab.Packet{Type: t, Data: binary.BigEndian.AppendUint32(data, zab.ProtocolVersion)}
}

// The number of accepted links is bounded: of those that have said nothing the oldest
// makes room, and one that has said more keeps its place.
func TestCrowdedQuorumPort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemNet()
		n := m.start(t, 1, 3)
		learner := m.connect(t, quorumAddr(1))
		learner.Write(AppendPacket(nil, info(zab.ObserverInfo, 77)))
		learner.Write(AppendPacket(nil, ack(1)))
		synctest.Wait()
		for range 3 * maxSilent {
			m.connect(t, quorumAddr(1))
			synctest.Wait()
		}
		links := slices.Sorted(slices.Values(n.came())) // in the order of admission
		if len(links) != 1+3*maxSilent || n.openLinks() != 1+maxSilent {
			t.Errorf("%d of %d links are open, the limit is %d", n.openLinks(), len(links), maxSilent)
		}
		if err := n.whyEnded(links[1]); !errors.Is(err, ErrCrowded) {
			t.Errorf("the oldest that is silent ended with %v", err)
		}
		for range 3 * maxUnknown {
			m.connect(t, quorumAddr(1)).Write(AppendPacket(nil, ack(1)))
			synctest.Wait()
		}
		if open := n.openLinks(); open > maxSilent+maxUnknown {
			t.Errorf("%d links are open", open)
		}
		if err := n.whyEnded(links[0]); err != nil {
			t.Errorf("the one that has said more ended with %v", err)
		}
	})
}

// When the quorum port is full, the oldest link of the address with the most of them makes room:
// that of another address, which was there before all of them and is slow, stays.
func TestCrowdOfOneAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemNet()
		n := m.start(t, 1, 3)
		slow, err := m.dialFrom(t.Context(), "10.8.8.8", quorumAddr(1))
		if err != nil {
			t.Fatal(err)
		}
		defer slow.Close()
		synctest.Wait()
		for range 2 * maxSilent {
			m.connect(t, quorumAddr(1))
			synctest.Wait()
		}
		links := slices.Sorted(slices.Values(n.came())) // in the order of admission
		if err := n.whyEnded(links[0]); err != nil {
			t.Errorf("the slow one ended with %v", err)
		}
		if err := n.whyEnded(links[1]); !errors.Is(err, ErrCrowded) {
			t.Errorf("the oldest one of the others ended with %v", err)
		}
		if open := n.openLinks(); open != maxSilent {
			t.Errorf("%d links are open, the limit is %d", open, maxSilent)
		}
	})
}

// Servers of the configuration get in whatever strangers do; strangers that say that they
// are such a server take no more than its places.
func TestPlacesOfMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemNet()
		n := m.start(t, 1, 3)
		say := func(p zab.Packet, more ...zab.Packet) (z zab.LinkID) {
			t.Helper()
			nc := m.connect(t, quorumAddr(1))
			nc.Write(AppendPacket(nil, p))
			for _, p := range more {
				nc.Write(AppendPacket(nil, p))
			}
			synctest.Wait()
			return slices.Max(n.came())
		}
		settled := zab.Packet{Type: zab.AckEpoch, Data: make([]byte, 4)}
		for i := range 300 {
			say(info(zab.ObserverInfo, int64(100+i)), settled)
		}
		if open := n.openLinks(); open != maxUnknown {
			t.Errorf("strangers have %d links, the limit is %d", open, maxUnknown)
		}
		follower := say(info(zab.FollowerInfo, 2), settled)
		if err := n.whyEnded(follower); err != nil {
			t.Fatalf("a follower is refused: %v", err)
		}
		for range 50 {
			say(info(zab.FollowerInfo, 2))
		}
		if open := n.openLinks(); open != maxUnknown+maxPerMember {
			t.Errorf("%d links are open", open)
		}
		if err := n.whyEnded(follower); err != nil {
			t.Errorf("the follower is pushed out: %v", err)
		}
		if other := say(info(zab.ObserverInfo, 3)); n.whyEnded(other) != nil {
			t.Errorf("another member is refused: %v", n.whyEnded(other))
		}
	})
}

// What is sent to learners that take nothing is there once, however many they are; each
// gets all of it, in order, when it reads. An observer is given up before a follower.
func TestSlowLearnersShareWhatIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemNet()
		n := m.start(t, 1, 3, func(o *Options) { o.MaxQueueBytes = 64 << 20 })
		const learners, packets, size = 20, 24, 1 << 20
		var conns []net.Conn
		for i := range learners {
			nc := m.connect(t, quorumAddr(1))
			nc.Write(AppendPacket(nil, info(zab.ObserverInfo, int64(100+i))))
			synctest.Wait()
			conns = append(conns, nc)
		}
		follower := m.connect(t, quorumAddr(1))
		follower.Write(AppendPacket(nil, info(zab.FollowerInfo, 2)))
		synctest.Wait()
		links := slices.Sorted(slices.Values(n.came()))
		before := heapBytes()
		sent := 0
		send := func() {
			p := zab.Packet{Type: zab.Proposal, Zxid: zk.Zxid(sent), Data: make([]byte, size)}
			binary.BigEndian.PutUint64(p.Data, uint64(sent))
			for _, l := range links {
				n.Send(l, []zab.Packet{p})
			}
			sent++
		}
		for range packets {
			send()
		}
		synctest.Wait()
		// One copy, and what the writer of each link has in hand.
		if grown := heapBytes() - before; grown > packets*size+3*(learners+1)*size+2*queueAfter {
			t.Errorf("%d bytes are held for %d learners, %d were sent", grown, learners, packets*size)
		}
		for _, nc := range conns[:3] {
			r := bufio.NewReader(nc)
			for i := range packets {
				b := make([]byte, emptyPacket+size)
				if _, err := io.ReadFull(r, b); err != nil {
					t.Fatal(err)
				}
				p, _, err := DecodePacket(b, size)
				if err != nil || int(binary.BigEndian.Uint64(p.Data)) != i {
					t.Fatalf("packet %d is %v, %v", i, p, err)
				}
			}
		}
		for n.whyEnded(links[learners-1]) == nil && sent < 200 {
			send()
			synctest.Wait()
		}
		if err := n.whyEnded(links[learners-1]); !errors.Is(err, ErrSlow) || n.whyEnded(links[learners]) != nil {
			t.Errorf("an observer ended with %v, the follower with %v", err, n.whyEnded(links[learners]))
		}
	})
}

// Packets without data that links queue are bounded for all links together. The links that
// have queued most end first; a link that has queued little stays.
func TestQueuedPacketsOfAllLinksAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemNet()
		const limit, learners = 32 << 20, 12
		n := m.start(t, 1, 3, func(o *Options) { o.MaxQueueBytes = limit })
		for i := range learners {
			m.connect(t, quorumAddr(1)).Write(AppendPacket(nil, info(zab.ObserverInfo, int64(100+i))))
			synctest.Wait()
		}
		m.connect(t, quorumAddr(1)).Write(AppendPacket(nil, info(zab.FollowerInfo, 2)))
		synctest.Wait()
		links := slices.Sorted(slices.Values(n.came()))
		follower := links[learners]
		n.Send(follower, []zab.Packet{{Type: zab.Proposal, Data: make([]byte, 2*queueAfter)}})
		before := heapBytes()
		commits := make([]zab.Packet, 1000)
		for i := range commits {
			commits[i] = zab.Packet{Type: zab.Commit, Zxid: zk.Zxid(i)}
		}
		ended := 0
		for round := range 400 {
			for _, l := range links[:learners] {
				n.Send(l, commits)
			}
			if round%100 == 0 {
				n.Send(follower, commits)
			}
			synctest.Wait()
			if used := n.backlog.others.Used(); used > limit/8 {
				t.Fatalf("%d bytes are queued, the limit is %d", used, limit/8)
			}
		}
		for _, l := range links[:learners] {
			if errors.Is(n.whyEnded(l), ErrSlow) {
				ended++
			}
		}
		if n.whyEnded(follower) != nil || ended < learners/2 {
			t.Errorf("%d of %d slow observers have ended; the follower with %v", ended, learners, n.whyEnded(follower))
		}
		if grown := heapBytes() - before; grown > limit/8+learners*64<<10+(learners+1)*4*queueAfter {
			t.Errorf("%d bytes are held, the limit is %d", grown, limit/8)
		}
	})
}

// Small packets take no more memory in the queue than their encoding, and their data is
// the caller's again: a follower that was paused while very many small writes were
// committed finds its link, and all of them in order.
func TestSmallPacketsAreQueuedEncoded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemNet()
		const limit, txns, run = 16 << 20, 60_000, 500
		n := m.start(t, 1, 3, func(o *Options) { o.MaxQueueBytes = limit })
		nc := m.connect(t, quorumAddr(1))
		nc.Write(AppendPacket(nil, info(zab.FollowerInfo, 2)))
		synctest.Wait()
		follower := n.came()[0]
		n.Send(follower, []zab.Packet{{Type: zab.Proposal, Data: make([]byte, 2*queueAfter)}})
		synctest.Wait()
		before := heapBytes()
		data := make([]byte, 40)
		var ps []zab.Packet
		for z := zk.Zxid(0); z < txns; z += run {
			ps = ps[:0]
			for i := z; i < z+run; i++ {
				ps = append(ps, zab.Packet{Type: zab.Proposal, Zxid: i, Data: data})
			}
			for i := z; i < z+run; i++ {
				ps = append(ps, zab.Packet{Type: zab.Commit, Zxid: i})
			}
			binary.BigEndian.PutUint64(data, uint64(z)) // it is used again
			if n.Send(follower, ps) {
				t.Fatal("the queue keeps the data of small packets")
			}
		}
		synctest.Wait()
		if err := n.whyEnded(follower); err != nil {
			t.Fatalf("%d transactions end the link: %v", txns, err)
		}
		if grown := heapBytes() - before; grown > limit {
			t.Errorf("%d bytes are held, the limit is %d", grown, limit)
		}
		r := bufio.NewReader(nc)
		if _, err := r.Discard(emptyPacket + 2*queueAfter); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, run*(2*emptyPacket+len(data)))
		for z := zk.Zxid(0); z < txns; z += run {
			if _, err := io.ReadFull(r, b); err != nil {
				t.Fatal(err)
			}
			p, size, err := DecodePacket(b, limit)
			if err != nil || p.Type != zab.Proposal || p.Zxid != z || binary.BigEndian.Uint64(p.Data) != uint64(z) {
				t.Fatalf("%v instead of the proposal %v: %v", p, z, err)
			}
			p, _, err = DecodePacket(b[run*size:], limit)
			if err != nil || p.Type != zab.Commit || p.Zxid != z {
				t.Fatalf("%v instead of the commit of %v: %v", p, z, err)
			}
		}
	})
}

// heapBytes is what is in use.
func heapBytes() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
