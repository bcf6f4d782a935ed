package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/term"

	"github.com/pinfold-zk/pinfold/client"
)

// A console is the terminal that the interactive shell runs on.
type console struct {
	io.ReadWriter

	// raw turns the terminal's own editing and echo off while a line is read;
	// restore turns them on for commands.
	raw func() (restore func(), err error)

	size    func() (width, height int)
	resized <-chan os.Signal // receives when the size has changed; nil for never

	// interruptible derives a context for a command that Ctrl-C ends.
	interruptible func(ctx context.Context) (context.Context, context.CancelFunc)

	historyFile string   // "" for none
	pager       []string // the program for long output and its arguments; nil for none
}

// openConsole returns the terminal that in and out are; ok is false if they are
// not both one.
func openConsole(in io.Reader, out io.Writer) (c *console, ok bool) {
	from, fromFile := in.(*os.File)
	to, toFile := out.(*os.File)
	if !fromFile || !toFile || !term.IsTerminal(int(from.Fd())) || !term.IsTerminal(int(to.Fd())) {
		return nil, false
	}
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	return &console{
		resized: resized,
		ReadWriter: struct {
			io.Reader
			io.Writer
		}{from, to},
		raw: func() (func(), error) {
			before, err := term.MakeRaw(int(from.Fd()))
			if err != nil {
				return nil, fmt.Errorf("terminal: %w", err)
			}
			return func() {
				if err := term.Restore(int(from.Fd()), before); err != nil {
					fmt.Fprintln(to, "terminal:", err)
				}
			}, nil
		},
		size: func() (width, height int) {
			width, height, err := term.GetSize(int(to.Fd()))
			if err != nil || width <= 0 || height <= 0 {
				return 80, 24
			}
			return width, height
		},
		interruptible: func(ctx context.Context) (context.Context, context.CancelFunc) {
			return signal.NotifyContext(ctx, os.Interrupt)
		},
		historyFile: historyFile(os.Getenv),
		pager:       pagerCommand(os.Getenv),
	}, true
}

// Keys that the editor does not know, and gives to keyPressed.
const (
	keyTab    = '\t'
	keySearch = 'R' & 0x1f
	keyCancel = 0x1f // what keyboard makes of Ctrl-C, at which the editor would end
)

// keyboard is the input, with Ctrl-C made a key like others.
type keyboard struct{ from io.Reader }

func (k keyboard) Read(p []byte) (int, error) {
	n, err := k.from.Read(p)
	for i, b := range p[:n] {
		if b == 'C'&0x1f {
			p[i] = keyCancel
		}
	}
	return n, err
}

// A promptLine is the prompt: where the shell is connected, and the number that
// the next command will have. Changes of the connection's state change it while
// it is on the screen.
type promptLine struct {
	editor *term.Terminal

	mu      sync.Mutex
	servers string
	state   string
	number  int
}

func (p *promptLine) set(servers string, number int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.servers, p.number = servers, number
	p.showLocked()
}

func (p *promptLine) setState(state string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state = state
	p.showLocked()
}

// REQUIRES: p.mu.
func (p *promptLine) showLocked() {
	p.editor.SetPrompt(fmt.Sprintf("[zk: %s(%s) %d] ", p.servers, p.state, p.number))
}

// stateWord is a state in the prompt, by zkCli.sh's word.
func stateWord(s client.State) string {
	switch s {
	case client.Connected:
		return "CONNECTED"
	case client.ConnectedReadOnly:
		return "CONNECTEDREADONLY"
	case client.AuthFailed:
		return "AUTH_FAILED"
	case client.Expired, client.Closed:
		return "CLOSED"
	}
	return "CONNECTING"
}

// interact is the interactive shell. It ends with quit, with Ctrl-D on an empty
// line, or with the context. Its error is that of the terminal, or that of the
// last command.
func (s *shell) interact(ctx context.Context, c *console) error {
	editor := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{keyboard{c}, c}, "")
	s.terminal, s.console = true, c
	s.outage.hint = "; Ctrl-C ends the command"
	past := openHistory(c.historyFile)
	editor.History = past
	editor.AutoCompleteCallback = func(line string, pos int, key rune) (string, int, bool) {
		return s.keyPressed(ctx, editor, past, line, pos, key)
	}
	s.out.redirect(editor)
	s.errs.redirect(editor)
	s.prompt = &promptLine{editor: editor, servers: s.servers, state: "NOT_CONNECTED"}

	fmt.Fprintf(s.out, "Connecting to %s\nhelp lists the commands; Tab completes them, Ctrl-R searches what was typed before, Ctrl-D ends.\n", s.servers)
	connecting, stop := c.interruptible(ctx)
	_, err := s.client(connecting)
	stop()
	var last error
	if err != nil {
		last = s.tell(err)
	}
	for !s.quit {
		s.prompt.set(s.servers, len(s.history))
		line, err := s.readLine(ctx, editor, c)
		if err != nil {
			fmt.Fprintln(s.out)
			if errors.Is(err, io.EOF) {
				break
			}
			return err
		}
		running, stop := c.interruptible(ctx)
		last = s.execute(running, line)
		if running.Err() != nil && last == nil {
			fmt.Fprintln(s.out) // after the ^C
		}
		stop()
		if err := past.save(line); err != nil {
			fmt.Fprintln(s.errs, "The history cannot be saved:", err)
		}
	}
	s.printWatches.Store(false) // that the session ends is no news any more
	s.out.redirect(c)
	s.errs.redirect(c)
	return last
}

// readLine reads a line with the editor. Its error is io.EOF at the end, the
// terminal's, or the context's: then a read may still be pending, which only
// the end of the process ends.
func (s *shell) readLine(ctx context.Context, editor *term.Terminal, c *console) (string, error) {
	restore, err := c.raw()
	if err != nil {
		return "", err
	}
	defer restore()
	if err := editor.SetSize(c.size()); err != nil {
		return "", fmt.Errorf("terminal: %w", err)
	}
	type read struct {
		line string
		err  error
	}
	lines := make(chan read, 1)
	go func() {
		line, err := editor.ReadLine()
		if errors.Is(err, term.ErrPasteIndicator) {
			err = nil
		}
		lines <- read{line, err}
	}()
	for {
		select {
		case r := <-lines:
			return r.line, r.err
		case <-c.resized:
			if err := editor.SetSize(c.size()); err != nil {
				return "", fmt.Errorf("terminal: %w", err)
			}
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// keyPressed handles the keys that the editor does not know. It returns the line
// that it makes of the present one, and where the cursor is in it; ok is false
// if the key changes nothing.
func (s *shell) keyPressed(ctx context.Context, editor *term.Terminal, past *pastLines, line string, pos int, key rune) (newLine string, newPos int, ok bool) {
	if key != keySearch {
		past.searching = nil
	}
	switch key {
	case keyTab:
		return s.completeLine(ctx, editor, line, pos)
	case keySearch:
		found, ok := past.search(line)
		return found, len(found), ok
	case keyCancel:
		if line == "" {
			fmt.Fprintln(editor, "quit or Ctrl-D ends the shell")
		}
		return "", 0, true
	}
	return "", 0, false
}

// heldOutput keeps what would be printed while the terminal is another
// program's, the last of it if it is much.
type heldOutput struct{ buf bytes.Buffer }

const heldBytes = 64 << 10

// Write never fails.
func (h *heldOutput) Write(p []byte) (int, error) {
	h.buf.Write(p)
	if over := h.buf.Len() - heldBytes; over > 0 {
		h.buf.Next(over)
	}
	return len(p), nil
}
