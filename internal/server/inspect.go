package server

import (
	"net/netip"
	"slices"
	"time"

	"github.com/pinfold-zk/pinfold/internal/metric"
	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/watch"
	"github.com/pinfold-zk/pinfold/zk"
)

// This file is what operators can see of a server, as values: the four-letter words and
// the administration server print them. No lock is held while a function of the caller
// runs, so it may wait for a slow reader.

// ConnStatus describes the connection of a client. The fields from LastOp on are those of a
// connection with a session.
type ConnStatus struct {
	Remote         netip.AddrPort
	Secure         bool // its port accepts TLS only
	HasOutput      bool // the client has not read everything
	Queued         int  // requests that wait for the session's writes
	Received, Sent int64
	Session        zk.SessionID // 0: none

	LastOp        string // Apache's name
	Established   time.Time
	TimeoutMillis int32
	LastCxid      int32 // -1: none
	LastZxid      zk.Zxid
	LastReply     time.Duration // when it was queued, by the monotonic clock
	// Last, Min, Average and Max are latencies.
	Last, Min, Average, Max time.Duration
}

// EachConn calls f with the status of every connection until f returns false. A
// connection that opens or closes in the meantime may be missing. The status is valid
// during the call.
func (s *Server) EachConn(f func(*ConnStatus) bool) {
	more := true
	s.eachConn(func(c *conn) {
		if more {
			status := c.status()
			more = f(&status)
		}
	}, func() bool { return more })
}

// status returns the connection's status.
func (c *conn) status() ConnStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	stats := &c.mu.stats
	status := ConnStatus{
		Remote: c.remote, Secure: c.secure, HasOutput: len(c.mu.out.Buf)+c.mu.out.Shared() > 0, // output that is being written does not count: it may have arrived
		Queued: c.mu.pending.Len(), Received: stats.received, Sent: stats.sent,
		Session: c.mu.session, LastOp: lastOp(stats.lastOp), Established: time.UnixMilli(c.established), TimeoutMillis: c.mu.timeout,
		LastCxid: stats.lastCxid, LastZxid: stats.lastZxid, LastReply: stats.lastAt,
		Last: stats.last, Min: max(stats.least, 0), Max: stats.most,
	}
	if stats.count > 0 {
		status.Average = stats.sum / time.Duration(stats.count)
	}
	return status
}

// ResetConnections resets the counts of every connection.
func (s *Server) ResetConnections() {
	s.eachConn(func(c *conn) {
		c.mu.Lock()
		c.mu.stats.reset()
		c.mu.Unlock()
	}, nil)
}

// ResetStats resets the counters and summaries of the server.
func (s *Server) ResetStats() {
	s.metrics.Reset()
	s.stats.replies.Reset()
}

// CountRestoreLimited counts a restore that was refused because of its rate limit.
func (s *Server) CountRestoreLimited() { s.stats.RestoresLimited.Add(1) }

// CountRestore counts a restore that took so long, and how it ended.
func (s *Server) CountRestore(took time.Duration, err error) {
	if err != nil {
		s.stats.RestoreErrors.Add(1)
		return
	}
	s.stats.Restore.Add(took)
}

// CountRateLimited counts a snapshot that was refused because of its rate limit.
func (s *Server) CountRateLimited() { s.stats.SnapshotsLimited.Add(1) }

// Shed closes each connection for which draw returns true, and returns their number. Their
// clients connect again, to this server or to another one; sessions survive.
func (s *Server) Shed(draw func() bool) (closed int) {
	s.eachConn(func(c *conn) {
		if draw() {
			closed++
			c.kill("shed by an operator")
		}
	}, nil)
	return closed
}

// Sizes are the last, the smallest and the largest of some sizes in bytes; -1 if there
// is none.
type Sizes struct{ Last, Min, Max int64 }

// Summary is what srvr shows of a server.
type Summary struct {
	Latency        metric.Aggregate // of requests, in milliseconds
	Received, Sent int64
	Connections    int
	Outstanding    int
	Zxid           zk.Zxid // of the last transaction; of a leader without one, of its epoch
	Nodes          int
	Replies        Sizes
	Proposals      Sizes // of a leader
	SlowFsyncs     int64
	AuthFailed     int64
	Uptime         time.Duration
}

// Summary returns the present state of the server in the given mode.
func (s *Server) Summary(mode replica.Mode) Summary {
	s.foldAll()
	sum := Summary{
		Latency: s.stats.latency(), Received: s.stats.Received.Load(), Sent: s.stats.Sent.Load(),
		Connections: s.connections(), Outstanding: s.replica.Outstanding(),
		SlowFsyncs: s.replica.Stats().SlowFsyncs.Load(), AuthFailed: s.stats.AuthFailed.Load(), Uptime: time.Since(s.stats.started),
	}
	s.replica.View(func(tree replica.View) { sum.Nodes, sum.Zxid = tree.Count(), tree.LastZxid() })
	if mode == replica.Leader { // a new epoch is visible before its first transaction
		sum.Zxid = max(sum.Zxid, zk.MakeZxid(s.replica.Status().Epoch, 0))
	}
	sum.Replies.Last, sum.Replies.Min, sum.Replies.Max = s.stats.replies.Get()
	sum.Proposals.Last, sum.Proposals.Min, sum.Proposals.Max = s.replica.Stats().ProposalSizes.Get()
	return sum
}

// Mode returns the mode of the server; Idle if it stops. A leader that serves no clients
// (leaderServes=no) has its mode all the same.
func (s *Server) Mode() replica.Mode {
	if s.replica.Stopping() {
		return replica.Idle
	}
	return s.replica.Mode()
}

// ServesClients reports whether clients may connect and write.
func (s *Server) ServesClients() bool { return s.mode().Writable() }

// ephemeralsPage is how many ephemerals EachEphemeral looks at under one lock; pathUnit bytes of paths count like one.
const ephemeralsPage = 512

// EachEphemeral calls f with every session that has ephemerals, in the order of the ids,
// and their paths in order, until f returns false. The paths are valid during the call.
func (s *Server) EachEphemeral(f func(id zk.SessionID, paths []string) bool) {
	var paths []string
	for _, id := range s.ephemeralSessions() {
		paths = s.ephemeralsOf(id, paths[:0])
		if slices.Sort(paths); !f(id, paths) {
			return
		}
	}
}

// ephemeralSessions returns the sessions that have ephemerals, in order.
func (s *Server) ephemeralSessions() (ids []zk.SessionID) {
	s.replica.View(func(tree replica.View) {
		tree.EphemeralSessions(func(id zk.SessionID) { ids = append(ids, id) })
	})
	slices.Sort(ids)
	return ids
}

// ephemeralsOf appends the paths of a session's ephemerals to paths. Those that are created
// or deleted meanwhile may be missing.
func (s *Server) ephemeralsOf(id zk.SessionID, paths []string) []string {
	s.replica.View(func(tree replica.View) {
		work, buf := 0, []byte(nil)
		for node := range tree.EphemeralIDs(id) {
			buf = buf[:0]
			if tree.IsEphemeralOf(node, id) {
				buf = tree.AppendPath(buf, node)
			}
			keep := func() {
				if len(buf) > 0 {
					paths = append(paths, string(buf))
				}
			}
			if work += 1 + len(buf)/pathUnit; work < ephemeralsPage {
				keep()
				continue
			}
			work = 0
			if !tree.Pause(keep) { // a long path is copied without the lock
				return
			}
		}
	})
	return paths
}

// WatchSummary returns the numbers of connections with data watches, of watched paths
// and of data watches.
func (s *Server) WatchSummary() (conns, paths, watches int) {
	s.replica.Watches(func(w *watch.Tables) { conns, paths, watches = w.Summary() })
	return conns, paths, watches
}

// EachWatcher calls f with every data watch, those of a session together, until f
// returns false.
func (s *Server) EachWatcher(f func(id zk.SessionID, path string) bool) {
	first, last, id := true, watch.ID(0), zk.SessionID(0)
	s.eachWatch((*watch.Tables).ListWatchers, func(w watch.Watch) bool {
		if first || w.Watcher != last {
			first, last, id = false, w.Watcher, s.sessionOf(w.Watcher)
		}
		return id == 0 || f(id, w.Path)
	})
}

// EachWatchedPath calls f with every data watch, those of a path together, until f
// returns false.
func (s *Server) EachWatchedPath(f func(path string, id zk.SessionID) bool) {
	first, last, id := true, watch.ID(0), zk.SessionID(0)
	s.eachWatch((*watch.Tables).ListPaths, func(w watch.Watch) bool {
		if first || w.Watcher != last {
			first, last, id = false, w.Watcher, s.sessionOf(w.Watcher)
		}
		return id == 0 || f(w.Path, id)
	})
}

// TraceMask returns the trace mask, which has no effect.
func (s *Server) TraceMask() int64 { return s.traceMask.Load() }

// SetTraceMask sets the trace mask.
func (s *Server) SetTraceMask(mask int64) { s.traceMask.Store(mask) }

// DirSizes returns the bytes of the files in the directories of snapshots and of logs.
func (s *Server) DirSizes() (data, log int64) {
	cfg := &s.cfg.Data
	return sizeOf(DataDir(cfg.Dir)), sizeOf(DataDir(cfg.LogDir))
}

// CountInsecureAdmin counts a connection without TLS to the administration port, where that
// accepts TLS as well.
func (s *Server) CountInsecureAdmin() { s.stats.InsecureAdmin.Add(1) }
