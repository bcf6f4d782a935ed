package sim

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// trace keeps what has happened: always as a hash, and as text when on.
type trace struct {
	on    bool
	hash  uint64
	lines []string
}

// note mixes numbers into the hash.
func (t *trace) note(vs ...uint64) {
	h := t.hash
	for _, v := range vs {
		h ^= v
		h *= 0x9fb21c651e98df25
		h ^= h >> 29
	}
	t.hash = h
}

// noteText mixes bytes into the hash.
func (t *trace) noteBytes(b []byte) { t.note(hashBytes(b)) }

// hashBytes is FNV-1a.
func hashBytes(b []byte) uint64 {
	h := uint64(0xcbf29ce484222325)
	for _, c := range b {
		h ^= uint64(c)
		h *= 0x100000001b3
	}
	return h
}

// say adds a line of text. Callers with something to work out ask on first.
func (s *Sim) say(who, format string, args ...any) {
	if s.trace.on {
		s.trace.lines = append(s.trace.lines, fmt.Sprintf("%12v %-4s %s", s.now.Round(time.Microsecond), who, fmt.Sprintf(format, args...)))
	}
}

func (s *Sim) traceProfile() { s.say("sim", "seed %d: %+v", s.o.Seed, s.profile) }

// traceHandler puts a member's log into the trace.
type traceHandler struct {
	s     *Sim
	who   string
	attrs []slog.Attr
}

func (h traceHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h traceHandler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString(r.Message)
	add := func(a slog.Attr) bool {
		fmt.Fprintf(&b, " %s=%v", a.Key, a.Value)
		return true
	}
	for _, a := range h.attrs {
		add(a)
	}
	r.Attrs(add)
	h.s.say(h.who, "log %v: %s", r.Level, b.String())
	return nil
}

func (h traceHandler) WithAttrs(as []slog.Attr) slog.Handler {
	h.attrs = append(append([]slog.Attr(nil), h.attrs...), as...)
	return h
}

func (h traceHandler) WithGroup(string) slog.Handler { return h }
