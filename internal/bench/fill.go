package bench

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/pinfold-zk/pinfold/zk"
)

// errUnaskedEvent ends a run whose script watches nothing.
var errUnaskedEvent = fmt.Errorf("%w: an event, and nothing is watched", ErrProtocol)

// newPlace returns the path of a znode for one run: different from every
// other's, so that several generators can work side by side.
func newPlace(workload string) string {
	var b [6]byte
	rand.Read(b[:]) // never fails
	return "/pinfold-bench-" + workload + "-" + hex.EncodeToString(b[:])
}

// znodes is a set of numbered znodes: the i-th is PARENT/k%09d, spread evenly
// over the parents.
type znodes struct {
	parents []string
	first   int // number of the first
	count   int
	size    int
}

// create makes the parents and the znodes, pipelined. Those that exist already
// are left as they are.
func (z znodes) create(ctx context.Context, o Options) error {
	_, err := z.fill(ctx, o, 8, 200)
	return err
}

// syncServers waits until each of several servers has all that was answered by
// now: a znode that one of them has created may not be read yet at another.
func syncServers(ctx context.Context, o Options) error {
	if len(o.Servers) == 1 {
		return nil
	}
	for _, addr := range o.Servers {
		if err := syncOnce(ctx, o.TLS, addr); err != nil {
			return err
		}
	}
	return nil
}

// parent makes the parents.
func (z znodes) parent(ctx context.Context, o Options) error {
	c, err := dialControl(ctx, o.TLS, o.Servers[0])
	if err != nil {
		return err
	}
	defer c.close()
	for _, p := range z.parents {
		if err := c.create(p, nil); err != nil {
			return err
		}
	}
	return nil
}

// fill creates the set through the given number of connections and requests
// under way on each.
func (z znodes) fill(ctx context.Context, o Options, connections, outstanding int) (*Result, error) {
	if err := z.parent(ctx, o); err != nil {
		return nil, err
	}
	value := fixedValue(z.size)
	return z.each(ctx, o, eachPlan{
		label: "fill", kind: kindCreate, connections: connections, outstanding: outstanding,
		request: func(p path) (frame, int) { return createFrame(p, value), 4 + len(p.at(0)) },
	})
}

// remove deletes the set and its parents. What is not there is no error.
func (z znodes) remove(ctx context.Context, o Options) error {
	if _, err := z.clear(ctx, o, 8, 200); err != nil {
		return err
	}
	c, err := dialControl(ctx, o.TLS, o.Servers[0])
	if err != nil {
		return err
	}
	defer c.close()
	for _, p := range z.parents {
		if err := c.remove(p); err != nil {
			return err
		}
	}
	return nil
}

// clear deletes the znodes and leaves the parents.
func (z znodes) clear(ctx context.Context, o Options, connections, outstanding int) (*Result, error) {
	return z.each(ctx, o, eachPlan{
		label: "delete", kind: kindDelete, connections: connections, outstanding: outstanding,
		request: func(p path) (frame, int) { return deleteFrame(p), 0 },
	})
}

// An eachPlan says what is done with every znode of a set.
type eachPlan struct {
	label                    string
	kind                     kind
	connections, outstanding int
	request                  func(p path) (f frame, body int)
	// held, if set, is called when all is answered and the sessions are open.
	held func(ctx context.Context, w *window) error
}

// each sends one request for every znode of the set.
func (z znodes) each(ctx context.Context, o Options, plan eachPlan) (*Result, error) {
	if z.count < 10000 {
		o.Progress = nil
	}
	work := &sweep{first: uint64(z.first), count: uint64(z.count), done: make(chan struct{})}
	r, err := prepare(ctx, o, min(plan.connections, z.count), func(int) script {
		s := &sweepScript{work: work, depth: plan.outstanding, kind: plan.kind}
		for _, parent := range z.parents {
			f, body := plan.request(path{prefix: parent + "/k", numbered: true})
			s.frames, s.bodies = append(s.frames, f), append(s.bodies, body)
		}
		return s
	})
	if err != nil {
		return nil, err
	}
	w, err := r.open()
	if err == nil {
		r.start()
		err = r.await(w, plan.label, work.done)
	}
	if err == nil && plan.held != nil && !r.over() {
		err = plan.held(r.ctx, w)
	}
	if err = errors.Join(err, r.stop()); w == nil || w.elapsed == 0 {
		return nil, err
	}
	res := r.result(w, plan.label, map[string]any{
		"connections": plan.connections, "outstanding": plan.outstanding, "count": z.count,
		"size": z.size, "parents": len(z.parents),
	}, plan.kind)
	res.Interrupted = work.answered.Load() < work.count
	return res, errors.Join(err, ctx.Err())
}

// A sweep shares count numbers, from first on, out to the sessions.
type sweep struct {
	first    uint64
	count    uint64
	issued   atomic.Uint64
	answered atomic.Uint64
	done     chan struct{} // closed when all are answered
}

// sweepScript sends one request for each number that it gets.
type sweepScript struct {
	work   *sweep
	depth  int
	frames []frame // one for each parent
	bodies []int
	kind   kind
}

func (f *sweepScript) next(s *session, now int64) {
	for s.underWay() < f.depth {
		n := f.work.issued.Add(1) - 1
		if n >= f.work.count {
			return
		}
		i := n % uint64(len(f.frames))
		f.frames[i].number(f.work.first + n)
		s.send(f.frames[i], f.kind, f.bodies[i], now)
	}
}

func (f *sweepScript) reply(_ *session, q request, code zk.Code, _ []byte, _ int64) error {
	harmless := code == zk.OK || q.kind == kindCreate && code == zk.ErrNodeExists ||
		(q.kind == kindDelete || q.kind == kindWatch) && code == zk.ErrNoNode
	if !harmless {
		return fmt.Errorf("%v: %w", q.kind, code)
	}
	if f.work.answered.Add(1) == f.work.count {
		close(f.work.done)
	}
	return nil
}

func (*sweepScript) event(*session, []byte, int64) error { return errUnaskedEvent }

// Fill creates Count znodes of Size bytes and leaves them there, or removes
// those that an equal Fill has created.
type Fill struct {
	Options
	Connections int
	Outstanding int
	Path        string // the znode below which they are
	First       int    // number of the first: another Fill has created those before it
	Count       int
	Size        int
	Parents     int  // 1: directly below Path; else below Path/p0, Path/p1, …
	Delete      bool // remove them, and Path if it is then empty
}

// Run does it. The Result is nil only if nothing was measured.
func (f Fill) Run(ctx context.Context) (*Result, error) {
	if f.Connections < 1 || f.Outstanding < 1 || f.Count < 1 || f.Size < 0 || f.Parents < 1 ||
		f.First < 0 || len(f.Path) < 2 || f.Path[0] != '/' {
		return nil, fmt.Errorf("bench: fill: a parameter is out of range: %+v", f)
	}
	set := znodes{parents: []string{f.Path}, first: f.First, count: f.Count, size: f.Size}
	if f.Parents > 1 {
		set.parents = set.parents[:0]
		for i := range f.Parents {
			set.parents = append(set.parents, fmt.Sprintf("%s/p%d", f.Path, i))
		}
	}
	c, err := dialControl(ctx, f.TLS, f.Servers[0])
	if err != nil {
		return nil, err
	}
	defer c.close()
	if !f.Delete {
		if err := c.create(f.Path, nil); err != nil {
			return nil, err
		}
		return set.fill(ctx, f.Options, f.Connections, f.Outstanding)
	}
	res, err := set.clear(ctx, f.Options, f.Connections, f.Outstanding)
	if err != nil {
		return res, err
	}
	for _, p := range append(set.parents, f.Path) {
		if err := c.remove(p); err != nil && !errors.Is(err, zk.ErrNotEmpty) {
			return res, err
		}
	}
	return res, nil
}
