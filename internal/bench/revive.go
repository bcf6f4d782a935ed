package bench

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pinfold-zk/pinfold/internal/wire"
)

const (
	// reviveTimeout bounds one attempt to reconnect: a server that takes part in
	// nothing may hold a connection and say nothing.
	reviveTimeout = time.Second
	// revivePause is how long a client waits that all servers have turned away.
	revivePause = 10 * time.Millisecond
)

// A revival gives the sessions of a run another connection when they lose
// theirs, as clients do: at once, to the next of the servers, with the session
// that they have, or a new one if the servers do not know it any more.
type revival struct {
	run    *run
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup // a goroutine for every session that is down

	mu    sync.Mutex
	ended bool // no goroutine is begun any more: end waits for those that there are
}

// survive makes a lost connection of a session not end the run. Between connect
// and start.
func (r *run) survive() {
	v := &revival{run: r}
	v.ctx, v.cancel = context.WithCancel(r.ctx)
	r.revival = v
	for _, l := range r.loops {
		l.revive = v.begin
	}
}

// begin is called by the session's loop, which has forgotten the connection.
// After end it does nothing: the session stays down.
func (v *revival) begin(s *session) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.ended {
		return
	}
	request := newSessionRequest(v.run.o.SessionTimeout)
	request.SessionID, request.Password, request.LastZxidSeen = s.id, s.password, s.zxid
	v.wg.Go(func() { v.reconnect(s, request) })
}

// end drops the sessions that are down, and waits until no goroutine dials.
func (v *revival) end() {
	v.mu.Lock()
	v.ended = true
	v.mu.Unlock()
	v.cancel()
	v.wg.Wait()
}

// reconnect tries the servers in turn until one takes the session.
func (v *revival) reconnect(s *session, request wire.ConnectRequest) {
	servers := v.run.o.Servers
	// The sessions of one server have come by the same remainder: each begins
	// elsewhere, so that they spread.
	first := rand.IntN(len(servers))
	for attempt := 0; v.ctx.Err() == nil; attempt++ {
		if attempt > 0 && attempt%len(servers) == 0 && !v.pause() {
			return
		}
		err := v.dial(s, servers[(first+attempt)%len(servers)], request)
		if err == nil {
			return
		}
		if errors.Is(err, ErrRefused) {
			zxid := request.LastZxidSeen
			request = newSessionRequest(v.run.o.SessionTimeout)
			request.LastZxidSeen = zxid
		}
	}
}

// dial makes one attempt, and hands the connection to the session's loop.
func (v *revival) dial(s *session, addr string, request wire.ConnectRequest) error {
	ctx, cancel := context.WithTimeout(v.ctx, reviveTimeout)
	defer cancel()
	conn, response, err := dialSession(ctx, v.run.o.TLS, addr, sourceAddr(addr, s.number), request)
	if err != nil {
		return err
	}
	sock, err := conn.take()
	if err != nil {
		v.run.fail(err)
		return nil
	}
	if err := s.loop.arrive(s, arrival{sock, response}); err != nil {
		v.run.fail(err)
	}
	return nil
}

// pause waits before the next round; false if there is none. Its length varies,
// so that the sessions do not all ask at the same time.
func (v *revival) pause() bool {
	t := time.NewTimer(revivePause/2 + rand.N(revivePause))
	defer t.Stop()
	select {
	case <-v.ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// An arrival is a new connection for a session.
type arrival struct {
	socket
	response wire.ConnectResponse
}

// arrivals are the connections that a loop has not taken over yet.
type arrivals struct {
	mu     sync.Mutex
	by     map[int32]arrival // session's index
	closed bool              // the loop has ended
}

// arrive hands a connection to the loop of s. It takes the socket over, also on
// an error. Any goroutine.
func (l *loop) arrive(s *session, a arrival) error {
	l.arrivals.mu.Lock()
	defer l.arrivals.mu.Unlock()
	if l.arrivals.closed {
		closeSocket(a.fd)
		return nil
	}
	if l.arrivals.by == nil {
		l.arrivals.by = make(map[int32]arrival)
	}
	l.arrivals.by[s.index] = a
	// A new socket has room for output at once: that wakes the loop.
	if err := l.poller.add(a.fd, s.index); err != nil {
		return err
	}
	return l.poller.want(a.fd, s.index, true)
}

// board gives s the connection that has arrived for it; false if there is none.
func (l *loop) board(s *session) bool {
	l.arrivals.mu.Lock()
	a, ok := l.arrivals.by[s.index]
	delete(l.arrivals.by, s.index)
	l.arrivals.mu.Unlock()
	if !ok {
		return false
	}
	s.granted(a.response)
	s.socket, s.down, s.wantsWrite, s.lastSend = a.socket, false, true, l.now()
	l.open++
	return true
}

// lose lets go of a connection that has ended.
func (l *loop) lose(s *session) {
	closeSocket(s.fd) // and with it what the poller knew of it
	s.fd = -1
	l.open--
	l.tally.lose(s.disconnected())
	l.revive(s)
}

// shut closes what has arrived and was not taken.
func (a *arrivals) shut() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	for _, arrived := range a.by {
		closeSocket(arrived.fd)
	}
	a.by = nil
}
