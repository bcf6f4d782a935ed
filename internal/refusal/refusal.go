// Package refusal logs what the server refuses to clients and peers. It limits the
// number of lines, so that a flood of connections or requests does not flood the log,
// and cuts text that comes from outside.
package refusal

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"
)

// How many lines a Log writes: Burst at once, then one per Period.
const (
	Burst  = 20
	Period = time.Second
)

// maxText is how many bytes of a text from outside a line shows.
const maxText = 128

// Log writes lines about refusals to a logger, at most Burst at once and one per
// Period. A line says how many lines before it were omitted. Several goroutines may use
// a Log at once.
type Log struct {
	log *slog.Logger
	mu  struct {
		sync.Mutex
		full    time.Time // when a whole burst is allowed again
		omitted int
	}
}

// New returns a Log that writes to log.
func New(log *slog.Logger) *Log { return &Log{log: log} }

// Warn writes a line of level Warn, or counts it as omitted. The attributes are those
// of slog.Logger.Warn. The caller passes text from outside through Cut.
func (l *Log) Warn(msg string, attrs ...any) { l.write(slog.LevelWarn, msg, attrs) }

// Error is Warn with level Error.
func (l *Log) Error(msg string, attrs ...any) { l.write(slog.LevelError, msg, attrs) }

func (l *Log) write(level slog.Level, msg string, attrs []any) {
	omitted, ok := l.admit(time.Now())
	if !ok {
		return
	}
	if omitted > 0 {
		attrs = append(attrs[:len(attrs):len(attrs)], "omitted", omitted)
	}
	l.log.Log(context.Background(), level, msg, attrs...)
}

// admit reports whether a line may be written now, and how many were omitted since the
// last one. If not, it counts one more.
func (l *Log) admit(now time.Time) (omitted int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.full.Before(now) {
		l.mu.full = now
	}
	if l.mu.full.Sub(now) > (Burst-1)*Period {
		l.mu.omitted++
		return 0, false
	}
	l.mu.full = l.mu.full.Add(Period)
	omitted, l.mu.omitted = l.mu.omitted, 0
	return omitted, true
}

// Cut returns text in the form in which a line shows it: quoted, at most its first 128
// bytes, followed by its length if it is longer.
func Cut(text string) string {
	if len(text) <= maxText {
		return strconv.Quote(text)
	}
	return strconv.Quote(strings.ToValidUTF8(text[:maxText], "")) + "... (" + strconv.Itoa(len(text)) + " bytes)"
}
