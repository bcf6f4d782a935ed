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
// as its last argument, in the foreground.
type System struct {
	Name    string
	Command []string
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
	data := filepath.Join(dir, "data")
	if err := os.MkdirAll(data, 0o755); err != nil {
		return nil, 0, fmt.Errorf("bench: %w", err)
	}
	lines := append([]string{
		"tickTime=2000", "dataDir=" + data, "clientPort=" + strconv.Itoa(port),
		"clientPortAddress=127.0.0.1", "maxClientCnxns=0", "admin.enableServer=false",
		"4lw.commands.whitelist=*",
	}, extra...)
	cfg := filepath.Join(dir, "zoo.cfg")
	if err := os.WriteFile(cfg, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		return nil, 0, fmt.Errorf("bench: %w", err)
	}
	log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, 0, fmt.Errorf("bench: %w", err)
	}
	defer log.Close()
	i := &instance{
		system: s, dir: dir, addr: "127.0.0.1:" + strconv.Itoa(port), ended: make(chan struct{}),
		cmd: exec.Command(s.Command[0], append(s.Command[1:len(s.Command):len(s.Command)], cfg)...),
	}
	i.cmd.Stdout, i.cmd.Stderr = log, log
	start := time.Now()
	if err := i.cmd.Start(); err != nil {
		return nil, 0, fmt.Errorf("bench: start %s: %w", s.Name, err)
	}
	go func() {
		defer close(i.ended)
		_ = i.cmd.Wait() // it is ended by a signal; its log says the rest
	}()
	if err := i.awaitRead(ctx, probe); err != nil {
		i.kill()
		return nil, 0, fmt.Errorf("bench: start %s (see %s): %w", s.Name, log.Name(), err)
	}
	return i, time.Since(start), nil
}

// Attempts to read from a server that is starting. It may have its port open
// and lose what is sent there, so an attempt is given up after a while, and the
// next does not wait for it.
const (
	attemptEvery   = 5 * time.Millisecond
	attemptTimeout = time.Second
	attempts       = 32 // under way
)

// awaitRead tries to read a znode every 5 ms until it succeeds.
func (i *instance) awaitRead(ctx context.Context, probe string) error {
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
				ended <- readOnce(ctx, i.addr, probe)
			}()
		}
	}
}

// readOnce opens a session, reads a znode, and closes the session. It gives up
// when ctx ends.
func readOnce(ctx context.Context, addr, probe string) error {
	c, err := dialControl(ctx, addr)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { c.conn.Close() })()
	_, err = c.call(readFrame(wire.OpGetData, path{prefix: probe}, false))
	if err != nil {
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
