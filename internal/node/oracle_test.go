package node

import (
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// The oracle permits only if its file's first byte is '1', as Apache's; what cannot be read
// permits nothing, and nothing has the reader wait.
func TestAsksTheOracle(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	asks := func(file string) bool {
		o := &oracle{file: file, log: slog.New(slog.DiscardHandler)}
		return o.ask()
	}
	for text, want := range map[string]bool{"1": true, "1\n": true, "10": true, "0\n": false, "": false, " 1": false, "true": false} {
		name := filepath.Join(dir, "says")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := asks(name); got != want {
			t.Errorf("%q permits: %v", text, got)
		}
	}
	for _, name := range []string{filepath.Join(dir, "missing"), dir, fifo} {
		if asks(name) {
			t.Errorf("%s permits", name)
		}
	}
}
