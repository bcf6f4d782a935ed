package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Lines that are kept. The file may grow to twice as many.
const keptLines = 1000

// historyFile is where lines are kept: pinfold/history below $XDG_STATE_HOME or
// ~/.local/state. It is "" if there is no home.
func historyFile(getenv func(string) string) string {
	state := getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) {
		home := getenv("HOME")
		if home == "" {
			return ""
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "pinfold", "history")
}

// pastLines are the lines that were typed, in this run and in earlier ones. It
// is the history of the line editor, and owned by its goroutine while a line is
// read, by the shell's otherwise.
type pastLines struct {
	file  string   // "" for none
	lines []string // the oldest first

	searching *search // while Ctrl-R is pressed again and again
}

// A search goes back through the lines.
type search struct {
	text string // what they must hold
	next int    // index of the next to look at
}

// openHistory reads the file, if there is one. A file that cannot be read is as
// none: the shell works without.
func openHistory(file string) *pastLines {
	p := &pastLines{file: file}
	f, err := os.Open(file)
	if err != nil {
		return p
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		p.Add(lines.Text())
	}
	return p
}

// Add enters a line, unless it is empty or the same as the last.
func (p *pastLines) Add(line string) {
	if strings.TrimSpace(line) == "" || len(p.lines) > 0 && p.lines[len(p.lines)-1] == line {
		return
	}
	p.lines = append(p.lines, line)
	if len(p.lines) > 2*keptLines {
		p.lines = slices.Clone(p.lines[len(p.lines)-keptLines:])
	}
}

// Len is the number of lines.
func (p *pastLines) Len() int { return len(p.lines) }

// At returns a line; 0 is the newest.
func (p *pastLines) At(i int) string { return p.lines[len(p.lines)-1-i] }

// search returns the newest line that holds text or, if it returned text itself
// the last time, the next older one that holds what was searched for then.
func (p *pastLines) search(text string) (line string, ok bool) {
	if p.searching == nil {
		p.searching = &search{text: text, next: len(p.lines) - 1}
	}
	for i := p.searching.next; i >= 0; i-- {
		if strings.Contains(p.lines[i], p.searching.text) && p.lines[i] != text {
			p.searching.next = i - 1
			return p.lines[i], true
		}
	}
	return "", false
}

// save appends a line to the file, which only its owner may read. Lines that hold a
// secret are not saved. A file that has grown too long is rewritten.
func (p *pastLines) save(line string) error {
	line = strings.TrimSpace(line)
	if p.file == "" || line == "" || strings.HasPrefix(line, "addauth") {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(p.file), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(p.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, line)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return shortenFile(p.file)
}

// shortenFile leaves the last lines of a file that has twice as many as are kept.
func shortenFile(file string) error {
	info, err := os.Stat(file)
	if err != nil || info.Size() < keptLines {
		return err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	lines := strings.SplitAfter(string(text), "\n")
	if len(lines) <= 2*keptLines {
		return nil
	}
	next := file + ".new"
	if err := os.WriteFile(next, []byte(strings.Join(lines[len(lines)-keptLines:], "")), fs.FileMode(0o600)); err != nil {
		return err
	}
	return os.Rename(next, file)
}
