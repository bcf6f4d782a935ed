package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/inproc"
	"github.com/pinfold-zk/pinfold/zk"
)

// plantList plants, and returns the outcome of each path, with what is wrong.
func plantList(t testing.TB, c *client.Client, opt plantOptions, list ...planting) (map[string]string, error) {
	t.Helper()
	outcomes := map[string]string{}
	opt.told = func(p *planting, o outcome, err error) error {
		if outcomes[p.path] != "" {
			t.Errorf("%s: told twice", p.path)
		}
		outcomes[p.path] = o.String()
		if err != nil {
			outcomes[p.path] += ": " + err.Error()
		}
		return nil
	}
	p := newPlanter(t.Context(), c, opt)
	for _, x := range list {
		if err := p.add(x); err != nil {
			return outcomes, err
		}
	}
	return outcomes, p.flush()
}

func TestPlantOutcomes(t *testing.T) {
	bubble(t, func(t *testing.T, _ *inproc.Server, c *client.Client) {
		ctx := t.Context()
		plantAll(t, c, "/a/same", "/a/data", "/a/acl", "/a/shut")
		if _, err := c.Create(ctx, "/a/kind", []byte("/a/kind"), zk.Ephemeral, nil); err != nil {
			t.Fatal(err)
		}
		read := zk.ReadACLUnsafe()
		if _, err := c.SetACL(ctx, "/a/shut", read, -1); err != nil {
			t.Fatal(err)
		}
		list := []planting{
			{path: "/a", data: []byte("/a"), acl: zk.OpenACLUnsafe()},
			{path: "/a/same", data: []byte("/a/same")},
			{path: "/a/data", data: []byte("new")},
			{path: "/a/acl", data: []byte("/a/acl"), acl: read},
			{path: "/a/kind", data: []byte("/a/kind"), kind: container},
			{path: "/a/shut", data: []byte("new")},
			{path: "/a/shut/below"},
			{path: "/a/new", acl: read},
			{path: "/a/new/orphan/x"},
			{path: "/a/ttl", kind: withTTL, ttl: time.Minute},
		}
		want := map[string]string{
			"/a": "unchanged", "/a/same": "unchanged", "/a/data": "failed: /a/data: is there already, and differs",
			"/a/acl":  "failed: /a/acl: is there already, and differs",
			"/a/kind": "failed: /a/kind: is there already, and differs: it is ephemeral, and ends with a session",
			"/a/shut": "failed: /a/shut: is there already, and differs", "/a/new": "created", "/a/ttl": "created",
			"/a/shut/below": "failed: create /a/shut/below: zookeeper: not authorised",
			// A dry run cannot see what permissions and parents will say.
			"/a/new/orphan/x": "failed: create /a/new/orphan/x: zookeeper: no node",
		}
		dry := map[string]string{"/a/shut/below": "created", "/a/new/orphan/x": "created"}
		for _, opt := range []plantOptions{{dryRun: true}, {}} {
			got, err := plantList(t, c, opt, list...)
			if err != nil {
				t.Fatal(err)
			}
			expected := map[string]string{}
			for k, v := range want {
				expected[k] = v
				if opt.dryRun && dry[k] != "" {
					expected[k] = dry[k]
				}
			}
			if diff := cmp.Diff(expected, got); diff != "" {
				t.Errorf("dry run %v: %s", opt.dryRun, diff)
			}
		}
		want["/a/new"], want["/a/ttl"] = "unchanged", "unchanged"
		want["/a/data"], want["/a/acl"] = "replaced", "replaced"
		want["/a/shut"] = "failed: set /a/shut: zookeeper: not authorised"
		got, err := plantList(t, c, plantOptions{overwrite: true}, list...)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Error(err, diff)
		}
		if data, _, err := c.Get(ctx, "/a/data"); string(data) != "new" || err != nil {
			t.Error(string(data), err)
		}
		if acl, _, err := c.GetACL(ctx, "/a/acl"); !cmp.Equal(acl, read) || err != nil {
			t.Error(acl, err)
		}
	})
}

// Whatever answer is lost, everything is there in the end, made once.
func TestPlantSurvivesLostAnswers(t *testing.T) {
	for skip := range 40 {
		bubble(t, func(t *testing.T, s *inproc.Server, c *client.Client) {
			var list []planting
			for i := range 30 {
				parent := fmt.Sprintf("/%02d", i)
				list = append(list, planting{path: parent, data: []byte{byte(i)}}, planting{path: parent + "/x"}, planting{path: parent + "/x/y"})
			}
			s.LoseAnswer(wire.OpCreate, skip*2)
			got, err := plantList(t, c, plantOptions{}, list...)
			if err != nil || s.Lost() != 1 {
				t.Fatalf("%v; %d lost", err, s.Lost())
			}
			for _, p := range list {
				stat, exists, err := c.Exists(t.Context(), p.path)
				if got[p.path] != "created" || !exists || stat.Version != 0 || err != nil {
					t.Errorf("skip %d: %s: %s, %v %+v %v", skip, p.path, got[p.path], exists, stat, err)
				}
			}
		})
	}
}

func TestPlantOverwritesThroughLostAnswers(t *testing.T) {
	for skip := range 10 {
		bubble(t, func(t *testing.T, s *inproc.Server, c *client.Client) {
			paths := numbered("/a", 10)
			plantAll(t, c, paths...)
			var list []planting
			for _, p := range paths {
				list = append(list, planting{path: p, data: []byte("new"), acl: zk.ReadACLUnsafe()})
			}
			s.LoseAnswer(wire.OpSetData, skip)
			got, err := plantList(t, c, plantOptions{overwrite: true}, list...)
			if err != nil || s.Lost() != 1 {
				t.Fatalf("%v; %d lost", err, s.Lost())
			}
			for _, p := range paths {
				stat, _, err := c.Exists(t.Context(), p)
				if got[p] != "replaced" || stat.Version != 1 || stat.Aversion != 1 || err != nil {
					t.Errorf("skip %d: %s: %s, %+v %v", skip, p, got[p], stat, err)
				}
			}
		})
	}
}

// A planter gives up on a server that breaks every connection.
func TestPlantGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inproc.Start(t)
		c := s.Client(t, client.Dialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
			nc, err := s.Dial(ctx, network, addr)
			return &oneWrite{Conn: nc}, err
		}))
		_, err := plantList(t, c, plantOptions{}, planting{path: "/x", data: []byte("1")})
		if !errors.Is(err, zk.ErrConnectionLoss) || !strings.Contains(err.Error(), "9 connections in a row") {
			t.Errorf("error %v", err)
		}
		if _, err = newScanner(t.Context(), c, "/", scanOptions{depth: -1}).next(); !errors.Is(err, zk.ErrConnectionLoss) {
			t.Errorf("error %v", err)
		}
	})
}

// oneWrite is a connection that breaks behind the handshake.
type oneWrite struct {
	net.Conn
	written bool
}

func (o *oneWrite) Write(b []byte) (int, error) {
	if o.written {
		o.Close()
	}
	o.written = true
	return o.Conn.Write(b)
}

func TestPlantEndsWithTheSession(t *testing.T) {
	bubble(t, func(t *testing.T, s *inproc.Server, c *client.Client) {
		s.Expire(c.SessionID())
		_, err := plantList(t, c, plantOptions{}, planting{path: "/x"})
		if !errors.Is(err, zk.ErrSessionExpired) {
			t.Errorf("error %v", err)
		}
	})
}

func TestComparePaths(t *testing.T) {
	ordered := []string{"/", "/a", "/a/b", "/a/b/c", "/a/b-", "/a/b.c", "/a-b", "/b"}
	for i, a := range ordered {
		for j, b := range ordered {
			if got := comparePaths(a, b); (got < 0) != (i < j) || (got == 0) != (i == j) {
				t.Errorf("comparePaths(%s, %s) = %d", a, b, got)
			}
		}
	}
	for _, test := range [][3]string{{"/", "/", ""}, {"/", "/a/b", "/a/b"}, {"/a", "/a", ""}, {"/a", "/a/b", "/b"}} {
		if got := relative(test[0], test[1]); got != test[2] || place(test[0], got) != test[1] {
			t.Errorf("relative(%s, %s) = %s", test[0], test[1], got)
		}
	}
	if isBelow("/a", "/ab") || !isBelow("/a", "/a/b") || !isBelow("/", "/b") || !isBelow("/a", "/a") {
		t.Error("isBelow")
	}
}
