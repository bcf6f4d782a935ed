package server

import (
	"math/bits"
	"time"

	"github.com/pinfold-zk/pinfold/internal/metric"
	"github.com/pinfold-zk/pinfold/internal/wire"
)

// timed are the operations whose latency is counted, by the names of Apache ZooKeeper's
// sources. Slot 0 is that of all others that are answered without a transaction.
var timed = [...]struct {
	op   wire.OpCode
	name string
}{
	{0, "other"},
	{wire.OpGetData, "getData"}, {wire.OpExists, "exists"}, {wire.OpGetChildren2, "getChildren2"},
	{wire.OpGetChildren, "getChildren"}, {wire.OpPing, "ping"}, {wire.OpSync, "sync"}, {wire.OpGetACL, "getACL"},
	{wire.OpMultiRead, "multiRead"}, {wire.OpAddWatch, "addWatch"}, {wire.OpSetWatches, "setWatches"},
	{wire.OpSetWatches2, "setWatches2"},
	{wire.OpCreate, "create"}, {wire.OpCreate2, "create2"}, {wire.OpCreateTTL, "createTTL"},
	{wire.OpCreateContainer, "createContainer"}, {wire.OpDelete, "delete"}, {wire.OpSetData, "setData"},
	{wire.OpSetACL, "setACL"}, {wire.OpMulti, "multi"}, {wire.OpCreateSession, "createSession"},
	{wire.OpCloseSession, "closeSession"}, {wire.OpReconfig, "reconfig"}, {wire.OpError, "otherUpdate"},
}

// otherUpdates is the slot of the transactions of operations that are not in timed.
const otherUpdates = len(timed) - 1

// readSlots is how many slots are those of operations that are answered without a
// transaction.
const readSlots = 12

// slotOf has the slots of the operations from -16 to 111.
var slotOf = func() (of [128]uint8) {
	for slot, t := range timed[1:] {
		of[t.op+16] = uint8(slot + 1)
	}
	return of
}()

// slot returns the slot of an operation.
func slot(op wire.OpCode) uint8 {
	if i := uint32(op + 16); i < uint32(len(slotOf)) {
		return slotOf[i]
	}
	return 0
}

// latencies keeps the latency of each operation.
type latencies [len(timed)]metric.Histogram

// reads returns the histograms of what is answered without a transaction.
func (l *latencies) reads() metric.Union { return l.from(0, readSlots) }

// updates returns the others.
func (l *latencies) updates() metric.Union { return l.from(readSlots, len(l)) }

func (l *latencies) from(first, end int) (u metric.Union) {
	for i := first; i < end; i++ {
		u = append(u, &l[i])
	}
	return u
}

// byName returns all histograms with the names of their operations.
func (l *latencies) byName() (t metric.Table) {
	for i := range l {
		t = append(t, metric.Keyed[*metric.Histogram]{Key: timed[i].name, Value: &l[i]})
	}
	return t
}

// answered counts reads that were answered and not added to the latencies yet, by their
// slots.
type answered struct {
	n     int32
	used  uint32 // the slots that are not 0, as bits
	slots [readSlots]uint16
}

// readSlot returns the slot of a request that made no transaction. A write that was refused
// early counts among the others.
func readSlot(op wire.OpCode) uint8 {
	if s := slot(op); s < readSlots {
		return s
	}
	return 0
}

// add counts an answer to a request that made no transaction.
func (a *answered) add(op wire.OpCode) {
	s := readSlot(op)
	a.n++
	a.used |= 1 << s
	a.slots[s]++
}

// flush adds all of them to the latencies, each with the latency d.
func (a *answered) flush(to *latencies, d time.Duration) {
	for ; a.used != 0; a.used &= a.used - 1 {
		s := bits.TrailingZeros32(a.used)
		to[s].Add(int(a.slots[s]), d)
		a.slots[s] = 0
	}
	a.n = 0
}
