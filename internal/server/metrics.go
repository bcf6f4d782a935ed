package server

import (
	"os"
	"syscall"
	"time"

	"github.com/pinfold-zk/pinfold/internal/metric"
	"github.com/pinfold-zk/pinfold/internal/replica"
)

// bindMetrics binds the metrics that the server itself keeps. Attach binds those of the
// replica.
func (s *Server) bindMetrics() {
	audited := s.audit.Stats()
	for name, source := range map[string]metric.Source{
		"cnxn_closed_without_zk_server_running": &s.stats.TLSDropped,

		"audit_lines_count":               &audited.Lines,
		"audit_lines_lost_count":          &audited.Lost,
		"audit_write_errors_count":        &audited.Failed,
		"audit_queue_bytes":               metric.Func(s.audit.Queued),
		"audit_wait_count":                &s.stats.AuditWaits,
		"packets_received":                &s.stats.Received,
		"packets_sent":                    &s.stats.Sent,
		"auth_failed_count":               &s.stats.AuthFailed,
		"failed_logins_count":             &s.stats.LoginsFailed,
		"ensemble_auth_success":           &s.stats.Named,
		"ensemble_auth_fail":              &s.stats.Misnamed,
		"ensemble_auth_skip":              &s.stats.Unnamed,
		"connection_request_count":        &s.stats.Connects,
		"connection_revalidate_count":     &s.stats.Resumes,
		"connection_drop_count":           &s.stats.Dropped,
		"connection_rejected":             &s.stats.Rejected,
		"outstanding_tls_handshake":       metric.Func(func() int64 { return int64(s.handshakes.running()) }),
		"tls_handshake_exceeded":          &s.stats.TLSExceeded,
		"unsuccessful_handshake":          &s.stats.TLSFailed,
		"insecure_admin_count":            &s.stats.InsecureAdmin,
		"sessionless_connections_expired": &s.stats.Sessionless,
		"bytes_received_count":            &s.stats.BytesReceived,
		"bytes_sent_count":                &s.stats.BytesSent,
		"watch_bytes":                     &s.stats.WatchBytes,
		"sessions_refused_count":          &s.stats.SessionsRefused,
		"response_bytes":                  metric.Func(s.stats.replyBytes),
		"large_requests_rejected":         &s.stats.LargeRejected,
		"request_throttle_wait_count":     &s.stats.Stalled,
		"slow_clients_closed_count":       &s.stats.SlowClients,
		"snapshot_rate_limited_count":     &s.stats.SnapshotsLimited,
		"restore_rate_limited_count":      &s.stats.RestoresLimited,
		"restore_error_count":             &s.stats.RestoreErrors,
		"restore_time":                    &s.stats.Restore,
		"limit_wait_time":                 &s.stats.LimitWaits,
		"limit_waiting_connections":       metric.Func(func() int64 { return s.limits.waitingConns() }),
		"limit_requests_refused":          &s.stats.LimitRefused,
		"limit_connections_refused":       &s.stats.LimitConns,
		"limit_identities":                metric.Func(func() int64 { return s.limits.identities() }),
		"connection_buffer_bytes":         metric.Func(s.budget.Used),
		"request_bytes_in_flight":         metric.Func(s.flight.Used),
		"readlatency":                     s.stats.requests.reads(),
		"updatelatency":                   s.stats.requests.updates(),
		"request_time":                    s.stats.requests.byName(),
		"read_request_time":               s.stats.requests.reads(),
		"update_request_time":             s.stats.requests.updates(),
		"read_per_namespace":              s.stats.readsBy,
		"write_per_namespace":             s.stats.writesBy,
		"num_alive_connections":           metric.Func(func() int64 { return int64(s.connections()) }),
		"uptime":                          metric.Func(func() int64 { return time.Since(s.stats.started).Milliseconds() }),
	} {
		s.metrics.Bind(name, source)
	}
	s.metrics.Collect(s.collectRest, "version", "quorum_size", "avg_latency", "max_latency", "min_latency",
		"open_file_descriptor_count", "max_file_descriptor_count", "connection_drop_probability",
		"last_client_response_size", "min_client_response_size", "max_client_response_size")
	s.metrics.Collect(s.collectBudgets, "memory_budget_bytes")
	s.metrics.Before(s.foldAll)
}

// collectBudgets reports the limits of memory, each under the name of the metric that
// shows what is used.
func (s *Server) collectBudgets(c metric.Collection) {
	for name, limit := range map[string]int{
		"connection_buffer_bytes": s.cfg.BufferBytes(),
		"request_bytes_in_flight": s.cfg.OutstandingBytes(),
		"watch_memory_bytes":      s.cfg.Client.WatchBytes,
		"session_memory_bytes":    s.cfg.Session.Bytes,
		"unsynced_bytes":          s.cfg.Quorum.UnsyncedBytes,
		"peer_buffer_bytes":       s.cfg.Quorum.PeerBufferBytes,
	} {
		c.Of(name).Int("memory_budget_bytes", int64(limit))
	}
}

// collectRest collects values that are derived from several numbers, or read from the
// system.
func (s *Server) collectRest(c metric.Collection) {
	c.Text("version", FullVersion())
	if m := s.replica.Mode(); m == replica.Leader || m == replica.Follower || m == replica.Observer {
		c.Int("quorum_size", int64(len(s.Members().Voters())))
	}
	latency := s.stats.latency()
	c.Decimal("avg_latency", latency.Average)
	c.Int("max_latency", latency.Max)
	c.Int("min_latency", latency.Min)
	open, most := descriptors()
	c.Int("open_file_descriptor_count", open)
	c.Int("max_file_descriptor_count", most)
	c.Decimal("connection_drop_probability", s.throttle.dropProbability())
	last, least, largest := s.stats.replies.Get()
	c.Int("last_client_response_size", last)
	c.Int("min_client_response_size", least)
	c.Int("max_client_response_size", largest)
}

// descriptors returns the number of open file descriptors of the process, 0 if the
// system does not report it, and their limit.
func descriptors() (open, most int64) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err == nil {
		most = int64(limit.Cur)
	}
	const dir = "/proc/self/fd"
	// Newer kernels report the number as the directory's size, so that 100,000 entries
	// need not be listed.
	if info, err := os.Stat(dir); err == nil && info.Size() > 0 {
		return info.Size(), most
	}
	d, err := os.Open(dir)
	if err != nil {
		return 0, most // this system does not report it
	}
	defer d.Close() // only read
	for {
		names, err := d.Readdirnames(1024)
		open += int64(len(names))
		if err != nil {
			return open, most
		}
	}
}
