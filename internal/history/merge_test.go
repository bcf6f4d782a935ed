package history

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold"
	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// newest reads the tree of a data directory.
func newest(t *testing.T, dir string) *znode.Tree {
	t.Helper()
	d, err := storage.OpenReadOnly(vfs.OS{}, storage.Options{DataDir: dir, Log: storage.LogOptions{MaxEntryBytes: storage.DefaultMaxEntryBytes}})
	if err != nil {
		t.Fatal(err)
	}
	state, err := Newest(d, storage.DefaultMaxEntryBytes)
	if err != nil {
		t.Fatal(err)
	}
	return state.Tree()
}

// Everything of every part is in the merged tree, at its place, as it was; but what is left
// out, and the counters of znodes that got children from elsewhere.
func TestMerge(t *testing.T) {
	made := serverDir(t)
	for _, parts := range [][]Part{
		{{Prefix: "/new", DataDir: apache39}, {Prefix: "/deep/made", DataDir: made}},
		{{Prefix: "/", DataDir: apache39}, {Prefix: "/other", DataDir: made}},
	} {
		to := filepath.Join(t.TempDir(), "to")
		var out bytes.Buffer
		m := Merge{Out: &out}
		if err := m.Run(parts, to); err != nil {
			t.Fatal(err)
		}
		tree, count := newest(t, to), 0
		for _, p := range parts {
			count += sameBelow(t, tree, newest(t, p.DataDir), p)
		}
		if count == 0 || tree.LastZxid() != max(newest(t, apache39).LastZxid(), newest(t, made).LastZxid()) {
			t.Errorf("%d znodes, zxid %v", count, tree.LastZxid())
		}
		if !strings.Contains(out.String(), "left out: the ephemeral /seq/live of "+made) {
			t.Errorf("the output is\n%s", &out)
		}
		if err := m.Run(parts, to); err == nil || !strings.Contains(err.Error(), "has data already") {
			t.Error(err)
		}
	}
}

// What a server is writing cannot be read reliably: a merge refuses its directory at once, and a damaged one with what to do.
func TestMergeRefusesARunningServer(t *testing.T) {
	dir := serverDir(t)
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	parts := []Part{{Prefix: "/part", DataDir: dir}}
	m := Merge{Out: &bytes.Buffer{}, DryRun: true}
	s, c := serve(ctx, t, dir)
	if err := m.Run(parts, ""); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), dir) {
		t.Errorf("a running server's directory: %v", err)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	_ = c.Close() // the server has gone
	if err := m.Run(parts, ""); err != nil {
		t.Error(err)
	}
	snapshots, err := filepath.Glob(filepath.Join(dir, "version-2", "snapshot.*"))
	if err != nil || len(snapshots) == 0 {
		t.Fatal(snapshots, err)
	}
	for _, name := range snapshots {
		if err := os.Truncate(name, 30); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Run(parts, ""); err == nil || !strings.Contains(err.Error(), "pinfold data verify") {
		t.Errorf("a damaged directory: %v", err)
	}
}

// apache39 has been written by a server of Apache's.
const apache39 = "../../test/datadir/testdata/apache-3.9"

// serverDir is the data directory of a server with sequential znodes, an ephemeral and a quota.
func serverDir(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	t.Cleanup(cancel)
	dir := t.TempDir()
	s, c := serve(ctx, t, dir)
	for _, z := range []struct {
		path string
		mode zk.CreateMode
	}{
		{"/seq", zk.Persistent}, {"/seq/n-", zk.PersistentSequential}, {"/seq/n-", zk.PersistentSequential}, {"/seq/live", zk.Ephemeral},
		{"/zookeeper/quota/seq", zk.Persistent}, {"/zookeeper/quota/seq/zookeeper_limits", zk.Persistent}, {"/zookeeper/quota/seq/zookeeper_stats", zk.Persistent},
	} {
		data := ""
		if strings.Contains(z.path, "zookeeper_") {
			data = "count=100,bytes=-1"
		}
		if _, err := c.Create(ctx, z.path, []byte(data), z.mode, zk.OpenACLUnsafe()); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Stop(); err != nil { // before the session ends
		t.Fatal(err)
	}
	_ = c.Close() // the server has gone
	return dir
}

// serve starts a server on the directory, with log files that are small at first, and a client of it.
func serve(ctx context.Context, t *testing.T, dir string) (*pinfold.Server, *client.Client) {
	t.Helper()
	s, err := pinfold.New(pinfold.Config{DataDir: dir, Settings: map[string]string{"preAllocSize": "64"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(ctx); err != nil {
		t.Fatal(err)
	}
	c, err := client.Dial(ctx, s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	return s, c
}

// sameBelow compares what a part has with what is at its place, and returns how many znodes
// were compared.
func sameBelow(t *testing.T, merged, tree *znode.Tree, p Part) (count int) {
	t.Helper()
	p.tree = tree
	err := walk(tree, "/", func(name string, id znode.ID) error {
		to := p.place(name)
		mode, _ := tree.Kind(id)
		if to == "" || mode == zk.Ephemeral {
			return nil
		}
		count++
		at := merged.Lookup(to)
		if at == 0 {
			t.Errorf("%s is missing", to)
			return nil
		}
		want := tree.Mode(id)
		switch to {
		case "/": // it has a child more
			want.Cversion, want.Pzxid = want.Cversion+1, merged.LastZxid()
		case p.Prefix: // it was a root
			want.Czxid, want.Mzxid, want.Pzxid = merged.LastZxid(), merged.LastZxid(), merged.LastZxid()
		}
		if got := merged.Mode(at); got != want {
			t.Errorf("%s: %+v, want %+v", to, got, want)
		}
		recounted := strings.HasSuffix(to, "/zookeeper_stats") // without the ephemerals
		if !recounted && !bytes.Equal(merged.Data(at), tree.Data(id)) || !slices.Equal(merged.ACL(at).All(), tree.ACL(id).All()) {
			t.Errorf("%s: the data or the ACL differs", to)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return count
}

func TestMergeRefuses(t *testing.T) {
	to := filepath.Join(t.TempDir(), "to")
	var out bytes.Buffer
	m := Merge{Out: &out}
	err := m.Run([]Part{{Prefix: "/a", DataDir: apache39}, {Prefix: "/a", DataDir: apache39}}, to)
	if !errors.Is(err, ErrConflict) || !strings.Contains(out.String(), "CONFLICT /a: in ") {
		t.Errorf("%v\n%s", err, &out)
	}
	for _, prefix := range []string{"", "a", "/a/", "/zookeeper", "/zookeeper/x"} {
		if err := m.Run([]Part{{Prefix: prefix, DataDir: apache39}}, to); err == nil || !strings.Contains(err.Error(), "not a path") {
			t.Errorf("%q: %v", prefix, err)
		}
	}
	m.DryRun = true
	if err := m.Run([]Part{{Prefix: "/a", DataDir: apache39}}, to); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(to); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something was written: %v", err)
	}
}
