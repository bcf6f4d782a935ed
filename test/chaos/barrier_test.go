package chaos

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pinfold-zk/pinfold/recipe"
)

// barrierNumber is how many pass a barrier together.
const barrierNumber = 3

// barriers have processes pass a double barrier, round after round. What each is
// at is known here, so that an early passage is seen.
type barriers struct {
	w    *world
	done atomic.Int64

	mu  sync.Mutex // guards what follows
	all map[*process]struct{}
	bad []string
}

// A process is one that may be registered at the barrier.
type process struct {
	enough  bool // as many as are needed may have been registered since it came
	inside  bool // Enter has returned
	leaving bool // Leave was called
}

func newBarriers(w *world) *barriers { return &barriers{w: w, all: map[*process]struct{}{}} }

func (*barriers) name() string                       { return "double barrier" }
func (b *barriers) progress() int64                  { return b.done.Load() }
func (*barriers) drain(context.Context, *life) error { return nil }

func (b *barriers) work(ctx context.Context, l *life) error {
	barrier := recipe.NewDoubleBarrier(l.c, "/barrier", barrierNumber, recipe.DoubleBarrierOptions{})
	for {
		p := b.come()
		err := barrier.Enter(ctx)
		if err == nil {
			inside := b.entered(p)
			pause(ctx, 3*time.Millisecond)
			b.leaves(p)
			if err = barrier.Leave(ctx); err == nil {
				b.left(inside)
			}
		}
		if err != nil {
			b.gone(p)
			return err
		}
		b.forget(p)
		b.done.Add(1)
		pause(ctx, 5*time.Millisecond)
	}
}

// come counts a process from before it registers.
func (b *barriers) come() *process {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := &process{}
	b.all[p] = struct{}{}
	if len(b.all) >= barrierNumber {
		for q := range b.all {
			q.enough = true
		}
	}
	return p
}

// entered returns those who are inside together with p.
func (b *barriers) entered(p *process) (inside []*process) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p.inside = true
	if !p.enough {
		b.bad = append(b.bad, fmt.Sprintf("one has entered when never more than %d were there", len(b.all)))
	}
	for q := range b.all {
		if q != p && q.inside && !q.leaving {
			inside = append(inside, q)
		}
	}
	return inside
}

func (b *barriers) leaves(p *process) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p.leaving = true
}

// left checks that those who were inside have left, or died.
func (b *barriers) left(inside []*process) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, q := range inside {
		if _, there := b.all[q]; there && !q.leaving {
			b.bad = append(b.bad, "one has left when another was still inside")
		}
	}
}

func (b *barriers) forget(p *process) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.all, p)
}

// gone is forget for one that has died: it is registered until its session ends.
func (b *barriers) gone(p *process) {
	b.leaves(p)
	b.w.workers.Go(func() {
		select {
		case <-time.After(2*sessionTimeout + patience/4):
		case <-b.w.ctx.Done():
		}
		b.forget(p)
	})
}

func (b *barriers) check(w *world) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.bad {
		w.t.Errorf("double barrier: %s", s)
	}
}
