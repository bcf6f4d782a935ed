// Package transport is all that is between a server of an ensemble and TCP. It
// knows packets and notifications, not what they mean: who may follow whom, and
// which vote counts, is decided above it.
//
// Two ports, two kinds of connection:
//
//   - A learner link carries packets between a learner and its leader, in order
//     and without loss until it ends (protocol page, section 13). The learner
//     dials; the leader's quorum port accepts anybody, since only the first packet
//     says who it is. A link is a zab.LinkID; its numbers are never used again.
//   - An election link carries notifications between two servers (section 12.1).
//     Notifications may be lost, and repeated: for each peer there is one slot, in
//     which a newer one replaces one that is not sent yet.
//
// The files:
//
//	codec.go     packets and their bytes
//	input.go     a stream of packets, a snapshot within it
//	link.go      learner links, from dial or accept to their end
//	output.go    what is sent on them
//	listen.go    both ports; who is let in
//	dial.go      reaching an address, and a leader
//	election.go  which connection to a peer is kept; the first message
//	peer.go      one peer's election link
//
// # Who runs what
//
// A learner link has a goroutine that dials, reads and calls the Handler, and
// one that writes while the socket is full or a stream is running: it is a
// socket.Conn with its Output. A peer has a
// goroutine that owns its election link and writes, and one that reads. Dialling
// takes one for each address that is tried. Close waits for all of them.
//
// # What comes from outside
//
// Whoever connects is a stranger until it has shown otherwise. Nothing is
// allocated by a length that was only announced. Every table that a stranger can
// fill has a bound, and what is over it is closed: connections that have said
// nothing, oldest first. What is refused is logged, so many lines a second.
//
// # TLS and SASL
//
// Neither is built. TLS on learner links is a socket.Options.Layer in attach, with
// its handshake before LinkUp; on election links it goes between TCP and the first
// byte, in open of dial.go and admitPeer of listen.go. SASL on the quorum port goes
// between LinkUp and the first packet, on the election port behind the first
// message (protocol page, section 16).
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

	"github.com/pinfold-zk/pinfold/internal/refusal"
	"github.com/pinfold-zk/pinfold/internal/socket"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/zk"
)

// Errors that a link may end with, beside those of the network.
var (
	ErrClosed  = errors.New("transport: closed")
	ErrPacket  = errors.New("transport: not a packet")                           // the peer speaks something else
	ErrSilent  = errors.New("transport: no packet came in time")                 // from whom the quorum port accepted
	ErrSlow    = errors.New("transport: the peer does not take what it is sent") // see Options.MaxQueueBytes
	ErrCrowded = errors.New("transport: too many connections")
	ErrUnknown = errors.New("transport: no address is known of the server")
)

// A Handler is told what happens on the links. All calls come from goroutines of
// the transport: those for one link from its reader, one at a time; those for
// one election peer one at a time too. They may call the transport, but not
// Close. A call that blocks stops its link's or peer's input, nothing else.
type Handler interface {
	// LinkUp says that TCP is up. remote is the other end's address, dialed is
	// false on the leader's side. For an accepted link nothing has been read.
	LinkUp(l zab.LinkID, remote string, dialed bool)

	// Packets hands over what has come, in order, all whole packets of one read.
	// ps is the transport's again when the call returns. Data and Auth stay as
	// they are for ever; they alias a buffer of some 256 KiB, which lives as long
	// as anything in it is kept: copy what is small and kept for long.
	Packets(l zab.LinkID, ps []zab.Packet)

	// LinkDown is the last call of a link, exactly one for each LinkUp. err is why,
	// never nil. A dial that fails has this call alone. No function given to Stream
	// runs then or later.
	LinkDown(l zab.LinkID, err error)

	// Snapshot consumes the body of a tree from r, exactly: the bytes behind a SNAP
	// packet up to its signature, which the transport checks before it hands on
	// the packet itself by Packets. An error ends the link. It may take as long as
	// the stream does. Only a link that was dialled carries a SNAP.
	Snapshot(l zab.LinkID, z zk.Zxid, r SnapshotSource) error

	// Notification hands over what came on the election port. payload, 1 to
	// MaxNotificationBytes, is the handler's. from is what the peer says it is.
	Notification(from int64, payload []byte)

	// PeerUp says that there is an election link to the server, or a new one in
	// place of an older.
	PeerUp(id int64)

	// PeerDown says that the election link was lost, or that an attempt to connect
	// has failed and there is none; it may be repeated. Close does not count.
	PeerDown(id int64)
}

// SnapshotSource is the stream of a snapshot, as storage.SnapshotReader shows it.
// It is an alias, so that a handler need not import this package.
type SnapshotSource = interface {
	// Buffered returns what can be had without reading, valid until the next Fill.
	Buffered() []byte
	// Fill returns what is buffered, at least n bytes, valid until the next call.
	// A link that ends before is an error, io.ErrUnexpectedEOF if it ended in order:
	// the stream says itself where it ends.
	Fill(n int) ([]byte, error)
	// Discard consumes n bytes of what is buffered.
	Discard(n int)
}

// Address is where a server of the ensemble is reached. The host is a name or an
// IP address, without brackets.
type Address struct {
	Host         string
	QuorumPort   int
	ElectionPort int
}

// Options configures a Transport. What is zero has the default that is named.
type Options struct {
	ID    int64               // this server's
	Peers map[int64][]Address // the ensemble, this server included: its address is announced

	QuorumListen   []string // host:port, each is listened on; none: no learner is accepted
	ElectionListen []string
	ListenOnAllIPs bool // use the ports of these alone
	BindAttempts   int  // a second apart, before Start gives up; 0 is without end (electionPortBindRetry)

	ConnectTimeout   time.Duration // of one attempt, names included; 5 s (cnxTimeout)
	HandshakeTimeout time.Duration // for the first packet on an accepted link; 10 s (tickTime*syncLimit)
	ElectionTimeout  time.Duration // for a peer's first message on the election port, and for it to take ours; HandshakeTimeout (quorumCnxnTimeoutMs)
	DialBudget       time.Duration // of Dial, all attempts; 20 s (tickTime*initLimit)
	RetryDelay       time.Duration // the longest pause between two attempts of Dial; 100 ms (leaderConnectDelayDuringRetryMs)
	TCPKeepAlive     bool

	// MaxPacketBytes bounds the data, and the identities, of one packet that is
	// read; 2 MiB (jute.maxbuffer and its extra size).
	MaxPacketBytes int
	// MaxQueueBytes bounds what is sent on a link and not taken by the peer; a link
	// that exceeds it is closed with ErrSlow. 256 MiB.
	MaxQueueBytes int

	Handler Handler
	Logger  *slog.Logger // nil is silence

	// What tests replace; nil is the operating system's.
	Listen  func(address string) (net.Listener, error)
	Dial    func(ctx context.Context, address string) (net.Conn, error) // an IP address and port
	Resolve func(ctx context.Context, host string) ([]string, error)    // to IP addresses
}

// Transport is one server's connections to the others of its ensemble. Its
// methods may be called by any goroutine, Start once.
type Transport struct {
	o       Options
	h       Handler
	log     *slog.Logger
	refused *refusal.Log
	hello   []byte // this server's first message on the election port
	outputs *socket.OutputPool

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // all goroutines

	// mu is taken before a link's or a peer's.
	mu struct {
		sync.RWMutex
		closed                     bool
		quorumPorts, electionPorts []net.Listener // set by Start

		links    map[zab.LinkID]*link
		lastLink zab.LinkID
		accepted int // links that the quorum port has let in

		peers      map[int64]*peer
		strangers  int   // peers that are not in Options.Peers
		nameless   int64 // the last id given to a peer that has none
		greetings  []*greeting
		lastAccept uint64 // election connections, in order
	}
}

// New checks the options. Nothing happens before Start.
func New(o Options) (*Transport, error) {
	if o.Handler == nil {
		return nil, errors.New("transport: no handler")
	}
	o.setDefaults()
	t := &Transport{o: o, h: o.Handler, log: o.Logger}
	hello, err := ownHello(&o)
	if err != nil {
		return nil, err
	}
	t.hello = hello
	t.refused = refusal.New(t.log)
	t.outputs = socket.NewOutputPool(pooledOutputs, pooledBytes)
	t.ctx, t.cancel = context.WithCancel(context.Background())
	t.mu.links = map[zab.LinkID]*link{}
	t.mu.peers = map[int64]*peer{}
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
	if o.MaxQueueBytes <= 0 {
		o.MaxQueueBytes = 256 << 20
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
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

// Start listens on all ports, or on none: the error says which address failed,
// or is ErrClosed if Close was called meanwhile. Until it returns nobody is
// accepted.
func (t *Transport) Start() error {
	quorum, err := t.bind(t.o.QuorumListen)
	if err != nil {
		return err
	}
	election, err := t.bind(t.o.ElectionListen)
	if err != nil {
		return errors.Join(err, closeAll(quorum))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.closed {
		return errors.Join(ErrClosed, closeAll(quorum), closeAll(election))
	}
	t.mu.quorumPorts, t.mu.electionPorts = quorum, election
	for id := range t.o.Peers {
		if id != t.o.ID {
			t.addPeerLocked(id, false)
		}
	}
	for _, l := range quorum {
		t.wg.Go(func() { t.accept(l, t.admitLearner) })
	}
	for _, l := range election {
		t.wg.Go(func() { t.accept(l, t.admitPeer) })
	}
	return nil
}

// Addrs returns what Start listens on.
func (t *Transport) Addrs() (quorum, election []net.Addr) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, l := range t.mu.quorumPorts {
		quorum = append(quorum, l.Addr())
	}
	for _, l := range t.mu.electionPorts {
		election = append(election, l.Addr())
	}
	return quorum, election
}

// Close ends everything: links with ErrClosed, election links without a word.
// It returns when no goroutine of the transport is left, and thus no call of the
// Handler is running or will come. Further calls do nothing.
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

// Dial starts to connect to a server's quorum port, at all its addresses in
// parallel, again and again until Options.DialBudget is over: a leader that was
// just elected may not listen yet. LinkUp or LinkDown tells what came of it. What
// is sent on the link before is kept and sent first. It returns 0 if the
// transport is closed.
func (t *Transport) Dial(peer int64) zab.LinkID {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.closed {
		return 0
	}
	l := t.addLinkLocked()
	l.dialed, l.peer = true, peer
	ctx, cancel := context.WithTimeout(t.ctx, t.o.DialBudget)
	l.mu.cancel = cancel
	t.wg.Go(func() { l.runDialed(ctx) })
	return l.id
}

// Send appends packets to the output of a link, in order, and writes what the
// socket takes at once; it copies them and never blocks. A link that has ended
// takes nothing. The peer's jute.maxbuffer is the caller's to respect.
func (t *Transport) Send(id zab.LinkID, ps []zab.Packet) {
	if l := t.link(id); l != nil {
		l.send(ps)
	}
}

// Stream puts f into the output of a link: what was sent before comes first,
// what is sent later follows. f writes raw bytes in the link's writer goroutine,
// and blocks there as long as the peer does; its bytes do not count for
// MaxQueueBytes, those that are sent meanwhile do. An error, its own or one of
// the writer, ends the link. f is called once, or never if the link ends before
// its turn; it must not keep the writer.
func (t *Transport) Stream(id zab.LinkID, f func(w io.Writer) error) {
	if l := t.link(id); l != nil {
		l.queueStream(f)
	}
}

// CloseLink ends a link, or the attempts to dial it, at once: what is not sent is
// lost. LinkDown follows, with reason unless the link had ended already.
func (t *Transport) CloseLink(id zab.LinkID, reason error) {
	if l := t.link(id); l != nil {
		if reason == nil {
			reason = errors.New("transport: closed without a reason")
		}
		l.fail(reason)
	}
}

// Progress returns the number of bytes read and written on the link, which grows
// as long as anything moves: a sign of life while a snapshot is streamed. It is 0
// for a link that has ended.
func (t *Transport) Progress(id zab.LinkID) uint64 {
	if l := t.link(id); l != nil {
		if sock := l.sock.Load(); sock != nil {
			return sock.Traffic()
		}
	}
	return 0
}

// Notify puts a notification, which is copied, into the peer's slot, where it
// replaces one that is not sent yet, and connects if there is no link. Attempts
// go on, with growing pauses, until it is sent. It does nothing for this
// server's own id, for an id that is neither in Options.Peers nor connected,
// before Start and after Close.
func (t *Transport) Notify(id int64, payload []byte) {
	if len(payload) == 0 || len(payload) > MaxNotificationBytes {
		t.log.Error("a notification of that size cannot be sent", "peer", id, "bytes", len(payload))
		return
	}
	t.mu.RLock()
	p := t.mu.peers[id]
	t.mu.RUnlock()
	if p != nil {
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

func closeAll(ls []net.Listener) error {
	var errs []error
	for _, l := range ls {
		if err := l.Close(); err != nil {
			errs = append(errs, fmt.Errorf("transport: close port: %w", err))
		}
	}
	return errors.Join(errs...)
}

// logRefused logs why a connection was refused, unless there are too many of them.
func (t *Transport) logRefused(port, remote string, reason error) {
	t.refused.Warn("connection refused", "port", port, "remote", remote, "err", reason)
}
