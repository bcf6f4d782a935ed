package metric

import (
	"math/bits"
	"time"
)

// A Histogram is a summary of durations that has quantiles in mntr.
type Histogram struct{ Summary[time.Duration] }

// Add counts n requests that took d each. A negative d counts as 0.
func (h *Histogram) Add(n int, d time.Duration) { h.add(int64(n), d) }

// A Distribution is what a summary holds at one time, by buckets whose width is an
// eighth of their value, so that quantiles are correct to 7 %. Numbers below 16 have
// buckets of their own. The buckets of durations are of microseconds.
type Distribution struct {
	Count    int64
	Sum      int64 // in nanoseconds if it is of durations
	Min, Max int64 // the same
	// Durations reports whether the numbers are durations.
	Durations bool

	counts [buckets]int64
}

// buckets reaches up to 2^32, in microseconds more than an hour. Bucket i < 16 counts
// the numbers that are i; above, each power of two has 8 buckets.
const buckets = 16 + 28*8

func isDuration[T ~int64]() bool {
	_, ok := any(T(0)).(time.Duration)
	return ok
}

// bucketOf returns the index of the bucket that counts v.
func bucketOf[T ~int64](v T) int {
	if isDuration[T]() {
		v /= T(time.Microsecond)
	}
	n := min(uint64(v), 1<<32-1)
	if n < 16 {
		return int(n)
	}
	size := bits.Len64(n)
	return 16 + (size-5)*8 + int(n>>(size-4))&7
}

// bucketBegin returns the smallest number in bucket i, and how many numbers it has.
func bucketBegin(i int) (low, width int64) {
	if i < 16 {
		return int64(i), 1
	}
	shift := (i-16)/8 + 1
	return int64(8+(i-16)%8) << shift, 1 << shift
}

// Since returns what d has and an earlier distribution of the same summary has not.
// Minimum and maximum remain those of d. The caller checks that d.Count is not smaller.
func (d *Distribution) Since(earlier *Distribution) *Distribution {
	diff := *d
	diff.Count -= earlier.Count
	diff.Sum -= earlier.Sum
	for i := range diff.counts {
		diff.counts[i] -= earlier.counts[i]
	}
	return &diff
}

// Quantile returns a number that the part q of all numbers does not exceed, correct to
// 7 %; durations in nanoseconds. It returns 0 if there is no number.
func (d *Distribution) Quantile(q float64) int64 {
	rank := int64(q * float64(d.Count))
	for i, c := range d.counts {
		if rank < c {
			low, width := bucketBegin(i)
			return min(d.scaled(low+width/2), d.Max)
		}
		rank -= c
	}
	return 0
}

// Below returns how many numbers are smaller than a power of two, 16 or more; of
// durations, a power of two of microseconds.
func (d *Distribution) Below(power int) (n int64) {
	for _, c := range d.counts[:min(16+(power-4)*8, buckets)] {
		n += c
	}
	return n
}

// scaled converts the bounds of buckets.
func (d *Distribution) scaled(v int64) int64 {
	if d.Durations {
		v *= int64(time.Microsecond)
	}
	return v
}

// Aggregate returns the same with the quantiles that mntr prints, in nanoseconds if it
// is of durations.
func (d *Distribution) Aggregate() Aggregate {
	a := AggregateOf(d.Count, d.Sum, d.Min, d.Max)
	for _, q := range [...]struct {
		to   *int64
		part float64
	}{{&a.P50, .5}, {&a.P90, .9}, {&a.P95, .95}, {&a.P99, .99}, {&a.P999, .999}} {
		*q.to = d.Quantile(q.part)
	}
	return a
}
