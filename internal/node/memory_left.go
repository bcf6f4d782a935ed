package node

import (
	"fmt"
	"math"
	"os"
	"path"
	"strconv"
	"strings"
)

// keptShare is the part of all memory, of the machine or of a control group, that a learner
// leaves to others when it receives a leader's tree.
const keptShare = 16

// memoryLeft returns how many bytes of memory the process may still take, 0 or less if it
// should take no more: of what the machine has available, and of what the control groups of
// the process allow. Where neither is known that is the largest int64.
func memoryLeft() int64 {
	left := int64(math.MaxInt64)
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		left = leftOfMachine(string(text))
	}
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return left // not Linux
	}
	const groups = "/sys/fs/cgroup"
	for dir := groupOf(string(text)); ; dir = path.Dir(dir) {
		var files [3]string
		for i, name := range [...]string{"memory.max", "memory.current", "memory.stat"} {
			b, err := os.ReadFile(path.Join(groups, dir, name))
			if err != nil {
				break // no limit is known here: the root has no such files
			}
			files[i] = string(b)
		}
		left = min(left, leftOfGroup(files[0], files[1], files[2]))
		if dir == "/" {
			return left
		}
	}
}

// leftOfMachine reads /proc/meminfo.
func leftOfMachine(meminfo string) int64 {
	kilobytes := map[string]int64{}
	for line := range strings.Lines(meminfo) {
		var name string
		var n int64
		if _, err := fmt.Sscanf(line, "%s %d kB", &name, &n); err == nil {
			kilobytes[name] = n
		}
	}
	all, available := kilobytes["MemTotal:"], kilobytes["MemAvailable:"]
	if all == 0 {
		return math.MaxInt64
	}
	return (available - all/keptShare) << 10
}

// groupOf returns the path of the control group (version 2) that /proc/self/cgroup names,
// "/" if it names none.
func groupOf(cgroup string) string {
	for line := range strings.Lines(cgroup) {
		if dir, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			return path.Join("/", dir)
		}
	}
	return "/"
}

// leftOfGroup is what a control group allows, by the files of these names: the kernel takes
// what it keeps of inactive files back before it ends a process.
func leftOfGroup(most, current, stat string) int64 {
	limit, err := strconv.ParseInt(strings.TrimSpace(most), 10, 64)
	if err != nil {
		return math.MaxInt64 // "max"
	}
	used, err := strconv.ParseInt(strings.TrimSpace(current), 10, 64)
	if err != nil {
		return math.MaxInt64
	}
	for line := range strings.Lines(stat) {
		if n, ok := strings.CutPrefix(line, "inactive_file "); ok {
			idle, _ := strconv.ParseInt(strings.TrimSpace(n), 10, 64) // no number: none is known
			used -= idle
		}
	}
	return limit - limit/keptShare - used
}
