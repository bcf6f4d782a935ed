// Package server is the client side of a ZooKeeper server: it accepts connections,
// reads requests, answers those that only read from the local tree, submits the others
// to the replica, and sends replies and events.
//
// The path of a request, in the order of the files:
//
//	accept.go     connections, their limits
//	conn.go       the two halves of the socket: frames in, one write per batch out
//	tls.go        TLS: which connections have it, the handshake, the client's certificate
//	tls_queue.go  TLS handshakes that wait for their turn
//	handshake.go  sessions: new, resumed, refused
//	opened.go     sessions by the address of their clients, and the budget of all sessions
//	hold.go       handshakes that wait for a quorum
//	eager.go      writes that the ACLs of this server's tree already refuse
//	local.go      sessions that live on this server alone
//	room.go       large replies wait for room in the budget of all buffers
//	long.go       lists of children that are too long to be built under one lock
//	limits.go     identities, their rates and counts; limited.go, a connection's part
//	flight.go     large requests wait for room in the budget of what is in flight
//	pipeline.go   a request: answered now, after the session's own writes, or submitted
//	pending.go    what waits for these writes, and its part of the budget of all buffers
//	read.go       requests that read
//	pieces.go     requests whose work is done in pieces
//	sasl.go       SASL logins
//	penalty.go    clients whose login has failed wait
//	write.go      replies to requests that write
//	audit.go      lines of the audit log about them
//	events.go     events of watches
//	command.go    four-letter words
//	inspect.go    what they and the administration server show of a server
//
// Invariants; tests have the same names:
//
//	P1  replies leave in the session's request order
//	P4  the events of zxid z reach a connection before any reply that shows a
//	    state at or after z
//	P6  every queue is bounded: see limits
//	P6  every queue is bounded: see limits
//	P7  a reconnecting client never sees an older state than it has seen
//
// Locks, in the order of acquisition: the replica's tree lock, a connection's mu, and
// Server.mu and the watch tables' lock, which are leaves.
package server

import (
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pinfold-zk/pinfold/internal/audit"
	"github.com/pinfold-zk/pinfold/internal/auth"
	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/metric"
	"github.com/pinfold-zk/pinfold/internal/ratelimit"
	"github.com/pinfold-zk/pinfold/internal/refusal"
	"github.com/pinfold-zk/pinfold/internal/session"
	"github.com/pinfold-zk/pinfold/internal/socket"
	"github.com/pinfold-zk/pinfold/internal/spare"
	"github.com/pinfold-zk/pinfold/internal/tlsport"
	"github.com/pinfold-zk/pinfold/internal/watch"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// limits bounds what the server holds for one connection (P6).
const (
	readBufferBytes = 64 << 10  // pooled, held while a frame is incomplete
	softOutBytes    = 256 << 10 // when exceeded, replies are sent before more is read
	hardOutBytes    = 16 << 20  // the connection of a client that leaves more unread is closed
	maxPending      = 4096      // requests that wait for the session's writes
	maxPendingBytes = 1 << 20   // of their bodies
	maxExpected     = 4 << 20   // estimated bytes of the replies to the reads among them
	readRun         = 128       // reads answered under one read lock
)

// Version is the version that four-letter words and the start-up line print. Clients
// and monitors parse the number at its beginning, so it is that of the Apache release
// with the same behaviour.
const Version = "3.9.4-pinfold"

// Options configures a server.
type Options struct {
	Config *config.Config
	Auth   *auth.Authority
	SASL   Logins
	Audit  *audit.Log // nil: there is no audit log
	Logger *slog.Logger
	// Limits are those of sessions and identities; nil: there are none, and SetLimits
	// must not be called.
	Limits *ratelimit.File
	// Passwords are those of the sessions; all servers of an ensemble have the same.
	Passwords session.Passwords
}

// Server serves clients from a replica. Create one with New, set its replica with
// Attach, then call Serve.
type Server struct {
	cfg       *config.Config
	auth      *auth.Authority
	logins    Logins
	audit     *audit.Log // nil if there is none
	log       *slog.Logger
	refused   *refusal.Log // logs refusals of clients
	replica   Replica
	stats     Stats
	metrics   *metric.Registry
	passwords session.Passwords

	members   atomic.Pointer[config.Members] // of SetMembers, nil: the configuration's
	traceMask atomic.Int64                   // for the words gtmk and stmk; without effect

	ahead     atomic.Int32 // handshakes that wait for a zxid
	throttle  throttle
	limits    *limits  // nil if no limits are configured
	enforced  []string // schemes of which a client must have authenticated by one
	submitRun int      // writes that a connection submits before it checks for room: its share of the pipeline
	large     largeRequests
	penalties penalties
	eagerACL  bool // check writes here before the leader is asked

	pieceDone func(work int) // called with the work under each hold of the tree's read lock; tests set it

	// Owned by the applier: connections with output, the event that is being sent, and
	// the reply to a long multi, from Applying to Applied.
	dirty    []*conn
	event    []byte
	prepared preparedReply

	opened opened // sessions, by the addresses of their clients

	mu struct {
		sync.Mutex
		conns    []*conn // by watch.ID; nil: free
		free     []watch.ID
		open     int
		perIP    map[netip.Addr]int
		sessions map[zk.SessionID]*conn
		serial   uint64
		held     map[*conn]heldConn
		closed   bool
	}
	listeners  []net.Listener // guarded by mu
	handshakes handshakes
	shaking    *tlsport.Turns // of TLS handshakes that compute
	wg         sync.WaitGroup

	gate struct {
		sync.Mutex
		sync.Cond
		waiting atomic.Int32
	}
	runs      sync.Pool // of *run
	inputs    *socket.InputPool
	outputs   *socket.OutputPool
	spare     spare.Buffers  // large ones, for requests and replies
	budget    *socket.Budget // of all connections' buffers
	flight    *socket.Budget // of all requests in flight
	heavy     heavy          // the large ones of them
	listings  places         // of long replies that are built
	making    places         // of buffers of large replies, and copies of long paths
	dumps     chan struct{}  // holds one for each answer to dump
	texts     places         // of long answers to words that are made
	endings   places         // of connections that end
	lingering socket.Lingering
}

// New returns a server without a replica. It implements replica.Clients.
func New(o Options) *Server {
	s := &Server{cfg: o.Config, auth: o.Auth, logins: o.SASL, audit: o.Audit, passwords: o.Passwords, log: o.Logger}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.refused = refusal.New(s.log)
	s.mu.perIP = map[netip.Addr]int{}
	s.mu.sessions = map[zk.SessionID]*conn{}
	s.mu.held = map[*conn]heldConn{}
	s.gate.L = &s.gate.Mutex
	s.runs.New = func() any { return newRun() }
	s.budget = socket.NewBudget(o.Config.BufferBytes())
	s.flight = socket.NewBudget(o.Config.OutstandingBytes())
	s.heavy.limit = o.Config.OutstandingBytes() / 4
	s.spare.Most = spareBytes
	s.inputs = socket.NewInputPool(readBufferBytes, &s.spare)
	s.listings, s.making, s.texts, s.endings = newPlaces(), newPlaces(), newPlaces(), newPlaces()
	s.dumps = make(chan struct{}, maxDumps)
	s.shaking = tlsport.NewTurns()
	s.outputs = socket.NewOutputPool(softOutBytes, &s.spare, &s.wg)
	s.throttle = newThrottle(&o.Config.Throttle)
	s.large = newLargeRequests(&o.Config.Requests)
	s.enforced = o.Config.Auth.Enforced()
	s.submitRun = writeRun
	if limit := s.maxInPipeline(); limit > 0 {
		s.submitRun = min(1+limit/8, writeRun)
	}
	if o.Limits != nil {
		s.limits = newLimits(o.Limits, func() time.Duration { return s.replica.Now() })
	}
	s.traceMask.Store(defaultTraceMask)
	s.stats.started = time.Now()
	s.stats.readsBy, s.stats.writesBy = newNamespaces(), newNamespaces()
	s.metrics = metric.NewRegistry(metric.Catalogue())
	s.bindMetrics()
	if q := &o.Config.Quorum; q.Distributed() {
		s.eagerACL = o.Config.Auth.EagerACLCheck
		// An Apache member writes its configuration into the tree when it
		// starts.
		s.stats.writing.add(s.stats.writesBy, znode.ConfigPath, int64(len(znode.ConfigPath)+len(q.Members.Text())))
		s.stats.writing.fold()
	}
	return s
}

// Attach sets the server's replica. It is called before Serve.
func (s *Server) Attach(r Replica) {
	s.replica = r
	s.heavy.now, s.heavy.applied = r.Now, r.LastApplied
	r.Watches(func(t *watch.Tables) { t.Limit = s.cfg.Client.WatchBytes })
	r.BindMetrics(s.metrics)
}

// SetMembers says what the members of the ensemble are from now on, for the words and
// commands that print them. The caller must not change them.
func (s *Server) SetMembers(m *config.Members) { s.members.Store(m) }

// Members returns the present members of the ensemble. The caller must not change them.
func (s *Server) Members() *config.Members {
	if m := s.members.Load(); m != nil {
		return m
	}
	return &s.cfg.Quorum.Members
}

// OwnLine returns this server's line among the members; the one of its configuration if it
// is no member any more. Only servers of an ensemble have one.
func (s *Server) OwnLine() *config.Member {
	if own := s.Members().Find(s.cfg.Quorum.MyID); own != nil {
		return own
	}
	return s.cfg.Quorum.Own()
}

// Metrics returns the registry of the server's and its replica's metrics. Snapshots may
// be taken after Attach.
func (s *Server) Metrics() *metric.Registry { return s.metrics }

// Stop closes the listeners and all connections, and waits for them. Sessions survive:
// their clients reconnect.
func (s *Server) Stop() {
	s.mu.Lock()
	s.mu.closed = true
	conns := make([]*conn, 0, s.mu.open)
	for _, c := range s.mu.conns {
		if c != nil {
			conns = append(conns, c)
		}
	}
	listeners := s.listeners
	s.mu.Unlock()
	for _, l := range listeners {
		l.Close() // an error changes nothing: no connection is accepted any more
	}
	for _, c := range conns {
		c.kill("server shutdown")
	}
	s.lingering.Close()
	s.Released() // a replica that has failed makes no more room
	s.wg.Wait()
}

// maxInPipeline is how many requests the pipeline may have before busy connections wait:
// the lower one of globalOutstandingLimit and request_throttle_max_requests, 0 for no limit.
func (s *Server) maxInPipeline() int {
	limit := s.cfg.Requests.MaxOutstanding
	if n := s.cfg.Requests.MaxInPipeline; n > 0 && (limit <= 0 || n < limit) {
		limit = n
	}
	return limit
}

// awaitRoom blocks while the pipeline has more than maxInPipeline requests and c has
// its share of them. A connection calls it before it reads on. One with few requests
// never waits, whatever others send.
func (s *Server) awaitRoom(c *conn) {
	limit := s.maxInPipeline()
	crowded := func() bool {
		return s.replica.Outstanding() > limit && c.flight.account.Held() >= s.submitRun*opWeight
	}
	if limit <= 0 || !crowded() {
		return
	}
	s.stats.Stalled.Add(1)
	c.pauseReading()
	defer c.resumeReading()
	s.gate.Lock()
	s.gate.waiting.Add(1)
	for crowded() && !s.replica.Stopping() {
		s.gate.Wait()
	}
	s.gate.waiting.Add(-1)
	s.gate.Unlock()
}

// bind makes c the connection of a session and closes the previous one.
func (s *Server) bind(id zk.SessionID, c *conn) {
	s.mu.Lock()
	old := s.mu.sessions[id]
	s.mu.sessions[id] = c
	s.mu.Unlock()
	if old != nil && old != c {
		old.kill("client reconnected")
	}
}

// unbind removes c as the connection of a session, if it still is.
func (s *Server) unbind(id zk.SessionID, c *conn) {
	s.mu.Lock()
	if s.mu.sessions[id] == c {
		delete(s.mu.sessions, id)
	}
	s.mu.Unlock()
}
