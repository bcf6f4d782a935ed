package transport

import (
	"fmt"
	"io"

	"github.com/pinfold-zk/pinfold/internal/zab"
)

// packetQueue holds the packets of a link that follow its output, while a stream is being
// sent or the peer is slow. The packets are not encoded: they share their data with the
// core and with the queues of other links, so a transaction that is pending for many
// learners is in memory once.
type packetQueue struct {
	pages    [][]queued // a list that grows without a copy of what it has
	head     int        // pages[0][:head] is sent
	bytes    int        // of the packets that are not sent
	draining bool       // drain is in the output; everything is queued after it
}

// pageLen is the number of places in a page of a packetQueue.
const pageLen = 512

// push appends to the queue.
func (q *packetQueue) push(e queued) {
	last := len(q.pages) - 1
	if last < 0 || len(q.pages[last]) == pageLen {
		q.pages = append(q.pages, make([]queued, 0, pageLen))
		last++
	}
	q.pages[last] = append(q.pages[last], e)
}

// front returns the oldest entry, nil if the queue is empty.
func (q *packetQueue) front() *queued {
	if len(q.pages) == 0 || q.head == len(q.pages[0]) {
		return nil
	}
	return &q.pages[0][q.head]
}

// pop removes the oldest entry.
func (q *packetQueue) pop() {
	q.pages[0][q.head] = queued{}
	if q.head++; q.head == pageLen {
		q.pages[0], q.head = nil, 0
		q.pages = q.pages[1:]
	}
}

// queued is a packet, or a stream.
type queued struct {
	packet zab.Packet
	stream func(w io.Writer) error
}

// queuedBytes is the memory of a queued packet in addition to its data. The links share
// the data, but not this: two budgets, Transport.backlog, bound it for the links of
// followers and for all other links. The link that holds most is the first that does not
// fit.
const queuedBytes = 80

// Shares of Options.MaxQueueBytes that the queued packets of all links may take, without
// their data. A follower that was paused has to be able to catch up, whatever observers do.
const (
	followersShare = 3. / 4
	othersShare    = 1. / 8
)

// queueLocked appends packets to the queue. If the queue is too long it ends the link.
// REQUIRES: l.mu.
func (l *link) queueLocked(ps []zab.Packet) {
	q := &l.mu.queue
	if !l.backlog.Grow(len(ps) * queuedBytes) {
		l.failLocked(fmt.Errorf("%w: %d packets and more are pending, and the budget of all links is used up",
			ErrSlow, l.backlog.Held()/queuedBytes))
		return
	}
	for i := range ps {
		q.push(queued{packet: ps[i]})
		q.bytes += queuedBytes + packetSize(ps[i])
	}
	if pending := q.bytes + l.mu.out.Unsent(); pending > l.maxQueueLocked() {
		l.failLocked(fmt.Errorf("%w: %d bytes are pending, the limit is %d", ErrSlow, pending, l.maxQueueLocked()))
		return
	}
	l.drainLocked()
}

// maxQueueLocked is the limit of the pending bytes. An observer has half of it, so its
// link ends before that of a follower, whose acknowledgements count. REQUIRES: l.mu.
func (l *link) maxQueueLocked() int {
	if l.mu.observer {
		return l.t.o.MaxQueueBytes / 2
	}
	return l.t.o.MaxQueueBytes
}

// queueStream appends f to the queue.
func (l *link) queueStream(f func(w io.Writer) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.err == nil {
		l.mu.queue.push(queued{stream: f})
		l.drainLocked()
	}
}

// drainLocked begins to send the queue. REQUIRES: l.mu.
func (l *link) drainLocked() {
	if !l.mu.queue.draining {
		l.mu.queue.draining = true
		l.mu.out.Stream(l.drain)
		l.mu.out.Flush(false)
	}
}

// drain sends the queue until it is empty. It is a stream of the output.
func (l *link) drain(w io.Writer) error {
	var ps []zab.Packet
	var b []byte
	for {
		var stream func(w io.Writer) error
		var done bool
		if ps, stream, done = l.takeQueued(ps[:0]); done {
			return nil
		}
		if stream != nil {
			if err := stream(w); err != nil {
				return err
			}
			continue
		}
		b = b[:0]
		for i := range ps {
			b = AppendPacket(b, ps[i])
		}
		clear(ps)
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
}

// takeQueued removes packets for one write from the queue, or the stream at its head. If
// the queue is empty, done is true and later packets go into the output.
func (l *link) takeQueued(ps []zab.Packet) (taken []zab.Packet, stream func(w io.Writer) error, done bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	q, size := &l.mu.queue, 0
	for next := q.front(); next != nil && size < pieceBytes && stream == nil; next = q.front() {
		if next.stream != nil {
			if len(ps) > 0 {
				break
			}
			stream = next.stream
		} else {
			ps = append(ps, next.packet)
			n := packetSize(next.packet)
			size += n
			q.bytes -= queuedBytes + n
		}
		q.pop()
	}
	l.backlog.Charge(-len(ps) * queuedBytes)
	if len(ps) == 0 && stream == nil {
		*q = packetQueue{}
		return ps, nil, true
	}
	return ps, stream, false
}

// dropQueueLocked drops what is queued. REQUIRES: l.mu.
func (l *link) dropQueueLocked() {
	l.mu.queue = packetQueue{}
	l.backlog.Charge(-l.backlog.Held())
}
