package bench

import (
	"slices"
	"testing"
	"time"
)

// newTrack returns the track of writes at the given times, in milliseconds, with
// a read at each.
func newTrack(millis ...int64) *track {
	t := &track{every: 10 * time.Millisecond}
	for _, at := range millis {
		t.add(kindRead, at*1e6)
		t.add(kindWrite, at*1e6)
	}
	return t
}

func TestLongestGap(t *testing.T) {
	for _, test := range []struct {
		name     string
		acks     []int64
		from, to int64
		want     time.Duration
	}{
		{"within", []int64{1, 2, 3, 10, 11, 12, 15}, 2, 14, 7 * time.Millisecond},
		{"begins before", []int64{1, 9, 10, 11, 12}, 5, 12, 8 * time.Millisecond},
		{"ends after", []int64{1, 2, 3, 4, 90}, 2, 20, 16 * time.Millisecond},
		{"before and after do not count", []int64{1, 50, 51, 52, 90}, 51, 52, time.Millisecond},
		{"no write any more", []int64{1, 2}, 1, 30, 28 * time.Millisecond},
		{"last write after the end", []int64{1, 2, 3, 4, 5}, 1, 3, time.Millisecond},
	} {
		if got := newTrack(test.acks...).longestGap(test.from*1e6, test.to*1e6); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

// Writes that follow each other closely leave nothing behind but their number.
func TestTrackKeepsOnlyPauses(t *testing.T) {
	tr := &track{every: time.Second, lastWrite: 1}
	for at := range int64(10000) {
		tr.add(kindWrite, at*1000)
	}
	if len(tr.pauses) != 0 || tr.writes[0] != 10000 {
		t.Errorf("%d pauses, %d writes; want 0, 10000", len(tr.pauses), tr.writes[0])
	}
}

func TestTrackSamples(t *testing.T) {
	tr := newTrack(1, 2, 3, 25, 26, 41)
	reads, writes := tr.samples(1, 7)
	want := []uint32{0, 2, 0, 1, 0, 0}
	if !slices.Equal(reads, want) || !slices.Equal(writes, want) {
		t.Errorf("reads %v, writes %v, want %v", reads, writes, want)
	}
	if reads, _ = tr.samples(3, 2); len(reads) != 0 {
		t.Errorf("%d samples of no time", len(reads))
	}
	// Only the samples 20-30 and 30-40 lie between.
	if got := tr.writesBetween(11e6, 49e6); got != 100 {
		t.Errorf("%v writes per second, want 100", got)
	}
	if got := tr.writesBetween(11e6, 12e6); got != 0 {
		t.Errorf("%v writes per second of no sample", got)
	}
}
