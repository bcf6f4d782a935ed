package cli

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
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// What a program sees of it: the statuses that docs/cli.md promises.
func TestExitStatus(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(o *Options)
		status int
		out    string
	}{
		{"a command", func(o *Options) { o.Args = []string{"ls", "/"} }, statusOK, "[zookeeper]\n"},
		{"an argument with spaces", func(o *Options) { o.Args = []string{"create", "/a b", "c d"} }, statusOK, ""},
		{"fails", func(o *Options) { o.Args = []string{"get", "/x"} }, statusFailed, ""},
		{"no command", func(o *Options) { o.Args = []string{"gett", "/x"} }, statusUsage, ""},
		{"no option", func(o *Options) { o.Args = []string{"get", "-y", "/x"} }, statusUsage, ""},
		{"help", func(o *Options) { o.Args = []string{"quit", "--help"} }, statusOK, "quit\n"},
		{"-c", func(o *Options) { o.Commands = "create /a; get /x; ls /" }, statusFailed, "[a, zookeeper]\n"},
		{"-c -e", func(o *Options) { o.Commands, o.Stop = "create /a; get /x; ls /", true }, statusFailed, ""},
		{"-c the first failure", func(o *Options) { o.Commands = "gett; get /x" }, statusUsage, ""},
		{"-c quit", func(o *Options) { o.Commands = "quit; ls /" }, statusOK, ""},
		{"input", func(o *Options) { o.In = strings.NewReader("# a comment\n\ncreate /a\nls /\n") }, statusOK, "[a, zookeeper]\n"},
		{"input that fails", func(o *Options) { o.In = strings.NewReader("get /x\nls /") }, statusFailed, "[zookeeper]\n"},
		{"no input", nil, statusOK, ""},
		{"no server", func(o *Options) {
			o.Args = []string{"ls", "/"}
			o.dialOptions = []client.Option{client.Dialer(refuse)}
		}, statusNoConnection, ""},
		{"no such format", func(o *Options) { o.Format = "xml" }, statusUsage, ""},
		{"a bad connect string", func(o *Options) { o.Servers, o.Args = "a:b:c", []string{"ls", "/"} }, statusUsage, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, nil, func(r *rig) {
				o := r.opts
				if c.change != nil {
					c.change(&o)
				}
				s, err := newShell(o)
				if err == nil {
					err = s.runBatch(context.Background())
					s.disconnect()
				}
				if got := ExitStatus(err); got != c.status {
					t.Errorf("status %d, want %d: %v %s", got, c.status, err, r.errs.take())
				}
				if out := r.out.take(); out != c.out && !strings.HasPrefix(out, "quit\n") {
					t.Errorf("output %q, want %q", out, c.out)
				}
			})
		})
	}
}

func refuse(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("connection refused")
}

// A connection is waited for a few seconds, or for as long as the session lasts.
func TestHowLongAConnectionIsWaitedFor(t *testing.T) {
	for _, wait := range []bool{false, true} {
		inBubble(t, func(o *Options) {
			o.Wait, o.Timeout = wait, 40*time.Second
			o.dialOptions = []client.Option{client.Dialer(refuse)}
		}, func(r *rig) {
			begun := time.Now()
			_, errs, status := r.do("ls /")
			want := 5 * time.Second
			if wait {
				want = 40 * time.Second
			}
			if took := time.Since(begun); took != want || status != statusNoConnection {
				t.Errorf("wait %v: status %d after %v, want %v", wait, status, took, want)
			}
			if !strings.HasPrefix(errs, "Cannot connect to 10.0.0.1:2181: ") || !strings.Contains(errs, "connection refused") {
				t.Errorf("error output %q", errs)
			}
		})
	}
}

// Why there is no connection, in words.
func TestWhyThereIsNoConnection(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("waited: %w", &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("refused")}), "dial tcp: refused\n(is a server running there?"},
		{fmt.Errorf("waited: %w", &net.DNSError{Err: "no such host", Name: "zk9"}), "lookup zk9: no such host\n(is a server"},
		{fmt.Errorf("x: %w", zk.ErrAuthFailed), "the server refuses the credentials of --auth or --login"},
		{errors.New("other"), "other\n(is a server"},
	} {
		got := explain(connectError{"zk9:2181", c.err})
		if !strings.HasPrefix(got, "Cannot connect to zk9:2181: "+c.want) {
			t.Errorf("%v: %q", c.err, got)
		}
	}
}

// After a session has ended, the next command begins another.
func TestAnEndedSession(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		r.must("create -e /e")
		r.server.Expire(r.conn.SessionID())
		time.Sleep(time.Minute)
		synctest.Wait()
		if _, errs, status := r.do("create /a"); status != statusOK {
			t.Fatalf("status %d: %s", status, errs)
		}
		if got := r.must("ls /"); got != "[a, zookeeper]\n" {
			t.Errorf("ls / = %q", got)
		}
	})
}

// A write whose answer is lost may have been carried out, and the user is told.
func TestALostAnswer(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		r.must("ls /")
		r.server.LoseAnswer(opCreate, 0)
		_, errs, status := r.do("create /a")
		if status != statusNoConnection || !strings.Contains(errs, "whether it was carried out is unknown") {
			t.Errorf("status %d, %q", status, errs)
		}
		if got := r.must("ls /"); got != "[a, zookeeper]\n" {
			t.Errorf("ls / = %q", got)
		}
	})
}

func TestCredentials(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		f := newFlagSet("cli")
		r.opts.Register(f)
		args, err := Arguments(f, []string{"-server", "10.0.0.1:2181", "--auth", "digest:me:secret", "-timeout", "9000", "whoami", "-x"})
		if err != nil || !slices.Equal(args, []string{"whoami", "-x"}) || r.opts.Timeout != 9*time.Second {
			t.Fatal(args, err, r.opts.Timeout)
		}
		if got := r.must("whoami"); !strings.Contains(got, "digest: me\n") {
			t.Errorf("whoami = %q", got)
		}
	})
}

// Credentials of a file count as those on the command line; what is wrong with one is said without
// the secret.
func TestCredentialsOfAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mine")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("# of all of us\n\ndigest:me:secret\r\ndigest:you:secret too\n")
	inBubble(t, nil, func(r *rig) {
		f := newFlagSet("cli")
		r.opts.Register(f)
		if _, err := Arguments(f, []string{"--auth-file", file, "whoami"}); err != nil {
			t.Fatal(err)
		}
		if got := r.must("whoami"); !strings.Contains(got, "digest: me\n") || !strings.Contains(got, "digest: you\n") {
			t.Errorf("whoami = %q", got)
		}
	})
	write("planted\n")
	for _, name := range []string{file, file + ".none"} {
		f := newFlagSet("cli")
		new(Options).Register(f)
		if _, err := Arguments(f, []string{"--auth-file", name}); ExitStatus(err) != statusUsage || strings.Contains(err.Error(), "planted") || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestArgumentsThatAreWrong(t *testing.T) {
	for _, words := range []string{"-servers x", "--timeout x", "-timeout 0", "--auth x", "-o"} {
		var o Options
		f := newFlagSet("cli")
		o.Register(f)
		if _, err := Arguments(f, strings.Fields(words)); ExitStatus(err) != statusUsage {
			t.Errorf("%s: %v", words, err)
		}
	}
}

// Each error of a server has words of its own.
func TestExplain(t *testing.T) {
	for code := zk.ErrThrottledOp; code < 0; code++ {
		if strings.HasPrefix(code.Error(), "zookeeper: code") {
			continue
		}
		got := explain(&client.Error{Op: "get", Path: "/a", Err: code})
		text := codeWords[code].text
		if text != "" && !strings.HasPrefix(got, text) || got == "" {
			t.Errorf("%v: %q", code, got)
		}
	}
	txn := &client.Error{Op: "txn", Err: &client.TxnError{Index: 1, Op: "create", Path: "/a/b", Err: zk.ErrNoNode}}
	if got := explain(txn); got != "Operation 2, create: Node does not exist: /a/b" {
		t.Errorf("explain = %q", got)
	}
	if got := explain(fmt.Errorf("x: %w", context.Canceled)); got != "Interrupted" {
		t.Errorf("explain = %q", got)
	}
}

// With --output json an error is one JSON value, for scripts.
func TestErrorInJSON(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{&client.Error{Op: "get", Path: "/a", Err: zk.ErrNoNode}, `{"error":"Node does not exist: /a","code":-101,"path":"/a","status":1}`},
		{&client.Error{Op: "delete", Path: "/a", Err: zk.ErrNotEmpty}, `{"error":"Node not empty: /a","advice":"deleteall deletes a node and all below it","code":-111,"path":"/a","status":1}`},
		{usageError{"get: no path"}, `{"error":"get: no path","status":2}`},
	} {
		if got := ErrorInJSON(c.err); got != c.want {
			t.Errorf("%v: %s, want %s", c.err, got, c.want)
		}
	}
}
