package history

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// FuzzLogPrinter: whatever a log file holds, printing it ends, as text and as JSON; each line of JSON is one.
func FuzzLogPrinter(f *testing.F) {
	for _, damaged := range []bool{false, true} {
		b, err := os.ReadFile(fileOf(f, damaged))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	name := filepath.Join(f.TempDir(), "log.1")
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		text := (&LogPrinter{Out: io.Discard}).Print(name)
		lines := (&LogPrinter{Out: &out, JSON: true}).Print(name)
		if (text == nil) != (lines == nil) {
			t.Errorf("as text %v, as JSON %v", text, lines)
		}
		for line := range bytes.Lines(out.Bytes()) {
			if !json.Valid(line) {
				t.Errorf("no JSON: %q", line)
			}
		}
	})
}

// FuzzSnapshotPrinter: whatever a snapshot file holds, reading it ends, and what is read is printed in each form.
func FuzzSnapshotPrinter(f *testing.F) {
	for _, name := range []string{"snapshot.0", "snapshot.12", "snapshot.32"} {
		b, err := os.ReadFile(written + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	name := filepath.Join(f.TempDir(), "snapshot.10")
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := ReadSnapshot(name, 0)
		if err != nil {
			return
		}
		var lines, apache bytes.Buffer
		for what, err := range map[string]error{
			"text": s.PrintApache(io.Discard, true, Filter{}), "JSON": s.PrintJSON(&lines, Filter{}),
			"Apache's JSON": s.PrintApacheJSON(&apache, time.UnixMilli(0)), "summary": s.PrintSummary(io.Discard, "/", 3),
		} {
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		for line := range bytes.Lines(lines.Bytes()) {
			if !json.Valid(line) {
				t.Errorf("no JSON: %q", line)
			}
		}
		if !json.Valid(apache.Bytes()) {
			t.Errorf("no JSON: %q", apache.Bytes())
		}
	})
}
