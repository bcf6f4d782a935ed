package clients

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
)

// An Env is what a scenario has: servers, a chroot on them, and clients whose
// connections it can break.
type Env struct {
	t      *testing.T
	s      *servers
	chroot string
	coming bool // it will call Restart

	mu    sync.Mutex
	lines map[*client.Client]*line
}

// A line is what a client's connections run over.
type line struct {
	mu    sync.Mutex
	held  bool
	dials int
	conns map[net.Conn]struct{}
}

// sessionTimeout is longer than a server on a busy machine takes to start.
const sessionTimeout = 30 * time.Second

var errHeld = errors.New("the test holds this client's connections")

// dial makes connections while the line is not held.
func (l *line) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held {
		return nil, errHeld
	}
	nc, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err == nil {
		l.conns[nc] = struct{}{}
		l.dials++
	}
	return nc, err
}

// dialled is how many connections there have been.
func (l *line) dialled() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dials
}

// cut breaks the connections, and has none made until hold is false.
func (l *line) cut(hold bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = hold
	for nc := range l.conns {
		nc.Close() // which may have ended already
	}
	clear(l.conns)
}

// Apache reports whether the servers are Apache's.
func (e *Env) Apache() bool { return e.s.members[0].Kind().IsApache() }

// Client returns a client with a session of its own, below the chroot. It is
// closed when the scenario ends.
func (e *Env) Client(opts ...client.Option) *client.Client {
	e.t.Helper()
	return e.dial(e.chroot, opts...)
}

// ClientOf is Client, of one member only.
func (e *Env) ClientOf(m *cluster.Member, opts ...client.Option) *client.Client {
	e.t.Helper()
	return e.dialAt(m.Client+e.chroot, opts...)
}

func (e *Env) dial(chroot string, opts ...client.Option) *client.Client {
	e.t.Helper()
	return e.dialAt(e.s.addrs()+chroot, opts...)
}

func (e *Env) dialAt(servers string, opts ...client.Option) *client.Client {
	e.t.Helper()
	l := &line{conns: map[net.Conn]struct{}{}}
	ctx, cancel := context.WithTimeout(e.t.Context(), patience)
	defer cancel()
	all := append([]client.Option{client.SessionTimeout(sessionTimeout), client.Dialer(l.dial)}, opts...)
	c, err := client.Dial(ctx, servers, all...)
	if err != nil {
		e.t.Fatal(err)
	}
	e.mu.Lock()
	if e.lines == nil {
		e.lines = map[*client.Client]*line{}
	}
	e.lines[c] = l
	e.mu.Unlock()
	e.t.Cleanup(func() { c.Close() }) // its session may be over
	return c
}

func (e *Env) line(c *client.Client) *line {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.lines[c]
}

// Cut breaks a client's connection; it may connect again.
func (e *Env) Cut(c *client.Client) { e.line(c).cut(false) }

// Hold breaks a client's connection and lets it have no other until Release. A
// client that is never released is one that was killed: its session ends by its
// timeout.
func (e *Env) Hold(c *client.Client) { e.line(c).cut(true) }

// Release lets a client connect again.
func (e *Env) Release(c *client.Client) {
	l := e.line(c)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = false
}

// Restart kills a server, of an ensemble the leader, and starts it again. It
// returns when that serves. All scenarios that run side by side, and want that,
// wait for each other. A scenario may call it once.
func (e *Env) Restart() {
	e.t.Helper()
	if !e.coming {
		e.t.Fatal("a scenario that is not marked for it wants a restart, or another one")
	}
	e.coming = false
	ctx := e.Context()
	select {
	case <-e.s.gather.arrive(true):
		if err := e.s.gather.err; err != nil {
			e.t.Fatal(err)
		}
	case <-ctx.Done():
		e.t.Fatal("not all want the restart, or it takes too long")
	}
}

// absent tells the others when this scenario ends without a restart.
func (e *Env) absent() {
	if e.coming {
		e.coming = false
		e.s.gather.arrive(false)
	}
}

// Context ends when the patience does.
func (e *Env) Context() context.Context {
	ctx, cancel := context.WithTimeout(e.t.Context(), patience)
	e.t.Cleanup(cancel)
	return ctx
}
