package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pinfold-zk/pinfold/internal/fourletter"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// Connect opens connections and closes them: each worker has one at a time. With TLS each
// makes a complete handshake.
type Connect struct {
	Options
	Workers int
	// Sessions: on each connection a session is opened and closed. Otherwise the server
	// answers the four-letter word ruok, which it must allow.
	Sessions bool
}

// Run applies the load. The Result is nil only if nothing was measured.
func (c Connect) Run(ctx context.Context) (*Result, error) {
	if c.Workers < 1 {
		return nil, fmt.Errorf("bench: connect: %d workers", c.Workers)
	}
	r, err := newRun(ctx, c.Options)
	if err != nil {
		return nil, err
	}
	// The loops drive no connections here. Each lends its counters to some workers.
	loading, end := context.WithCancel(r.ctx)
	defer end()
	tallies := make([]*tally, c.Workers)
	var wg sync.WaitGroup
	for i := range tallies {
		tallies[i] = new(tally)
		wg.Go(func() {
			if err := c.work(loading, r, i, tallies[i]); err != nil {
				r.fail(err)
			}
		})
	}
	w, err := r.measure()
	end()
	wg.Wait()
	if err = errors.Join(err, r.stop()); w == nil {
		return nil, err
	}
	for _, t := range tallies {
		r.loops[0].tally.merge(t)
	}
	res := r.result(w, "connect", map[string]any{"workers": c.Workers, "sessions": c.Sessions, "tls": c.TLS != nil})
	res.Interrupted = ctx.Err() != nil || err != nil
	return res, err
}

// work opens and closes connections until ctx ends.
func (c Connect) work(ctx context.Context, r *run, worker int, t *tally) error {
	l := r.loops[worker%len(r.loops)]
	once, k, seen := c.ask, kindHandshake, int32(0)
	if c.Sessions {
		once, k = c.session, kindSession
	}
	for n := worker; ; n++ {
		start := time.Now()
		err := once(ctx, r.o.Servers[n%len(r.o.Servers)])
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if now := l.resets.Load(); now != seen {
			seen = now
			t.reset()
		}
		t.add(k, zk.OK, time.Since(start))
		l.done.Add(1)
	}
}

// ask opens a connection and asks whether the server is well, which proves that the handshake
// is over for it, too.
func (c Connect) ask(ctx context.Context, addr string) error {
	answer, err := askServer(ctx, c.TLS, addr, "ruok")
	if err == nil && answer != "imok" {
		err = fmt.Errorf("bench: the answer to ruok is %q", answer)
	}
	return err
}

// session opens a session and closes it.
func (c Connect) session(ctx context.Context, addr string) error {
	control, err := dialControl(ctx, c.TLS, addr)
	if err != nil {
		return err
	}
	defer control.conn.Close()
	defer context.AfterFunc(ctx, func() { control.conn.Close() })()
	return control.call(bareFrame(wire.OpCloseSession, 0))
}

// askServer sends a four-letter word and returns the answer.
func askServer(ctx context.Context, e *Encryption, addr, word string) (string, error) {
	conn, err := dialLink(ctx, e, addr, nil)
	if err != nil {
		return "", fmt.Errorf("bench: %s: %w", word, err)
	}
	return fourletter.AskOn(ctx, conn, word)
}
