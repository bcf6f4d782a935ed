package server

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/pinfold-zk/pinfold/internal/metric"
	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/watch"
)

// mntr prints every key that an Apache 3.8 or 3.9 in the same mode prints, so
// that no dashboard or alert loses one. A key whose part of Apache does not exist here
// is 0; docs/ops/monitoring.md has the list, and a test keeps it so.
func (t *text) mntr() {
	t.b = append(append(append(t.b, "zk_version\t"...), versionLine()...), '\n')
	t.b = fmt.Appendf(t.b, "zk_server_state\t%v\n", t.mode)
	t.c.s.collect()
	t.member()
	t.gauges()
	t.counters()
	t.summaries()
}

// integer prints one line.
func (t *text) integer(key string, v int64) {
	t.b = append(append(append(t.b, "zk_"...), key...), '\t')
	t.b = append(strconv.AppendInt(t.b, v, 10), '\n')
}

// fraction prints one line.
func (t *text) fraction(key string, v float64) {
	t.b = append(append(append(t.b, "zk_"...), key...), '\t')
	t.b = append(append(t.b, decimal(v)...), '\n')
}

// basic prints the five lines of a summary.
func (t *text) basic(key string, s metric.Summary) {
	t.fraction("avg_"+key, s.Average)
	t.integer("min_"+key, s.Least)
	t.integer("max_"+key, s.Most)
	t.integer("cnt_"+key, s.Count)
	t.integer("sum_"+key, s.Sum)
}

// advanced prints the nine lines of a summary with quantiles.
func (t *text) advanced(key string, s metric.Summary) {
	t.basic(key, s)
	for i, prefix := range [...]string{"p50_", "p95_", "p99_", "p999_"} {
		t.integer(prefix+key, s.Quantiles[i])
	}
}

// gauges are of the present.
func (t *text) gauges() {
	s := t.c.s
	watches := 0
	s.replica.Watches(func(w *watch.Tables) { watches = w.Len() })
	s.replica.RLock()
	tree := s.replica.Tree()
	znodes, ephemerals, size := tree.Count(), tree.EphemeralCount(), tree.DataSize()
	sessions := tree.SessionCount()
	s.replica.RUnlock()
	latency := metric.Summarise(&s.stats.Reads, &s.stats.Writes)
	t.fraction("avg_latency", latency.Average)
	t.integer("max_latency", latency.Most)
	t.integer("min_latency", latency.Least)
	t.integer("packets_received", s.stats.Received.Load())
	t.integer("packets_sent", s.stats.Sent.Load())
	t.integer("num_alive_connections", int64(s.connections()))
	t.integer("outstanding_requests", int64(s.replica.Outstanding()))
	t.integer("uptime", time.Since(s.stats.started).Milliseconds())
	t.integer("znode_count", int64(znodes))
	t.integer("watch_count", int64(watches))
	t.integer("ephemerals_count", int64(ephemerals))
	t.integer("approximate_data_size", size+1) // Apache has the root a second time, as "/"
	t.integer("global_sessions", int64(sessions))
	t.integer("local_sessions", s.replica.Stats().LocalSessions.Load())
	open, most := descriptors()
	t.integer("open_file_descriptor_count", open)
	t.integer("max_file_descriptor_count", most)
	t.fraction("connection_drop_probability", s.throttle.dropProbability())
	t.replySizes()
	t.integer("auth_failed_count", s.stats.AuthFailed.Load())
	for _, key := range [...]string{"outstanding_tls_handshake", "non_mtls_remote_conn_count", "non_mtls_local_conn_count"} {
		t.integer(key, 0)
	}
}

// replySizes prints -1 for all before the first reply, as Apache does.
func (t *text) replySizes() {
	last, least, most := int64(-1), int64(-1), int64(-1)
	if n := t.c.s.stats.replyLast.Load(); n > 0 {
		last = n
		least, most = t.c.s.stats.replies.Get()
	}
	t.integer("last_client_response_size", last)
	t.integer("min_client_response_size", least)
	t.integer("max_client_response_size", most)
}

// counters only grow, until srst.
func (t *text) counters() {
	s := &t.c.s.stats
	r := t.c.s.replica.Stats()
	watchBytes := s.WatchBytes.Load()
	t.integer("connection_request_count", s.Connects.Load())
	t.integer("connection_revalidate_count", s.Resumes.Load())
	t.integer("connection_drop_count", s.Dropped.Load())
	t.integer("connection_rejected", s.Rejected.Load())
	t.integer("sessionless_connections_expired", s.Sessionless.Load())
	t.integer("stale_sessions_expired", r.Expired.Load())
	t.integer("bytes_received_count", s.BytesReceived.Load())
	t.integer("response_bytes", max(s.BytesSent.Load()-watchBytes, 0))
	t.integer("watch_bytes", watchBytes)
	t.integer("proposal_count", r.Proposals.Load())
	t.integer("commit_count", r.Commits.Load())
	t.integer("prep_processor_request_queued", r.Proposals.Load())
	_, logged, _, _ := r.Synced.Get()
	t.integer("sync_processor_request_queued", logged)
	t.integer("looking_count", r.Elections.Load())
	t.integer("diff_count", r.Diffs.Load())
	t.integer("snap_count", r.Snaps.Load())
	t.integer("learner_proposal_received_count", r.LearnerProposals.Load())
	t.integer("learner_commit_received_count", r.LearnerCommits.Load())
	t.integer("revalidate_count", r.Revalidations.Load())
	t.integer("digest_mismatches_count", r.DigestMismatches.Load())
	t.integer("snapshot_error_count", r.SnapshotErrors.Load())
	t.integer("large_requests_rejected", s.LargeRejected.Load())
	t.integer("throttled_ops", r.Throttled.Load())
	t.integer("request_throttle_wait_count", s.Stalled.Load())
	for _, key := range zeroCounters {
		t.integer(key, 0)
	}
}

// summaries are of durations in milliseconds, bytes, or numbers.
func (t *text) summaries() {
	s := &t.c.s.stats
	r := t.c.s.replica.Stats()
	start := r.Startup()
	t.advanced("readlatency", metric.Summarise(&s.Reads))
	t.advanced("updatelatency", metric.Summarise(&s.Writes))
	t.basic("fsynctime", metric.Millis(r.Fsync.Get()))
	t.basic("snapshottime", metric.Millis(r.Snapshot.Get()))
	t.basic("dbinittime", once(start.Took))
	t.basic("startup_snap_load_time", once(start.LoadTook))
	t.basic("startup_txns_load_time", replayTime(start))
	t.basic("startup_txns_loaded", replayed(start))
	t.basic("sync_processor_batch_size", metric.Plain(r.Synced.Get()))
	t.basic("election_time", metric.Millis(r.Election.Get()))
	t.basic("follower_sync_time", metric.Millis(r.FollowerSync.Get()))
	t.basic("observer_sync_time", metric.Millis(r.ObserverSync.Get()))
	t.basic("unavailable_time", metric.Millis(r.Unavailable.Get()))
	t.basic("leader_unavailable_time", metric.Millis(r.LeaderUnavailable.Get()))
	t.advanced("propagation_latency", metric.Summarise(&r.Propagation))
	t.advanced("proposal_latency", metric.Summarise(&r.Proposed))
	t.advanced("quorum_ack_latency", metric.Summarise(&r.Acked))
	t.advanced("commit_propagation_latency", metric.Summarise(&r.Committed))
	t.basic("node_created_watch_count", metric.Plain(r.Created.Get()))
	t.basic("node_deleted_watch_count", metric.Plain(r.Deleted.Get()))
	t.basic("node_changed_watch_count", metric.Plain(r.Changed.Get()))
	t.basic("node_children_watch_count", metric.Plain(r.Children.Get()))
	for _, key := range zeroSummaries {
		t.basic(key, metric.Summary{})
	}
	for _, key := range zeroAdvanced {
		t.advanced(key, metric.Summary{})
	}
	for _, n := range s.readsBy.summaries() {
		t.basic(n.name+"_read_per_namespace", n.Summary)
	}
	for _, n := range s.writesBy.summaries() {
		t.basic(n.name+"_write_per_namespace", n.Summary)
	}
}

// once is the summary of a thing that happened once.
func once(d time.Duration) metric.Summary { return metric.Millis(1, d, d, d) }

// replayTime and replayed are empty if the log had nothing to replay.
func replayTime(r *replica.Report) metric.Summary {
	if r.Replayed == 0 {
		return metric.Summary{}
	}
	return once(r.Took - r.LoadTook)
}

func replayed(r *replica.Report) metric.Summary {
	n := int64(r.Replayed)
	return metric.Plain(min(n, 1), n, n, n)
}

// descriptors counts the open files of the process and how many it may have.
func descriptors() (open, most int64) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err == nil {
		most = int64(limit.Cur)
	}
	const dir = "/proc/self/fd"
	// Newer kernels tell the number without listing 100,000 of them.
	if info, err := os.Stat(dir); err == nil && info.Size() > 0 {
		return info.Size(), most
	}
	d, err := os.Open(dir)
	if err != nil {
		return 0, most // no such thing on this system
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

// What Apache has a part for that does not exist here, or not yet: throttles of
// synchronization, TLS, the response cache, lazy removal of watches, the commit processor with
// its queues, the Java machine, netty.
var (
	zeroCounters = [...]string{
		"quit_leading_due_to_disloyal_voter",
		"request_commit_queued", "requests_not_forwarded_to_commit_processor",
		"skip_learner_request_to_next_processor_count",
		"outstanding_changes_queued", "outstanding_changes_removed",
		"stale_requests", "stale_requests_dropped", "stale_replies",
		"add_dead_watcher_stall_time", "dead_watchers_queued", "dead_watchers_cleared",
		"response_packet_cache_hits", "response_packet_cache_misses",
		"response_packet_get_children_cache_hits", "response_packet_get_children_cache_misses",
		"ensemble_auth_success", "ensemble_auth_fail", "ensemble_auth_skip",
		"tls_handshake_exceeded", "unsuccessful_handshake", "insecure_admin_count",
		"cnxn_closed_without_zk_server_running", "unrecoverable_error_count",
		"snapshot_rate_limited_count", "restore_error_count", "restore_rate_limited_count",
	}
	zeroSummaries = [...]string{
		"inflight_snap_count", "inflight_diff_count",
		"learner_request_processor_queue_size", "restore_time",
		"prep_processor_queue_size", "prep_process_time", "proposal_process_time",
		"sync_processor_queue_size", "sync_process_time", "commit_process_time",
		"requests_in_session_queue", "pending_session_queue_size", "reads_after_write_in_session_queue",
		"reads_issued_from_session_queue", "session_queues_drained",
		"time_waiting_empty_pool_in_commit_processor_read_ms", "write_batch_time_in_commit_processor",
		"concurrent_request_processing_in_commit_processor",
		"read_commit_proc_req_queued", "write_commit_proc_req_queued", "commit_commit_proc_req_queued",
		"read_commit_proc_issued", "write_commit_proc_issued",
		"connection_token_deficit", "netty_queued_buffer_capacity", "socket_closing_time",
	}
	zeroAdvanced = [...]string{
		"proposal_ack_creation_latency", "om_proposal_process_time_ms",
		"om_commit_process_time_ms", "prep_processor_queue_time_ms", "close_session_prep_time",
		"sync_processor_queue_time_ms", "sync_processor_queue_flush_time_ms",
		"sync_processor_queue_and_flush_time_ms", "read_commitproc_time_ms", "write_commitproc_time_ms",
		"local_write_committed_time_ms", "server_write_committed_time_ms",
		"read_final_proc_time_ms", "write_final_proc_time_ms", "request_throttle_queue_time_ms",
		"dead_watchers_cleaner_latency", "jvm_pause_time_ms",
	}
)
