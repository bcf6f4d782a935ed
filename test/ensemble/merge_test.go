package ensemble

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	zkclient "github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
	"github.com/pinfold-zk/pinfold/zk"
)

// TestMergeByObservers merges two live ensembles, one of Apache's and one of Pinfold's: an observer of each, which is in
// nobody's list, follows it while clients write, and is stopped for a rehearsal; what is merged is the observers' directories. Nothing but an ephemeral
// is missing then, and Stats and counters are those of the sources, in both programs.
func TestMergeByObservers(t *testing.T) {
	mixtures(t, "") // -kinds does not matter
	o := rigOptions{before: func(e *cluster.Ensemble) {
		if err := unlistFirst(e, 1); err != nil {
			t.Fatal(err)
		}
	}}
	sources := []*rig{newRig(t, "pinfold,apache,apache,apache", o), newRig(t, "pinfold,pinfold,pinfold,pinfold", o)}
	program := programs(t, sources[0].specs, "").Pinfold
	ctx := sources[0].within(3 * patience)
	merged := filepath.Join(t.TempDir(), "merged")
	words := []string{"migrate", "merge", "--to", merged}
	var stops []func() error
	for i, r := range sources {
		words = append(words, fmt.Sprintf("/part%d=%s", i, r.e.Member(1).DataDir))
		stops = append(stops, write(t, ctx, r.e.Member(2).Client))
	}
	for _, r := range sources {
		r.must(r.e.Member(1).Stop())
	}
	out, err := exec.CommandContext(ctx, program, append(words, "--dry-run")...).CombinedOutput()
	t.Logf("while they write: %v\n%s", err, out)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range sources {
		r.must(r.e.Member(1).Start())
	}
	for _, stop := range stops {
		sources[0].must(stop())
	}
	var want []string
	for i, r := range sources { // the switch
		_, err := r.e.WaitCaughtUp(ctx, r.e.Member(1))
		r.must(err)
		r.must(r.e.Member(1).Stop())
		want = append(want, below(t, ctx, r.e.Member(2).Client, "/", fmt.Sprintf("/part%d", i)))
	}
	out, err = exec.CommandContext(ctx, program, words...).CombinedOutput()
	t.Logf("%v\n%s", err, out)
	if err != nil || !strings.Contains(string(out), "left out: the ephemeral /live") {
		t.Fatal("not merged, or no ephemeral was left out")
	}
	first := sources[0].e.Member(1)
	sources[0].must(errors.Join(os.RemoveAll(first.DataDir), os.Rename(merged, first.DataDir)))
	for _, kind := range []cluster.Kind{"pinfold", "apache"} {
		alone, err := sources[0].e.Standalone(kind, first)
		sources[0].must(err)
		t.Cleanup(alone.Kill)
		sources[0].must(alone.Start())
		for i := range sources {
			prefix := fmt.Sprintf("/part%d", i)
			if got := below(t, ctx, alone.Client, prefix, ""); got != want[i] || !strings.Contains(got, prefix+"/seq/n-0000000000") {
				t.Errorf("%s, below %s:\n%swant\n%s", kind, prefix, got, want[i])
			}
		}
		alone.Kill()
	}
}

// write has a client write without a pause, until stop, and leave an ephemeral behind for as long as its session lives.
func write(t *testing.T, ctx context.Context, addr string) (stop func() error) {
	t.Helper()
	c, err := zkclient.Dial(ctx, addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // its ensemble may have gone
	open := zk.OpenACLUnsafe()
	for _, p := range []string{"/seq", "/data", "/data/x"} {
		if _, err := c.Create(ctx, p, nil, zk.Persistent, open); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Create(ctx, "/live", nil, zk.Ephemeral, open); err != nil {
		t.Fatal(err)
	}
	stopped, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stopped:
				done <- nil
				return
			default:
			}
			name, err := c.Create(ctx, "/seq/n-", []byte(fmt.Sprint(i)), zk.PersistentSequential, open)
			if i%3 != 0 || i > 100 {
				err = errors.Join(err, c.Delete(ctx, name, -1))
			}
			_, err2 := c.Set(ctx, "/data/x", []byte(fmt.Sprint(i)), -1)
			_, err3 := c.SetACL(ctx, "/data/x", open, -1)
			if err = errors.Join(err, err2, err3); err != nil {
				done <- err
				return
			}
		}
	}()
	return func() error { close(stopped); return <-done }
}

// below shows the znodes below one, with all that clients see of them, but ephemerals; prefix goes before their paths.
func below(t *testing.T, ctx context.Context, addr, from, prefix string) string {
	t.Helper()
	c, err := zkclient.Dial(ctx, addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Sync(ctx, "/"); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	var show func(path string)
	show = func(path string) {
		names, _, err := c.Children(ctx, path)
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(names)
		for _, name := range names {
			p := strings.TrimSuffix(path, "/") + "/" + name
			data, stat, err := c.Get(ctx, p)
			acl, _, err2 := c.GetACL(ctx, p)
			if err := errors.Join(err, err2); err != nil {
				t.Fatal(err)
			}
			if p != "/zookeeper" && stat.EphemeralOwner == 0 {
				fmt.Fprintf(&b, "%s%s %q %+v %v\n", prefix, p, data, stat, acl)
				show(p)
			}
		}
	}
	show(from)
	return b.String()
}
