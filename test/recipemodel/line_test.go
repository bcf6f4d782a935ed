package recipemodel

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/pinfold-zk/pinfold/test/inproc"
	"github.com/pinfold-zk/pinfold/test/memconn"
)

// A line is the network of one client. What passes takes its time, in both
// directions, and the order stays.
type line struct {
	server *inproc.Server
	most   time.Duration // the longest that a chunk takes

	mu      sync.Mutex // guards what follows
	rng     *rand.Rand
	links   map[*link]struct{}
	refuses time.Time    // until when nobody is let through
	held    [2]time.Time // until when chunks wait, by direction
	dead    bool
}

// The directions.
const (
	up   = iota // to the server
	down        // to the client
)

// A link is a connection of a line.
type link struct {
	line       *line
	near, far  net.Conn
	gone       chan struct{}
	once       sync.Once
	answerless bool // the next answer is lost, and with it the connection; guarded by line.mu
}

var errRefused = errors.New("this line is cut")

func newLine(s *inproc.Server, rng *rand.Rand, most time.Duration) *line {
	return &line{server: s, most: most, rng: rng, links: map[*link]struct{}{}}
}

// dial is made for client.Dialer.
func (l *line) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	l.mu.Lock()
	refused := l.dead || time.Now().Before(l.refuses)
	l.mu.Unlock()
	if refused {
		return nil, errRefused
	}
	far, err := l.server.Dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	mine, near := memconn.New(32<<10, netip.MustParseAddrPort("10.2.0.1:40000"))
	k := &link{line: l, near: near, far: far, gone: make(chan struct{})}
	l.mu.Lock()
	l.links[k] = struct{}{}
	dead := l.dead
	l.mu.Unlock()
	go k.pump(k.far, k.near, up)
	go k.pump(k.near, k.far, down)
	if dead {
		k.close()
	}
	return mine, nil
}

// pump carries chunks until one end is closed.
func (k *link) pump(to, from net.Conn, direction int) {
	defer k.close()
	for b := make([]byte, 16<<10); ; {
		n, err := from.Read(b)
		if n == 0 || err != nil || !k.pass(direction) {
			return
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}

// pass returns when a chunk is at the other end, with false if it never is.
func (k *link) pass(direction int) bool {
	l := k.line
	l.mu.Lock()
	takes := time.Duration(l.rng.Int64N(int64(l.most)))
	l.mu.Unlock()
	for wait := takes; wait > 0; {
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-k.gone:
			t.Stop()
			return false
		}
		l.mu.Lock()
		wait = time.Until(l.held[direction])
		l.mu.Unlock()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return direction == up || !k.answerless
}

func (k *link) close() {
	k.once.Do(func() {
		close(k.gone)
		k.near.Close()
		k.far.Close()
	})
	k.line.mu.Lock()
	delete(k.line.links, k)
	k.line.mu.Unlock()
}

// cut breaks the connections.
func (l *line) cut() {
	l.mu.Lock()
	var all []*link
	for k := range l.links {
		all = append(all, k)
	}
	l.mu.Unlock()
	for _, k := range all {
		k.close()
	}
}

// loseAnswers lets requests through, and breaks the connection instead of the next
// answer.
func (l *line) loseAnswers() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k := range l.links {
		k.answerless = true
	}
}

// hold keeps what goes in one direction for a while. It is late then, not lost.
func (l *line) hold(direction int, d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[direction] = time.Now().Add(d)
}

// refuse cuts the line for a while.
func (l *line) refuse(d time.Duration) {
	l.mu.Lock()
	l.refuses = time.Now().Add(d)
	l.mu.Unlock()
	l.cut()
}

// heal ends what hold and refuse have begun.
func (l *line) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refuses, l.held = time.Time{}, [2]time.Time{}
}

// kill cuts the line for ever: the process is dead.
func (l *line) kill() {
	l.mu.Lock()
	l.dead = true
	l.mu.Unlock()
	l.cut()
}
