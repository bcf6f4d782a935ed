package bench

import (
	"math/bits"
	"time"
)

const (
	histSubBits = 7 // 128 buckets for each power of two: values are kept to within 0.8 %
	histSub     = 1 << histSubBits
	histMaxBits = 42 // larger values (73 minutes in nanoseconds) count as the largest
	histBuckets = (histMaxBits-histSubBits)*histSub + histSub
)

// A Histogram counts durations in buckets whose width grows with their value,
// so that a quantile is never further than 1/128 above the true one. Recording
// is a few instructions and never allocates. The zero value is empty. It is not
// safe for concurrent use: every loop has its own, and they are merged. (The servers'
// metric.Histogram is for many goroutines, and takes a twentieth of the memory; its
// quantiles are correct to 7 %, which is too coarse to compare two measurements.)
type Histogram struct {
	count  uint64
	sum    uint64 // nanoseconds
	max    uint64
	min    uint64 // meaningless while count is 0
	bucket [histBuckets]uint64
}

// Record counts one duration. A negative one counts as zero.
func (h *Histogram) Record(d time.Duration) {
	v := uint64(max(d, 0))
	if h.count == 0 || v < h.min {
		h.min = v
	}
	h.count++
	h.sum += v
	h.max = max(h.max, v)
	h.bucket[bucketOf(v)]++
}

// Merge adds the counts of o to h.
func (h *Histogram) Merge(o *Histogram) {
	if o.count == 0 {
		return
	}
	if h.count == 0 || o.min < h.min {
		h.min = o.min
	}
	h.count += o.count
	h.sum += o.sum
	h.max = max(h.max, o.max)
	for i, n := range o.bucket {
		h.bucket[i] += n
	}
}

// Count returns how many durations were recorded.
func (h *Histogram) Count() uint64 { return h.count }

// Max returns the longest duration, exactly; 0 if there is none.
func (h *Histogram) Max() time.Duration { return time.Duration(h.max) }

// Min returns the shortest duration, exactly; 0 if there is none.
func (h *Histogram) Min() time.Duration {
	if h.count == 0 {
		return 0
	}
	return time.Duration(h.min)
}

// Mean returns the arithmetic mean, exactly; 0 if there is none.
func (h *Histogram) Mean() time.Duration {
	if h.count == 0 {
		return 0
	}
	return time.Duration(h.sum / h.count)
}

// Quantile returns the smallest duration that at least the share q (0 to 1) of
// the recorded ones does not exceed, rounded up to the end of its bucket; 0 if
// there is none.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.count == 0 {
		return 0
	}
	rank := uint64(q * float64(h.count))
	if float64(rank) < q*float64(h.count) || rank == 0 {
		rank++
	}
	rank = min(rank, h.count)
	var seen uint64
	for i, n := range h.bucket {
		if seen += n; seen >= rank {
			return time.Duration(min(bucketEnd(i), h.max))
		}
	}
	return time.Duration(h.max)
}

// bucketOf returns the index of v's bucket: v itself up to 255, then 128
// buckets for each further bit.
func bucketOf(v uint64) int {
	if v >= 1<<histMaxBits {
		return histBuckets - 1
	}
	if v < 2*histSub {
		return int(v)
	}
	shift := bits.Len64(v) - histSubBits - 1
	return shift*histSub + int(v>>shift)
}

// bucketEnd returns the largest value of bucket i.
func bucketEnd(i int) uint64 {
	if i < 2*histSub {
		return uint64(i)
	}
	shift := i/histSub - 1
	return (uint64(i-shift*histSub)+1)<<shift - 1
}
