package admin

import (
	"os"
	"path/filepath"
	"sort"
	"strconv"

	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/server"
	"github.com/pinfold-zk/pinfold/zk"
)

func (s *Server) configuration(q *reply) {
	cfg := s.cfg
	id := int64(0)
	if cfg.Quorum.Distributed() {
		id = cfg.Quorum.MyID
	}
	q.int("client_port", int64(cfg.Client.Port))
	q.text("data_dir", server.DataDir(cfg.Data.Dir))
	q.text("data_log_dir", server.DataDir(cfg.Data.LogDir))
	q.int("tick_time", cfg.Session.Tick.Milliseconds())
	q.int("max_client_cnxns", int64(cfg.Client.MaxPerIP))
	q.int("min_session_timeout", cfg.Session.MinTimeout.Milliseconds())
	q.int("max_session_timeout", cfg.Session.MaxTimeout.Milliseconds())
	q.int("server_id", id)
	q.int("client_port_listen_backlog", int64(cfg.Client.Backlog))
}

// initialConfiguration shows the file of a standalone server; a member of an ensemble has
// null, as Apache's. Values that are secret are left out.
func (s *Server) initialConfiguration(q *reply) {
	if s.cfg.Quorum.Distributed() {
		q.literal("initial_configuration", "null")
		return
	}
	q.text("initial_configuration", config.WithoutSecrets(s.cfg.Text))
}

// systemProperties shows the properties of the configuration in order, without the values
// of those that are secret. A server in Java has many more.
func (s *Server) systemProperties(q *reply) {
	names := make([]string, 0, len(s.cfg.Properties))
	for name := range s.cfg.Properties {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		value := s.cfg.Properties[name]
		if config.IsSecret(name) {
			value = config.Hidden
		}
		q.text(name, value)
	}
}

func (s *Server) environment(q *reply) {
	for _, v := range server.Environment() {
		q.text(v[0], v[1])
	}
}

func (s *Server) dirs(q *reply) {
	data, log := s.server.DirSizes()
	q.int("datadir_size", data)
	q.int("logdir_size", log)
}

func (s *Server) traceMask(q *reply) { q.int("tracemask", s.server.TraceMask()) }

func (s *Server) setTraceMask(q *reply) {
	const text = "setTraceMask requires long traceMask argument"
	value, ok := q.query("traceMask")
	mask, err := strconv.ParseInt(value, 10, 64)
	switch {
	case !ok:
		q.failWithin(text)
	case err != nil:
		q.failWithin(text + ", got " + value)
	default:
		s.server.SetTraceMask(mask)
		q.int("tracemask", mask)
	}
}

func (s *Server) hash(q *reply) {
	digests, version := s.replica.Stats().Digests()
	if !s.cfg.Log.DigestEnabled {
		digests = nil
	}
	q.array("digests")
	for _, d := range digests {
		q.object("")
		q.int("zxid", int64(d.Zxid))
		q.int("digest", int64(d.Digest))
		q.int("digest_version", int64(version))
		q.end()
	}
	q.end()
}

func (s *Server) isReadOnly(q *reply) { q.bool("read_only", s.server.Mode() == replica.ReadOnly) }

// lastSnapshot shows the newest snapshot and the time at which its file was completed. A
// server without a snapshot on the operating system's disk has none.
func (s *Server) lastSnapshot(q *reply) {
	zxid, seconds := ^zk.Zxid(0), int64(-1)
	if snapshots, err := s.dir.Snapshots(); err == nil && len(snapshots) > 0 { // newest first
		if info, err := os.Stat(filepath.Join(server.DataDir(s.cfg.Data.Dir), snapshots[0].Name)); err == nil {
			zxid, seconds = snapshots[0].Zxid, info.ModTime().Unix()
		}
	}
	q.text("zxid", strconv.FormatUint(uint64(zxid), 16))
	q.int("timestamp", seconds)
}

func (s *Server) monitor(q *reply) {
	if !serving(s.server.Mode()) { // Apache ends in a null pointer here
		q.problem = notServing
		return
	}
	s.server.EachValue(func(v server.Value) bool {
		if v.Number {
			q.literal(v.Key, v.Text)
		} else {
			q.text(v.Key, v.Text)
		}
		return q.ok()
	})
}

func (s *Server) resetStats(*reply) { s.server.ResetStats() }

func (s *Server) serverStats(q *reply) {
	mode := s.server.Mode()
	sum := s.server.Summary(mode)
	data, log := s.server.DirSizes()
	q.text("version", server.FullVersion())
	q.bool("read_only", mode == replica.ReadOnly)
	q.object("server_stats")
	q.int("packets_sent", sum.Sent)
	q.int("packets_received", sum.Received)
	q.int("fsync_threshold_exceed_count", sum.SlowFsyncs)
	q.sizes("client_response_stats", sum.Replies)
	q.bool("provider_null", false)
	q.text("server_state", mode.String())
	q.int("outstanding_requests", int64(sum.Outstanding))
	q.int("min_latency", sum.Latency.Min)
	q.literal("avg_latency", server.Decimal(sum.Latency.Average))
	q.int("max_latency", sum.Latency.Max)
	q.int("data_dir_size", data)
	q.int("log_dir_size", log)
	q.int("last_processed_zxid", int64(sum.Zxid))
	q.int("num_alive_client_connections", int64(sum.Connections))
	q.int("uptime", sum.Uptime.Milliseconds())
	q.int("auth_failed_count", sum.AuthFailed)
	q.int("non_mtlsremote_conn_count", 0) // these two are counted with TLS only
	q.int("non_mtlslocal_conn_count", 0)
	q.end()
	q.sizes("client_response", sum.Replies)
	if mode == replica.Leader {
		q.sizes("proposal_stats", sum.Proposals)
	}
	q.int("node_count", int64(sum.Nodes))
}

func (q *reply) sizes(key string, s server.Sizes) {
	q.object(key)
	q.int("last_buffer_size", s.Last)
	q.int("min_buffer_size", s.Min)
	q.int("max_buffer_size", s.Max)
	q.end()
}

// stats is server_stats with the connections, of which it shows less.
func (s *Server) stats(q *reply) {
	s.serverStats(q)
	s.listConnections(q, false)
}
