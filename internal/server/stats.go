package server

import (
	"sync/atomic"
	"time"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// Stats counts what the server does for its clients.
type Stats struct {
	Received, Sent         atomic.Int64 // packets
	Rejected               atomic.Int64 // connections
	AuthFailed             atomic.Int64
	SlowClients            atomic.Int64
	LargeRejected          atomic.Int64
	Latency, Reads, Writes latency // of all requests, of reads, of writes
	started                time.Time
}

func (s *Stats) reset() {
	s.Received.Store(0)
	s.Sent.Store(0)
	s.Latency.reset()
	s.Reads.reset()
	s.Writes.reset()
}

// latency accumulates the time from reading a request to queueing its reply.
type latency struct{ count, sum, least, most atomic.Int64 } // durations in nanoseconds

func (l *latency) reset() {
	l.count.Store(0)
	l.sum.Store(0)
	l.most.Store(0)
	l.least.Store(-1)
}

// add counts n requests that took d each.
func (l *latency) add(n int, d time.Duration) {
	l.count.Add(int64(n))
	l.sum.Add(int64(n) * int64(d))
	if v := l.most.Load(); int64(d) > v {
		l.most.CompareAndSwap(v, int64(d))
	}
	if v := l.least.Load(); v < 0 || int64(d) < v {
		l.least.CompareAndSwap(v, int64(d))
	}
}

// get returns the figures in whole milliseconds, but the average.
func (l *latency) get() (least int64, avg float64, most int64) {
	n := l.count.Load()
	if n > 0 {
		avg = float64(l.sum.Load()) / float64(n) / 1e6
	}
	return max(l.least.Load(), 0) / 1e6, avg, l.most.Load() / 1e6
}

// connStats is what the word "cons" shows of a connection. It is guarded by the
// connection's mu.
type connStats struct {
	received, sent   int64
	lastOp           wire.OpCode
	lastCxid         int32
	lastZxid         zk.Zxid
	lastAt           time.Duration
	last             time.Duration // latency
	least, most, sum time.Duration
	count            int64
}

func (s *connStats) reset() {
	*s = connStats{lastOp: s.lastOp, lastCxid: s.lastCxid, lastZxid: s.lastZxid, least: -1}
}

func (s *connStats) noteRequest(q *request) {
	s.lastOp = q.Op
	if q.Xid >= 0 {
		s.lastCxid = q.Xid
	}
}

func (s *connStats) add(n int, d time.Duration) {
	s.last = d
	s.count += int64(n)
	s.sum += time.Duration(n) * d
	s.most = max(s.most, d)
	if s.least < 0 || d < s.least {
		s.least = d
	}
}

// countReceivedLocked counts requests. REQUIRES: c.mu.
func (c *conn) countReceivedLocked(n int) {
	c.mu.stats.received += int64(n)
	c.s.stats.Received.Add(int64(n))
}

// countSentLocked counts replies and events. REQUIRES: c.mu.
func (c *conn) countSentLocked(n int) {
	c.mu.stats.sent += int64(n)
	c.s.stats.Sent.Add(int64(n))
}

// countAnsweredLocked counts reads that took d each. REQUIRES: c.mu.
func (c *conn) countAnsweredLocked(n int, d time.Duration) {
	if n > 0 {
		c.mu.stats.add(n, d)
		c.s.stats.Latency.add(n, d)
		c.s.stats.Reads.add(n, d)
	}
}

// countWrittenLocked counts a write. REQUIRES: c.mu.
func (c *conn) countWrittenLocked(d time.Duration) {
	c.mu.stats.add(1, d)
	c.s.stats.Latency.add(1, d)
	c.s.stats.Writes.add(1, d)
}
