package clidiff

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A program is zkCli.sh or `pinfold cli`.
type program struct {
	name string
	argv []string
	env  []string
}

// pinfoldCLI is ours.
func pinfoldCLI(binary string) program {
	return program{name: "pinfold cli", argv: []string{binary, "cli"}}
}

// zkCLI is zkCli.sh of a release, "" is the installed one, with more properties of its
// JVM.
func zkCLI(release string, more ...string) program {
	const flags = "-Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Duser.timezone=UTC -Dorg.slf4j.simpleLogger.defaultLogLevel=off"
	return program{
		name: "zkCli.sh", argv: []string{filepath.Join(root, "scripts/apache-server")},
		env: []string{"RELEASE=" + release, "CLASS=org.apache.zookeeper.ZooKeeperMain", "JVMFLAGS=" + flags + " " + strings.Join(more, " ")},
	}
}

func (p program) command(args ...string) *exec.Cmd {
	cmd := exec.Command(p.argv[0], append(p.argv[1:len(p.argv):len(p.argv)], args...)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "TZ=UTC")
	cmd.Env = append(cmd.Env, p.env...)
	return cmd
}

// A printed is what a command printed.
type printed struct {
	out, errs string
	ended     bool // the program with it
}

// Behind each command two more are typed, whose answers tell where its own end,
// on both streams. They need no connection.
const (
	marks   = "printwatches\nzz-mark\n"
	perStep = 3 // lines typed for a command
	outMark = "printwatches is "
	errMark = "Command not found"
)

// console is a program that runs.
type console struct {
	cmd       *exec.Cmd
	stdin     io.WriteCloser
	done      chan struct{} // closed when it has ended, and all that it printed is there
	mu        sync.Mutex
	out, errs bytes.Buffer
	changed   chan struct{} // has an element behind each change
}

// start runs the program on its input.
func (p program) start(t *testing.T, args ...string) *console {
	t.Helper()
	c := &console{cmd: p.command(args...), done: make(chan struct{}), changed: make(chan struct{}, 1)}
	var err error
	c.stdin, err = c.cmd.StdinPipe()
	must(t, err)
	c.cmd.Stdout, c.cmd.Stderr = c.stream(&c.out), c.stream(&c.errs)
	must(t, c.cmd.Start())
	go func() {
		c.cmd.Wait() // its status is in ProcessState
		close(c.done)
	}()
	return c
}

type stream struct {
	c  *console
	to *bytes.Buffer
}

func (c *console) stream(to *bytes.Buffer) io.Writer { return stream{c, to} }

func (s stream) Write(p []byte) (int, error) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.to.Write(p)
	select {
	case s.c.changed <- struct{}{}:
	default:
	}
	return len(p), nil
}

// feed types the commands and returns what each of them printed, up to the one
// that ended the program, if one did.
func (c *console) feed(ctx context.Context, commands []string) ([]printed, error) {
	go func() {
		for _, line := range commands {
			if _, err := io.WriteString(c.stdin, line+"\n"+marks); err != nil {
				return // it has ended, which is seen elsewhere
			}
		}
	}()
	for {
		outs, errs := c.parts()
		ended := false
		select {
		case <-c.done:
			ended = true
			outs, errs = c.parts()
		default:
		}
		n := min(len(outs), len(errs)) - 1 // whole ones
		if n < len(commands) && !ended {
			select {
			case <-c.changed:
			case <-c.done:
			case <-ctx.Done():
				return nil, fmt.Errorf("after %d commands of %d, behind %q: %w", n, len(commands), commands[max(0, n)], ctx.Err())
			}
			continue
		}
		var list []printed
		for i := range min(n, len(commands)) {
			list = append(list, printed{out: outs[i], errs: errs[i]})
		}
		if n < len(commands) {
			list = append(list, printed{out: outs[n], errs: errs[n], ended: true})
		}
		return list, nil
	}
}

// parts are the outputs, cut at the marks. The last part of each may not be whole.
func (c *console) parts() (outs, errs []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return cut(c.out.String(), outMark), cut(c.errs.String(), errMark)
}

func cut(text, mark string) []string {
	parts := []string{""}
	for line := range strings.Lines(text) {
		last := &parts[len(parts)-1]
		switch {
		case mark == outMark && strings.Contains(line, mark) && strings.HasSuffix(line, "\n"):
			before, _, _ := strings.Cut(line, mark) // setAcl -R ends no line
			*last += before
			parts = append(parts, "")
		case mark == errMark && strings.HasPrefix(line, mark) && strings.HasSuffix(line, "zz-mark\n"):
			*last = strings.TrimSuffix(*last, lastUsage(*last))
			parts = append(parts, "")
		default:
			*last += line
		}
	}
	for i := range parts {
		parts[i] = strings.TrimPrefix(parts[i], "(help lists all commands)\n") // of our mark
	}
	return parts
}

// lastUsage is what zkCli.sh prints before it says that there is no such command, at
// the end of text.
func lastUsage(text string) string {
	i := strings.LastIndex(text, "ZooKeeper -server host:port ")
	if i < 0 {
		return ""
	}
	return text[i:]
}

// end closes the input and waits.
func (c *console) end(ctx context.Context) error {
	c.stdin.Close() // which may have ended
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("it does not end with its input: %w", ctx.Err()), c.cmd.Process.Kill())
	}
}

// runSession feeds commands to a program, which is started again whenever one
// ended it. stop, if not nil, has the numbers of commands behind which the program is
// killed. atEnd is called while the last one runs.
func runSession(ctx context.Context, t *testing.T, p program, server string, commands []string, stop map[int]bool, atEnd func()) []printed {
	t.Helper()
	var list []printed
	for ends := 0; len(list) < len(commands); ends++ {
		if ends > maxEnds {
			last := list[len(list)-1]
			t.Fatalf("%s ends again and again, the last time with %q, %q", p.name, last.out, last.errs)
		}
		until := len(commands)
		for i := len(list); i < until; i++ {
			if stop[i] {
				until = i + 1
			}
		}
		c := p.start(t, "-server", server, "-waitforconnection")
		now := commands[len(list):until:until]
		if until < len(commands) {
			now = append(now, pause()...)
		}
		some, err := c.feed(ctx, now)
		if err != nil {
			c.cmd.Process.Kill() // it hangs
			t.Fatalf("%s: %v\n%s", p.name, err, c.errs.String())
		}
		if n := until - len(list); len(some) > n {
			for _, late := range some[n:] { // events
				some[n-1].out += strings.TrimSuffix(late.out, paused)
			}
			some = some[:n]
		}
		list = append(list, some...)
		if len(list) < len(commands) {
			c.cmd.Process.Kill() // an end without goodbye leaves the session, as one by an exception does
			<-c.done
			continue
		}
		atEnd()
		must(t, c.end(ctx))
	}
	return list
}

// pause are commands that do nothing. Events are printed on the side: it gives them
// the time.
func pause() []string { return slices.Repeat([]string{"sync /"}, 5) }

// paused is what each of them prints.
const paused = "Sync is OK\n"

// maxEnds is how often a program may end within a session: more often than commands
// that end zkCli.sh are in one, redone commands included.
const maxEnds = 20

// patience is how long a session may take.
const patience = 90 * time.Second
