package clients

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/recipe"
	"github.com/pinfold-zk/pinfold/zk"
)

// queueing is what Queue and PriorityQueue have in common.
type queueing struct {
	put   func(ctx context.Context, item string) error
	take  func(ctx context.Context) ([]byte, error)
	lease func(ctx context.Context) (*recipe.Lease, error)
}

func plainQueue(c *client.Client, path string) queueing {
	q := recipe.NewQueue(c, path, recipe.QueueOptions{})
	return queueing{func(ctx context.Context, item string) error { return q.Put(ctx, []byte(item)) }, q.Take, q.Lease}
}

func boundedQueue(c *client.Client, path string) queueing {
	q := recipe.NewQueue(c, path, recipe.QueueOptions{MaxSize: 5})
	return queueing{func(ctx context.Context, item string) error { return q.Put(ctx, []byte(item)) }, q.Take, q.Lease}
}

func priorityQueue(c *client.Client, path string) queueing {
	q := recipe.NewPriorityQueue(c, path, recipe.QueueOptions{})
	return queueing{func(ctx context.Context, item string) error { return q.Put(ctx, len(item), []byte(item)) }, q.Take, q.Lease}
}

// queues has producers put items, and consumers lease and take them, while a
// server is restarted, connections are cut, and one who holds a lease dies. An
// item that was taken is taken once; one that was leased is worked on in the end.
func queues(make func(c *client.Client, path string) queueing) func(t *testing.T, e *Env) {
	return func(t *testing.T, e *Env) {
		const producers, items = 2, 20
		ctx := e.Context()
		dead, late := e.Client(mortal), e.Client()
		must(t, make(late, "/leased").put(ctx, "first"))
		l, err := make(dead, "/leased").lease(ctx)
		if err != nil || string(l.Data()) != "first" {
			t.Fatalf("lease: %v, %v", l, err)
		}
		e.Hold(dead)
		want := map[string]int{}
		for p := range producers {
			for i := range items {
				want[fmt.Sprintf("%d-%d", p, i)]++
			}
		}
		for _, path := range []string{"/leased", "/taken"} {
			for p := range producers {
				c := e.Client()
				go func() {
					for i := range items {
						if i == items/3 {
							e.Cut(c)
						}
						if err := make(c, path).put(ctx, fmt.Sprintf("%d-%d", p, i)); err != nil {
							t.Errorf("put: %v", err)
						}
					}
				}()
			}
		}
		var mu sync.Mutex
		got := map[string]map[string]int{"/leased": {}, "/taken": {}}
		all := producers * items
		gone := map[string]chan struct{}{"/leased": newSignal(), "/taken": newSignal()}
		enough, cancel := context.WithCancel(ctx)
		defer cancel()
		count := func(path, item string) {
			mu.Lock()
			defer mu.Unlock()
			if item == "first" {
				return
			}
			if got[path][item]++; got[path][item] == 1 && len(got[path]) == all/2 || len(got[path]) == all {
				select {
				case gone[path] <- struct{}{}:
				default:
				}
			}
		}
		var consumers sync.WaitGroup
		for range 2 {
			a, b := e.Client(), e.Client()
			consumers.Go(func() { leaseAll(t, enough, make(a, "/leased"), func(i string) { count("/leased", i) }) })
			consumers.Go(func() { takeAll(t, enough, make(b, "/taken"), func(i string) { count("/taken", i) }) })
		}
		reach := func(n int) {
			t.Helper()
			for path := range got {
				for {
					mu.Lock()
					now := len(got[path])
					mu.Unlock()
					if now >= n {
						break
					}
					select {
					case <-gone[path]:
					case <-ctx.Done():
						t.Fatalf("%d of %d items come out of %s", now, all, path)
					}
				}
			}
		}
		reach(all / 2)
		e.Restart()
		reach(all)
		again, err := make(late, "/leased").lease(ctx)
		for err == nil && string(again.Data()) != "first" {
			again, err = make(late, "/leased").lease(ctx)
		}
		must(t, err)
		must(t, again.Ack(ctx))
		cancel()
		consumers.Wait()
		for path, items := range got {
			keys, wanted := slices.Sorted(maps.Keys(items)), slices.Sorted(maps.Keys(want))
			if !slices.Equal(keys, wanted) {
				t.Errorf("out of %s came %v, want %v", path, keys, wanted)
			}
		}
		if !maps.Equal(got["/taken"], want) {
			t.Errorf("taken %v: not each once", got["/taken"])
		}
	}
}

func newSignal() chan struct{} { return make(chan struct{}, 1) }

// takeAll takes items until ctx ends.
func takeAll(t *testing.T, ctx context.Context, q queueing, count func(string)) {
	for {
		item, err := q.take(ctx)
		if err != nil {
			if ctx.Err() == nil {
				t.Errorf("take: %v", err)
			}
			return
		}
		count(string(item))
	}
}

// leaseAll leases items and acknowledges them until ctx ends. What a dead one
// held is left to another.
func leaseAll(t *testing.T, ctx context.Context, q queueing, count func(string)) {
	for {
		l, err := q.lease(ctx)
		if err != nil {
			if ctx.Err() == nil {
				t.Errorf("lease: %v", err)
			}
			return
		}
		item := string(l.Data())
		if item == "first" {
			err = l.Release(ctx)
		} else {
			err = l.Ack(ctx)
		}
		if err != nil && ctx.Err() == nil {
			t.Errorf("end of the lease of %s: %v", item, err)
			return
		}
		count(item)
	}
}

// counters add up, though connections be cut, a server restarted, and one who adds
// die in the middle.
func counters(t *testing.T, e *Env) {
	const workers, each = 4, 20
	ctx := e.Context()
	dead := e.Client(mortal)
	n, err := recipe.NewCounter(dead, "/n", recipe.CounterOptions{}).Add(ctx, 1000)
	if err != nil || n.N != 1000 {
		t.Fatalf("%+v, %v", n, err)
	}
	e.Hold(dead)
	half := make(chan struct{}, workers)
	var all sync.WaitGroup
	for range workers {
		c := e.Client()
		all.Go(func() {
			counter := recipe.NewCounter(c, "/n", recipe.CounterOptions{})
			for i := range each {
				if i == each/2 {
					half <- struct{}{}
				}
				if i%7 == 3 {
					e.Cut(c)
				}
				if _, err := counter.Add(ctx, 1); err != nil {
					t.Errorf("add: %v", err)
				}
			}
		})
	}
	for range workers {
		select {
		case <-half:
		case <-ctx.Done():
			t.Error("the workers do not get on")
		}
	}
	e.Restart()
	all.Wait()
	c := e.Client()
	if n, err = recipe.NewCounter(c, "/n", recipe.CounterOptions{}).Get(ctx); err != nil || n.N != 1000+workers*each {
		t.Errorf("%+v, want %d, %v", n, 1000+workers*each, err)
	}
}

// configurations reach all who watch, the last one at any rate, and never an older
// one after a newer.
func configurations(t *testing.T, e *Env) {
	const watchers, values = 3, 30
	ctx := e.Context()
	dead, writer := e.Client(mortal), e.Client()
	_, err := recipe.NewConfig(dead, "/c", recipe.ConfigOptions{}).Set(ctx, []byte("0"))
	must(t, err)
	e.Hold(dead)
	last := fmt.Sprint(values)
	done := make(chan error, watchers)
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	var clients []*client.Client
	for range watchers {
		c := e.Client()
		clients = append(clients, c)
		go func() {
			var seen zk.Zxid
			err := recipe.NewConfig(c, "/c", recipe.ConfigOptions{}).Watch(watching, func(v recipe.Value) {
				if v.Stat.Mzxid < seen {
					t.Errorf("%v is told after %v", v.Stat.Mzxid, seen)
				}
				if seen = v.Stat.Mzxid; string(v.Data) == last {
					done <- nil
				}
			})
			if watching.Err() == nil {
				done <- err
			}
		}()
	}
	g := recipe.NewConfig(writer, "/c", recipe.ConfigOptions{})
	for i := 1; i <= values; i++ {
		if i == values/3 {
			e.Cut(writer)
			e.Cut(clients[0])
		}
		if i == values/2 {
			e.Restart()
		}
		_, err := g.Set(ctx, fmt.Append(nil, i))
		must(t, err)
		if v, err := g.Get(ctx); err != nil || string(v.Data) != fmt.Sprint(i) {
			t.Errorf("after set %d: %q, %v", i, v.Data, err)
		}
	}
	for range watchers {
		soon(t, e, "a watch", done)
	}
}

// readyConfigurations are read whole or not at all: each has one value, many times.
// A writer dies in the middle, and a server is restarted.
func readyConfigurations(t *testing.T, e *Env) {
	const znodes = 60
	ctx := e.Context()
	writer, reader := e.Client(), e.Client()
	values := func(i int) map[string][]byte {
		m := map[string][]byte{}
		for z := range znodes {
			m[fmt.Sprint("k", z)] = fmt.Append(nil, i)
		}
		return m
	}
	whole := func(what string, v recipe.ReadyValues) string {
		first := string(v.Values["k0"])
		for k, data := range v.Values {
			if string(data) != first || len(v.Values) != znodes {
				t.Errorf("%s: %d values, %s is %q and k0 %q", what, len(v.Values), k, data, first)
			}
		}
		return first
	}
	done := make(chan error, 1)
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		err := recipe.NewReadyConfig(reader, "/c", recipe.ReadyOptions{}).Watch(watching, func(v recipe.ReadyValues) {
			if whole("watch", v) == "9" {
				done <- nil
			}
		})
		if watching.Err() == nil {
			done <- err
		}
	}()
	w := recipe.NewReadyConfig(writer, "/c", recipe.ReadyOptions{})
	set := func(i int) {
		t.Helper()
		err := w.Set(ctx, values(i), 0)
		for errors.Is(err, zk.ErrConnectionLoss) {
			err = w.Set(ctx, values(i), 0)
		}
		must(t, err)
	}
	for i := range 5 {
		set(i)
	}
	dead := e.Client(mortal)
	broken := make(chan error, 1)
	go func() {
		dying, end := context.WithCancel(ctx)
		defer end()
		context.AfterFunc(watching, end)
		broken <- recipe.NewReadyConfig(dead, "/c", recipe.ReadyOptions{}).Set(dying, values(99), 0)
	}()
	e.Hold(dead)
	e.Cut(reader)
	e.Restart()
	set(8)
	v, err := w.Get(ctx)
	must(t, err)
	if got := whole("get", v); got != "8" {
		t.Errorf("set is 8, read is %s", got)
	}
	set(9)
	soon(t, e, "the watch", done)
	cancel()
	<-broken // with whatever it has done
}

// names of a dead one are free again, and others' stay through a restart.
func names(t *testing.T, e *Env) {
	ctx := e.Context()
	dead, c := e.Client(mortal), e.Client()
	mine := recipe.NewNames(c, "/n", recipe.NamesOptions{})
	must(t, mine.Bind(ctx, "db/primary", []byte("a:1")))
	must(t, recipe.NewNames(dead, "/n", recipe.NamesOptions{Ephemeral: true}).Bind(ctx, "db/spare", []byte("b:1")))
	if err := mine.Bind(ctx, "db/spare", []byte("c:1")); !errors.Is(err, zk.ErrNodeExists) {
		t.Errorf("a name that is taken: %v", err)
	}
	free := make(chan error, 1)
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		err := mine.Watch(watching, "db/spare", func(v recipe.Value) {
			if !v.Exists {
				free <- nil
			}
		})
		if watching.Err() == nil {
			free <- err
		}
	}()
	e.Hold(dead)
	e.Cut(c)
	soon(t, e, "the dead one's name", free)
	e.Restart()
	must(t, mine.Bind(ctx, "db/spare", []byte("c:1")))
	must(t, mine.Rebind(ctx, "db/primary", []byte("a:2")))
	for name, want := range map[string]string{"db/primary": "a:2", "db/spare": "c:1"} {
		if v, err := mine.Resolve(ctx, name); err != nil || string(v.Data) != want {
			t.Errorf("%s is %q, want %q, %v", name, v.Data, want, err)
		}
	}
	list, err := mine.List(ctx, "db")
	if slices.Sort(list); err != nil || fmt.Sprint(list) != "[primary spare]" {
		t.Errorf("names %v, %v", list, err)
	}
	must(t, mine.Unbind(ctx, "db/spare"))
}
