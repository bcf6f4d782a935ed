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

	"github.com/pinfold-zk/pinfold/internal/ratelimit"
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
	log   *slog.Logger
	start time.Time
	mu    struct {
		sync.Mutex
		lines ratelimit.Lines
	}
}

// New returns a Log that writes to log.
func New(log *slog.Logger) *Log {
	l := &Log{log: log, start: time.Now()}
	l.mu.lines = ratelimit.Lines{Burst: Burst, Period: Period}
	return l
}

// Warn writes a line of level Warn, or counts it as omitted. The attributes are those
// of slog.Logger.Warn. The caller passes text from outside through Cut.
func (l *Log) Warn(msg string, attrs ...any) { l.write(slog.LevelWarn, msg, attrs) }

// Error is Warn with level Error.
func (l *Log) Error(msg string, attrs ...any) { l.write(slog.LevelError, msg, attrs) }

func (l *Log) write(level slog.Level, msg string, attrs []any) {
	l.mu.Lock()
	omitted, ok := l.mu.lines.Admit(time.Since(l.start))
	l.mu.Unlock()
	if !ok {
		return
	}
	if omitted > 0 {
		attrs = append(attrs[:len(attrs):len(attrs)], "omitted", omitted)
	}
	l.log.Log(context.Background(), level, msg, attrs...)
}

// maxReason is how many bytes of an error a line shows.
const maxReason = 512

// Reason returns the text of an error that has parts from outside, which it has cut itself:
// at most its first 512 bytes. Unlike Cut it does not quote.
func Reason(err error) string {
	text := err.Error()
	if len(text) > maxReason {
		text = text[:maxReason] + "..."
	}
	return strings.ToValidUTF8(text, "?")
}

// Cut returns text in the form in which a line shows it: quoted, at most its first 128
// bytes, followed by its length if it is longer.
func Cut(text string) string {
	if len(text) <= maxText {
		return strconv.Quote(text)
	}
	return strconv.Quote(strings.ToValidUTF8(text[:maxText], "")) + "... (" + strconv.Itoa(len(text)) + " bytes)"
}
