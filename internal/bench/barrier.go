package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/recipe"
	"github.com/pinfold-zk/pinfold/zk"
)

// Barriers is the experiment of the paper's section 5.3: each client enters one
// double barrier after the other, and then leaves one after the other. All wait
// for each other at each.
type Barriers struct {
	Servers  []string
	Clients  int
	Barriers int
}

// Run returns the mean time that a client needed.
func (b Barriers) Run(ctx context.Context) (time.Duration, error) {
	if len(b.Servers) == 0 || b.Clients < 1 || b.Barriers < 1 {
		return 0, fmt.Errorf("bench: barriers: a parameter is out of range: %+v", b)
	}
	clients := make([]*client.Client, b.Clients)
	defer func() {
		for _, c := range clients {
			if c != nil {
				c.Close() // its session is all that there is to lose
			}
		}
	}()
	for i := range clients {
		var err error
		clients[i], err = client.Dial(ctx, strings.Join(b.Servers, ","), client.SessionTimeout(30*time.Second))
		if err != nil {
			return 0, fmt.Errorf("bench: barriers: %w", err)
		}
	}
	place := newPlace("barriers")
	if _, err := clients[0].Create(ctx, place, nil, zk.Persistent, nil); err != nil {
		return 0, fmt.Errorf("bench: barriers: %w", err)
	}
	sum, err := b.pass(ctx, clients, place)
	if err != nil {
		return 0, fmt.Errorf("bench: barriers: %w", err)
	}
	return sum / time.Duration(b.Clients), b.remove(ctx, clients[0], place)
}

// pass has the clients begin together, and returns the sum of their times.
func (b Barriers) pass(ctx context.Context, clients []*client.Client, place string) (sum time.Duration, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	took, errs := make([]time.Duration, b.Clients), make([]error, b.Clients)
	start := time.Now()
	var wg sync.WaitGroup
	for i, c := range clients {
		wg.Go(func() {
			if errs[i] = b.one(ctx, c, place); errs[i] != nil {
				cancel() // the others wait for this one
			}
			took[i] = time.Since(start)
		})
	}
	wg.Wait()
	for i := range took {
		sum += took[i]
	}
	return sum, errors.Join(errs...)
}

// one is a client's way through all barriers.
func (b Barriers) one(ctx context.Context, c *client.Client, place string) error {
	barriers := make([]*recipe.DoubleBarrier, b.Barriers)
	for i := range barriers {
		barriers[i] = recipe.NewDoubleBarrier(c, fmt.Sprintf("%s/b%d", place, i), b.Clients, recipe.DoubleBarrierOptions{})
		if err := barriers[i].Enter(ctx); err != nil {
			return err
		}
	}
	for _, barrier := range barriers {
		if err := barrier.Leave(ctx); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes what the barriers have left.
func (b Barriers) remove(ctx context.Context, c *client.Client, place string) error {
	for i := range b.Barriers {
		at := fmt.Sprintf("%s/b%d", place, i)
		names, _, err := c.Children(ctx, at)
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := c.Delete(ctx, at+"/"+name, -1); err != nil && !errors.Is(err, zk.ErrNoNode) {
				return err
			}
		}
		if err := c.Delete(ctx, at, -1); err != nil {
			return err
		}
	}
	return c.Delete(ctx, place, -1)
}

// barrierPoints are table 3.
func (p *Paper) barrierPoints() (list []point) {
	clients, barriers := []int{50, 100, 200}, p.Barriers
	if p.Quick {
		clients, barriers = []int{50}, []int{50}
	}
	for _, n := range clients {
		for _, m := range barriers {
			list = append(list, point{values{"clients": float64(n), "barriers": float64(m)},
				func(ctx context.Context, v *paperVisit) (values, error) {
					took, err := Barriers{Servers: v.addresses(), Clients: n, Barriers: m}.Run(ctx)
					if err != nil {
						return nil, err
					}
					// Each enters and leaves each.
					return values{"seconds": took.Seconds(), "rate": 2 * float64(n*m) / took.Seconds()}, nil
				}})
		}
	}
	return list
}
