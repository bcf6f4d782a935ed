package recipemodel

import (
	"time"

	"github.com/pinfold-zk/pinfold/internal/wire"
)

// faults are what is done to the server, to networks and to clients, one after the
// other, often quickly.
type faults struct{ *world }

func (f *faults) run(lasts time.Duration) {
	for end := time.Now().Add(lasts); time.Now().Before(end) && !f.t.Failed(); {
		f.one()
		if f.rng.IntN(3) == 0 {
			wait(f.ctx, time.Duration(f.rng.IntN(20_000))*time.Microsecond)
		} else {
			wait(f.ctx, time.Duration(f.rng.IntN(1500))*time.Millisecond)
		}
	}
}

// one makes one fault.
func (f *faults) one() {
	lives := f.living()
	if len(lives) == 0 {
		return
	}
	l := lives[f.rng.IntN(len(lives))]
	switch n := f.rng.IntN(100); {
	case n < 14:
		f.logf("client %d is cut off", l.n)
		l.line.cut()
	case n < 34:
		f.logf("client %d loses an answer", l.n)
		l.line.loseAnswers()
	case n < 46:
		ops := []wire.OpCode{wire.OpCreate, wire.OpCreate2, wire.OpSetData, wire.OpDelete, wire.OpMulti, wire.OpGetData, wire.OpSync}
		op := ops[f.rng.IntN(len(ops))]
		f.logf("the answer of a %v is lost", op)
		f.s.LoseAnswer(op, f.rng.IntN(5))
	case n < 50:
		f.logf("all are cut off")
		f.s.Cut()
	case n < 56:
		f.logf("the server restarts")
		f.s.Restart()
	case n < 59:
		d := f.while(3 * time.Second)
		f.logf("the server is down for %v", d)
		for _, l := range lives { // who is suspended for long is not sure any more
			l.endangers(d)
		}
		f.s.Stop()
		wait(f.ctx, d)
		f.s.Start()
	case n < 69:
		f.hold(l)
	case n < 76:
		d := f.while(l.timeout() * 3 / 2)
		f.logf("client %d reaches nobody for %v", l.n, d)
		l.endangers(d)
		l.line.refuse(d)
	case n < 88:
		id := l.c.SessionID()
		f.logf("session %v of client %d is ended", id, l.n)
		l.ended(id)
		f.s.Expire(id)
	case n < 92:
		f.logf("client %d dies", l.n)
		l.end()
		l.line.kill()
		l.cancel()
	case n < 96:
		f.logf("client %d is closed", l.n)
		l.end()
		f.dying.Go(func() { l.c.Close() }) // a second Close waits for this one
	default:
		f.logf("client %d gives up", l.n)
		l.end()
		l.abandon.Store(true)
		l.cancel()
	}
}

// hold delays what passes the line of a client.
func (f *faults) hold(l *life) {
	d := f.while(l.timeout() * 3 / 2)
	which := f.rng.IntN(3)
	f.logf("what client %d %s is late by up to %v", l.n, [...]string{"sends", "receives", "sends and receives"}[which], d)
	l.endangers(d)
	if which != down {
		l.line.hold(up, d)
	}
	if which != up {
		l.line.hold(down, d)
	}
}

// while is a time below most, often a short one.
func (f *faults) while(most time.Duration) time.Duration {
	d := time.Duration(1 + f.rng.Int64N(int64(most)))
	if f.rng.IntN(2) == 0 {
		d /= 20
	}
	return d
}
