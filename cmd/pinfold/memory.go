package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// garbageBytes is how much garbage may gather before it is collected, however
// small or large what is live. Go's rule, as much again as is live, collects too
// often with little data, and with much data doubles the memory. The tree holds
// no pointers, so that a collection costs little however large it is.
const garbageBytes = 48 << 20

// leastGCPercent keeps the collector from running all the time where most of
// the heap is something else than the tree.
const leastGCPercent = 10

// limitGarbage sets the collector's goal anew after each collection. It leaves
// it alone where the operator has set one.
func limitGarbage() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	t := &gcTuner{sample: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}}
	t.adjust()
	t.arm()
}

// gcTuner is told of each collection by the finalizer of an object that dies in it.
type gcTuner struct {
	sample  []metrics.Sample
	percent int
}

type gcMark struct{ _ [16]byte }

func (t *gcTuner) arm() {
	runtime.SetFinalizer(new(gcMark), func(*gcMark) {
		t.adjust()
		t.arm()
	})
}

func (t *gcTuner) adjust() {
	metrics.Read(t.sample)
	live := max(t.sample[0].Value.Uint64(), 1<<20)
	percent := max(int(garbageBytes*100/live), leastGCPercent)
	if diff := percent - t.percent; diff > t.percent/8 || -diff > t.percent/8 {
		t.percent = percent
		debug.SetGCPercent(percent)
	}
}
