package clients

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/recipe"
)

// soon waits for a result, and fails the test without one.
func soon(t *testing.T, e *Env, what string, done <-chan error) {
	t.Helper()
	ctx := e.Context()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	case <-ctx.Done():
		t.Fatalf("%s does not return", what)
	}
}

// notYet demands that nobody has a result.
func notYet(t *testing.T, what string, done <-chan error) {
	t.Helper()
	select {
	case err := <-done:
		t.Errorf("%s returns too early: %v", what, err)
	default:
	}
}

// barriers hold back through the death of who has closed one, and a restart.
func barriers(t *testing.T, e *Env) {
	const waiting = 3
	ctx := e.Context()
	closer, opener := e.Client(mortal), e.Client()
	must(t, recipe.NewBarrier(closer, "/b", recipe.BarrierOptions{}).Close(ctx))
	done := make(chan error, waiting)
	var clients []*client.Client
	for range waiting {
		c := e.Client()
		clients = append(clients, c)
		go func() { done <- recipe.NewBarrier(c, "/b", recipe.BarrierOptions{}).Wait(ctx) }()
	}
	e.Hold(closer)
	e.Cut(clients[0])
	e.Restart()
	for _, c := range clients {
		must(t, settle(e, c))
	}
	notYet(t, "a wait", done)
	must(t, recipe.NewBarrier(opener, "/b", recipe.BarrierOptions{}).Open(ctx))
	for range waiting {
		soon(t, e, "a wait", done)
	}
}

// doubleBarriers has three enter and leave together, round after round, one of
// whom dies inside of the first.
func doubleBarriers(t *testing.T, e *Env) {
	const number, rounds = 3, 6
	ctx := e.Context()
	dead := e.Client(mortal)
	var barriers []*recipe.DoubleBarrier
	var clients []*client.Client
	for range number {
		c := e.Client()
		clients = append(clients, c)
		barriers = append(barriers, recipe.NewDoubleBarrier(c, "/d", number, recipe.DoubleBarrierOptions{}))
	}
	entered := make(chan error, number)
	enter := func(b *recipe.DoubleBarrier) { entered <- b.Enter(ctx) }
	go enter(recipe.NewDoubleBarrier(dead, "/d", number, recipe.DoubleBarrierOptions{}))
	go enter(barriers[0])
	must(t, settle(e, clients[0]))
	notYet(t, "enter", entered)
	go enter(barriers[1])
	for range number {
		soon(t, e, "enter", entered)
	}
	e.Hold(dead)
	left := make(chan error, number)
	leave := func(b *recipe.DoubleBarrier) { left <- b.Leave(ctx) }
	go leave(barriers[0])
	go leave(barriers[1])
	soon(t, e, "leave beside a dead one", left)
	soon(t, e, "leave beside a dead one", left)

	var mu sync.Mutex
	inside, restarted := 0, make(chan struct{})
	var all sync.WaitGroup
	for i, b := range barriers {
		all.Go(func() {
			for round := range rounds {
				if round == rounds/2 && i == 0 {
					close(restarted)
				}
				if err := b.Enter(ctx); err != nil {
					t.Errorf("round %d: enter: %v", round, err)
					return
				}
				mu.Lock()
				inside++
				mu.Unlock()
				if err := b.Leave(ctx); err != nil {
					t.Errorf("round %d: leave: %v", round, err)
					return
				}
				mu.Lock()
				if inside < number*(round+1) {
					t.Errorf("round %d: one leaves when %d have been inside", round, inside)
				}
				mu.Unlock()
			}
		})
	}
	select {
	case <-restarted:
	case <-ctx.Done():
		t.Error("the rounds do not go on")
	}
	e.Restart()
	all.Wait()
}

// groups show who is alive, through a death and a restart.
func groups(t *testing.T, e *Env) {
	ctx := e.Context()
	watcher, dead := e.Client(), e.Client(mortal)
	var mu sync.Mutex
	var view []string
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		for members, err := range recipe.NewGroup(watcher, "/g", recipe.GroupOptions{}).Watch(watching) {
			if err != nil {
				return
			}
			var names []string
			for _, m := range members {
				names = append(names, m.Name+"="+string(m.Data))
			}
			slices.Sort(names)
			mu.Lock()
			view = names
			mu.Unlock()
		}
	}()
	becomes := func(want ...string) {
		t.Helper()
		for {
			mu.Lock()
			got := slices.Clone(view)
			mu.Unlock()
			if slices.Equal(got, want) {
				return
			}
			select {
			case <-time.After(10 * time.Millisecond):
			case <-ctx.Done():
				t.Fatalf("the view is %v and does not become %v", got, want)
			}
		}
	}
	_, err := recipe.NewGroup(dead, "/g", recipe.GroupOptions{}).Join(ctx, "dead", []byte("0"))
	must(t, err)
	var members []*recipe.Membership
	for i := range 2 {
		c := e.Client()
		m, err := recipe.NewGroup(c, "/g", recipe.GroupOptions{}).Join(ctx, fmt.Sprint("m", i), fmt.Append(nil, i+1))
		must(t, err)
		members = append(members, m)
	}
	becomes("dead=0", "m0=1", "m1=2")
	e.Hold(dead)
	becomes("m0=1", "m1=2")
	e.Cut(watcher)
	e.Restart()
	c := e.Client()
	_, err = recipe.NewGroup(c, "/g", recipe.GroupOptions{}).Join(ctx, "later", nil)
	must(t, err)
	becomes("later=", "m0=1", "m1=2")
	must(t, members[0].Leave(ctx))
	becomes("later=", "m1=2")
}

// rendezvous has workers wait for a master that comes after a restart, when the
// starter is dead.
func rendezvous(t *testing.T, e *Env) {
	const workers = 3
	ctx := e.Context()
	starter, master := e.Client(mortal), e.Client()
	must(t, recipe.NewRendezvous(starter, "/r", recipe.RendezvousOptions{}).Open(ctx))
	e.Hold(starter)
	done := make(chan error, workers)
	for range workers {
		c := e.Client()
		must(t, settle(e, c))
		go func() {
			data, err := recipe.NewRendezvous(c, "/r", recipe.RendezvousOptions{}).Wait(ctx)
			if err == nil && string(data) != "here" {
				err = fmt.Errorf("filled in is %q", data)
			}
			done <- err
		}()
	}
	e.Restart()
	must(t, settle(e, master))
	notYet(t, "a wait", done)
	must(t, recipe.NewRendezvous(master, "/r", recipe.RendezvousOptions{}).Fill(ctx, []byte("here")))
	for range workers {
		soon(t, e, "a wait", done)
	}
}

// commits has three sites agree through a restart, and abort when one of them is
// dead.
func commits(t *testing.T, e *Env) {
	ctx := e.Context()
	coordinator := e.Client()
	sites := []string{"a", "b", "c"}
	p := recipe.NewCoordinatedCommit(coordinator, "/t", recipe.TwoPhaseOptions{})
	must(t, p.Begin(ctx, []byte("what"), sites))
	outcomes := make(chan error, len(sites)+1)
	expect := func(o recipe.Outcome, err error, want recipe.Outcome) error {
		if err == nil && o != want {
			err = fmt.Errorf("the outcome is %v, not %v", o, want)
		}
		return err
	}
	var commits []*recipe.CoordinatedCommit
	for _, site := range sites {
		s := recipe.NewCoordinatedCommit(e.Client(), "/t", recipe.TwoPhaseOptions{})
		commits = append(commits, s)
		_, _, err := s.Transaction(ctx)
		must(t, err)
		must(t, s.Join(ctx, site))
		go func() {
			o, err := s.Outcome(ctx)
			outcomes <- expect(o, err, recipe.Committed)
		}()
	}
	go func() {
		o, err := p.Decide(ctx)
		outcomes <- expect(o, err, recipe.Committed)
	}()
	must(t, commits[0].Vote(ctx, "a", true))
	must(t, commits[1].Vote(ctx, "b", true))
	e.Restart()
	must(t, settle(e, coordinator))
	notYet(t, "an outcome", outcomes)
	must(t, commits[2].Vote(ctx, "c", true))
	for range len(sites) + 1 {
		soon(t, e, "an outcome", outcomes)
	}

	q := recipe.NewCoordinatedCommit(coordinator, "/u", recipe.TwoPhaseOptions{})
	must(t, q.Begin(ctx, nil, sites[:2]))
	alive, dead := e.Client(), e.Client(mortal)
	for i, c := range []*client.Client{alive, dead} {
		s := recipe.NewCoordinatedCommit(c, "/u", recipe.TwoPhaseOptions{})
		_, _, err := s.Transaction(ctx)
		must(t, err)
		must(t, s.Join(ctx, sites[i]))
		if c == alive {
			must(t, s.Vote(ctx, sites[i], true))
		}
	}
	go func() {
		o, err := q.Decide(ctx)
		outcomes <- expect(o, err, recipe.Aborted)
	}()
	must(t, settle(e, coordinator))
	notYet(t, "an outcome", outcomes)
	e.Hold(dead)
	soon(t, e, "the outcome with a dead site", outcomes)
	peers(t, e, expect)
}

// peers agree without a coordinator, who dies.
func peers(t *testing.T, e *Env, expect func(recipe.Outcome, error, recipe.Outcome) error) {
	ctx := e.Context()
	coordinator := e.Client(mortal)
	must(t, recipe.NewPeerCommit(coordinator, "/p", recipe.TwoPhaseOptions{}).Begin(ctx, nil, []string{"a", "b"}))
	e.Hold(coordinator)
	outcomes := make(chan error, 2)
	for _, site := range []string{"a", "b"} {
		p := recipe.NewPeerCommit(e.Client(), "/p", recipe.TwoPhaseOptions{})
		_, _, err := p.Transaction(ctx)
		must(t, err)
		must(t, p.Vote(ctx, site, true))
		go func() {
			o, err := p.Outcome(ctx)
			outcomes <- expect(o, err, recipe.Committed)
		}()
	}
	soon(t, e, "the outcome among peers", outcomes)
	soon(t, e, "the outcome among peers", outcomes)
}
