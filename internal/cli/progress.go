package cli

import (
	"fmt"
	"time"
)

// A progress prints on the error stream how far long work has come. On a
// terminal it is one line that is overwritten, from the first second on; elsewhere,
// a line every ten seconds. It belongs to one goroutine.
type progress struct {
	s       *shell
	what    string // "nodes deleted"
	done    int
	total   int // 0 if unknown
	begun   time.Time
	next    time.Time // when to print again
	printed bool
	over    bool // lines can be written over
}

// progress begins to count work: s.progress("nodes deleted"). stop ends it.
func (s *shell) progress(what string) *progress {
	p := &progress{s: s, what: what, begun: time.Now(), over: s.terminal || IsTerminal(s.opts.Err)}
	p.next = p.begun.Add(p.pause(time.Second))
	return p
}

// pause is the time until the next line.
func (p *progress) pause(onTerminal time.Duration) time.Duration {
	if p.over {
		return onTerminal
	}
	return 10 * time.Second
}

// expect sets the amount of work.
func (p *progress) expect(total int) { p.total = total }

// add counts n pieces of work as done.
func (p *progress) add(n int) {
	p.done += n
	now := time.Now()
	if now.Before(p.next) {
		return
	}
	p.next, p.printed = now.Add(p.pause(200*time.Millisecond)), true
	if p.over {
		fmt.Fprintf(p.s.errs, "\r\x1b[K%s", p.text(now))
		return
	}
	fmt.Fprintln(p.s.errs, p.text(now))
}

func (p *progress) text(now time.Time) string {
	rate := float64(p.done) / max(now.Sub(p.begun).Seconds(), 0.001)
	if p.total == 0 {
		return fmt.Sprintf("%d %s, %.0f/s", p.done, p.what, rate)
	}
	return fmt.Sprintf("%d of %d %s (%d%%), %.0f/s", p.done, p.total, p.what, p.done*100/p.total, rate)
}

// stop takes the line off the terminal.
func (p *progress) stop() {
	if p.printed && p.over {
		fmt.Fprint(p.s.errs, "\r\x1b[K")
	}
	p.printed = false
}
