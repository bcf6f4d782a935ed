package datadir

import (
	"context"
	"fmt"
	"os"
	"path"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/internal/session"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/test/inproc"
	"github.com/pinfold-zk/pinfold/zk"
)

// What a real server has written is served as it served it; its session goes on,
// and so do its counters; and what is changed then is there after a restart.
func TestServedAsWritten(t *testing.T) {
	for _, name := range []string{"apache-3.4", "apache-3.9"} {
		t.Run(name, func(t *testing.T) {
			served, err := os.ReadFile(path.Join("testdata", name, "served.txt"))
			if err != nil {
				t.Fatal(err)
			}
			var id uint64
			var zxid zk.Zxid
			head, tree, _ := strings.Cut(string(served), "\n/ ")
			if _, err := fmt.Sscanf(head, "session %v\nzxid %v", &id, &zxid); err != nil {
				t.Fatal(err)
			}
			fs := load(t, path.Join("testdata", name, "version-2"))
			synctest.Test(t, func(t *testing.T) {
				opens(t, fs, zk.SessionID(id), zxid, "/ "+tree, name == "apache-3.4")
			})
		})
	}
}

// withoutConfig leaves out /zookeeper/config, which there is not before 3.5, and its
// parent, whose child it is then.
func withoutConfig(tree string) string {
	var b strings.Builder
	for line := range strings.Lines(tree) {
		if !strings.HasPrefix(line, "/zookeeper ") && !strings.HasPrefix(line, "/zookeeper/config ") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// load copies a directory into the data directory of a file system in memory.
func load(t *testing.T, dir string) vfs.FS {
	t.Helper()
	mem := vfs.NewMem()
	to := inproc.DataDir + "/version-2"
	if err := mem.MkdirAll(to); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(path.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		file, err := mem.Create(to + "/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.Write(b); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return mem
}

func opens(t *testing.T, fs vfs.FS, id zk.SessionID, zxid zk.Zxid, tree string, configAdded bool) {
	s := inproc.StartOn(t, fs)
	if r := s.Loaded(); r.Zxid != zxid || r.Snapshot == "" || r.Snapshot == "snapshot.0" || r.Replayed == 0 ||
		r.Sessions != 2 || r.Mismatch != 0 || len(r.Skipped)+len(r.Orphans) != 0 {
		t.Errorf("loaded %+v, want %v and two sessions, of a snapshot and a log", r, zxid)
	}
	password := session.Password(id)
	c := s.Client(t, alice(), client.Session(id, password[:]))
	if c.SessionID() != id {
		t.Fatalf("session %v instead of %v", c.SessionID(), id)
	}
	first := dump(t, c)
	if configAdded {
		if !strings.Contains(first, "\n/zookeeper/config ") {
			t.Error("/zookeeper/config was not added")
		}
		first, tree = withoutConfig(first), withoutConfig(tree)
	}
	same(t, "at first", first, tree)
	name, err := c.Create(context.Background(), "/one/s-", nil, zk.PersistentSequential, zk.OpenACLUnsafe())
	if !strings.HasPrefix(name, "/one/s-") || err != nil || strings.Contains(tree, name) {
		t.Errorf("the next of a sequence is %s, %v", name, err)
	}
	if err := c.Delete(context.Background(), "/one/mine", 0); err != nil {
		t.Error(err)
	}
	changed := dump(t, c)
	s.Restart()
	same(t, "after a restart", dump(t, c), changed)
}

// same compares line by line.
func same(t *testing.T, when, got, want string) {
	t.Helper()
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(g), len(w)) {
		switch {
		case i >= len(g):
			t.Fatalf("%s: missing: %s", when, w[i])
		case i >= len(w):
			t.Fatalf("%s: too much: %s", when, g[i])
		case g[i] != w[i]:
			t.Fatalf("%s:\n got %s\nwant %s", when, g[i], w[i])
		}
	}
}
