package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// A Settle makes a server release unused memory before its RSS is read (a JVM by a
// collection). nil does nothing.
type Settle func(ctx context.Context) error

// rss returns the resident memory of the servers together, after settle.
func (o Options) rss(ctx context.Context, settle Settle) (int64, error) {
	if settle != nil {
		if err := settle(ctx); err != nil {
			return 0, err
		}
	}
	var sum int64
	for _, pid := range o.Pids {
		u, err := processUsage(pid)
		if err != nil {
			return 0, err
		}
		sum += u.rss
	}
	return sum, nil
}

// Idle opens sessions that do nothing but ping, as clients do, and measures
// what each costs the server.
type Idle struct {
	Options
	Sessions int
	Settle   Settle
}

// Run opens the sessions, holds them for the duration, and closes them. The
// Result is nil only if nothing was measured.
func (i Idle) Run(ctx context.Context) (*Result, error) {
	if i.Sessions < 1 {
		return nil, fmt.Errorf("bench: idle: %d sessions", i.Sessions)
	}
	before, err := i.rss(ctx, i.Settle)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	r, err := prepare(ctx, i.Options, i.Sessions, func(int) script { return idleScript{} })
	if err != nil {
		return nil, err
	}
	connected := time.Since(start)
	r.start()
	w, err := r.measure()
	var after int64
	if err == nil {
		after, err = i.rss(context.WithoutCancel(ctx), i.Settle)
	}
	if err = errors.Join(err, r.stop()); w == nil || after == 0 && len(i.Pids) > 0 {
		return nil, err
	}
	res := r.result(w, "idle", map[string]any{"sessions": i.Sessions})
	res.Interrupted = ctx.Err() != nil || err != nil
	res.Per, res.PerCount = "session", uint64(i.Sessions)
	res.Figures = append(res.Figures,
		Figure{"sessions opened", float64(i.Sessions) / connected.Seconds(), "per second"})
	if len(i.Pids) > 0 {
		var cpu float64
		for k := range res.Servers {
			cpu += res.Servers[k].CPUSeconds
			res.Servers[k].CPUMicrosPerOp = res.Servers[k].CPUSeconds * 1e6 / float64(i.Sessions)
		}
		n := float64(i.Sessions)
		res.Figures = append(res.Figures,
			Figure{figureSessionRSS, float64(after-before) / n / 1024, "KB"},
			Figure{"server CPU of a session", cpu * 1e6 / n / res.Seconds, "µs per second"})
	}
	return res, err
}

const (
	figureSessionRSS = "server RSS of a session"
	figureWatchRSS   = "server RSS of a watch"
)

// Figure returns the value of a figure; 0 if there is none of that name.
func (r *Result) Figure(name string) float64 {
	for _, f := range r.Figures {
		if f.Name == name {
			return f.Value
		}
	}
	return 0
}

// idleScript sends nothing; the loop pings.
type idleScript struct{}

func (idleScript) next(*session, int64) {}

func (idleScript) reply(_ *session, q request, code zk.Code, _ []byte, _ int64) error {
	if code != zk.OK {
		return fmt.Errorf("%v: %w", q.kind, code)
	}
	return nil
}

func (idleScript) event(*session, []byte, int64) error { return errUnaskedEvent }

// Watches registers a watch on each of many znodes from one session, and
// measures how fast and what each costs the server.
type Watches struct {
	Options
	Count  int
	Absent bool // watch for the creation of znodes that do not exist
	Settle Settle
}

// Run creates the znodes, watches them, and removes them. The Result is nil only
// if nothing was measured.
func (w Watches) Run(ctx context.Context) (*Result, error) {
	if w.Count < 1 {
		return nil, fmt.Errorf("bench: watches: %d znodes", w.Count)
	}
	set := znodes{parents: []string{newPlace("watches")}, count: w.Count}
	if w.Absent {
		return w.load(ctx, set)
	}
	if err := set.create(ctx, w.Options); err != nil {
		return nil, err
	}
	res, err := w.load(ctx, set)
	return res, errors.Join(err, set.remove(context.WithoutCancel(ctx), w.Options))
}

func (w Watches) load(ctx context.Context, set znodes) (*Result, error) {
	before, err := w.rss(ctx, w.Settle)
	if err != nil {
		return nil, err
	}
	var after int64
	res, err := set.each(ctx, w.Options, eachPlan{
		label: "watches", kind: kindWatch, connections: 1, outstanding: 1000,
		request: func(p path) (frame, int) { return readFrame(wire.OpExists, p, true), statBytes },
		held: func(ctx context.Context, _ *window) error {
			after, err = w.rss(ctx, w.Settle)
			return err
		},
	})
	if res != nil && after > 0 {
		res.Figures = append(res.Figures,
			Figure{figureWatchRSS, float64(after-before) / float64(w.Count), "bytes"})
	}
	return res, err
}
