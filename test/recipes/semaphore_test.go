package recipes

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pinfold-zk/pinfold/recipe"
	"github.com/pinfold-zk/pinfold/zk"
)

// Leases of ours and of kazoo's are of one number.
func TestKazooSemaphore(t *testing.T) {
	m := meetKazoo(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	path := m.path()
	ours := recipe.NewSemaphore(m.c, path, 2, recipe.SemaphoreOptions{})
	for _, name := range []string{"k", "l"} {
		m.peer.ask("made "+name, "new", name, "Semaphore", path, 2)
	}
	one, err := ours.Acquire(ctx, []byte("we"))
	if err != nil {
		t.Fatal(err)
	}
	m.peer.ask("acquired k", "try", "k")
	m.peer.ask("holders k k we", "holders", "k")
	m.peer.ask("refused l", "try", "l")
	if _, ok, err := ours.TryAcquire(ctx, nil); ok || err != nil {
		t.Fatalf("a third lease: %v, %v", ok, err)
	}

	// They wait for us, and we for them.
	m.peer.tell("acquire", "l")
	for len(m.inLine(ctx, path)) == 0 {
	}
	if err := one.Release(ctx); err != nil {
		t.Fatal(err)
	}
	m.peer.expect("acquired l")
	got := make(chan error, 1)
	go func() {
		_, err := ours.Acquire(ctx, []byte("we"))
		got <- err
	}()
	for len(m.inLine(ctx, path)) == 0 {
	}
	m.peer.ask("released k", "release", "k")
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	m.peer.ask("holders l l we", "holders", "l")
}

// inLine is who waits for a lease.
func (m *meeting) inLine(ctx context.Context, path string) []string {
	names, _, err := m.c.Children(ctx, path+"-__lock__")
	if err != nil {
		m.t.Fatal(err)
	}
	return names
}

// kazoo's and ours take one semaphore, again and again; the number of leases holds.
func TestKazooSemaphoreContended(t *testing.T) {
	m := meetKazoo(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	const rounds = 15
	path, inside := m.path(), m.path()
	for _, name := range []string{"a", "b"} {
		m.peer.ask("made "+name, "new", name, "Semaphore", path, 1)
		m.peer.tell("loop", name, rounds, inside)
	}
	var group sync.WaitGroup
	var clashes atomic.Int64
	for range 2 {
		ours := recipe.NewSemaphore(m.c, path, 1, recipe.SemaphoreOptions{})
		group.Go(func() {
			for range rounds {
				l, err := ours.Acquire(ctx, nil)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := m.c.Create(ctx, inside, nil, zk.Ephemeral, nil); err != nil {
					clashes.Add(1)
				} else if err := m.c.Delete(ctx, inside, -1); err != nil {
					t.Error(err)
				}
				if err := l.Release(ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	for range 2 {
		if said := m.peer.hear(); said != "looped a 0" && said != "looped b 0" {
			t.Errorf("the peer says %q", said)
		}
	}
	if clashes.Load() > 0 {
		t.Errorf("%d times two were inside", clashes.Load())
	}
}

// A number that kazoo's Counter and ours both change.
func TestKazooCounter(t *testing.T) {
	m := meetKazoo(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	path := m.path()
	ours := recipe.NewCounter(m.c, path, recipe.CounterOptions{})
	for i := range int64(3) {
		v, err := ours.Add(ctx, 10)
		if err != nil || v.N != 11*i+10 {
			t.Fatalf("%+v, %v", v, err)
		}
		m.peer.ask("added "+path+" "+strconv.FormatInt(v.N+1, 10), "add", path, 1)
	}
}
