package bench

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Every value lies in its bucket, buckets follow each other without a gap, and
// none is wider than 1/128 of its values.
func TestHistogramBuckets(t *testing.T) {
	start := uint64(0)
	for i := range histBuckets {
		end := bucketEnd(i)
		if bucketOf(start) != i || bucketOf(end) != i {
			t.Fatalf("bucket %d is [%d, %d], but they are put in %d and %d",
				i, start, end, bucketOf(start), bucketOf(end))
		}
		if width := end - start + 1; width > 1 && width > start/128 {
			t.Fatalf("bucket %d is [%d, %d]: wider than 1/128", i, start, end)
		}
		start = end + 1
	}
	if start != 1<<histMaxBits {
		t.Errorf("the buckets end at %d, want %d", start, uint64(1)<<histMaxBits)
	}
	if got := bucketOf(math.MaxInt64); got != histBuckets-1 {
		t.Errorf("the largest value is put in bucket %d, want the last", got)
	}
}

func TestHistogramQuantiles(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	shapes := map[string]func() float64{
		"uniform":     func() float64 { return random.Float64() * 1e7 },
		"exponential": func() float64 { return random.ExpFloat64() * 3e5 },
		"long tail":   func() float64 { return math.Exp(random.NormFloat64()*3 + 10) },
		"small":       func() float64 { return random.Float64() * 50 },
	}
	for name, next := range shapes {
		t.Run(name, func(t *testing.T) {
			var h, left, right Histogram
			var all []time.Duration
			var sum time.Duration
			for i := range 20000 {
				d := time.Duration(next())
				all, sum = append(all, d), sum+d
				h.Record(d)
				if i%3 == 0 {
					left.Record(d)
				} else {
					right.Record(d)
				}
			}
			slices.Sort(all)
			for _, q := range []float64{0, 0.001, 0.25, 0.5, 0.9, 0.99, 0.999, 1} {
				want := all[max(0, int(math.Ceil(q*float64(len(all))))-1)]
				if got := h.Quantile(q); got < want || got > want+want/128 {
					t.Errorf("quantile %v is %d, want %d to within 1/128 above", q, got, want)
				}
			}
			if h.Max() != all[len(all)-1] || h.Min() != all[0] || h.Mean() != sum/20000 {
				t.Errorf("max %v, min %v, mean %v; want %v, %v, %v",
					h.Max(), h.Min(), h.Mean(), all[len(all)-1], all[0], sum/20000)
			}
			if left.Merge(&right); left != h {
				t.Error("two halves merged differ from the whole")
			}
		})
	}
}

func TestHistogramEdges(t *testing.T) {
	var h Histogram
	if h.Quantile(0.5) != 0 || h.Mean() != 0 || h.Max() != 0 || h.Min() != 0 {
		t.Error("an empty histogram has values")
	}
	h.Record(-5)
	if h.Count() != 1 || h.Max() != 0 {
		t.Errorf("a negative duration: count %d, max %v; want 1, 0", h.Count(), h.Max())
	}
	h.Record(math.MaxInt64)
	if h.Quantile(1) != math.MaxInt64 && h.Quantile(1) != time.Duration(bucketEnd(histBuckets-1)) {
		t.Errorf("the largest duration reads as %v", h.Quantile(1))
	}
	if n := testing.AllocsPerRun(100, func() { h.Record(time.Second) }); n != 0 {
		t.Errorf("recording allocates %v times", n)
	}
}
