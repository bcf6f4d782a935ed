package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pinfold-zk/pinfold/internal/wire"
)

// A System is a server that can be started: Command with the path of a zoo.cfg
// as its last argument, in the foreground. Or it is a service that runs already,
// at Hosts; then nothing is started or killed, and costs are not known.
type System struct {
	Name    string
	Command []string
	Hosts   []string    // host:port; for Paper alone
	TLS     *Encryption // of all its ports; nil: none

	// Broadcast is the same server, which proposes by itself while it leads. Only
	// this program can do that; nil for all others.
	Broadcast []string
}

// An instance is a running server of a System.
type instance struct {
	system System
	dir    string // zoo.cfg, log, data
	addr   string
	cmd    *exec.Cmd
	ended  chan struct{} // closed when the process is gone
}

// startTimeout bounds the wait for a server to answer.
const startTimeout = 2 * time.Minute

// startServer starts a system with its data below dir, and waits until it
// answers a read of probe. It returns how long that took, from exec on. extra
// are further lines of zoo.cfg.
func startServer(ctx context.Context, s System, dir string, port int, probe string, extra ...string) (
	*instance, time.Duration, error) {
	if err := writeConfig(s, dir, port, extra...); err != nil {
		return nil, 0, err
	}
	start := time.Now()
	i, err := launch(s, dir, port)
	if err != nil {
		return nil, 0, err
	}
	err = i.await(ctx, func(ctx context.Context) error { return readOnce(ctx, s.TLS, i.addr, probe) })
	if err != nil {
		i.kill()
		return nil, 0, err
	}
	return i, time.Since(start), nil
}

// localhost returns the address of a port of this machine.
func localhost(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }

// writeConfig writes zoo.cfg in dir, which is made, for a server that keeps its
// data below it.
func writeConfig(s System, dir string, port int, extra ...string) error {
	data := filepath.Join(dir, "data")
	if err := os.MkdirAll(data, 0o755); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	lines := append([]string{
		"tickTime=2000", "dataDir=" + data, "maxClientCnxns=0", "admin.enableServer=false", "4lw.commands.whitelist=*",
	}, s.TLS.clientPort(port)...)
	lines = append(lines, extra...)
	text := strings.Join(lines, "\n") + "\n"
	if err := os.WriteFile(filepath.Join(dir, "zoo.cfg"), []byte(text), 0o644); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	return nil
}

// launch starts the process of a server whose zoo.cfg is in dir. It does not
// wait for it to serve.
func launch(s System, dir string, port int) (*instance, error) {
	log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	defer log.Close()
	args := append(s.Command[1:len(s.Command):len(s.Command)], filepath.Join(dir, "zoo.cfg"))
	i := &instance{
		system: s, dir: dir, addr: localhost(port), ended: make(chan struct{}),
		cmd: exec.Command(s.Command[0], args...),
	}
	i.cmd.Stdout, i.cmd.Stderr = log, log
	if err := i.cmd.Start(); err != nil {
		return nil, fmt.Errorf("bench: start %s: %w", s.Name, err)
	}
	go func() {
		defer close(i.ended)
		_ = i.cmd.Wait() // it is ended by a signal; its log says the rest
	}()
	return i, nil
}

// Attempts to read from a server that is starting. It may have its port open
// and lose what is sent there, so an attempt is given up after a while, and the
// next does not wait for it.
const (
	attemptEvery   = 5 * time.Millisecond
	attemptTimeout = time.Second
	attempts       = 32 // under way
)

// await tries probe every 5 ms until it succeeds.
func (i *instance) await(ctx context.Context, probe func(context.Context) error) error {
	err := i.awaitProbe(ctx, probe)
	if err != nil {
		return fmt.Errorf("bench: start %s (see %s): %w", i.system.Name, filepath.Join(i.dir, "log"), err)
	}
	return nil
}

func (i *instance) awaitProbe(ctx context.Context, probe func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	again := time.NewTicker(attemptEvery)
	defer again.Stop()
	ended := make(chan error, attempts)
	underWay := 0
	var last error
	for {
		select {
		case <-i.ended:
			return fmt.Errorf("the process ended: %v", i.cmd.ProcessState)
		case <-ctx.Done():
			return errors.Join(ctx.Err(), last)
		case last = <-ended:
			if underWay--; last == nil {
				return nil
			}
		case <-again.C:
			if underWay == attempts {
				continue
			}
			underWay++
			go func() {
				ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
				defer cancel()
				ended <- probe(ctx)
			}()
		}
	}
}

// readOnce opens a session, reads a znode, and closes the session. It gives up
// when ctx ends.
func readOnce(ctx context.Context, e *Encryption, addr, probe string) error {
	return callOnce(ctx, e, addr, readFrame(wire.OpGetData, path{prefix: probe}, false))
}

// syncOnce opens a session, asks the server to catch up with its ensemble, and
// closes the session. It gives up when ctx ends.
func syncOnce(ctx context.Context, e *Encryption, addr string) error {
	return callOnce(ctx, e, addr, syncFrame(path{prefix: "/"}))
}

func callOnce(ctx context.Context, e *Encryption, addr string, f frame) error {
	c, err := dialControl(ctx, e, addr)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { c.conn.Close() })()
	if err := c.call(f); err != nil {
		c.conn.Close()
		return err
	}
	c.close()
	return nil
}

// kill ends the process at once and waits for its end.
func (i *instance) kill() {
	_ = i.cmd.Process.Signal(syscall.SIGKILL) // fails only if it has ended
	<-i.ended
}

// isJava reports whether the server runs on a JVM.
func (i *instance) isJava() bool {
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", i.cmd.Process.Pid))
	return err == nil && strings.TrimSpace(string(comm)) == "java"
}

// settle lets a JVM collect its garbage, twice as one collection leaves what
// was promoted meanwhile; any other server is taken as it is after 3 seconds.
func (i *instance) settle(ctx context.Context) error {
	pause := time.NewTimer(3 * time.Second)
	defer pause.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-pause.C:
	}
	jcmd, err := exec.LookPath("jcmd")
	if err != nil || !i.isJava() {
		return nil
	}
	for range 2 {
		out, err := exec.CommandContext(ctx, jcmd, strconv.Itoa(i.cmd.Process.Pid), "GC.run").
			CombinedOutput()
		if err != nil {
			return fmt.Errorf("bench: jcmd GC.run: %w: %s", err, out)
		}
	}
	return nil
}

// snapshots counts the snapshot files of the server.
func (i *instance) snapshots() int {
	names, err := filepath.Glob(filepath.Join(i.dir, "data", "version-2", "snapshot.*"))
	if err != nil {
		return 0 // the pattern is well formed
	}
	return len(names)
}
