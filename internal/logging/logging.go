// Package logging writes the log of a server: as text or as JSON, from a level on that
// may change while the server runs. Each line has the stable name of its event, and no
// event floods the log.
//
//	logging.go   the logger
//	events.go    the name of each event
package logging

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/pinfold-zk/pinfold/internal/ratelimit"
)

// New returns a logger that writes lines to w, one call of Write each. Format is "text"
// (key=value) or "json". Lines below level are left out; the caller may change the level
// at any time.
func New(w io.Writer, format string, level slog.Leveler) (*slog.Logger, error) {
	o := &slog.HandlerOptions{Level: level}
	var to slog.Handler
	switch format {
	case "text":
		to = slog.NewTextHandler(w, o)
	case "json":
		to = slog.NewJSONHandler(w, o)
	default:
		return nil, fmt.Errorf("log format %q is unknown: text or json", format)
	}
	return slog.New(&handler{to: to, limits: newLimits()}), nil
}

// ParseLevel reads a level: debug, info, warn or error.
func ParseLevel(text string) (slog.Level, error) {
	switch text {
	case "debug":
		return slog.LevelDebug, nil
	case "info":
		return slog.LevelInfo, nil
	case "warn":
		return slog.LevelWarn, nil
	case "error":
		return slog.LevelError, nil
	}
	return 0, fmt.Errorf("log level %q is unknown: debug, info, warn or error", text)
}

// handler adds the name of the event to each line, and limits how many lines there are.
type handler struct {
	to     slog.Handler
	limits *limits
}

func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.to.Enabled(ctx, level)
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{h.to.WithAttrs(attrs), h.limits}
}

func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{h.to.WithGroup(name), h.limits}
}

// Handle writes a line. The record is the caller's, so it is copied.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	event := Event(r.Message)
	omitted, ok := h.limits.admit(event, r.Level)
	if !ok {
		return nil
	}
	line := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	line.AddAttrs(slog.String("event", event))
	r.Attrs(func(a slog.Attr) bool { line.AddAttrs(a); return true })
	if omitted > 0 {
		line.AddAttrs(slog.Int("lines_omitted", omitted))
	}
	return h.to.Handle(ctx, line)
}

// How many lines one event may have: Burst at once, then one per Period. Lines of level
// debug are not limited: an operator turns them on to see all of them.
const (
	Burst  = 100
	Period = 100 * time.Millisecond
)

// limits counts the lines of each event. Events are a closed set (Event), so it does not
// grow.
type limits struct {
	start time.Time

	mu struct {
		sync.Mutex
		events map[string]*ratelimit.Lines
	}
}

func newLimits() *limits {
	l := &limits{start: time.Now()}
	l.mu.events = map[string]*ratelimit.Lines{}
	return l
}

// admit reports whether a line of the event may be written now, and how many were omitted
// since the last one. If not, it counts one more.
func (l *limits) admit(event string, level slog.Level) (omitted int, ok bool) {
	if level < slog.LevelInfo {
		return 0, true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.mu.events[event]
	if e == nil {
		e = &ratelimit.Lines{Burst: Burst, Period: Period}
		l.mu.events[event] = e
	}
	return e.Admit(time.Since(l.start))
}
