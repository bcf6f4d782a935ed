package transport

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/pinfold-zk/pinfold/internal/ratelimit"
)

// Bounds of the resources that unknown peers can use.
const (
	maxGreetings = 64 // election connections that have not sent their server id
	maxStrangers = 64 // election peers that are not in the configuration
)

const (
	bindPause   = time.Second
	acceptPause = 100 * time.Millisecond // after an error
	wayPause    = time.Second            // at most, for the end of a connection that has made way
)

// A port is a listener, with the address that was asked for.
type port struct {
	address string
	net.Listener
}

// without returns the ports of a list that are not in another.
func without(list, other []port) (rest []port) {
	for _, p := range list {
		if !slices.ContainsFunc(other, func(o port) bool { return o.Listener == p.Listener }) {
			rest = append(rest, p)
		}
	}
	return rest
}

// bind listens on all addresses, or on none if one fails. Ports that are open already are
// used as they are.
func (t *Transport) bind(addresses []string, open []port) ([]port, error) {
	var list []port
	var bound []string
	for _, address := range addresses {
		if t.o.ListenOnAllIPs {
			_, port, err := net.SplitHostPort(address)
			if err != nil {
				return nil, errors.Join(fmt.Errorf("transport: listen: %w", err), closeAll(without(list, open)))
			}
			if address = net.JoinHostPort("", port); slices.Contains(bound, address) {
				continue // another address of this server, with the same port
			}
		}
		bound = append(bound, address)
		if i := slices.IndexFunc(open, func(p port) bool { return p.address == address }); i >= 0 {
			list = append(list, open[i])
			continue
		}
		l, err := t.bindOne(address)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("transport: listen on %s: %w", address, err), closeAll(without(list, open)))
		}
		list = append(list, port{address, l})
	}
	return list, nil
}

// bindOne tries as often as Options.BindAttempts allows: a name may not be resolvable
// yet, or an address not be configured yet.
func (t *Transport) bindOne(address string) (net.Listener, error) {
	for left := t.o.BindAttempts; ; {
		l, err := t.o.Listen(address)
		if left--; err == nil || left == 0 || !t.pause(bindPause) {
			return l, err
		}
		t.log.Warn("cannot listen for the other servers; trying again in a second", "address", address, "err", err)
	}
}

// accept hands connections to admit, which must not block, and closes those that come too fast (arrivals). The channel that it returns is closed
// when the connection that has made way for nc has ended; nil if there is none. Before that no
// other is accepted: otherwise a flood of connections would make goroutines faster than they
// end, and all others of the process would wait until these have had a processor.
func (t *Transport) accept(l net.Listener, name string, admit func(nc net.Conn) (ended <-chan struct{})) {
	for {
		nc, err := l.Accept()
		if err == nil && !t.mayArrive(addressOf(nc)) {
			nc.Close() // an error changes nothing: nothing was sent
			t.logRefused(name, remoteName(nc), errTooFast)
			continue
		}
		if err == nil {
			t.awaitWay(admit(nc))
			continue
		}
		if t.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
			return
		}
		// The process has no file descriptors or memory left; existing
		// connections continue.
		t.log.Error("cannot accept a connection of another server; trying again: are there enough file descriptors?", "address", l.Addr(), "err", err)
		if !t.pause(acceptPause) {
			return
		}
	}
}

// errTooFast says why a connection is closed as soon as it is accepted.
var errTooFast = fmt.Errorf("%w: more than %d connections a second have come from this address", ErrCrowded, ratelimit.ArrivalsPerSecond)

// arrivals bounds how many connections of one address are accepted in a second. To accept one and to close it takes
// little; a goroutine, a handshake that stops half-way and the end of another that makes way for it take many times that.
// An address at which a member is, or was seen, has no bound: a flood from there must not keep the member out.
type arrivals struct {
	sync.Mutex
	ratelimit.Arrivals
	start time.Time
}

// mayArrive reports whether a connection of an address may be more than accepted and closed.
func (t *Transport) mayArrive(address string) bool {
	from, err := netip.ParseAddr(address)
	if err != nil {
		return true
	}
	t.arrivals.Lock()
	ok := t.arrivals.Admit(from, time.Since(t.arrivals.start))
	t.arrivals.Unlock()
	return ok || t.isMembers(address)
}

// isMembers reports whether a member has the address by the configuration, or was seen there last.
func (t *Transport) isMembers(address string) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for id, addresses := range t.mu.known {
		if slices.ContainsFunc(addresses, func(a Address) bool { return a.Host == address }) {
			return true
		}
		if p := t.mu.peers[id]; p != nil && p.isAt(address) {
			return true
		}
	}
	return false
}

// awaitWay waits until a connection that has made way has ended, if there is one.
func (t *Transport) awaitWay(ended <-chan struct{}) {
	if ended == nil {
		return
	}
	timer := time.NewTimer(wayPause)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	case <-t.ctx.Done():
	}
}

// greeting is a connection to the election port that has not sent its server id.
type greeting struct {
	nc      net.Conn
	address string        // the IP address of the other side
	order   uint64        // of acceptance
	gone    chan struct{} // closed when it has made way for another
	ended   chan struct{} // closed when its goroutine ends
}

// admitPeer waits for the first message of a connection to the election port, in a
// goroutine of its own. If too many connections wait, it closes the oldest one of the
// address from which most of them have come, and returns a channel that is closed when that has ended.
func (t *Transport) admitPeer(nc net.Conn) (ended <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.closed {
		nc.Close() // an error changes nothing: nothing was sent
		return nil
	}
	if len(t.mu.greetings) >= maxGreetings {
		i := mostFromOneAddress(t.mu.greetings)
		ended = t.mu.greetings[i].ended
		t.mu.greetings[i].nc.Close() // an error changes nothing: its goroutine ends
		close(t.mu.greetings[i].gone)
		t.mu.greetings = slices.Delete(t.mu.greetings, i, i+1)
	}
	t.mu.lastAccept++
	g := &greeting{nc, addressOf(nc), t.mu.lastAccept, make(chan struct{}), make(chan struct{})}
	t.mu.greetings = append(t.mu.greetings, g)
	t.wg.Go(func() { t.greet(g) })
	return ended
}

// mostFromOneAddress returns the index of the oldest one of the address from which most
// connections have come. REQUIRES: there is one.
func mostFromOneAddress(list []*greeting) (first int) {
	from := map[string]int{}
	for _, g := range list {
		from[g.address]++
	}
	for i, g := range list {
		if from[g.address] > from[list[first].address] {
			first = i
		}
	}
	return first
}

// endGreeting removes a connection from the list. It returns false if another goroutine
// has removed and closed it.
func (t *Transport) endGreeting(g *greeting) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.mu.greetings, g)
	if i < 0 {
		return false
	}
	t.mu.greetings = slices.Delete(t.mu.greetings, i, i+1)
	return true
}
