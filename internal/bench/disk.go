package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// describeDisk says what a directory is on and what a small fsync takes there,
// which bounds every write's latency from below.
func describeDisk(dir string) string {
	where := mountOf(dir)
	d, err := fsyncTime(dir)
	if err != nil {
		return where
	}
	return fmt.Sprintf("%s, fsync of 1 KiB appended: %s median", where, latency(micros(d)))
}

// mountOf returns device and file system type of the mount that dir is in.
func mountOf(dir string) string {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return ""
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return ""
	}
	best, found := "", ""
	for line := range strings.Lines(string(mounts)) {
		f := strings.Fields(line)
		if len(f) < 3 || len(f[1]) < len(best) {
			continue
		}
		if f[1] == "/" || abs == f[1] || strings.HasPrefix(abs, f[1]+"/") {
			best, found = f[1], f[0]+" ("+f[2]+")"
		}
	}
	return found
}

// fsyncTime returns the median time of appending 1 KiB to a file and syncing it.
func fsyncTime(dir string) (time.Duration, error) {
	f, err := os.CreateTemp(dir, "fsync-")
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	block := fixedValue(1024)
	h := new(Histogram)
	for range 200 {
		start := time.Now()
		if _, err := f.Write(block); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		h.Record(time.Since(start))
	}
	return h.Quantile(0.5), nil
}
