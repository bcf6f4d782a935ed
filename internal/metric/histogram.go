package metric

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// A Histogram counts durations in buckets whose width is an eighth of their value, so
// that quantiles are correct to 7 %. Add costs two atomic additions and two loads.
//
// Bucket i < 16 counts durations of i µs; above, each power of two has 8 buckets.
type Histogram struct {
	sum     atomic.Int64 // nanoseconds
	all     minMax       // nanoseconds
	buckets [histogramBuckets]atomic.Int64
}

// histogramBuckets reaches up to 2^32 µs, which is more than an hour.
const histogramBuckets = 16 + 28*8

// Add counts n requests that took d each. A negative d counts as 0.
func (h *Histogram) Add(n int, d time.Duration) {
	d = max(d, 0)
	h.buckets[bucketOf(d)].Add(int64(n))
	h.sum.Add(int64(n) * int64(d))
	h.all.add(int64(d), int64(d))
}

// bucketOf returns the index of the bucket that counts d.
func bucketOf(d time.Duration) int {
	v := min(uint64(d/time.Microsecond), 1<<32-1)
	if v < 16 {
		return int(v)
	}
	size := bits.Len64(v)
	return 16 + (size-5)*8 + int(v>>(size-4))&7
}

// bucketValue returns the middle of bucket i.
func bucketValue(i int) time.Duration {
	if i < 16 {
		return time.Duration(i) * time.Microsecond
	}
	shift := (i-16)/8 + 1
	low := (8 + (i-16)%8) << shift
	return time.Duration(low+1<<shift/2) * time.Microsecond
}

func (h *Histogram) reset() {
	for i := range h.buckets {
		h.buckets[i].Store(0)
	}
	h.sum.Store(0)
	h.all.reset()
}

// Merge returns the aggregate of all durations that the histograms have counted, in
// nanoseconds.
func Merge(hs ...*Histogram) Aggregate {
	var counts [histogramBuckets]int64
	var all minMax
	var count, sum int64
	for _, h := range hs {
		n := int64(0)
		for i := range counts {
			c := h.buckets[i].Load()
			counts[i] += c
			n += c
		}
		count += n
		sum += h.sum.Load()
		if n > 0 {
			all.add(h.all.get())
		}
	}
	lo, hi := all.get()
	a := AggregateOf(count, sum, lo, hi)
	for _, q := range [...]struct {
		to   *int64
		part float64
	}{{&a.P50, .5}, {&a.P90, .9}, {&a.P95, .95}, {&a.P99, .99}, {&a.P999, .999}} {
		*q.to = min(int64(quantile(&counts, int64(q.part*float64(count)))), hi)
	}
	return a
}

// quantile returns the smallest duration that more than rank of the counted ones do not
// exceed; 0 if rank is not below their number.
func quantile(counts *[histogramBuckets]int64, rank int64) time.Duration {
	for i, c := range counts {
		if rank < c {
			return bucketValue(i)
		}
		rank -= c
	}
	return 0
}
