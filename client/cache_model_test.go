package client_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/test/inproc"
	"github.com/pinfold-zk/pinfold/zk"
)

// modelRun is a cache, one who changes what it holds, and what is known of that.
type modelRun struct {
	t       *testing.T
	s       *inproc.Server
	w       *client.Client
	c       *client.Client
	k       *client.Cache
	rng     *rand.Rand
	tree    map[string]string
	history map[string][]version // of each path, in order
	replays [2]replay            // by a reader who is quick, and one who is slow
	steps   []string             // what was done, for the message of a failure
}

// version is what a path held from a transaction on; no data is no znode.
type version struct {
	zxid zk.Zxid
	data string
}

// replay is a tree that is made of the changes of a cache.
type replay struct {
	mu   sync.Mutex
	tree map[string]string
	zxid zk.Zxid
	bad  []string
}

// carryOut demands that each change fits.
func (r *replay) carryOut(c client.Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, there := r.tree[c.Path]
	_, parent := r.tree[c.Path[:strings.LastIndexByte(c.Path, '/')]]
	fits := there
	switch c.Type {
	case zk.EventNodeCreated:
		fits = !there && (parent || c.Path == "/m")
		r.tree[c.Path] = string(c.Data)
	case zk.EventNodeDataChanged:
		fits = fits && r.tree[c.Path] != string(c.Data) // each set writes something new
		r.tree[c.Path] = string(c.Data)
	case zk.EventNodeDeleted:
		delete(r.tree, c.Path)
		for p := range r.tree {
			fits = fits && !strings.HasPrefix(p, c.Path+"/")
		}
	}
	if !fits || c.Zxid < r.zxid {
		r.bad = append(r.bad, fmt.Sprintf("%v %s %q at %v after %v", c.Type, c.Path, c.Data, c.Zxid, r.zxid))
	}
	r.zxid = c.Zxid
}

// step is a random change, or something that happens to connections.
func (m *modelRun) step(i int) {
	path := "/m"
	for range m.rng.IntN(4) {
		path += "/" + string(rune('a'+m.rng.IntN(3)))
	}
	_, there := m.tree[path]
	ctx := context.Background()
	data := fmt.Sprint("v", i)
	var err error
	n := m.rng.IntN(100)
	m.steps = append(m.steps, fmt.Sprintf("%d: %d %s, there: %v", i, n, path, there))
	switch {
	case n < 2:
		m.s.Cut()
	case n < 3:
		m.s.Restart()
	case n < 4:
		if err = m.k.Sync(ctx); err == nil { // there is a session
			m.s.Expire(m.c.SessionID())
		}
	case n < 8:
		synctest.Wait()
	case n < 40 && there:
		var stat zk.Stat
		if stat, err = m.w.Set(ctx, path, []byte(data), -1); err == nil {
			m.know(path, stat.Mzxid, data)
		}
	case n < 50 && !there:
		m.family(ctx, path, data)
	case n < 85 && !there:
		var stat zk.Stat
		if _, stat, err = m.w.Create2(ctx, path, []byte(data), zk.Persistent, nil); err == nil {
			m.know(path, stat.Czxid, data)
		}
	case there:
		if err = m.w.Delete(ctx, path, -1); err == nil {
			m.know(path, m.w.LastZxid(), "")
		}
	}
	switch {
	case errors.Is(err, zk.ErrConnectionLoss):
		m.learn(ctx, path)
	case err != nil && !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrNotEmpty):
		m.t.Fatal(err)
	}
}

// learn reads what became of a change whose answer was lost. If it was carried out, that was in
// this transaction or in one before it: look allows both until then.
func (m *modelRun) learn(ctx context.Context, path string) {
	data, _, err := m.w.Get(ctx, path)
	for errors.Is(err, zk.ErrConnectionLoss) {
		<-time.After(time.Millisecond)
		data, _, err = m.w.Get(ctx, path)
	}
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		m.t.Fatal(err)
	}
	if m.tree[path] != string(data) {
		m.know(path, m.w.LastZxid(), string(data))
	}
}

// family creates a znode and a child of it in one transaction.
func (m *modelRun) family(ctx context.Context, path, data string) {
	txn := m.w.Txn()
	for _, p := range []string{path, path + "/a"} {
		txn.Create(p, []byte(data), zk.Persistent, nil)
	}
	switch err := txn.Commit(ctx); {
	case errors.Is(err, zk.ErrNoNode):
	case errors.Is(err, zk.ErrConnectionLoss):
		m.learn(ctx, path)
		m.learn(ctx, path+"/a")
	case err != nil:
		m.t.Fatal(err)
	default:
		for _, p := range []string{path, path + "/a"} {
			m.know(p, m.w.LastZxid(), data)
		}
	}
}

func (m *modelRun) know(path string, z zk.Zxid, data string) {
	m.history[path] = append(m.history[path], version{z, data})
	if data == "" {
		delete(m.tree, path)
	} else {
		m.tree[path] = data
	}
}

// look demands what Cache promises, of one path, at any time.
func (m *modelRun) look(path string) {
	z := m.k.Zxid()
	data, _, _ := m.k.Get(path)
	old := version{}
	for _, v := range m.history[path] {
		if v.zxid <= z {
			old = v
		}
	}
	allowed := old.data == string(data)
	for _, v := range m.history[path] {
		allowed = allowed || v.zxid > z && v.data == string(data)
	}
	if !allowed {
		m.t.Errorf("at %v %s is %q; its history: %v", z, path, data, m.history[path])
		m.explain(path)
	}
}

// explain prints what the cache holds on the way to a path, now and when it has nothing left to
// do: some failures of look come once in thousands of runs.
func (m *modelRun) explain(path string) {
	m.t.Log("the last steps:\n", strings.Join(m.steps[max(0, len(m.steps)-20):], "\n"))
	for _, when := range []string{"now", "at rest"} {
		m.t.Logf("%s: cache at %v, client %v at %v, writer at %v", when, m.k.Zxid(), m.c.State(), m.c.LastZxid(), m.w.LastZxid())
		for end := 1; end < len(path); end++ {
			if end+1 < len(path) && path[end+1] != '/' {
				continue
			}
			data, stat, ok := m.k.Get(path[:end+1])
			names, _ := m.k.Children(path[:end+1])
			m.t.Logf("%s: held: %v, %q, children %v, created %v, set %v, children changed %v; history: %v",
				path[:end+1], ok, data, names, stat.Czxid, stat.Mzxid, stat.Pzxid, m.history[path[:end+1]])
		}
		synctest.Wait()
	}
}

// equal demands that the cache, in sync, is the tree, and so are the changes.
func (m *modelRun) equal() {
	if err := m.k.Sync(context.Background()); err != nil {
		m.t.Fatal(err)
	}
	if z := m.k.Zxid(); z < m.w.LastZxid() {
		m.t.Errorf("in sync at %v; %v was before", z, m.w.LastZxid())
	}
	got := map[string]string{}
	for p := range m.tree {
		if data, _, ok := m.k.Get(p); ok {
			got[p] = string(data)
		}
	}
	if !maps.Equal(got, m.tree) || m.k.Len() != len(m.tree) {
		m.t.Errorf("the cache has %d znodes, %v;\nwant %v", m.k.Len(), got, m.tree)
	}
	<-time.After(time.Minute) // the readers come to the end
	for i := range m.replays {
		r := &m.replays[i]
		r.mu.Lock()
		if !maps.Equal(r.tree, m.tree) {
			m.t.Errorf("the changes give %v;\nwant %v", r.tree, m.tree)
		}
		for _, b := range r.bad {
			m.t.Error("a change does not fit:", b)
		}
		r.mu.Unlock()
	}
}

// TestCacheModel changes a subtree at random, cuts connections, restarts the
// server and ends the session; the cache must keep its promises all the time and
// be the tree in the end, and its changes must replay to that.
func TestCacheModel(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			cacheKinds(t, func(t *testing.T, s *inproc.Server, c *client.Client, opts ...client.CacheOption) {
				m := &modelRun{
					t: t, s: s, c: c, w: s.Client(t), rng: rand.New(rand.NewPCG(seed, 0)),
					tree: map[string]string{}, history: map[string][]version{},
				}
				m.k = newCache(t, c, "/m", append(opts, client.CacheWindow(1+m.rng.IntN(5)))...)
				ctx, cancel := context.WithCancel(context.Background())
				var readers sync.WaitGroup
				for i := range m.replays {
					m.replays[i].tree = map[string]string{}
					readers.Go(func() {
						for change := range m.k.Changes(ctx) {
							m.replays[i].carryOut(change)
							<-time.After(time.Duration(i) * time.Millisecond)
						}
					})
				}
				for i := range 600 {
					m.step(i)
					for p := range m.history {
						m.look(p)
					}
					if i%100 == 99 {
						m.equal()
					}
					if t.Failed() {
						break
					}
				}
				cancel()
				readers.Wait()
			}, client.NewSession(), client.WatchQueue(2+int(seed)))
		})
	}
}
