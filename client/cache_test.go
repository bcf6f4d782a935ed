package client_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/inproc"
	"github.com/pinfold-zk/pinfold/zk"
)

// withoutAddWatch is a server from before 3.6: to it addWatch is an operation
// that it does not know.
func withoutAddWatch(s *inproc.Server) client.Option {
	return client.Dialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := s.Dial(ctx, network, addr)
		return &oldServer{Conn: nc}, err
	})
}

type oldServer struct {
	net.Conn
	greeted bool
}

// Write passes frames, of which the client writes none in parts.
func (o *oldServer) Write(b []byte) (int, error) {
	b = slices.Clone(b)
	for rest := b; len(rest) > 0; {
		n := 4 + int(binary.BigEndian.Uint32(rest))
		if op := rest[8:12]; o.greeted && wire.OpCode(binary.BigEndian.Uint32(op)) == wire.OpAddWatch {
			binary.BigEndian.PutUint32(op, 12345)
		}
		o.greeted, rest = true, rest[n:]
	}
	return o.Conn.Write(b)
}

// cacheKinds runs a test with recursive watches, with one-shot watches that were
// asked for, and on a server that does not know others.
func cacheKinds(t *testing.T, f func(t *testing.T, s *inproc.Server, c *client.Client, opts ...client.CacheOption), opts ...client.Option) {
	for _, kind := range []string{"recursive", "one-shot", "old server"} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := inproc.Start(t)
				switch kind {
				case "recursive":
					f(t, s, s.Client(t, opts...))
				case "one-shot":
					f(t, s, s.Client(t, opts...), client.CacheOneShot())
				default:
					f(t, s, s.Client(t, append(opts, withoutAddWatch(s))...))
				}
			})
		})
	}
}

func newCache(t *testing.T, c *client.Client, path string, opts ...client.CacheOption) *client.Cache {
	t.Helper()
	k, err := client.NewCache(t.Context(), c, path, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
}

// write carries out "create /a x", "set /a y" or "delete /a", by words.
func write(t *testing.T, c *client.Client, steps ...string) {
	t.Helper()
	for _, s := range steps {
		words := append(strings.Fields(s), "")
		var err error
		switch words[0] {
		case "create":
			_, err = c.Create(t.Context(), words[1], []byte(words[2]), zk.Persistent, nil)
		case "set":
			_, err = c.Set(t.Context(), words[1], []byte(words[2]), -1)
		case "delete":
			err = c.Delete(t.Context(), words[1], -1)
		default:
			t.Fatalf("%q is no step", s)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// contents is all that a cache holds, as "/a=x /a/b=y".
func contents(t *testing.T, k *client.Cache) string {
	t.Helper()
	var list []string
	var walk func(path string)
	walk = func(path string) {
		data, _, ok := k.Get(path)
		if !ok {
			return
		}
		list = append(list, path+"="+string(data))
		names, ok := k.Children(path)
		if !ok {
			t.Errorf("%s is there and has no children's list", path)
		}
		for _, n := range names {
			walk(strings.TrimSuffix(path, "/") + "/" + n)
		}
	}
	walk(k.Path())
	if len(list) != k.Len() {
		t.Errorf("%d of %d znodes can be reached", len(list), k.Len())
	}
	return strings.Join(list, " ")
}

// holds demands that a cache, which is in sync, holds no more and no less.
func holds(t *testing.T, k *client.Cache, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	if err := k.Sync(ctx); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, k); got != want {
		t.Errorf("the cache holds\n%s, want\n%s", got, want)
	}
}

// follow collects the changes of a cache, as "+/a=x", "*/a=y" and "-/a", until the
// test ends. taken returns those since it was called last.
func follow(t *testing.T, k *client.Cache) (taken func() string) {
	var mu sync.Mutex
	var list []string
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for c := range k.Changes(ctx) {
			sign := map[zk.EventType]string{zk.EventNodeCreated: "+", zk.EventNodeDataChanged: "*", zk.EventNodeDeleted: "-"}[c.Type]
			mu.Lock()
			if list = append(list, sign+c.Path); sign != "-" {
				list[len(list)-1] += "=" + string(c.Data)
			}
			mu.Unlock()
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return func() string {
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		s := strings.Join(list, " ")
		list = nil
		return s
	}
}

// ends demands that a cache ends, with an error.
func ends(t *testing.T, k *client.Cache, want error) {
	t.Helper()
	select {
	case <-k.Done():
	case <-time.After(time.Hour):
		t.Fatal("the cache does not end")
	}
	if _, _, ok := k.Get(k.Path()); ok || !errors.Is(k.Err(), want) {
		t.Errorf("it ends with %v, want %v, and has its top: %v", k.Err(), want, ok)
	}
}

func expect(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func TestCacheFollows(t *testing.T) {
	cacheKinds(t, func(t *testing.T, s *inproc.Server, c *client.Client, opts ...client.CacheOption) {
		w := s.Client(t)
		write(t, w, "create /a 0", "create /a/b 1", "create /a/b/c 2", "create /ab no")
		k := newCache(t, c, "/a", opts...)
		expect(t, "loaded", contents(t, k), "/a=0 /a/b=1 /a/b/c=2")
		changes := follow(t, k)
		expect(t, "at first", changes(), "+/a=0 +/a/b=1 +/a/b/c=2")

		steps := []struct{ step, change, after string }{
			{"set /a 3", "*/a=3", "/a=3 /a/b=1 /a/b/c=2"},
			{"create /a/d 4", "+/a/d=4", "/a=3 /a/b=1 /a/b/c=2 /a/d=4"},
			{"set /a/b/c 5", "*/a/b/c=5", "/a=3 /a/b=1 /a/b/c=5 /a/d=4"},
			{"set /a/b/c 5", "*/a/b/c=5", "/a=3 /a/b=1 /a/b/c=5 /a/d=4"},
			{"delete /a/b/c", "-/a/b/c", "/a=3 /a/b=1 /a/d=4"},
			{"set /ab 6", "", "/a=3 /a/b=1 /a/d=4"},
			{"create /a/b/c 7", "+/a/b/c=7", "/a=3 /a/b=1 /a/b/c=7 /a/d=4"},
		}
		for _, x := range steps {
			write(t, w, x.step)
			holds(t, k, x.after)
			expect(t, x.step, changes(), x.change)
			if _, stat, err := w.Exists(t.Context(), "/a"); err != nil || !stat || k.Zxid() < w.LastZxid() {
				t.Errorf("after %s the cache is at %v, the tree at %v (%v)", x.step, k.Zxid(), w.LastZxid(), err)
			}
		}
		_, stat, _ := k.Get("/a/b/c")
		if want, _, err := w.Exists(t.Context(), "/a/b/c"); stat != want || err != nil {
			t.Errorf("Stat %+v, want %+v, %v", stat, want, err)
		}
		for _, path := range []string{"/ab", "/", "", "/a/", "/a/x"} {
			_, _, held := k.Get(path)
			if _, listed := k.Children(path); held || listed {
				t.Errorf("%q is there", path)
			}
		}
		k.Close()
		if _, _, ok := k.Get("/a"); ok || k.Len() != 0 || k.Bytes() != 0 || k.Err() != nil {
			t.Errorf("closed, it has /a: %v, %d znodes, %d bytes, error %v", ok, k.Len(), k.Bytes(), k.Err())
		}
		if err := k.Sync(t.Context()); !errors.Is(err, client.ErrClosed) {
			t.Errorf("sync of a closed cache: %v", err)
		}
	})
}

// The top of a cache may come and go.
func TestCacheTopMissing(t *testing.T) {
	cacheKinds(t, func(t *testing.T, s *inproc.Server, c *client.Client, opts ...client.CacheOption) {
		w := s.Client(t)
		k := newCache(t, c, "/a/b", opts...)
		changes := follow(t, k)
		holds(t, k, "")
		for range 3 {
			write(t, w, "create /a", "create /a/b 1", "create /a/b/c 2")
			holds(t, k, "/a/b=1 /a/b/c=2")
			expect(t, "created", changes(), "+/a/b=1 +/a/b/c=2")
			write(t, w, "delete /a/b/c", "delete /a/b", "delete /a")
			holds(t, k, "")
			expect(t, "deleted", changes(), "-/a/b/c -/a/b")
			s.Cut()
			synctest.Wait() // or what is written next is lost with the connection
			holds(t, k, "")
		}
	})
}

func TestCacheOfTheRoot(t *testing.T) {
	cacheKinds(t, func(t *testing.T, s *inproc.Server, c *client.Client, opts ...client.CacheOption) {
		k := newCache(t, c, "/", append(opts, client.CacheFilter(func(p string) bool { return p != "/zookeeper" }))...)
		holds(t, k, "/=")
		write(t, c, "create /a 1", "create /a/b 2", "set / 3")
		holds(t, k, "/=3 /a=1 /a/b=2")
	})
}

func TestCacheBelowChroot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inproc.Start(t)
		w := s.Client(t)
		write(t, w, "create /r", "create /r/a 1", "create /rx", "create /r/a/b 2")
		c := s.ClientAt(t, "/r")
		all, part := newCache(t, c, "/"), newCache(t, c, "/a", client.CacheOneShot())
		for range 2 {
			holds(t, all, "/= /a=1 /a/b=2")
			holds(t, part, "/a=1 /a/b=2")
			s.Cut()
			synctest.Wait()
		}
		write(t, w, "set /r/a/b 3", "create /r/c", "set /rx 4")
		holds(t, all, "/= /a=1 /a/b=3 /c=")
		holds(t, part, "/a=1 /a/b=3")
	})
}

// What happened while there was no connection is seen, and nothing else.
func TestCacheReconnects(t *testing.T) {
	cacheKinds(t, func(t *testing.T, s *inproc.Server, c *client.Client, opts ...client.CacheOption) {
		w := s.Client(t)
		write(t, w, "create /a 0", "create /a/b 1", "create /a/b/c 2", "create /a/d 3", "create /a/e 4", "create /a/e/f 5")
		k := newCache(t, c, "/a", opts...)
		changes := follow(t, k)
		changes()
		for range 3 {
			s.Cut()
			holds(t, k, "/a=0 /a/b=1 /a/b/c=2 /a/d=3 /a/e=4 /a/e/f=5")
			expect(t, "after a cut", changes(), "")
		}
		s.Restart()
		holds(t, k, "/a=0 /a/b=1 /a/b/c=2 /a/d=3 /a/e=4 /a/e/f=5")
		expect(t, "after a restart", changes(), "")

		// w comes first, as it is waited for, and c has nothing to do but to
		// connect: its pauses are longer than w takes.
		s.Stop()
		synctest.Wait()
		s.Start()
		write(t, w, "set /a/b/c 6", "delete /a/d", "create /a/b/g 7", "delete /a/e/f", "delete /a/e", "create /a/e 8", "create /a/e/f 9")
		holds(t, k, "/a=0 /a/b=1 /a/b/c=6 /a/b/g=7 /a/e=8 /a/e/f=9")
		got := strings.Fields(changes())
		slices.Sort(got)
		expect(t, "after changes without a connection", strings.Join(got, " "),
			"*/a/b/c=6 +/a/b/g=7 +/a/e/f=9 +/a/e=8 -/a/d -/a/e -/a/e/f")
	})
}

func TestCacheSessionEnds(t *testing.T) {
	cacheKinds(t, func(t *testing.T, s *inproc.Server, c *client.Client, opts ...client.CacheOption) {
		write(t, c, "create /a 0")
		k := newCache(t, c, "/a", opts...)
		s.Expire(c.SessionID())
		ends(t, k, zk.ErrSessionExpired)
		if _, err := client.NewCache(t.Context(), c, "/a", opts...); !errors.Is(err, zk.ErrSessionExpired) {
			t.Errorf("a cache without a session: %v", err)
		}
		for range k.Changes(t.Context()) {
			t.Error("a cache that has ended has changes")
		}
	})
}

func TestCacheNewSession(t *testing.T) {
	cacheKinds(t, func(t *testing.T, s *inproc.Server, c *client.Client, opts ...client.CacheOption) {
		w := s.Client(t)
		write(t, w, "create /a 0", "create /a/b 1", "create /a/c 2")
		k := newCache(t, c, "/a", opts...)
		changes := follow(t, k)
		changes()
		for i := range 3 {
			z := k.Zxid()
			s.Expire(c.SessionID())
			write(t, w, fmt.Sprint("set /a/b x", i), "delete /a/c", "create /a/c 2")
			holds(t, k, fmt.Sprint("/a=0 /a/b=x", i, " /a/c=2"))
			got := strings.Fields(changes())
			slices.Sort(got)
			expect(t, "in a new session", strings.Join(got, " "), fmt.Sprint("*/a/b=x", i, " +/a/c=2 -/a/c"))
			if k.Zxid() <= z {
				t.Errorf("zxid %v, before it was %v", k.Zxid(), z)
			}
			write(t, w, fmt.Sprint("set /a/b y", i))
			holds(t, k, fmt.Sprint("/a=0 /a/b=y", i, " /a/c=2"))
			expect(t, "watched in a new session", changes(), fmt.Sprint("*/a/b=y", i))
		}
	}, client.NewSession())
}

func TestCacheClientCloses(t *testing.T) {
	cacheKinds(t, func(t *testing.T, s *inproc.Server, c *client.Client, opts ...client.CacheOption) {
		write(t, c, "create /a 0")
		k := newCache(t, c, "/a", opts...)
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		ends(t, k, client.ErrClosed)
	})
}

func TestCacheBounds(t *testing.T) {
	cacheKinds(t, func(t *testing.T, s *inproc.Server, c *client.Client, opts ...client.CacheOption) {
		w := s.Client(t)
		write(t, w, "create /a 0", "create /a/b 1", "create /a/c 2")
		for _, o := range []client.CacheOption{client.CacheMaxZnodes(2), client.CacheMaxBytes(700)} {
			if _, err := client.NewCache(t.Context(), c, "/a", append(opts, o)...); !errors.Is(err, client.ErrCacheFull) {
				t.Errorf("too much at the start: %v", err)
			}
		}
		many := newCache(t, c, "/a", append(opts, client.CacheMaxZnodes(3))...)
		large := newCache(t, c, "/a", append(opts, client.CacheMaxBytes(1000))...)
		holds(t, many, "/a=0 /a/b=1 /a/c=2")
		if size := large.Bytes(); size != 3*256+2+4+4+3 {
			t.Errorf("%d bytes", size)
		}
		write(t, w, "set /a/b "+strings.Repeat("x", 300))
		ends(t, large, client.ErrCacheFull)
		write(t, w, "create /a/d 4")
		ends(t, many, client.ErrCacheFull)
		again := newCache(t, c, "/a", append(opts, client.CacheMaxZnodes(4))...)
		write(t, w, "delete /a/d", "create /a/d", "set /a/d 5")
		holds(t, again, "/a=0 /a/b="+strings.Repeat("x", 300)+" /a/c=2 /a/d=5")
	})
}

func TestCacheDepthAndFilter(t *testing.T) {
	cacheKinds(t, func(t *testing.T, s *inproc.Server, c *client.Client, opts ...client.CacheOption) {
		w := s.Client(t)
		write(t, w, "create /a 0", "create /a/b 1", "create /a/b/c 2", "create /a/.d 3", "create /a/.d/e 4")
		hidden := client.CacheFilter(func(p string) bool { return !strings.Contains(p, "/.") })
		zero := newCache(t, c, "/a", append(opts, client.CacheDepth(0))...)
		one := newCache(t, c, "/a", append(opts, client.CacheDepth(1))...)
		two := newCache(t, c, "/a", append(opts, client.CacheDepth(2), hidden)...)
		check := func(a, b, c string) {
			t.Helper()
			holds(t, zero, a)
			holds(t, one, b)
			holds(t, two, c)
		}
		check("/a=0", "/a=0 /a/.d=3 /a/b=1", "/a=0 /a/b=1 /a/b/c=2")
		write(t, w, "create /a/b/c/f 5", "create /a/g 6", "create /a/g/h 7", "set /a 8", "set /a/.d 9", "create /a/.d/i 10", "delete /a/.d/e")
		check("/a=8", "/a=8 /a/.d=9 /a/b=1 /a/g=6", "/a=8 /a/b=1 /a/b/c=2 /a/g=6 /a/g/h=7")
		s.Cut()
		synctest.Wait()
		write(t, w, "set /a/b/c/f 11", "delete /a/g/h", "delete /a/g")
		check("/a=8", "/a=8 /a/.d=9 /a/b=1", "/a=8 /a/b=1 /a/b/c=2")
	})
}

// A flood of events is made up for by comparing all.
func TestCacheFlood(t *testing.T) {
	cacheKinds(t, func(t *testing.T, s *inproc.Server, c *client.Client, opts ...client.CacheOption) {
		w := s.Client(t)
		write(t, w, "create /a 0")
		k := newCache(t, c, "/a", opts...)
		for round := range 5 {
			want := "/a=0"
			txn := w.Txn()
			for i := range 100 {
				if path := fmt.Sprintf("/a/%03d", i); round == 0 {
					txn.Create(path, []byte("0"), zk.Persistent, nil)
				} else {
					txn.Set(path, []byte(fmt.Sprint(round)), -1)
				}
				want += fmt.Sprintf(" /a/%03d=%d", i, round)
			}
			if err := txn.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			holds(t, k, want)
		}
	}, client.WatchQueue(2))
}

func TestCacheUnreadable(t *testing.T) {
	cacheKinds(t, func(t *testing.T, s *inproc.Server, c *client.Client, opts ...client.CacheOption) {
		w := s.Client(t, client.Auth("digest", []byte("u:p")))
		write(t, w, "create /a 0", "create /a/b 1")
		for _, path := range []string{"/a/secret", "/a/secret/below", "/top"} {
			if _, err := w.Create(t.Context(), path, nil, zk.Persistent, zk.CreatorAllACL()); err != nil {
				t.Fatal(err)
			}
		}
		k := newCache(t, c, "/a", opts...)
		top := newCache(t, c, "/top", opts...)
		holds(t, k, "/a=0 /a/b=1")
		holds(t, top, "")
		write(t, w, "set /a/secret x", "set /a/b 2")
		holds(t, k, "/a=0 /a/b=2")
	})
}

func TestCacheOptionsAreChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := inproc.Start(t).Client(t)
		for _, o := range []client.CacheOption{
			client.CacheMaxZnodes(0), client.CacheMaxBytes(0), client.CacheDepth(-1), client.CacheWindow(0),
		} {
			if _, err := client.NewCache(t.Context(), c, "/a", o); !errors.Is(err, zk.ErrBadArguments) {
				t.Errorf("an option that cannot be: %v", err)
			}
		}
		if _, err := client.NewCache(t.Context(), c, "a"); !errors.Is(err, zk.ErrBadArguments) {
			t.Errorf("a path that cannot be: %v", err)
		}
	})
}

func TestCacheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inproc.Start(t)
		c := s.Client(t)
		k := newCache(t, c, "/a")
		s.Stop()
		ctx, cancel := context.WithTimeout(t.Context(), 1)
		defer cancel()
		if _, err := client.NewCache(ctx, c, "/a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a cache without a server: %v", err)
		}
		if err := k.Sync(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("sync without a server: %v", err)
		}
	})
}

func TestCacheProgress(t *testing.T) {
	cacheKinds(t, func(t *testing.T, s *inproc.Server, c *client.Client, opts ...client.CacheOption) {
		write(t, c, "create /a")
		for i := range 50 {
			write(t, c, fmt.Sprint("create /a/", i))
		}
		var seen []int
		newCache(t, c, "/a", append(opts, client.CacheWindow(3), client.CacheProgress(func(n int) { seen = append(seen, n) }))...)
		if len(seen) < 10 || !slices.IsSorted(seen) || seen[len(seen)-1] != 51 {
			t.Errorf("progress %v", seen)
		}
	})
}
