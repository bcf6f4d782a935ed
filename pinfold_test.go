package pinfold_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold"
	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/test/goroutines"
	"github.com/pinfold-zk/pinfold/zk"
)

// within bounds what a test waits for.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// start makes a server and starts it; the test's end stops it.
func start(t *testing.T, c pinfold.Config) *pinfold.Server {
	t.Helper()
	s, err := pinfold.New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(within(t)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func dial(t *testing.T, addr string) *client.Client {
	t.Helper()
	c, err := client.Dial(within(t), addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// create makes a znode. A connection that breaks is tried again.
func create(t *testing.T, c *client.Client, path string) {
	t.Helper()
	ctx := within(t)
	for {
		_, err := c.Create(ctx, path, []byte(path), zk.Persistent, nil)
		if err == nil || errors.Is(err, zk.ErrNodeExists) {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("create %s: %v", path, err)
		}
	}
}

// openFiles returns what the process has open, as the system names it; nothing
// where the system does not say.
func openFiles(t *testing.T) (list []string) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if name, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && !strings.HasSuffix(name, "/fd") {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

// Three members of an ensemble and two standalone servers in one process: they
// serve, one is stopped, the others go on, it comes back, all are stopped, and
// nothing of them is left.
func TestServersInOneProcess(t *testing.T) {
	dir := t.TempDir()
	start := func(s *pinfold.Server) {
		t.Helper()
		if err := s.Start(within(t)); err != nil {
			t.Fatal(err)
		}
	}
	stop := func(s *pinfold.Server) {
		t.Helper()
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}
	if warm, err := net.Listen("tcp", "127.0.0.1:0"); err == nil {
		warm.Close() // the runtime's poller has files of its own from now on
	}
	before := openFiles(t)

	memory := pinfold.TuneMemory()
	members, err := pinfold.NewEnsemble(3, pinfold.Config{DataDir: dir, Memory: memory})
	if err != nil {
		t.Fatal(err)
	}
	all := slices.Clone(members)
	for _, c := range []pinfold.Config{{Memory: memory}, {DataDir: filepath.Join(dir, "alone"), Memory: memory}} {
		s, err := pinfold.New(c)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	for _, s := range all {
		start(s)
		defer s.Stop()
	}
	for _, s := range all {
		if err := s.Ready(within(t)); err != nil {
			t.Fatal(err)
		}
	}
	var clients []*client.Client
	for _, addr := range []string{pinfold.ConnectString(members...), all[3].Addr(), all[4].Addr()} {
		clients = append(clients, dial(t, addr))
	}
	for i, c := range clients {
		create(t, c, fmt.Sprintf("/first-%d", i))
	}

	var leader *pinfold.Server
	for _, s := range members {
		if s.Role() == "leader" {
			leader = s
		}
	}
	if leader == nil {
		t.Fatal("nobody leads")
	}
	stop(leader)
	if leader.Role() != "stopped" || leader.Err() != nil {
		t.Errorf("%s, %v", leader.Role(), leader.Err())
	}
	for i, c := range clients {
		create(t, c, fmt.Sprintf("/second-%d", i))
	}
	addr := leader.Addr()
	start(leader)
	if err := leader.Ready(within(t)); err != nil {
		t.Fatal(err)
	}
	if leader.Addr() != addr {
		t.Errorf("it was at %s, and is at %s", addr, leader.Addr())
	}
	again := dial(t, addr)
	if err := again.Sync(within(t), "/"); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/first-0", "/second-0"} {
		if data, _, err := again.Get(within(t), path); err != nil || string(data) != path {
			t.Errorf("%s: %q, %v", path, data, err)
		}
	}

	for _, c := range append(clients, again) {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, s := range all {
		stop(s)
	}
	memory.Close()
	if left := goroutines.Left("pinfold/internal/", "pinfold/client.", "pinfold.(*Server)"); len(left) > 0 {
		t.Errorf("%d goroutines are left:\n%s", len(left), strings.Join(left, "\n\n"))
	}
	if after := openFiles(t); !slices.Equal(before, after) {
		t.Errorf("open before: %q\nopen after: %q", before, after)
	}
}
