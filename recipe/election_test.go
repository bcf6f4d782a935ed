package recipe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/test/inproc"
	"github.com/pinfold-zk/pinfold/zk"
)

// sightings are what an observer has been told.
type sightings struct {
	mu   sync.Mutex
	list []Leader
}

func (g *sightings) add(l Leader) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.list = append(g.list, l)
}

// data are what the leaders said, "-" for none.
func (g *sightings) data() (list []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, l := range g.list {
		if l.Epoch == 0 {
			list = append(list, "-")
		} else {
			list = append(list, string(l.Data))
		}
	}
	return list
}

// observe observes in the background.
func observe(ctx context.Context, e *Election) *sightings {
	g := &sightings{}
	go e.Observe(ctx, g.add)
	return g
}

func TestElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		s := inproc.Start(t)
		watcher := NewElection(s.Client(t), "/app/election")
		seen := observe(ctx, watcher)
		settle()
		if l, err := watcher.Leader(ctx); err != nil || l.Epoch != 0 {
			t.Errorf("%+v, %v", l, err)
		}
		won := make(chan *Leadership)
		var clients []*client.Client
		var epoch zk.Zxid
		for i := range 4 {
			c := s.Client(t)
			clients = append(clients, c)
			e := NewElection(c, "/app/election", HolderData(fmt.Append(nil, i)))
			go func() {
				l, err := e.Campaign(ctx)
				if err != nil && (i != 3 || !errors.Is(err, zk.ErrSessionExpired)) {
					t.Error(err)
				}
				won <- l
			}()
			settle()
		}
		late := observe(ctx, NewElection(s.Client(t), "/app/election"))
		lead := func(i int) *Leadership {
			t.Helper()
			l := <-won
			settle()
			select {
			case <-won:
				t.Fatal("two lead")
			case <-l.Lost():
				t.Fatal(l.Err())
			default:
			}
			if now, err := watcher.Leader(ctx); err != nil || string(now.Data) != fmt.Sprint(i) || now.Epoch != l.Epoch() || now.Session != clients[i].SessionID() {
				t.Errorf("%+v leads, %v", now, err)
			}
			if l.Epoch() <= epoch {
				t.Errorf("epoch %v after %v", l.Epoch(), epoch)
			}
			epoch = l.Epoch()
			return l
		}
		first := lead(0)
		s.Cut()
		s.Restart()
		settle()
		must(t, first.Err())
		must(t, first.Resign(ctx))
		second := lead(1)
		s.Expire(clients[1].SessionID())
		<-second.Lost()
		wantErr(t, second.Err(), zk.ErrSessionExpired)
		wantErr(t, second.Resign(ctx), ErrLost)
		wantErr(t, second.Proclaim(ctx, nil), ErrLost)
		third := lead(2)
		for range 2 { // the same again is nothing new
			must(t, third.Proclaim(ctx, []byte("new")))
			settle()
		}
		s.Expire(clients[3].SessionID()) // who waits
		if l := <-won; l != nil {
			t.Error("a candidate without a session has won")
		}
		must(t, third.Resign(ctx))
		settle()
		if got, want := seen.data(), []string{"-", "0", "1", "2", "new", "-"}; !slices.Equal(got, want) {
			t.Errorf("seen: %v, want %v", got, want)
		}
		if got, want := late.data(), []string{"0", "1", "2", "new", "-"}; !slices.Equal(got, want) {
			t.Errorf("seen: %v, want %v", got, want)
		}
	})
}

// Many stand again and again while everything fails that can. As long as sessions
// live, one leads at a time. A leader whose session is ended does not know it at
// once; by its epoch others tell it from the one that follows.
func TestElectionUnderFaults(t *testing.T) {
	t.Run("connections", func(t *testing.T) { electionUnderFaults(t, false) })
	t.Run("sessions", func(t *testing.T) { electionUnderFaults(t, true) })
}

func electionUnderFaults(t *testing.T, expire bool) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		s := inproc.Start(t)
		var leading atomic.Int32
		var mu sync.Mutex
		terms := map[zk.Zxid]int{}
		stand := func(e *Election) error {
			l, err := e.Campaign(ctx)
			if err != nil {
				return err
			}
			mu.Lock()
			terms[l.Epoch()]++
			mu.Unlock()
			if leading.Add(1) != 1 && !expire {
				t.Error("two lead")
			}
			select {
			case <-time.After(50 * time.Millisecond):
			case <-l.Lost():
			}
			leading.Add(-1)
			return l.Resign(ctx)
		}
		var group sync.WaitGroup
		for range 5 {
			c := s.Client(t, client.NewSession(), client.SessionTimeout(4*time.Second))
			group.Go(func() {
				e := NewElection(c, "/app/election")
				for ctx.Err() == nil {
					if err := stand(e); err != nil && !(expire && (errors.Is(err, zk.ErrSessionExpired) || errors.Is(err, ErrLost))) && ctx.Err() == nil {
						t.Error(err)
					}
				}
			})
		}
		watcher := NewElection(s.Client(t), "/app/election")
		seen := observe(ctx, watcher)
		for i := range 60 {
			time.Sleep(130 * time.Millisecond)
			switch l, err := watcher.Leader(ctx); {
			case i%4 == 0:
				s.Cut()
			case i%4 == 1:
				s.Restart()
			case i%4 == 2 && expire && err == nil && l.Epoch != 0:
				s.Expire(l.Session)
			}
		}
		cancel()
		group.Wait()
		var last zk.Zxid
		for _, l := range seen.list {
			if l.Epoch != 0 && l.Epoch <= last {
				t.Errorf("seen epoch %v after %v", l.Epoch, last)
			}
			last = max(last, l.Epoch)
		}
		for epoch, n := range terms {
			if n != 1 {
				t.Errorf("%d led in epoch %v", n, epoch)
			}
		}
		if len(terms) < 20 || len(seen.list) < 20 {
			t.Errorf("%d terms, %d seen", len(terms), len(seen.list))
		}
	})
}

func TestElectionLostAnswers(t *testing.T) {
	sweep(t, func(t *testing.T, s *inproc.Server) {
		ctx := context.Background()
		a, b := NewElection(s.Client(t), "/e/l"), NewElection(s.Client(t), "/e/l")
		one, err := a.Campaign(ctx)
		must(t, err)
		won := make(chan *Leadership)
		go func() {
			two, err := b.Campaign(ctx)
			if err != nil {
				t.Error(err)
			}
			won <- two
		}()
		settle()
		select {
		case <-won:
			t.Fatal("two lead")
		default:
		}
		must(t, one.Proclaim(ctx, []byte("x")))
		if l, err := b.Leader(ctx); err != nil || l.Epoch != one.Epoch() || string(l.Data) != "x" {
			t.Errorf("%+v, %v", l, err)
		}
		must(t, one.Resign(ctx))
		two := <-won
		if two.Epoch() <= one.Epoch() {
			t.Error(two.Epoch(), one.Epoch())
		}
		must(t, two.Resign(ctx))
		if names := childrenOf(t, s, "/e/l"); len(names) != 0 {
			t.Errorf("left: %v", names)
		}
	})
}

// listing counts lists of children.
type listing struct {
	Client
	lists *atomic.Int32
}

func (c listing) Children(ctx context.Context, path string) ([]string, zk.Stat, error) {
	c.lists.Add(1)
	return c.Client.Children(ctx, path)
}

// The end of a leader wakes the next candidate alone; a candidate that comes or
// goes does not wake observers.
func TestElectionHasNoHerd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		s := inproc.Start(t)
		leader, err := NewElection(s.Client(t), "/e").Campaign(ctx)
		must(t, err)
		var lists, looks atomic.Int32
		observe(ctx, NewElection(listing{s.Client(t), &looks}, "/e"))
		last, withdraw := context.WithCancel(ctx)
		for i := range 6 {
			ctx := ctx
			if i == 5 {
				ctx = last
			}
			e := NewElection(listing{s.Client(t), &lists}, "/e")
			go e.Campaign(ctx)
			settle()
		}
		if n := looks.Load(); n != 1 {
			t.Errorf("an observer looked %d times while candidates came", n)
		}
		lists.Store(0)
		withdraw()
		settle()
		must(t, leader.Resign(ctx))
		settle()
		if n, m := lists.Load(), looks.Load(); n != 1 || m != 2 {
			t.Errorf("the end of the leader made candidates list %d times, and the observer %d", n, m-1)
		}
		if names := childrenOf(t, s, "/e"); len(names) != 5 {
			t.Errorf("there are %v", names)
		}
	})
}

// Candidates under all names stand in one line, in the order in which they came.
func TestElectionUnderstandsAllNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := inproc.Start(t)
		c := s.Client(t)
		must(t, makePath(ctx, c, "/e", nil))
		foreign := []string{
			"/e/_c_0b1f8a2e-1111-2222-3333-444455556666-latch-", "/e/ffff8a2e11112222333344445555666a__lock__",
			"/e/_c_0b1f8a2e-1111-2222-3333-444455557777-lock-", "/e/guid-n_",
		}
		var paths []string
		for _, p := range foreign {
			path, err := c.Create(ctx, p, nil, zk.EphemeralSequential, nil)
			must(t, err)
			paths = append(paths, path)
		}
		won := make(chan *Leadership)
		for _, n := range []NodeNames{CuratorNames, KazooNames, SelectorNames, ZooKeeperNames} {
			e := NewElection(s.Client(t), "/e", UseNames(n))
			go func() {
				l, err := e.Campaign(ctx)
				if err != nil {
					t.Error(err)
				}
				won <- l
			}()
			settle()
		}
		for _, path := range paths {
			select {
			case l := <-won:
				t.Fatalf("%s leads before %s", l.Path(), path)
			default:
			}
			must(t, c.Delete(ctx, path, -1))
			settle()
		}
		for _, word := range []string{"-latch-", "__lock__", "-lock-", "-n_"} {
			l := <-won
			if !strings.Contains(l.Path(), word) {
				t.Errorf("%s leads, not one with %s", l.Path(), word)
			}
			must(t, l.Resign(ctx))
		}
	})
}
