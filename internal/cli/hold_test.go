//go:build unix

package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/recipe"
	"github.com/pinfold-zk/pinfold/test/inproc"
	"github.com/pinfold-zk/pinfold/zk"
)

// holders are the commands that hold something while another runs, with the
// options that make them. Processes take real time, so these tests do too.
func holders() []string { return []string{"lock", "elect"} }

// runWords runs one command with the shell's own output.
func (ts *testShell) runWords(ctx context.Context, words ...string) (out, errs string, status int) {
	err := ts.s.runWords(ctx, words)
	out, errs = ts.out.String(), ts.errs.String()
	ts.out.Reset()
	ts.errs.Reset()
	return out, errs, ExitStatus(err)
}

func TestHoldRunsCommand(t *testing.T) {
	for _, name := range holders() {
		e := startTwo(t)
		ts := e.shell(t)
		ts.must("create /x")
		var last int64
		for range 2 {
			out, errs, status := ts.runWords(t.Context(), name, "/x", "--", "sh", "-c", `echo "$PINFOLD_FENCING_TOKEN $PINFOLD_HELD_PATH"; exit 7`)
			token, path, _ := strings.Cut(strings.TrimSpace(out), " ")
			n, err := strconv.ParseInt(token, 10, 64)
			if status != 7 || errs != "" || err != nil || n <= last || !strings.HasPrefix(path, "/x/") {
				t.Errorf("%s: status %d, output %q, %q; %v", name, status, out, errs, err)
			}
			last = n
			// It has been given back.
			if out := ts.must("ls /x"); out != "[]\n" {
				t.Errorf("%s: %s", name, out)
			}
		}
	}
}

func TestHoldStatus(t *testing.T) {
	plainFile := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plainFile, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ts := startTwo(t).shell(t)
	for _, test := range []struct {
		command []string
		status  int
		says    string
	}{
		{[]string{"true"}, 0, ""},
		{[]string{"sh", "-c", "exit 3"}, 3, ""},
		{[]string{"sh", "-c", "kill -9 $$"}, 137, ""},
		{[]string{"no-such-command-here"}, 127, "not found"},
		{[]string{plainFile}, 126, "permission denied"},
		{[]string{}, 2, "needs 2 arguments"},
		{[]string{"--"}, 2, "the command is missing"},
		{[]string{"echo", "-n"}, 0, ""},
	} {
		for _, name := range holders() {
			_, errs, status := ts.runWords(t.Context(), append([]string{name, "/x"}, test.command...)...)
			if status != test.status || !strings.Contains(errs, test.says) || test.says == "" && errs != "" {
				t.Errorf("%s %q: status %d, want %d; %q", name, test.command, status, test.status, errs)
			}
		}
	}
}

func TestLockIsHeldByAnother(t *testing.T) {
	e := startTwo(t)
	other := e[firstServer].Client(t)
	held, err := recipe.NewLock(other, "/x").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ts := e.shell(t)
	for _, test := range []struct{ words, says string }{
		{"lock -n /x -- echo ran", "held"},
		{"lock --wait 20ms /x -- echo ran", "not had within 20ms"},
	} {
		out, errs, status := ts.run(test.words)
		if out != "" || status != 125 || !strings.Contains(errs, test.says) {
			t.Errorf("%s: status %d, %q, %q", test.words, status, out, errs)
		}
	}
	go held.Unlock(t.Context())
	if out := ts.must("lock /x -- echo ran"); out != "ran\n" {
		t.Error(out)
	}
}

// ready is an output that tells when the command has written to it.
type ready struct {
	text  bytes.Buffer
	wrote chan struct{}
}

func (r *ready) Write(p []byte) (int, error) {
	defer func() { r.wrote <- struct{}{} }()
	return r.text.Write(p)
}

func TestHoldIsLost(t *testing.T) {
	for _, name := range holders() {
		for _, script := range []string{
			`echo up; sleep 1000 & wait`,
			`trap '' TERM; echo up; sleep 1000 & wait; wait`, // will not end when asked
		} {
			e := startTwo(t)
			ts := e.shell(t)
			out := &ready{wrote: make(chan struct{}, 1)}
			ts.s.out.redirect(out)
			began := time.Now()
			go func() {
				<-out.wrote
				e[firstServer].Expire(ts.s.conn.SessionID())
			}()
			_, errs, status := ts.runWords(t.Context(), name, "--grace", "100ms", "/x", "--", "sh", "-c", script)
			if status != 125 || !regexp.MustCompile("the .* is lost").MatchString(errs) || time.Since(began) > 30*time.Second {
				t.Errorf("%s %s: status %d, %q, %v", name, script, status, errs, time.Since(began))
			}
		}
	}
}

func TestHoldIsInterrupted(t *testing.T) {
	for _, name := range holders() {
		ts := startTwo(t).shell(t)
		out := &ready{wrote: make(chan struct{}, 2)}
		ts.s.out.redirect(out)
		ctx, stop := context.WithCancel(t.Context())
		go func() {
			<-out.wrote
			stop()
		}()
		_, errs, status := ts.runWords(ctx, name, "--grace", "200ms", "/x", "--", "sh", "-c", `trap 'echo bye; exit 9' TERM; echo up; sleep 1000 & wait`)
		if status != 9 || errs != "" || out.text.String() != "up\nbye\n" {
			t.Errorf("%s: status %d, %q, %q", name, status, out.text.String(), errs)
		}
		ts.s.out.redirect(&ts.out)
		if list := ts.must("ls /x"); list != "[]\n" {
			t.Errorf("%s: %s", name, list)
		}
	}
}

// editor makes a command of a script the editor. $1 is the file.
func editor(t *testing.T, script string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "editor")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("VISUAL", "sh "+file)
	t.Setenv("TMPDIR", t.TempDir())
}

func TestEdit(t *testing.T) {
	e := startTwo(t)
	c := e[firstServer].Client(t)
	plantAll(t, c, "/text")
	put(t, c, "/lines", []byte("1\n2\n"))
	put(t, c, "/bin", []byte{0, 1})
	for _, test := range []struct {
		script, line string
		status       int
		says, after  string // in /text
	}{
		{`echo new > $1`, "edit /text", 0, "set, version 1", "new"},
		{`true`, "edit /text", 0, "not changed", "new"},
		{`echo >> $1`, "edit /text", 0, "not changed", "new"}, // as editors do
		{`printf 'a\nb\n' > $1`, "edit /text", 0, "set, version 2", "a\nb"},
		{`: > $1`, "edit /text", 0, "set, version 3", ""},
		{`echo no > $1; exit 1`, "edit /text", 1, "nothing is changed: the editor", ""},
		{`echo x > $1`, "edit /none", 1, "Node does not exist: /none", ""},
		{`echo x > $1`, "edit /bin", 1, "no text", ""},
		{`printf '\000\002' > $1`, "edit --binary /bin", 0, "set, version 1", ""},
		{`echo x > $1`, "edit --create /made", 0, "created", ""},
		{`true`, "edit --create /made2", 0, "created", ""},
		{`case $1 in *lines) printf '1\n' > $1;; esac`, "edit /lines", 0, "set, version 1", ""},
	} {
		editor(t, test.script)
		ts := e.shell(t)
		out, errs, status := ts.run(test.line)
		if out != "" || status != test.status || !strings.Contains(errs, test.says) {
			t.Errorf("%s: status %d, %q, %q", test.line, status, out, errs)
		}
		if data, _, err := c.Get(t.Context(), "/text"); string(data) != test.after || err != nil {
			t.Errorf("%s: %s: %q, %v", test.script, test.line, data, err)
		}
		if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "pinfold-*")); len(left) > 0 {
			t.Errorf("%s leaves %q", test.line, left)
		}
	}
	for path, want := range map[string]string{"/bin": "\x00\x02", "/made": "x", "/made2": "", "/lines": "1\n"} {
		if data, _, err := c.Get(t.Context(), path); string(data) != want || err != nil {
			t.Errorf("%s: %q, %v", path, data, err)
		}
	}
}

// Somebody else sets the data while it is edited: the edit is kept.
func TestEditConflict(t *testing.T) {
	e := startTwo(t)
	c := e[firstServer].Client(t)
	plantAll(t, c, "/text")
	flag := filepath.Join(t.TempDir(), "flag")
	editor(t, "echo mine > $1; until [ -e "+flag+" ]; do :; done")
	ts := e.shell(t)
	go func() {
		for {
			if files, _ := filepath.Glob(filepath.Join(os.TempDir(), "pinfold-*")); len(files) > 0 {
				break
			}
		}
		if _, err := c.Set(t.Context(), "/text", []byte("theirs"), -1); err != nil {
			t.Error(err)
		}
		if err := os.WriteFile(flag, nil, 0o600); err != nil {
			t.Error(err)
		}
	}()
	_, errs, status := ts.run("edit /text")
	m := regexp.MustCompile("your edit is in (.*)\n").FindStringSubmatch(errs)
	if status != 1 || m == nil {
		t.Fatalf("status %d, %q", status, errs)
	}
	if kept, err := os.ReadFile(m[1]); string(kept) != "mine\n" || err != nil {
		t.Errorf("%q, %v", kept, err)
	}
	if data, _, err := c.Get(t.Context(), "/text"); string(data) != "theirs" || err != nil {
		t.Errorf("%q, %v", data, err)
	}
}

// An answer that is lost makes no difference.
func TestEditThroughLostAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, s *inproc.Server, c *client.Client) {
		plantAll(t, c, "/text")
		ts := ensembles{firstServer: s}.shell(t)
		s.LoseAnswer(wire.OpSetData, 0)
		if err := ts.s.setEdited(t.Context(), "/text", []byte("new"), 0); err != nil || s.Lost() != 1 {
			t.Fatal(err, s.Lost())
		}
		if data, stat, err := c.Get(t.Context(), "/text"); string(data) != "new" || stat.Version != 1 || err != nil {
			t.Error(string(data), stat, err)
		}
		if err := ts.s.setEdited(t.Context(), "/text", []byte("newer"), 0); ExitStatus(err) != 1 {
			t.Error(err)
		}
	})
}

// --names chooses the names; a queue with the names of another library is refused,
// and the error says which znode it is and which --names fits.
func TestHoldNames(t *testing.T) {
	e := startTwo(t)
	other := e[firstServer].Client(t)
	put(t, other, "/mixed", nil)
	put(t, other, "/writers", nil)
	const kazoos = "/mixed/0b1f8a2e11112222333344445555666a__lock__"
	foreign, err := other.Create(t.Context(), kazoos, nil, zk.EphemeralSequential, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Create(t.Context(), "/writers/_c_0b1f8a2e-1111-2222-3333-444455556666-__WRIT__", nil, zk.EphemeralSequential, nil); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		words  string
		status int
		out    string // pattern
		says   string // pattern
	}{
		{"lock /x", 0, `-lock-\d{10}\n$`, "^$"},
		{"lock --names curator /x", 0, `/_c_.*-lock-\d{10}\n$`, "^$"},
		{"lock --names kazoo /x", 0, `/[0-9a-f]{32}__lock__\d{10}\n$`, "^$"},
		{"lock --names zookeeper /x", 0, `/[0-9a-f-]{36}-lock-\d{10}\n$`, "^$"},
		{"elect /x", 0, `/_c_.*-latch-\d{10}\n$`, "^$"},
		{"elect --names selector /x", 0, `/_c_.*-lock-\d{10}\n$`, "^$"},
		{"elect --names kazoo /x", 0, `__lock__\d{10}\n$`, "^$"},
		{"elect --names zookeeper /x", 0, `-n_\d{10}\n$`, "^$"},
		{"lock --names selector /x", 2, "^$", `--names "selector": must be curator\|kazoo\|zookeeper`},
		{"lock /mixed", 125, "^$", regexp.QuoteMeta(foreign) + ` would not wait .*--names curator.*\n\(use --names kazoo `},
		{"lock -n --names zookeeper /mixed", 125, "^$", `\(use --names kazoo `},
		{"elect /mixed", 125, "^$", regexp.QuoteMeta(foreign) + `(.*\n)*.*use --names kazoo `},
		{"lock -n --names kazoo /mixed", 125, "^$", "held by others"},
		{"lock /writers", 125, "^$", `no --names fits it: use another path`},
	} {
		words := append(strings.Fields(test.words), "--", "sh", "-c", `echo "$PINFOLD_HELD_PATH"`)
		ts := e.shell(t)
		out, errs, status := ts.runWords(t.Context(), words...)
		if status != test.status || !regexp.MustCompile(test.out).MatchString(out) || !regexp.MustCompile(test.says).MatchString(errs) {
			t.Errorf("%s: status %d, %q, %q; want %d, %q, %q", test.words, status, out, errs, test.status, test.out, test.says)
		}
	}
}
