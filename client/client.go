// Package client is a ZooKeeper client: a session that survives its connections,
// operations that wait and operations that call back, watches, transactions.
// It works against Pinfold and against Apache ZooKeeper from 3.4 on.
//
// A Client keeps one connection to one member of the ensemble. Requests leave in
// the order in which they were started, the server executes them in that order,
// and their completions come in that order (the paper's FIFO client order):
// an operation may be started before the one that it relies on has been answered.
//
// # Operations
//
// Each operation has two forms. Get waits for the answer; GetAsync returns when
// the request is queued, and calls back with the answer. Callbacks of a Client run
// one after the other, in request order, in a goroutine of the Client. A callback
// should be short, as later callbacks wait for it. It may start operations; see
// [NoWait] for asynchronous ones. An operation that waits is woken as soon as its
// answer is here, which may be before the callbacks of earlier operations have
// run. What is not sent at all, such as a bad path, is called back out of turn.
// The data that a callback is given is lent: see [Client.GetAsync].
//
// A context bounds the wait, never the order. When the context of a waiting
// operation ends, the operation returns with the context's error, and its request
// stays where it was: an answer is awaited and discarded. The context of an
// asynchronous operation bounds only the wait for a free place among the
// outstanding operations ([MaxOutstanding]).
//
// While there is no connection, operations wait for one. Those that were under way
// when a connection broke fail with zk.ErrConnectionLoss, all of them: a later one
// may rely on an earlier one, so none is repeated. [Error] says whether the request
// had left the client, and so may have been carried out.
//
// # Sessions
//
// A session outlives connections for as long as a member is reached again within
// its timeout. When the servers have let it end, every operation fails with
// zk.ErrSessionExpired and the Client is of no more use, unless [NewSession] was
// asked for. States reports each change.
//
// # Releases
//
// What Apache ZooKeeper 3.4 has works on it. Whatever came later says since when
// servers know it, and fails on older ones with zk.ErrUnimplemented and that release.
// Nothing is sent then: such a server would close the connection. To know, a Client
// waits for an answer or two before the first operation of that kind, also in its
// asynchronous form, and until it has seen a server that is later than 3.4 again
// after each reconnection. Of what came after 3.5 a server of an earlier release is
// asked once: it closes the connection, and what was under way is lost.
package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// ErrClosed is the error of operations on a Client that has been closed.
var ErrClosed = errors.New("client is closed")

// ErrReplyTooLarge is the error of an operation whose answer is larger than
// [MaxReply]. The connection and all other operations go on.
var ErrReplyTooLarge = errors.New("the reply is too large")

// A Client is a session with an ensemble. Its methods may be called from any
// number of goroutines.
type Client struct {
	opts   options
	chroot string // "" or "/a/b"
	hosts  HostProvider

	stop    context.Context // ends when the Client does
	cancel  context.CancelFunc
	running sync.WaitGroup // run
	ready   chan error     // has room for one: how the first connecting went

	spare sync.Pool // of *waiter

	mu          sync.Mutex // guards what follows; never held over I/O or a callback
	session     session
	state       State
	listeners   map[*pump[State]]struct{} // of States
	lastZxid    zk.Zxid                   // newest that any answer of the session has shown (P7)
	dead        error                     // set once: why no operation can succeed any more
	closing     bool
	told        bool          // ready has received the result
	link        *link         // nil while there is none that is ready
	preferred   Host          // to try next, before those of hosts
	lastFailure error         // of the last attempt to connect; nil once connected
	newer       bool          // than 3.4: a member has shown that the servers are
	question    chan struct{} // closed with the answer of what certain has asked; nil when nothing is
	refused     release       // whose operations members do not know, as one has said; 0 for none
	auth        []authInfo
	sentAuth    []int // of auth: those that the server has not answered, in order

	xid     int32
	out     []byte // requests that no writer has taken, as they go to the wire
	pending callQueue
	taken   int // how many of pending a writer has taken
	probe   probe
	heard   time.Time // see Heard
	window  window
	watches watchTable

	done dispatcher
	lent lent
}

// session is what re-attaches a connection to its session.
type session struct {
	id       zk.SessionID // 0 before the first
	password [wire.PasswordLen]byte
	timeout  time.Duration // as the server granted it
	local    bool          // a read-only member made it: no other member knows it
}

// Dial connects to an ensemble and returns when its session is established and the
// credentials of [Auth] are accepted.
// servers is a connect string, "h1:2181,h2:2181/chroot": every path is meant below
// the chroot, which need not exist. A port may be missing; it is 2181. The context
// bounds the wait, not the Client, which is ended by Close.
//
// The error is that of a bad connect string or option, the context's error with
// what went wrong at the last attempt, zk.ErrAuthFailed, or zk.ErrSessionExpired if
// the session of [Session] is over.
func Dial(ctx context.Context, servers string, opts ...Option) (*Client, error) {
	c, err := newClient(servers, opts)
	if err != nil {
		return nil, err
	}
	c.running.Go(c.run)
	if list, ours := c.hosts.(*serverList); ours && c.opts.follow != nil {
		c.running.Go(func() { c.follow(list) })
	}
	select {
	case err = <-c.ready:
	case <-ctx.Done():
		err = c.dialError(ctx)
	}
	if err != nil {
		c.abandon()
		return nil, fmt.Errorf("client: dial %s: %w", servers, err)
	}
	return c, nil
}

func newClient(servers string, opts []Option) (*Client, error) {
	hosts, chroot, err := parseConnectString(servers)
	if err != nil {
		return nil, err
	}
	c := &Client{opts: defaults(), chroot: chroot, state: Connecting}
	for _, o := range opts {
		o(&c.opts)
	}
	if err := c.opts.check(); err != nil {
		return nil, err
	}
	switch c.hosts = c.opts.hosts; {
	case c.hosts != nil:
	case len(hosts) == 0:
		return nil, errors.New("client: the connect string names no server")
	default:
		c.hosts = newServerList(hosts, c.opts.resolver)
	}
	c.session = c.opts.session
	c.stop, c.cancel = context.WithCancel(context.Background())
	c.pending.init()
	c.watches.init()
	c.listeners = map[*pump[State]]struct{}{}
	c.done.init(c.dispatch)
	c.ready = make(chan error, 1)
	c.auth = slices.Clone(c.opts.auth)
	return c, nil
}

// dialError is the context's error with the reason of the last failed attempt.
func (c *Client) dialError(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lastFailure != nil {
		return fmt.Errorf("%w (%w)", context.Cause(ctx), c.lastFailure)
	}
	return context.Cause(ctx)
}

// Close ends the session, which deletes its ephemeral znodes, and the Client.
// Operations that were started before Close are completed first; later ones fail
// with ErrClosed. Close waits for the server's answer for at most the session's
// timeout, and until the callbacks have run; so it must not be called from a
// callback. Its error says that the servers could not be reached, and will end the
// session after its timeout (zk.ErrConnectionLoss), or that the session was over
// already. Closing again waits for the first Close and returns nil.
func (c *Client) Close() error {
	c.mu.Lock()
	if c.closing {
		c.mu.Unlock()
		c.running.Wait()
		c.done.wait()
		return nil
	}
	err := c.endSession()
	c.abandon()
	return err
}

// endSession asks the server to end the session, if it can. c.mu is held, and
// released.
func (c *Client) endSession() error {
	k := call{op: wire.OpCloseSession, name: "close"}
	switch {
	case c.dead != nil:
		defer c.mu.Unlock()
		c.closing = true
		return &Error{Op: k.name, Err: c.dead}
	case c.link == nil:
		defer c.mu.Unlock()
		c.closing = true
		return &Error{Op: k.name, Err: zk.ErrConnectionLoss, Reason: c.lastFailure}
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.session.timeout)
	defer cancel()
	return c.doLocked(ctx, k, nothing).err
}

// abandon ends the Client and leaves the session to its timeout.
func (c *Client) abandon() {
	c.mu.Lock()
	c.closing = true
	c.mu.Unlock()
	c.cancel()
	c.running.Wait()
	c.done.wait()
}

// SessionID names the session; 0 before there is one.
func (c *Client) SessionID() zk.SessionID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session.id
}

// SessionPassword is what a Client needs beside the id to take over the session
// ([Session]).
func (c *Client) SessionPassword() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]byte(nil), c.session.password[:]...)
}

// SessionTimeout is what the server granted, which may differ from what was asked.
func (c *Client) SessionTimeout() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session.timeout
}

// LastZxid is the newest transaction that an answer has shown in this session. A new
// one ([NewSession]) begins with 0, and may be shown an older state.
func (c *Client) LastZxid() zk.Zxid {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lastZxid
}

// Server is the address of the member that answers; "" while there is none.
func (c *Client) Server() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link == nil {
		return ""
	}
	return c.link.addr
}

// Chroot is the path that every path of this Client is meant below; "" for none.
func (c *Client) Chroot() string { return c.chroot }
