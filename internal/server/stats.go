package server

import (
	"errors"
	"os"
	"time"

	"github.com/pinfold-zk/pinfold/internal/auth"
	"github.com/pinfold-zk/pinfold/internal/metric"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// Stats counts what the server does for its clients. It may be read at any time.
// Connections count separately and report in batches: for exact numbers call foldAll
// first. bindMetrics lists the metric of each field.
type Stats struct {
	Received, Sent           metric.Counter // packets
	BytesReceived, BytesSent metric.Counter
	WatchBytes               metric.Counter // of BytesSent, for events
	Connects, Resumes        metric.Counter // ConnectRequests; those that resume an existing session
	Dropped                  metric.Counter // connections that the client closed without a closeSession
	Sessionless              metric.Counter // connections that never requested a session
	Rejected                 metric.Counter // connections
	SessionsRefused          metric.Counter // of Rejected, because of sessionBytes
	TLSFailed                metric.Counter // handshakes
	TLSExceeded              metric.Counter // connections beyond the limit of handshakes
	InsecureAdmin            metric.Counter // connections without TLS to an administration port for both
	TLSDropped               metric.Counter // connections that EarlyDrop has closed
	AuthFailed               metric.Counter
	LoginsFailed             metric.Counter // by auth packet or SASL
	Named, Misnamed, Unnamed metric.Counter // auth packets with a name of this ensemble, with another name, with none
	AuditWaits               metric.Counter // turns that waited for the audit log
	SlowClients              metric.Counter
	LargeRejected            metric.Counter
	Stalled                  metric.Counter // waits for room in the pipeline
	SnapshotsLimited         metric.Counter // refused because of the rate limit
	RestoresLimited          metric.Counter // the same
	RestoreErrors            metric.Counter
	Restore                  metric.Summary[time.Duration]
	LimitRefused             metric.Counter   // requests for more watches or ephemerals than allowed
	LimitConns               metric.Counter   // of Rejected, because of the limit of an identity
	LimitWaits               metric.Histogram // of connections for the tokens of their rates
	requests                 latencies        // from reading a request to queueing its reply

	readsBy, writesBy *namespaces
	replies           metric.Sizes
	writing           tally // the applier's
	started           time.Time
}

// latency returns the latencies of all requests, in milliseconds.
func (s *Stats) latency() metric.Aggregate {
	return s.requests.from(0, len(s.requests)).Distribution().Aggregate().Millis()
}

// countNaming counts an auth packet of the scheme ensemble.
func (s *Stats) countNaming(n auth.Naming) {
	switch n {
	case auth.OurName:
		s.Named.Add(1)
	case auth.AnotherName:
		s.Misnamed.Add(1)
	case auth.NoName:
		s.Unnamed.Add(1)
	}
}

// replyBytes returns the bytes that were sent for replies. Events are counted when they
// are queued, before they are sent, so the difference can be negative for a moment.
func (s *Stats) replyBytes() int64 {
	watchBytes := s.WatchBytes.Load()
	return max(s.BytesSent.Load()-watchBytes, 0)
}

// unreported is what a connection has counted but not yet added to the server's Stats: foldAt
// packets at most, and those of the output that was not being sent yet.
type unreported struct {
	receivedBytes, sentBytes int64
	received, sent           int32
}

// connStats is what the word cons shows about a connection. The connection's mu guards
// it.
type connStats struct {
	received, sent   int64
	lastOp           wire.OpCode
	lastCxid         int32
	lastZxid         zk.Zxid
	lastAt           time.Duration // by the monotonic clock
	last             time.Duration // latency
	least, most, sum time.Duration
	count            int64

	// Not added to the server's Stats yet.
	reply                 int32 // bytes of the last reply, as in its frame; 0: none
	leastReply, mostReply int32
	unreported            unreported
	reads                 tally
}

// reset resets the values for the word crst.
func (s *connStats) reset() {
	*s = connStats{lastOp: wire.OpNotification, lastCxid: -1, lastZxid: -1, least: -1, unreported: s.unreported}
}

// noteReply counts a reply of that many bytes.
func (s *connStats) noteReply(bytes int) {
	n := int32(bytes)
	if s.reply == 0 {
		s.leastReply, s.mostReply = n, n
	}
	s.reply = n
	s.leastReply, s.mostReply = min(s.leastReply, n), max(s.mostReply, n)
}

// foldAt is how many packets a connection sends before it adds its counts to the
// server's.
const foldAt = 64

// fold adds what a connection has counted. REQUIRES: the connection's mu.
func (s *Stats) fold(c *connStats) {
	s.Received.Add(int64(c.unreported.received))
	s.BytesReceived.Add(c.unreported.receivedBytes)
	s.Sent.Add(int64(c.unreported.sent))
	s.BytesSent.Add(c.unreported.sentBytes)
	c.unreported = unreported{}
	if c.reply > 0 {
		s.replies.Merge(int64(c.reply), int64(c.leastReply), int64(c.mostReply))
		c.reply = 0
	}
	c.reads.fold()
}

// noteRequest records the last request for the word cons.
func (s *connStats) noteRequest(q *request) {
	s.lastOp = q.Op
	if q.Xid >= 0 {
		s.lastCxid = q.Xid
	}
}

// add counts n requests that were answered at time now, each with the latency d.
func (s *connStats) add(n int, d, now time.Duration) {
	s.last, s.lastAt = d, now
	s.count += int64(n)
	s.sum += time.Duration(n) * d
	s.most = max(s.most, d)
	if s.least < 0 || d < s.least {
		s.least = d
	}
}

// foldAll adds what all connections have counted to the server's Stats.
func (s *Server) foldAll() {
	s.eachConn(func(c *conn) {
		c.mu.Lock()
		s.stats.fold(&c.mu.stats)
		c.mu.Unlock()
	}, nil)
}

// countFlushLocked counts bytes that were sent. REQUIRES: c.mu.
func (c *conn) countFlushLocked(bytes int) {
	u := &c.mu.stats.unreported
	u.sentBytes += int64(bytes)
	if u.sent >= foldAt {
		c.s.stats.fold(&c.mu.stats)
	}
}

// countReceivedLocked counts n requests that were received. REQUIRES: c.mu.
func (c *conn) countReceivedLocked(n, bytes int) {
	c.mu.stats.received += int64(n)
	c.mu.stats.unreported.received += int32(n)
	c.mu.stats.unreported.receivedBytes += int64(bytes)
}

// countSentLocked counts a reply or event that was queued. REQUIRES: c.mu.
func (c *conn) countSentLocked() {
	c.mu.stats.sent++
	c.mu.stats.unreported.sent++
}

// countAnsweredLocked counts the reads in a, which were received at time from and answered
// at time now, and empties a. REQUIRES: c.mu.
func (c *conn) countAnsweredLocked(a *answered, from, now time.Duration) {
	if a.n > 0 {
		c.mu.stats.add(int(a.n), now-from, now)
		a.flush(&c.s.stats.requests, now-from)
	}
}

// countOneLocked counts a single read, as countAnsweredLocked does. REQUIRES: c.mu.
func (c *conn) countOneLocked(op wire.OpCode, from, now time.Duration) {
	c.mu.stats.add(1, now-from, now)
	c.s.stats.requests[readSlot(op)].Add(1, now-from)
}

// countWrittenLocked counts a write, as countAnsweredLocked does reads. REQUIRES: c.mu.
func (c *conn) countWrittenLocked(op wire.OpCode, from, now time.Duration) {
	c.mu.stats.add(1, now-from, now)
	at := int(slot(op))
	if at < readSlots {
		at = otherUpdates
	}
	c.s.stats.requests[at].Add(1, now-from)
}

// countDrop counts a connection that ends because reading from its socket failed with
// err.
func (c *conn) countDrop(err error) {
	switch {
	case !c.open && errors.Is(err, os.ErrDeadlineExceeded):
		c.s.stats.Sessionless.Add(1)
	case c.open && !c.leaving:
		c.s.stats.Dropped.Add(1)
	}
}
