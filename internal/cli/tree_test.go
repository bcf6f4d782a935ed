package cli

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/inproc"
	"github.com/pinfold-zk/pinfold/zk"
)

const opCreate = wire.OpCreate

// grow makes a tree of n znodes below root, each below one chosen at random, and
// returns their paths.
func grow(t *testing.T, c *client.Client, root string, n int, seed uint64) []string {
	t.Helper()
	chance := rand.New(rand.NewPCG(seed, 0))
	paths := []string{root}
	for i := range n {
		parent := paths[chance.IntN(min(len(paths), 1+n/10))]
		paths = append(paths, fmt.Sprintf("%s/n%d", parent, i))
	}
	var failed error
	for _, p := range paths {
		c.CreateAsync(context.Background(), p, nil, zk.Persistent, nil, func(_ string, err error) {
			failed = errors.Join(failed, err)
		})
	}
	done := make(chan error)
	c.SyncAsync(context.Background(), "/", func(err error) { done <- errors.Join(err, failed) })
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return paths
}

// inOrder sorts paths as a walk visits them.
func inOrder(paths []string) []string {
	return slices.SortedFunc(slices.Values(paths), func(a, b string) int {
		return slices.Compare(strings.Split(a, "/"), strings.Split(b, "/"))
	})
}

func TestWalkVisitsAllInOrder(t *testing.T) {
	for seed := range uint64(3) {
		synctest.Test(t, func(t *testing.T) {
			c := inproc.Start(t).Client(t)
			paths := grow(t, c, "/top", 1500, seed)
			var seen, left []string
			err := walkBoth(t.Context(), c, "/top", func(v visited) error {
				if strings.Count(v.path, "/") != v.depth+1 || int(v.stat.NumChildren) != len(v.names) {
					t.Errorf("visited %+v", v)
				}
				seen = append(seen, v.path)
				return nil
			}, func(v visited) error {
				left = append(left, v.path)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if want := inOrder(paths); !slices.Equal(seen, want) {
				t.Errorf("seed %d: visited %d znodes, not %d in their order", seed, len(seen), len(want))
			}
			// Behind all that is below it: each comes after its descendants.
			position := map[string]int{}
			for i, p := range left {
				position[p] = i
			}
			for _, p := range paths[1:] {
				if up := p[:strings.LastIndexByte(p, '/')]; position[up] < position[p] || len(position) != len(paths) {
					t.Fatalf("seed %d: left %s before %s", seed, up, p)
				}
			}
		})
	}
}

func TestWalkLeavesOutWhatItIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := inproc.Start(t).Client(t)
		paths := grow(t, c, "/top", 1500, 7)
		skip := func(p string) bool { return strings.HasSuffix(p, "1") }
		var want, seen []string
		for _, p := range inOrder(paths) {
			above := strings.Split(p, "/")
			if !slices.ContainsFunc(above[:len(above)-1], skip) {
				want = append(want, p)
			}
		}
		err := walk(t.Context(), c, "/top", func(v visited) error {
			seen = append(seen, v.path)
			if skip(v.path) {
				return errSkipBelow
			}
			return nil
		})
		if err != nil || !slices.Equal(seen, want) {
			t.Errorf("visited %d znodes, want %d: %v", len(seen), len(want), err)
		}
		stop := errors.New("enough")
		if err := walk(t.Context(), c, "/top", func(visited) error { return stop }); err != stop {
			t.Errorf("walk = %v", err)
		}
		if err := walk(t.Context(), c, "/nope", func(visited) error { return nil }); !errors.Is(err, zk.ErrNoNode) {
			t.Errorf("walk = %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := walk(ctx, c, "/top", func(visited) error { return nil }); !errors.Is(err, context.Canceled) {
			t.Errorf("walk = %v", err)
		}
	})
}

// The memory of a walk is bounded: it has no more lists than it may, although
// nobody takes them.
func TestWalkDoesNotRunAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := inproc.Start(t).Client(t)
		grow(t, c, "/top", 1500, 1)
		w := &walker{ctx: client.NoWait(t.Context()), c: c, limit: 100}
		top := &siblings{names: []string{"/top"}}
		if n, ok := w.next(top); !ok || n.path != "/top" {
			t.Fatal(n, ok)
		}
		synctest.Wait()
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.mu.lists != 100 || w.mu.requests != 0 {
			t.Errorf("%d lists, %d requests, want 100 and 0", w.mu.lists, w.mu.requests)
		}
	})
}

func TestDeleteAll(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		grow(t, r.connected(), "/top", 1500, 2)
		grow(t, r.connected(), "/other", 300, 3)
		r.must("deleteall -b 7 /top")
		if got := r.must("ls /"); got != "[other, zookeeper]\n" {
			t.Errorf("ls / = %q", got)
		}
		if _, errs, status := r.do("deleteall /top"); status != statusFailed || !strings.HasPrefix(errs, "Node does not exist: /top") {
			t.Errorf("status %d, %s", status, errs)
		}
		r.must("deleteall /")
		if got := r.must("ls /"); got != "[zookeeper]\n" {
			t.Errorf("ls / = %q", got)
		}
	})
}

// What may not be deleted is told, the rest goes.
func TestDeleteAllGoesOn(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		r.must("create /a x")
		r.must("create /a/free x")
		r.must("create /a/held x world:anyone:r")
		for i := range 9 {
			r.must(fmt.Sprintf("create /a/h%d x world:anyone:rcwa", i))
			r.must(fmt.Sprintf("create /a/h%d/x x", i))
		}
		_, errs, status := r.do("deleteall /a")
		if status != statusFailed || !strings.HasPrefix(errs, "Failed to delete some node(s) in the subtree!\n") ||
			!strings.Contains(errs, "Insufficient permission : /a/h0/x") || !strings.Contains(errs, "more") {
			t.Errorf("status %d: %s", status, errs)
		}
		if got := r.must("ls /a"); strings.Contains(got, "free") {
			t.Errorf("ls /a = %q", got)
		}
	})
}

func TestSetACLBelow(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		paths := grow(t, r.connected(), "/top", 1500, 4)
		r.must("setAcl -R /top world:anyone:a")
		for _, p := range paths {
			acl, _, err := r.connected().GetACL(r.t.Context(), p)
			if err != nil || len(acl) != 1 || acl[0].Perms != zk.PermAdmin {
				t.Fatalf("%s: %v, %v", p, acl, err)
			}
		}
	})
}

// connected is the connection of the shell.
func (r *rig) connected() *client.Client {
	r.t.Helper()
	c, err := r.client(context.Background())
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

func TestOrderedTakesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOrdered[int](t.Context(), 3)
		var got []int
		var waiting []func()
		for i := range 10 {
			if len(waiting) == 3 { // answer them, the newest first
				for _, answer := range slices.Backward(waiting) {
					answer()
				}
				waiting = nil
			}
			err := o.begin(func(done func(int, error)) {
				waiting = append(waiting, func() { done(i, nil) })
			}, func(n int, err error) error {
				got = append(got, n)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, answer := range waiting {
			answer()
		}
		if err := o.finish(); err != nil || !slices.Equal(got, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}) {
			t.Errorf("took %v, %v", got, err)
		}
	})
}

func TestOrderedEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	o := newOrdered[int](ctx, 1)
	never := func(func(int, error)) {}
	take := func(int, error) error { return nil }
	if err := o.begin(never, take); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := o.begin(never, take); !errors.Is(err, context.Canceled) {
		t.Errorf("begin = %v", err)
	}
	if err := o.finish(); !errors.Is(err, context.Canceled) {
		t.Errorf("finish = %v", err)
	}
}

func TestProgress(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		p := r.progress("nodes deleted")
		p.add(100)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		p.add(100)
		p.add(100)
		time.Sleep(10 * time.Second)
		p.expect(500)
		p.add(100)
		p.stop()
		if got, want := r.errs.take(), "200 nodes deleted, 20/s\n400 of 500 nodes deleted (80%), 20/s\n"; got != want {
			t.Errorf("progress %q, want %q", got, want)
		}
		r.terminal = true
		p = r.progress("nodes deleted")
		time.Sleep(time.Second)
		p.add(10)
		p.stop()
		if got, want := r.errs.take(), "\r\x1b[K10 nodes deleted, 10/s\r\x1b[K"; got != want {
			t.Errorf("progress %q, want %q", got, want)
		}
	})
}
