// Package transport connects a server to the other servers of its ensemble by TCP. It
// knows packets and notifications, not their meaning: the packages above decide which
// server may follow which, and which vote counts.
//
// Two ports, two kinds of connection:
//
//   - A learner link carries packets between a learner and its leader, in order and
//     without loss until it ends (protocol page, section 13). The learner dials; the
//     leader's quorum port accepts every connection, because only the first packet
//     identifies the server. A link is a zab.LinkID; its numbers are never reused.
//   - An election link carries notifications between two servers (section 12.1).
//     Notifications may be lost or repeated: each peer has one slot, in which a newer
//     notification replaces one that is not sent yet.
//
// The files:
//
//	codec.go     packets and their bytes
//	input.go     a stream of packets, a snapshot within it
//	link.go      learner links, from dial or accept to their end
//	output.go    sending on them
//	queue.go     packets that wait for a slow peer
//	listen.go    both ports, and which connections the election port accepts
//	places.go    which links the quorum port accepts
//	dial.go      connecting to an address, and to a leader
//	secure.go    TLS on both ports, and whose certificate it is
//	election.go  which connection to a peer is kept; the first message
//	login.go     SASL on both ports
//	penalty.go   addresses from which logins fail wait
//	peer.go      one peer's election link
//
// # Goroutines
//
// A learner link has a goroutine that dials, reads and calls the Handler, and one that
// writes while the socket is full or a stream is running: it is a socket.Conn with its
// Output. A peer has a goroutine that owns its election link and writes, and one that
// reads. Dialling needs one for each address that is tried. Close waits for all of
// them.
//
// # Untrusted peers
//
// Every connection is untrusted. An announced length alone allocates nothing. Every
// table that a peer can fill has a bound; a connection above it is closed, and of those
// that have not identified themselves the oldest one first. Refusals are logged, with a
// limited number of lines per second.
//
// # TLS and SASL
//
// With Options.Encryption, TLS comes between TCP and the first byte of either protocol: on
// the goroutine that dials, or on the reader of an accepted connection, which keeps its
// place among those that have not identified themselves. So as many handshakes are in
// progress as there are such places. A learner link has it as a layer of its socket.Conn.
//
// With Options.Authority, servers log in (package peerauth), within TLS if there is TLS: on
// the quorum port before LinkUp, on the election port after the first message. A connection
// that has not logged in counts as one that has not identified itself, too.
package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/pinfold-zk/pinfold/internal/peerauth"
	"github.com/pinfold-zk/pinfold/internal/refusal"
	"github.com/pinfold-zk/pinfold/internal/socket"
	"github.com/pinfold-zk/pinfold/internal/spare"
	"github.com/pinfold-zk/pinfold/internal/tlsport"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/zk"
)

// Errors with which a link may end, in addition to those of the network.
var (
	ErrClosed  = errors.New("transport: closed")
	ErrPacket  = errors.New("transport: not a packet")                           // the peer uses another protocol
	ErrSilent  = errors.New("transport: no packet came in time")                 // on an accepted link
	ErrSlow    = errors.New("transport: the peer does not read what it is sent") // see Options.MaxQueueBytes
	ErrCrowded = errors.New("transport: too many connections")
	ErrUnknown = errors.New("transport: the server has no known address")
)

// A Handler receives the events of the links. The transport's goroutines call it: for
// one link its reader, one call at a time; for one election peer one call at a time
// too. It may call the transport, but not Close. A call that blocks delays the input of
// its link or peer, nothing else.
type Handler interface {
	// LinkUp reports a connected link. remote is the other end's address; dialed is
	// false on the leader's side. No packet was read from an accepted link yet; with
	// Options.Authority, the first bytes have come.
	LinkUp(l zab.LinkID, remote string, dialed bool)

	// Packets hands over received packets in order: all complete packets of one
	// read. The transport reuses ps after the call. Data and Auth alias a buffer of about
	// 256 KiB, which does not change until the handler has released mem; nil means
	// that it never changes. A handler that does not release mem leaves the buffer
	// to the garbage collector: copy small things that are kept for long.
	Packets(l zab.LinkID, ps []zab.Packet, mem Lease)

	// Work follows Packets. The handler may keep the reader busy with what they cause, and have
	// it wait for a disk. If that takes long it calls r.StandIn, and Work returns false in the
	// end. With nil it must not wait.
	Work(r Reader) (goOn bool)

	// LinkDown is the last call for a link, exactly one for each LinkUp. err is the
	// reason, never nil. A failed dial causes this call alone. No function given to
	// Stream runs during the call or later.
	LinkDown(l zab.LinkID, err error)

	// Snapshot consumes the body of a tree from r, exactly: the bytes between a
	// SNAP packet and its signature. The transport checks the signature before it
	// hands over the SNAP itself by Packets. An error ends the link. The call may
	// take as long as the stream does. Only a dialled link carries a SNAP.
	Snapshot(l zab.LinkID, z zk.Zxid, r SnapshotSource) error

	// Notification hands over a notification from the election port. The handler
	// owns payload, which has 1 to MaxNotificationBytes. from is the id that the
	// peer has announced.
	Notification(from int64, payload []byte)

	// PeerUp reports that there is an election link to the server, or a new one in
	// place of an older one.
	PeerUp(id int64)

	// PeerDown reports that the election link was lost, or that an attempt to
	// connect has failed and there is no link; it may be repeated. Close does not
	// cause it.
	PeerDown(id int64)
}

// Lease is a reference to memory that is used again when it is released: once, by the
// owner of the reference, from any goroutine. It is an alias, so that a handler need not
// import this package.
type Lease = interface{ Release() }

// Reader is a link, for Handler.Work.
type Reader = interface {
	// StandIn starts a goroutine that reads the link in place of the one in Work, which ends when Work returns. StandIn
	// does not block.
	StandIn()
}

// SnapshotSource is the stream of a snapshot, with the methods of
// storage.SnapshotReader. It is an alias, so that a handler need not import this
// package.
type SnapshotSource = interface {
	// Buffered returns the bytes that are available without reading, valid until
	// the next Fill.
	Buffered() []byte
	// Fill returns the buffered bytes, at least n of them, valid until the next
	// call. If the link ends before, it returns an error, io.ErrUnexpectedEOF if
	// the link was closed in order: the stream itself marks its end.
	Fill(n int) ([]byte, error)
	// Discard consumes n of the buffered bytes.
	Discard(n int)
}

// Address is an address of a server of the ensemble. The host is a name or an IP
// address, without brackets.
type Address struct {
	Host         string
	QuorumPort   int
	ElectionPort int
}

// Options configures a Transport. A zero field has the default that is named.
type Options struct {
	ID    int64               // of this server
	Peers map[int64][]Address // all servers until SetPeers, including this one: its address is announced

	QuorumListen   []string // host:port to listen on; none: no learner is accepted
	ElectionListen []string
	ListenOnAllIPs bool // listen on every address, with these ports
	BindAttempts   int  // attempts, a second apart, before Start fails; 0: no limit (electionPortBindRetry)

	ConnectTimeout   time.Duration // of one attempt, including name resolution; 5 s (cnxTimeout)
	HandshakeTimeout time.Duration // for the first packet on an accepted link; 10 s (tickTime*syncLimit)
	ElectionTimeout  time.Duration // for a peer's first message on the election port, and for sending ours; HandshakeTimeout (quorumCnxnTimeoutMs)
	DialBudget       time.Duration // all attempts of Dial together; 20 s (tickTime*initLimit)
	RetryDelay       time.Duration // the longest pause between two attempts of Dial; 100 ms (leaderConnectDelayDuringRetryMs)
	TCPKeepAlive     bool

	// MaxPacketBytes bounds the data, and the identities, of a received packet; 2
	// MiB (jute.maxbuffer and its extra size).
	MaxPacketBytes int
	// ArrivalBurst is how many connections an address that is no member's may open at once to both ports; later ones
	// are admitted at the rate of ratelimit.ArrivalsPerSecond. 0 is 128.
	ArrivalBurst int

	// BufferBytes bounds the buffers of all connections to the quorum port and the
	// election port: input that is not decoded, output that is not sent, and what a
	// snapshot or a part of the log goes through. Each link may hold 256 KiB of input; for
	// more, those that hold most wait first, and are closed after 10 s. Output is
	// charged and never waits: MaxQueueBytes bounds it. 64 MiB.
	BufferBytes int
	// MasterPort is the port at which every voter serves observers; 0: none does.
	MasterPort int
	// MaxQueueBytes bounds the bytes that are sent on a link and not read by the
	// peer; a link that exceeds it is closed with ErrSlow. An observer's link has half
	// of it. Links share the data of large queued packets, so this also bounds what all
	// links hold, except for 1 MiB each, for small queued packets, and for the places of
	// large ones: these are bounded by budgets of all links, parts of it. 128 MiB.
	MaxQueueBytes int

	Encryption *Encryption // nil: there is no TLS

	// Authority logs this server in at others, and has them log in here. nil: there are
	// no logins, and one that comes is refused as anything else that is no packet.
	Authority *peerauth.Authority

	Handler Handler
	Logger  *slog.Logger // nil: nothing is logged

	// Tests replace these; nil means the operating system's.
	Listen  func(address string) (net.Listener, error)
	Dial    func(ctx context.Context, address string) (net.Conn, error) // an IP address and port
	Resolve func(ctx context.Context, host string) ([]string, error)    // to IP addresses
}

// Transport manages one server's connections to the other members of its ensemble. Any
// goroutine may call its methods; Start is called once.
type Transport struct {
	o          Options
	h          Handler
	log        *slog.Logger
	refused    *refusal.Log
	logins     failedLogins
	handshakes *tlsport.Turns // of accepted connections
	arrivals   arrivals
	strangers  pace // of the long notifications of servers that are not in known
	outputs    *socket.OutputPool
	buffers    *socket.Budget                             // of Options.BufferBytes
	backlog    struct{ followers, others *socket.Budget } // of the packets that links have queued, without their data

	ctx    context.Context // ended by Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // all goroutines

	// mu is locked before the mutex of a link or a peer.
	mu struct {
		sync.RWMutex
		closed                     bool
		quorumPorts, electionPorts []port // set by Start, and by Listen

		links    map[zab.LinkID]*link
		lastLink zab.LinkID

		known      map[int64][]Address // the ensemble; the map is replaced, not changed
		hello      []byte              // this server's first message on the election port; likewise
		peers      map[int64]*peer
		strangers  int   // peers that are not in known
		nameless   int64 // the last id chosen for a peer without one
		greetings  []*greeting
		lastAccept uint64 // number of the last accepted election connection
	}
}

// New checks the options. Start starts the transport.
func New(o Options) (*Transport, error) {
	if o.Handler == nil {
		return nil, errors.New("transport: no handler")
	}
	o.setDefaults()
	t := &Transport{o: o, h: o.Handler, log: o.Logger, handshakes: tlsport.NewTurns(), strangers: newPace()}
	hello, err := ownHello(&o)
	if err != nil {
		return nil, err
	}
	t.mu.hello = hello
	t.refused = refusal.New(t.log)
	t.logins.start = time.Now()
	t.arrivals.start, t.arrivals.Burst = t.logins.start, o.ArrivalBurst
	t.outputs = socket.NewOutputPool(pooledBytes, new(spare.Buffers), &t.wg)
	t.buffers = socket.NewBudget(o.BufferBytes)
	t.backlog.followers = socket.NewBudget(int(followersShare * float64(o.MaxQueueBytes)))
	t.backlog.others = socket.NewBudget(int(othersShare * float64(o.MaxQueueBytes)))
	t.ctx, t.cancel = context.WithCancel(context.Background())
	t.mu.links = map[zab.LinkID]*link{}
	t.mu.peers, t.mu.known = map[int64]*peer{}, o.Peers
	return t, nil
}

func (o *Options) setDefaults() {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&o.ConnectTimeout, 5*time.Second)
	def(&o.HandshakeTimeout, 10*time.Second)
	def(&o.ElectionTimeout, o.HandshakeTimeout)
	def(&o.DialBudget, 20*time.Second)
	def(&o.RetryDelay, 100*time.Millisecond)
	if o.MaxPacketBytes <= 0 {
		o.MaxPacketBytes = 2 << 20
	}
	if o.ArrivalBurst <= 0 {
		o.ArrivalBurst = 128
	}
	if o.BufferBytes <= 0 {
		o.BufferBytes = 64 << 20
	}
	if o.MaxQueueBytes <= 0 {
		o.MaxQueueBytes = 128 << 20
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if e := o.Encryption; e != nil {
		def(&e.Timeout, 5*time.Second)
	}
	s := system{keepAlive: o.TCPKeepAlive}
	if o.Listen == nil {
		o.Listen = s.listen
	}
	if o.Dial == nil {
		o.Dial = s.dial
	}
	if o.Resolve == nil {
		o.Resolve = s.resolve
	}
}

// Start listens on all ports, or on none: then the error says which address failed, or
// is ErrClosed if Close was called meanwhile. No connection is accepted before it
// returns.
func (t *Transport) Start() error {
	quorum, err := t.bind(t.o.QuorumListen, nil)
	if err != nil {
		return err
	}
	election, err := t.bind(t.o.ElectionListen, nil)
	if err != nil {
		return errors.Join(err, closeAll(quorum))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.closed {
		return errors.Join(ErrClosed, closeAll(quorum), closeAll(election))
	}
	t.mu.quorumPorts, t.mu.electionPorts = quorum, election
	for id := range t.mu.known {
		if id != t.o.ID {
			t.addPeerLocked(id, false)
		}
	}
	t.acceptLocked(quorum, election)
	return nil
}

// acceptLocked starts to accept connections at ports. REQUIRES: t.mu.
func (t *Transport) acceptLocked(quorum, election []port) {
	for _, l := range quorum {
		t.wg.Go(func() { t.accept(l, "quorum port", t.admitLearner) })
	}
	for _, l := range election {
		t.wg.Go(func() { t.accept(l, "election port", t.admitPeer) })
	}
}

// Listen replaces the addresses that Start listens on. Ports that are in both remain open;
// new ones are opened before the others are closed. Links stay open. If an address cannot
// be listened on, the error says so, and nothing changes. Only one call at a time may run.
// REQUIRES: Start has returned nil.
func (t *Transport) Listen(quorum, election []string) error {
	t.mu.RLock()
	oldQuorum, oldElection := t.mu.quorumPorts, t.mu.electionPorts
	t.mu.RUnlock()
	newQuorum, err := t.bind(quorum, oldQuorum)
	if err != nil {
		return err
	}
	newElection, err := t.bind(election, oldElection)
	if err != nil {
		return errors.Join(err, closeAll(without(newQuorum, oldQuorum)))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.closed {
		return errors.Join(ErrClosed, closeAll(without(newQuorum, oldQuorum)), closeAll(without(newElection, oldElection)))
	}
	t.mu.quorumPorts, t.mu.electionPorts = newQuorum, newElection
	t.acceptLocked(without(newQuorum, oldQuorum), without(newElection, oldElection))
	return errors.Join(closeAll(without(oldQuorum, newQuorum)), closeAll(without(oldElection, newElection)))
}

// SetPeers replaces Options.Peers. New servers can be reached from then on; servers
// whose addresses have changed are dialled at the new ones when their present link
// ends. The election link of a server that is not in peers is closed; that server may
// connect again, as any server that is not a member. Learner links stay open. The
// caller must not change the map.
func (t *Transport) SetPeers(peers map[int64][]Address) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.known = peers
	if _, own := peers[t.o.ID]; own { // otherwise what was announced before still leads here
		o := t.o
		o.Peers = peers
		if hello, err := ownHello(&o); err == nil {
			t.mu.hello = hello
		}
	}
	if t.mu.closed || len(t.mu.quorumPorts)+len(t.mu.electionPorts) == 0 {
		return // Start adds them
	}
	for id := range peers {
		if id != t.o.ID && t.mu.peers[id] == nil {
			t.addPeerLocked(id, false)
		}
	}
	t.mu.strangers = 0
	for id, p := range t.mu.peers {
		addresses, known := peers[id]
		if !known {
			t.mu.strangers++
		}
		p.move(known, electionTargets(addresses))
	}
}

// addresses returns those of a member; none for another id.
func (t *Transport) addresses(id int64) []Address {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.mu.known[id]
}

// member reports whether a server is a member of the ensemble.
func (t *Transport) member(id int64) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	_, known := t.mu.known[id]
	return known
}

// Close ends all links: learner links with ErrClosed, election links without a call of
// the Handler. When it returns, no goroutine of the transport is left, so no call of
// the Handler is running or will come. Further calls do nothing.
func (t *Transport) Close() error {
	t.mu.Lock()
	if t.mu.closed {
		t.mu.Unlock()
		return nil
	}
	t.mu.closed = true
	links := make([]*link, 0, len(t.mu.links))
	for _, l := range t.mu.links {
		links = append(links, l)
	}
	greetings := t.mu.greetings
	t.mu.greetings = nil
	quorum, election := t.mu.quorumPorts, t.mu.electionPorts
	t.mu.Unlock()

	for _, l := range links {
		l.fail(ErrClosed)
	}
	t.cancel()
	err := errors.Join(closeAll(quorum), closeAll(election))
	for _, g := range greetings {
		g.nc.Close() // an error changes nothing: it is closed
	}
	t.wg.Wait()
	return err
}

// Dial starts to connect to a server's quorum port. It tries all addresses in parallel,
// repeatedly until Options.DialBudget is over: a newly elected leader may not listen
// yet. LinkUp or LinkDown reports the result. Packets that are sent before that are
// kept and sent first. It returns 0 if the transport is closed.
func (t *Transport) Dial(peer int64, master bool) zab.LinkID {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.closed {
		return 0
	}
	l := t.addLinkLocked()
	l.dialed, l.peer, l.master = true, peer, master
	ctx, cancel := context.WithTimeout(t.ctx, t.o.DialBudget)
	l.mu.cancel = cancel
	t.wg.Go(func() { l.runDialed(ctx) })
	return l.id
}

// Send appends packets to the output of a link, in order, and writes what the socket
// accepts at once. It never blocks. It copies ps and, while the peer is slow, keeps the
// data of large packets, which must not change. For a link that has ended it does
// nothing. The caller must respect the peer's jute.maxbuffer.
//
// If it returns true, the peer is slow, and large packets are queued: their data must never
// change. Otherwise the data is the caller's again.
func (t *Transport) Send(id zab.LinkID, ps []zab.Packet) (keeps bool) {
	if l := t.link(id); l != nil {
		return l.send(ps)
	}
	return false
}

// Stream appends f to the output of a link: what was sent before is written first, what
// is sent later follows. f writes raw bytes on the link's writer goroutine, and blocks
// there as long as the peer does not read. These bytes do not count for MaxQueueBytes;
// bytes that are sent meanwhile do. An error of f, or of its writer, ends the link. f
// is called once, or never if the link ends before; it must not keep the writer.
func (t *Transport) Stream(id zab.LinkID, f func(w io.Writer) error) {
	if l := t.link(id); l != nil {
		l.queueStream(f)
	}
}

// CloseLink ends a link, or the attempts to dial it, at once: pending output is lost.
// LinkDown follows, with this reason unless the link had ended already.
func (t *Transport) CloseLink(id zab.LinkID, reason error) {
	if l := t.link(id); l != nil {
		if reason == nil {
			reason = errors.New("transport: closed without a reason")
		}
		l.fail(reason)
	}
}

// BufferedBytes returns how much of Options.BufferBytes is in use.
func (t *Transport) BufferedBytes() int64 { return t.buffers.Used() }

// Progress returns the number of bytes read and written on the link, which grows as
// long as anything moves: it shows that the link works while a snapshot is streamed. It
// returns 0 for a link that has ended.
func (t *Transport) Progress(id zab.LinkID) uint64 {
	if l := t.link(id); l != nil {
		if sock := l.sock.Load(); sock != nil {
			return sock.Traffic()
		}
	}
	return 0
}

// Notify copies a notification into the peer's slot, where it replaces one that is not
// sent yet, and connects if there is no link. It tries, with growing pauses, until the
// notification is sent. It does nothing for this server's own id, for an id that is
// neither a member nor connected, before Start, and from the beginning of Close on: a server that
// hears from Close that its links end would tell the others that it looks for a leader.
func (t *Transport) Notify(id int64, payload []byte) {
	if len(payload) == 0 || len(payload) > MaxNotificationBytes {
		t.log.Error("an election notification is too large and is not sent; please report this", "peer", id, "bytes", len(payload))
		return
	}
	t.mu.RLock()
	p, closed := t.mu.peers[id], t.mu.closed
	t.mu.RUnlock()
	if p != nil && !closed {
		p.post(payload)
	}
}

func (t *Transport) link(id zab.LinkID) *link {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.mu.links[id]
}

// pause waits for d and reports whether the transport is still open.
func (t *Transport) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-t.ctx.Done():
		return false
	}
}

func closeAll(ls []port) error {
	var errs []error
	for _, l := range ls {
		if err := l.Close(); err != nil {
			errs = append(errs, fmt.Errorf("transport: close port: %w", err))
		}
	}
	return errors.Join(errs...)
}

// logRefused logs why a connection was refused, within the limit on log lines.
func (t *Transport) logRefused(port, remote string, reason error) {
	t.refused.Warn("a connection of another server was refused", "port", port, "remote", remote, "err", reason)
}
