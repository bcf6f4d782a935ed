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

func TestScanUp(t *testing.T) {
	for seed := range uint64(3) {
		bubble(t, func(t *testing.T, _ *inproc.Server, c *client.Client) {
			paths := grow(t, c, "/top", 1500, seed)
			position := map[string]int{}
			err := newScanner(t.Context(), c, "/top", scanOptions{depth: -1}).eachUp(func(z *znode) error {
				position[z.path] = len(position)
				return nil
			})
			if err != nil || len(position) != len(paths) {
				t.Fatalf("seed %d: visited %d of %d znodes: %v", seed, len(position), len(paths), err)
			}
			for _, p := range paths[1:] {
				if up := p[:strings.LastIndexByte(p, '/')]; position[up] < position[p] {
					t.Fatalf("seed %d: visited %s before %s", seed, up, p)
				}
			}
		})
	}
}

// A visit that fails ends a scan with its error, and so does the context.
func TestScanEnds(t *testing.T) {
	bubble(t, func(t *testing.T, _ *inproc.Server, c *client.Client) {
		grow(t, c, "/top", 500, 7)
		stop := errors.New("enough")
		visits := 0
		visit := func(*znode) error {
			if visits++; visits == 100 {
				return stop
			}
			return nil
		}
		opt := scanOptions{depth: -1}
		if err := newScanner(t.Context(), c, "/top", opt).each(visit); err != stop || visits != 100 {
			t.Errorf("each = %v after %d visits", err, visits)
		}
		visits = 0
		if err := newScanner(t.Context(), c, "/top", opt).eachUp(visit); err != stop || visits != 100 {
			t.Errorf("eachUp = %v after %d visits", err, visits)
		}
		if err := newScanner(t.Context(), c, "/nope", opt).eachUp(visit); !errors.Is(err, zk.ErrNoNode) {
			t.Errorf("eachUp = %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := newScanner(ctx, c, "/top", opt).each(visit); !errors.Is(err, context.Canceled) {
			t.Errorf("each = %v", err)
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
			!strings.Contains(errs, "Insufficient permission : /a/h0/x (needs delete on /a/h0)\n") || !strings.Contains(errs, "more") {
			t.Errorf("status %d: %s", status, errs)
		}
		if got := r.must("ls /a"); strings.Contains(got, "free") {
			t.Errorf("ls /a = %q", got)
		}
	})
}

// Where a right is missing is said of each node: to delete, that on its parent; of one
// whose children cannot be listed, that to read.
func TestDeleteAllSaysWhichRightIsMissing(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		r.must("create /a x")
		r.must("create /a/unreadable x world:anyone:cdwa")
		r.must("create /a/unreadable/x x")
		r.must("create /a/undeletable x world:anyone:rcwa")
		r.must("create /a/undeletable/x x")
		_, errs, status := r.do("deleteall /a")
		const want = `Failed to delete some node(s) in the subtree!
  Insufficient permission : /a/undeletable/x (needs delete on /a/undeletable)
  Node not empty: /a/undeletable
  Insufficient permission : /a/unreadable (needs read on /a/unreadable)
  Node not empty: /a
`
		if status != statusFailed || errs != want {
			t.Errorf("status %d: %s", status, errs)
		}
		for line, want := range map[string]string{
			"delete /a/undeletable/x": "Insufficient permission : /a/undeletable/x\n(it needs delete on /a/undeletable; getAcl",
			"get /a/unreadable":       "(it needs read on /a/unreadable; ",
		} {
			if _, errs, _ := r.do(line); !strings.Contains(errs, want) {
				t.Errorf("%s: %s", line, errs)
			}
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

// setAcl -R says which nodes refuse it, and sets the others.
func TestSetACLBelowGoesOn(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		for _, line := range []string{"create /top", "create /top/a", "create /top/b", "create /top/b/below", "create /top/c", "setAcl /top/b world:anyone:cdw"} {
			r.must(line)
		}
		_, errs, status := r.do("setAcl -R /top world:anyone:cdra")
		want := "Failed to set the ACL of some node(s) in the subtree!\n  Insufficient permission : /top/b (needs admin on /top/b)\n"
		if status != statusFailed || errs != want {
			t.Errorf("status %d, %q; want %q", status, errs, want)
		}
		for _, path := range []string{"/top", "/top/a", "/top/c"} {
			if acl := r.must("getAcl " + path); acl != "'world,'anyone\n: cdra\n" {
				t.Errorf("%s: %q", path, acl)
			}
		}
		if _, errs, _ := r.do("setAcl -R /top nope:x:r"); !strings.HasPrefix(errs, "Acl is not valid : /top/a\n") {
			t.Errorf("an ACL that none can have: %q", errs)
		}
	})
}

// Below a chroot, "/" is not a node to delete, and quotas cannot be had.
func TestTheRootOfAChroot(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		r.must("create /app")
		r.must("connect 10.0.0.1:2181/app")
		r.must("create /a")
		r.must("deleteall /")
		if _, errs, status := r.do("delete /"); status != statusFailed || !strings.HasPrefix(errs, "Arguments are not valid : /") {
			t.Errorf("delete /: status %d, %q", status, errs)
		}
		if out := r.must("ls /"); out != "[]\n" {
			t.Errorf("ls / prints %q", out)
		}
		for _, line := range []string{"setquota -n 3 /a", "listquota /a", "delquota /a"} {
			_, errs, status := r.do(line)
			if status != statusUsage || !strings.Contains(errs, "connect to 10.0.0.1:2181, and name the node /app/a") {
				t.Errorf("%s: status %d, %q", line, status, errs)
			}
		}
	})
}
