package bench

import (
	"fmt"
	"sync/atomic"
	"time"
)

const (
	// tick is how often a loop looks at what the run wants of it.
	tick = 10 * time.Millisecond
	// pingEvery is how often a loop looks for sessions that have been silent
	// for a third of their timeout.
	pingEvery = 100 * time.Millisecond
	// readBytes is how much one read takes from a socket.
	readBytes = 256 << 10
)

// The phases of a run, in order. The run sets them; loops follow within a tick.
const (
	phaseLoad  int32 = iota // scripts send
	phaseDrain              // nothing new is sent, answers are awaited
	phaseClose              // sessions are closed
	phaseEnd                // sockets are closed, whatever is under way
)

// A loop drives the sessions of its share of the connections on one goroutine:
// it waits for any of them to have input, reads as much as there is, hands it
// to the session, and sends with one write whatever the session has queued
// thereupon. So an operation costs its share of two system calls and a few
// dozen nanoseconds, and nothing is handed from one goroutine to another.
type loop struct {
	poller   *poller
	sessions []*session
	buf      []byte
	sealed   []byte // what sockets with TLS are read into
	tally    *tally
	pacer    *pacer // nil: requests follow replies
	epoch    time.Time
	nextPing int64
	open     int // sessions with a socket
	arrivals arrivals

	// revive, if set, is told of a session that has lost its connection, and
	// sees to it that another arrives. Else the loss ends the loop.
	revive func(s *session)

	phase   atomic.Int32
	resets  atomic.Int32  // a change asks for tally.reset
	done    atomic.Uint64 // tally.total, for the progress line
	settled atomic.Bool   // in phaseDrain and later: nothing is under way
	seen    int32         // resets as last seen
}

func newLoop(epoch time.Time) (*loop, error) {
	p, err := newPoller()
	if err != nil {
		return nil, err
	}
	return &loop{poller: p, epoch: epoch, buf: make([]byte, readBytes), tally: new(tally)}, nil
}

// now returns the time on the loop's clock, which all loops of a run share.
func (l *loop) now() int64 { return int64(time.Since(l.epoch)) }

// adopt takes a session over, with its connected socket. Only before run.
func (l *loop) adopt(s *session, sock socket) error {
	s.socket, s.index, s.loop = sock, int32(len(l.sessions)), l
	s.lastSend = l.now()
	l.sessions = append(l.sessions, s)
	l.open++
	return l.poller.add(s.fd, s.index)
}

// run drives the sessions until phaseEnd. It closes the sockets. Its error is
// the first of a connection or of a script.
func (l *loop) run() error {
	defer l.shut()
	for _, s := range l.sessions {
		if l.pacer == nil {
			s.script.next(s, l.now())
		}
		if err := l.flush(s); err != nil {
			return err
		}
	}
	phase := phaseLoad
	for {
		n, err := l.poller.wait(l.timeout(phase))
		if err != nil {
			return err
		}
		for i := range n {
			index, input, output := l.poller.ready(i)
			if err := l.serve(l.sessions[index], phase, input, output); err != nil {
				return err
			}
		}
		l.done.Store(l.tally.total)
		if phase = l.phase.Load(); phase == phaseEnd {
			return nil
		}
		if err := l.between(phase); err != nil {
			return err
		}
	}
}

// timeout returns how long the loop may wait for input.
func (l *loop) timeout(phase int32) time.Duration {
	if l.pacer == nil || l.pacer.full || phase != phaseLoad {
		return tick
	}
	return min(max(time.Duration(l.pacer.due()-l.now()), 0), tick)
}

// between does what is not caused by input.
func (l *loop) between(phase int32) error {
	now := l.now()
	if r := l.resets.Load(); r != l.seen {
		l.seen = r
		l.tally.reset()
	}
	if l.pacer != nil && phase == phaseLoad {
		for _, s := range l.pacer.release(l.sessions, now) {
			if err := l.flush(s); err != nil {
				return err
			}
		}
	}
	if now >= l.nextPing {
		l.nextPing = now + int64(pingEvery)
		if err := l.keepAlive(now); err != nil {
			return err
		}
	}
	l.tally.frozen = phase >= phaseDrain
	if phase >= phaseDrain && !l.settled.Load() {
		return l.settle(phase, now)
	}
	return nil
}

// keepAlive pings for the sessions that have been silent for a third of their
// timeout, as clients do.
func (l *loop) keepAlive(now int64) error {
	for _, s := range l.sessions {
		if s.fd < 0 || s.closing || now-s.lastSend < int64(s.timeout/3) {
			continue
		}
		s.ping()
		if err := l.flush(s); err != nil {
			return err
		}
	}
	return nil
}

// settle finds out whether everything is answered, and sends the closes.
func (l *loop) settle(phase int32, now int64) error {
	busy := 0
	for _, s := range l.sessions {
		if phase == phaseClose && s.fd >= 0 && !s.closing {
			s.close(now)
			if err := l.flush(s); err != nil {
				return err
			}
		}
		busy += s.underWay()
	}
	l.settled.Store(busy == 0)
	return nil
}

// serve handles one ready socket.
func (l *loop) serve(s *session, phase int32, input, output bool) error {
	if s.fd < 0 {
		if !s.down || !l.board(s) {
			return nil
		}
		if phase == phaseLoad && l.pacer == nil {
			s.script.next(s, l.now())
		}
		return l.flush(s)
	}
	if input {
		if err := l.read(s, phase); err != nil {
			return fmt.Errorf("bench: session %v: %w", s.id, err)
		}
	}
	if input || output {
		return l.flush(s)
	}
	return nil
}

// read takes what the socket holds through the session.
func (l *loop) read(s *session, phase int32) error {
	// The front of an unfinished frame goes before what follows it. The buffer
	// is the loop's: an idle session holds none.
	if len(s.in)+readBytes > len(l.buf) {
		l.buf = make([]byte, 2*(len(s.in)+readBytes))
	}
	kept := copy(l.buf, s.in)
	n, again, err := l.fill(s, l.buf[kept:])
	if again {
		return nil
	}
	if err != nil || n == 0 {
		return l.ended(s, err)
	}
	now := l.now()
	rest, err := s.receive(l.buf[:kept+n], now)
	if err != nil {
		return err
	}
	s.in = append(s.in[:0], rest...)
	if phase == phaseLoad && l.pacer == nil {
		s.script.next(s, now)
	}
	return nil
}

// fill reads once from the socket of s into b.
func (l *loop) fill(s *session, b []byte) (n int, again bool, err error) {
	if s.records == nil {
		return readSocket(s.fd, b)
	}
	if l.sealed == nil {
		l.sealed = make([]byte, readBytes-maxRecord)
	}
	return s.records.read(l.sealed, b)
}

// ended handles the end of a stream: expected after the session was closed.
func (l *loop) ended(s *session, err error) error {
	if s.closing && s.underWay() == 0 {
		closeSocket(s.fd)
		s.fd = -1
		l.open--
		return nil
	}
	if l.revive != nil {
		l.lose(s)
		return nil
	}
	if err == nil {
		err = errClosed
	}
	return fmt.Errorf("%w with %d requests under way", err, s.underWay())
}

// flush writes what the session has queued, as far as the socket takes it.
func (l *loop) flush(s *session) error {
	b := s.unsent()
	if s.fd < 0 || len(b) == 0 && !s.wantsWrite {
		return nil
	}
	left, err := s.write(b)
	if err != nil && l.revive != nil {
		l.lose(s)
		return nil
	}
	if err != nil {
		return fmt.Errorf("bench: session %v: %w", s.id, err)
	}
	if len(b) > 0 {
		s.lastSend = l.now()
	}
	if wants := left > 0; wants != s.wantsWrite {
		s.wantsWrite = wants
		return l.poller.want(s.fd, s.index, wants)
	}
	return nil
}

func (l *loop) shut() {
	for _, s := range l.sessions {
		if s.fd >= 0 {
			closeSocket(s.fd)
			s.fd = -1
		}
	}
	l.arrivals.shut()
	l.poller.close()
}

// A pacer makes requests due by a schedule instead of by replies (an open
// loop): the latency of each counts from when it was due, so that a server's
// pause is seen by every request that would have come during it.
type pacer struct {
	start    int64   // when the first is due
	interval float64 // nanoseconds between two
	issued   uint64
	limit    int  // requests under way on one session; beyond it they wait
	full     bool // no session has room: a reply must come first
	turn     int  // session that is next
	touched  []*session
}

// due returns when the next request is.
func (p *pacer) due() int64 { return p.start + int64(float64(p.issued)*p.interval) }

// release queues every request that is due, in turn on the sessions that have
// room, and returns those that have something to send; valid until the next
// call. If none has room the requests stay due.
func (p *pacer) release(sessions []*session, now int64) []*session {
	p.touched = p.touched[:0]
	for skipped := 0; p.due() <= now && skipped < len(sessions); {
		s := sessions[p.turn]
		p.turn = (p.turn + 1) % len(sessions)
		if s.down || s.underWay() >= p.limit {
			skipped++
			continue
		}
		skipped = 0
		if len(s.unsent()) == 0 {
			p.touched = append(p.touched, s)
		}
		s.script.next(s, p.due())
		p.issued++
	}
	p.full = p.due() <= now
	return p.touched
}
