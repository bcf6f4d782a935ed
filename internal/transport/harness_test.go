package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/test/goroutines"
	"github.com/pinfold-zk/pinfold/zk"
)

// memNet is a network in memory, which works within a synctest bubble. Its
// connections hold nothing: a write waits for the reads.
type memNet struct {
	mu        sync.Mutex
	listeners map[string]*memListener
	names     map[string][]string // what a host name resolves to
	blackhole map[string]bool     // addresses that do not answer
	dials     []dialRecord
	lookups   []string
	nextPort  int
}

// dialRecord is one attempt to connect.
type dialRecord struct {
	at      time.Time
	address string
}

func newMemNet() *memNet {
	return &memNet{listeners: map[string]*memListener{}, names: map[string][]string{}, blackhole: map[string]bool{}, nextPort: 40000}
}

// use has o go through the network.
func (n *memNet) use(o *Options) {
	o.Listen = n.listen
	o.Resolve = n.resolve
	o.Dial = n.dial
}

func (n *memNet) listen(address string) (net.Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners[address] != nil {
		return nil, fmt.Errorf("%s: address already in use", address)
	}
	l := &memListener{n: n, address: address, conns: make(chan net.Conn, 1000), closed: make(chan struct{})}
	n.listeners[address] = l
	return l, nil
}

func (n *memNet) resolve(_ context.Context, host string) ([]string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lookups = append(n.lookups, host)
	if n.names[host] == nil {
		return nil, fmt.Errorf("%s: no such host", host)
	}
	return n.names[host], nil
}

func (n *memNet) dial(ctx context.Context, address string) (net.Conn, error) {
	return n.dialFrom(ctx, "10.9.9.9", address)
}

// dialFrom is a dial from a host.
func (n *memNet) dialFrom(ctx context.Context, host, address string) (net.Conn, error) {
	n.mu.Lock()
	n.dials = append(n.dials, dialRecord{time.Now(), address})
	l, lost := n.listeners[address], n.blackhole[address]
	n.nextPort++
	from := netip.AddrPortFrom(netip.MustParseAddr(host), uint16(n.nextPort))
	n.mu.Unlock()
	if lost {
		<-ctx.Done()
		return nil, fmt.Errorf("connect %s: %w", address, ctx.Err())
	}
	if l == nil {
		return nil, fmt.Errorf("connect %s: connection refused", address)
	}
	here, there := net.Pipe()
	to := netip.MustParseAddrPort(address)
	l.conns <- memConn{there, to, from}
	return memConn{here, from, to}, nil
}

// connect is a dial by somebody who is no Transport.
func (n *memNet) connect(t *testing.T, address string) net.Conn {
	t.Helper()
	nc, err := n.dial(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	return nc
}

func (n *memNet) setName(host string, addresses ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.names[host] = addresses
}

func (n *memNet) setBlackhole(address string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.blackhole[address] = true
}

// dialed returns when attempts to an address began, and forgets all.
func (n *memNet) dialed(address string) (at []time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, d := range n.dials {
		if d.address == address {
			at = append(at, d.at)
		}
	}
	n.dials = nil
	return at
}

// lookedUp returns how many names were resolved, and forgets it.
func (n *memNet) lookedUp() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	defer func() { n.lookups = nil }()
	return len(n.lookups)
}

type memListener struct {
	n       *memNet
	address string
	conns   chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

func (l *memListener) Accept() (net.Conn, error) {
	select {
	case nc := <-l.conns:
		return nc, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *memListener) Close() error {
	l.once.Do(func() {
		close(l.closed)
		l.n.mu.Lock()
		defer l.n.mu.Unlock()
		delete(l.n.listeners, l.address)
		for {
			select {
			case nc := <-l.conns:
				nc.Close()
				continue
			default:
			}
			return
		}
	})
	return nil
}

func (l *memListener) Addr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(l.address))
}

type memConn struct {
	net.Conn
	local, remote netip.AddrPort
}

func (c memConn) LocalAddr() net.Addr  { return net.TCPAddrFromAddrPort(c.local) }
func (c memConn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.remote) }

// recorder is a Handler that keeps what it is told. Events are lines such as
// "up 1", "packets 1 ACK zxid 0x1, 0 bytes", "down 1", "peer 2 up".
type recorder struct {
	guard    sync.Mutex
	changed  chan struct{} // closed and replaced on every event
	events   []string
	packets  map[zab.LinkID][]zab.Packet
	links    []zab.LinkID // in the order of LinkUp
	ended    map[zab.LinkID]error
	remotes  map[zab.LinkID]string
	notes    map[int64][]string
	snapshot func(l zab.LinkID, z zk.Zxid, r SnapshotSource) error
	onPacket func(l zab.LinkID, p zab.Packet) // called without guard
	onWork   func(Reader) bool
	onUp     func(l zab.LinkID)
}

func newRecorder() *recorder {
	return &recorder{
		changed: make(chan struct{}), packets: map[zab.LinkID][]zab.Packet{}, ended: map[zab.LinkID]error{},
		remotes: map[zab.LinkID]string{}, notes: map[int64][]string{},
	}
}

func (r *recorder) note(format string, args ...any) {
	r.events = append(r.events, fmt.Sprintf(format, args...))
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *recorder) LinkUp(l zab.LinkID, remote string, dialed bool) {
	r.guard.Lock()
	r.links = append(r.links, l)
	r.remotes[l] = remote
	r.note("up %d dialed %v", l, dialed)
	onUp := r.onUp
	r.guard.Unlock()
	if onUp != nil {
		onUp(l)
	}
}

func (r *recorder) Work(reader Reader) bool {
	r.guard.Lock()
	onWork := r.onWork
	r.guard.Unlock()
	return onWork == nil || onWork(reader)
}

func (r *recorder) Packets(l zab.LinkID, ps []zab.Packet, _ Lease) {
	r.guard.Lock()
	for _, p := range ps {
		r.packets[l] = append(r.packets[l], p)
		r.note("packet %d %v", l, p)
	}
	onPacket := r.onPacket
	r.guard.Unlock()
	if onPacket != nil {
		for _, p := range ps {
			onPacket(l, p)
		}
	}
}

func (r *recorder) LinkDown(l zab.LinkID, err error) {
	r.guard.Lock()
	defer r.guard.Unlock()
	if _, twice := r.ended[l]; twice || err == nil {
		panic(fmt.Sprintf("LinkDown(%d, %v), after %v", l, err, r.ended[l]))
	}
	r.ended[l] = err
	r.note("down %d", l)
}

func (r *recorder) Snapshot(l zab.LinkID, z zk.Zxid, s SnapshotSource) error {
	r.guard.Lock()
	r.note("snapshot %d at %v", l, z)
	f := r.snapshot
	r.guard.Unlock()
	if f == nil {
		return errors.New("no snapshot is expected")
	}
	return f(l, z, s)
}

func (r *recorder) Notification(from int64, payload []byte) {
	r.guard.Lock()
	defer r.guard.Unlock()
	r.notes[from] = append(r.notes[from], string(payload))
	if len(payload) > 40 {
		payload = payload[:40]
	}
	r.note("from %d %q", from, payload)
}

func (r *recorder) PeerUp(id int64) {
	r.guard.Lock()
	defer r.guard.Unlock()
	r.note("peer %d up", id)
}

func (r *recorder) PeerDown(id int64) {
	r.guard.Lock()
	defer r.guard.Unlock()
	r.note("peer %d down", id)
}

// whyEnded returns why a link has ended, nil if it has not.
func (r *recorder) whyEnded(l zab.LinkID) error {
	r.guard.Lock()
	defer r.guard.Unlock()
	return r.ended[l]
}

// came returns the links that came up, in order.
func (r *recorder) came() []zab.LinkID {
	r.guard.Lock()
	defer r.guard.Unlock()
	return slices.Clone(r.links)
}

// openLinks returns how many links are up.
func (r *recorder) openLinks() (n int) {
	r.guard.Lock()
	defer r.guard.Unlock()
	for _, l := range r.links {
		if r.ended[l] == nil {
			n++
		}
	}
	return n
}

// got returns what a link has brought.
func (r *recorder) got(l zab.LinkID) []zab.Packet {
	r.guard.Lock()
	defer r.guard.Unlock()
	return slices.Clone(r.packets[l])
}

// heard returns the notifications of a peer since the last call.
func (r *recorder) heard(id int64) []string {
	r.guard.Lock()
	defer r.guard.Unlock()
	defer func() { r.notes[id] = nil }()
	return r.notes[id]
}

// take returns the events since the last call.
func (r *recorder) take() []string {
	r.guard.Lock()
	defer r.guard.Unlock()
	defer func() { r.events = nil }()
	return r.events
}

// count returns how many events begin with prefix.
func (r *recorder) count(prefix string) (n int) {
	r.guard.Lock()
	defer r.guard.Unlock()
	for _, e := range r.events {
		if strings.HasPrefix(e, prefix) {
			n++
		}
	}
	return n
}

// await waits until ok, which is called with guard held, in real time.
func (r *recorder) await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	timeout := time.After(20 * time.Second)
	look := func() (done bool, changed chan struct{}) {
		r.guard.Lock()
		defer r.guard.Unlock()
		return ok(), r.changed
	}
	for {
		done, changed := look()
		if done {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			r.guard.Lock()
			defer r.guard.Unlock()
			t.Fatalf("%s: not in 20 seconds; ended %v, %d events", what, r.ended, len(r.events))
		}
	}
}

// awaitLink returns the n-th link that came up.
func (r *recorder) awaitLink(t *testing.T, n int) (l zab.LinkID) {
	t.Helper()
	r.await(t, fmt.Sprintf("link number %d", n), func() bool {
		if len(r.links) <= n {
			return false
		}
		l = r.links[n]
		return true
	})
	return l
}

// awaitEnd returns why a link ended.
func (r *recorder) awaitEnd(t *testing.T, l zab.LinkID) (err error) {
	t.Helper()
	r.await(t, fmt.Sprintf("the end of link %d", l), func() bool {
		err = r.ended[l]
		return err != nil
	})
	return err
}

// awaitPackets returns what a link has brought, at least n packets.
func (r *recorder) awaitPackets(t *testing.T, l zab.LinkID, n int) (ps []zab.Packet) {
	t.Helper()
	r.await(t, fmt.Sprintf("%d packets on link %d", n, l), func() bool {
		ps = slices.Clone(r.packets[l])
		return len(ps) >= n
	})
	return ps
}

// logBuffer is what a Transport has logged.
type logBuffer struct {
	mu      sync.Mutex
	b       bytes.Buffer
	written chan struct{} // closed by the next line; nil: nobody waits
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.written != nil {
		close(b.written)
		b.written = nil
	}
	return b.b.Write(p)
}

// next returns what is closed when the next line is written.
func (b *logBuffer) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.written == nil {
		b.written = make(chan struct{})
	}
	return b.written
}

// await waits until the lines hold what ok looks for.
func (b *logBuffer) await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	timeout := time.After(20 * time.Second)
	for {
		written := b.next()
		if ok() {
			return
		}
		select {
		case <-written:
		case <-timeout:
			t.Fatalf("%s: not logged in 20 seconds", what)
		}
	}
}

// awaitRefusals returns the refusals once there are n of them.
func (b *logBuffer) awaitRefusals(t *testing.T, n int) (lines []string) {
	t.Helper()
	b.await(t, fmt.Sprint(n, " refusals"), func() bool {
		lines = b.refusals()
		return len(lines) >= n
	})
	return lines
}

// holds reports whether a line has been written that holds text.
func (b *logBuffer) holds(text string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Contains(b.b.String(), text)
}

// refusals returns the lines about who was turned away.
func (b *logBuffer) refusals() (lines []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for line := range strings.Lines(b.b.String()) {
		if strings.Contains(line, "was refused") && strings.Contains(line, "level=WARN") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

func (b *logBuffer) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// node is a Transport with its handler and log.
type node struct {
	*Transport
	*recorder
	logged *logBuffer
}

// Close is the Transport's.
func (n *node) Close() error { return n.Transport.Close() }

// quorumAddr and electionAddr are where a server of a memNet is.
func quorumAddr(id int64) string   { return fmt.Sprintf("10.0.0.%d:2888", id) }
func electionAddr(id int64) string { return fmt.Sprintf("10.0.0.%d:3888", id) }

// memPeers is an ensemble of servers 1 to n in a memNet.
func memPeers(n int64) map[int64][]Address {
	peers := map[int64][]Address{}
	for id := int64(1); id <= n; id++ {
		peers[id] = []Address{{fmt.Sprintf("10.0.0.%d", id), 2888, 3888}}
	}
	return peers
}

// start makes and starts server id of an ensemble of n in a memNet.
func (m *memNet) start(t *testing.T, id, n int64, change ...func(*Options)) *node {
	t.Helper()
	o := Options{ID: id, Peers: memPeers(n), QuorumListen: []string{quorumAddr(id)}, ElectionListen: []string{electionAddr(id)}}
	m.use(&o)
	return start(t, o, change...)
}

func start(t *testing.T, o Options, change ...func(*Options)) *node {
	t.Helper()
	nd := &node{recorder: newRecorder(), logged: &logBuffer{}}
	o.Handler, o.Logger = nd.recorder, nd.logged.logger()
	o.ArrivalBurst = 1 << 20 // many tests have all connections from one address, at the same time
	for _, f := range change {
		f(&o)
	}
	tr, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	nd.Transport = tr
	if err := tr.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tr.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return nd
}

// startTCP starts servers with the given ids on loopback, on ports that the
// system chooses. When the test is over nothing of them may run.
func startTCP(t *testing.T, ids []int64, change ...func(*Options)) map[int64]*node {
	t.Helper()
	t.Cleanup(func() {
		for _, stack := range goroutines.Left("transport.(*") {
			t.Errorf("left behind: %s", stack)
		}
	})
	peers := map[int64][]Address{}
	listeners := map[string]net.Listener{}
	port := func() int {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners[l.Addr().String()] = l
		return l.Addr().(*net.TCPAddr).Port
	}
	for _, id := range ids {
		peers[id] = []Address{{"127.0.0.1", port(), port()}}
	}
	nodes := map[int64]*node{}
	for _, id := range slices.Sorted(maps.Keys(peers)) {
		a := peers[id][0]
		nodes[id] = start(t, Options{
			ID: id, Peers: peers,
			QuorumListen:   []string{fmt.Sprintf("127.0.0.1:%d", a.QuorumPort)},
			ElectionListen: []string{fmt.Sprintf("127.0.0.1:%d", a.ElectionPort)},
			Listen:         func(address string) (net.Listener, error) { return listeners[address], nil },
		}, change...)
	}
	return nodes
}

// linked starts two servers on loopback; the second has dialled the first.
func linked(t *testing.T, change ...func(*Options)) (leader, learner *node, down, up zab.LinkID) {
	t.Helper()
	nodes := startTCP(t, []int64{1, 2}, change...)
	leader, learner = nodes[1], nodes[2]
	up = learner.Dial(1, false)
	if got := learner.awaitLink(t, 0); got != up {
		t.Fatalf("link %d is up, dialled was %d", got, up)
	}
	return leader, learner, leader.awaitLink(t, 0), up
}

func ack(z zk.Zxid) zab.Packet { return zab.Packet{Type: zab.Ack, Zxid: z} }

func proposal(z zk.Zxid, data []byte) zab.Packet {
	return zab.Packet{Type: zab.Proposal, Zxid: z, Data: data}
}

// comparePackets fails if two runs of packets differ.
func comparePackets(t *testing.T, got, want []zab.Packet) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d packets, want %d", len(got), len(want))
	}
	for i, p := range want {
		q := got[i]
		if p.Type != q.Type || p.Zxid != q.Zxid || !bytes.Equal(p.Data, q.Data) || !slices.Equal(p.Auth, q.Auth) {
			t.Fatalf("packet %d is %v, want %v", i, q, p)
		}
	}
}
