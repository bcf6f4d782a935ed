package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// Watch measures fan-out: many sessions watch one znode, and a writer sets it
// as soon as all have had the last event and watch again. The latency of an
// event counts from just before the set was sent.
type Watch struct {
	Options
	Watchers   int
	Persistent bool          // addWatch once, instead of getData after every event
	Size       int           // bytes of the value
	Interval   time.Duration // at least between two sets
}

// maxInterval keeps the writer's session alive without pings.
const maxInterval = 5 * time.Second

// Run applies the load. The Result is nil only if nothing was measured.
func (w Watch) Run(ctx context.Context) (*Result, error) {
	if w.Watchers < 1 || w.Size < 0 || w.Interval < 0 || w.Interval > maxInterval {
		return nil, fmt.Errorf("bench: watch: a parameter is out of range: %+v", w)
	}
	c, err := dialControl(ctx, w.TLS, w.Servers[0])
	if err != nil {
		return nil, err
	}
	defer c.close()
	place := newPlace("watch")
	if err := c.create(place, fixedValue(w.Size)); err != nil {
		return nil, err
	}
	res, err := w.load(ctx, c, place)
	return res, errors.Join(err, c.remove(place))
}

func (w Watch) load(ctx context.Context, c *control, place string) (*Result, error) {
	fan := &fanOut{path: place, round: make(chan struct{}, 1), want: int64(w.Watchers)}
	r, err := prepare(ctx, w.Options, w.Watchers, func(int) script { return w.watcher(fan) })
	if err != nil {
		return nil, err
	}
	r.start()
	writing, stopWriting := context.WithCancel(r.ctx)
	var writer sync.WaitGroup
	writer.Go(func() {
		if err := w.write(writing, r, c, fan); err != nil {
			r.fail(err)
		}
	})
	window, err := r.measure()
	stopWriting()
	writer.Wait()
	if err = errors.Join(err, r.stop()); window == nil {
		return nil, err
	}
	res := r.result(window, "watch", map[string]any{
		"watchers": w.Watchers, "persistent": w.Persistent, "size": w.Size,
		"interval": w.Interval.String(),
	}, kindEvent)
	res.Interrupted = ctx.Err() != nil || err != nil
	res.Figures = append(res.Figures, Figure{
		"sets", res.Op(kindEvent.String()).Rate / float64(w.Watchers), "per second",
	})
	return res, err
}

// watcher returns the script of one watcher.
func (w Watch) watcher(fan *fanOut) script {
	p := path{prefix: fan.path}
	if w.Persistent {
		return &watchScript{fan: fan, frame: addWatchFrame(p, zk.AddWatchPersistent),
			body: errorResponseBytes, once: true}
	}
	return &watchScript{fan: fan, frame: readFrame(wire.OpGetData, p, true),
		body: 4 + w.Size + statBytes}
}

// write sets the znode, once for every round of the watchers, until ctx ends.
func (w Watch) write(ctx context.Context, r *run, c *control, fan *fanOut) error {
	set := setDataFrame(path{prefix: fan.path}, fixedValue(w.Size))
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-fan.round:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-pause.C:
		}
		pause.Reset(w.Interval)
		fan.setAt.Store(int64(time.Since(r.epoch)))
		if err := c.call(set); err != nil {
			return fmt.Errorf("bench: set %s: %w", fan.path, err)
		}
	}
}

// A fanOut is what the watchers and the writer share.
type fanOut struct {
	path  string
	want  int64         // watchers
	got   atomic.Int64  // those that are ready for the next set
	round chan struct{} // receives when all are; capacity 1
	setAt atomic.Int64  // when the last set was sent
}

// ready is called by a watcher once in every round.
func (f *fanOut) ready() {
	if f.got.Add(1) == f.want {
		f.got.Store(0)
		f.round <- struct{}{}
	}
}

// watchScript is one watcher.
type watchScript struct {
	fan     *fanOut
	frame   frame // registers the watch
	body    int   // of its reply
	once    bool  // the watch outlives an event
	started bool
}

func (w *watchScript) next(s *session, now int64) {
	if !w.started {
		w.started = true
		s.send(w.frame, kindWatch, w.body, now)
	}
}

func (w *watchScript) reply(_ *session, _ request, code zk.Code, _ []byte, _ int64) error {
	if code != zk.OK {
		return fmt.Errorf("watch: %w", code)
	}
	w.fan.ready()
	return nil
}

func (w *watchScript) event(s *session, body []byte, now int64) error {
	d := jute.NewDecoder(body)
	var e wire.WatcherEvent
	e.Decode(&d)
	if d.Err() != nil || e.Type != zk.EventNodeDataChanged || e.Path != w.fan.path {
		return fmt.Errorf("%w: event %v on %q, and data of %q is watched",
			ErrProtocol, e.Type, e.Path, w.fan.path)
	}
	s.tally.add(kindEvent, zk.OK, time.Duration(now-w.fan.setAt.Load()))
	if w.once {
		w.fan.ready()
		return nil
	}
	s.send(w.frame, kindWatch, w.body, now)
	return nil
}
