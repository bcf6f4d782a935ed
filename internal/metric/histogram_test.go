package metric

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

// bucketValue returns the middle of bucket i.
func bucketValue(i int) time.Duration {
	low, width := bucketBegin(i)
	return time.Duration(low+width/2) * time.Microsecond
}

// Every bucket's middle lies in it, the next bucket begins where it ends, and
// no duration is further from its bucket's middle than promised.
func TestHistogramBuckets(t *testing.T) {
	for i := range buckets {
		if got := bucketOf(bucketValue(i)); got != i {
			t.Errorf("the middle of bucket %d, %v, is in %d", i, bucketValue(i), got)
		}
	}
	last := 0
	for d := time.Duration(0); d < 2*time.Hour; d += max(time.Microsecond, d/1000) {
		i := bucketOf(d)
		if i < last || i > last+1 {
			t.Fatalf("%v is in bucket %d, a shorter duration in %d", d, i, last)
		}
		last = i
		if off := (bucketValue(i) - d).Abs(); d < time.Hour && off > max(time.Microsecond, d*7/100) {
			t.Errorf("%v: the middle of bucket %d is %v", d, i, bucketValue(i))
		}
	}
	if last != buckets-1 {
		t.Errorf("two hours are in bucket %d of %d", last, buckets)
	}
}

func TestHistogramQuantiles(t *testing.T) {
	const n = 20_000
	rng := rand.New(rand.NewPCG(7, 7))
	var h, other Histogram
	var all []time.Duration
	for i := range n {
		d := time.Duration(rng.ExpFloat64() * float64(200*time.Millisecond))
		all = append(all, d)
		[...]*Histogram{&h, &other}[i%2].Add(1, d)
	}
	slices.Sort(all)
	s := Union{&h, &other}.Distribution().Aggregate().Millis()
	if s.Count != n || s.Min != all[0].Milliseconds() || s.Max != all[n-1].Milliseconds() {
		t.Errorf("count %d, min %d, max %d", s.Count, s.Min, s.Max)
	}
	for part, got := range map[float64]int64{.5: s.P50, .9: s.P90, .95: s.P95, .99: s.P99, .999: s.P999} {
		want := all[int(part*n)].Milliseconds()
		if off := got - want; max(off, -off) > want*7/100+1 {
			t.Errorf("quantile %v: %d ms, want about %d", part, got, want)
		}
	}
	h.reset()
	if s := (Union{&h}).Distribution().Aggregate(); s != (Aggregate{}) {
		t.Errorf("after reset: %+v", s)
	}
}

// One slow request among many is visible: it is the maximum and, of a thousand, the
// quantile 0.999.
func TestHistogramOfBatches(t *testing.T) {
	var h Histogram
	h.Add(999, 2*time.Millisecond)
	h.Add(1, 300*time.Millisecond)
	got := Union{&h}.Distribution().Aggregate().Millis()
	want := Aggregate{Count: 1000, Sum: 999*2 + 300, Min: 2, Max: 300, Average: 2.298,
		P50: got.P50, P90: got.P50, P95: got.P50, P99: got.P50, P999: got.P999}
	if got != want || got.P50 < 1 || got.P50 > 2 || got.P999 < 280 || got.P999 > 300 {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestMinMaxOfManyWriters(t *testing.T) {
	var s minMax
	if least, most := s.get(); least != 0 || most != 0 {
		t.Errorf("empty: %d, %d", least, most)
	}
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 1000 {
				v := int64(5 + (i*7+w)%1000)
				s.add(v, v)
			}
		})
	}
	wg.Wait()
	if least, most := s.get(); least != 5 || most != 1004 {
		t.Errorf("%d, %d", least, most)
	}
	s.add(0, 0)
	if least, _ := s.get(); least != 0 {
		t.Errorf("the minimum is %d, want 0", least)
	}
}

// The distribution of a summary has its numbers in buckets, and since an earlier one only
// those that were added later.
func TestDistribution(t *testing.T) {
	var s Summary[int64]
	for v := range int64(100) {
		s.Add(v)
	}
	d := s.Distribution()
	if d.Count != 100 || d.Sum != 4950 || d.Min != 0 || d.Max != 99 || d.Durations {
		t.Errorf("%d numbers, sum %d, %d to %d, durations %v", d.Count, d.Sum, d.Min, d.Max, d.Durations)
	}
	if got := d.Quantile(.5); got < 46 || got > 54 {
		t.Errorf("the median is %d", got)
	}
	for power, want := range map[int]int64{4: 16, 5: 32, 6: 64, 7: 100, 40: 100} {
		if got := d.Below(power); got != want {
			t.Errorf("%d numbers are below 2^%d, want %d", got, power, want)
		}
	}
	s.Merge(10, 5000, 1, 900)
	since := s.Distribution().Since(d)
	if since.Count != 10 || since.Sum != 5000 || since.Below(9) != 10 || since.Below(8) != 0 {
		t.Errorf("since then: %d numbers, sum %d, %d below 512, %d below 256", since.Count, since.Sum, since.Below(9), since.Below(8))
	}
	if got := since.Quantile(.99); got < 465 || got > 535 {
		t.Errorf("the quantile of those that were merged is %d", got)
	}
	var h Histogram
	h.Add(3, 5*time.Millisecond)
	if d := h.Distribution(); !d.Durations || d.Sum != int64(15*time.Millisecond) || d.Below(12) != 0 || d.Below(13) != 3 {
		t.Errorf("three durations: %+v", d)
	}
}
