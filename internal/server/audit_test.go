package server

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pinfold-zk/pinfold/internal/audit"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/auditlog"
	"github.com/pinfold-zk/pinfold/test/faultfs"
	"github.com/pinfold-zk/pinfold/zk"
)

// auditGolden has the lines of Apache 3.8.0 and 3.9.3, which are the same. Those after "+ " are
// ours alone: of TTL znodes, as in 3.9.4, and of a create with an unknown mode.
const auditGolden = "testdata/audit.txt"

// Every operation has the lines that it has in Apache. test/ensemble has them made anew.
func TestAuditedAsByApache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &auditOutput{}
		r := auditedRig(t, out, audit.Options{})
		if err := auditlog.Scenario(r.pipe()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		want, err := os.ReadFile(auditGolden)
		if err != nil {
			t.Fatal(err)
		}
		expected := strings.ReplaceAll(string(want), "+ ", "")
		if diff := cmp.Diff(expected, strings.Join(auditlog.Lines(out.String()), "\n")+"\n"); diff != "" {
			t.Errorf("(-recorded +now):\n%s", diff)
		}
	})
}

// auditOutput holds what was written.
type auditOutput struct {
	mu sync.Mutex
	bytes.Buffer
}

func (o *auditOutput) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.Buffer.Write(p)
}

func (o *auditOutput) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.Buffer.String()
}

func (*auditOutput) Close() error { return nil }

// auditedRig is a rig with an audit log.
func auditedRig(t *testing.T, out audit.Output, o audit.Options) *rig {
	o.Output, o.User, o.Class, o.Logger = out, "server", "o.a.z.a.Slf4jAuditLogger", slog.New(slog.DiscardHandler)
	if o.Limit == 0 {
		o.Limit = 1 << 20
	}
	l := audit.New(o)
	r := newRig(t, func(s *rigSetup) { s.audit = l })
	t.Cleanup(func() {
		r.stop()
		l.Close() // fails if the output hangs, which is what the test is about
	})
	return r
}

// hangingFS is a file system in memory whose writes wait until release is closed.
func hangingFS(release chan struct{}) vfs.FS {
	return faultfs.New(vfs.NewMem(), 0, faultfs.None, func(op faultfs.Op) {
		if op.Kind == "write" {
			<-release
		}
	})
}

// While the disk of the audit log hangs, changes wait once the queue is full, and reads, pings
// and sessions go on. Later all lines are there.
func TestAuditDiskHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		fs := hangingFS(release)
		f, err := audit.OpenFile(fs, "/audit/log", 0, 0, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		r := auditedRig(t, f, audit.Options{Limit: 300})
		writer, other := r.open(), r.open()
		writer.create("/a", "", zk.Persistent)
		writer.create("/b", "", zk.Persistent) // now the queue is full
		if _, err := writer.send(wire.OpCreate, createBody("/c", nil, zk.Persistent)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !other.has("/b") || other.has("/c") {
			t.Error("the change was not held back")
		}
		other.call(wire.OpPing, nil)
		if third := r.open(); third.call(wire.OpCloseSession, nil).Err != zk.OK {
			t.Error("a session cannot end")
		}
		close(release)
		if reply, err := writer.nextReply(); err != nil || reply.Err != zk.OK {
			t.Errorf("the change that was held back: %v, %v", reply, err)
		}
		synctest.Wait()
		data := make([]byte, 1<<16)
		file, err := fs.Open("/audit/log")
		if err != nil {
			t.Fatal(err)
		}
		n, _ := file.Read(data) // the content is checked
		for _, path := range []string{"/a", "/b", "/c"} {
			if !strings.Contains(string(data[:n]), "znode="+path+"\t") {
				t.Errorf("no line about %s in %q", path, data[:n])
			}
		}
	})
}

// A change that waits for a hanging audit log for too long ends its connection, and is not made.
func TestAuditPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		f, err := audit.OpenFile(hangingFS(release), "/audit/log", 0, 0, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		r := auditedRig(t, f, audit.Options{Limit: 100})
		c := r.open()
		c.create("/a", "", zk.Persistent)
		start := time.Now()
		if _, err := c.send(wire.OpCreate, createBody("/b", nil, zk.Persistent)); err != nil {
			t.Fatal(err)
		}
		_ = c.ended()
		if waited := time.Since(start); waited < auditPatience {
			t.Errorf("closed after %v", waited)
		}
		if r.open().has("/b") {
			t.Error("the change was made")
		}
		if held := r.srv.flight.Used(); held != 0 {
			t.Errorf("%d bytes are charged for the change", held)
		}
	})
}

// The details of each kind of change.
func TestAuditDetails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &auditOutput{}
		r := auditedRig(t, out, audit.Options{Details: true, JSON: true})
		c := r.open()
		c.create("/a", "123", zk.Persistent)
		c.mustCall(wire.OpSetData, setBody("/a", []byte("12345")))
		c.mustCall(wire.OpMulti, auditlog.Multi(wire.OpSetData, "/a"))
		c.mustCall(wire.OpDelete, deleteBody("/a"))
		synctest.Wait()
		var got []string
		for line := range strings.Lines(out.String()) {
			_, details, _ := strings.Cut(line, `"result":`)
			got = append(got, strings.TrimSpace(details))
		}
		want := []string{
			`"success","zxid":"0x2","new_version":0,"size":3}`,
			`"success","zxid":"0x3","old_version":0,"new_version":1,"size":5}`,
			`"success","zxid":"0x4","old_version":1,"new_version":2,"size":1}`,
			`"success","zxid":"0x5","old_version":2,"size":1}`,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// A long multi, which is applied in pieces, has a line for each of its changes, in their order; one that
// fails has a single line, as a short one has. The replies have all results.
func TestAuditedLongMulti(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 6000
		out := &auditOutput{}
		r := auditedRig(t, out, audit.Options{})
		c := r.open()
		multi := func(last wire.MultiOp) []byte {
			var b []byte
			for i := range many - 1 {
				op := wire.MultiOp{Type: wire.OpCreate, CreateRequest: wire.CreateRequest{Path: fmt.Sprint("/n", i), ACL: zk.OpenACLUnsafe()}}
				b = op.Append(b)
			}
			return wire.AppendMultiEnd(last.Append(b))
		}
		missing := wire.MultiOp{Type: wire.OpDelete, Version: -1}
		missing.Path = "/missing"
		lines := func() []string {
			synctest.Wait()
			defer out.Reset()
			return strings.Split(strings.TrimSpace(out.String()), "\n")
		}
		failed := c.call(wire.OpMulti, multi(missing))
		if want := many*(wire.MultiHeaderLen+4) + wire.MultiHeaderLen; len(failed.body) != want {
			t.Errorf("a reply of %d bytes to the multi that fails, want %d", len(failed.body), want)
		}
		if got := lines(); len(got) != 1 || !strings.Contains(got[0], "operation=multiOperation") || !strings.Contains(got[0], "result=failure") {
			t.Errorf("%d lines about the multi that fails, the first is %s", len(got), got[0])
		}
		existing := wire.MultiOp{Type: wire.OpSetData, Version: -1}
		existing.Path = "/n7"
		made := c.call(wire.OpMulti, multi(existing))
		want := many*wire.MultiHeaderLen + wire.StatLen + wire.MultiHeaderLen
		for i := range many - 1 {
			want += 4 + len(fmt.Sprint("/n", i))
		}
		if len(made.body) != want {
			t.Errorf("a reply of %d bytes to the multi, want %d", len(made.body), want)
		}
		got := lines()
		if len(got) != many {
			t.Fatalf("%d lines about %d changes", len(got), many)
		}
		for i, line := range got[:many-1] {
			if !strings.Contains(line, fmt.Sprintf("\tznode=/n%d\t", i)) || !strings.Contains(line, "result=success") {
				t.Fatalf("line %d is %s", i, line)
			}
		}
		if !strings.Contains(got[many-1], "operation=setData\tznode=/n7\t") {
			t.Errorf("the last line is %s", got[many-1])
		}
	})
}
