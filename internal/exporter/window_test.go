package exporter

import (
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/metric"
)

// What is older than the window is in no quantile.
func TestWindow(t *testing.T) {
	start := time.Unix(1e9, 0)
	w := newWindows(start).of("a", "")
	var s metric.Summary[int64]
	count := func(after time.Duration) int64 { return w.recent(start.Add(after), s.Distribution()).Count }
	s.Add(1)
	for _, step := range []struct {
		after time.Duration
		add   int64
		want  int64
	}{
		{time.Minute, 0, 1},
		{3 * time.Minute, 2, 3}, // a mark: 3
		{9 * time.Minute, 3, 6}, // another: 6
		{10 * time.Minute, 0, 6},
		{11 * time.Minute, 0, 3}, // the start is too old
		{15 * time.Minute, 1, 1}, // and so is the first mark
		{16 * time.Minute, 0, 1}, // it counts from the second
		{2 * time.Hour, 5, 5},    // nobody has asked for long: since the mark before
		{2*time.Hour + 1, 0, 0},  // from the mark that was set then
		{3 * time.Hour, 0, 0},
	} {
		for range step.add {
			s.Add(1)
		}
		if got := count(step.after); got != step.want {
			t.Errorf("after %v: %d numbers in the window, want %d", step.after, got, step.want)
		}
	}
}

// A summary that was reset begins anew.
func TestWindowOfAResetSummary(t *testing.T) {
	r := metric.NewRegistry([]metric.Desc{{Name: "s", Type: metric.TypeSummary, Unit: metric.UnitCount}})
	var s metric.Summary[int64]
	r.Bind("s", &s)
	start := time.Unix(1e9, 0)
	w := newWindows(start).of("s", "")
	s.Add(100)
	s.Add(100)
	w.recent(start.Add(3*time.Minute), s.Distribution())
	r.Reset()
	s.Add(5)
	if d := w.recent(start.Add(4*time.Minute), s.Distribution()); d.Count != 1 || d.Quantile(.5) != 5 {
		t.Errorf("%d numbers, median %d; want 1 and 5", d.Count, d.Quantile(.5))
	}
}
