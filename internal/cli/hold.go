package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"

	"golang.org/x/term"

	"github.com/pinfold-zk/pinfold/recipe"
	"github.com/pinfold-zk/pinfold/zk"
)

// The statuses of lock and elect beside that of the command that they run, as
// env(1) has them.
const (
	statusNotHeld  = 125 // it could not be had, or was lost
	statusNoRun    = 126 // the command could not be started
	statusNotFound = 127 // there is no such command
	statusSignal   = 128 // and the number of the signal that ended the command
)

// A holding is what one process at a time may have: a lock, a leadership.
type holding struct {
	what    string // "the lock"
	path    string
	token   zk.Zxid
	lost    <-chan struct{}
	release func(ctx context.Context) error
}

// holdOptions are those that lock and elect share.
type holdOptions struct {
	wait  time.Duration // for the holding; 0 waits without limit
	grace time.Duration // between SIGTERM and SIGKILL
	data  string        // of the holder's znode
	names nodeNames
}

// releaseWait bounds the wait for the answer to a release. The session's end,
// which comes next, releases as well.
const releaseWait = 5 * time.Second

// runHolding runs a command while something is held, and releases it. The error is
// the command's exit status, or statusNotHeld when the holding was lost: then, and
// when the context ends, the command is asked to end, and killed if it does not
// within the grace.
func (s *shell) runHolding(ctx context.Context, h holding, words []string, grace time.Duration) error {
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseWait)
		defer cancel()
		if err := h.release(ctx); err != nil && !isClosed(h.lost) {
			fmt.Fprintf(s.errs, "%s could not be given back and ends with the session: %v\n", h.what, err)
		}
	}()
	cmd := exec.Command(words[0], words[1:]...)
	s.connectCommand(cmd)
	cmd.Env = append(os.Environ(), "PINFOLD_FENCING_TOKEN="+strconv.FormatInt(int64(h.token), 10), "PINFOLD_HELD_PATH="+h.path)
	group := !IsTerminal(s.opts.In) // a group of its own could not read what is typed
	if group {
		ownGroup(cmd)
	}
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(s.errs, err)
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
			return statusError{statusNotFound}
		}
		return statusError{statusNoRun}
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		return s.ofCommand(err)
	case <-h.lost:
		fmt.Fprintf(s.errs, "%s is lost: the command is ended\n", h.what)
		endCommand(cmd, group, grace, ended)
		return statusError{statusNotHeld}
	case <-ctx.Done():
		return s.ofCommand(endCommand(cmd, group, grace, ended))
	}
}

// connectCommand gives a command the shell's files, so that it has the terminal if
// there is one. What is no file it shares with the shell by its screens.
func (s *shell) connectCommand(cmd *exec.Cmd) {
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.opts.In, s.out, s.errs
	if f, ok := s.opts.Out.(*os.File); ok {
		cmd.Stdout = f
	}
	if f, ok := s.opts.Err.(*os.File); ok {
		cmd.Stderr = f
	}
}

// IsTerminal reports whether f is a file that is a terminal.
func IsTerminal(f any) bool {
	file, ok := f.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// endCommand asks a command to end, and kills it if it has not after the grace.
func endCommand(cmd *exec.Cmd, group bool, grace time.Duration, ended <-chan error) error {
	askToEnd(cmd, group)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case err := <-ended:
		return err
	case <-timer.C:
	}
	killCommand(cmd, group)
	return <-ended
}

// ofCommand makes the end of a command an exit status.
func (s *shell) ofCommand(err error) error {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &exit):
		return err
	case exit.ExitCode() >= 0:
		return statusError{exit.ExitCode()}
	}
	return statusError{statusSignal + endedBy(exit)}
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// notHeld prints why a lock or a leadership was not acquired.
func (s *shell) notHeld(err error) error {
	s.tell(err)
	return statusError{statusNotHeld}
}

// lockOptions are those of recipe.NewLock and recipe.NewElection.
func (o *holdOptions) lockOptions() []recipe.LockOption {
	return []recipe.LockOption{
		recipe.HolderData(o.holderData()), recipe.UseNames(o.names.value), recipe.RefuseOtherNames(),
	}
}

// holderData is the data of the holder's znode, which other clients read.
func (o *holdOptions) holderData() []byte {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return []byte(cmp.Or(o.data, fmt.Sprintf("%s pid %d", host, os.Getpid())))
}
