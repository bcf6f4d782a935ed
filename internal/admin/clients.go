package admin

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/server"
	"github.com/pinfold-zk/pinfold/zk"
)

func (s *Server) connections(q *reply) { s.listConnections(q, true) }

// listConnections lists the connections, each with its session if full.
func (s *Server) listConnections(q *reply, full bool) {
	s.listPort(q, "connections", full, false)
	s.listPort(q, "secure_connections", full, true)
}

// listPort lists the connections of the ports with TLS only, or of the others.
func (s *Server) listPort(q *reply, name string, full, secure bool) {
	q.array(name)
	s.server.EachConn(func(c *server.ConnStatus) bool {
		if c.Secure != secure {
			return true
		}
		q.object("")
		q.text("remote_socket_address", strings.TrimPrefix(string(server.AppendAddr(nil, c.Remote)), "/"))
		q.int("interest_ops", int64(c.InterestOps()))
		q.int("outstanding_requests", int64(c.Queued))
		q.int("packets_received", c.Received)
		q.int("packets_sent", c.Sent)
		if full && c.Session != 0 {
			q.session(c)
		}
		q.end()
		return q.ok()
	})
	q.end()
}

// session shows the session of a connection.
func (q *reply) session(c *server.ConnStatus) {
	q.int("session_id", int64(c.Session))
	q.text("last_operation", c.LastOp)
	q.int("established", c.Established.UnixMilli())
	q.int("session_timeout", int64(c.TimeoutMillis))
	q.int("last_cxid", int64(c.LastCxid))
	q.int("last_zxid", int64(c.LastZxid))
	q.int("last_response_time", c.LastReply.Milliseconds())
	q.int("last_latency", c.Last.Milliseconds())
	q.int("min_latency", c.Min.Milliseconds())
	q.int("avg_latency", c.Average.Milliseconds())
	q.int("max_latency", c.Max.Milliseconds())
}

func (s *Server) resetConnections(*reply) { s.server.ResetConnections() }

// awaitListing waits until the command may copy the sessions or the ephemerals of a
// session. False means that the client has gone.
func (s *Server) awaitListing(q *reply) bool {
	select {
	case s.listings <- struct{}{}:
		return true
	case <-q.r.Context().Done():
		return false
	}
}

// dump shows sessions by the time at which they expire, and their ephemerals. A learner
// does not know when sessions expire.
func (s *Server) dump(q *reply) {
	if !s.awaitListing(q) {
		return
	}
	defer func() { <-s.listings }()
	sessions, ok := s.server.Sessions()
	if !ok {
		q.fail(http.StatusOK, q.name, notServing)
		return
	}
	mode := s.server.Mode()
	q.object("expiry_time_to_session_ids")
	if mode == replica.Standalone || mode == replica.Leader {
		for _, b := range sessions.Global {
			q.array(strconv.FormatInt(b.AtMillis, 10))
			for _, id := range b.IDs {
				q.int("", int64(id))
			}
			q.end()
		}
	}
	q.end()
	q.object("session_id_to_ephemeral_paths")
	s.server.EachEphemeral(func(id zk.SessionID, paths []string) bool {
		q.array(strconv.FormatInt(int64(id), 10))
		for _, path := range paths {
			q.text("", path)
		}
		q.end()
		return q.ok()
	})
	q.end()
}

func (s *Server) watchSummary(q *reply) {
	conns, paths, watches := s.server.WatchSummary()
	q.int("num_connections", int64(conns))
	q.int("num_paths", int64(paths))
	q.int("num_total_watches", int64(watches))
}

func (s *Server) watches(q *reply) {
	q.object("session_id_to_watched_paths")
	open, last := false, zk.SessionID(0)
	s.server.EachWatcher(func(id zk.SessionID, path string) bool {
		if !open || id != last {
			if open {
				q.end()
			}
			open, last = true, id
			q.array(strconv.FormatInt(int64(id), 10))
		}
		q.text("", path)
		return q.ok()
	})
	if open {
		q.end()
	}
	q.end()
}

func (s *Server) watchesByPath(q *reply) {
	q.object("path_to_session_ids")
	open, last := false, ""
	s.server.EachWatchedPath(func(path string, id zk.SessionID) bool {
		if !open || path != last {
			if open {
				q.end()
			}
			open, last = true, path
			q.array(path)
		}
		q.int("", int64(id))
		return q.ok()
	})
	if open {
		q.end()
	}
	q.end()
}
