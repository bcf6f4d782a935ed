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
	list     []queued
	head     int  // list[:head] is sent
	bytes    int  // of the packets in list[head:]
	draining bool // drain is in the output; everything is queued after it
}

// queued is a packet, or a stream.
type queued struct {
	packet zab.Packet
	stream func(w io.Writer) error
}

// queuedBytes is the memory of a queued packet in addition to its data.
const queuedBytes = 128

// queueLocked appends packets to the queue. If the queue is too long it ends the link.
// REQUIRES: l.mu.
func (l *link) queueLocked(ps []zab.Packet) {
	q := &l.mu.queue
	for i := range ps {
		q.list = append(q.list, queued{packet: ps[i]})
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
		l.mu.queue.list = append(l.mu.queue.list, queued{stream: f})
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
	for q.head < len(q.list) && size < pieceBytes && stream == nil {
		next := &q.list[q.head]
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
		*next = queued{}
		q.head++
	}
	switch {
	case len(ps) == 0 && stream == nil:
		*q = packetQueue{}
		return ps, nil, true
	case 2*q.head > len(q.list):
		n := copy(q.list, q.list[q.head:])
		clear(q.list[n:])
		q.list, q.head = q.list[:n], 0
	}
	return ps, stream, false
}
