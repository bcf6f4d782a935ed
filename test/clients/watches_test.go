package clients

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// words is an event as the scenarios write it.
func words(e zk.Event) string {
	name := map[zk.EventType]string{
		zk.EventNodeCreated: "created", zk.EventNodeDeleted: "deleted",
		zk.EventNodeDataChanged: "changed", zk.EventNodeChildrenChanged: "children",
	}[e.Type]
	if e.Type == zk.EventNone {
		return fmt.Sprint("state ", int(e.State))
	}
	return name + " " + e.Path
}

// again is what a persistent watch says after a reconnection.
var again = fmt.Sprint("state ", int(zk.StateSyncConnected))

// want demands that the next events of a watch are these.
func want(t *testing.T, e *Env, what string, w *client.Watch, events ...string) {
	t.Helper()
	ctx := e.Context()
	for i, event := range events {
		select {
		case got, ok := <-w.Events():
			if !ok || words(got) != event {
				t.Errorf("%s: event %d is %q (open: %v), want %q", what, i, words(got), ok, event)
			}
		case <-ctx.Done():
			t.Fatalf("%s: no event %d, want %q", what, i, event)
		}
	}
}

// silent demands that a watch has nothing to say. Events come before the answers to
// requests that were sent later, so nobody needs to wait for what does not come.
func silent(t *testing.T, e *Env, c *client.Client, what string, w *client.Watch) {
	t.Helper()
	must(t, settle(e, c))
	select {
	case got, ok := <-w.Events():
		if ok {
			t.Errorf("%s: an event too many, %q", what, words(got))
		}
	default:
	}
}

// settle returns when all that was committed has been told to c. Apache's leader answers the sync of a
// client of its own at once, and it sends commits to followers before it applies them: what a follower
// has acknowledged may not be there yet. A write goes through the pipeline behind all others, even one
// that fails.
func settle(e *Env, c *client.Client) error {
	ctx := e.Context()
	for {
		err := c.Sync(ctx, "/")
		if err == nil && e.Apache() {
			if err = c.Delete(ctx, "/no such znode", -1); errors.Is(err, zk.ErrNoNode) {
				err = nil
			}
		}
		if !errors.Is(err, zk.ErrConnectionLoss) || ctx.Err() != nil {
			return err
		}
	}
}

// watches are told once, twice or always, as their kind has it.
func watches(t *testing.T, e *Env) {
	ctx := e.Context()
	c, w := e.Client(), e.Client()
	do := steps(t, e, w)
	do("create /a", "create /a/b", "create /a/b/c")
	must(t, settle(e, c))
	_, _, data, err := c.GetW(ctx, "/a")
	must(t, err)
	_, _, kids, err := c.ChildrenW(ctx, "/a")
	must(t, err)
	_, _, there, err := c.ExistsW(ctx, "/a/b")
	must(t, err)
	_, _, coming, err := c.ExistsW(ctx, "/n")
	must(t, err)
	_, _, none, err := c.GetW(ctx, "/n")
	if none != nil || !errors.Is(err, zk.ErrNoNode) {
		t.Errorf("a watch of what is not there: %v, %v", none, err)
	}
	persistent, recursive := persistentWatches(t, e, c, "/a/b", "/a/b/c")

	do("create /a/x", "set /a", "set /a/b", "create /n", "create /a/b/y", "create /a/b/c/z", "set /a/b/c/z", "delete /a/b/c/z", "delete /a/b/y")
	want(t, e, "data", data, "changed /a")
	want(t, e, "children", kids, "children /a")
	want(t, e, "exists", there, "changed /a/b")
	want(t, e, "exists of nothing", coming, "created /n")
	if e.Has(persistents) {
		want(t, e, "persistent", persistent, "changed /a/b", "children /a/b", "children /a/b")
		want(t, e, "recursive", recursive, "created /a/b/c/z", "changed /a/b/c/z", "deleted /a/b/c/z")
	}
	do("set /a", "create /a/v", "set /n")
	for what, w := range map[string]*client.Watch{"data": data, "children": kids, "exists": there, "created": coming, "persistent": persistent, "recursive": recursive} {
		if w != nil {
			silent(t, e, c, what, w)
		}
	}

	do("delete /a/b/c", "delete /a/b", "create /a/b", "create /a/b/c")
	_, _, data, err = c.GetW(ctx, "/a")
	must(t, err)
	all := map[string]*client.Watch{"data": data}
	if e.Has(persistents) {
		want(t, e, "persistent", persistent, "children /a/b", "deleted /a/b", "created /a/b", "children /a/b")
		want(t, e, "recursive", recursive, "deleted /a/b/c", "created /a/b/c")
		all["persistent"], all["recursive"] = persistent, recursive
	}
	for _, w := range all {
		if err := w.Remove(ctx); !e.Lacks(unwatching, err) {
			must(t, err)
		}
	}
	do("set /a", "set /a/b", "set /a/b/c")
	for what, w := range all {
		silent(t, e, c, what+", removed", w)
		if _, open := <-w.Events(); open {
			t.Errorf("%s: the watch was removed and is open", what)
		}
	}
}

// persistentWatches leaves one of each kind, if the servers have any; otherwise both
// are nil.
func persistentWatches(t *testing.T, e *Env, c *client.Client, one, tree string) (persistent, recursive *client.Watch) {
	t.Helper()
	persistent, first := c.AddWatch(e.Context(), one, zk.AddWatchPersistent)
	recursive, second := c.AddWatch(e.Context(), tree, zk.AddWatchPersistentRecursive)
	if e.Lacks(persistents, first) && e.Lacks(persistents, second) {
		return nil, nil
	}
	must(t, errors.Join(first, second))
	return persistent, recursive
}

// steps carries out "create /a", "set /a" and "delete /a", though connections be
// lost: what is repeated is found done.
func steps(t *testing.T, e *Env, w *client.Client) func(list ...string) {
	ctx := e.Context()
	return func(list ...string) {
		t.Helper()
		for _, s := range list {
			op, path, _ := strings.Cut(s, " ")
			var err error
			for lost := false; ; lost = true {
				switch op {
				case "create":
					_, err = w.Create(ctx, path, []byte("0"), zk.Persistent, nil)
				case "set":
					_, err = w.Set(ctx, path, []byte("1"), -1)
				default:
					err = w.Delete(ctx, path, -1)
				}
				if lost && (errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrNoNode)) {
					err = nil
				}
				if !errors.Is(err, zk.ErrConnectionLoss) || ctx.Err() != nil {
					break
				}
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// watchesRestart changes half of what is watched while the watcher has no
// connection, and a server is killed and started meanwhile. Watches of what
// changed are told of it once; the others when the other half changes.
func watchesRestart(t *testing.T, e *Env) {
	const half = 20
	ctx := e.Context()
	c, w := e.Client(), e.Client()
	do := steps(t, e, w)
	do("create /p", "create /r")
	type watched struct {
		data, kids, there, coming, going *client.Watch
	}
	list := make([]watched, 2*half)
	for i := range list {
		do(fmt.Sprintf("create /d%d", i), fmt.Sprintf("create /k%d", i), fmt.Sprintf("create /e%d", i), fmt.Sprintf("create /g%d", i))
	}
	must(t, settle(e, c))
	for i := range list {
		var err [5]error
		x := &list[i]
		_, _, x.data, err[0] = c.GetW(ctx, fmt.Sprintf("/d%d", i))
		_, _, x.kids, err[1] = c.ChildrenW(ctx, fmt.Sprintf("/k%d", i))
		_, _, x.there, err[2] = c.ExistsW(ctx, fmt.Sprintf("/e%d", i))
		_, _, x.coming, err[3] = c.ExistsW(ctx, fmt.Sprintf("/c%d", i))
		_, _, x.going, err[4] = c.GetW(ctx, fmt.Sprintf("/g%d", i))
		must(t, errors.Join(err[:]...))
	}
	persistent, recursive := persistentWatches(t, e, c, "/p", "/r")

	change := func(i int) {
		do(fmt.Sprintf("set /d%d", i), fmt.Sprintf("create /k%d/x", i), fmt.Sprintf("set /e%d", i), fmt.Sprintf("create /c%d", i), fmt.Sprintf("delete /g%d", i))
	}
	expect := func(i int) {
		x := &list[i]
		want(t, e, "data", x.data, fmt.Sprintf("changed /d%d", i))
		want(t, e, "children", x.kids, fmt.Sprintf("children /k%d", i))
		want(t, e, "exists", x.there, fmt.Sprintf("changed /e%d", i))
		want(t, e, "exists of nothing", x.coming, fmt.Sprintf("created /c%d", i))
		want(t, e, "data", x.going, fmt.Sprintf("deleted /g%d", i))
	}
	e.Hold(c)
	for i := range half {
		change(i)
	}
	e.Release(c)
	e.Restart()
	for i := range half {
		expect(i)
	}
	for i := half; i < 2*half; i++ {
		for _, w := range []*client.Watch{list[i].data, list[i].kids, list[i].there, list[i].coming, list[i].going} {
			silent(t, e, c, "a watch of what did not change", w)
		}
	}
	do("set /p", "create /r/x", "set /r/x")
	for i := half; i < 2*half; i++ {
		change(i)
		expect(i)
	}
	if e.Has(persistents) {
		told(t, e, "persistent", persistent, "changed /p")
		told(t, e, "recursive", recursive, "created /r/x", "changed /r/x")
	}
}

// told demands that a persistent watch has heard of one reconnection or more, and
// then these events, each once.
func told(t *testing.T, e *Env, what string, w *client.Watch, events ...string) {
	t.Helper()
	ctx, all := e.Context(), []string{}
	for len(all) == 0 || all[len(all)-1] != events[len(events)-1] {
		select {
		case got := <-w.Events():
			all = append(all, words(got))
		case <-ctx.Done():
			t.Fatalf("%s: %q, want %q", what, all, events)
		}
	}
	rest := slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s == again })
	if all[0] != again || !slices.Equal(rest, events) {
		t.Errorf("%s: %q, want %q first, then %q", what, all, again, events)
	}
}
