package node

import (
	"runtime/metrics"
	"time"
)

// When the process becomes idle it returns the memory to the system that its load has
// used: up to garbageBytes of garbage, and buffers. The runtime alone would keep it for
// minutes, and a tenth of the heap permanently.
//
// The process is idle when it has allocated less than quietBytes in trimEvery, trimAfter times in
// a row. Returning memory costs a collection, so it is done only if the spare memory is
// at least trimBytes, and at least one trimPart-th of the live heap. While there is less, the process looks
// only every trimSeldom.
//
// A process with a light load, of less than lightBytes in trimEvery, returns what a heavy load before it
// has left: the system frees the memory of a leader that was killed before it closes its connections, by
// which the others notice, at a rate of 0.3 ms a MiB on some machines. This takes spare memory of
// lightTrimBytes: the light load itself has less garbage, and would take what is returned again.
const (
	trimEvery      = 250 * time.Millisecond
	trimSeldom     = time.Second
	trimAfter      = 5
	quietBytes     = 512 << 10
	lightBytes     = 2 << 20
	trimBytes      = 8 << 20
	lightTrimBytes = garbageBytes
	trimPart       = 20
)

// heapUse is the use of the heap, in bytes.
type heapUse struct {
	allocated uint64 // total since the start
	live      uint64 // after the last collection
	objects   uint64 // live, or garbage of the time since
	free      uint64 // held by the runtime, and unused
}

// trimmer decides when memory is given back.
type trimmer struct {
	allocated uint64 // at the previous check
	quiet     int    // checks in a row with less than quietBytes
	light     int    // checks in a row with less than lightBytes
}

// due reports whether to return memory to the system, and when the caller is to call it again.
func (t *trimmer) due(u heapUse) (due bool, again time.Duration) {
	allocated := u.allocated - t.allocated
	t.allocated = u.allocated
	t.quiet, t.light = t.quiet+1, t.light+1
	if allocated >= quietBytes {
		t.quiet = 0
	}
	if allocated >= lightBytes {
		t.light = 0
	}
	spare := u.free + max(u.objects, u.live) - u.live
	if spare < max(trimBytes, u.live/trimPart) {
		return false, trimSeldom
	}
	return t.quiet >= trimAfter || t.light >= trimAfter && spare >= lightTrimBytes, trimEvery
}

// becameQuiet reports whether the last check was the one from which on the process counts as idle.
func (t *trimmer) becameQuiet() bool { return t.quiet == trimAfter }

// heapSamples are the metrics of the runtime that readHeap reads.
func heapSamples() []metrics.Sample {
	return []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
	}
}

// readHeap reads the current values of heapSamples.
func readHeap(samples []metrics.Sample) heapUse {
	metrics.Read(samples)
	value := func(i int) uint64 { return samples[i].Value.Uint64() }
	return heapUse{allocated: value(0), live: value(1), objects: value(2), free: value(3)}
}
