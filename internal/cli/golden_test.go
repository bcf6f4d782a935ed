package cli

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/test/inproc"
)

// ensembles are two servers, by the addresses that commands know them by.
type ensembles map[string]*inproc.Server

const (
	firstServer  = "10.0.0.1:2181"
	secondServer = "10.0.0.2:2181"
)

func startTwo(t testing.TB) ensembles {
	return ensembles{firstServer: inproc.Start(t), secondServer: inproc.Start(t)}
}

func (e ensembles) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return e[addr].Dial(ctx, network, addr)
}

// A session is a shell whose commands a test runs, one after the other.
type testShell struct {
	t         testing.TB
	s         *shell
	out, errs bytes.Buffer
}

func (e ensembles) shell(t testing.TB, opts ...client.Option) *testShell {
	ts := &testShell{t: t}
	s, err := newShell(Options{
		Servers: firstServer, Timeout: 30 * time.Second, Out: &ts.out, Err: &ts.errs, In: strings.NewReader(""),
		dialOptions: append([]client.Option{client.Dialer(e.dial)}, opts...),
	})
	if err != nil {
		t.Fatal(err)
	}
	ts.s = s
	t.Cleanup(s.disconnect)
	return ts
}

// run runs a line. It returns what was printed, and the exit status.
func (ts *testShell) run(line string) (out, errs string, status int) {
	ts.t.Helper()
	err := ts.s.execute(ts.t.Context(), line)
	out, errs = ts.out.String(), ts.errs.String()
	ts.out.Reset()
	ts.errs.Reset()
	return out, errs, ExitStatus(err)
}

// must is run for what must not fail.
func (ts *testShell) must(line string) string {
	ts.t.Helper()
	out, errs, status := ts.run(line)
	if status != 0 {
		ts.t.Fatalf("%s: status %d\n%s%s", line, status, out, errs)
	}
	return out
}

// TestCommands runs the scripts of testdata/commands, each in a bubble that has two
// ensembles and begins in the year 2000. Of a test
//
//	run
//	tree /app
//	----
//	/app
//
// the lines are commands; what goes to the error stream has "! " before it, and
// an exit status that is not 0 follows. $DIR is a directory of the script, "file
// NAME" writes one there, and "show NAME" prints it. "input" gives the next command
// its input.
func TestCommands(t *testing.T) {
	datadriven.Walk(t, "testdata/commands", func(t *testing.T, script string) {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			ts := startTwo(t).shell(t)
			datadriven.RunTest(t, script, func(t *testing.T, d *datadriven.TestData) string {
				switch d.Cmd {
				case "run":
					return ts.script(d.Input, dir)
				case "input":
					ts.s.in = strings.NewReader(d.Input + "\n")
					return ""
				case "output":
					if err := ts.s.format.Set(d.CmdArgs[0].Key); err != nil {
						t.Fatal(err)
					}
					return ""
				case "file":
					if err := os.WriteFile(filepath.Join(dir, d.CmdArgs[0].Key), []byte(d.Input+"\n"), 0o600); err != nil {
						t.Fatal(err)
					}
					return ""
				case "show":
					text, err := os.ReadFile(filepath.Join(dir, d.CmdArgs[0].Key))
					if err != nil {
						return strings.ReplaceAll(err.Error(), dir, "$DIR")
					}
					return string(text)
				}
				t.Fatalf("%s: no such command", d.Cmd)
				return ""
			})
		})
	})
}

func (ts *testShell) script(lines, dir string) string {
	var b strings.Builder
	for line := range strings.Lines(lines) {
		out, errs, status := ts.run(strings.ReplaceAll(strings.TrimSpace(line), "$DIR", dir))
		b.WriteString(out)
		for e := range strings.Lines(errs) {
			b.WriteString("! " + strings.TrimSuffix(e, "\n") + "\n")
		}
		if status != 0 {
			fmt.Fprintf(&b, "status %d\n", status)
		}
	}
	return strings.ReplaceAll(b.String(), dir, "$DIR")
}
