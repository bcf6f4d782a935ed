package ensemble

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
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

// TestMigration has `pinfold migrate` turn a live ensemble under load into one of Pinfold,
// member by member, and back to the release of Apache's that it was. No acknowledged write
// and no session may be lost, and the members are compared while clients write.
func TestMigration(t *testing.T) {
	all := mixtures(t, "apache,apache,apache", "apache,apache,apache,apache:observer")
	for _, members := range all {
		t.Run(members, func(t *testing.T) {
			r := newRig(t, members, rigOptions{admin: true, lines: append(superuser(), smallFiles()...)})
			m := newMigration(r)
			r.load()
			w, err := load.StartWriters(load.WritersConfig{
				Addrs: r.e.Clients(), Clients: 3, Batch: 1, Pause: time.Millisecond, Znodes: 3, Bytes: 100,
			})
			r.must(err)
			m.takeAll("run", w, cluster.Pinfold)
			m.takeAll("back", w, r.specs[0].Kind)
			r.must(w.Stop())
			r.finish()
			if lost := r.l.Lost(); lost > 0 {
				t.Errorf("%d sessions were lost", lost)
			}
		})
	}
}

// A migration runs `pinfold migrate` on the members of a rig.
type migration struct {
	*rig
	c              *control
	program, state string
	asSuper        []string // flags by which a leader can be asked to hand over
}

func newMigration(r *rig) *migration {
	r.t.Helper()
	p := programs(r.t, r.specs, "").Pinfold
	if p == "" {
		r.t.Skip("-pinfold names no binary")
	}
	m := &migration{rig: r, c: newControl(r.t, r.e), program: p, state: filepath.Join(r.t.TempDir(), "state.json")}
	if r.e.Members[0].Admin != "" {
		secret := filepath.Join(r.t.TempDir(), "super")
		r.must(os.WriteFile(secret, []byte("digest:super:test\n"), 0o600))
		var ports []string
		for _, one := range r.e.Members {
			_, port, err := net.SplitHostPort(one.Admin)
			r.must(err)
			ports = append(ports, fmt.Sprintf("%d=%s", one.ID, port))
		}
		m.asSuper = []string{"--auth-file", secret, "--admin-port", strings.Join(ports, ",")}
	}
	return m
}

// takeAll runs a migration that must take every member, and logs what it prints.
func (m *migration) takeAll(name string, w *load.Writers, kind cluster.Kind) {
	m.t.Helper()
	m.c.becomes(kind)
	before, from, began := m.c.count(), m.e.Members[0].Kind(), time.Now()
	out, status := m.run(name, append(m.asSuper, "--yes", "--settle", "1s", "--verify", "--wait", patience.String(), "--stop", m.c.command("stop"), "--start", m.c.command("start"))...)
	took := time.Since(began)
	m.t.Logf("pinfold migrate %s: %d\n%s", name, status, out)
	if status != 0 {
		m.t.FailNow()
	}
	if n := m.c.count() - before; n != len(m.e.Members) {
		m.t.Errorf("%d members were started, want %d", n, len(m.e.Members))
	}
	for _, one := range m.e.Members {
		if one.Kind() != kind {
			m.t.Errorf("member %v is left", one)
		}
	}
	sessions := fmt.Sprintf("sessions of %d members compared", len(m.e.Members))
	if m.old() { // a learner of 3.4 does not list them
		sessions = "sessions of"
	}
	for _, part := range []string{"0 events lost, 0 sessions lost", ": 0 differ;", sessions} {
		if !strings.Contains(out, part) {
			m.t.Errorf("%q is not in the output", part)
		}
	}
	m.progress()
	gap, _ := w.LongestGap(began, began.Add(took))
	m.t.Logf("RESULT migration of %d members from %s to %s: took %v; longest gap in acknowledged writes %v; %d sessions lost",
		len(m.e.Members), from, kind, took.Round(time.Millisecond), gap.Round(time.Millisecond), m.l.Lost())
}

// run runs a command of `pinfold migrate`, and returns its output and its status. The members
// share a host: it is told where each takes clients.
func (m *migration) run(name string, args ...string) (out string, status int) {
	m.t.Helper()
	words := append([]string{"migrate", name, "--state", m.state}, args...)
	for _, one := range m.e.Members {
		words = append(words, "--client", fmt.Sprintf("%d=%s", one.ID, one.Client))
	}
	cmd := exec.CommandContext(m.within(20*patience), m.program, append(words, filepath.Join(m.e.Members[0].Dir, "zoo.cfg"))...)
	text, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		m.t.Fatal(err)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

// expect demands a status, and parts of the output.
func (m *migration) expect(what string, status int, parts []string, name string, args ...string) {
	m.t.Helper()
	out, got := m.run(name, args...)
	if got != status {
		m.t.Errorf("%s: status %d, want %d:\n%s", what, got, status, out)
	}
	for _, p := range parts {
		if !strings.Contains(out, p) {
			m.t.Errorf("%s: %q is not in\n%s", what, p, out)
		}
	}
}

// TestMigrationRefuses leads `pinfold migrate` into ensembles from which no member may be
// taken, and into failures half-way: it must say so, do no harm, and go on afterwards.
func TestMigrationRefuses(t *testing.T) {
	r := newRig(t, mixtures(t, "apache,apache,apache")[0], rigOptions{lines: smallFiles()})
	m := newMigration(r)
	m.c.becomes(r.specs[0].Kind)
	stop, start := m.c.command("stop"), m.c.command("start")
	leader, other := r.leader()
	id := strconv.Itoa(other.ID)
	take := func(stop, start string, more ...string) []string {
		return append([]string{"--yes", "--wait", "5s", "--to", "any", "--stop", stop, "--start", start}, more...)
	}

	m.expect("whole", 0, []string{"all members are in sync"}, "status")
	m.expect("plan", 0, []string{"server 3 on 127.0.0.1: stop 3.", "all members are in sync"}, "plan")
	m.expect("no commands", 1, []string{"--stop and --start are needed"}, "run", "--yes")
	m.expect("stop does nothing", 1, []string{"still answers", "Nothing was started"}, "run", take("true", start, "--member", id)...)
	if !other.Running() || m.c.count() != 0 {
		t.Errorf("a stop that did nothing was followed by %d starts", m.c.count())
	}
	m.expect("stop fails", 1, []string{"command that stops server " + id + " failed"}, "run", take("false", start, "--member", id)...)
	m.expect("start does nothing", 1, []string{"does not serve", "The way back"}, "run", take(stop, "true", "--member", id)...)
	m.expect("a member is down", 1, []string{"server " + id + " does not answer"}, "status")
	m.expect("a member is down that no run has stopped", 1, []string{"server " + id + " does not answer", "refused: nothing was changed"},
		"run", take(stop, start, "--state", m.state+"2")...)
	if !leader.Running() {
		t.Errorf("with %v down, another was stopped", other)
	}
	m.expect("the run goes on", 0, []string{"an earlier run has stopped it", "has caught up"}, "run", take(stop, start, "--member", id, "--wait", patience.String())...)
	r.must(r.e.WaitServing(r.within(patience)))
	if *kinds == "" {
		m.expect("the wrong program", 1, []string{"not pinfold"}, "run", "--yes", "--member", id, "--wait", patience.String(), "--stop", stop, "--start", start)
	}
	r.must(r.e.WaitServing(r.within(patience)))
}

// A control is a port at which the commands of a migration have members stopped and
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
	return fmt.Sprintf(`bash -c 'exec 3<>/dev/tcp/127.0.0.1/%d; echo "%s {id}" >&3; read -r answer <&3; echo "$answer"; test "$answer" = ok'`, port, what)
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
	switch words[0] {
	case "stop":
		return m.Stop()
	case "kill":
		m.Kill()
		return nil
	case "reset":
		return m.KillConnections()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.starts++
	if err := m.Become(c.kind); err != nil {
		return err
	}
	return m.Start()
}
