package clients

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/cli"
	"github.com/pinfold-zk/pinfold/zk"
)

// commandLine runs a command or more of each kind. What needs a later release must
// fail and say which; all else must have this in its output.
func commandLine(t *testing.T, e *Env) {
	file := filepath.Join(t.TempDir(), "export.json")
	for _, x := range []struct {
		needs      feature
		line, want string
	}{
		{"", "create /a one; create /a/b two; create -s /a/s- three; get -s /a", "numChildren = 2"},
		{"", "ls -R /a", "/a\n/a/b\n/a/s-0000000001"},
		{"", "set -s -v 0 /a four; get /a", "four"},
		{"", "getAcl /a; setAcl -R /a world:anyone:cdrwa; stat /a", "aclVersion = 1"},
		{"", "create -e /e x; create /e- x; getEphemerals; getEphemerals /e-", "[/e]\n[]"},
		{"", "getAllChildrenNumber /a", "2"},
		{"", "addauth digest u:p; create /mine x auth::cdrwa; getAcl /mine", "'digest,'u:"},
		{"", "tree /a; find /a --name b; grep two /a", "/a/b:two"},
		{"", "du /a", "12\t3\t/a"},
		{"", "cp /a /copy; mv /copy /moved; diff /a /moved; ls /moved", "[b, s-0000000001]"},
		{"", "export /a " + file + "; import " + file + " /back; get /back/b", "two"},
		{"", "lock -n /lock -- printenv PINFOLD_HELD_PATH", "/lock/"},
		{"", "elect /elect -- printenv PINFOLD_HELD_PATH", "/elect/"},
		{"", "get -w /a; removewatches /a; set /a five", "DataWatchRemoved path:/a"},
		{"", "deleteall /back; ls /", "[a, e-, elect, lock, mine, moved]"},
		{"", "sync /", "Sync is OK"},
		{containers, "create -c /box; ls /", "box"},
		{containers, "create -t 10000 /old; ls /", "old"},
		{identity, "whoami", "ip: 127.0.0.1"},
		{persistents, "addWatch /a; create /a/w; delete /a/w", "NodeCreated path:/a/w"},
		{reconfigure, "reconfig -remove 9", ""},
	} {
		out, errs, status := runLine(t, e, e.Context(), x.line)
		switch {
		case x.needs != "" && !e.Has(x.needs):
			if status != 1 || !strings.Contains(errs, "(servers know it from 3.") {
				t.Errorf("%s: status %d, %q, %q; want the release that it needs", x.line, status, out, errs)
			}
		case x.needs == reconfigure:
			if !strings.HasPrefix(errs, "Reconfig is disabled") {
				t.Errorf("%s: status %d, %q, %q", x.line, status, out, errs)
			}
		case status != 0 || !strings.Contains(out, x.want):
			t.Errorf("%s: status %d, %q, %q; want %q", x.line, status, out, errs, x.want)
		}
	}
	c := e.Client()
	watched(t, e, "watch -n 3 /a", "NodeDataChanged /a/b\n", func(ctx context.Context) error {
		_, err := c.Set(ctx, "/a/b", []byte("x"), -1)
		return err
	})
	watched(t, e, "watch -n 2 --single /a", "NodeChildrenChanged /a\n", func(ctx context.Context) error {
		_, err := c.Create(ctx, "/a/x-", nil, zk.PersistentSequential, nil)
		return err
	})
}

// runLine runs commands in a session of their own.
func runLine(t *testing.T, e *Env, ctx context.Context, line string) (out, errs string, status int) {
	t.Helper()
	var o, x bytes.Buffer
	err := cli.Run(ctx, cli.Options{
		Servers: e.s.addrs() + e.chroot, Timeout: sessionTimeout, Wait: true, Commands: line, Version: "test",
		In: strings.NewReader(""), Out: &o, Err: &x,
	})
	if err != nil && !cli.Told(err) {
		t.Errorf("%s: the error was not printed: %v", line, err)
	}
	return o.String(), x.String(), cli.ExitStatus(err)
}

// watched runs a command that ends with as many events as it is told, all of a kind,
// while change goes on to make them.
func watched(t *testing.T, e *Env, line, want string, change func(ctx context.Context) error) {
	ctx, cancel := context.WithCancel(e.Context())
	changing := make(chan error, 1)
	go func() {
		var err error
		for err == nil && ctx.Err() == nil {
			err = change(ctx)
			<-time.After(20 * time.Millisecond)
		}
		changing <- err
	}()
	out, errs, status := runLine(t, e, ctx, line)
	cancel()
	if err := <-changing; err != nil && ctx.Err() == nil {
		t.Error(err)
	}
	n := 0
	for l := range strings.Lines(out) {
		if _, event, _ := strings.Cut(l, " "); event != want {
			t.Errorf("%s: %q, want %q", line, event, want)
		}
		n++
	}
	if status != 0 || n == 0 {
		t.Errorf("%s: status %d, %q, %q", line, status, out, errs)
	}
}
