package metric

import (
	"sync/atomic"
	"time"
)

// A Summary keeps the count, the sum, the minimum and the maximum of some numbers,
// or of durations. It has no quantiles: see Histogram.
type Summary[T ~int64] struct {
	count, sum atomic.Int64
	all        minMax
}

// Add includes a number. A negative one counts as 0. It costs two atomic additions and
// two loads.
func (s *Summary[T]) Add(v T) {
	v = max(v, 0)
	s.Merge(1, v, v, v)
}

// Merge includes count numbers, given their sum, smallest and largest. No number may be
// negative.
func (s *Summary[T]) Merge(count int64, sum, lo, hi T) {
	s.count.Add(count)
	s.sum.Add(int64(sum))
	s.all.add(int64(lo), int64(hi))
}

// Get returns the count, the sum, the smallest and the largest number.
func (s *Summary[T]) Get() (count int64, sum, lo, hi T) {
	least, most := s.all.get()
	return s.count.Load(), T(s.sum.Load()), T(least), T(most)
}

// Aggregate returns the same and the average. Durations are in nanoseconds.
func (s *Summary[T]) Aggregate() Aggregate {
	count, sum, lo, hi := s.Get()
	return AggregateOf(count, int64(sum), int64(lo), int64(hi))
}

func (s *Summary[T]) reset() {
	s.count.Store(0)
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
