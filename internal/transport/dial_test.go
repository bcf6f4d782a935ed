package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/zab"
)

// A leader that does not listen yet is tried again after growing pauses, until
// it does.
func TestDialWaitsForTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemNet()
		n := m.start(t, 2, 2)
		began := time.Now()
		l := n.Dial(1, false)
		time.Sleep(400 * time.Millisecond)
		synctest.Wait()
		at := m.dialed(quorumAddr(1))
		var since []int64
		for _, when := range at {
			since = append(since, when.Sub(began).Milliseconds())
		}
		want := []int64{0, 20, 60, 140, 240, 340}
		if len(since) != len(want) {
			t.Fatalf("attempts at %v ms, want %v", since, want)
		}
		for i := range want {
			if since[i] != want[i] {
				t.Fatalf("attempts at %v ms, want %v", since, want)
			}
		}
		leader := m.start(t, 1, 2)
		time.Sleep(n.Options().RetryDelay)
		synctest.Wait()
		if links := n.came(); len(links) != 1 || links[0] != l || len(leader.came()) != 1 {
			t.Errorf("links %v and %v", links, leader.came())
		}
	})
}

// The pauses between attempts grow up to RetryDelay (leaderConnectDelayDuringRetryMs).
func TestRetryDelay(t *testing.T) {
	for delay, want := range map[time.Duration][]int64{
		300 * time.Millisecond: {0, 20, 60, 140, 300, 600, 900},
		5 * time.Millisecond:   {0, 5, 10, 15, 20},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := newMemNet()
			n := m.start(t, 2, 2, func(o *Options) { o.RetryDelay = delay })
			began := time.Now()
			n.Dial(1, false)
			time.Sleep(time.Duration(want[len(want)-1]) * time.Millisecond)
			synctest.Wait()
			var since []int64
			for _, when := range m.dialed(quorumAddr(1)) {
				since = append(since, when.Sub(began).Milliseconds())
			}
			if !slices.Equal(since, want) {
				t.Errorf("delay %v: attempts at %v ms, want %v", delay, since, want)
			}
		})
	}
}

// The budget ends the attempts, and the reason is what the last one met.
func TestDialBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemNet()
		n := m.start(t, 2, 3, func(o *Options) { o.DialBudget = 3 * time.Second })
		m.setBlackhole(quorumAddr(3))
		began := time.Now()
		refused, lost, unknown := n.Dial(1, false), n.Dial(3, false), n.Dial(9, false)
		synctest.Wait()
		if err := n.whyEnded(unknown); !errors.Is(err, ErrUnknown) {
			t.Errorf("an unknown server: %v", err)
		}
		for n.whyEnded(refused) == nil || n.whyEnded(lost) == nil {
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
		}
		if d := time.Since(began); d > 3100*time.Millisecond {
			t.Errorf("it took %v", d)
		}
		if err := n.whyEnded(refused); !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("a server that refuses: %v", err)
		}
		if err := n.whyEnded(lost); !strings.Contains(err.Error(), "deadline exceeded") {
			t.Errorf("a server that does not answer: %v", err)
		}
		if links := n.came(); len(links) > 0 {
			t.Errorf("links %v came up", links)
		}
	})
}

func TestCloseLinkWhileDialing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemNet()
		n := m.start(t, 2, 2)
		m.setBlackhole(quorumAddr(1))
		l := n.Dial(1, false)
		time.Sleep(time.Second)
		reason := errors.New("another leader was elected")
		n.CloseLink(l, reason)
		synctest.Wait()
		if err := n.whyEnded(l); err != reason {
			t.Errorf("ended with %v", err)
		}
		second := n.Dial(1, false)
		synctest.Wait()
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		if err := n.whyEnded(second); err != ErrClosed {
			t.Errorf("Close ended it with %v", err)
		}
	})
}

// All addresses of a server are tried at once: one that does not answer delays
// nothing, and of two that answer one is kept.
func TestDialTriesAllAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemNet()
		leader := m.start(t, 1, 2, func(o *Options) {
			o.QuorumListen = []string{"10.0.1.1:2888", "10.0.1.2:2888"}
		})
		m.setName("leader", "10.0.1.9", "10.0.1.2")
		m.setBlackhole("10.0.1.9:2888")
		n := m.start(t, 2, 2, func(o *Options) {
			o.Peers[1] = []Address{{"10.0.1.8", 2888, 3888}, {"10.0.1.1", 2888, 3888}, {"leader", 2888, 3888}, {"nobody", 2888, 3888}}
		})
		began := time.Now()
		l := n.Dial(1, false)
		synctest.Wait()
		if links := n.came(); len(links) != 1 || links[0] != l || !time.Now().Equal(began) {
			t.Errorf("links %v after %v", links, time.Since(began))
		}
		n.Send(l, []zab.Packet{ack(1)})
		time.Sleep(time.Hour)
		synctest.Wait()
		if leader.openLinks() != 1 {
			t.Errorf("the leader has %d links", leader.openLinks())
		}
	})
}

// A name is resolved again at every attempt: a server that comes back may have
// another address.
func TestDialResolvesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemNet()
		m.setName("leader", "10.0.7.7")
		n := m.start(t, 2, 2, func(o *Options) { o.Peers[1] = []Address{{"leader", 2888, 3888}} })
		n.Dial(1, false)
		time.Sleep(time.Second)
		synctest.Wait()
		if n.came() != nil || m.lookedUp() != len(m.dialed("10.0.7.7:2888")) {
			t.Error("not every attempt has resolved the name")
		}
		m.start(t, 1, 2)
		m.setName("leader", "10.0.0.1")
		time.Sleep(n.Options().RetryDelay)
		synctest.Wait()
		if len(n.came()) != 1 {
			t.Error("the new address is not used")
		}
	})
}

// A server whose name does not resolve here is dialled at the address from which it has
// connected itself, whichever of the two makes the election link; and, once its name
// resolves, only where that leads.
func TestDialWhereThePeerIs(t *testing.T) {
	for _, ids := range [][2]int64{{1, 2}, {2, 1}} {
		t.Run(fmt.Sprintf("%d is unresolved at %d", ids[0], ids[1]), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				leader, learner := ids[0], ids[1]
				m := newMemNet()
				at := func(id int64) func(*Options) {
					host := fmt.Sprintf("10.0.0.%d", id)
					return func(o *Options) {
						o.Dial = func(ctx context.Context, address string) (net.Conn, error) { return m.dialFrom(ctx, host, address) }
					}
				}
				n := m.start(t, learner, 2, at(learner), func(o *Options) { o.Peers[leader] = []Address{{"leader", 2888, 3888}} })
				n.Notify(leader, []byte("a vote"))
				n.Dial(leader, false)
				time.Sleep(time.Second)
				synctest.Wait()
				if len(n.came()) != 0 {
					t.Fatal("a server is reached without an address")
				}
				l := m.start(t, leader, 2, at(leader))
				l.Notify(learner, []byte("a vote"))
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if len(n.came()) != 1 || n.heard(leader) == nil || l.heard(learner) == nil {
					t.Errorf("links %v, heard %q and %q", n.came(), n.heard(leader), l.heard(learner))
				}
				m.setName("leader", "10.0.7.7")
				m.dialed("")
				n.Dial(leader, false)
				time.Sleep(time.Second)
				synctest.Wait()
				if len(m.dialed("10.0.0.1:2888")) != 0 || len(n.came()) != 1 {
					t.Error("the last address is dialled although the name resolves")
				}
			})
		})
	}
}

// What dials its own port while nobody listens may meet itself.
func TestSelfConnected(t *testing.T) {
	m := newMemNet()
	l, err := m.listen("10.0.0.1:2888")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	nc, err := m.dial(t.Context(), "10.0.0.1:2888")
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if selfConnected(nc) {
		t.Error("two ends are taken for one")
	}
	c := nc.(memConn)
	c.local = c.remote
	if !selfConnected(c) {
		t.Error("one end is taken for two")
	}
}

func TestStartErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemNet()
		first := m.start(t, 1, 2)
		began := time.Now()
		o := Options{ID: 2, Peers: memPeers(2), QuorumListen: []string{quorumAddr(2)}, ElectionListen: []string{electionAddr(1)}, Handler: newRecorder(), BindAttempts: 3}
		m.use(&o)
		tr, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := tr.Start(); err == nil || !strings.Contains(err.Error(), electionAddr(1)) {
			t.Errorf("Start on a port that is taken: %v", err)
		}
		if d := time.Since(began); d != 2*bindPause {
			t.Errorf("three attempts took %v", d)
		}
		if l, err := m.listen(quorumAddr(2)); err != nil {
			t.Errorf("the quorum port is still open: %v", err)
		} else {
			l.Close()
		}
		if err := first.Close(); err != nil {
			t.Error(err)
		}
		if err := tr.Start(); err != nil {
			t.Errorf("Start when the port is free: %v", err)
		}
		if q, e := tr.Addrs(); len(q) != 1 || len(e) != 1 || e[0].String() != electionAddr(1) {
			t.Errorf("listening on %v and %v", q, e)
		}
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := New(Options{}); err == nil {
		t.Error("a transport without a handler")
	}
	if _, err := New(Options{Handler: newRecorder()}); err == nil {
		t.Error("a transport without an address")
	}
}

// A port that stays taken is waited for without end if so configured, and Close
// ends that.
func TestCloseWhileStarting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemNet()
		m.start(t, 1, 2)
		o := Options{ID: 2, Peers: memPeers(2), QuorumListen: []string{quorumAddr(2), quorumAddr(1)}, Handler: newRecorder()}
		m.use(&o)
		tr, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		started := make(chan error)
		go func() { started <- tr.Start() }()
		time.Sleep(time.Hour)
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
		if err := <-started; err == nil {
			t.Error("Start has made something of it")
		}
		if l, err := m.listen(quorumAddr(2)); err != nil {
			t.Errorf("a port is open: %v", err)
		} else {
			l.Close()
		}
	})
}

// failing is a port on which the first accepts fail.
type failing struct {
	net.Listener
	left int
}

func (f *failing) Accept() (net.Conn, error) {
	if f.left--; f.left >= 0 {
		return nil, errors.New("too many open files")
	}
	return f.Listener.Accept()
}

// Without file descriptors nobody is accepted, and later is.
func TestAcceptFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemNet()
		n := m.start(t, 1, 2, func(o *Options) {
			o.Listen = func(address string) (net.Listener, error) {
				l, err := m.listen(address)
				return &failing{l, 3}, err
			}
		})
		m.connect(t, quorumAddr(1))
		time.Sleep(3*acceptPause - time.Millisecond)
		synctest.Wait()
		if k := len(n.came()); k > 0 {
			t.Errorf("%d links in spite of errors", k)
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if k := len(n.came()); k != 1 {
			t.Errorf("%d links after the errors", k)
		}
	})
}

// quorumListenOnAllIPs takes the ports alone, each once.
func TestListenOnAllIPs(t *testing.T) {
	var addresses []string
	m := newMemNet()
	start(t, Options{
		ID: 1, Peers: memPeers(1), ListenOnAllIPs: true,
		QuorumListen:   []string{"10.0.0.1:2888", "10.0.1.1:2888"},
		ElectionListen: []string{"[fe80::1]:3888"},
		Listen: func(address string) (net.Listener, error) {
			addresses = append(addresses, address)
			return m.listen("0.0.0.0" + address)
		},
	})
	if got := strings.Join(addresses, " "); got != ":2888 :3888" {
		t.Errorf("listening on %s", got)
	}
}

// A connection that is made at the moment when it is given up is closed; the attempt has
// failed, with a reason.
func TestDialSucceedsTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemNet()
		m.start(t, 1, 2)
		n := m.start(t, 2, 2, func(o *Options) {
			o.Dial = func(ctx context.Context, address string) (net.Conn, error) {
				<-ctx.Done()
				return m.dial(context.Background(), address)
			}
		})
		var links []zab.LinkID
		for range 50 { // which of the two comes first is decided at random
			links = append(links, n.Dial(1, false))
		}
		synctest.Wait()
		for _, l := range links {
			n.CloseLink(l, errors.New("another leader is elected"))
		}
		synctest.Wait()
		for _, l := range links {
			if n.whyEnded(l) == nil {
				t.Errorf("link %d has not ended", l)
			}
		}
	})
}
