package cluster

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A Member is one server of an ensemble: a directory with its configuration and
// data, and at most one process at a time. Methods may be called from several
// goroutines; starting and stopping at the same time is the caller's mistake.
type Member struct {
	ID       int
	Observer bool
	Client   string // address for clients
	Admin    string // address of the administration server; "" without Options.Admin
	Quorum   string // address for learners
	Election string // address for the election
	Metrics  string // address for Prometheus; "" without Options.Metrics
	Dir      string // has zoo.cfg, data and what the processes printed
	DataDir  string

	programs  Programs
	env       []string // more of the environment, of Pinfold's processes
	namespace string   // of the network that its processes live in; "" is that of the test
	cfg       string
	text      string // of cfg, but for what Configure has added
	alone     bool   // it is no member of an ensemble

	mu     sync.Mutex
	kind   Kind
	starts int
	proc   *process // nil if none runs
	output []string // files, one per start
}

// Programs says how servers are started.
type Programs struct {
	Pinfold  string // the binary
	Apache   string // a script that becomes the server, given a zoo.cfg and RELEASE in the environment
	JVMFlags string // for both: Pinfold takes the properties, and leaves out what is for a JVM
}

// command is a server of the kind with the configuration cfg.
func (p Programs) command(kind Kind, cfg string) (*exec.Cmd, error) {
	switch {
	case kind.IsApache():
		cmd := exec.Command(p.Apache, cfg)
		cmd.Env = append(os.Environ(), "JVMFLAGS="+p.JVMFlags, "RELEASE="+kind.release())
		return cmd, nil
	case p.Pinfold == "":
		return nil, fmt.Errorf("cluster: a member is %s and there is no binary", kind)
	default:
		cmd := exec.Command(p.Pinfold, "server", cfg)
		cmd.Env = append(os.Environ(), "JVMFLAGS="+p.JVMFlags)
		return cmd, nil
	}
}

// A process is a running server.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // of Wait; read after done
}

// run starts cmd with its output in the file out.
func run(cmd *exec.Cmd, out string) (*process, error) {
	f, err := os.OpenFile(out, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("cluster: output: %w", err)
	}
	defer f.Close() // the process has its own
	cmd.Stdout, cmd.Stderr = f, f
	cmd.SysProcAttr = dieWithUs()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("cluster: start: %w", err)
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// pause sends SIGSTOP and waits until the process has stopped.
func (p *process) pause() error {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("cluster: pause process %d: %w", p.cmd.Process.Pid, err)
	}
	return untilStopped(p.cmd.Process.Pid)
}

// end sends the signal, waits for the end and returns what Wait said.
func (p *process) end(sig syscall.Signal) error {
	// An error means that the process has ended already.
	_ = p.cmd.Process.Signal(sig)
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	select {
	case <-p.done:
		return p.err
	case <-time.After(endPatience):
		_ = p.cmd.Process.Kill()
		<-p.done
		return fmt.Errorf("cluster: process %d did not end within %v of %v", p.cmd.Process.Pid, endPatience, sig)
	}
}

// endPatience is how long a server may take to end, or to stop after SIGSTOP.
const endPatience = 20 * time.Second

// Kind is the program that the member runs, or ran last.
func (m *Member) Kind() Kind {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.kind
}

// String names the member in reports.
func (m *Member) String() string {
	role := ""
	if m.Observer {
		role = " observer"
	}
	return fmt.Sprintf("%d (%s%s)", m.ID, m.Kind(), role)
}

// Start starts the process and does not wait for it.
func (m *Member) Start() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.running() {
		return fmt.Errorf("cluster: member %d runs already", m.ID)
	}
	cmd, err := m.programs.command(m.kind, m.cfg)
	if err != nil {
		return err
	}
	if m.kind == Pinfold {
		cmd.Env = append(cmd.Env, m.env...)
	}
	if m.namespace != "" {
		within(cmd, m.namespace)
	}
	m.starts++
	out := filepath.Join(m.Dir, fmt.Sprintf("out-%03d-%s", m.starts, m.kind))
	m.proc, err = run(cmd, out)
	m.output = append(m.output, out)
	return err
}

// running reports whether the process lives. REQUIRES: m.mu is held.
func (m *Member) running() bool {
	if m.proc == nil {
		return false
	}
	select {
	case <-m.proc.done:
		m.proc = nil
		return false
	default:
		return true
	}
}

// Running reports whether the process lives, stopped or not.
func (m *Member) Running() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.running()
}

// PID is the process's id, 0 if none runs.
func (m *Member) PID() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.running() {
		return 0
	}
	return m.proc.cmd.Process.Pid
}

// Output returns everything that the member's processes have printed.
func (m *Member) Output() (string, error) {
	m.mu.Lock()
	files := m.output
	m.mu.Unlock()
	var all strings.Builder
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			return "", fmt.Errorf("cluster: output of member %d: %w", m.ID, err)
		}
		all.Write(b)
	}
	return all.String(), nil
}

// Kill ends the process with SIGKILL, if there is one, and waits for its end.
func (m *Member) Kill() { _ = m.stop(syscall.SIGKILL) }

// Stop ends the process with SIGTERM and waits for its end. The error is that
// of a Pinfold that ended with another status than 0; a JVM always does.
func (m *Member) Stop() error {
	err := m.stop(syscall.SIGTERM)
	if err != nil && m.Kind() == Pinfold {
		return fmt.Errorf("cluster: member %d after SIGTERM: %w", m.ID, err)
	}
	return nil
}

// KillConnections ends the process with SIGKILL, as Kill does, and closes its sockets meanwhile: the system
// does so itself only when it has taken all of the memory back. Only root may.
func (m *Member) KillConnections() error {
	m.mu.Lock()
	p := m.proc
	m.mu.Unlock()
	if p == nil {
		return nil
	}
	out, err := exec.Command("ss", "--no-header", "--numeric", "--tcp", "--all", "--processes").Output()
	if err != nil {
		return fmt.Errorf("cluster: ss: %w", err)
	}
	filter := []string{"--kill", "--numeric", "--tcp", "--all"}
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line) // state, two queues, here, there, processes
		if len(f) < 6 || !strings.Contains(line, fmt.Sprintf("pid=%d,", p.cmd.Process.Pid)) {
			continue
		}
		if len(filter) > 4 {
			filter = append(filter, "or")
		}
		if filter = append(filter, "(", "src", f[3]); f[0] != "LISTEN" {
			filter = append(filter, "dst", f[4])
		}
		filter = append(filter, ")")
	}
	if err := p.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("cluster: kill process %d: %w", p.cmd.Process.Pid, err)
	}
	if out, err := exec.Command("ss", filter...).CombinedOutput(); err != nil {
		return fmt.Errorf("cluster: ss: %w: %s", err, out)
	}
	m.Kill()
	return nil
}

func (m *Member) stop(sig syscall.Signal) error {
	m.mu.Lock()
	p := m.proc
	m.proc = nil
	m.mu.Unlock()
	if p == nil {
		return nil
	}
	return p.end(sig)
}

// Pause stops the process with SIGSTOP, and returns when it has stopped; Resume lets it go on.
func (m *Member) Pause() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.running() {
		return fmt.Errorf("cluster: member %d does not run: it cannot be paused", m.ID)
	}
	return m.proc.pause()
}

// Resume lets a paused process go on.
func (m *Member) Resume() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.running() {
		return fmt.Errorf("cluster: member %d does not run: it cannot be resumed", m.ID)
	}
	return m.proc.cmd.Process.Signal(syscall.SIGCONT)
}

// Become has the next start run the other program on the same directory.
func (m *Member) Become(kind Kind) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.running() {
		return fmt.Errorf("cluster: member %d runs: it cannot become %s", m.ID, kind)
	}
	m.kind = kind
	return nil
}

// Configure has the next start find these lines at the end of zoo.cfg, in place of those of
// an earlier call.
func (m *Member) Configure(lines ...string) error {
	text := m.text
	for _, line := range lines {
		text += line + "\n"
	}
	if err := os.WriteFile(m.cfg, []byte(text), 0o644); err != nil {
		return fmt.Errorf("cluster: member %d: %w", m.ID, err)
	}
	return nil
}

// SetFlags has the next start use other flags in place of Programs.JVMFlags.
func (m *Member) SetFlags(flags string) { m.programs.JVMFlags = flags }

// SetProgram has the next start run another binary of Pinfold, with more in its environment.
func (m *Member) SetProgram(binary string, env ...string) { m.programs.Pinfold, m.env = binary, env }

// askPatience is how long a member may take to answer a four-letter word. One
// that is paused does not answer at all.
const askPatience = time.Second

// Status asks the member. That it is standalone is no status of a member of an
// ensemble.
func (m *Member) Status() (Status, error) {
	s, err := Query(m.Client, askPatience)
	if err == nil && (s.Mode == "standalone") != m.alone {
		return Status{}, fmt.Errorf("cluster: member %v says that it is %s", m, s.Mode)
	}
	return s, err
}

// WaitServing waits until the member serves, and returns its status. The error
// has the end of its output when its process ends or ctx does.
func (m *Member) WaitServing(ctx context.Context) (Status, error) {
	var last Status
	err := poll(ctx, func() error {
		if !m.Running() {
			return stop{fmt.Errorf("cluster: the process of member %v has ended", m)}
		}
		var err error
		last, err = m.Status()
		return err
	})
	if err != nil {
		return Status{}, fmt.Errorf("cluster: member %v does not serve: %w\n%s", m, err, m.Tail())
	}
	return last, nil
}

// WaitListening waits until the member accepts connections of clients, whether it serves or not.
func (m *Member) WaitListening(ctx context.Context) error {
	return poll(ctx, func() error {
		if !m.Running() {
			return stop{fmt.Errorf("cluster: the process of member %v has ended\n%s", m, m.Tail())}
		}
		nc, err := net.DialTimeout("tcp", m.Client, askPatience)
		if err != nil {
			return err
		}
		return nc.Close()
	})
}

// Tail is the end of what the latest process has printed.
func (m *Member) Tail() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.output) == 0 {
		return ""
	}
	b, err := os.ReadFile(m.output[len(m.output)-1])
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-tailBytes):])
}

const tailBytes = 3000

// Complaints returns what the member's Pinfold processes have printed that no
// fault excuses.
func (m *Member) Complaints() []string {
	m.mu.Lock()
	files := m.output
	m.mu.Unlock()
	var found []string
	for _, name := range files {
		if !strings.HasSuffix(name, string(Pinfold)) {
			continue
		}
		b, err := os.ReadFile(name)
		if err != nil {
			found = append(found, err.Error())
			continue
		}
		for _, sign := range []string{"panic:", "fatal error:", "DATA RACE", "goroutine 1 ["} {
			if i := strings.Index(string(b), sign); i >= 0 {
				found = append(found, fmt.Sprintf("member %d printed\n%s", m.ID, b[i:min(len(b), i+tailBytes)]))
				break
			}
		}
	}
	return found
}
