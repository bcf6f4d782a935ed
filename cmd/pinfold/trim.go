package main

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"
)

// A server that is left alone gives the memory back that its load has needed: up
// to garbageBytes of garbage, and buffers. The runtime would keep it for minutes,
// and of what it gives back a tenth of the heap for good.
//
// It is left alone when it has allocated less than quietBytes in half a second,
// twice running. What can be given back must be worth the collection that it takes:
// trimBytes at least, and a part of what is live.
const (
	trimEvery  = 500 * time.Millisecond
	quietBytes = 512 << 10
	trimBytes  = 8 << 20
	trimPart   = 20
)

// heapUse is what the runtime tells of the heap, in bytes.
type heapUse struct {
	allocated uint64 // in all, since the start
	live      uint64 // after the last collection
	objects   uint64 // live, or garbage since then
	free      uint64 // held, and in no use
}

// trimmer decides when memory is given back.
type trimmer struct {
	allocated uint64 // at the check before
	quiet     int    // checks running
}

// due reports whether it is time. It is asked every trimEvery.
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

// trimIdle gives memory back whenever the server is left alone, until end is
// called. release lets go of what is kept for the next load. It does nothing
// where the operator has set the collector's goal.
func trimIdle(release func()) (end func()) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	names := []string{
		"/gc/heap/allocs:bytes", "/gc/heap/live:bytes",
		"/memory/classes/heap/objects:bytes", "/memory/classes/heap/free:bytes",
	}
	samples := make([]metrics.Sample, len(names))
	for i, name := range names {
		samples[i].Name = name
	}
	var t trimmer
	var ended atomic.Bool
	var check func()
	check = func() {
		metrics.Read(samples)
		value := func(i int) uint64 { return samples[i].Value.Uint64() }
		if t.due(heapUse{value(0), value(1), value(2), value(3)}) {
			release()
			debug.FreeOSMemory()
		}
		if !ended.Load() {
			time.AfterFunc(trimEvery, check)
		}
	}
	time.AfterFunc(trimEvery, check)
	return func() { ended.Store(true) }
}
