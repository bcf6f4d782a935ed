package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/inproc"
	"github.com/pinfold-zk/pinfold/zk"
)

// plantMany makes /a with so many children, each with its path as data, below ten
// others.
func plantMany(t testing.TB, c *client.Client, n int) {
	t.Helper()
	list := []planting{{path: "/a"}}
	for i := range 10 {
		list = append(list, planting{path: fmt.Sprintf("/a/%d", i)})
	}
	for i := range n {
		path := fmt.Sprintf("/a/%d/%06d", i%10, i)
		list = append(list, planting{path: path, data: []byte(path), acl: zk.OpenACLUnsafe()})
	}
	if got, err := plantList(t, c, plantOptions{}, list...); err != nil || len(got) != len(list) {
		t.Fatal(len(got), err)
	}
}

// Whatever answer is lost on the way, an export has all, and so have a copy and an
// import.
func TestTransfersThroughLostAnswers(t *testing.T) {
	for _, op := range []wire.OpCode{wire.OpGetData, wire.OpGetACL, wire.OpGetChildren2, wire.OpCreate} {
		for _, skip := range []int{0, 7, 299} {
			if op == wire.OpGetChildren2 && skip > 10 {
				continue
			}
			synctest.Test(t, func(t *testing.T) {
				e := startTwo(t)
				plantMany(t, e[firstServer].Client(t), 300)
				ts := e.shell(t)
				file := filepath.Join(t.TempDir(), "export.json")
				ts.must("stat /a") // connects
				e[firstServer].LoseAnswer(op, skip)
				ts.must("export /a " + file)
				e[firstServer].LoseAnswer(op, skip)
				e[secondServer].LoseAnswer(op, skip)
				ts.must("cp --overwrite /a " + secondServer + "/copy")
				ts.must("import " + file + " /again")
				lost := e[firstServer].Lost() + e[secondServer].Lost()
				if lost == 0 {
					t.Fatal("no answer was lost")
				}
				for _, copied := range []string{secondServer + "/copy", "/again"} {
					if out := ts.must("diff --acl /a " + copied); out != "" {
						t.Errorf("%v, %d: %s: %s", op, skip, copied, out)
					}
				}
			})
		}
	}
}

// expireAtReconnect ends the session when its client connects for the second
// time.
func expireAtReconnect(s *inproc.Server, ts **testShell) client.Option {
	dials := 0
	return client.Dialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
		if dials++; dials == 2 {
			s.Expire((*ts).s.conn.SessionID())
		}
		return s.Dial(ctx, network, addr)
	})
}

// A copy whose session ends says so, and goes on when it is run again.
func TestCopyGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startTwo(t)
		s := e[firstServer]
		plantMany(t, s.Client(t), 1000)
		var ts *testShell
		ts = e.shell(t, expireAtReconnect(s, &ts))
		ts.must("stat /a")
		s.LoseAnswer(wire.OpCreate, 500)
		_, errs, status := ts.run("cp /a /copy")
		if status != 1 || !strings.Contains(errs, "Session has expired") || !strings.Contains(errs, "the same command again goes on") {
			t.Errorf("status %d: %s", status, errs)
		}
		if _, _, status := ts.run("diff /a /copy"); status != 1 {
			t.Errorf("the copy is whole: status %d", status)
		}
		out := ts.must("cp /a /copy")
		if !strings.Contains(out, ", 0 failed") || strings.Contains(out, " 0 unchanged") {
			t.Error(out)
		}
		ts.must("diff --acl /a /copy")
	})
}

// An export whose session ends leaves no file.
func TestExportIsWholeOrNotThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startTwo(t)
		s := e[firstServer]
		plantMany(t, s.Client(t), 1000)
		var ts *testShell
		ts = e.shell(t, expireAtReconnect(s, &ts))
		ts.must("stat /a")
		dir := t.TempDir()
		s.LoseAnswer(wire.OpGetData, 500)
		_, errs, status := ts.run("export /a " + filepath.Join(dir, "e.json"))
		if status != 1 || !strings.Contains(errs, "Session has expired") {
			t.Errorf("status %d: %s", status, errs)
		}
		if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
			t.Error(left, err)
		}
	})
}

// Nodes that vanish while they are copied are left out.
func TestCopyWhileNodesVanish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startTwo(t)
		c := e[firstServer].Client(t)
		plantMany(t, c, 3000)
		ts := e.shell(t)
		from, err := ts.s.locate(t.Context(), "/a")
		if err != nil {
			t.Fatal(err)
		}
		to, err := ts.s.locate(t.Context(), secondServer+"/a")
		if err != nil {
			t.Fatal(err)
		}
		defer to.close()
		visited := 0
		ts.s.pager = &pager{s: ts.s}
		err = ts.s.copy(t.Context(), from, to, transferOptions{}, func(z *znode) error {
			if visited++; visited != 100 {
				return nil
			}
			for i := range 300 {
				if err := c.Delete(t.Context(), fmt.Sprintf("/a/9/%06d", i*10+9), -1); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if n, err := to.c.AllChildrenNumber(t.Context(), "/a"); n != 2710 || err != nil {
			t.Error(n, err)
		}
		ts.must("diff /a " + secondServer + "/a")
	})
}

func TestMoveLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startTwo(t)
		s := e[firstServer]
		c := s.Client(t)
		plantMany(t, c, 2500)
		ts := e.shell(t)
		ts.must("cp /a " + secondServer + "/a")
		if _, errs, status := ts.run("mv /a /b"); status != 1 || !strings.Contains(errs, "--large") {
			t.Errorf("status %d: %s", status, errs)
		}
		s.LoseAnswer(wire.OpDelete, 1000)
		out := ts.must("mv --large /a /b")
		if !strings.Contains(out, "2511 nodes moved") || s.Lost() != 1 {
			t.Errorf("%d lost: %s", s.Lost(), out)
		}
		if _, exists, err := c.Exists(t.Context(), "/a"); exists || err != nil {
			t.Error(exists, err)
		}
		ts.must("diff --acl /b " + secondServer + "/a")
		if _, errs, status := ts.run("mv --large /b /b2/c"); status != 1 || !strings.Contains(errs, "nothing has been deleted") {
			t.Errorf("status %d: %s", status, errs)
		}
		ts.must("create /there")
		if _, errs, status := ts.run("mv --large /b /there"); status != 1 || !strings.Contains(errs, "already exists: /there") {
			t.Errorf("status %d: %s", status, errs)
		}
	})
}

// What has changed since it was copied is not deleted.
func TestMoveDeletesNothingThatChanged(t *testing.T) {
	bubble(t, func(t *testing.T, s *inproc.Server, c *client.Client) {
		plantAll(t, c, "/a/b", "/a/c")
		ts := ensembles{firstServer: s}.shell(t)
		err := ts.s.deleteListed(t.Context(), c, []original{{"/a", 0}, {"/a/b", 0}, {"/a/c", 1}})
		if !errors.Is(err, zk.ErrBadVersion) {
			t.Error(err)
		}
		if _, exists, err := c.Exists(t.Context(), "/a/c"); !exists || err != nil {
			t.Error(exists, err)
		}
	})
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startTwo(t)
		s := e[firstServer]
		c := s.Client(t)
		plantAll(t, c, "/a/b")
		ts := e.shell(t)
		for _, test := range []struct{ line, want string }{
			{"watch -n 3 /a", `2000-01-01T00:00:01.000Z NodeCreated /a/x
2000-01-01T00:00:02.000Z NodeDataChanged /a/x
2000-01-01T00:00:03.000Z NodeDeleted /a/x
`},
			{"watch -n 3 --data /a", `2000-01-01T00:00:04.000Z NodeCreated /a/x first
2000-01-01T00:00:05.000Z NodeDataChanged /a/x "\x00\xff"
2000-01-01T00:00:06.000Z NodeDeleted /a/x
`},
			{"watch -n 2 --single /a", `2000-01-01T00:00:07.000Z NodeChildrenChanged /a
2000-01-01T00:00:09.000Z NodeChildrenChanged /a
`},
		} {
			var writer sync.WaitGroup
			writer.Go(func() {
				ctx := t.Context()
				time.Sleep(time.Second)
				_, err := c.Create(ctx, "/a/x", []byte("first"), zk.Persistent, nil)
				time.Sleep(time.Second)
				_, setErr := c.Set(ctx, "/a/x", []byte{0, 0xff}, -1)
				time.Sleep(time.Second)
				if err := errors.Join(err, setErr, c.Delete(ctx, "/a/x", -1)); err != nil {
					t.Error(err)
				}
			})
			out := ts.must(test.line)
			writer.Wait() // the event may come before the answer to the deletion
			if diff := cmp.Diff(test.want, out); diff != "" {
				t.Errorf("%s: %s", test.line, diff)
			}
			synctest.Wait()
		}
	})
}

// A connection that was away is told; the end of the session is an error, and an
// interrupt is none.
func TestWatchEnds(t *testing.T) {
	bubble(t, func(t *testing.T, s *inproc.Server, _ *client.Client) {
		ts := ensembles{firstServer: s}.shell(t)
		ts.s.format = jsonl
		go func() {
			time.Sleep(time.Second)
			s.Cut()
			time.Sleep(time.Second)
			s.Expire(ts.s.conn.SessionID())
			synctest.Wait()
		}()
		out, errs, status := ts.run("watch /")
		if !strings.Contains(out, `"event":"Unknown"`) || status != 1 || !strings.Contains(errs, "Session has expired") {
			t.Errorf("status %d, %q, %q", status, out, errs)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if err := ts.s.runWords(ctx, []string{"watch", "/"}); err != nil {
			t.Error(err)
		}
	})
}

// An ACL may have an entry that gives nothing.
func TestAnExportKeepsEntriesWithoutPermissions(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		r.must("create /a")
		acl := []zk.ACL{{Perms: zk.PermAll, ID: zk.AnyoneUnsafe}, {ID: zk.ID{Scheme: "digest", ID: "u:h"}}}
		if _, err := r.conn.SetACL(context.Background(), "/a", acl, -1); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "export.json")
		r.must("export /a " + file)
		r.must("import " + file + " /b")
		if got, _, err := r.conn.GetACL(context.Background(), "/b"); err != nil || !cmp.Equal(got, acl) {
			t.Errorf("%v, %v; want %v", got, err, acl)
		}
	})
}

// An export that was cut off is refused before a node is created, wherever it ends and
// whether it is a file or comes through a pipe; a whole one is imported from both.
func TestImportOfATruncatedExport(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		for _, path := range []string{"/a", "/a/b", "/a/c"} {
			r.must("create " + path + " some-data")
		}
		file := filepath.Join(t.TempDir(), "export.json")
		r.must("export /a " + file)
		whole, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		trailer := bytes.LastIndexByte(bytes.TrimSpace(whole), '\n') + 1
		for cut := bytes.IndexByte(whole, '\n') + 1; cut < trailer+5; cut += 7 {
			if err := os.WriteFile(file, whole[:cut], 0o600); err != nil {
				t.Fatal(err)
			}
			r.in = bytes.NewReader(whole[:cut])
			for _, from := range []string{file, "-"} {
				_, errs, status := r.do("import " + from + " /copy")
				if status != statusFailed || !strings.Contains(errs, "the export is cut off: its last line is missing. Nothing was created") {
					t.Errorf("%d bytes from %s: status %d, %s", cut, from, status, errs)
				}
			}
			if _, _, status := r.do("stat /copy"); status != statusFailed {
				t.Fatalf("%d bytes: nodes were created", cut)
			}
		}
		if err := os.WriteFile(file, append(whole, "\n\n"...), 0o600); err != nil {
			t.Fatal(err)
		}
		r.must("import " + file + " /copy")
		r.in = bytes.NewReader(whole)
		r.must("import - /copy2")
		for _, path := range []string{"/copy", "/copy2"} {
			r.must("diff --acl /a " + path)
		}
	})
}
