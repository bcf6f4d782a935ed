package transport

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/peerauth"
	"github.com/pinfold-zk/pinfold/internal/sasl"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/test/certs"
)

// bob is the account of all servers.
func bob(password string) func() (string, string) {
	return func() (string, string) { return "bob", password }
}

// logins has a server log in with a password, and others with the right one.
func logins(password string, learner, server bool) func(*Options) {
	return func(o *Options) {
		o.Authority = peerauth.New(peerauth.Options{
			LearnerRequired: learner, ServerRequired: server,
			Learner: peerauth.DigestLearner(bob(password)),
			Server:  peerauth.DigestServer(sasl.NewServer(sasl.PeerProtocol, sasl.PeerServerName, sasl.Users{"bob": "secret"}).Begin),
		})
	}
}

// An ensemble in which logins are rolled out, a step at a time: on both ports, in both
// directions, every server understands every other one, and those that must log in do.
func TestLoginsRollOut(t *testing.T) {
	none := func(*Options) {}
	steps := []func(*Options){none, logins("secret", false, false), logins("secret", true, false), logins("secret", true, true)}
	for i, first := range steps {
		for j, second := range steps {
			if i > j+1 || j > i+1 {
				continue // no ensemble has servers that are two steps apart
			}
			synctest.Test(t, func(t *testing.T) {
				m := newMemNet()
				one, two := m.start(t, 1, 2, first), m.start(t, 2, 2, second)
				linkedBoth(t, one, two)
				for _, n := range []*node{one, two} {
					if lines := n.logged.refusals(); len(lines) > 0 {
						t.Errorf("steps %d and %d: refused: %q", i, j, lines)
					}
				}
			})
		}
	}
}

// linkedBoth has two servers exchange packets and notifications, whichever dials.
func linkedBoth(t *testing.T, one, two *node) {
	t.Helper()
	for _, n := range []struct {
		from, to *node
		id       int64
	}{{one, two, 2}, {two, one, 1}} {
		l := n.from.Dial(n.id, false)
		n.from.Send(l, []zab.Packet{ack(7)})
		n.from.Notify(n.id, []byte("vote"))
		time.Sleep(3 * time.Second) // a server that is asked to connect may be asked twice
		synctest.Wait()
		links := n.to.came()
		if err := n.from.whyEnded(l); err != nil || len(links) == 0 {
			t.Errorf("to %d: no link: %v; %q", n.id, err, n.to.logged.refusals())
			continue
		}
		comparePackets(t, n.to.got(links[len(links)-1]), []zab.Packet{ack(7)})
		if got := n.to.heard(3 - n.id); len(got) == 0 {
			t.Errorf("to %d: no notification; %q", n.id, n.to.logged.refusals())
		}
	}
}

// The host of a server at which this one logs in is the last one of its server line, as in Apache, on both
// ports, whichever address it has connected to.
func TestLoginHostIsTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemNet()
		var mu sync.Mutex
		hosts := map[string]int{}
		m.start(t, 1, 2, logins("secret", true, true))
		two := m.start(t, 2, 2, func(o *Options) {
			o.Peers[1] = append(o.Peers[1], Address{"10.0.0.9", 2888, 3888})
			o.Authority = peerauth.New(peerauth.Options{
				LearnerRequired: true,
				Learner: func(ctx context.Context, host string) (peerauth.Learner, error) {
					mu.Lock()
					defer mu.Unlock()
					hosts[host]++
					return peerauth.DigestLearner(bob("secret"))(ctx, host)
				},
				Server: peerauth.DigestServer(sasl.NewServer(sasl.PeerProtocol, sasl.PeerServerName, sasl.Users{"bob": "secret"}).Begin),
			})
		})
		two.Dial(1, false)
		two.Notify(1, []byte("vote"))
		time.Sleep(3 * time.Second)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if len(hosts) != 1 || hosts["10.0.0.9"] < 2 {
			t.Errorf("logins by host: %v", hosts)
		}
	})
}

// A server with the wrong password gets nowhere: no link, no notification, and a line
// that says what it did. Without a login, the same.
func TestLoginsThatFail(t *testing.T) {
	for name, c := range map[string]struct {
		second func(*Options)
		want   string
	}{
		"wrong password": {logins("wrong", true, true), `wrong password of user \"bob\"`},
		"no login":       {logins("secret", false, false), "quorum.auth.learnerRequireSasl=true"},
		"plain":          {func(*Options) {}, "quorum.auth.learnerRequireSasl=true"},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := newMemNet()
			one, two := m.start(t, 1, 2, logins("secret", true, true)), m.start(t, 2, 2, c.second)
			l := two.Dial(1, false)
			two.Send(l, []zab.Packet{ack(7)})
			two.Notify(1, []byte("vote"))
			time.Sleep(5 * time.Second)
			synctest.Wait()
			if two.whyEnded(l) == nil || len(one.came()) > 0 || one.count("down") > 0 {
				t.Errorf("%s: link: %v, %q", name, two.whyEnded(l), one.take())
			}
			if got := one.heard(2); len(got) > 0 || one.count("peer 2 up") > 0 {
				t.Errorf("%s: notifications %q", name, got)
			}
			lines := strings.Join(one.logged.refusals(), "\n")
			for _, port := range []string{"election port", "quorum port"} {
				if !slices.ContainsFunc(one.logged.refusals(), func(l string) bool { return strings.Contains(l, port) && strings.Contains(l, c.want) }) {
					t.Errorf("%s: no line of the %s: %s", name, port, lines)
				}
			}
			if strings.Contains(lines, "secret") {
				t.Errorf("%s: a password is in the log: %s", name, lines)
			}
		})
	}
}

// A server that must log in says nothing to one that does without: to its own ports no
// packet and no notification comes.
func TestLoginIsDemandedOfTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemNet()
		one, two := m.start(t, 1, 2), m.start(t, 2, 2, logins("secret", true, true))
		l := two.Dial(1, false)
		two.Send(l, []zab.Packet{ack(7)})
		two.Notify(1, []byte("vote"))
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if err := two.whyEnded(l); !errors.Is(err, peerauth.ErrRefused) {
			t.Errorf("the link ends with %v", err)
		}
		for _, link := range one.came() {
			if got := one.got(link); len(got) > 0 {
				t.Errorf("packets %v", got)
			}
		}
		if got := one.heard(2); len(got) > 0 {
			t.Errorf("notifications %q", got)
		}
		if lines := one.logged.refusals(); !slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, "quorum.auth.enableSasl") }) {
			t.Errorf("no line names the setting: %q", lines)
		}
	})
}

// Connections that stop in the middle of a login are closed after the time of a first
// packet, and those of one address give way to each other: a member gets in beside them.
func TestUnfinishedLoginsGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemNet()
		one := m.start(t, 1, 2, logins("secret", true, true))
		member := func(address string) net.Conn {
			nc, err := m.dialFrom(t.Context(), "10.0.0.2", address)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { nc.Close() })
			return nc
		}
		greeting, link := member(electionAddr(1)), member(quorumAddr(1))
		synctest.Wait()
		login := binary.BigEndian.AppendUint64(nil, 0x5F2435013501EDCC)
		hello := append(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, 1<<64-65536), 9), "\x00\x00\x00\x0c10.9.9.9:388"...)
		for range 2 * maxGreetings {
			for address, first := range map[string][]byte{electionAddr(1): slices.Concat(hello, login), quorumAddr(1): login} {
				nc := m.connect(t, address)
				if _, err := nc.Write(first); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
			}
		}
		for _, nc := range []net.Conn{greeting, link} {
			if _, err := nc.Write([]byte{0}); err != nil {
				t.Errorf("a connection of a member was closed: %v", err)
			}
		}
		time.Sleep(one.Options().HandshakeTimeout + time.Second)
		synctest.Wait()
		if len(one.came()) > 0 {
			t.Errorf("links came up: %v", one.came())
		}
		one.mu.RLock()
		defer one.mu.RUnlock()
		if len(one.mu.greetings)+len(one.mu.links) > 0 {
			t.Errorf("%d greetings and %d links are left", len(one.mu.greetings), len(one.mu.links))
		}
	})
}

// A login that hangs does not keep Close waiting, on either port.
func TestCloseDuringALogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemNet()
		silent := func(address string) {
			l, err := m.listen(address)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
			go func() {
				for {
					nc, err := l.Accept()
					if err != nil {
						return
					}
					t.Cleanup(func() { nc.Close() })
					go func() { _, _ = io.Copy(io.Discard, nc) }() // until it is closed
				}
			}()
		}
		silent(quorumAddr(1))
		silent(electionAddr(1))
		two := m.start(t, 2, 2, logins("secret", true, true))
		l := two.Dial(1, false)
		two.Notify(1, []byte("vote"))
		synctest.Wait()
		began := time.Now()
		if err := two.Close(); err != nil {
			t.Error(err)
		}
		if d := time.Since(began); d > 0 || two.whyEnded(l) != ErrClosed {
			t.Errorf("Close took %v, the link ended with %v", d, two.whyEnded(l))
		}
	})
}

// A stranger that asks this server to connect is shown no login, unless it has logged in.
func TestNoLoginForStrangers(t *testing.T) {
	for _, server := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m := newMemNet()
			two := m.start(t, 2, 2, logins("secret", true, server))
			l, err := m.listen("10.9.9.9:3888")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			nc := m.connect(t, electionAddr(2))
			hello := append(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, 1<<64-65536), 0), "\x00\x00\x00\x0d10.9.9.9:3888"...)
			if _, err := nc.Write(hello); err != nil {
				t.Fatal(err)
			}
			if server {
				a := peerauth.New(peerauth.Options{LearnerRequired: true, Learner: peerauth.DigestLearner(bob("secret"))})
				if err := a.Prove(t.Context(), nc, nc, "10.0.0.2"); err != nil {
					t.Fatal(err)
				}
			}
			nc.Close()
			back, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer back.Close()
			two.Notify(0, []byte("vote"))
			if _, err := readHello(back); err != nil {
				t.Fatal(err)
			}
			var head [8]byte
			if _, err := io.ReadFull(back, head[:]); err != nil {
				t.Fatal(err)
			}
			if got := peerauth.IsLogin(head[:]); got != server {
				t.Errorf("login of the stranger required %v: it is shown one: %v, %x", server, got, head)
			}
		})
	}
}

// Logins take place within TLS, on both ports: those that succeed, those that fail, and
// those that do not come from a peer with nothing to say.
func TestLoginsWithinTLS(t *testing.T) {
	for name, login := range map[string]func(*Options){"enabled": logins("secret", false, false), "required": logins("secret", true, true)} {
		t.Run(name, func(t *testing.T) {
			nodes := startTCP(t, []int64{1, 2}, withTLS(t, certs.New(t, "authority"), nil), login)
			leader, learner := nodes[1], nodes[2]
			learner.Send(learner.Dial(1, false), []zab.Packet{followerInfo(2), ack(1)})
			comparePackets(t, leader.awaitPackets(t, leader.awaitLink(t, 0), 2), []zab.Packet{followerInfo(2), ack(1)})
			leader.Notify(2, []byte("from 1"))
			learner.await(t, "the notification of 1", func() bool { return len(learner.notes[1]) > 0 })
			learner.Notify(1, []byte("from 2"))
			leader.await(t, "the notification of 2", func() bool { return len(leader.notes[2]) > 0 })
		})
	}
	t.Run("wrong password", func(t *testing.T) {
		nodes := startTCP(t, []int64{1, 2}, withTLS(t, certs.New(t, "authority"), nil), func(o *Options) {
			logins(map[int64]string{1: "secret", 2: "wrong"}[o.ID], true, true)(o)
		})
		if err := nodes[2].awaitEnd(t, nodes[2].Dial(1, false)); !errors.Is(err, peerauth.ErrRefused) {
			t.Errorf("the link has ended with %v", err)
		}
		if links := nodes[1].came(); len(links) > 0 {
			t.Errorf("links %v came up", links)
		}
	})
}
