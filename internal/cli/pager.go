package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// pagerCommand is the program that shows long output: $PAGER, or less or more if
// they are there. An empty $PAGER or "cat" is none.
func pagerCommand(getenv func(string) string) []string {
	if words := strings.Fields(getenv("PAGER")); len(words) > 0 {
		if words[0] == "cat" {
			return nil
		}
		return words
	}
	for _, words := range [][]string{{"less", "-R"}, {"more"}} {
		if _, err := exec.LookPath(words[0]); err == nil {
			return words
		}
	}
	return nil
}

// A pager receives the output of one command. It writes the output to the screen while
// it fits there; then it starts the pager program, which gets all of it.
type pager struct {
	s     *shell
	live  bool   // rows are shown as they come: no paging
	shown []byte // what has gone to the screen
	rows  int    // of the screen that it takes

	program *exec.Cmd // nil until it is started
	input   io.WriteCloser
	held    *heldOutput
	screen  io.Writer // what s.out wrote to before the program had the terminal
}

// errPaged ends a command when the user has quit the pager.
var errPaged = errors.New("the pager has ended")

// Write never keeps p.
func (p *pager) Write(b []byte) (int, error) {
	if p.program != nil {
		n, err := p.input.Write(b)
		if err != nil {
			return n, errPaged
		}
		return n, nil
	}
	if !p.live && p.s.console != nil && p.s.console.pager != nil {
		width, height := p.s.console.size()
		p.rows += screenRows(b, width)
		if p.rows >= height {
			if err := p.start(); err == nil {
				return p.Write(b)
			}
			p.live = true // it cannot be started: the screen will do
		}
		p.shown = append(p.shown, b...)
	}
	return p.s.out.Write(b)
}

// screenRows is how many rows of a screen a text takes.
func screenRows(text []byte, width int) (rows int) {
	for line := range strings.Lines(string(text)) {
		rows += max(1, (len(line)+width-1)/width)
	}
	return rows
}

// start runs the program and gives it what has been shown.
func (p *pager) start() error {
	words := p.s.console.pager
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	input, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	p.program, p.input, p.held = cmd, input, &heldOutput{}
	p.screen = p.s.out.redirect(p.held)
	if _, err := input.Write(p.shown); err != nil {
		return nil // it has ended: the next write says so
	}
	p.shown = nil
	return nil
}

// finish waits until the user has seen enough.
func (p *pager) finish() error {
	if p.program == nil {
		return nil
	}
	closed := p.input.Close()
	err := p.program.Wait()
	p.s.out.redirect(p.screen)
	p.s.out.Write(p.held.buf.Bytes())
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil // how it ends says nothing of the command
	}
	if err == nil && closed != nil && !errors.Is(closed, os.ErrClosed) {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("pager: %w", err)
	}
	return nil
}
