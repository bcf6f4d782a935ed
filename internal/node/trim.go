package node

import (
	"runtime/metrics"
	"time"
)

// When the process becomes idle it returns the memory to the system that its load has
// used: up to garbageBytes of garbage, and buffers. The runtime alone would keep it for
// minutes, and a tenth of the heap permanently.
//
// The process is idle when it has allocated less than quietBytes in trimEvery, twice in
// a row. Returning memory costs a collection, so it is done only if the spare memory is
// at least trimBytes, and at least one trimPart-th of the live heap.
const (
	trimEvery  = 500 * time.Millisecond
	quietBytes = 512 << 10
	trimBytes  = 8 << 20
	trimPart   = 20
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
	quiet     int    // quiet checks in a row
}

// due reports whether to return memory to the system. The caller calls it every
// trimEvery.
func (t *trimmer) due(u heapUse) bool {
	if u.allocated-t.allocated < quietBytes {
		t.quiet++
	} else {
		t.quiet = 0
	}
	t.allocated = u.allocated
	spare := u.free + max(u.objects, u.live) - u.live
	return t.quiet >= 2 && spare >= max(trimBytes, u.live/trimPart)
}

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
