package transport

import (
	"fmt"
	"io"

	"github.com/pinfold-zk/pinfold/internal/zab"
)

// packetQueue holds the packets of a link that follow its output, while a stream is being
// sent or the peer is slow. Large packets are not encoded: they share their data with the
// core and with the queues of other links, so a large transaction that is pending for many
// learners is in memory once. Small ones are: their encoding takes less memory than a place
// in the queue, and the memory of their transactions can be used again.
type packetQueue struct {
	pages    [][]queued // a list that grows without a copy of what it has
	head     int        // pages[0][:head] is sent
	bytes    int        // of the packets that are not sent
	draining bool       // drain is in the output; everything is queued after it
}

// Sizes of a packetQueue.
const (
	pageLen      = 512      // places in a page
	smallData    = 256      // bytes of data of a small packet
	firstEncoded = 1 << 10  // of small packets that share a place, while these are few
	encodedBytes = 16 << 10 // the same, at most
)

// small reports whether a packet is encoded when it is queued.
func small(p *zab.Packet) bool { return len(p.Data) <= smallData && len(p.Auth) == 0 }

// push appends a packet, and reports whether the queue keeps its data.
func (q *packetQueue) push(p *zab.Packet) (keeps bool) {
	if !small(p) {
		q.add(queued{packet: *p})
		return true
	}
	last, size := q.back(), packetSize(*p)
	if last == nil || last.encoded == nil || len(last.encoded)+size > encodedBytes {
		q.add(queued{encoded: make([]byte, 0, firstEncoded)})
		last = q.back()
	}
	if len(last.encoded)+size > cap(last.encoded) {
		last.encoded = append(make([]byte, 0, encodedBytes), last.encoded...)
	}
	last.encoded = AppendPacket(last.encoded, *p)
	return false
}

// add appends an entry.
func (q *packetQueue) add(e queued) {
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

// back returns the newest entry, nil if the queue is empty.
func (q *packetQueue) back() *queued {
	if q.front() == nil {
		return nil
	}
	page := q.pages[len(q.pages)-1]
	return &page[len(page)-1]
}

// pop removes the oldest entry.
func (q *packetQueue) pop() {
	q.pages[0][q.head] = queued{}
	if q.head++; q.head == pageLen {
		q.pages[0], q.head = nil, 0
		q.pages = q.pages[1:]
	}
}

// queued is small packets, encoded; or a packet; or a stream.
type queued struct {
	encoded []byte
	packet  zab.Packet
	stream  func(w io.Writer) error
}

// size is the number of bytes that e adds to the link.
func (e *queued) size() int {
	if e.encoded != nil {
		return len(e.encoded)
	}
	return packetSize(e.packet)
}

// own is the memory that e takes and shares with no other link.
func (e *queued) own() int {
	switch {
	case e.encoded != nil:
		return len(e.encoded)
	case e.stream != nil:
		return 0
	}
	return queuedBytes
}

// queuedBytes is the memory of a large packet in the queue in addition to its data. The
// links share the data, but neither this nor the small packets: two budgets,
// Transport.backlog, bound them for the links of followers and for all other links. The
// link that holds most is the first that does not fit.
const queuedBytes = 104

// Shares of Options.MaxQueueBytes that the queued packets of all links may take, without
// the data that they share. One link may have half of it. A follower that was paused has to
// be able to catch up, whatever observers do.
const (
	followersShare = 3. / 4
	othersShare    = 1. / 8
)

// queueLocked appends packets to the queue, and reports whether it keeps their data. If the
// queue is too long it ends the link. REQUIRES: l.mu.
func (l *link) queueLocked(ps []zab.Packet) (keeps bool) {
	q := &l.mu.queue
	own, size := 0, 0
	for i := range ps {
		n := packetSize(ps[i])
		if size += n; small(&ps[i]) {
			own += n
		} else {
			own, size = own+queuedBytes, size+queuedBytes
		}
	}
	if !l.backlog.Grow(own) {
		l.failLocked(fmt.Errorf("%w: %d bytes and more are pending, and the budget of all links is used up", ErrSlow, q.bytes))
		return false
	}
	for i := range ps {
		keeps = q.push(&ps[i]) || keeps
	}
	q.bytes += size
	if pending := q.bytes + l.mu.out.Unsent(); pending > l.maxQueueLocked() {
		l.failLocked(fmt.Errorf("%w: %d bytes are pending, the limit is %d", ErrSlow, pending, l.maxQueueLocked()))
		return false
	}
	l.drainLocked()
	return keeps
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
		l.mu.queue.add(queued{stream: f})
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
	var es []queued
	var b []byte
	for {
		if es = l.takeQueued(es[:0]); len(es) == 0 {
			return nil
		}
		if stream := es[0].stream; stream != nil {
			if err := stream(w); err != nil {
				return err
			}
			continue
		}
		b = b[:0]
		for i := range es {
			if es[i].encoded != nil {
				b = append(b, es[i].encoded...)
			} else {
				b = AppendPacket(b, es[i].packet)
			}
		}
		clear(es)
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
}

// takeQueued removes the entries for one write from the queue, or the stream at its head.
// If the queue is empty, there are none, and later packets go into the output.
func (l *link) takeQueued(es []queued) []queued {
	l.mu.Lock()
	defer l.mu.Unlock()
	q, size, own := &l.mu.queue, 0, 0
	for next := q.front(); next != nil && size < pieceBytes; next = q.front() {
		stream := next.stream != nil
		if stream && len(es) > 0 {
			break
		}
		es = append(es, *next)
		if q.pop(); stream {
			return es
		}
		e := &es[len(es)-1]
		size += e.size()
		own += e.own()
		if q.bytes -= e.size(); e.encoded == nil {
			q.bytes -= queuedBytes
		}
	}
	l.backlog.Charge(-own)
	if len(es) == 0 {
		*q = packetQueue{}
	}
	return es
}

// dropQueueLocked drops what is queued. REQUIRES: l.mu.
func (l *link) dropQueueLocked() {
	l.mu.queue = packetQueue{}
	l.backlog.Charge(-l.backlog.Held())
}
