package recipemodel

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/recipe"
	"github.com/pinfold-zk/pinfold/zk"
)

// A committer is what both forms of two-phase commit have.
type committer interface {
	Begin(ctx context.Context, data []byte, sites []string) error
	Vote(ctx context.Context, site string, commit bool) error
	Outcome(ctx context.Context) (recipe.Outcome, error)
	Remove(ctx context.Context) error
}

// commits are transactions, one after the other, of one of the two forms.
type commits struct {
	w      *world
	path   string
	voters bool // a coordinator decides

	mu    sync.Mutex // guards what follows
	uses  int
	all   map[int]*transaction
	count int64
}

// A transaction is what was said in one, and what of it.
type transaction struct {
	began    int
	maybe    bool            // somebody does not know whether it has begun
	pro      map[string]bool // a vote to commit was perhaps given
	contra   bool            // a vote to abort was given
	outcomes map[recipe.Outcome]bool
}

func newCommit(coordinated bool) func(w *world, path string) role {
	return func(w *world, path string) role {
		return &commits{w: w, path: path, voters: coordinated, all: map[int]*transaction{}}
	}
}

func (k *commits) name() string { return fmt.Sprintf("two-phase commit (coordinated %v)", k.voters) }

func (k *commits) done() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.count
}

func (k *commits) of(c *client.Client, n int) committer {
	path := fmt.Sprintf("%s/%d", k.path, n)
	if k.voters {
		return recipe.NewCoordinatedCommit(c, path, recipe.TwoPhaseOptions{})
	}
	return recipe.NewPeerCommit(c, path, recipe.TwoPhaseOptions{})
}

func (k *commits) next() (int, *transaction) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.uses++
	n := k.uses / 25
	if k.all[n] == nil {
		k.all[n] = &transaction{pro: map[string]bool{}, outcomes: map[recipe.Outcome]bool{}}
	}
	return n, k.all[n]
}

func (k *commits) work(ctx context.Context, l *life) error {
	for ctx.Err() == nil {
		once, cancel := l.bounded(ctx)
		n, x := k.next()
		err := k.step(once, l, k.of(l.c, n), n, x)
		if errors.Is(err, zk.ErrNoNode) || errors.Is(err, recipe.ErrVoted) || errors.Is(err, zk.ErrNodeExists) {
			err = nil
		}
		err = l.goes(ctx, once, k.name(), err)
		cancel()
		if err != nil {
			return err
		}
		wait(ctx, time.Duration(l.roll(30))*time.Millisecond)
	}
	return context.Cause(ctx)
}

func sites() []string { return []string{"x", "y", "z"} }

// step is something that somebody does in a transaction.
func (k *commits) step(ctx context.Context, l *life, t committer, n int, x *transaction) error {
	site := sites()[l.roll(3)]
	switch l.roll(8) {
	case 0:
		k.mu.Lock()
		data := fmt.Appendf(nil, "by client %d, %d", l.n, k.uses)
		k.mu.Unlock()
		err := t.Begin(ctx, data, sites())
		k.mu.Lock()
		if err == nil {
			x.began++
		}
		x.maybe = x.maybe || err != nil
		k.mu.Unlock()
		if c, ok := t.(*recipe.CoordinatedCommit); ok && err == nil {
			return k.decide(ctx, n, x, c)
		}
		return err
	case 1, 2, 3, 4:
		return k.vote(ctx, l, t, site, x)
	case 5, 6:
		short, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		o, err := t.Outcome(short)
		k.outcome(n, x, o, err)
		if errors.Is(err, context.DeadlineExceeded) && short.Err() != nil {
			return nil
		}
		return err
	}
	if c, ok := t.(*recipe.CoordinatedCommit); ok && l.roll(8) == 0 {
		o, err := c.Abort(ctx)
		k.outcome(n, x, o, err)
		return err
	}
	return nil
}

// decide is the coordinator's part.
func (k *commits) decide(ctx context.Context, n int, x *transaction, c *recipe.CoordinatedCommit) error {
	short, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	o, err := c.Decide(short)
	k.outcome(n, x, o, err)
	if errors.Is(err, context.DeadlineExceeded) && short.Err() != nil {
		return nil
	}
	return err
}

func (k *commits) vote(ctx context.Context, l *life, t committer, site string, x *transaction) error {
	commit := l.roll(8) > 0
	if c, ok := t.(*recipe.CoordinatedCommit); ok {
		if err := c.Join(ctx, site); err != nil {
			return err
		}
	}
	if commit {
		k.mu.Lock()
		x.pro[site] = true
		k.mu.Unlock()
	}
	err := t.Vote(ctx, site, commit)
	if err == nil && !commit {
		k.mu.Lock()
		x.contra = true
		k.mu.Unlock()
	}
	return err
}

// outcome notes what somebody was told.
func (k *commits) outcome(n int, x *transaction, o recipe.Outcome, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil {
		return
	}
	x.outcomes[o] = true
	k.count++
	if len(x.outcomes) > 1 || x.outcomes[recipe.Undecided] {
		k.w.errorf("%s %d: some are told %v", k.name(), n, x.outcomes)
	}
	if o == recipe.Committed && (x.contra || len(x.pro) < len(sites())) {
		k.w.errorf("%s %d: committed, with a vote to abort %v, and votes to commit of %v", k.name(), n, x.contra, x.pro)
	}
}

func (k *commits) quiet(ctx context.Context, c *client.Client) {}

func (k *commits) end(ctx context.Context, c *client.Client) {
	for n, x := range k.all {
		t := k.of(c, n)
		if _, exists, err := c.Exists(ctx, fmt.Sprintf("%s/%d", k.path, n)); err != nil || !exists {
			if x.began > 0 || err != nil {
				k.w.errorf("%s %d: it is not there: %v", k.name(), n, err)
			}
			continue
		}
		switch {
		case x.began > 1:
			k.w.errorf("%s %d: %d have begun it", k.name(), n, x.began)
		case x.began == 0 && !x.maybe:
			k.w.errorf("%s %d: nobody has begun it", k.name(), n)
		}
		if !k.voters { // who has not voted never will
			for _, s := range sites() {
				if err := t.Vote(ctx, s, false); err == nil {
					x.contra = true
				} else if !errors.Is(err, recipe.ErrVoted) {
					k.w.errorf("%s %d: %v", k.name(), n, err)
				}
			}
		}
		o, err := t.Outcome(ctx)
		if err != nil {
			k.w.errorf("%s %d: at the end: %v", k.name(), n, err)
		}
		k.outcome(n, x, o, err)
		if x.contra && o != recipe.Aborted {
			k.w.errorf("%s %d: %v, with a vote to abort", k.name(), n, o)
		}
		if err := t.Remove(ctx); err != nil {
			k.w.errorf("%s %d: remove: %v", k.name(), n, err)
		}
	}
	k.w.demandChildren(ctx, c, k.path, 0)
}
