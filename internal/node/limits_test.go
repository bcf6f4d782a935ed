package node

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/zk"
)

// limited is the configuration of a server whose limits are text, and a function that
// replaces them.
func limited(t *testing.T, text string) (cfg *config.Config, replace func(string)) {
	t.Helper()
	cfg = standalone(t)
	cfg.Client.LimitsFile = filepath.Join(t.TempDir(), "limits")
	replace = func(text string) {
		t.Helper()
		name := cfg.Client.LimitsFile + ".new"
		if err := errors.Join(os.WriteFile(name, []byte(text), 0o600), os.Rename(name, cfg.Client.LimitsFile)); err != nil {
			t.Fatal(err)
		}
	}
	replace(text)
	return cfg, replace
}

// A node that runs applies the limits of its file, and new ones when the file changes.
func TestLimitsAreReadAgain(t *testing.T) {
	cfg, replace := limited(t, "session ephemerals=1")
	n := runImpatient(t, Options{Config: cfg, FS: vfs.NewMem()})
	c := dial(t, n)
	create := func(path string) error {
		_, err := c.Create(t.Context(), path, nil, zk.Ephemeral, nil)
		return err
	}
	if err := create("/a"); err != nil {
		t.Fatal(err)
	}
	if err := create("/b"); !errors.Is(err, zk.ErrSystem) {
		t.Errorf("a second ephemeral: %v", err)
	}
	replace("session ephemerals=2")
	for err := create("/b"); err != nil; err = create("/b") {
		if !errors.Is(err, zk.ErrSystem) {
			t.Fatal(err)
		}
	}
}

// A new file that is wrong, or gone, is reported once each, and the earlier limits
// remain. At the start it is an error.
func TestWrongLimits(t *testing.T) {
	cfg, replace := limited(t, "session requests=many")
	if _, err := Open(Options{Config: cfg, FS: vfs.NewMem()}); err == nil || !strings.Contains(err.Error(), "limitsFile: "+cfg.Client.LimitsFile+": line 1:") {
		t.Errorf("Open: %v", err)
	}
	replace("session requests=1")
	var log bytes.Buffer
	n, err := Open(Options{Config: cfg, FS: vfs.NewMem(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	errorsOf := func(change func()) int {
		change()
		log.Reset()
		for range 3 {
			n.limits.refresh(n.server)
		}
		return strings.Count(log.String(), "level=ERROR")
	}
	remove := func() {
		if err := os.Remove(cfg.Client.LimitsFile); err != nil {
			t.Fatal(err)
		}
	}
	for i, tt := range []struct {
		change func()
		errors int
		log    string
	}{
		{func() {}, 0, ""},
		{func() { replace("session requests=0") }, 1, "line 1: "},
		{func() { replace("\nx") }, 1, "line 2: "},
		{func() { replace("session requests=1") }, 0, "have changed"},
		{remove, 1, "no such file"},
		{func() { replace("") }, 0, "have changed"},
		{remove, 1, "no such file"},
	} {
		if got := errorsOf(tt.change); got != tt.errors || !strings.Contains(log.String(), tt.log) {
			t.Errorf("step %d: %d errors: %s", i, got, log.String())
		}
	}
}
