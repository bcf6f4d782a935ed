package server

import (
	"bytes"
	"flag"
	"log/slog"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pinfold-zk/pinfold/internal/audit"
	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/faultfs"
	"github.com/pinfold-zk/pinfold/zk"
)

// With both of these, TestAuditedAsByApache compares a running Apache with the recorded lines:
// it must have zookeeper.audit.enable=true, zookeeper.extendedTypesEnabled=true and no data.
var (
	auditServer = flag.String("audit.server", "", "`address` of an Apache ZooKeeper")
	auditLines  = flag.String("audit.lines", "", "`file` that it writes its audit log to")
)

// auditScenario makes every kind of change, with and without success.
func auditScenario(t *testing.T, dial func() net.Conn) {
	c := newWireClient(t, dial())
	c.mustConnect(10 * time.Second)
	auth := wire.AuthPacket{Scheme: "digest", Auth: []byte("bob:builder")}
	if r, err := c.do(wire.OpAuth, auth.Append(nil)); err != nil || r.Err != zk.OK {
		t.Fatal(r, err)
	}
	c.call(wire.OpCreate, createBody("/a", []byte("x"), zk.Persistent))
	c.call(wire.OpCreate, createBody("/a/e", nil, zk.Ephemeral))
	c.call(wire.OpCreate2, createBody("/a/s-", nil, zk.PersistentSequential))
	c.call(wire.OpCreate, createBody("/a/t-", nil, zk.EphemeralSequential))
	c.call(wire.OpCreateContainer, createBody("/c", nil, zk.Container))
	c.call(wire.OpCreateTTL, jute.AppendLong(createBody("/ttl", nil, zk.PersistentWithTTL), 100000))
	c.call(wire.OpCreateTTL, jute.AppendLong(createBody("/ttl-", nil, zk.PersistentSequentialWithTTL), 100000))
	c.call(wire.OpCreate, createBody("/a", nil, zk.Persistent))
	c.call(wire.OpCreate, createBody("/no/parent", nil, zk.EphemeralSequential))
	c.call(wire.OpCreate, createBody("/a/mode", nil, 77))
	c.call(wire.OpSetData, setBody("/a", []byte("yy")))
	c.call(wire.OpSetData, setBody("/none", nil))
	world := []zk.ACL{{Perms: zk.PermAll, ID: zk.ID{Scheme: "world", ID: "anyone"}}}
	two := append(world, zk.ACL{Perms: zk.PermRead | zk.PermAdmin, ID: zk.ID{Scheme: "ip", ID: "10.0.0.0/8"}})
	c.call(wire.OpSetACL, (&wire.SetACLRequest{Path: "/a", ACL: two, Version: -1}).Append(nil))
	c.call(wire.OpSetACL, (&wire.SetACLRequest{Path: "/none", ACL: world, Version: -1}).Append(nil))
	c.call(wire.OpSetACL, (&wire.SetACLRequest{Path: "/a", ACL: world, Version: 9}).Append(nil))
	c.call(wire.OpGetData, readBody("/a", false))
	c.call(wire.OpExists, readBody("/none", false))
	c.call(wire.OpSync, readBody("/", false)[:5])
	c.call(wire.OpMulti, auditMulti(wire.OpCreate, "/m", wire.OpSetData, "/m", wire.OpCheck, "/m", wire.OpCreate2, "/n", wire.OpDelete, "/m"))
	c.call(wire.OpMulti, auditMulti(wire.OpCreate, "/m", wire.OpDelete, "/none"))
	c.call(wire.OpMulti, auditMulti())
	c.call(wire.OpDelete, deleteBody("/n"))
	c.call(wire.OpDelete, deleteBody("/a"))
	c.call(wire.OpDelete, deleteBody("/nope"))
	c.call(wire.OpReconfig, auditReconfig())
	c.call(wire.OpCloseSession, nil)
}

func auditReconfig() []byte {
	b := jute.AppendString(nil, "server.2=h:1:2;3")
	b = jute.AppendString(b, "")
	b = jute.AppendString(b, "")
	return jute.AppendLong(b, -1)
}

// auditMulti is the body of a multi; each operation is followed by its path.
func auditMulti(ops ...any) (b []byte) {
	for i := 0; i < len(ops); i += 2 {
		op, path := ops[i].(wire.OpCode), ops[i+1].(string)
		b = wire.MultiHeader{Type: op, Err: -1}.Append(b)
		switch op {
		case wire.OpSetData:
			b = append(b, setBody(path, []byte("z"))...)
		case wire.OpDelete, wire.OpCheck:
			b = append(b, deleteBody(path)...)
		default:
			b = append(b, createBody(path, nil, zk.Persistent)...)
		}
	}
	return wire.AppendMultiEnd(b)
}

// bare removes what differs from run to run: what is before the first field, the session, and
// the user that the server runs as. The users of a connection are sorted.
func bare(line string) string {
	if at := strings.Index(line, "session="); at >= 0 {
		line = line[at:]
	} else if at := strings.Index(line, "user="); at >= 0 {
		line = line[at:]
	}
	line = regexp.MustCompile(`session=0x[0-9a-f]+`).ReplaceAllString(line, "session=S")
	line = regexp.MustCompile(`ip=[^\t]+`).ReplaceAllString(line, "ip=A")
	return regexp.MustCompile(`user=[^\t]+`).ReplaceAllStringFunc(line, func(s string) string {
		users := strings.Split(s[len("user="):], ",")
		for i, u := range users {
			if strings.Count(u, ".") == 3 {
				users[i] = "A"
			} else if len(users) == 1 {
				users[i] = "SERVER"
			}
		}
		slices.Sort(users)
		return "user=" + strings.Join(users, ",")
	})
}

// auditGolden has the lines of Apache 3.8.0 and 3.9.3, which are the same. Those after "+ " are
// ours alone: of TTL znodes, as in 3.9.4, and of a create with an unknown mode.
const auditGolden = "testdata/audit.txt"

// compareAudit compares the lines of a log with the recorded ones.
func compareAudit(t *testing.T, log string, apache bool) {
	t.Helper()
	var got strings.Builder
	for line := range strings.Lines(log) {
		if strings.Contains(line, "operation=") && !strings.Contains(line, "operation=server") {
			got.WriteString(bare(line))
		}
	}
	want, err := os.ReadFile(auditGolden)
	if err != nil {
		t.Fatal(err)
	}
	var expected strings.Builder
	for line := range strings.Lines(string(want)) {
		if line, ours := strings.CutPrefix(line, "+ "); !ours || !apache {
			expected.WriteString(line)
		}
	}
	if diff := cmp.Diff(expected.String(), got.String()); diff != "" {
		t.Errorf("(-recorded +now):\n%s", diff)
	}
}

// Every operation has the lines that it has in Apache.
func TestAuditedAsByApache(t *testing.T) {
	if *auditServer != "" {
		auditScenario(t, func() net.Conn { return dial(t, *auditServer) })
		log, err := os.ReadFile(*auditLines)
		if err != nil {
			t.Fatal(err)
		}
		compareAudit(t, string(log), true)
		return
	}
	synctest.Test(t, func(t *testing.T) {
		out := &auditOutput{}
		r := auditedRig(t, out, audit.Options{})
		auditScenario(t, r.pipe)
		synctest.Wait()
		compareAudit(t, out.String(), false)
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
		c.mustCall(wire.OpMulti, auditMulti(wire.OpSetData, "/a"))
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
