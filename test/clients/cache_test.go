package clients

import (
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// caches hold a subtree that two others change, with each kind of watches, through
// cuts and the restart of a server. In the end they are the tree, and so are their
// changes.
func caches(t *testing.T, e *Env) {
	ctx := e.Context()
	writers := []*client.Client{e.Client(), e.Client()}
	steps(t, e, writers[0])("create /t", "create /t/0", "create /t/1")
	type held struct {
		c       *client.Client
		k       *client.Cache
		mu      sync.Mutex
		changes map[string]string
	}
	var all []*held
	for _, opts := range [][]client.CacheOption{nil, {client.CacheOneShot()}} {
		h := &held{c: e.Client(client.NewSession()), changes: map[string]string{}}
		must(t, settle(e, h.c))
		var err error
		h.k, err = client.NewCache(ctx, h.c, "/t", opts...)
		must(t, err)
		t.Cleanup(h.k.Close)
		watchBeside(t, e, h.c)
		go func() {
			for c := range h.k.Changes(ctx) {
				h.mu.Lock()
				if h.changes[c.Path] = string(c.Data); c.Type == zk.EventNodeDeleted {
					delete(h.changes, c.Path)
				}
				h.mu.Unlock()
			}
		}()
		all = append(all, h)
	}
	trees := [2]map[string]string{{}, {}}
	churn := func(rounds int) {
		var both sync.WaitGroup
		for n, w := range writers {
			both.Go(func() { change(t, e, w, fmt.Sprint("/t/", n), trees[n], rounds) })
		}
		both.Wait()
	}
	equal := func() {
		t.Helper()
		want := map[string]string{"/t": "0", "/t/0": "0", "/t/1": "0"}
		maps.Copy(want, trees[0])
		maps.Copy(want, trees[1])
		for n, h := range all {
			must(t, settle(e, h.c))
			must(t, h.k.Sync(ctx))
			got := map[string]string{}
			for path := range want {
				if data, _, ok := h.k.Get(path); ok {
					got[path] = string(data)
				}
			}
			if !maps.Equal(got, want) || h.k.Len() != len(want) {
				t.Errorf("cache %d has %d znodes of %d, %v; want %v", n, h.k.Len(), len(want), got, want)
			}
			same := func() bool {
				h.mu.Lock()
				defer h.mu.Unlock()
				return maps.Equal(h.changes, want)
			}
			for !same() && ctx.Err() == nil {
				<-time.After(10 * time.Millisecond)
			}
			if !same() {
				t.Errorf("the changes of cache %d give %v; want %v", n, h.changes, want)
			}
		}
	}
	for range 3 {
		churn(100)
		for _, h := range all {
			e.Cut(h.c)
		}
		churn(20)
		equal()
	}
	for _, h := range all {
		e.Hold(h.c)
	}
	churn(50)
	e.Restart()
	for _, h := range all {
		e.Release(h.c)
	}
	churn(50)
	equal()
}

// watchBeside leaves watches of all kinds where the cache has its own. Servers
// before 3.9 have one watch of a connection on a znode, and take another's mode for
// it (ZOOKEEPER-4466).
func watchBeside(t *testing.T, e *Env, c *client.Client) {
	ctx := e.Context()
	_, _, _, err := c.GetW(ctx, "/t")
	must(t, err)
	_, _, _, err = c.ChildrenW(ctx, "/t")
	must(t, err)
	_, _, _, err = c.ExistsW(ctx, "/t")
	must(t, err)
	for _, mode := range []zk.AddWatchMode{zk.AddWatchPersistent, zk.AddWatchPersistentRecursive} {
		w, err := c.AddWatch(ctx, "/t", mode)
		if e.Lacks(persistents, err) {
			continue
		}
		must(t, err)
		must(t, w.Remove(ctx))
	}
}

// change changes what is below base, which nobody else does, and keeps it in tree.
func change(t *testing.T, e *Env, w *client.Client, base string, tree map[string]string, rounds int) {
	do := steps(t, e, w)
	for i := range rounds {
		path := fmt.Sprintf("%s/%d", base, i%7)
		child := fmt.Sprintf("%s/%d", path, i%3)
		_, there := tree[path]
		_, below := tree[child]
		switch {
		case !there:
			do("create "+path, "create "+child)
			tree[path], tree[child] = "0", "0"
		case !below:
			do("create " + child)
			tree[child] = "0"
		case i%5 == 0:
			do("set " + path)
			tree[path] = "1"
		case i%5 == 1:
			do("set " + child)
			tree[child] = "1"
		default:
			do("delete " + child)
			delete(tree, child)
		}
	}
}
