package metric

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

// Every bucket's middle lies in it, the next bucket begins where it ends, and
// no duration is further from its bucket's middle than promised.
func TestHistogramBuckets(t *testing.T) {
	for i := range histogramBuckets {
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
	if last != histogramBuckets-1 {
		t.Errorf("two hours are in bucket %d of %d", last, histogramBuckets)
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
	s := Merge(&h, &other).Millis()
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
	if s := Merge(&h); s != (Aggregate{}) {
		t.Errorf("after reset: %+v", s)
	}
}

// One slow request among many is visible: it is the maximum and, of a thousand, the
// quantile 0.999.
func TestHistogramOfBatches(t *testing.T) {
	var h Histogram
	h.Add(999, 2*time.Millisecond)
	h.Add(1, 300*time.Millisecond)
	got := Merge(&h).Millis()
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
