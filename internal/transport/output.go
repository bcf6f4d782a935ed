package transport

import (
	"fmt"
	"slices"

	"github.com/pinfold-zk/pinfold/internal/zab"
)

// Sizes of a link's output.
const (
	pieceBytes  = 256 << 10 // a run of packets is written in pieces of this size
	pooledBytes = 4 << 20   // the largest buffer that is kept for reuse
)

// queueAfter is how many bytes a link's output holds before packets are queued. It is more
// than what a full load of pipelined writes has under way: the memory of queued packets
// cannot be used again.
const queueAfter = 4 << 20

// queueAfterLocked is queueAfter, or a part of it for an observer: these bytes are not
// shared, and there may be very many observers. REQUIRES: l.mu.
func (l *link) queueAfterLocked() int {
	if l.mu.observer {
		return queueAfter / 16
	}
	return queueAfter
}

// send appends packets to the output and flushes it. If the peer is slow it queues them,
// and reports whether the queue keeps their data.
func (l *link) send(ps []zab.Packet) (keeps bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := &l.mu.out
	if l.mu.err != nil {
		return false
	}
	l.mu.counts.sent += int64(len(ps))
	left := 0
	for i := range ps {
		left += packetSize(ps[i])
	}
	for i := range ps {
		if l.mu.queue.draining || out.Unsent() > l.queueAfterLocked() {
			keeps = l.queueLocked(ps[i:])
			break
		}
		size := packetSize(ps[i])
		out.Need()
		if free := cap(out.Buf) - len(out.Buf); free < size {
			out.Buf = slices.Grow(out.Buf, l.roomLocked(size, left))
		}
		out.Buf = AppendPacket(out.Buf, ps[i])
		left -= size
		if len(out.Buf) >= pieceBytes && left > 0 && !out.Writing() {
			// A long run goes through one buffer that stays in the processor's
			// cache, not through a buffer of its own size.
			if out.Flush(false); l.mu.err != nil {
				return false
			}
		}
	}
	out.Flush(false)
	return keeps
}

// roomLocked returns by how much to grow the output if it has no room for a packet of
// size bytes and left bytes, including this packet, are still to be appended: by left
// if another goroutine writes at the moment or none can; otherwise by a piece.
// REQUIRES: l.mu.
func (l *link) roomLocked(size, left int) int {
	out := &l.mu.out
	if out.Attached() && !out.Writing() {
		return max(size, min(left, pieceBytes+pieceBytes/4-len(out.Buf)))
	}
	return left
}

// Sending does nothing: traffic is counted after sending (socket.Owner).
func (l *link) Sending(int) {}

// Sent ends the link if writing has failed (socket.Owner).
func (l *link) Sent(_ int, err error) {
	if err != nil {
		l.failLocked(fmt.Errorf("transport: %w", err))
	}
}

// Drained does nothing: a link ends only by a failure (socket.Owner).
func (l *link) Drained() {}
