package bench

import "time"

// A track is what a load has done, over time. It is written by one loop; others
// read it when the loop has ended. Times are of the loop's clock.
type track struct {
	every     time.Duration // the width of a sample
	reads     []uint32      // answered, sample by sample
	writes    []uint32
	lastWrite int64 // when a write was answered
	pauses    []pause
}

// A pause is a time between two acknowledged writes that follow each other, of
// at least pauseMin.
type pause struct{ from, to int64 }

// pauseMin keeps the list of pauses short under full load.
const pauseMin = 100 * time.Microsecond

// add counts an operation that was answered well.
func (t *track) add(k kind, now int64) {
	i := int(now / int64(t.every))
	for i >= len(t.reads) {
		t.reads, t.writes = append(t.reads, 0), append(t.writes, 0)
	}
	if k == kindRead {
		t.reads[i]++
		return
	}
	t.writes[i]++
	if now-t.lastWrite >= int64(pauseMin) {
		t.pauses = append(t.pauses, pause{t.lastWrite, now})
	}
	t.lastWrite = now
}

// longestGap returns the longest time without an acknowledged write that
// overlaps the time from from to to. One that the end cuts off counts as far as
// it goes; one that begins earlier counts in full. It is 0 if all are shorter
// than pauseMin.
func (t *track) longestGap(from, to int64) time.Duration {
	longest := int64(0)
	for _, p := range t.pauses {
		if p.to > from && p.from < to {
			longest = max(longest, min(p.to, to)-p.from)
		}
	}
	return time.Duration(max(longest, to-t.lastWrite))
}

// samples returns those from the first to before the last. Those in which
// nothing was answered are there too.
func (t *track) samples(first, last int) (reads, writes []uint32) {
	n := max(last-first, 0)
	reads, writes = make([]uint32, n), make([]uint32, n)
	for i := range n {
		if k := first + i; k < len(t.reads) {
			reads[i], writes[i] = t.reads[k], t.writes[k]
		}
	}
	return reads, writes
}

// writesBetween counts the writes of the samples that lie between from and to,
// and returns them for a second; 0 if there is no such sample.
func (t *track) writesBetween(from, to int64) float64 {
	first := int((from + int64(t.every) - 1) / int64(t.every))
	_, writes := t.samples(first, int(to/int64(t.every)))
	if len(writes) == 0 {
		return 0
	}
	var n float64
	for _, w := range writes {
		n += float64(w)
	}
	return n / (time.Duration(len(writes)) * t.every).Seconds()
}
