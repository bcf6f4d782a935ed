package server

import (
	"time"
	"unsafe"

	"github.com/pinfold-zk/pinfold/internal/fifo"
)

// pendingFIFO holds, in order, a session's writes that are in the pipeline and the
// reads that came after them. A read is answered when the writes before it are applied
// (P1, P5). Writes are submitted at once, except after a sync: the sync of an ensemble
// is not answered in the order of transactions, so a write after it waits for its
// answer.
type pendingFIFO struct {
	fifo.Queue[pendingRequest]
	syncs    int // submitted and not answered yet
	bytes    int // of the bodies
	expected int // bytes of the replies to the reads
	largest  int // largest body of a write since the FIFO was empty

	ephemerals int // that the writes since the FIFO was empty create, if they are limited
}

type pendingRequest struct {
	request
	write    bool // answered by Applied or Synced; body is nil once it was submitted
	held     bool // not submitted yet
	expected int  // estimated bytes of the reply to a read
	at       time.Duration
}

func (f *pendingFIFO) empty() bool { return f.Len() == 0 }

func (f *pendingFIFO) full() bool {
	return f.Len() > maxPending || f.bytes > maxPendingBytes || f.expected > maxExpected
}

// stuck reports whether the FIFO is full and the oldest request waits for the replica.
func (f *pendingFIFO) stuck() bool { return f.full() && f.front().write }

func (f *pendingFIFO) push(p pendingRequest) {
	if !p.write || p.held {
		p.body = append([]byte(nil), p.body...)
		f.bytes += len(p.body)
		f.expected += p.expected
	}
	f.Push(p)
}

// front returns the oldest request. REQUIRES: not empty.
func (f *pendingFIFO) front() *pendingRequest { return f.At(0) }

func (f *pendingFIFO) pop() {
	p := f.front()
	f.bytes -= len(p.body)
	f.expected -= p.expected
	if f.Drop(1); f.empty() {
		*f = pendingFIFO{Queue: f.Queue}
	}
}

// What the reads of the FIFO take, with their replies, is charged to the account of the
// connection's buffers in steps of pendingStep, beyond pendingFree bytes. A read for which
// there is no room waits until the writes before it are answered.
const (
	pendingCost = int(unsafe.Sizeof(pendingRequest{}))
	pendingFree = 2 << 10
	pendingStep = 16 << 10
)

// cost is what the FIFO takes, and n more bytes, in whole steps.
func (f *pendingFIFO) cost(n int) int {
	n += f.bytes + f.expected + f.Len()*pendingCost - pendingFree
	return max(0, n+pendingStep-1) / pendingStep * pendingStep
}

// pendingFits reports whether the account has room for one more read, of n bytes with its
// reply, and charges them. REQUIRES: c.mu.
func (c *conn) pendingFits(n int) bool {
	more := c.mu.pending.cost(n+pendingCost) - c.mu.queued
	if more > 0 {
		if !c.account.Grow(more) {
			return false
		}
		c.mu.queued += more
	}
	return true
}

// releasePending releases what the FIFO does not take any more. REQUIRES: c.mu.
func (c *conn) releasePending() {
	if n := c.mu.queued - c.mu.pending.cost(0); c.mu.queued > 0 && n > 0 {
		c.account.Charge(-n)
		c.mu.queued -= n
	}
}
