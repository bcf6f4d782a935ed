// Package metric adds up numbers that monitoring asks for: spans, histograms and
// what is shown of them. What is here may be used by many goroutines at a time;
// the zero values are empty.
package metric

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Span holds the least and the largest of some numbers that are not negative.
// The zero value has none. It may be used by many at a time.
type Span struct {
	least atomic.Int64 // plus one; 0 is none
	most  atomic.Int64
}

// Add takes in numbers of which the least and the largest are given. Once they
// are settled it costs two loads.
func (s *Span) Add(least, most int64) {
	for old := s.least.Load(); old == 0 || least+1 < old; old = s.least.Load() {
		if s.least.CompareAndSwap(old, least+1) {
			break
		}
	}
	for old := s.most.Load(); most > old; old = s.most.Load() {
		if s.most.CompareAndSwap(old, most) {
			break
		}
	}
}

// Get returns both, 0 if there are none.
func (s *Span) Get() (least, most int64) { return max(s.least.Load()-1, 0), s.most.Load() }

// Reset makes it empty.
func (s *Span) Reset() {
	s.least.Store(0)
	s.most.Store(0)
}

// A Histogram counts durations in buckets that are an eighth of their value
// wide, so that quantiles are right to 7 %. The zero value is empty. It may be
// used by many at a time; to add is two atomic additions and two loads.
//
// Bucket i < 16 holds i µs; from there on each power of two has eight.
type Histogram struct {
	buckets [histogramBuckets]atomic.Int64
	sum     atomic.Int64 // nanoseconds
	span    Span         // nanoseconds
}

// histogramBuckets reaches up to 2^32 µs, more than an hour.
const histogramBuckets = 16 + 28*8

// Add counts n requests that took d each.
func (h *Histogram) Add(n int, d time.Duration) {
	d = max(d, 0)
	h.buckets[bucketOf(d)].Add(int64(n))
	h.sum.Add(int64(n) * int64(d))
	h.span.Add(int64(d), int64(d))
}

func bucketOf(d time.Duration) int {
	v := min(uint64(d/time.Microsecond), 1<<32-1)
	if v < 16 {
		return int(v)
	}
	size := bits.Len64(v)
	return 16 + (size-5)*8 + int(v>>(size-4))&7
}

// bucketValue is the middle of a bucket.
func bucketValue(i int) time.Duration {
	if i < 16 {
		return time.Duration(i) * time.Microsecond
	}
	shift := (i-16)/8 + 1
	low := (8 + (i-16)%8) << shift
	return time.Duration(low+1<<shift/2) * time.Microsecond
}

// Reset makes it empty.
func (h *Histogram) Reset() {
	for i := range h.buckets {
		h.buckets[i].Store(0)
	}
	h.sum.Store(0)
	h.span.Reset()
}

// Summary is what is shown of a series of numbers.
type Summary struct {
	Count, Sum, Least, Most int64
	Average                 float64
	Quantiles               [4]int64 // p50, p95, p99, p999, of a histogram
}

// Summarise returns the summary of several histograms together, in
// milliseconds.
func Summarise(hs ...*Histogram) (s Summary) {
	var counts [histogramBuckets]int64
	var all Span
	for _, h := range hs {
		n := int64(0)
		for i := range counts {
			c := h.buckets[i].Load()
			counts[i] += c
			n += c
		}
		s.Count += n
		s.Sum += h.sum.Load()
		if n > 0 {
			all.Add(h.span.Get())
		}
	}
	s.Least, s.Most = all.Get()
	for i, part := range [...]float64{.5, .95, .99, .999} {
		s.Quantiles[i] = min(int64(quantile(&counts, int64(part*float64(s.Count)))), s.Most)
	}
	return s.inMillis()
}

// quantile is the duration that more than rank of the counted ones do not
// exceed.
func quantile(counts *[histogramBuckets]int64, rank int64) time.Duration {
	for i, c := range counts {
		if rank < c {
			return bucketValue(i)
		}
		rank -= c
	}
	return 0
}

// inMillis converts a summary of nanoseconds.
func (s Summary) inMillis() Summary {
	if s.Count > 0 {
		s.Average = float64(s.Sum) / float64(s.Count) / 1e6
	}
	for _, v := range [...]*int64{
		&s.Sum, &s.Least, &s.Most, &s.Quantiles[0], &s.Quantiles[1], &s.Quantiles[2], &s.Quantiles[3],
	} {
		*v /= int64(time.Millisecond)
	}
	return s
}

// Plain makes a summary of numbers that have no unit.
func Plain(count, sum, least, most int64) Summary {
	s := Summary{Count: count, Sum: sum, Least: least, Most: most}
	if count > 0 {
		s.Average = float64(sum) / float64(count)
	}
	return s
}

// Millis makes a summary of durations.
func Millis(count int64, sum, least, most time.Duration) Summary {
	return Summary{Count: count, Sum: int64(sum), Least: int64(least), Most: int64(most)}.inMillis()
}
