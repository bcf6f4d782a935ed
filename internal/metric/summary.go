package metric

import (
	"sync/atomic"
	"time"
)

// A Summary keeps the count, the sum, the minimum, the maximum and the distribution of
// some numbers, or of durations.
type Summary[T ~int64] struct {
	sum     atomic.Int64
	all     minMax
	buckets [buckets]atomic.Int64
}

// Add includes a number. A negative one counts as 0. It costs two atomic additions and
// two loads.
func (s *Summary[T]) Add(v T) { s.add(1, v) }

func (s *Summary[T]) add(n int64, v T) {
	v = max(v, 0)
	s.buckets[bucketOf(v)].Add(n)
	s.sum.Add(n * int64(v))
	s.all.add(int64(v), int64(v))
}

// Merge includes count numbers, given their sum, smallest and largest. No number may be
// negative. In the distribution each of them counts as their average.
func (s *Summary[T]) Merge(count int64, sum, lo, hi T) {
	if count <= 0 {
		return
	}
	s.buckets[bucketOf(sum/T(count))].Add(count)
	s.sum.Add(int64(sum))
	s.all.add(int64(lo), int64(hi))
}

// Get returns the count, the sum, the smallest and the largest number.
func (s *Summary[T]) Get() (count int64, sum, lo, hi T) {
	for i := range s.buckets {
		count += s.buckets[i].Load()
	}
	if count == 0 {
		return 0, 0, 0, 0
	}
	least, most := s.all.get()
	return count, T(s.sum.Load()), T(least), T(most)
}

// Aggregate returns the same and the average. Durations are in nanoseconds.
func (s *Summary[T]) Aggregate() Aggregate {
	count, sum, lo, hi := s.Get()
	return AggregateOf(count, int64(sum), int64(lo), int64(hi))
}

// Distribution returns the numbers by their buckets.
func (s *Summary[T]) Distribution() *Distribution {
	d := &Distribution{Durations: isDuration[T]()}
	s.addTo(d)
	return d
}

// addTo adds what s holds to d.
func (s *Summary[T]) addTo(d *Distribution) {
	count, sum, lo, hi := s.Get()
	if count == 0 {
		return
	}
	for i := range d.counts {
		d.counts[i] += s.buckets[i].Load()
	}
	if d.Count == 0 || int64(lo) < d.Min {
		d.Min = int64(lo)
	}
	d.Max = max(d.Max, int64(hi))
	d.Count += count
	d.Sum += int64(sum)
}

func (s *Summary[T]) reset() {
	for i := range s.buckets {
		s.buckets[i].Store(0)
	}
	s.sum.Store(0)
	s.all.reset()
}

// An Aggregate is what a summary or a histogram holds at one time.
type Aggregate struct {
	Count, Sum, Min, Max     int64 // Min and Max are 0 if Count is 0
	Average                  float64
	P50, P90, P95, P99, P999 int64 // quantiles; only of a histogram
}

// AggregateOf returns an aggregate without quantiles.
func AggregateOf(count, sum, lo, hi int64) Aggregate {
	a := Aggregate{Count: count, Sum: sum, Min: lo, Max: hi}
	if count > 0 {
		a.Average = float64(sum) / float64(count)
	}
	return a
}

// Once returns the aggregate of a single duration, in nanoseconds.
func Once(d time.Duration) Aggregate { return AggregateOf(1, int64(d), int64(d), int64(d)) }

// Millis converts nanoseconds to whole milliseconds, rounded down. Only the average
// keeps its fraction.
func (a Aggregate) Millis() Aggregate {
	a.Average /= float64(time.Millisecond)
	for _, v := range [...]*int64{&a.Sum, &a.Min, &a.Max, &a.P50, &a.P90, &a.P95, &a.P99, &a.P999} {
		*v /= int64(time.Millisecond)
	}
	return a
}
