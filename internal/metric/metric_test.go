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
			t.Fatalf("%v is in bucket %d, what is shorter in %d", d, i, last)
		}
		last = i
		if off := (bucketValue(i) - d).Abs(); d < time.Hour && off > max(time.Microsecond, d*7/100) {
			t.Errorf("%v: bucket %d stands for %v", d, i, bucketValue(i))
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
	s := Summarise(&h, &other)
	if s.Count != n || s.Least != all[0].Milliseconds() || s.Most != all[n-1].Milliseconds() {
		t.Errorf("count %d, least %d, most %d", s.Count, s.Least, s.Most)
	}
	for i, part := range []float64{.5, .95, .99, .999} {
		want := all[int(part*n)].Milliseconds()
		if off := s.Quantiles[i] - want; max(off, -off) > want*7/100+1 {
			t.Errorf("quantile %v: %d ms, want about %d", part, s.Quantiles[i], want)
		}
	}
	h.Reset()
	if s := Summarise(&h); s != (Summary{}) {
		t.Errorf("after reset: %+v", s)
	}
}

// One slow request among many does not hide: it is the maximum and, of a
// thousand, the quantile 0.999.
func TestHistogramOfBatches(t *testing.T) {
	var h Histogram
	h.Add(999, 2*time.Millisecond)
	h.Add(1, 300*time.Millisecond)
	s := Summarise(&h)
	want := Summary{Count: 1000, Sum: 999*2 + 300, Least: 2, Most: 300, Average: 2.298, Quantiles: s.Quantiles}
	if s != want || s.Quantiles[2] > 3 || s.Quantiles[3] < 280 || s.Quantiles[3] > 300 {
		t.Errorf("%+v", s)
	}
}

func TestSpanOfManyWriters(t *testing.T) {
	var s Span
	if least, most := s.Get(); least != 0 || most != 0 {
		t.Errorf("empty: %d, %d", least, most)
	}
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 1000 {
				v := int64(5 + (i*7+w)%1000)
				s.Add(v, v)
			}
		})
	}
	wg.Wait()
	if least, most := s.Get(); least != 5 || most != 1004 {
		t.Errorf("%d, %d", least, most)
	}
	s.Add(0, 0)
	if least, _ := s.Get(); least != 0 {
		t.Errorf("zero is not the least, %d is", least)
	}
}
