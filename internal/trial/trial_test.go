package trial

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/vfs"
)

// stubVariable makes the test's own binary a server, as far as `pinfold ensemble`
// can tell.
const stubVariable = "PINFOLD_TEST_STUB"

func TestMain(m *testing.M) {
	if os.Getenv(stubVariable) != "" {
		if err := stubServer(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, "stub:", err)
			os.Exit(3)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// stubServer answers srvr. The leader is the greatest participant whose quorum
// port can be reached, if most can.
func stubServer(args []string) error {
	if len(args) < 2 || args[0] != "server" {
		return fmt.Errorf("arguments %q", args)
	}
	if slices.Contains(args, "-Dstub=fails") {
		fmt.Println("line 1\nline 2")
		return errors.New("told to fail")
	}
	if slices.Contains(args, "-Dstub=deaf") {
		signal.Ignore(syscall.SIGTERM)
	}
	cfg, _, err := config.Load(args[1], nil, "")
	if err != nil {
		return err
	}
	peers, err := net.Listen("tcp", cfg.Quorum.QuorumListen())
	if err != nil {
		return err
	}
	go func() {
		for {
			if conn, err := peers.Accept(); err == nil {
				conn.Close()
			}
		}
	}()
	clients, err := net.Listen("tcp", cfg.Client.Addr())
	if err != nil {
		return err
	}
	fmt.Println("stub serves")
	for {
		conn, err := clients.Accept()
		if err != nil {
			return err
		}
		word := make([]byte, 4)
		if _, err := io.ReadFull(conn, word); err == nil && string(word) == "srvr" {
			io.WriteString(conn, stubAnswer(&cfg.Quorum))
		}
		conn.Close()
	}
}

func stubAnswer(q *config.Quorum) string {
	leader, alive := int64(-1), 0
	for _, id := range q.Members.Voters() {
		a := q.Members.Find(id).Addresses[0]
		if conn, err := net.Dial("tcp", net.JoinHostPort(a.Host, strconv.Itoa(a.QuorumPort))); err == nil {
			conn.Close()
			leader, alive = id, alive+1
		}
	}
	voters, mode := len(q.Members.Voters()), "follower"
	switch {
	case alive <= voters/2:
		return "This ZooKeeper instance is not currently serving requests\n"
	case leader == q.MyID:
		mode = "leader"
	case q.Observer:
		mode = "observer"
	}
	return fmt.Sprintf("Zookeeper version: stub\nZxid: 0x%x00000007\nMode: %s\nNode count: 5\n", 1+voters-alive, mode)
}

// output is what an ensemble prints, line by line.
type output struct {
	t     *testing.T
	lines chan string
	rest  []byte
	seen  []string
}

func newOutput(t *testing.T) *output { return &output{t: t, lines: make(chan string, 1000)} }

func (o *output) Write(p []byte) (int, error) {
	o.rest = append(o.rest, p...)
	for {
		line, rest, ok := bytes.Cut(o.rest, []byte("\n"))
		if !ok {
			return len(p), nil
		}
		o.lines <- string(line)
		o.rest = rest
	}
}

// await reads lines until one has the text.
func (o *output) await(text string) string {
	o.t.Helper()
	timer := time.NewTimer(20 * time.Second)
	defer timer.Stop()
	for {
		select {
		case line := <-o.lines:
			o.seen = append(o.seen, line)
			if strings.Contains(line, text) {
				return line
			}
		case <-timer.C:
			o.t.Fatalf("no line with %q; there were\n%s", text, strings.Join(o.seen, "\n"))
		}
	}
}

// freeBase returns a base port for n servers, below the ports that the system
// gives to those who ask for any: other tests ask, at the same time.
func freeBase(t *testing.T, n int) int {
	t.Helper()
	for range 100 {
		base := 10000 + rand.IntN(9000)
		e := Ensemble{Participants: n, BasePort: base}
		if e.checkFlags() == nil && e.checkPorts() == nil {
			return base
		}
	}
	t.Fatal("no free ports")
	return 0
}

func newEnsemble(t *testing.T, participants, observers int, args ...string) (*Ensemble, *output) {
	t.Helper()
	t.Setenv(stubVariable, "1")
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out := newOutput(t)
	return &Ensemble{
		Participants: participants, Observers: observers, Dir: filepath.Join(t.TempDir(), "e"),
		BasePort: freeBase(t, participants+observers), ServerArgs: args,
		Executable: executable, Out: out, StopWithin: 10 * time.Second,
	}, out
}

// start runs e until the test stops it.
func startEnsemble(t *testing.T, e *Ensemble) (stop context.CancelFunc, done <-chan error) {
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	go func() {
		defer close(result)
		result <- e.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		for range result {
		}
	})
	return cancel, result
}

func readPid(t *testing.T, e *Ensemble, i int) int {
	t.Helper()
	text, err := os.ReadFile(e.path(i, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func TestEnsemble(t *testing.T) {
	e, out := newEnsemble(t, 3, 1, "-Dsome=thing")
	stop, done := startEnsemble(t, e)
	out.await("An ensemble of 4 in ")
	out.await("server 3 leads, epoch 1, after ")
	for i, mode := range []string{"follower", "follower", "leader", "observer"} {
		line := out.await(fmt.Sprintf("server %d   127.0.0.1:%d   %s ", i+1, e.BasePort+i, mode))
		if pid := readPid(t, e, i); !strings.Contains(line, fmt.Sprintf(" pid %d ", pid)) {
			t.Errorf("process %d is not in %q", pid, line)
		}
	}
	out.await(fmt.Sprintf("Clients connect to 127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d", e.BasePort, e.BasePort+1, e.BasePort+2, e.BasePort+3))
	out.await("Ctrl-C")

	leader := readPid(t, e, 2)
	if err := syscall.Kill(leader, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	out.await(fmt.Sprintf("server 3 (pid %d) has ended: signal: killed", leader))
	out.await("server 2 leads, epoch 2")

	// By hand, as the summary says.
	again := exec.Command(e.Executable, "server", e.path(2, "zoo.cfg"))
	if err := again.Start(); err != nil {
		t.Fatal(err)
	}
	out.await("server 3 serves")
	out.await("server 3 leads, epoch 1")
	if err := again.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = again.Wait() // killed
	out.await("server 2 leads, epoch 2")
	out.await("server 3 does not answer")

	if err := syscall.Kill(readPid(t, e, 1), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	out.await("has ended: signal: terminated")
	out.await("no server leads")

	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	out.await("stopping")
	for i := range e.size() {
		if _, err := askServer(e.clientPort(i)); err == nil {
			t.Errorf("server %d still answers", i+1)
		}
		if _, err := os.Stat(e.path(i, "pid")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("pid of server %d: %v", i+1, err)
		}
	}
}

func TestEnsembleGoesOn(t *testing.T) {
	e, out := newEnsemble(t, 1, 0)
	stop, done := startEnsemble(t, e)
	out.await("server 1 leads")
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	next, out := newEnsemble(t, 1, 1)
	next.Dir = e.Dir
	stop, done = startEnsemble(t, next)
	out.await("server 1 leads")
	out.await("server 2   127.0.0.1:")
	out.await("no server serves until it is back")
	third := *next
	third.BasePort = freeBase(t, 2)
	if err := third.Run(context.Background()); !errors.Is(err, vfs.ErrLocked) {
		t.Errorf("a second one in the directory: %v", err)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	log, err := os.ReadFile(e.path(0, "log"))
	if err != nil || string(log) != "stub serves\nstub serves\n" {
		t.Errorf("log %q, %v", log, err)
	}
}

func TestEnsembleServerFails(t *testing.T) {
	e, _ := newEnsemble(t, 3, 0, "-Dstub=fails")
	_, done := startEnsemble(t, e)
	err := <-done
	if err == nil || !strings.Contains(err.Error(), "does not run; its log ends with\n  line 1\n  line 2\n  stub: told to fail") {
		t.Errorf("got %v", err)
	}
	for _, m := range e.members {
		if m.process.ProcessState == nil {
			t.Errorf("server %d runs", m.number())
		}
	}
}

func TestEnsembleNoServerLeft(t *testing.T) {
	e, out := newEnsemble(t, 1, 0)
	_, done := startEnsemble(t, e)
	out.await("Ctrl-C")
	if err := syscall.Kill(readPid(t, e, 0), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil || err.Error() != "ensemble: no server is left" {
		t.Errorf("got %v", err)
	}
}

func TestEnsembleServerDoesNotStop(t *testing.T) {
	e, out := newEnsemble(t, 1, 0, "-Dstub=deaf")
	e.StopWithin = 10 * time.Millisecond
	stop, done := startEnsemble(t, e)
	out.await("Ctrl-C")
	stop()
	if err := <-done; err == nil || err.Error() != "ensemble: server 1 did not stop within 10ms and was killed" {
		t.Errorf("got %v", err)
	}
}

func TestEnsembleNoExecutable(t *testing.T) {
	e, _ := newEnsemble(t, 1, 0)
	e.Executable = filepath.Join(e.Dir, "none")
	if err := e.Run(context.Background()); err == nil || !strings.HasPrefix(err.Error(), "ensemble: server 1: fork/exec ") {
		t.Errorf("got %v", err)
	}
}

func TestEnsembleRefuses(t *testing.T) {
	port := freeBase(t, 1) + 1 // taken; the one before it stays free
	taken, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	tests := []struct {
		name  string
		files map[string]string
		set   func(e *Ensemble)
		want  string // DIR is the directory
	}{
		{name: "no servers", set: func(e *Ensemble) { e.Participants = 0 }, want: "ensemble: --servers must be 1 or more"},
		{name: "negative observers", set: func(e *Ensemble) { e.Observers = -1 }, want: "ensemble: --observers must be 0 or more"},
		{name: "too many", set: func(e *Ensemble) { e.Participants, e.Observers = 90, 11 },
			want: "ensemble: 101 servers are too many for one machine; at most 100"},
		{name: "no port", set: func(e *Ensemble) { e.BasePort = 0 }, want: "ensemble: --base-port must be between 1 and 65235"},
		{name: "no ports", set: func(e *Ensemble) { e.BasePort = 65236 }, want: "ensemble: --base-port must be between 1 and 65235"},
		{name: "somebody's directory", files: map[string]string{"thesis.tex": ""}, want: "ensemble: DIR is not empty, and not of an ensemble; choose another --dir"},
		{name: "somebody's file", files: map[string]string{markName: "mine"},
			want: "ensemble: DIR/ENSEMBLE: not written by pinfold ensemble; choose another --dir"},
		{name: "another number", files: map[string]string{markName: fmt.Sprintf(markText, 5)},
			want: "ensemble: DIR holds the data of an ensemble of 5; run it with --servers 5, or choose another --dir"},
		{name: "a file", set: func(e *Ensemble) { e.Dir = filepath.Join(e.Dir, markName) }, files: map[string]string{markName: "x"},
			want: "ensemble: open DIR/ENSEMBLE/ENSEMBLE: not a directory"},
		{name: "port taken", set: func(e *Ensemble) { e.BasePort = port },
			want: fmt.Sprintf("ensemble: server 1 cannot use port %[1]d: listen tcp 127.0.0.1:%[1]d: bind: address already in use; choose another --base-port", port)},
		{name: "port of an earlier run", set: func(e *Ensemble) { e.BasePort = port - 1 },
			files: map[string]string{markName: fmt.Sprintf(markText, 3), "2/pid": "4711\n"},
			want: fmt.Sprintf("ensemble: server 2 cannot use port %[1]d: listen tcp 127.0.0.1:%[1]d: bind: address already in use; choose another --base-port, "+
				"or end what an earlier run has left, if these are its processes: 4711", port)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := &Ensemble{Participants: 3, BasePort: 30000, Dir: t.TempDir(), Executable: "none", Out: io.Discard}
			dir := e.Dir
			for name, text := range tt.files {
				if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if tt.set != nil {
				tt.set(e)
			}
			err := e.Run(context.Background())
			if err == nil || strings.ReplaceAll(err.Error(), dir, "DIR") != tt.want {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

// What the command writes is what a server reads, without a warning that has no
// reason.
func TestEnsembleConfigs(t *testing.T) {
	for _, tt := range []struct {
		participants, observers int
		dir                     string
		warnings                int
	}{{3, 1, "plain", 0}, {2, 0, "two", 1}, {1, 1, "one", 1}, {3, 0, `odd \name: ä€😀 = #!`, 0}} {
		e := &Ensemble{Participants: tt.participants, Observers: tt.observers, Dir: filepath.Join(t.TempDir(), tt.dir), BasePort: 2181}
		if err := e.writeConfigs(); err != nil {
			t.Fatal(err)
		}
		for i := range e.size() {
			cfg, warnings, err := config.Load(e.path(i, "zoo.cfg"), nil, "")
			if err != nil || len(warnings) != tt.warnings {
				t.Fatalf("%s: %v, %v", tt.dir, warnings, err)
			}
			q := &cfg.Quorum
			if !q.Distributed() || q.MyID != int64(i+1) || q.Observer != (i >= tt.participants) ||
				len(q.Members.Voters()) != tt.participants || len(q.Members.Observers()) != tt.observers {
				t.Errorf("%s: server %d has %+v", tt.dir, i+1, q)
			}
			if want := fmt.Sprintf("127.0.0.1:%d", 2181+i); cfg.Client.Addr() != want || cfg.Data.Dir != e.path(i, "data") {
				t.Errorf("%s: clients at %s, data in %s", tt.dir, cfg.Client.Addr(), cfg.Data.Dir)
			}
		}
	}
}

// One that was paused when another was elected does not count.
func TestLeaderOfTheLaterEpoch(t *testing.T) {
	e := &Ensemble{members: []*member{
		{index: 0, state: serverState{"leader", 3}}, {index: 1, state: serverState{"leader", 4}}, {index: 2, state: serverState{"leader", 2}},
	}}
	if number, epoch := e.leader(); number != 2 || epoch != 4 {
		t.Errorf("leader() = %d, %d; want 2, 4", number, epoch)
	}
}

func TestReport(t *testing.T) {
	var out bytes.Buffer
	e := &Ensemble{Participants: 2, Out: &out, Dir: "/nowhere", members: []*member{{index: 0, process: &exec.Cmd{Process: &os.Process{}}}, {index: 1, process: &exec.Cmd{Process: &os.Process{}}}}}
	began := time.Unix(1000, 0)
	r := leaderReport{began: began}
	step := func(after time.Duration, first, second serverState, want ...string) {
		t.Helper()
		out.Reset()
		e.members[0].state, e.members[1].state = first, second
		e.report(&r, began.Add(after))
		for _, w := range want {
			if !strings.Contains(out.String(), w) {
				t.Errorf("after %v: no %q in\n%s", after, w, out.String())
			}
		}
		if len(want) == 0 && out.Len() > 0 {
			t.Errorf("after %v: %s", after, out.String())
		}
	}
	leads, follows, none := serverState{"leader", 1}, serverState{"follower", 1}, serverState{}
	step(time.Second, none, none)
	step(16*time.Second, none, none, "no leader yet; what the servers say is in /nowhere/*/log")
	step(17*time.Second, none, none)
	step(18*time.Second, leads, none)
	step(20*time.Second, leads, none)
	step(22*time.Second, leads, none, "server 1 leads, epoch 1, after 22.0 s", "server 2   127.0.0.1:0   not serving")
	step(23*time.Second, leads, follows)
	step(24*time.Second, none, follows, "no server leads")
	step(25*time.Second, none, none)
	step(26*time.Second, follows, serverState{"leader", 2}, "server 2 leads, epoch 2")
	step(27*time.Second, follows, serverState{"leader", 3}, "server 2 leads again, epoch 3")
}
