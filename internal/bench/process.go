package bench

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// A usage is what a process has used so far.
type usage struct {
	cpu time.Duration
	rss int64 // bytes
}

// processUsage reads it from the clock of the process and from /proc/PID/status.
func processUsage(pid int) (usage, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return usage{}, fmt.Errorf("bench: process %d: %w", pid, err)
	}
	cpu, err := processCPU(pid)
	if err != nil {
		return usage{}, fmt.Errorf("bench: process %d: %w", pid, err)
	}
	rss, err := parseRSS(string(status))
	if err != nil {
		return usage{}, fmt.Errorf("bench: process %d: %w", pid, err)
	}
	return usage{cpu: cpu, rss: rss}, nil
}

func parseRSS(status string) (int64, error) {
	value, ok := field(status, "VmRSS:")
	if !ok {
		return 0, fmt.Errorf("status has no VmRSS")
	}
	kb, err := strconv.ParseInt(strings.TrimSuffix(value, " kB"), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("status: VmRSS: %w", err)
	}
	return kb << 10, nil
}

// field returns the value of the first line that starts with name.
func field(text, name string) (string, bool) {
	sc := bufio.NewScanner(strings.NewReader(text))
	for sc.Scan() {
		if v, ok := strings.CutPrefix(sc.Text(), name); ok {
			return strings.TrimSpace(strings.TrimLeft(v, " \t:")), true
		}
	}
	return "", false
}

// A Machine says where something was measured.
type Machine struct {
	CPU      string `json:"cpu"`
	CPUs     int    `json:"cpus"`
	MemoryMB int64  `json:"memory_mb"`
	Kernel   string `json:"kernel"`
	Go       string `json:"go"`
}

// ThisMachine describes the machine that the program runs on. What cannot be
// found out stays empty.
func ThisMachine() Machine {
	m := Machine{CPUs: runtime.NumCPU(), Go: runtime.Version()}
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		m.CPU, _ = field(string(b), "model name")
	}
	if b, err := os.ReadFile("/proc/meminfo"); err == nil {
		v, _ := field(string(b), "MemTotal:")
		kb, _ := strconv.ParseInt(strings.TrimSuffix(v, " kB"), 10, 64)
		m.MemoryMB = kb >> 10
	}
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(b))
	}
	return m
}

// Commit returns the git commit that this binary was built from or, where the
// build did not record it, that the current directory is at; "" if neither is
// known. A dirty tree is marked with "+".
func Commit() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		var revision, dirty string
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				revision = s.Value
			case s.Key == "vcs.modified" && s.Value == "true":
				dirty = "+"
			}
		}
		if revision != "" {
			return revision[:min(12, len(revision))] + dirty
		}
	}
	out, err := exec.Command("git", "describe", "--always", "--abbrev=12", "--dirty=+").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
