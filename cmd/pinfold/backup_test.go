package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A restore that does without the newest snapshot of the store, because that is damaged, says so.
func TestRestoreSaysWhatItDoesNotUse(t *testing.T) {
	store := t.TempDir()
	generation := filepath.Join(store, "000001")
	succeed(t, os.CopyFS(filepath.Join(generation, "version-2"), os.DirFS("../../test/datadir/testdata/apache-3.9/version-2")))
	succeed(t, os.Truncate(filepath.Join(generation, "version-2", "snapshot.32"), 100))
	out := execute(t, 0, "restore", store, t.TempDir())
	if !strings.Contains(out, "snapshot.32 of the store is not used: ") || !strings.Contains(out, ": snapshot.20 and the log after it") {
		t.Errorf("it says %s", out)
	}
}
