package hostile

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// memory is the resident set of a process in bytes: now, and the most since resetPeak.
type memory struct{ now, peak int64 }

// memoryOf reads it from /proc/PID/status.
func memoryOf(pid int) (memory, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return memory{}, fmt.Errorf("hostile: memory of process %d: %w", pid, err)
	}
	var m memory
	if m.now, err = kilobytes(string(text), "VmRSS"); err != nil {
		return memory{}, fmt.Errorf("hostile: memory of process %d: %w", pid, err)
	}
	if m.peak, err = kilobytes(string(text), "VmHWM"); err != nil {
		return memory{}, fmt.Errorf("hostile: memory of process %d: %w", pid, err)
	}
	return m, nil
}

// kilobytes returns the value in bytes of a line "name:   123 kB".
func kilobytes(text, name string) (int64, error) {
	_, rest, ok := strings.Cut(text, name+":")
	value, _, ok2 := strings.Cut(rest, " kB")
	if !ok || !ok2 {
		return 0, fmt.Errorf("status has no %s", name)
	}
	n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
	return n << 10, err
}

// resetPeak has the system count the peak from now on.
func resetPeak(pid int) error {
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0); err != nil {
		return fmt.Errorf("hostile: peak of process %d: %w", pid, err)
	}
	return nil
}

func TestKilobytes(t *testing.T) {
	const status = "Name:\tpinfold\nVmHWM:\t   21084 kB\nVmRSS:\t   20000 kB\n"
	if n, err := kilobytes(status, "VmHWM"); n != 21084<<10 || err != nil {
		t.Error(n, err)
	}
	if _, err := kilobytes(status, "VmPeak"); err == nil {
		t.Error("a line that is not there has a value")
	}
}
