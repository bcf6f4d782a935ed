package audit

import (
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/test/faultfs"
	"github.com/pinfold-zk/pinfold/zk"
)

var quiet = slog.New(slog.DiscardHandler)

// output is an Output in memory.
type output struct {
	mu    sync.Mutex
	text  strings.Builder
	fails int           // so many writes fail
	hangs chan struct{} // not nil: writes wait until it is closed
}

func (o *output) Write(p []byte) (int, error) {
	if o.hangs != nil {
		<-o.hangs
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.fails > 0 {
		o.fails--
		n, _ := o.text.Write(p[:len(p)/2]) // it never fails
		return n, errors.New("no room")
	}
	return o.text.Write(p)
}

func (o *output) Close() error { return nil }

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func newLog(out Output, change func(*Options)) *Log {
	o := Options{Output: out, Class: "o.a.z.a.Slf4jAuditLogger", User: "zookeeper", Limit: 1 << 20, Logger: quiet}
	if change != nil {
		change(&o)
	}
	return New(o)
}

var sample = Entry{
	Session: 0x1000022aa080000, Users: "bob,127.0.0.1", IP: "127.0.0.1", Operation: Create, Path: "/q", Type: "persistent", Result: Success,
	Details: &Details{Zxid: 0x200000003, OldVersion: -1, NewVersion: 0, Size: 5},
}

func TestLines(t *testing.T) {
	began := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Local().Format(time.DateTime) // as in every bubble
	hostile := Entry{Users: "a\tresult=success", Operation: Delete, Path: "/x\n\\\u0001\u2028ü\xff", Result: Failure}
	for _, c := range []struct {
		name   string
		change func(*Options)
		want   []string
	}{
		{"text", nil, []string{
			began + ",000 INFO o.a.z.a.Slf4jAuditLogger: session=0x1000022aa080000\tuser=bob,127.0.0.1\tip=127.0.0.1\toperation=create\tznode=/q\tznode_type=persistent\tresult=success\n",
			began + ",000 ERROR o.a.z.a.Slf4jAuditLogger: user=a\\tresult=success\toperation=delete\tznode=/x\\n\\\\\\u0001\\u2028ü\ufffd\tresult=failure\n",
		}},
		{"details", func(o *Options) { o.Details = true }, []string{
			began + ",000 INFO o.a.z.a.Slf4jAuditLogger: session=0x1000022aa080000\tuser=bob,127.0.0.1\tip=127.0.0.1\toperation=create\tznode=/q\tznode_type=persistent\tresult=success\tzxid=0x200000003\tnew_version=0\tsize=5\n",
			began + ",000 ERROR o.a.z.a.Slf4jAuditLogger: user=a\\tresult=success\toperation=delete\tznode=/x\\n\\\\\\u0001\\u2028ü\ufffd\tresult=failure\n",
		}},
		{"json", func(o *Options) { o.JSON = true }, []string{
			`{"time":"2000-01-01T00:00:00.000Z","level":"INFO","session":"0x1000022aa080000","user":"bob,127.0.0.1","ip":"127.0.0.1","operation":"create","znode":"/q","znode_type":"persistent","result":"success"}` + "\n",
			`{"time":"2000-01-01T00:00:00.000Z","level":"ERROR","user":"a\tresult=success","operation":"delete","znode":"/x\n\\\u0001\u2028ü` + `\ufffd` + `","result":"failure"}` + "\n",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				out := &output{}
				l := newLog(out, c.change)
				l.Write(&sample)
				l.Write(&hostile)
				if err := l.Close(); err != nil {
					t.Error(err)
				}
				if diff := cmp.Diff(c.want, strings.SplitAfter(out.String(), "\n")[:2]); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// No text from outside makes a second line or field, or breaks the JSON.
func FuzzLine(f *testing.F) {
	f.Add("a\tb", "/\n", "x\\n\r\x00\u0085\u2029")
	f.Fuzz(func(t *testing.T, user, path, acl string) {
		l := &Log{}
		e := Entry{Users: "u" + user, Operation: SetACL, Path: "/" + path, ACL: "a" + acl, Result: Success}
		line := string(l.append(nil, time.Unix(0, 0), &e))
		if strings.Count(line, "\n") != 1 || strings.Count(line, "\t") != 4 || !strings.HasSuffix(line, "\tresult=success\n") {
			t.Errorf("%q", line)
		}
		l.o.JSON = true
		var m map[string]string
		if err := json.Unmarshal(l.append(nil, time.Unix(0, 0), &e), &m); err != nil || len(m) != 7 {
			t.Errorf("%v: %v", m, err)
		}
	})
}

func TestNames(t *testing.T) {
	acl := []zk.ACL{{Perms: zk.PermAll, ID: zk.ID{Scheme: "world", ID: "anyone"}}, {Perms: zk.PermRead, ID: zk.ID{Scheme: "digest", ID: "bob:hash"}}}
	if got, want := ACLText(acl), "world:anyone:cdrwadigest:bob:***:r"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := ModeName(99) + ModeName(-1); got != "" {
		t.Errorf("an unknown mode is %q", got)
	}
}

// A failed write is tried again, without a line that is lost or written twice.
func TestOutputFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &output{fails: 3}
		l := newLog(out, nil)
		l.Write(&sample)
		time.Sleep(4 * retryAfter)
		l.Write(&sample)
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if text := out.String(); strings.Count(text, "\n") != 2 || strings.Count(text, "session=") != 2 {
			t.Errorf("%q", text)
		}
		if n := l.Stats().Failed.Load(); n != 3 {
			t.Errorf("%d failures are counted", n)
		}
	})
}

// While the output hangs, the queue is full, and what may be lost is counted; then a line says
// so.
func TestOutputHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &output{hangs: make(chan struct{})}
		l := newLog(out, func(o *Options) { o.Limit = 300 })
		if l.Full() != nil {
			t.Error("an empty queue is full")
		}
		l.Write(&sample)
		l.Write(&sample)
		room := l.Full()
		if room == nil {
			t.Fatal("the queue is not full")
		}
		for range 10 {
			l.WriteIfRoom(&sample)
		}
		lost := l.Stats().Lost.Load()
		if lost < 5 || l.Queued() > 1000 {
			t.Errorf("%d lost, %d bytes queued", lost, l.Queued())
		}
		close(out.hangs)
		<-room
		synctest.Wait()
		l.Write(&sample)
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if text := out.String(); strings.Count(text, "session=") != 13-int(lost) || strings.Count(text, "auditLinesLost\tresult=failure\tlines=") != 1 {
			t.Errorf("%q", text)
		}
	})
}

// Close gives an output that hangs five seconds, and says what is lost.
func TestCloseHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &output{hangs: make(chan struct{})}
		l := newLog(out, nil)
		l.Write(&sample)
		start := time.Now()
		if err := l.Close(); !errors.Is(err, errUnwritten) {
			t.Error(err)
		}
		if waited := time.Since(start); waited != lastWords {
			t.Errorf("waited %v", waited)
		}
		close(out.hangs)
	})
}

func content(t *testing.T, fs vfs.FS, name string) string {
	t.Helper()
	f, err := fs.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1<<16)
	n, _ := f.Read(b) // the content is compared
	return string(b[:n])
}

func TestRotation(t *testing.T) {
	fs := vfs.NewMem()
	f, err := OpenFile(fs, "/audit/log", 8, 2, quiet)
	if err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		t.Helper()
		for len(text) > 0 {
			n, err := f.Write([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			text = text[n:]
		}
	}
	write("1\n22\n333\n4444\n55555\n")
	write("666666\n")
	write("a line that is longer than the file\n7\n")
	want := []string{"7\n", "a line that is longer than the file\n", "666666\n"}
	for i, name := range []string{"/audit/log", "/audit/log.1", "/audit/log.2"} {
		if got := content(t, fs, name); got != want[i] {
			t.Errorf("%s: %q, want %q", name, got, want[i])
		}
	}
	if names, err := fs.List("/audit"); err != nil || len(names) != 3 {
		t.Errorf("%v, %v", names, err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	again, err := OpenFile(fs, "/audit/log", 0, 0, quiet)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := again.Write([]byte("8\n")); err != nil {
		t.Error(err)
	}
	if got := content(t, fs, "/audit/log"); got != "7\n8\n" {
		t.Errorf("%q", got)
	}
}

// Whatever operation of the file system fails, each line is in one of the files.
func TestRotationFails(t *testing.T) {
	for at := 1; at < 40; at++ {
		synctest.Test(t, func(t *testing.T) {
			mem := vfs.NewMem()
			fs := faultfs.New(mem, 0, faultfs.None, nil)
			f, err := OpenFile(fs, "/audit/log", 100, 9, quiet)
			if err != nil {
				t.Fatal(err)
			}
			fs.Arm(at, faultfs.ShortWrite)
			l := newLog(f, nil)
			for range 8 {
				l.Write(&sample)
				synctest.Wait()
			}
			time.Sleep(2 * retryAfter)
			if err := l.Close(); err != nil {
				t.Errorf("operation %d: %v", at, err)
			}
			names, err := mem.List("/audit")
			if err != nil {
				t.Fatal(err)
			}
			lines := 0
			for _, name := range names {
				lines += strings.Count(content(t, mem, "/audit/"+name), "\tresult=success\n")
			}
			if lines != 8 {
				t.Errorf("operation %d: %d lines", at, lines)
			}
		})
	}
}

func BenchmarkWrite(b *testing.B) {
	l := newLog(nowhere{}, nil)
	b.ReportAllocs()
	for b.Loop() {
		l.Write(&sample)
	}
	b.StopTimer()
	if err := l.Close(); err != nil {
		b.Error(err)
	}
}

type nowhere struct{}

func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (nowhere) Close() error                { return nil }
