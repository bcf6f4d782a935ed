package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/pinfold-zk/pinfold/internal/socket"
)

// leaderPause is the first pause between attempts to reach a leader, which may not
// listen yet. It doubles up to Options.RetryDelay.
const leaderPause = 20 * time.Millisecond

// maxResolved bounds how many addresses of a name are tried.
const maxResolved = 16

// target is one address at which a server may be reached.
type target struct {
	host string // a name, or an IP address without brackets
	port int
}

// String prints host:port.
func (a target) String() string { return net.JoinHostPort(a.host, strconv.Itoa(a.port)) }

// quorumTargets returns the quorum addresses of a server.
func quorumTargets(addresses []Address) (list []target) {
	for _, a := range addresses {
		list = append(list, target{a.Host, a.QuorumPort})
	}
	return list
}

// electionTargets returns the election addresses of a server.
func electionTargets(addresses []Address) (list []target) {
	for _, a := range addresses {
		list = append(list, target{a.Host, a.ElectionPort})
	}
	return list
}

// dialLeader connects to a server's quorum port, or to its port for observers, trying until ctx
// ends.
func (t *Transport) dialLeader(ctx context.Context, id int64, master bool) (*socket.Conn, error) {
	targets := quorumTargets(t.addresses(id))
	if master {
		for i := range targets {
			targets[i].port = t.o.MasterPort
		}
	}
	if len(targets) == 0 {
		return nil, fmt.Errorf("%w: %d", ErrUnknown, id)
	}
	var reason error
	for pause := min(leaderPause, t.o.RetryDelay); ; pause = min(2*pause, t.o.RetryDelay) {
		nc, err := t.open(ctx, targets, t.lastAddress(id))
		if err == nil {
			var sock *socket.Conn
			if sock, err = t.secureLeader(ctx, nc, id, targets); err == nil {
				return sock, nil
			}
		}
		if reason == nil || ctx.Err() == nil {
			reason = err // the end of the budget says less than the previous error
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, fmt.Errorf("transport: connect to server %d: %w", id, reason)
		}
	}
}

// open makes one attempt to connect to any of the targets, which belong to one server.
// It resolves names first; for a name that does not resolve it tries the address last, the one
// at which the server was seen last, unless that is "". The first connection wins. It returns
// when all targets have failed, or after Options.ConnectTimeout.
func (t *Transport) open(ctx context.Context, targets []target, last string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, t.o.ConnectTimeout)
	defer cancel()
	r := &race{t: t, last: last, won: make(chan net.Conn)}
	for _, a := range targets {
		r.running.Go(func() { r.tryName(ctx, a) })
	}
	lost := make(chan struct{})
	t.wg.Go(func() {
		r.running.Wait()
		close(lost)
	})
	select {
	case nc := <-r.won:
		return nc, nil
	case <-lost:
		return nil, errors.Join(r.errs...) // no goroutine appends to it any more
	}
}

// race is one attempt to connect to several addresses.
type race struct {
	t       *Transport
	last    string        // for names that do not resolve; "" is none
	won     chan net.Conn // open receives one connection from it
	running sync.WaitGroup
	mu      sync.Mutex
	errs    []error
}

func (r *race) tryName(ctx context.Context, a target) {
	if _, err := netip.ParseAddr(a.host); err == nil {
		r.try(ctx, a)
		return
	}
	// Half of the time is left for the address that is known without the resolver.
	resolving, cancel := context.WithTimeout(ctx, r.t.o.ConnectTimeout/2)
	hosts, err := r.t.o.Resolve(resolving, a.host)
	cancel()
	if err == nil && len(hosts) == 0 {
		err = errors.New("the name has no address")
	}
	if err != nil {
		r.lose(fmt.Errorf("resolve %s: %w", a.host, err))
		if r.last != "" {
			r.try(ctx, target{r.last, a.port})
		}
		return
	}
	for _, host := range hosts[:min(len(hosts), maxResolved)] {
		r.running.Go(func() { r.try(ctx, target{host, a.port}) })
	}
}

func (r *race) try(ctx context.Context, a target) {
	nc, err := r.t.o.Dial(ctx, a.String())
	if err == nil && selfConnected(nc) {
		nc.Close() // an error changes nothing: nothing was sent
		err = fmt.Errorf("connect %v: no server listens there: TCP has connected the socket to itself", a)
	}
	if err != nil {
		r.lose(err)
		return
	}
	select {
	case r.won <- nc:
	case <-ctx.Done(): // another address was faster, or the time is over
		nc.Close() // an error changes nothing: nothing was sent
		r.lose(fmt.Errorf("connect %v: %w", a, ctx.Err()))
	}
}

func (r *race) lose(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs = append(r.errs, err)
}

// selfConnected reports whether a socket is connected to itself. This happens on a dial
// to the same host if the system chooses the dialled port as the local port.
func selfConnected(nc net.Conn) bool {
	local, ok1 := nc.LocalAddr().(*net.TCPAddr)
	remote, ok2 := nc.RemoteAddr().(*net.TCPAddr)
	return ok1 && ok2 && local.Port == remote.Port && local.IP.Equal(remote.IP)
}

// remoteName returns the other end's address for logs and errors.
func remoteName(nc interface{ RemoteAddr() net.Addr }) string {
	if a := nc.RemoteAddr(); a != nil {
		return a.String()
	}
	return "unknown"
}

// system is the operating system's network.
type system struct{ keepAlive bool }

// period returns the keep-alive period in the form of package net: its default, or
// none.
func (s system) period() time.Duration {
	if s.keepAlive {
		return 0
	}
	return -1
}

func (s system) dial(ctx context.Context, address string) (net.Conn, error) {
	d := net.Dialer{KeepAlive: s.period()}
	return d.DialContext(ctx, "tcp", address) // with TCP_NODELAY, the default of package net
}

func (s system) listen(address string) (net.Listener, error) {
	c := net.ListenConfig{KeepAlive: s.period()}
	return c.Listen(context.Background(), "tcp", address)
}

func (s system) resolve(ctx context.Context, host string) ([]string, error) {
	return net.DefaultResolver.LookupHost(ctx, host)
}
