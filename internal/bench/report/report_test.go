package report

import (
	"encoding/csv"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/bench"
)

// measured is two runs of two systems.
func measured() *bench.PaperData {
	d := &bench.PaperData{
		Start: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC), Commit: "abc", Systems: []string{"apache", "pinfold"},
		Versions: map[string]string{"apache": "3.8.0 <b>"}, Machine: bench.Machine{CPUs: 2, MemoryMB: 7000},
	}
	for run := 1; run <= 2; run++ {
		for i, system := range d.Systems {
			for _, percent := range []float64{0, 100} {
				d.Samples = append(d.Samples, bench.Sample{
					Experiment: "throughput", System: system, Members: 3, Run: run,
					Params: map[string]float64{"reads_percent": percent},
					Values: map[string]float64{"rate": (percent + 10) * 1000 * float64(1+11*i+run), "cpu_us": 3},
				})
			}
			d.Samples = append(d.Samples, bench.Sample{
				Experiment: "barriers", System: system, Members: 3, Run: run,
				Params: map[string]float64{"clients": 50, "barriers": 200}, Values: map[string]float64{"seconds": 2.5},
			})
		}
	}
	line := recorded().Systems[0]
	d.Failures = []bench.Failures{{Run: 1, Sample: 0.1, Timeline: line}}
	return d
}

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	if err := Write(dir, measured()); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "report.html"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	for _, want := range []string{
		"Figure 5: throughput by the share of reads", "Table 3: double barriers", "Figure 8", "pinfold, 3 servers, 50.0 clients",
		"2026-01-02, commit abc; 2 runs", "3.8.0 &lt;b&gt;", "<svg", // what servers say is escaped, our own picture is not
		"<td>reads</td><td>275,000 /s</td><td>1,485,000 /s</td>\n<td>5.40 ×</td><td>≥ 10 ×</td><td><span class=\"miss\">",
		"1,485,000 (1,430,000–1,540,000)",
		"<td>80/20</td><td></td><td></td>\n<td></td><td>≥ 10 ×</td><td>not measured</td>", // of the bars none is passed over
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	if strings.Contains(page, "Idle sessions") {
		t.Error("the page has a section of what was not measured")
	}
	svg, err := os.ReadFile(filepath.Join(dir, "throughput.svg"))
	if err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(strings.NewReader(string(svg))); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Open(filepath.Join(dir, "samples.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil || len(lines) != 1+2*2*(2*2+1) {
		t.Errorf("%d lines, %v", len(lines), err)
	}
}

func TestRuns(t *testing.T) {
	d := measured()
	again := d.Samples[0]
	again.Run = 3
	d.Samples = append(d.Samples, again)
	if got := runs(d); got != "3 runs of what bars are held against, 2 of the rest" {
		t.Error(got)
	}
	if got := runs(&bench.PaperData{Samples: d.Samples[:1]}); got != "1 run" {
		t.Error(got)
	}
}

// A ratio needs somebody to be held against.
func TestPageAlone(t *testing.T) {
	d := measured()
	d.Systems = d.Systems[1:]
	page, _, err := render(d)
	if want := "<td>reads</td><td>1,485,000 /s</td>\n<td>≥ 10 ×</td><td>nothing to compare with</td>"; err != nil || !strings.Contains(string(page), want) {
		t.Errorf("the page has no %q: %v", want, err)
	}
}

func TestWriteRefuses(t *testing.T) {
	if err := Write(t.TempDir(), &bench.PaperData{Systems: []string{"a"}}); err == nil {
		t.Error("nothing is reported")
	}
}

func TestPowerTicks(t *testing.T) {
	var got []string
	for _, tick := range (powerTicks{}).Ticks(15, 2500) {
		got = append(got, tick.Label)
	}
	if s := strings.Join(got, " "); s != "20 50 100 200 500 1 k 2 k" {
		t.Errorf("ticks %q", s)
	}
}
