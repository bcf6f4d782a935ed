package transport

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/refusal"
)

// helloOf is the first message of a server.
func helloOf(version, id int64, addresses string) []byte {
	return jute.AppendString(jute.AppendLong(jute.AppendLong(nil, version), id), addresses)
}

// helloV1Of is what server id of a memNet says.
func helloV1Of(id int64) []byte { return helloOf(helloV1, id, electionAddr(id)) }

func frameOf(payload string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(payload))), payload...)
}

// say writes to a connection, and fails if nobody reads it within a minute.
func say(t *testing.T, nc net.Conn, b ...[]byte) {
	t.Helper()
	nc.SetDeadline(time.Now().Add(time.Minute))
	if _, err := nc.Write(slices.Concat(b...)); err != nil {
		t.Fatal(err)
	}
}

// hear reads the next frame of a connection.
func hear(t *testing.T, nc net.Conn) string {
	t.Helper()
	nc.SetDeadline(time.Now().Add(time.Minute))
	b, err := readFrame(nc, granted)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// ended reports whether the other end of a connection is closed.
func ended(nc net.Conn) bool {
	nc.SetDeadline(time.Now().Add(time.Millisecond))
	_, err := nc.Read(make([]byte, 1))
	return err == io.EOF
}

// rawPeer is the election port of a server that a test plays.
type rawPeer struct {
	t *testing.T
	l net.Listener
}

func (m *memNet) rawPeer(t *testing.T, id int64) *rawPeer {
	t.Helper()
	l, err := m.listen(electionAddr(id))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return &rawPeer{t, l}
}

// accept returns the next connection, whose first message is that of server from.
func (p *rawPeer) accept(from int64) net.Conn {
	p.t.Helper()
	nc, err := p.l.Accept()
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(time.Minute))
	want := helloV1Of(from)
	got := make([]byte, len(want))
	if _, err := io.ReadFull(nc, got); err != nil || !bytes.Equal(got, want) {
		p.t.Fatalf("the first message is %x, %v; want %x", got, err, want)
	}
	return nc
}

// waiting returns how many connections wait to be accepted.
func (p *rawPeer) waiting() int { return len(p.l.(*memListener).conns) }

func TestHelloBytes(t *testing.T) {
	o := Options{ID: 2, Peers: memPeers(2)}
	got, err := ownHello(&o)
	want := unhex(t, "ffffffffffff0000 0000000000000002 0000000d 31302e302e302e323a33383838")
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%x, %v; want %x", got, err, want)
	}
	o = Options{ID: 3, Peers: map[int64][]Address{3: {{"fe80::1", 2888, 3888}}}}
	if got, err := ownHello(&o); err != nil || !bytes.HasSuffix(got, []byte("[fe80::1]:3888")) {
		t.Errorf("%q, %v", got, err)
	}
	o = Options{ID: 9, ElectionListen: []string{"10.0.0.9:3888"}} // an observer that nobody has configured
	if got, err := ownHello(&o); err != nil || !bytes.HasSuffix(got, []byte("10.0.0.9:3888")) {
		t.Errorf("%q, %v", got, err)
	}
	o.ElectionListen = []string{":3888"}
	if got, err = ownHello(&o); err != nil {
		t.Fatal(err)
	}
	if h, err := readHello(bytes.NewReader(got)); err != nil || h.id != 9 || h.bare || len(h.targets) > 0 {
		t.Errorf("of a server that listens at every address others read %+v, %v", h, err)
	}
	o = Options{ID: 1, Peers: map[int64][]Address{1: {{strings.Repeat("x", maxHelloBytes), 2888, 3888}}}}
	if _, err := ownHello(&o); err == nil {
		t.Error("an endless address is announced")
	}
}

// A server that is no member any more is still where it was, and must say so to those that do not know it.
func TestARemovedServerAnnouncesItsAddress(t *testing.T) {
	n, err := New(Options{ID: 3, Peers: memPeers(3), QuorumListen: []string{":2888"}, ElectionListen: []string{":3888"}, Handler: newRecorder()})
	if err != nil {
		t.Fatal(err)
	}
	n.SetPeers(memPeers(2))
	if h, err := readHello(bytes.NewReader(n.mu.hello)); err != nil || len(h.targets) != 1 || h.targets[0].String() != electionAddr(3) {
		t.Errorf("it announces %+v, %v", h, err)
	}
}

func TestReadHello(t *testing.T) {
	many := strings.TrimSuffix(strings.Repeat("h:1|", 50), "|")
	for _, tt := range []struct {
		name  string
		bytes []byte
		want  string // id and targets
	}{
		{"version 1", helloOf(helloV1, 3, "10.0.0.3:3888"), "3 [10.0.0.3:3888]"},
		{"version 2", helloOf(helloV2, 3, "a.example:1|[fe80::1]:65535"), "3 [a.example:1 [fe80::1]:65535]"},
		{"a server of long ago", jute.AppendLong(nil, 3), "3 []"},
		{"wildcards", helloOf(helloV2, 3, "0.0.0.0:3888|[::]:3888|10.0.0.3:3888"), "3 [10.0.0.3:3888]"},
		{"nothing but a wildcard", helloOf(helloV1, 3, "0.0.0.0:3888"), "3 []"},
		{"more addresses than are tried", helloOf(helloV2, 3, many), "3 [h:1 h:1 h:1 h:1]"},
		{"version 0xffff0002", helloOf(-65534, 3, "h:1"), "error: unknown election protocol version -65534"},
		{"no address", helloOf(helloV1, 3, ""), "error: server 3 announces 0 bytes of addresses"},
		{"a giant address", jute.AppendInt(helloOf(helloV1, 3, "")[:16], math.MaxInt32), "error: server 3 announces 2147483647 bytes"},
		{"a negative length", jute.AppendInt(helloOf(helloV1, 3, "")[:16], -1), "error: server 3 announces -1 bytes"},
		{"no port", helloOf(helloV1, 3, "host"), "error: server 3 announces \"host\""},
		{"port 0", helloOf(helloV1, 3, "host:0"), "error: server 3 announces \"host:0\""},
		{"no number", helloOf(helloV1, 3, "host:http"), "error: server 3 announces"},
		{"a path", helloOf(helloV1, 3, "http://host:1"), "error: server 3 announces"},
		{"a line", helloOf(helloV1, 3, "ho\nst:1"), "error: server 3 announces \"ho\\nst:1\""},
		{"an empty part", helloOf(helloV2, 3, "h:1|"), "error: server 3 announces"},
		{"half", helloV1Of(3)[:30], "error: read the addresses of server 3: unexpected EOF"},
		{"less", helloV1Of(3)[:12], "error: read the server id: unexpected EOF"},
		{"nothing", nil, "error: read the server id: EOF"},
	} {
		h, err := readHello(bytes.NewReader(tt.bytes))
		got := fmt.Sprint(h.id, " ", h.targets)
		if err != nil {
			got = "error: " + strings.TrimPrefix(err.Error(), "transport: ")
		}
		if got != tt.want && (err == nil || !strings.HasPrefix(got, tt.want)) {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// FuzzReadHello reads arbitrary first messages: what is accepted has addresses
// that can be dialled, not more of them than are tried, and nothing behind the
// message is read.
func FuzzReadHello(f *testing.F) {
	f.Add(helloV1Of(3))
	f.Add(helloOf(helloV2, 3, "a.example:1|[fe80::1]:65535|0.0.0.0:1"))
	f.Add(jute.AppendLong(nil, 3))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		r := bytes.NewReader(in)
		h, err := readHello(r)
		if err != nil {
			return
		}
		if used := len(in) - r.Len(); used != 8 && used > 20+maxHelloBytes {
			t.Errorf("%d bytes are read", used)
		}
		if len(h.targets) > maxAnnounced || h.bare && len(h.targets) > 0 {
			t.Errorf("%v", h)
		}
		for _, a := range h.targets {
			host, port, err := net.SplitHostPort(a.String())
			if err != nil || host != a.host || port != fmt.Sprint(a.port) {
				t.Errorf("%q: %v", a, err)
			}
		}
	})
}

// granted is a reserve of readFrame that always has room.
func granted(int) error { return nil }

// Frames hold 1 to 524288 bytes.
func TestFrameSizes(t *testing.T) {
	for _, size := range []int{1, 100, frameReadBytes, frameReadBytes + 1, MaxNotificationBytes} {
		in := bytes.NewReader(append(frameOf(strings.Repeat("x", size)), 'y'))
		b, err := readFrame(in, granted)
		if err != nil || len(b) != size || in.Len() != 1 {
			t.Errorf("%d bytes: %d, %v, %d left", size, len(b), err, in.Len())
		}
	}
	for _, size := range []int32{0, -1, math.MinInt32, MaxNotificationBytes + 1, math.MaxInt32} {
		if _, err := readFrame(bytes.NewReader(jute.AppendInt(nil, size)), granted); err == nil || !strings.Contains(err.Error(), fmt.Sprint(size)) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	if _, err := readFrame(bytes.NewReader(frameOf(strings.Repeat("x", MaxNotificationBytes))[:1000]), granted); err == nil {
		t.Error("a frame that ends within is whole")
	}
}

// Two servers that want to talk at the same moment end up with one connection,
// which the one with the larger id has made.
func TestLargerIDConnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemNet()
		a, b := m.start(t, 1, 2), m.start(t, 2, 2)
		a.Notify(2, []byte("from a"))
		b.Notify(1, []byte("from b"))
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := a.heard(2); !slices.Equal(got, []string{"from b"}) {
			t.Errorf("a heard %q", got)
		}
		if got := b.heard(1); !slices.Equal(got, []string{"from a"}) {
			t.Errorf("b heard %q", got)
		}
		if a.count("peer 2 up") != 1 || b.count("peer 1 up") != 1 || a.count("peer 2 down")+b.count("peer 1 down") > 0 {
			t.Errorf("a: %q, b: %q", a.take(), b.take())
		}
		// None if b, which has the larger id, was there before a looked.
		if fromA := m.dialed(electionAddr(2)); len(fromA) > 1 {
			t.Errorf("a has connected %d times", len(fromA))
		}
		for i := range 100 {
			a.Notify(2, fmt.Appendf(nil, "a%d", i))
			b.Notify(1, fmt.Appendf(nil, "b%d", i))
			synctest.Wait()
		}
		if got := a.heard(2); len(got) != 100 || got[99] != "b99" {
			t.Errorf("a heard %d: %q", len(got), got)
		}
		if got := b.heard(1); len(got) != 100 || got[99] != "a99" {
			t.Errorf("b heard %d: %q", len(got), got)
		}
		if n := len(m.dialed(electionAddr(1))); n > 0 {
			t.Errorf("%d connections while there was one", n)
		}
	})
}

// The server with the smaller id asks the other to connect, and again after a
// second if it does not; what it has to say waits.
func TestSmallerIDAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemNet()
		peer := m.rawPeer(t, 3)
		n := m.start(t, 1, 3)
		began := time.Now()
		n.Notify(3, []byte("vote"))
		if nc := peer.accept(1); !ended(nc) {
			t.Error("a connection that only asks stays open")
		}
		if nc := peer.accept(1); !ended(nc) {
			t.Error("the second too")
		}
		if d := time.Since(began).Round(10 * time.Millisecond); d != askPause {
			t.Errorf("asked again after %v", d)
		}
		nc := m.connect(t, electionAddr(1))
		say(t, nc, helloV1Of(3))
		if got := hear(t, nc); got != "vote" {
			t.Errorf("heard %q", got)
		}
		time.Sleep(time.Minute)
		if peer.waiting() > 0 {
			t.Error("it asks while there is a link")
		}
		say(t, nc, frameOf("mine"))
		synctest.Wait()
		if got := n.heard(3); !slices.Equal(got, []string{"mine"}) {
			t.Errorf("handed on %q", got)
		}
		if got := strings.Join(n.take(), ", "); got != "peer 3 up, from 3 \"mine\"" {
			t.Errorf("events: %s", got)
		}
	})
}

// Every kind of first message that a peer may send leads to a link.
func TestWhoIsAccepted(t *testing.T) {
	for _, tt := range []struct {
		name  string
		hello []byte
		as    int64 // the id that the handler is told
		back  int64 // the peer is smaller: it is connected to, by its number in the net
	}{
		{"version 1, larger", helloV1Of(3), 3, 0},
		{"version 2, larger", helloOf(helloV2, 3, "10.0.0.3:3888|10.0.0.33:3888"), 3, 0},
		{"of long ago, larger", jute.AppendLong(nil, 3), 3, 0},
		{"larger, with a wildcard", helloOf(helloV1, 3, "0.0.0.0:3888"), 3, 0},
		{"version 1, smaller", helloV1Of(1), 1, 1},
		{"of long ago, smaller", jute.AppendLong(nil, 1), 1, 1},
		{"smaller: the configured address counts", helloOf(helloV1, 1, "10.0.0.77:3888"), 1, 1},
		{"smaller, with a wildcard", helloOf(helloV1, 1, "0.0.0.0:3888"), 1, 1},
		{"not configured, larger", helloOf(helloV1, 7, "10.0.0.7:3888"), 7, 0},
		{"not configured, larger, with a wildcard", helloOf(helloV1, 7, "0.0.0.0:3888"), 7, 0},
		{"not configured, smaller: the announced address counts", helloOf(helloV2, 0, "0.0.0.0:3888|10.0.0.8:3888"), 0, 8},
		{"an observer without a number", helloOf(helloV1, math.MaxInt64, "10.0.0.9:3888"), -1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemNet()
				n := m.start(t, 2, 3)
				nc := m.connect(t, electionAddr(2))
				if tt.back == 0 {
					say(t, nc, tt.hello, frameOf("hello"))
				} else {
					peer := m.rawPeer(t, tt.back)
					say(t, nc, tt.hello)
					back := peer.accept(2)
					if !ended(nc) {
						t.Error("the peer's own connection is kept")
					}
					say(t, back, frameOf("hello"))
					nc = back
				}
				synctest.Wait()
				if got := n.heard(tt.as); !slices.Equal(got, []string{"hello"}) {
					t.Errorf("heard %q; %q", got, n.take())
				}
				n.Notify(tt.as, []byte("answer"))
				if got := hear(t, nc); got != "answer" {
					t.Errorf("answered %q", got)
				}
				if lines := n.logged.refusals(); len(lines) > 0 {
					t.Errorf("refused: %q", lines)
				}
			})
		})
	}
}

// What is no peer is turned away with one line that says who and why; it takes
// nothing with it.
func TestGarbageOnTheElectionPort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemNet()
		n := m.start(t, 2, 3)
		good := m.connect(t, electionAddr(2))
		say(t, good, helloV1Of(3))
		for i, tt := range []struct{ name, sent, why string }{
			{"HTTP", "GET / HTTP/1.1\r\n\r\n", "the server has no known address: 5135603447292250196"},
			{"TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "neither sslQuorum nor portUnification is set"},
			{"a wrong version", string(helloOf(-65534, 1, electionAddr(1))), "unknown election protocol version -65534"},
			{"a giant address", string(jute.AppendInt(helloV1Of(1)[:16], math.MaxInt32)), "server 1 announces 2147483647 bytes"},
			{"its own id", string(helloV1Of(2)), "the peer has this server's id, 2"},
			{"a negative id", string(helloOf(helloV1, -5, "10.0.0.5:3888")), "-5 is not a server id"},
			{"an unknown id of long ago", string(jute.AppendLong(nil, 9)), "the server has no known address: 9"},
			{"an unknown smaller id without an address", string(helloOf(helloV1, 0, "0.0.0.0:3888")), "the server has no known address: 0"},
			{"garbage behind a good beginning", string(helloV1Of(9)) + "GET / HTTP/1.1", "server 9: transport: not a notification: a frame of 1195725856 bytes"},
			{"an empty frame", string(helloV1Of(9)) + "\x00\x00\x00\x00", "server 9: transport: not a notification: a frame of 0 bytes"},
			{"a giant frame", string(helloV1Of(9)) + "\x7f\xff\xff\xff", "a frame of 2147483647 bytes, the limit is 524288"},
			{"half of a message", string(helloV1Of(3)[:25]), "read the addresses of server 3: "},
			{"nothing", "", "read the server id: "},
		} {
			nc := m.connect(t, electionAddr(2))
			for b := []byte(tt.sent); len(b) > 0; {
				k, err := nc.Write(b) // it may be closed before it is read to the end
				if b = b[k:]; err != nil {
					break
				}
			}
			time.Sleep(n.Options().HandshakeTimeout)
			synctest.Wait()
			if !ended(nc) {
				t.Errorf("%s: the connection is open", tt.name)
			}
			lines := n.logged.refusals()
			if len(lines) != i+1 || !strings.Contains(lines[i], tt.why) || !strings.Contains(lines[i], nc.LocalAddr().String()) {
				t.Fatalf("%s: the log says %q", tt.name, lines)
			}
		}
		if n.Transport.mu.strangers != 0 || len(n.Transport.mu.peers) != 2 || len(n.Transport.mu.greetings) != 0 {
			t.Errorf("left in the tables: %d strangers, %d peers, %d greetings", n.Transport.mu.strangers, len(n.Transport.mu.peers), len(n.Transport.mu.greetings))
		}
		say(t, good, frameOf("still here"))
		synctest.Wait()
		if got := n.heard(3); !slices.Equal(got, []string{"still here"}) || n.count("peer 3 down") > 0 {
			t.Errorf("the peer beside it: heard %q", got)
		}
	})
}

// A peer that is slow to say who it is delays nobody, and has until the timeout.
func TestSlowGreeting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemNet()
		n := m.start(t, 2, 3)
		slow := m.connect(t, electionAddr(2))
		say(t, slow, helloV1Of(3)[:10])
		quick := m.connect(t, electionAddr(2))
		say(t, quick, helloV1Of(3), frameOf("quick"))
		synctest.Wait()
		if got := n.heard(3); !slices.Equal(got, []string{"quick"}) {
			t.Errorf("heard %q", got)
		}
		time.Sleep(n.Options().HandshakeTimeout - time.Second)
		// It was accepted before the other: it is not newer than that.
		say(t, slow, helloV1Of(3)[10:])
		synctest.Wait()
		if !ended(slow) || ended(quick) {
			t.Error("an older connection has replaced a newer")
		}
	})
}

// ElectionTimeout (quorumCnxnTimeoutMs) ends a connection that has not said who it is.
func TestElectionTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemNet()
		const timeout = 700 * time.Millisecond
		m.start(t, 2, 3, func(o *Options) { o.ElectionTimeout = timeout })
		silent := m.connect(t, electionAddr(2))
		time.Sleep(timeout - 3*time.Millisecond)
		synctest.Wait()
		if ended(silent) { // which takes a millisecond
			t.Error("it has ended too early")
		}
		time.Sleep(3 * time.Millisecond)
		synctest.Wait()
		if !ended(silent) {
			t.Error("it is open")
		}
	})
}

// Connections that have not said who they are are bounded; the oldest goes.
func TestCrowdedElectionPort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemNet()
		n := m.start(t, 2, 3)
		first := m.connect(t, electionAddr(2))
		for range 3 * maxGreetings {
			m.connect(t, electionAddr(2))
		}
		synctest.Wait()
		if !ended(first) {
			t.Error("the oldest is open")
		}
		n.Transport.mu.RLock()
		waiting := len(n.Transport.mu.greetings)
		n.Transport.mu.RUnlock()
		if waiting != maxGreetings {
			t.Errorf("%d wait, the limit is %d", waiting, maxGreetings)
		}
		nc := m.connect(t, electionAddr(2))
		say(t, nc, helloV1Of(3), frameOf("in between"))
		synctest.Wait()
		if got := n.heard(3); !slices.Equal(got, []string{"in between"}) {
			t.Errorf("heard %q", got)
		}
		if lines := n.logged.refusals(); len(lines) != refusal.Burst || !strings.Contains(lines[0], "too many connections") {
			t.Errorf("the log says %q", lines)
		}
	})
}

// A stranger that claims to be a member and then says nothing takes the place of that
// member's link for a moment only: the member makes its link again, although it has
// nothing to send, and hears and is heard.
func TestSilentImpostor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemNet()
		smaller, larger := m.start(t, 1, 2), m.start(t, 2, 2)
		larger.Notify(1, []byte("I lead"))
		synctest.Wait()
		smaller.heard(2)
		for range 3 {
			time.Sleep(10 * time.Second)
			impostor := m.connect(t, electionAddr(1))
			say(t, impostor, helloV1Of(2))
			gone := make(chan struct{})
			go func() { // it reads what it is sent
				_, _ = io.Copy(io.Discard, impostor)
				close(gone)
			}()
			synctest.Wait()
			smaller.Notify(2, []byte("who leads?"))
			time.Sleep(youngLink)
			synctest.Wait()
			select {
			case <-gone:
			default:
				t.Error("the impostor's link is open")
			}
			if got := larger.heard(1); !slices.Contains(got, "who leads?") {
				t.Errorf("the member heard %q", got)
			}
			if got := smaller.heard(2); !slices.Equal(got, []string{"I lead"}) {
				t.Errorf("the other heard %q", got)
			}
		}
	})
}
