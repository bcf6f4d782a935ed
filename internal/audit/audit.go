// Package audit is the audit log: one line for each change of the tree that a client has
// asked for, with the client's identities and the result, in Apache's format or as JSON.
//
//	audit.go  the queue, and the goroutine that writes it
//	entry.go  what a line says
//	file.go   the file, and its rotation
//
// Write appends a line to a queue in memory and never waits: its callers hold the lock of
// the tree. One goroutine, the writer, writes the queue to the output. While the output does
// not accept lines, the queue fills up; Full then tells the connections to submit no more
// changes, so no line of a client's request is lost, and reads and pings go on. The queue
// exceeds its limit by the lines of the requests that are in flight, which have a limit of
// their own.
//
// The ends of sessions are not held back: no client's connection could wait for them. Their lines may use
// the queue up to twice its limit. Further ones are counted, and a line says how many are
// missing as soon as the output accepts lines again.
package audit

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/pinfold-zk/pinfold/internal/metric"
)

// Output is where the lines go. The writer alone calls it. Write is given whole lines; it
// returns how many bytes it has written, and an error if these are not all.
type Output interface {
	Write(p []byte) (int, error)
	Close() error
}

// Options configures a Log.
type Options struct {
	Output  Output
	JSON    bool   // each line is a JSON object
	Details bool   // lines have zxid, versions and sizes
	Class   string // name of the logger in the lines of Apache's format
	User    string // of the server itself
	Limit   int    // of the queue, in bytes
	Logger  *slog.Logger
}

const (
	// retryAfter is how long the writer waits after a failed write.
	retryAfter = time.Second
	// lastWords is how long Close waits for the output.
	lastWords = 5 * time.Second
	// spareBytes is how much memory an empty queue keeps.
	spareBytes = 1 << 20
)

// Log is an audit log. All methods may be called concurrently.
type Log struct {
	o       Options
	stats   Stats
	closing chan struct{} // closed by Close
	done    chan struct{} // closed when the writer has ended

	mu struct {
		sync.Mutex
		queue   []byte
		writing int           // bytes that the writer has taken and not written yet
		lost    int           // lines, since the last that was queued
		room    chan struct{} // closed when the queue has room again; nil: it has room
		closed  bool
	}
	wake chan struct{} // holds a token when the queue is not empty
}

// Stats counts what a Log does.
type Stats struct {
	Lines  metric.Counter // queued
	Lost   metric.Counter // lines that there was no room for
	Failed metric.Counter // writes
}

// New starts a log, which owns the output from now on.
func New(o Options) *Log {
	l := &Log{o: o, closing: make(chan struct{}), done: make(chan struct{}), wake: make(chan struct{}, 1)}
	go l.run()
	return l
}

// Stats returns the log's counters; those of a nil Log are 0.
func (l *Log) Stats() *Stats {
	if l == nil {
		return new(Stats)
	}
	return &l.stats
}

// Queued returns how many bytes wait to be written, 0 for a nil Log.
func (l *Log) Queued() int64 {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return int64(len(l.mu.queue) + l.mu.writing)
}

// User returns the name of the server's user.
func (l *Log) User() string { return l.o.User }

// Full returns nil if the queue has room, and otherwise a channel that is closed when it has
// room again. A caller that may wait must do so before it submits a change.
func (l *Log) Full() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.room
}

// Write queues the line of an entry, whatever the queue holds.
func (l *Log) Write(e *Entry) { l.enqueue(e, false) }

// WriteIfRoom is Write for an entry that no request has announced: if the queue has twice its
// limit, the line is counted as lost.
func (l *Log) WriteIfRoom(e *Entry) { l.enqueue(e, true) }

func (l *Log) enqueue(e *Entry, optional bool) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.closed || optional && l.size() >= 2*l.o.Limit {
		l.mu.lost++
		l.stats.Lost.Add(1)
		return
	}
	l.noteLost(now)
	l.mu.queue = l.append(l.mu.queue, now, e)
	l.stats.Lines.Add(1)
	if l.size() >= l.o.Limit && l.mu.room == nil {
		l.mu.room = make(chan struct{})
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// size is the length of the queue. REQUIRES: l.mu.
func (l *Log) size() int { return len(l.mu.queue) + l.mu.writing }

// noteLost queues the line that says how many are missing here. REQUIRES: l.mu.
func (l *Log) noteLost(now time.Time) {
	if l.mu.lost > 0 {
		l.mu.queue = l.append(l.mu.queue, now, &Entry{Users: l.o.User, Operation: linesLost, Lost: l.mu.lost, Result: Failure})
		l.mu.lost = 0
	}
}

// run writes what is queued until the log is closed and the queue is empty.
func (l *Log) run() {
	defer close(l.done)
	var spare []byte
	for closing := l.closing; ; {
		select {
		case <-l.wake:
		case <-closing:
			closing = nil
		}
		lines, last := l.take(spare)
		if !l.writeAll(lines) {
			return
		}
		l.written()
		if spare = lines[:0]; cap(spare) > spareBytes {
			spare = nil
		}
		if last {
			return
		}
	}
}

// take returns the queue, whose place an empty one takes. last means that no line follows.
func (l *Log) take(empty []byte) (lines []byte, last bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.closed {
		l.noteLost(time.Now())
	}
	lines, l.mu.queue = l.mu.queue, empty
	l.mu.writing = len(lines)
	return lines, l.mu.closed
}

// written makes room.
func (l *Log) written() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.writing = 0
	if l.mu.room != nil && l.size() < l.o.Limit {
		close(l.mu.room)
		l.mu.room = nil
	}
}

// writeAll writes lines, and tries until it has. It returns false if it has given up because
// the log is closed.
func (l *Log) writeAll(lines []byte) bool {
	for failed := false; len(lines) > 0; {
		n, err := l.o.Output.Write(lines)
		lines = lines[n:]
		if err == nil && n > 0 {
			if failed {
				l.o.Logger.Info("the audit log is written again")
			}
			failed = false
			continue
		}
		l.stats.Failed.Add(1)
		if !failed {
			l.o.Logger.Error("the audit log cannot be written: clients' changes wait once its queue is full", "err", err)
			failed = true
		}
		select {
		case <-time.After(retryAfter):
		case <-l.closing:
			return false
		}
	}
	return true
}

// errUnwritten is the error of Close if the output does not accept the rest.
var errUnwritten = errors.New("the output does not accept lines")

// Close writes what is queued and closes the output. If the output does not accept it within
// five seconds, the error says how many bytes are lost.
func (l *Log) Close() error {
	l.mu.Lock()
	closed := l.mu.closed
	l.mu.closed = true
	l.mu.Unlock()
	if closed {
		return nil
	}
	close(l.closing)
	timer := time.NewTimer(lastWords)
	defer timer.Stop()
	select {
	case <-l.done:
	case <-timer.C:
	}
	if n := l.Queued(); n > 0 {
		return fmt.Errorf("audit: %d bytes are lost: %w", n, errUnwritten)
	}
	if err := l.o.Output.Close(); err != nil {
		return fmt.Errorf("audit: close: %w", err)
	}
	return nil
}
