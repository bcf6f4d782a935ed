package ensemble

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
	"github.com/pinfold-zk/pinfold/test/ensemble/load"
)

// TestMigration has scripts/migrate-ensemble turn a live ensemble under load into
// one of Pinfold, member by member, and back to the release of Apache's that it was.
// No acknowledged write and no session may be lost.
func TestMigration(t *testing.T) {
	all := mixtures(t, "apache,apache,apache", "apache,apache,apache,apache:observer")
	for _, members := range all {
		t.Run(members, func(t *testing.T) {
			r := newRig(t, members, rigOptions{lines: smallFiles()})
			c := newControl(t, r.e)
			r.load()
			w, err := load.StartWriters(load.WritersConfig{
				Addrs: r.e.Clients(), Clients: 3, Batch: 1, Pause: time.Millisecond, Znodes: 3, Bytes: 100,
			})
			r.must(err)
			old := r.specs[0].Kind
			if *pinfold == "" {
				// The script restarts every member with the program that it had.
				r.migrate(c, w, old, "any")
			} else {
				r.migrate(c, w, cluster.Pinfold, "pinfold")
				r.migrate(c, w, old, "apache")
			}
			r.must(w.Stop())
			r.finish()
			if lost := r.l.Lost(); lost > 0 {
				t.Errorf("%d sessions were lost", lost)
			}
		})
	}
}

// migrate runs the script, and logs what it prints.
func (r *rig) migrate(c *control, w *load.Writers, kind cluster.Kind, to string) {
	r.t.Helper()
	c.becomes(kind)
	before, from, left := c.count(), r.e.Members[0].Kind(), 0
	for _, m := range r.e.Members {
		if to == "any" || m.Kind() != kind {
			left++
		}
	}
	args := []string{"--yes", "--settle", "1", "--timeout", "60", "--to", to, "--stop", c.command("stop"), "--start", c.command("start")}
	began := time.Now()
	r.must(r.script(append(args, r.addresses()...)...))
	took := time.Since(began)
	if n := c.count() - before; n != left {
		r.t.Errorf("%d members were started, want %d", n, left)
	}
	for _, m := range r.e.Members {
		if m.Kind() != kind {
			r.t.Errorf("member %v is left", m)
		}
	}
	r.progress()
	gap, _ := w.LongestGap(began, began.Add(took))
	r.t.Logf("RESULT migration of %d members from %s to %s: took %v; longest gap in acknowledged writes %v; %d sessions lost",
		len(r.e.Members), from, kind, took.Round(time.Millisecond), gap.Round(time.Millisecond), r.l.Lost())
}

// addresses tells the script where members take clients: here they share a host.
func (r *rig) addresses() []string {
	var args []string
	for _, m := range r.e.Members {
		args = append(args, "--client", fmt.Sprintf("%d=%s", m.ID, m.Client))
	}
	return append(args, filepath.Join(r.e.Members[0].Dir, "zoo.cfg"))
}

// script runs scripts/migrate-ensemble and logs what it prints.
func (r *rig) script(args ...string) error {
	r.t.Helper()
	cmd := exec.CommandContext(r.within(5*patience), filepath.Join(root, "scripts/migrate-ensemble"), args...)
	out, err := cmd.CombinedOutput()
	r.t.Logf("migrate-ensemble: %v\n%s", err, out)
	return err
}

// TestMigrationRefuses has the script look at ensembles from which no member may
// be taken, and lead it into failures half-way: it must say so and do no harm.
func TestMigrationRefuses(t *testing.T) {
	members := mixtures(t, "apache,apache,apache")[0]
	r := newRig(t, members, rigOptions{lines: smallFiles()})
	c := newControl(t, r.e)
	c.becomes(r.specs[0].Kind)
	run := func(args ...string) (string, int) {
		t.Helper()
		cmd := exec.CommandContext(r.within(patience), filepath.Join(root, "scripts/migrate-ensemble"), append(args, r.addresses()...)...)
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	expect := func(name string, status int, parts []string, args ...string) {
		t.Helper()
		out, got := run(args...)
		if got != status {
			t.Errorf("%s: status %d, want %d:\n%s", name, got, status, out)
		}
		for _, p := range parts {
			if !strings.Contains(out, p) {
				t.Errorf("%s: %q is not in\n%s", name, p, out)
			}
		}
	}
	take := func(stop, start string, more ...string) []string {
		return append([]string{"--yes", "--timeout", "5", "--to", "any", "--stop", stop, "--start", start}, more...)
	}
	leader, other := r.leader()
	id := strconv.Itoa(other.ID)

	expect("whole", 0, []string{"all members are in sync"}, "--check")
	expect("no commands", 2, []string{"--stop and --start are needed"}, "--yes")
	expect("unknown option", 2, []string{"unknown option --sotp"}, "--sotp", "x")
	expect("nobody to ask", 2, []string{"give --yes"}, "--stop", "true", "--start", "true")
	expect("stop does nothing", 1, []string{"still answers", "Nothing was started"}, take("true", c.command("start"), "--member", id)...)
	if !other.Running() || c.count() != 0 {
		t.Errorf("a stop that did nothing was followed by %d starts", c.count())
	}
	expect("stop fails", 1, []string{"command that stops member " + id + " failed"}, take("false", c.command("start"), "--member", id)...)
	expect("start does nothing", 1, []string{"does not serve", "The way back"}, take(c.command("stop"), "true", "--member", id)...)
	expect("a member is down", 1, []string{"is not whole", "member " + id + " does not answer", "Nothing was done"},
		take(c.command("stop"), c.command("start"))...)
	if !leader.Running() {
		t.Errorf("with %v down, another was stopped", other)
	}
	expect("a member is down, check", 1, []string{"no member may be stopped now"}, "--check")
	r.must(r.e.Start(r.within(patience)))
	if *kinds == "" {
		expect("the wrong program", 1, []string{"not pinfold"}, "--yes", "--timeout", "30", "--member", id,
			"--stop", c.command("stop"), "--start", c.command("start"))
	}
	r.must(r.e.WaitServing(r.within(patience)))
	expect("one member", 0, []string{"done: 1 members taken"}, take(c.command("stop"), c.command("start"), "--member", id, "--timeout", "60")...)
}

// A control is a port at which the script's commands have members stopped and
// started, so that their processes stay the test's own.
type control struct {
	e  *cluster.Ensemble
	ln net.Listener

	mu     sync.Mutex
	kind   cluster.Kind
	starts int
}

func newControl(t *testing.T, e *cluster.Ensemble) *control {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &control{e: e, ln: ln}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { c.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		wg.Wait()
	})
	return c
}

// becomes says what members run after their next start.
func (c *control) becomes(kind cluster.Kind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kind = kind
}

// count is how many members were started.
func (c *control) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.starts
}

// command is what bash runs to have the member {id} stopped or started.
func (c *control) command(what string) string {
	port := c.ln.Addr().(*net.TCPAddr).Port
	return fmt.Sprintf(`exec 3<>/dev/tcp/127.0.0.1/%d; echo "%s {id}" >&3; read -r answer <&3; echo "$answer"; test "$answer" = ok`, port, what)
}

func (c *control) serve(conn net.Conn) {
	defer conn.Close()
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return // the command has gone
	}
	answer := "ok"
	if err := c.obey(strings.Fields(line)); err != nil {
		answer = err.Error()
	}
	_, _ = fmt.Fprintln(conn, answer) // a command that has gone has failed
}

func (c *control) obey(words []string) error {
	if len(words) != 2 {
		return fmt.Errorf("%d words", len(words))
	}
	id, err := strconv.Atoi(words[1])
	if err != nil || id < 1 || id > len(c.e.Members) {
		return fmt.Errorf("no member %s", words[1])
	}
	m := c.e.Member(id)
	if words[0] == "stop" {
		return m.Stop()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.starts++
	if err := m.Become(c.kind); err != nil {
		return err
	}
	return m.Start()
}
