package chaos

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pinfold-zk/pinfold/recipe"
)

// A pipe is a queue: what was put, and what came out. Its own work is to put.
type pipe struct {
	path  string
	lease bool // what is taken is acknowledged: at least once; else at most once
	n     atomic.Int64
	took  atomic.Int64
	died  atomic.Int64 // takers that died, or lost their session, each with an item at most

	mu  sync.Mutex // guards what follows
	put map[string]bool
	out map[string]int  // how often taken, or acknowledged
	had map[string]bool // taken or leased at least once
}

func newPipe(path string, lease bool) *pipe {
	return &pipe{path: path, lease: lease, put: map[string]bool{}, out: map[string]int{}, had: map[string]bool{}}
}

func (p *pipe) queue(l *life) *recipe.Queue {
	return recipe.NewQueue(l.c, p.path, recipe.QueueOptions{MaxSize: 200})
}

func (p *pipe) name() string { return "queue " + p.path + ", put" }

func (p *pipe) progress() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return int64(len(p.put))
}

func (p *pipe) work(ctx context.Context, l *life) error {
	q := p.queue(l)
	for {
		item := fmt.Sprintf("%s-%d", strings.Trim(p.path, "/"), p.n.Add(1))
		if err := q.Put(ctx, []byte(item)); err != nil {
			return err // it may have been put, and may come out
		}
		p.mu.Lock()
		p.put[item] = true
		p.mu.Unlock()
		pause(ctx, 10*time.Millisecond)
	}
}

// delivered notes that somebody had an item.
func (p *pipe) delivered(item []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.had[string(item)] = true
}

// came notes that an item is out of the queue.
func (p *pipe) came(item []byte) {
	p.mu.Lock()
	p.out[string(item)]++
	p.mu.Unlock()
	p.took.Add(1)
}

// drain takes what is left. A lease of a client that has died is over when its
// session is.
func (p *pipe) drain(ctx context.Context, l *life) error {
	q := p.queue(l)
	for {
		n, err := q.Size(ctx)
		if err != nil || n == 0 {
			return err
		}
		if err := p.one(ctx, q); err != nil {
			return err
		}
	}
}

func (p *pipe) one(ctx context.Context, q *recipe.Queue) error {
	if !p.lease {
		item, err := q.Take(ctx)
		if err == nil {
			p.delivered(item)
			p.came(item)
		}
		return err
	}
	lease, err := q.Lease(ctx)
	if err != nil {
		return err
	}
	p.delivered(lease.Data()) // an acknowledgement of one who dies may count all the same
	pause(ctx, 3*time.Millisecond)
	err = lease.Ack(ctx)
	if errors.Is(err, recipe.ErrLeaseLost) {
		return nil // another gets it
	}
	if err == nil {
		p.came(lease.Data())
	}
	return err
}

func (p *pipe) check(w *world) {
	p.mu.Lock()
	defer p.mu.Unlock()
	lost := 0
	for item := range p.put {
		if !p.had[item] {
			lost++
		}
	}
	for item, n := range p.out {
		if n > 1 {
			w.t.Errorf("queue %s: %s came out %d times", p.path, item, n)
		}
	}
	allowed := int64(0)
	if !p.lease {
		allowed = p.died.Load()
	}
	if int64(lost) > allowed {
		w.t.Errorf("queue %s: %d of %d items were lost; at most %d may be", p.path, lost, len(p.put), allowed)
	}
	w.t.Logf("queue %s: %d put, %d came out, %d lost with those who had taken them", p.path, len(p.put), len(p.out), lost)
}

// consumers are the other end of a pipe.
type consumers struct{ *pipe }

func (p *pipe) consumers() role { return consumers{p} }

func (c consumers) name() string                     { return "queue " + c.path + ", taken" }
func (c consumers) progress() int64                  { return c.took.Load() }
func (consumers) drain(context.Context, *life) error { return nil }
func (consumers) check(*world)                       {}

func (c consumers) work(ctx context.Context, l *life) error {
	q := c.queue(l)
	for {
		if err := c.one(ctx, q); err != nil {
			c.died.Add(1)
			return err
		}
	}
}
