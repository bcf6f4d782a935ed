package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The processor time of a process grows by what it uses, in less than a tick of /proc.
func TestProcessCPU(t *testing.T) {
	before, err := processCPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	own := ownCPU()
	for ownCPU() == own { // which is what the kernel counts for getrusage, and not finer than it
	}
	after, err := processCPU(os.Getpid())
	if used := after - before; err != nil || used <= 0 || used > time.Minute {
		t.Errorf("%v used, %v", used, err)
	}
}

func TestParseRSS(t *testing.T) {
	if got, err := parseRSS("Name:\tx\nVmRSS:\t    2048 kB\nThreads:\t3\n"); err != nil || got != 2<<20 {
		t.Errorf("%v, %v; want 2 MB", got, err)
	}
	for _, bad := range []string{"", "VmRSS:\tmuch kB\n"} {
		if got, err := parseRSS(bad); err == nil {
			t.Errorf("%q is read as %v", bad, got)
		}
	}
}

func TestProcessUsageOfNobody(t *testing.T) {
	if _, err := processUsage(1 << 30); err == nil {
		t.Error("no error")
	}
}

// The table takes medians, and knows which way is better.
func TestComparisonTable(t *testing.T) {
	c := &Comparison{
		Systems: []string{"old", "new"},
		Version: []string{"3.8.0", "dev"},
		Visits: [][]values{
			{{"reads/s": 100, "reads/cpu": 16, "create/p50": 0.5}, {"reads/s": 90, "reads/cpu": 16},
				{"reads/s": 1000, "reads/cpu": 17}},
			{{"reads/s": 900, "reads/cpu": 4, "create/p50": 0.2}, {"reads/s": 700, "reads/cpu": 4},
				{"reads/s": 850, "reads/cpu": 4}},
		},
	}
	name := filepath.Join(t.TempDir(), "bench.md")
	if err := c.WriteMarkdown(name); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| | old | new | ratio | bar | |",
		"| reads, 20 × 100 | 100/s | 850/s | 8.50 × | ≥ 8 × | PASS |",
		"| reads, 20 × 100, server CPU | 16.0 µs | 4.00 µs | 1/4.00 | ≤ 1/8 | **MISS** |",
		"| sync create, 1 worker, median | 0.50 ms | 0.20 ms | 1/2.50 | ≤ 0.25 ms | PASS |",
		"- old: 3.8.0", "- new: dev",
	} {
		if !strings.Contains(string(b), want) {
			t.Errorf("the page has no line %q:\n%s", want, b)
		}
	}
	if c.Missed != 1 {
		t.Errorf("%d bars missed, want 1", c.Missed)
	}
	if strings.Contains(string(b), "snapshot, ") {
		t.Error("the page has a row that was not measured")
	}
}

func TestMetricsAreDistinct(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range metrics(1) {
		if seen[m.key] || !strings.HasPrefix(m.key, m.row+"/") || (m.bar == "") != (m.pass == nil) {
			t.Errorf("metric %+v", m)
		}
		seen[m.key] = true
	}
}

// The bars of memory and restart grow with the znodes.
func TestBarsByZnodes(t *testing.T) {
	for _, c := range []struct {
		znodes            int
		rss, restart      string
		bytesMB, restartS float64 // the most that passes
	}{
		{1000, "≤ 250 MB", "≤ 0.7 s", 250, 0.7},
		{1_000_000, "≤ 250 MB", "≤ 0.7 s", 250, 0.7},
		{10_000_000, "≤ 2,500 MB", "≤ 10 s", 2500, 10},
	} {
		for _, m := range metricsOf(1, c.znodes, false) {
			switch {
			case m.key == "memory/rss" && (m.bar != c.rss || !m.pass(0, c.bytesMB) || m.pass(0, c.bytesMB+1)),
				m.key == "restart/s" && (m.bar != c.restart || !m.pass(0, c.restartS) || m.pass(0, c.restartS+0.1)):
				t.Errorf("%d znodes: %s has the bar %s", c.znodes, m.key, m.bar)
			}
		}
	}
}

func TestCompareRefusesUnknownRows(t *testing.T) {
	c := &Compare{Systems: []System{{Name: "x", Command: []string{"true"}}}, Pairs: 1, Members: 1, Znodes: 1,
		Sessions: 1, Rows: []string{"nonsense"}}
	if _, err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("error %v, want one that names the row", err)
	}
}

// A server that ends at once is reported with its log, not waited for.
func TestCompareServerEnds(t *testing.T) {
	c := &Compare{Systems: []System{{Name: "x", Command: []string{"false"}}}, Pairs: 1, Members: 1, Znodes: 1,
		Sessions: 1, Rows: []string{"reads"}, Dir: t.TempDir(), Port: 1}
	_, err := c.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "process ended") {
		t.Errorf("error %v", err)
	}
}

func TestNumbers(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567",
		-1234: "-1,234", -123: "-123"} {
		if got := grouped(v); got != want {
			t.Errorf("grouped(%v) is %q, want %q", v, got, want)
		}
	}
	for v, want := range map[float64]string{0.5: "0.5 µs", 1500: "1.50 ms", 2.5e6: "2.50 s"} {
		if got := latency(v); got != want {
			t.Errorf("latency(%v) is %q, want %q", v, got, want)
		}
	}
}
