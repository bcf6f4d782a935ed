package refusal

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestFloodMakesFewLines: of very many refusals a burst is logged, then one a
// second, which says how many were left out.
func TestFloodMakesFewLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := New(slog.New(slog.NewTextHandler(&out, nil)))
		for range 1000 {
			l.Warn("refused", "client", "c")
		}
		if n := strings.Count(out.String(), "\n"); n != Burst {
			t.Errorf("%d lines at once, want %d", n, Burst)
		}
		out.Reset()
		time.Sleep(Period)
		l.Error("refused")
		l.Warn("refused")
		if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "omitted=980") || !strings.Contains(got, "ERROR") {
			t.Errorf("after a second: %q", got)
		}
	})
}

// TestCut: a text of any length and content makes a short printable one.
func TestCut(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"digest", `"digest"`},
		{"a\nb\x00", `"a\nb\x00"`},
		{strings.Repeat("x", 128), `"` + strings.Repeat("x", 128) + `"`},
		{strings.Repeat("x", 1<<20), `"` + strings.Repeat("x", 128) + `"... (1048576 bytes)`},
		{strings.Repeat("x", 127) + "é" + "y", `"` + strings.Repeat("x", 127) + `"... (130 bytes)`},
	} {
		if got := Cut(tt.text); got != tt.want {
			t.Errorf("%d bytes: %s, want %s", len(tt.text), got, tt.want)
		}
	}
}
