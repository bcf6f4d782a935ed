package logging

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A line has time, level, message, event and the attributes, in both formats, and levels
// change while the logger is used.
func TestFormats(t *testing.T) {
	for format, want := range map[string]string{
		"text": `level=INFO msg="session expired" server=2 event=session_expired session=0x1` + "\n",
		"json": `"level":"INFO","msg":"session expired","server":2,"event":"session_expired","session":"0x1"}` + "\n",
	} {
		var out bytes.Buffer
		level := new(slog.LevelVar)
		log, err := New(&out, format, level)
		if err != nil {
			t.Fatal(err)
		}
		log = log.With("server", 2)
		log.Debug("connection closed")
		level.Set(slog.LevelWarn)
		log.Info("session expired", "session", "0x1")
		if out.Len() > 0 {
			t.Errorf("%s: lines below the level: %s", format, out.String())
		}
		level.Set(slog.LevelInfo)
		log.Info("session expired", "session", "0x1")
		if got := out.String(); !strings.HasSuffix(got, want) {
			t.Errorf("%s: %s, want it to end with %s", format, got, want)
		}
		if format == "json" && !json.Valid(out.Bytes()) {
			t.Errorf("no JSON: %s", out.String())
		}
	}
	if _, err := New(nil, "xml", slog.LevelInfo); err == nil {
		t.Error("the format xml is accepted")
	}
}

// An event that comes in a flood is written Burst times, and once a Period later on; what
// was omitted is counted. Other events, and lines for debugging, are not affected.
func TestFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log, err := New(&out, "text", slog.LevelDebug)
		if err != nil {
			t.Fatal(err)
		}
		lines := func() int {
			defer out.Reset()
			return strings.Count(out.String(), "\n")
		}
		for range Burst + 50 {
			log.Info("session expired")
		}
		if n := lines(); n != Burst {
			t.Errorf("%d lines at once, want %d", n, Burst)
		}
		log.Warn("a client was refused")
		if n := lines(); n != 1 {
			t.Errorf("%d lines of another event, want 1", n)
		}
		time.Sleep(Period)
		log.Info("session expired")
		if got := out.String(); !strings.HasSuffix(got, " lines_omitted=50\n") {
			t.Errorf("after a period: %q", got)
		}
		out.Reset()
		for range 2 * Burst {
			log.Debug("connection closed")
		}
		if n := lines(); n != 2*Burst {
			t.Errorf("%d lines for debugging, want %d", n, 2*Burst)
		}
	})
}

func TestParseLevel(t *testing.T) {
	for text, want := range map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError} {
		if got, err := ParseLevel(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	if _, err := ParseLevel("loud"); err == nil {
		t.Error("the level loud is accepted")
	}
}

func TestEventsAreUnique(t *testing.T) {
	seen := map[string]string{}
	for message, name := range events {
		if other, ok := seen[name]; ok {
			t.Errorf("%s is the event of %q and of %q", name, message, other)
		}
		seen[name] = message
	}
	if got := Event("something else"); got != "unnamed" {
		t.Errorf("an unknown message is the event %q", got)
	}
}

var update = flag.Bool("update", false, "write the table of docs/ops/logs.md anew")

// tableBegins is the line behind which the table stands.
const tableBegins = "go test ./internal/logging -update -->\n\n"

// The table of docs/ops/logs.md has all events.
func TestDocumentation(t *testing.T) {
	const name = "../../docs/ops/logs.md"
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	head, got, ok := strings.Cut(string(text), tableBegins)
	if !ok {
		t.Fatalf("%s has no line that ends with %q", name, tableBegins)
	}
	messages := map[string]string{}
	for message, event := range events {
		messages[event] = message
	}
	want := "| event | message |\n|---|---|\n"
	for _, event := range slices.Sorted(maps.Keys(messages)) {
		want += fmt.Sprintf("| `%s` | %s |\n", event, messages[event])
	}
	if *update {
		if err := os.WriteFile(name, []byte(head+tableBegins+want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s is not up to date; run with -update (-events +page):\n%s", name, diff)
	}
}
