package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// An Option changes what Dial does.
type Option func(*options)

type options struct {
	timeout     time.Duration
	session     session
	readOnly    bool
	newSession  bool
	outstanding int
	maxRequest  int
	maxReply    int
	watchQueue  int
	hosts       HostProvider
	resolver    Resolver
	follow      func(m Member) string // nil: the members are not followed
	dial        func(ctx context.Context, network, addr string) (net.Conn, error)
	tls         *tls.Config
	auth        []authInfo
	mechanism   Mechanism
	log         *slog.Logger
	metrics     Metrics
	timed       bool // metrics want durations
}

func defaults() options {
	return options{
		timeout:     10 * time.Second,
		outstanding: 1000,
		maxRequest:  1<<20 - 1,
		maxReply:    16 << 20,
		watchQueue:  10_000,
		resolver:    net.DefaultResolver,
		dial:        (&net.Dialer{}).DialContext,
		log:         slog.New(slog.DiscardHandler),
		metrics:     noMetrics{},
	}
}

func (o *options) check() error {
	switch {
	case o.timeout < time.Millisecond || o.timeout.Milliseconds() > 1<<31-1:
		return fmt.Errorf("client: session timeout %v is not between 1 ms and 24 days", o.timeout)
	case o.outstanding < 1:
		return fmt.Errorf("client: at most %d operations outstanding: must be 1 or more", o.outstanding)
	case o.maxRequest < 1 || o.maxReply < 1:
		return errors.New("client: limits of requests and replies must be positive")
	case o.hosts != nil && o.follow != nil:
		return errors.New("client: FollowMembers and Hosts exclude each other")
	case o.watchQueue < 2:
		return fmt.Errorf("client: a watch queue of %d: must be 2 or more", o.watchQueue)
	}
	return nil
}

// SessionTimeout asks for a session that ends when no member has heard of it for d.
// The server may grant more or less. Without it, 10 seconds.
func SessionTimeout(d time.Duration) Option { return func(o *options) { o.timeout = d } }

// Session takes over the session of another Client, by its id and password. When
// the session is over, Dial's error is zk.ErrSessionExpired.
func Session(id zk.SessionID, password []byte) Option {
	return func(o *options) {
		o.session.id = id
		copy(o.session.password[:], password[:min(len(password), wire.PasswordLen)])
	}
}

// AllowReadOnly accepts a member that has lost its quorum and serves reads from
// what it had. The state is then ConnectedReadOnly, writes fail with
// zk.ErrNotReadOnly, and the Client goes on to look for a member with a quorum.
func AllowReadOnly() Option { return func(o *options) { o.readOnly = true } }

// NewSession makes the Client begin a new session when the servers have ended its
// session, instead of being of no more use. What was under way then fails with
// zk.ErrSessionExpired, watches end with an event of state zk.StateExpired, and
// ephemeral znodes are gone: callers that rely on them must watch States.
func NewSession() Option { return func(o *options) { o.newSession = true } }

// MaxOutstanding bounds the asynchronous operations whose callbacks have not yet
// run; those that are too many wait until there is room. Waiting operations are
// bounded by the goroutines that wait, and not counted. Without it, 1000.
func MaxOutstanding(n int) Option { return func(o *options) { o.outstanding = n } }

// MaxRequest bounds a request in bytes; a larger one is refused before it is sent.
// Servers drop the connection over what is larger than their jute.maxbuffer.
// Without it, 1,048,575: their jute.maxbuffer, unless configured otherwise.
func MaxRequest(n int) Option { return func(o *options) { o.maxRequest = n } }

// MaxReply bounds a reply in bytes. An operation whose answer is larger has the error
// [ErrReplyTooLarge]. Without it, 16 MiB: a list of children may be larger than any
// znode.
func MaxReply(n int) Option { return func(o *options) { o.maxReply = n } }

// WatchQueue bounds the events that a persistent watch keeps for a slow reader;
// see [Watch]. 2 or more; without it, 10,000.
func WatchQueue(n int) Option { return func(o *options) { o.watchQueue = n } }

// Hosts replaces the connect string's members by those of p; it may name none then.
func Hosts(p HostProvider) Option { return func(o *options) { o.hosts = p } }

// FollowMembers keeps the list of members as the ensemble's configuration has it, from
// the first connection on: at each change it is updated as by UpdateServers; the first
// configuration makes the Client leave only a member that it does not have. addr
// returns the address at which this Client reaches a member, "" for none;
// [Member.ClientAddr], which returns what the configuration says, serves most. A
// configuration without any such address changes nothing, as that of a static zoo.cfg
// whose server lines have no client port. The members of the connect string that the
// configuration does not have are tried when all others have failed.
func FollowMembers(addr func(m Member) string) Option {
	return func(o *options) { o.follow = addr }
}

// LookUp replaces net.DefaultResolver for the names of the connect string.
func LookUp(r Resolver) Option { return func(o *options) { o.resolver = r } }

// Dialer makes connections by dial instead of by net.Dialer. addr is an address
// of the HostProvider.
func Dialer(dial func(ctx context.Context, network, addr string) (net.Conn, error)) Option {
	return func(o *options) { o.dial = dial }
}

// TLS encrypts connections. Without a ServerName in config, the member's host
// name of the connect string is what its certificate must be for.
func TLS(config *tls.Config) Option { return func(o *options) { o.tls = config } }

// Auth authenticates every connection, as AddAuth does, from the first on.
func Auth(scheme string, auth []byte) Option {
	return func(o *options) {
		o.auth = append(o.auth, authInfo{scheme: scheme, auth: append([]byte(nil), auth...)})
	}
}

// SASL authenticates every connection by a mechanism before anything else is sent.
func SASL(m Mechanism) Option { return func(o *options) { o.mechanism = m } }

// Logger receives what the Client does: connections at level info, what failed at
// warn, details at debug.
func Logger(l *slog.Logger) Option { return func(o *options) { o.log = l } }

// WithMetrics sets the receiver of the Client's metrics.
func WithMetrics(m Metrics) Option {
	return func(o *options) { o.metrics, o.timed = m, true }
}

// Metrics receives reports of operations and connections. Its methods are called by the
// Client's own goroutines, possibly under a lock: they must be quick and call
// nothing of the Client.
type Metrics interface {
	// Answered reports the end of an operation: its name (as in Error.Op), how long
	// it took since it was started, and its error, an *Error, or nil.
	Answered(op string, took time.Duration, err error)
	// StateChanged reports each change of state, as States does.
	StateChanged(s State)
}

type noMetrics struct{}

func (noMetrics) Answered(string, time.Duration, error) {}
func (noMetrics) StateChanged(State)                    {}

// A Mechanism authenticates a connection by the exchange of tokens that SASL
// prescribes (protocol page, section on SASL). One value serves all connections
// of a Client, one after the other.
type Mechanism interface {
	// Authenticate runs the exchange. send carries a token to the server, and
	// returns the server's. An error ends the connection, and the Client in
	// state AuthFailed if errors.Is(err, zk.ErrAuthFailed).
	Authenticate(ctx context.Context, host string, send func(token []byte) ([]byte, error)) error
}
