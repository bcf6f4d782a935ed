package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/pinfold-zk/pinfold/test/inproc"
)

// A typist is the person at a terminal in memory.
type typist struct {
	*rig
	keys      *io.PipeWriter
	interrupt func() // as Ctrl-C does to a command that runs
	ended     chan error
}

// atTerminal runs an interactive shell in a bubble. f types; what it does not
// end ends with Ctrl-D. want is the status that the shell ends with.
func atTerminal(t *testing.T, c console, want int, f func(p *typist)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, inproc.Start(t), nil)
		from, keys := io.Pipe()
		p := &typist{rig: r, keys: keys, ended: make(chan error, 1)}
		c.ReadWriter = struct {
			io.Reader
			io.Writer
		}{from, r.out}
		c.raw = func() (func(), error) { return func() {}, nil }
		if c.size == nil {
			c.size = func() (int, int) { return 80, 24 }
		}
		c.interruptible = func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, stop := context.WithCancel(ctx)
			p.interrupt = stop
			return ctx, stop
		}
		go func() { p.ended <- r.interact(t.Context(), &c) }()
		synctest.Wait()
		f(p)
		keys.Write([]byte{'D' & 0x1f})
		keys.Close()
		if err := <-p.ended; ExitStatus(err) != want {
			t.Errorf("the shell ended with status %d, want %d", ExitStatus(err), want)
		}
		r.disconnect()
	})
}

var controls = regexp.MustCompile(`\x1b\[[0-9;]*[A-Za-z]`)

// types presses keys, and returns what the terminal shows then: without the
// movements of the cursor.
func (p *typist) types(keys string) string {
	p.t.Helper()
	p.out.take()
	if _, err := p.keys.Write([]byte(keys)); err != nil {
		p.t.Fatal(err)
	}
	synctest.Wait()
	return strings.ReplaceAll(controls.ReplaceAllString(p.out.take(), ""), "\r\n", "\n")
}

func (p *typist) expect(keys, want string) {
	p.t.Helper()
	if got := p.types(keys); !strings.Contains(got, want) {
		p.t.Errorf("%q shows %q, want %q", keys, got, want)
	}
}

func TestInteractive(t *testing.T) {
	atTerminal(t, console{}, statusOK, func(p *typist) {
		first := p.out.take()
		for _, want := range []string{"Connecting to 10.0.0.1:2181", "state:SyncConnected type:None", "[zk: 10.0.0.1:2181(CONNECTED) 0] "} {
			if !strings.Contains(first, want) {
				t.Errorf("the shell begins with %q, not %q", first, want)
			}
		}
		p.expect("ls /\r", "[zookeeper]\n[zk: 10.0.0.1:2181(CONNECTED) 1] ")
		p.expect("create /a x\r", "Created /a\n")
		p.expect("get /nope\r", "Node does not exist: /nope\n")
		p.expect("\r", "CONNECTED) 3] ")
		p.expect("\x1b[A\x1b[A\r", "Node already exists: /a\n") // two lines back
		p.expect("get /a\x03", "")
		p.expect("\x03", "quit or Ctrl-D ends the shell")
		p.expect("ls /\r", "[a, zookeeper]\n")
	})
}

// An event is printed above the line that is being typed, which is shown again.
func TestEventsLeaveTheLineAlone(t *testing.T) {
	atTerminal(t, console{}, statusOK, func(p *typist) {
		p.types("create /a x\r")
		p.types("get -w /a\r")
		p.types("ls /half")
		other := newRig(p.t, p.server, nil)
		other.must("set /a y")
		synctest.Wait()
		got := strings.ReplaceAll(controls.ReplaceAllString(p.out.take(), ""), "\r\n", "\n")
		want := "\nWATCHER::\n\nWatchedEvent state:SyncConnected type:NodeDataChanged path:/a\n[zk: 10.0.0.1:2181(CONNECTED) 2] ls /half"
		if !strings.HasSuffix(got, want) {
			t.Errorf("the terminal shows %q, want %q", got, want)
		}
		other.disconnect()
		p.expect("\r", "Node does not exist: /half")
		p.types("ls /\r")
	})
}

// The prompt says at once that the connection is lost, and found again.
func TestThePromptKnowsTheConnection(t *testing.T) {
	atTerminal(t, console{}, statusOK, func(p *typist) {
		p.types("ls /\r")
		p.server.Stop()
		synctest.Wait()
		p.expect("x", "")
		p.prompt.mu.Lock()
		if got := p.prompt.state; got != "CONNECTING" {
			t.Errorf("the prompt says %s", got)
		}
		p.prompt.mu.Unlock()
		p.server.Start()
		p.types("\x15")
		p.types("sync /\r")
		p.expect("", "")
		p.expect("ls /\r", "(CONNECTED) 3] ")
	})
}

// Ctrl-C ends a command and not the shell.
func TestAnInterruptEndsTheCommand(t *testing.T) {
	atTerminal(t, console{}, statusFailed, func(p *typist) {
		p.types("ls /\r")
		p.server.Stop()
		synctest.Wait()
		p.types("get /zookeeper\r")
		p.out.take()
		p.interrupt()
		synctest.Wait()
		if got := p.out.take(); !strings.Contains(got, "Interrupted") || !strings.Contains(got, " 2] ") {
			t.Errorf("the terminal shows %q", got)
		}
		p.server.Start()
	})
}

func TestTab(t *testing.T) {
	atTerminal(t, console{}, statusOK, func(p *typist) {
		for _, line := range []string{
			"create /app", "create /app/one", "create /app/only", `create "/app/two words"`, "create /apple", "create /app/one/x",
			"create /long",
		} {
			p.types(line + "\r")
		}
		for i := range completeMost + 5 {
			p.types(fmt.Sprintf("create /long/n%03d\r", i))
		}
		for _, c := range []struct{ keys, want string }{
			{"prin\t", "printwatches "},
			{"get\tA\t", "getAcl "},
			{"s\t", "setAcl"},
			{"ls -\t", "-R"},
			{"ls --rec\t", "--recursive "},
			{"reconfig -m\t", "-members "},
			{"ls /ap\t", "ls /app"},
			{"ls /app\t", "apple"},
			{"ls /app/t\t", `ls "/app/two words" `},
			{"ls '/app/t\t", `ls '/app/two words' `},
			{"ls /app/o\t", "ls /app/on"},
			{"ls /app/one\t\t", "ls /app/one/x "},
			{"ls /long/n\t", ""},
			{"ls /long/n\t\t", "and 5 more"},
			{"time get /app/onl\t", "time get /app/only "},
			{"help dele\t", "help delete"},
			{"ls /nothing\t", "ls /nothing"},
			{"get \t", "get /"},
		} {
			p.expect(c.keys, c.want)
			p.types("\x15")
		}
		p.types("ls /\r")
	})
}

func TestCompletionForShells(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		r.must("create /app")
		r.must("create /apple")
		for _, c := range []struct {
			args  []string
			begun string
			want  []string
		}{
			{nil, "getA", []string{"getAcl", "getAllChildrenNumber"}},
			{[]string{"ls"}, "/ap", []string{"/app", "/apple"}},
			{[]string{"ls", "-s"}, "/apple", []string{"/apple"}},
			{[]string{"ls"}, "-s", []string{"-s"}},
			{[]string{"nothing"}, "/", nil},
			{[]string{"set", "/app"}, "/", nil},
		} {
			if got := Complete(context.Background(), r.opts, c.args, c.begun); !slices.Equal(got, c.want) {
				t.Errorf("%q %q: %q, want %q", c.args, c.begun, got, c.want)
			}
		}
		r.server.Stop()
		if got := Complete(context.Background(), r.opts, []string{"ls"}, "/"); got != nil {
			t.Errorf("without a server: %q", got)
		}
		r.server.Start()
	})
}

func TestCompleteFile(t *testing.T) {
	dir := t.TempDir() + "/"
	for _, name := range []string{"one", "other", ".hidden"} {
		if err := os.WriteFile(dir+name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(dir+"sub", 0o700); err != nil {
		t.Fatal(err)
	}
	for begun, want := range map[string][]string{
		"": {"one", "other", "sub/"}, "o": {"one", "other"}, "s": {"sub/"}, ".": {".hidden"}, "none/": nil,
	} {
		for i, w := range want {
			want[i] = dir + w
		}
		if got := completeFile(dir + begun); !slices.Equal(got.words, want) {
			t.Errorf("%q: %q, want %q", begun, got.words, want)
		}
	}
}

func TestHistoryFile(t *testing.T) {
	env := func(pairs ...string) func(string) string {
		return func(name string) string {
			i := slices.Index(pairs, name)
			if i < 0 {
				return ""
			}
			return pairs[i+1]
		}
	}
	for _, c := range []struct {
		getenv func(string) string
		want   string
	}{
		{env("XDG_STATE_HOME", "/s", "HOME", "/h"), "/s/pinfold/history"},
		{env("XDG_STATE_HOME", "not/absolute", "HOME", "/h"), "/h/.local/state/pinfold/history"},
		{env("HOME", "/h"), "/h/.local/state/pinfold/history"},
		{env(), ""},
	} {
		if got := historyFile(c.getenv); got != c.want {
			t.Errorf("historyFile = %q, want %q", got, c.want)
		}
	}
}

// Lines are there in the next run, nobody else can read them, secrets are not
// among them.
func TestHistoryIsKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state", "pinfold", "history")
	atTerminal(t, console{historyFile: file}, statusOK, func(p *typist) {
		p.types("create /first x\r")
		p.types("  addauth digest me:secret\r")
		p.types("ls /\r")
	})
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatal(info, err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "create /first x\nls /\n" {
		t.Fatalf("%q, %v", text, err)
	}
	atTerminal(t, console{historyFile: file}, statusOK, func(p *typist) {
		p.expect("\x1b[A\x1b[A", "create /first x")
		p.types("\x15")
		p.expect("fir\x12", "create /first x") // Ctrl-R
		p.expect("\r", "Created /first")
	})
}

func TestHistoryDoesNotGrowForever(t *testing.T) {
	file := filepath.Join(t.TempDir(), "history")
	var lines bytes.Buffer
	for i := range 2 * keptLines {
		fmt.Fprintf(&lines, "ls /%d\n", i)
	}
	if err := os.WriteFile(file, lines.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	p := openHistory(file)
	if err := errors.Join(p.save("ls /last"), p.save("")); err != nil {
		t.Fatal(err)
	}
	p = openHistory(file)
	if p.Len() > keptLines || p.At(0) != "ls /last" || p.At(1) != fmt.Sprintf("ls /%d", 2*keptLines-1) {
		t.Errorf("%d lines, the last are %q, %q", p.Len(), p.At(0), p.At(1))
	}
}

func TestSearchGoesBack(t *testing.T) {
	p := &pastLines{lines: []string{"get /a", "ls /", "get /b", "set /a"}}
	var got []string
	for line, ok := p.search("get"); ok; line, ok = p.search(line) {
		got = append(got, line)
	}
	if want := []string{"get /b", "get /a"}; !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

// Output that does not fit on the screen goes to the pager whole; what does fit,
// and what somebody waits for, does not.
func TestPager(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		file := filepath.Join(t.TempDir(), "paged")
		r.console = &console{size: func() (int, int) { return 20, 5 }, pager: []string{"tee", file}}
		for i := range 10 {
			r.must(fmt.Sprintf("create /n%d", i))
		}
		r.format = table
		if got := r.must("ls /zookeeper"); got != "NAME\nconfig\nquota\n" {
			t.Errorf("ls = %q", got)
		}
		if _, err := os.Stat(file); err == nil {
			t.Error("the pager was started for three lines")
		}
	})
}

func TestPagerGetsAll(t *testing.T) {
	file := filepath.Join(t.TempDir(), "paged")
	var screen bytes.Buffer
	s := &shell{out: newScreen(&screen), console: &console{
		size: func() (int, int) { return 20, 5 }, pager: []string{"sh", "-c", "cat > " + file},
	}}
	p := &pager{s: s}
	var all string
	for i := range 50 {
		line := fmt.Sprintf("line %d\n", i)
		all += line
		if _, err := p.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	fmt.Fprint(s.out, "an event\n") // waits until the terminal is ours again
	if got, want := screen.String(), all[:strings.Index(all, "line 4")]; got != want {
		t.Errorf("the screen shows %q, want %q", got, want)
	}
	if err := p.finish(); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != all {
		t.Errorf("the pager has %q, %v", text, err)
	}
	if !strings.HasSuffix(screen.String(), "line 3\nan event\n") {
		t.Errorf("the screen shows %q", screen.String())
	}

	// A user who has seen enough ends the command.
	s.console.pager = []string{"true"}
	p = &pager{s: s}
	var err error
	for i := 0; err == nil && i < 1e6; i++ {
		_, err = p.Write([]byte("line\n"))
	}
	if !errors.Is(err, errPaged) {
		t.Errorf("Write = %v", err)
	}
	if err := p.finish(); err != nil {
		t.Errorf("finish = %v", err)
	}
}

func TestPagerCommand(t *testing.T) {
	for pager, want := range map[string]string{"less -S": "less -S", "cat": "", "most": "most"} {
		got := pagerCommand(func(string) string { return pager })
		if strings.Join(got, " ") != want {
			t.Errorf("PAGER=%q: %q", pager, got)
		}
	}
	if got := screenRows([]byte("a\n"+strings.Repeat("x", 41)+"\n\n"), 20); got != 5 {
		t.Errorf("screenRows = %d, want 5", got)
	}
}

// setAcl asks before it takes the right to change the ACL again from the session, and
// only then.
func TestSetACLThatLocksOutAsks(t *testing.T) {
	atTerminal(t, console{}, statusOK, func(p *typist) {
		p.types("create /a x\r")
		const question = "This session will not be able to change the ACL of /a any more: no entry with admin (a) includes it.\nGo on? (yes/no) "
		for _, line := range []string{"setAcl /a world:anyone:r", "setAcl -R /a digest:me:hash:cdrwa", "setAcl /a ip:10.200.0.0/16:a"} {
			p.expect(line+"\r", question)
			p.expect("no\r", "the ACL is not changed\n")
		}
		p.expect("setAcl /a world:anyone:r\r", question)
		p.expect("\r", "the ACL is not changed\n")
		p.expect("getAcl /a\r", ": cdrwa\n")
		p.types("addauth digest me:secret\r")
		for _, line := range []string{
			"setAcl /a auth::cdrwa", "setAcl /a world:anyone:a", "setAcl /a digest:me:" + secretsHash + ":a", "setAcl /a ip:10.0.0.0/8:a",
		} {
			if got := p.types(line + "\r"); strings.Contains(got, "Go on?") {
				t.Errorf("%s shows %q", line, got)
			}
		}
		p.types("setAcl /a world:anyone:cdrwa\r")
		p.expect("setAcl /a world:anyone:r\r", question)
		p.expect("yes\r", "CONNECTED)")
		p.expect("getAcl /a\r", ": r\n")
		p.expect("\x1b[A\x1b[A", "setAcl /a world:anyone:r") // the answer is not in the history
		p.types("\x15")
		p.expect("ls /\r", "[a, zookeeper]\n")
	})
}

// secretsHash is the SHA-1 of me:secret, in base64.
const secretsHash = "016djjlksVQS5RgX3M7biBGyYwY="
