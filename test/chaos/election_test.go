package chaos

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/pinfold-zk/pinfold/recipe"
	"github.com/pinfold-zk/pinfold/zk"
)

// elections elect a leader, who gives orders under its epoch and resigns. Each
// candidate observes as well: leaders come in the order of their epochs.
type elections struct {
	*resource
	done atomic.Int64
}

func (*elections) name() string                       { return "election" }
func (k *elections) progress() int64                  { return k.done.Load() }
func (*elections) drain(context.Context, *life) error { return nil }

func (k *elections) work(ctx context.Context, l *life) error {
	e := recipe.NewElection(l.c, "/election")
	watching, stop := context.WithCancel(ctx)
	defer stop()
	observed := make(chan error, 1)
	go func() { observed <- e.Observe(watching, k.observer()) }()
	for {
		leadership, err := e.Campaign(ctx)
		if err != nil {
			return err
		}
		k.use(ctx, leadership.Epoch(), leadership.Lost())
		if err := leadership.Resign(ctx); err != nil && !errors.Is(err, recipe.ErrLost) {
			return err
		}
		k.done.Add(1)
		pause(ctx, 10*time.Millisecond)
		select {
		case err := <-observed:
			return err
		default:
		}
	}
}

// observer notes a leader that comes after one of a later epoch.
func (k *elections) observer() func(recipe.Leader) {
	var last zk.Zxid
	return func(l recipe.Leader) {
		if l.Epoch == 0 {
			return // there is none
		}
		if l.Epoch < last {
			k.mu.Lock()
			k.bad = append(k.bad, fmt.Sprintf("an observer saw the leader of epoch %v after that of %v", l.Epoch, last))
			k.mu.Unlock()
		}
		last = l.Epoch
	}
}
