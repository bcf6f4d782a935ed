package transport

import (
	"time"

	"github.com/pinfold-zk/pinfold/internal/zab"
)

// LinkStatus is what an operator may want to know of a link.
type LinkStatus struct {
	Remote      string    // address of the other end
	Established time.Time // when the connection was made
	Queued      int       // packets that wait for the peer
	QueuedBytes int       // of these, and of what is being sent
	Received    int64     // packets
	Sent        int64     // packets, those included that are queued, and without streams
	Requests    int64     // of the received packets: requests of the learner's clients
}

// linkCounts is what a link counts for its status.
type linkCounts struct {
	remote                   string
	since                    time.Time
	received, sent, requests int64
}

// LinkStatus returns the status of a link. ok is false if it has ended.
func (t *Transport) LinkStatus(id zab.LinkID) (status LinkStatus, ok bool) {
	l := t.link(id)
	if l == nil {
		return status, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &l.mu.counts
	return LinkStatus{
		Remote: c.remote, Established: c.since, Queued: l.mu.queue.len(), QueuedBytes: l.mu.queue.bytes + l.mu.out.Unsent(),
		Received: c.received, Sent: c.sent, Requests: c.requests,
	}, l.mu.err == nil
}

// ResetCounts sets the counts of packets and requests in the status of a link to 0. A link that has
// ended is ignored.
func (t *Transport) ResetCounts(id zab.LinkID) {
	l := t.link(id)
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &l.mu.counts
	c.received, c.sent, c.requests = 0, 0, 0
}

// countReceived counts packets for the status.
func (l *link) countReceived(ps []zab.Packet) {
	requests := int64(0)
	for i := range ps {
		if ps[i].Type == zab.Request {
			requests++
		}
	}
	l.mu.Lock()
	l.mu.counts.received += int64(len(ps))
	l.mu.counts.requests += requests
	l.mu.Unlock()
}

// len returns the number of packets and streams in the queue.
func (q *packetQueue) len() (n int) {
	for _, page := range q.pages {
		n += len(page)
	}
	return n - q.head
}
