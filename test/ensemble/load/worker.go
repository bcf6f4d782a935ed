package load

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/ensemble/client"
	"github.com/pinfold-zk/pinfold/test/ensemble/history"
	"github.com/pinfold-zk/pinfold/zk"
)

// A worker is one client: a session, and the next one when that has ended. It
// runs in one goroutine.
type worker struct {
	l      *Load
	number int
	rng    *rand.Rand
	short  bool // its sessions are short, and fall silent at times

	s        *client.Session
	life     history.Life // of the session
	private  *keep
	versions map[string]int32 // of registers, as last seen
	beacons  int
}

// retryPause is the time between two attempts to connect.
const retryPause = 20 * time.Millisecond

func (w *worker) run() {
	w.begin()
	for !w.stopped() {
		if !w.s.Connected() && !w.reconnect() {
			w.wait(retryPause)
			continue
		}
		w.act()
		w.wait(time.Duration(w.rng.Int64N(int64(w.l.cfg.Think) + 1)))
	}
	w.finish()
	w.l.busy.Done()
	beat := time.NewTicker(time.Second)
	defer beat.Stop()
	for w.s.ID() != 0 {
		select {
		case <-w.l.quiet:
			return
		case <-beat.C:
			// What goes wrong here is found by the checks.
			_ = w.stayAlive()
		}
	}
}

func (w *worker) stopped() bool {
	select {
	case <-w.l.stop:
		return true
	default:
		return false
	}
}

// finish goes on until nothing is unsettled, and closes a short session, which
// might not live to see the end.
func (w *worker) finish() {
	for !w.s.Connected() || !w.private.made || len(w.private.tail) > 0 {
		if !w.s.Connected() && !w.reconnect() {
			w.wait(retryPause)
			continue
		}
		w.ensureRoot()
	}
	if w.short {
		w.close()
	}
}

// stayAlive has the server hear of the session. The error says that neither the
// connection nor a new one is good.
func (w *worker) stayAlive() error {
	_, err := w.s.Do(client.Get("/"))
	for _, addr := range w.l.cfg.Addrs {
		if err == nil {
			return nil
		}
		if err = w.s.Connect(addr); err == nil {
			_, err = w.s.Do(client.Get("/"))
		}
	}
	return err
}

func (w *worker) wait(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
}

// begin starts the life of a new session.
func (w *worker) begin() {
	timeout := w.l.cfg.Timeout
	if w.short {
		timeout = w.l.cfg.Short
	}
	w.s = w.l.session(timeout, w.l.cfg.Patience)
	n := int(w.l.lives.Add(1))
	w.life = history.Life{Session: n}
	w.private = &keep{root: fmt.Sprintf("%s/%d", privateRoot, n), state: map[string]entry{}}
	w.versions = map[string]int32{}
	w.beacons = 0
}

// end puts the session's life into the history and begins another.
func (w *worker) end(how history.End, from time.Duration, z zk.Zxid) {
	w.s.Drop()
	w.life.End, w.life.From, w.life.To, w.life.Zxid = how, from, w.l.now(), z
	w.l.mu.Lock()
	w.l.ended = append(w.l.ended, w.life)
	w.l.left = append(w.l.left, w.private)
	w.l.mu.Unlock()
	w.begin()
}

// reconnect goes to a random member, and looks at what is there of what the
// session has sent. It reports whether there is a connection.
func (w *worker) reconnect() bool {
	addr := w.l.cfg.Addrs[w.rng.IntN(len(w.l.cfg.Addrs))]
	err := w.s.Connect(addr)
	if errors.Is(err, client.ErrLost) {
		w.end(history.Lost, w.s.Heard().Sub(w.l.origin), 0)
		return false
	}
	if err != nil {
		w.broken(err)
		return false
	}
	w.life.ID, w.life.Timeout = w.s.ID(), w.s.Timeout()
	w.private.owner = w.s.ID()
	if len(w.private.tail) > 0 {
		got, err := w.private.read(w.s)
		if err != nil {
			w.broken(err)
			w.s.Drop()
			return false
		}
		if err := w.private.settle(got, true); err != nil {
			w.l.violate("session %v at %s: %v", w.s.ID(), addr, err)
			w.private.state, w.private.tail = got, nil
		}
	}
	w.ensureRoot()
	return w.s.Connected()
}

// ensureRoot creates the root of the private state, and the first beacon.
func (w *worker) ensureRoot() {
	if w.private.made {
		return
	}
	replies, err := w.s.Do(client.Create(w.private.root, nil, zk.Persistent))
	if err != nil {
		w.broken(err)
		return
	}
	if c := replies[0].Code; c != zk.OK && c != zk.ErrNodeExists {
		w.refused("create of its root", c)
		return
	}
	w.private.made = true
	w.beacon()
}

// broken records an error of the connection if it is more than that.
func (w *worker) broken(err error) {
	var v *client.Violation
	if errors.As(err, &v) {
		w.l.violate("%s", v.What)
	}
}

// refused is told an answer that no request of this load deserves. Some say that
// the session is not this server's any more: the connection is over.
func (w *worker) refused(what string, c zk.Code) {
	switch c {
	case zk.ErrSessionMoved, zk.ErrSessionExpired, zk.ErrConnectionLoss, zk.ErrRequestTimeout:
	default:
		w.l.violate("session %v at %s: %s: %v", w.s.ID(), w.s.Addr(), what, c)
	}
	w.s.Drop()
}

// act does one thing.
func (w *worker) act() {
	switch n := w.rng.IntN(100); {
	case n < 25:
		w.batch()
	case n < 65:
		w.register()
	case n < 80:
		w.pair()
	case n < 88:
		w.sequential()
	case n < 97:
		w.look()
	case n < 98:
		w.beacon()
	default:
		w.depart()
	}
}

// depart does what ends a session: rarely it is closed; a short one may fall
// silent. Most often the client only changes the member.
func (w *worker) depart() {
	switch n := w.rng.IntN(20); {
	case n == 0:
		w.close()
	case n < 3 && w.short:
		w.end(history.Abandoned, w.s.Heard().Sub(w.l.origin), 0)
	default:
		w.s.Drop()
	}
}

// close ends the session, and begins the next one. Without an answer it may live
// on until it has been silent for long enough.
func (w *worker) close() {
	from := w.l.now()
	z, err := w.s.Close()
	if err != nil {
		w.broken(err)
		w.end(history.Abandoned, from, 0)
		return
	}
	w.acked(from, z, 1)
	w.end(history.Closed, from, z)
}

// acked counts a write and enters it into the history.
func (w *worker) acked(call time.Duration, z zk.Zxid, n int64) {
	w.l.acked.Add(n)
	w.l.mu.Lock()
	defer w.l.mu.Unlock()
	w.l.writes = append(w.l.writes, history.Write{Session: w.life.Session, Zxid: z, Call: call, Return: w.l.now()})
}

// maxBatch is how many changes are sent at a time at most.
const maxBatch = 20

// batch sends changes of the private state at once.
func (w *worker) batch() {
	k := w.private
	state := maps.Clone(k.state)
	var reqs []client.Request
	for range 1 + w.rng.IntN(maxBatch) {
		c := k.choose(w.rng, state)
		k.tail = append(k.tail, c)
		reqs = append(reqs, c.request(k.root))
	}
	call := w.l.now()
	replies, broken := w.s.Do(reqs...)
	for i, r := range replies {
		code := r.Code
		if code == zk.OK && reqs[i].Op == wire.OpMulti {
			var err error
			if code, err = r.MultiCode(); err != nil {
				w.l.violate("the reply to a multi: %v", err)
			}
		}
		if code != zk.OK {
			w.refused(fmt.Sprintf("change %v of its own state", k.tail[0]), code)
			return
		}
		w.acked(call, r.Zxid, 1)
		k.tail[0].apply(k.state)
		k.tail = k.tail[1:]
	}
	if broken != nil {
		w.broken(broken)
	}
}
