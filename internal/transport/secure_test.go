package transport

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/tlsport"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/test/certs"
	"github.com/pinfold-zk/pinfold/zk"
)

// forHosts has a certificate name these hosts, and no other.
func forHosts(hosts ...string) func(*x509.Certificate) {
	return func(c *x509.Certificate) {
		c.DNSNames, c.IPAddresses = nil, nil
		for _, h := range hosts {
			if ip := net.ParseIP(h); ip != nil {
				c.IPAddresses = append(c.IPAddresses, ip)
			} else {
				c.DNSNames = append(c.DNSNames, h)
			}
		}
	}
}

// tlsPort is TLS with the certificate of own, for peers of an authority.
func tlsPort(t *testing.T, authority, own certs.Identity, clientAuth string) *tlsport.Port {
	t.Helper()
	port, err := tlsport.Open(config.TLS{
		KeyStore: config.Store{File: own.Store(t)}, TrustStore: config.Store{File: authority.Trust(t)}, ClientAuth: clientAuth,
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// host is the name of a server in these tests; it means loopback.
func host(id int64) string { return fmt.Sprintf("zk%d", id) }

// withTLS gives each server a name, a certificate for it, and TLS in both directions.
// change may differ from server to server.
func withTLS(t *testing.T, a certs.Identity, change func(id int64, e *Encryption)) func(*Options) {
	return func(o *Options) {
		peers := map[int64][]Address{}
		for id, list := range o.Peers {
			peers[id] = []Address{{host(id), list[0].QuorumPort, list[0].ElectionPort}}
		}
		o.Peers = peers
		o.Resolve = func(context.Context, string) ([]string, error) { return []string{"127.0.0.1"}, nil }
		o.Encryption = &Encryption{Port: tlsPort(t, a, a.Issue(t, "server", forHosts(host(o.ID))), "need"), Dial: true, Members: true, Hosts: true, ClientHosts: true}
		if change != nil {
			change(o.ID, o.Encryption)
		}
	}
}

func followerInfo(id int64) zab.Packet {
	return zab.Packet{Type: zab.FollowerInfo, Data: binary.BigEndian.AppendUint64(nil, uint64(id))}
}

// A learner link with TLS carries packets of any size in both directions, and a stream.
func TestLearnerLinkOverTLS(t *testing.T) {
	leader, learner, down, up := linked(t, withTLS(t, certs.New(t, "authority"), nil))
	big := make([]byte, 1<<20)
	if _, err := rand.Read(big); err != nil {
		t.Fatal(err)
	}
	want := []zab.Packet{followerInfo(2), ack(1), proposal(2, big), ack(3)}
	learner.Send(up, want)
	comparePackets(t, leader.awaitPackets(t, down, len(want)), want)

	tree := make([]byte, 3<<20)
	learner.guard.Lock()
	learner.snapshot = func(_ zab.LinkID, _ zk.Zxid, s SnapshotSource) error {
		for left := len(tree); left > 0; {
			b, err := s.Fill(1)
			if err != nil {
				return err
			}
			n := min(left, len(b))
			s.Discard(n)
			left -= n
		}
		return nil
	}
	learner.guard.Unlock()
	leader.Send(down, []zab.Packet{ack(4), {Type: zab.Snap, Zxid: 5}})
	leader.Stream(down, func(w io.Writer) error {
		_, err := io.WriteString(w, string(tree)+signature)
		return err
	})
	leader.Send(down, []zab.Packet{proposal(6, big)})
	want = []zab.Packet{ack(4), {Type: zab.Snap, Zxid: 5}, proposal(6, big)}
	comparePackets(t, learner.awaitPackets(t, up, len(want)), want)
}

// Election links with TLS are made by the larger id, also when the smaller one has
// something to say first, and carry notifications in both directions.
func TestElectionLinksOverTLS(t *testing.T) {
	nodes := startTCP(t, []int64{1, 2, 3}, withTLS(t, certs.New(t, "authority"), nil))
	for from, n := range nodes {
		for to := range nodes {
			n.Notify(to, fmt.Appendf(nil, "from %d", from))
		}
	}
	for id, n := range nodes {
		for from := range nodes {
			if from != id {
				n.await(t, fmt.Sprintf("the notification of %d to %d", from, id), func() bool { return len(n.notes[from]) > 0 })
			}
		}
	}
}

// visit connects to a port of a server as who, a stranger, does; nil is without TLS. It
// returns the server's line of refusal. message ends with what is none, so there is one.
func visit(t *testing.T, n *node, election bool, who *tls.Config, message []byte) string {
	t.Helper()
	ports, electionPorts := n.Addrs()
	if election {
		ports = electionPorts
	}
	before := len(n.logged.refusals())
	nc, err := net.Dial("tcp", ports[0].String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if who != nil {
		nc = tls.Client(nc, who)
	}
	_, _ = nc.Write(message) // it may be refused
	_ = nc.SetReadDeadline(time.Now().Add(90 * time.Second))
	if _, err := io.Copy(io.Discard, nc); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal("the connection is neither refused nor ended")
	}
	return strings.Join(n.logged.awaitRefusals(t, before+1)[before:], "\n")
}

// first is the first message of server id on a port, and one that is none: it ends the
// connection if the first one has not.
func first(id int64, election bool) []byte {
	if !election {
		return append(encode([]zab.Packet{followerInfo(id)}), 0xFF, 0xFF, 0xFF, 0xF0)
	}
	b := jute.AppendLong(nil, helloV1)
	b = jute.AppendLong(b, id)
	b = jute.AppendString(b, "127.0.0.1:1")
	return append(b, 0xFF, 0xFF, 0xFF, 0xF0)
}

// noMessage is why a connection ends whose first message was accepted.
func noMessage(election bool) string {
	if election {
		return "not a notification"
	}
	return "not a packet"
}

// A peer that is not who it says it is is refused on both ports, with a line that says
// why; the link of a learner beside it goes on.
func TestRefusedPeers(t *testing.T) {
	ours, other := certs.New(t, "authority"), certs.New(t, "authority")
	before := func(c *x509.Certificate) {
		c.NotBefore, c.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
	}
	after := func(c *x509.Certificate) {
		c.NotBefore, c.NotAfter = time.Now().Add(time.Hour), time.Now().Add(2*time.Hour)
	}
	of := func(who certs.Identity) *tls.Config {
		return &tls.Config{InsecureSkipVerify: true, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &who.TLS, nil
		}}
	}
	members := func(_ int64, e *Encryption) { e.Hosts, e.ClientHosts = false, false }
	for _, tt := range []struct {
		name   string
		change func(id int64, e *Encryption)
		who    *tls.Config
		id     int64
		want   string // "": not refused
	}{
		{"without TLS", nil, nil, 3, "does not use it, and portUnification is not set"},
		{"without a certificate", nil, &tls.Config{InsecureSkipVerify: true}, 3, "didn't provide a certificate"},
		{"of another authority", nil, of(other.Issue(t, "server", forHosts(host(3)))), 3, "unknown authority"},
		{"expired", nil, of(ours.Issue(t, "server", forHosts(host(3)), before)), 3, "expired"},
		{"not yet valid", nil, of(ours.Issue(t, "server", forHosts(host(3)), after)), 3, "not yet valid"},
		{"of TLS 1.1", nil, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, 3, "unsupported versions"},
		{"its own", nil, of(ours.Issue(t, "server", forHosts(host(3)))), 3, ""},
		{"by common name", nil, of(ours.Issue(t, host(3), forHosts())), 3, ""},
		{"a foreign id", members, of(ours.Issue(t, "server", forHosts(host(2)))), 3, `of \"zk2\" comes with the server id 3, whose hosts are [\"zk3\"]`},
		{"an unknown id", members, of(ours.Issue(t, "server", forHosts(host(3)))), 9, "comes with the server id 9, which is not in the configuration"},
		{"no member", members, of(ours.Issue(t, "server", forHosts("elsewhere"))), 3, `of \"elsewhere\" names no host of a server`},
		{"another host", func(_ int64, e *Encryption) { e.Members = false }, of(ours.Issue(t, "server", forHosts("elsewhere"))), 3, "is not for 127.0.0.1"},
		{"its address", func(_ int64, e *Encryption) { e.Members = false }, of(ours.Issue(t, "server", forHosts("127.0.0.1"))), 3, ""},
		{"any host", func(_ int64, e *Encryption) { e.Members, e.ClientHosts = false, false }, of(ours.Issue(t, "server", forHosts("elsewhere"))), 3, ""},
		{"without TLS where that is allowed", func(_ int64, e *Encryption) { e.Plain = true }, nil, 3, ""},
		{"with TLS where both are allowed", func(_ int64, e *Encryption) { e.Plain = true }, of(ours.Issue(t, "server", forHosts(host(3)))), 3, ""},
		{"of another authority where both are allowed", func(_ int64, e *Encryption) { e.Plain = true }, of(other.Issue(t, "server", forHosts(host(3)))), 3, "unknown authority"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			nodes := startTCP(t, []int64{1, 2, 3}, withTLS(t, ours, tt.change))
			leader := nodes[1]
			up := nodes[2].Dial(1, false)
			nodes[2].Send(up, []zab.Packet{followerInfo(2), ack(1)})
			down := leader.awaitLink(t, 0)
			leader.awaitPackets(t, down, 2)
			for _, election := range []bool{false, true} {
				got := visit(t, leader, election, tt.who, first(tt.id, election))
				if want := tt.want; want == "" {
					if !strings.Contains(got, noMessage(election)) {
						t.Errorf("election %v: the log says %q", election, got)
					}
				} else if !strings.Contains(got, want) || strings.Contains(got, noMessage(election)) {
					t.Errorf("election %v: the log says %q, want %q", election, got, want)
				}
			}
			if got, failed := leader.FailedLogins(), tt.want != "" && tt.who != nil; got != map[bool]int64{true: 2}[failed] {
				t.Errorf("%d failed logins are counted", got)
			}
			nodes[2].Send(up, []zab.Packet{ack(2)})
			leader.awaitPackets(t, down, 3)
		})
	}
}

// A server that is not the one that was dialled gets nothing, on either port.
func TestWrongServerIsDialled(t *testing.T) {
	ours := certs.New(t, "authority")
	other := certs.New(t, "authority")
	for _, tt := range []struct {
		name string
		e    Encryption // of the server that dials
		port *tlsport.Port
		want string
	}{
		{"another authority", Encryption{}, tlsPort(t, other, other.Issue(t, "server", forHosts(host(1))), "none"), "unknown authority"},
		{"another member", Encryption{Members: true}, tlsPort(t, ours, ours.Issue(t, "server", forHosts(host(3))), "none"), "server id 1, whose hosts are"},
		{"another host", Encryption{Hosts: true}, tlsPort(t, ours, ours.Issue(t, "server", forHosts(host(3))), "none"), "is not for [zk1:"},
		{"no TLS there", Encryption{}, nil, "transport: TLS: handshake"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			nodes := startTCP(t, []int64{1, 2}, func(o *Options) {
				withTLS(t, ours, nil)(o)
				if o.ID == 1 {
					if o.Encryption = nil; tt.port != nil {
						o.Encryption = &Encryption{Port: tt.port}
					}
					return
				}
				tt.e.Port, tt.e.Dial = o.Encryption.Port, true
				o.Encryption = &tt.e
			})
			n := nodes[2]
			const up = "the link is up"
			n.guard.Lock()
			n.onUp = func(zab.LinkID) { n.logged.logger().Info(up) }
			n.guard.Unlock()
			l := n.Dial(1, false)
			n.logged.await(t, tt.want, func() bool { return n.logged.holds(tt.want) || n.logged.holds(up) })
			if n.logged.holds(up) {
				t.Fatal(up)
			}
			n.CloseLink(l, nil)
			n.awaitEnd(t, l)
			n.Notify(1, []byte("vote"))
			n.await(t, "the failure", func() bool { return strings.Contains(strings.Join(n.events, "\n"), "peer 1 down") })
			if heard := nodes[1].heard(2); len(heard) > 0 {
				t.Errorf("it has heard %q", heard)
			}
		})
	}
}

// Handshakes that stop half-way are bounded in number. Those of the address with the most of
// them end, and not that of a member, which was there before them and is slow.
func TestHalfHandshakes(t *testing.T) {
	authority := certs.New(t, "authority")
	nodes := startTCP(t, []int64{1, 2, 3}, withTLS(t, authority, func(_ int64, e *Encryption) { e.Timeout = time.Hour }))
	leader := nodes[1]
	quorum, election := leader.Addrs()
	ports := []net.Addr{quorum[0], election[0]}
	dial := func(d net.Dialer, a net.Addr) net.Conn {
		nc, err := d.Dial("tcp", a.String())
		if err != nil {
			t.Skipf("SKIPPED: no second address of loopback here: %v", err)
		}
		t.Cleanup(func() { nc.Close() })
		return nc
	}
	var slow []net.Conn
	for _, a := range ports {
		slow = append(slow, dial(net.Dialer{}, a))
	}
	for range maxSilent + 10 {
		for _, a := range ports {
			nc := dial(net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}, a)
			_, _ = io.WriteString(nc, "\x16\x03\x01\x02\x00\x01") // it may be closed for another one
		}
	}
	leader.logged.awaitRefusals(t, 20)
	leader.Transport.mu.RLock()
	links, greetings := len(leader.Transport.mu.links), len(leader.Transport.mu.greetings)
	leader.Transport.mu.RUnlock()
	if links > maxSilent+1 || greetings > maxGreetings { // the last that has made way may not have ended yet
		t.Errorf("%d links, %d greetings", links, greetings)
	}

	who := authority.Issue(t, "server", forHosts(host(3)))
	for i, message := range [][]byte{encode([]zab.Packet{followerInfo(3)}), append(first(3, true)[:31], "\x00\x00\x00\x04vote"...)} {
		c := tls.Client(slow[i], &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{who.TLS}})
		if _, err := c.Write(message); err != nil {
			t.Errorf("the connection of a member: %v", err)
		}
	}
	leader.awaitPackets(t, leader.awaitLink(t, 0), 1)
	leader.await(t, "the notification", func() bool { return len(leader.notes[3]) > 0 })
}

// A connection that says nothing, and a handshake that stops half-way, end after a time.
func TestHandshakesEnd(t *testing.T) {
	for _, plain := range []bool{false, true} {
		t.Run(fmt.Sprintf("plain %v", plain), func(t *testing.T) {
			nodes := startTCP(t, []int64{1, 2}, withTLS(t, certs.New(t, "authority"), func(_ int64, e *Encryption) {
				e.Timeout, e.Plain = 10*time.Millisecond, plain
			}))
			quorum, election := nodes[1].Addrs()
			for i, a := range []net.Addr{quorum[0], quorum[0], election[0], election[0]} {
				nc, err := net.Dial("tcp", a.String())
				if err != nil {
					t.Fatal(err)
				}
				defer nc.Close()
				said := "\x16\x03\x01\x02\x00\x01"
				_, _ = io.WriteString(nc, said[:len(said)*(i%2)]) // it may have ended
				lines := nodes[1].logged.awaitRefusals(t, i+1)
				if last := lines[len(lines)-1]; !strings.Contains(last, "timeout") {
					t.Error(last)
				}
			}
		})
		if t.Failed() {
			return
		}
	}
}

// A connection that says nothing, and a handshake that stops half-way, end when the time for a
// handshake is over, and not before.
func TestHandshakesEndInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 3 * time.Second
		m, authority := newMemNet(), certs.New(t, "authority")
		m.start(t, 1, 2, func(o *Options) {
			o.Encryption = &Encryption{Port: tlsPort(t, authority, authority.Issue(t, "server"), "need"), Timeout: timeout}
		})
		for _, address := range []string{quorumAddr(1), electionAddr(1)} {
			for _, said := range []string{"", "\x16\x03\x01\x02\x00\x01"} {
				nc := m.connect(t, address)
				began := time.Now()
				if _, err := io.WriteString(nc, said); err != nil {
					t.Error(err)
				}
				_, _ = io.Copy(io.Discard, nc) // returns when the server has closed the connection
				if took := time.Since(began); took != timeout {
					t.Errorf("%s, %q: the connection ends after %v, want %v", address, said, took, timeout)
				}
			}
		}
	})
}
