package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/inproc"
	"github.com/pinfold-zk/pinfold/zk"
)

// plantAll makes znodes, all above them too, with their path as data.
func plantAll(t testing.TB, c *client.Client, paths ...string) {
	t.Helper()
	made := map[string]bool{"/": true}
	for _, p := range paths {
		for i := range len(p) {
			if i > 0 && p[i] == '/' && !made[p[:i]] {
				put(t, c, p[:i], []byte(p[:i]))
				made[p[:i]] = true
			}
		}
		put(t, c, p, []byte(p))
		made[p] = true
	}
}

func put(t testing.TB, c *client.Client, path string, data []byte) {
	t.Helper()
	if _, err := c.Create(t.Context(), path, data, zk.Persistent, nil); err != nil {
		t.Fatal(err)
	}
}

// scannedAll visits all below root, and returns "path data" of each.
func scannedAll(t testing.TB, c *client.Client, root string, opt scanOptions) (visited []string, sc *scanner) {
	t.Helper()
	sc = newScanner(t.Context(), c, root, opt)
	err := sc.each(func(z *znode) error {
		visited = append(visited, strings.TrimSpace(z.path+" "+string(z.data)))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return visited, sc
}

// bubble runs a test in virtual time with a server and a client.
func bubble(t *testing.T, f func(t *testing.T, s *inproc.Server, c *client.Client)) {
	synctest.Test(t, func(t *testing.T) {
		s := inproc.Start(t)
		f(t, s, s.Client(t))
	})
}

func TestScanOrder(t *testing.T) {
	bubble(t, func(t *testing.T, _ *inproc.Server, c *client.Client) {
		plantAll(t, c, "/a/b/c", "/a/b-", "/a/b.x", "/a/b/a/z", "/b")
		got, _ := scannedAll(t, c, "/a", scanOptions{data: true, acl: true, depth: -1})
		want := []string{"/a /a", "/a/b /a/b", "/a/b/a /a/b/a", "/a/b/a/z /a/b/a/z", "/a/b/c /a/b/c", "/a/b- /a/b-", "/a/b.x /a/b.x"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		got, _ = scannedAll(t, c, "/", scanOptions{depth: 1, leaveOut: func(p string) bool { return p == "/zookeeper" }})
		if diff := cmp.Diff([]string{"/", "/a", "/b"}, got); diff != "" {
			t.Error(diff)
		}
		if _, err := newScanner(t.Context(), c, "/none", scanOptions{depth: -1}).next(); !errors.Is(err, zk.ErrNoNode) {
			t.Errorf("scan of nothing: %v", err)
		}
	})
}

// Trees of all shapes come in order and whole, whatever the limits do.
func TestScanShapes(t *testing.T) {
	const seed = 7
	r := rand.New(rand.NewPCG(seed, seed))
	bubble(t, func(t *testing.T, _ *inproc.Server, c *client.Client) {
		paths := []string{"/r"}
		for len(paths) < 3000 {
			at := paths[r.IntN(len(paths))]
			if r.IntN(3) == 0 { // a chain or a star
				at = paths[len(paths)-1]
			} else if r.IntN(2) == 0 {
				at = "/r"
			}
			paths = append(paths, fmt.Sprintf("%s/%d", at, len(paths)))
		}
		wait := newPlanter(t.Context(), c, plantOptions{told: func(_ *planting, _ outcome, err error) error { return err }})
		for _, p := range paths {
			if err := wait.add(planting{path: p, data: make([]byte, r.IntN(100))}); err != nil {
				t.Fatal(err)
			}
		}
		if err := wait.flush(); err != nil {
			t.Fatal(err)
		}
		want := slices.SortedFunc(slices.Values(paths), comparePaths)
		for _, opt := range []scanOptions{{depth: -1}, {depth: -1, acl: true}} {
			got, _ := scannedAll(t, c, "/r", opt)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("seed %d: %s", seed, diff)
			}
		}
	})
}

// What vanishes between the list and the question is left out, with all below it.
func TestScanVanishing(t *testing.T) {
	bubble(t, func(t *testing.T, _ *inproc.Server, c *client.Client) {
		paths := numbered("/a", 1000)
		plantAll(t, c, append(paths, "/a/z/below")...)
		visited := 0
		got, sc := scannedAll(t, c, "/a", scanOptions{depth: -1, visited: func(int) {
			if visited++; visited > 1 {
				return
			}
			for _, p := range []string{"/a/z/below", "/a/z", "/a/0998"} {
				if err := c.Delete(t.Context(), p, -1); err != nil {
					t.Error(err)
				}
			}
		}})
		want := slices.Concat([]string{"/a"}, paths[:998], paths[999:])
		if diff := cmp.Diff(want, got); diff != "" || sc.vanished != 2 {
			t.Errorf("%d vanished; %s", sc.vanished, diff)
		}
	})
}

// numbered are n paths of children, in order.
func numbered(parent string, n int) (paths []string) {
	for i := range n {
		paths = append(paths, fmt.Sprintf("%s/%04d", parent, i))
	}
	return paths
}

func TestScanSurvivesLostConnections(t *testing.T) {
	bubble(t, func(t *testing.T, s *inproc.Server, c *client.Client) {
		paths := numbered("/a", 1000)
		plantAll(t, c, paths...)
		s.LoseAnswer(wire.OpGetChildren2, 100)
		visited := 0
		opt := scanOptions{depth: -1, visited: func(int) {
			if visited++; visited == 500 {
				s.Cut()
			}
		}}
		got, _ := scannedAll(t, c, "/a", opt)
		if lost := s.Lost(); lost != 1 {
			t.Fatalf("%d answers lost", lost)
		}
		if diff := cmp.Diff(append([]string{"/a"}, paths...), got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestScanEndsWithTheSession(t *testing.T) {
	bubble(t, func(t *testing.T, s *inproc.Server, c *client.Client) {
		plantAll(t, c, numbered("/a", 1000)...)
		visited := 0
		sc := newScanner(t.Context(), c, "/a", scanOptions{depth: -1, visited: func(int) {
			if visited++; visited == 1 {
				s.Expire(c.SessionID())
			}
		}})
		var err error
		for err == nil {
			_, err = sc.next()
		}
		if !errors.Is(err, zk.ErrSessionExpired) {
			t.Error(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if _, err := newScanner(ctx, c, "/a", scanOptions{depth: -1}).next(); err == nil {
			t.Error("no error when interrupted")
		}
	})
}

func TestScanRefused(t *testing.T) {
	bubble(t, func(t *testing.T, _ *inproc.Server, c *client.Client) {
		plantAll(t, c, "/a/open", "/a/shut/below")
		acl := []zk.ACL{{Perms: zk.PermWrite, ID: zk.AnyoneUnsafe}}
		if _, err := c.SetACL(t.Context(), "/a/shut", acl, -1); err != nil {
			t.Fatal(err)
		}
		sc := newScanner(t.Context(), c, "/a", scanOptions{depth: -1, data: true, acl: true})
		for {
			z, err := sc.next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if refused := errors.Is(z.err, zk.ErrNoAuth); refused != (z.path == "/a/shut") {
				t.Errorf("%s: %v", z.path, z.err)
			}
			if z.err == nil && z.stat.DataLength != int32(len(z.path)) {
				t.Errorf("%s: Stat %+v", z.path, z.stat)
			}
		}
		if sc.refused != 1 || sc.seen != 3 {
			t.Errorf("%d refused, %d seen", sc.refused, sc.seen)
		}
	})
}
