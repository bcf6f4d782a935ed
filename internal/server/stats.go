package server

import (
	"errors"
	"os"
	"sync/atomic"
	"time"

	"github.com/pinfold-zk/pinfold/internal/metric"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// Stats counts what the server does for its clients. Anybody may read it at any
// time. Connections count for themselves and hand over now and then: collect
// first, to be exact.
type Stats struct {
	Received, Sent           atomic.Int64 // packets
	BytesReceived, BytesSent atomic.Int64
	WatchBytes               atomic.Int64 // of BytesSent, for events
	Connects, Resumes        atomic.Int64 // ConnectRequests; those for a session that exists
	Dropped                  atomic.Int64 // connections that the client has left without a closeSession
	Sessionless              atomic.Int64 // connections that never asked for a session
	Rejected                 atomic.Int64 // connections
	AuthFailed               atomic.Int64
	SlowClients              atomic.Int64
	LargeRejected            atomic.Int64
	Stalled                  atomic.Int64     // waits for room in the pipeline
	Reads, Writes            metric.Histogram // from reading a request to queueing its reply

	readsBy, writesBy namespaces
	replyLast         atomic.Int64 // bytes of the last reply, 0 before the first
	replies           metric.Span  // bytes
	writing           tally        // the applier's
	started           time.Time
}

func (s *Stats) reset() {
	for _, c := range [...]*atomic.Int64{
		&s.Received, &s.Sent, &s.BytesReceived, &s.BytesSent, &s.WatchBytes, &s.Connects, &s.Resumes,
		&s.Dropped, &s.Sessionless, &s.Rejected, &s.AuthFailed, &s.SlowClients, &s.LargeRejected,
		&s.Stalled, &s.replyLast,
	} {
		c.Store(0)
	}
	s.Reads.Reset()
	s.Writes.Reset()
	s.replies.Reset()
	s.readsBy.reset()
	s.writesBy.reset()
}

// unsaid is what a connection has counted since it told the server.
type unsaid struct {
	received, receivedBytes int64
	sent, sentBytes         int64
}

// connStats is what the word "cons" shows of a connection. It is guarded by the
// connection's mu.
type connStats struct {
	received, sent   int64
	lastOp           wire.OpCode
	lastCxid         int32
	lastZxid         zk.Zxid
	lastAt           time.Duration // by the monotonic clock
	last             time.Duration // latency
	least, most, sum time.Duration
	count            int64

	// What the server's Stats have not heard yet.
	unsaid                unsaid
	reply                 int64 // bytes of the last reply, 0: none
	leastReply, mostReply int64
	reads                 tally
}

// reset is what the word "crst" does.
func (s *connStats) reset() {
	*s = connStats{lastOp: wire.OpNotification, lastCxid: -1, lastZxid: -1, least: -1, unsaid: s.unsaid}
}

// noteReply counts the bytes of a reply.
func (s *connStats) noteReply(bytes int) {
	n := int64(bytes)
	if s.reply == 0 {
		s.leastReply, s.mostReply = n, n
	}
	s.reply = n
	s.leastReply, s.mostReply = min(s.leastReply, n), max(s.mostReply, n)
}

// foldAt is how many packets a connection counts for itself before it tells the
// server, unless somebody asks.
const foldAt = 64

// fold tells the server what a connection has counted. REQUIRES: the
// connection's mu.
func (s *Stats) fold(c *connStats) {
	s.Received.Add(c.unsaid.received)
	s.BytesReceived.Add(c.unsaid.receivedBytes)
	s.Sent.Add(c.unsaid.sent)
	s.BytesSent.Add(c.unsaid.sentBytes)
	c.unsaid = unsaid{}
	if c.reply > 0 {
		s.replyLast.Store(c.reply)
		s.replies.Add(c.leastReply, c.mostReply)
		c.reply = 0
	}
	c.reads.fold()
}

func (s *connStats) noteRequest(q *request) {
	s.lastOp = q.Op
	if q.Xid >= 0 {
		s.lastCxid = q.Xid
	}
}

// add counts n requests that were answered at now and took d each.
func (s *connStats) add(n int, d, now time.Duration) {
	s.last, s.lastAt = d, now
	s.count += int64(n)
	s.sum += time.Duration(n) * d
	s.most = max(s.most, d)
	if s.least < 0 || d < s.least {
		s.least = d
	}
}

// collect makes the server's Stats tell what all connections have counted.
func (s *Server) collect() {
	s.eachConn(func(c *conn) {
		c.mu.Lock()
		s.stats.fold(&c.mu.stats)
		c.mu.Unlock()
	}, nil)
}

// countFlushLocked counts bytes of output. REQUIRES: c.mu.
func (c *conn) countFlushLocked(bytes int) {
	u := &c.mu.stats.unsaid
	u.sentBytes += int64(bytes)
	if u.sent >= foldAt {
		c.s.stats.fold(&c.mu.stats)
	}
}

// countReceivedLocked counts requests. REQUIRES: c.mu.
func (c *conn) countReceivedLocked(n, bytes int) {
	c.mu.stats.received += int64(n)
	c.mu.stats.unsaid.received += int64(n)
	c.mu.stats.unsaid.receivedBytes += int64(bytes)
}

// countSentLocked counts replies and events. REQUIRES: c.mu.
func (c *conn) countSentLocked(n int) {
	c.mu.stats.sent += int64(n)
	c.mu.stats.unsaid.sent += int64(n)
}

// countAnsweredLocked counts reads that came in at from and were answered at
// now. REQUIRES: c.mu.
func (c *conn) countAnsweredLocked(n int, from, now time.Duration) {
	if n > 0 {
		c.mu.stats.add(n, now-from, now)
		c.s.stats.Reads.Add(n, now-from)
	}
}

// countWrittenLocked counts a write. REQUIRES: c.mu.
func (c *conn) countWrittenLocked(from, now time.Duration) {
	c.mu.stats.add(1, now-from, now)
	c.s.stats.Writes.Add(1, now-from)
}

// countDrop counts a connection whose reading has failed.
func (c *conn) countDrop(err error) {
	switch {
	case !c.open && errors.Is(err, os.ErrDeadlineExceeded):
		c.s.stats.Sessionless.Add(1)
	case c.open && !c.leaving:
		c.s.stats.Dropped.Add(1)
	}
}
