package cluster

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// TestPauseWaits demands that a busy process has stopped when Pause returns.
func TestPauseWaits(t *testing.T) {
	c, err := StartClient(exec.Command("sh", "-c", "while :; do :; done"), filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Kill()
	for range 100 {
		if err := c.Pause(); err != nil {
			t.Fatal(err)
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.p.cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(stat, []byte(") T ")) {
			t.Fatalf("not stopped: %s", stat)
		}
		if err := c.p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	c.Kill()
	if err := c.Pause(); err == nil {
		t.Fatal("a process that has ended was paused")
	}
}
