package metric

// The owners of metrics.
const (
	ownServer  = "internal/server"
	ownReplica = "internal/replica"
	ownLinks   = "internal/transport"
)

// Catalogue describes the metrics of a server, in the order in which mntr prints
// them. It is the source of the tables in docs/ops/monitoring.md: a metric that is
// added here needs an owner that binds it, and `go test ./internal/metric -update`.
func Catalogue() []Desc {
	var all []Desc
	for _, part := range [...][]Desc{
		serverState(), memberState(), presentState(), counters(), absentCounters(), summaries(), absentSummaries(),
		absentQuantiles(), namespaces(), own(),
	} {
		all = append(all, part...)
	}
	return all
}

func info(name, owner, help string) Desc {
	return Desc{Name: name, Type: TypeInfo, Unit: UnitText, Owner: owner, Help: help}
}

func counter(name string, u Unit, owner, help string) Desc {
	return Desc{Name: name, Type: TypeCounter, Unit: u, Owner: owner, Help: help}
}

func gauge(name string, u Unit, owner, help string) Desc {
	return Desc{Name: name, Type: TypeGauge, Unit: u, Owner: owner, Help: help}
}

func decimal(name string, u Unit, owner, help string) Desc {
	d := gauge(name, u, owner, help)
	d.Decimal = true
	return d
}

func summary(name string, u Unit, owner, help string) Desc {
	return Desc{Name: name, Type: TypeSummary, Unit: u, Owner: owner, Help: help}
}

// quantiles is a summary of durations with quantiles.
func quantiles(name, owner, help string) Desc {
	d := summary(name, UnitMilliseconds, owner, help)
	d.Quantiles = true
	return d
}

func (d Desc) on(r Role) Desc {
	d.On = r
	return d
}

// set makes the metric a set with the label key.
func (d Desc) set(key string) Desc {
	d.Key = key
	return d
}

// withLimits makes mntr print the metric if there is a file of limits.
func (d Desc) withLimits() Desc {
	d.WithLimits = true
	return d
}

// mntrOnly keeps the metric out of what is exported.
func (d Desc) mntrOnly() Desc {
	d.MntrOnly = true
	return d
}

// absent names the component of Apache ZooKeeper that the metric is about.
func (d Desc) absent(component string) Desc {
	d.Absent = component
	return d
}

func serverState() []Desc {
	return []Desc{
		info("version", ownServer, "Version, revision of the source, and time of the build"),
		info("server_state", ownReplica, "Mode: standalone, leader, follower, observer or read-only"),
	}
}

func memberState() []Desc {
	const queue = "the queue of packets to a learner"
	return []Desc{
		info("peer_state", ownReplica, "Role in the ensemble, and `broadcast`").on(OnMember),
		gauge("observer_master_id", UnitCount, ownReplica, "Server id of the leader").on(OnObserver).mntrOnly(),
		gauge("quorum_size", UnitCount, ownServer, "Voters of the ensemble").on(OnMember),
		gauge("learners", UnitCount, ownReplica, "Learners that are connected").on(OnLeader),
		gauge("synced_followers", UnitCount, ownReplica, "Followers that are up to date, those without a vote too").on(OnLeader),
		gauge("synced_observers", UnitCount, ownReplica, "Observers that this server serves, and that are up to date").on(OnVoter),
		gauge("synced_non_voting_followers", UnitCount, ownReplica, "Followers without a vote that are up to date: they are joining, or were removed").
			on(OnLeader),
		gauge("pending_syncs", UnitCount, ownReplica, "`sync` requests that wait for a quorum").on(OnLeader),
		gauge("leader_uptime", UnitMilliseconds, ownReplica, "Time since the leader began to serve").on(OnLeader),
		gauge("last_proposal_size", UnitBytes, ownReplica, "Size of the last transaction proposed, -1 before the first").on(OnLeader),
		gauge("min_proposal_size", UnitBytes, ownReplica, "Size of the smallest transaction proposed, -1 before the first").on(OnLeader),
		gauge("max_proposal_size", UnitBytes, ownReplica, "Size of the largest transaction proposed, -1 before the first").on(OnLeader),
		summary("learner_handler_qp_size", UnitCount, ownReplica, "Packets that wait for a learner").
			on(OnLeader).set("server").absent(queue),
		quantiles("learner_handler_qp_time_ms", ownReplica, "Time that packets wait for a learner").
			on(OnLeader).set("server").absent(queue),
		quantiles("ack_latency", ownReplica, "Age of one in a thousand transactions when a learner acknowledged it").
			on(OnLeader).set("server").absent("the sampled log of acknowledgements; see `pinfold_learner_lag_transactions`"),
	}
}

func presentState() []Desc {
	const tls = "TLS"
	return []Desc{
		decimal("avg_latency", UnitMilliseconds, ownServer, "Average time from reading a request to queueing its reply"),
		gauge("max_latency", UnitMilliseconds, ownServer, "Longest time from reading a request to queueing its reply"),
		gauge("min_latency", UnitMilliseconds, ownServer, "Shortest time from reading a request to queueing its reply"),
		gauge("packets_received", UnitCount, ownServer, "Requests and four-letter words received"),
		gauge("packets_sent", UnitCount, ownServer, "Replies, events and answers to four-letter words sent"),
		gauge("num_alive_connections", UnitCount, ownServer, "Connections of clients, including the one that asks"),
		gauge("outstanding_requests", UnitCount, ownReplica, "Requests in the pipeline"),
		gauge("uptime", UnitMilliseconds, ownServer, "Time since the start"),
		gauge("znode_count", UnitCount, ownReplica, "Znodes; the root counts twice, as in Apache ZooKeeper"),
		gauge("watch_count", UnitCount, ownReplica, "Watches of all kinds"),
		gauge("ephemerals_count", UnitCount, ownReplica, "Ephemeral znodes"),
		gauge("approximate_data_size", UnitBytes, ownReplica, "Lengths of all paths and data"),
		gauge("global_sessions", UnitCount, ownReplica, "Sessions that the whole ensemble knows"),
		gauge("local_sessions", UnitCount, ownReplica, "Sessions of this server alone"),
		gauge("open_file_descriptor_count", UnitCount, ownServer, "Open file descriptors of the process"),
		gauge("max_file_descriptor_count", UnitCount, ownServer, "Limit of file descriptors of the process"),
		decimal("connection_drop_probability", UnitRatio, ownServer, "Probability that the connection throttle drops a connection"),
		gauge("last_client_response_size", UnitBytes, ownServer, "Size of the last reply, -1 before the first"),
		gauge("min_client_response_size", UnitBytes, ownServer, "Size of the smallest reply, -1 before the first"),
		gauge("max_client_response_size", UnitBytes, ownServer, "Size of the largest reply, -1 before the first"),
		gauge("auth_failed_count", UnitCount, ownServer, "Failed authentications"),
		gauge("outstanding_tls_handshake", UnitCount, ownServer, "TLS handshakes in progress"),
		gauge("non_mtls_remote_conn_count", UnitCount, ownServer, "Connections from other hosts without mutual TLS").absent(tls),
		gauge("non_mtls_local_conn_count", UnitCount, ownServer, "Connections from this host without mutual TLS").absent(tls),
	}
}

func counters() []Desc {
	return []Desc{
		counter("connection_request_count", UnitCount, ownServer, "Session requests"),
		counter("connection_revalidate_count", UnitCount, ownServer, "Session requests that resumed a session"),
		counter("connection_drop_count", UnitCount, ownServer, "Connections that the client closed without closing its session"),
		counter("connection_rejected", UnitCount, ownServer, "Connections refused by a limit or by the connection throttle"),
		counter("sessionless_connections_expired", UnitCount, ownServer, "Connections closed because they never asked for a session"),
		counter("stale_sessions_expired", UnitCount, ownReplica, "Sessions that expired"),
		counter("bytes_received_count", UnitBytes, ownServer, "Requests received, including the lengths of frames"),
		counter("response_bytes", UnitBytes, ownServer, "Replies sent, including the lengths of frames"),
		counter("watch_bytes", UnitBytes, ownServer, "Events sent, including the lengths of frames"),
		counter("proposal_count", UnitCount, ownReplica, "Transactions prepared, on a leader or a standalone server"),
		counter("commit_count", UnitCount, ownReplica, "Transactions committed, on a leader or a standalone server"),
		counter("prep_processor_request_queued", UnitCount, ownReplica, "The same as `proposal_count`"),
		counter("sync_processor_request_queued", UnitCount, ownReplica, "Transactions written to the log"),
		counter("looking_count", UnitCount, ownReplica, "Elections that this server began"),
		counter("diff_count", UnitCount, ownReplica, "Learners that this leader synchronized by transactions"),
		counter("snap_count", UnitCount, ownReplica, "Learners that this leader synchronized by a snapshot"),
		counter("learner_proposal_received_count", UnitCount, ownReplica, "Transactions received from the leader, on a follower"),
		counter("learner_commit_received_count", UnitCount, ownReplica, "Transactions committed, on a learner"),
		counter("revalidate_count", UnitCount, ownReplica, "Sessions that this learner asked the leader to revalidate"),
		counter("digest_mismatches_count", UnitCount, ownReplica, "Transactions after which the tree had an unexpected digest: alert on it"),
		counter("snapshot_error_count", UnitCount, ownReplica, "Snapshots that failed"),
		counter("snapshot_rate_limited_count", UnitCount, ownServer, "Snapshots that the administration server refused because of admin.rateLimiterIntervalInMS"),
		counter("restore_error_count", UnitCount, ownServer, "Restores by the administration server that failed"),
		counter("restore_rate_limited_count", UnitCount, ownServer, "Restores that the administration server refused because of admin.rateLimiterIntervalInMS"),
		counter("large_requests_rejected", UnitCount, ownServer, "Requests refused because of `largeRequestMaxBytes`"),
		counter("throttled_ops", UnitCount, ownReplica, "Requests refused because they had waited longer than `throttled_op_wait_time`"),
		counter("request_throttle_wait_count", UnitCount, ownServer, "Times that a connection waited for room in the pipeline"),
	}
}

func summaries() []Desc {
	return []Desc{
		quantiles("readlatency", ownServer, "Latency of requests that read"),
		quantiles("updatelatency", ownServer, "Latency of requests that write, and of new sessions"),
		summary("fsynctime", UnitMilliseconds, ownReplica, "Fsyncs of the log"),
		summary("snapshottime", UnitMilliseconds, ownReplica, "Snapshots written"),
		summary("restore_time", UnitMilliseconds, ownServer, "Restores by the administration server"),
		summary("dbinittime", UnitMilliseconds, ownReplica, "Recovery at the start"),
		summary("startup_snap_load_time", UnitMilliseconds, ownReplica, "Loading the snapshot at the start"),
		summary("startup_txns_load_time", UnitMilliseconds, ownReplica, "Replaying the log at the start"),
		summary("startup_txns_loaded", UnitCount, ownReplica, "Transactions replayed at the start"),
		summary("sync_processor_batch_size", UnitCount, ownReplica, "Transactions in one fsync of the log"),
		summary("election_time", UnitMilliseconds, ownReplica, "Elections, from the beginning until there was a leader"),
		summary("follower_sync_time", UnitMilliseconds, ownReplica, "From the end of the election until this follower served"),
		summary("observer_sync_time", UnitMilliseconds, ownReplica, "From the end of the election until this observer served"),
		summary("unavailable_time", UnitMilliseconds, ownReplica, "Times without a quorum"),
		summary("leader_unavailable_time", UnitMilliseconds, ownReplica, "Times without a quorum after which this server led"),
		quantiles("propagation_latency", ownReplica, "Age of transactions when this server applied them"),
		quantiles("proposal_latency", ownReplica, "Age of transactions when this follower received them"),
		quantiles("quorum_ack_latency", ownReplica, "Age of transactions when a quorum had acknowledged them, on a leader"),
		quantiles("commit_propagation_latency", ownReplica, "Age of transactions when this learner knew that they were committed"),
		summary("node_created_watch_count", UnitCount, ownReplica, "Watchers notified of the creation of a znode"),
		summary("node_deleted_watch_count", UnitCount, ownReplica, "Watchers notified of the deletion of a znode"),
		summary("node_changed_watch_count", UnitCount, ownReplica, "Watchers notified of new data of a znode"),
		summary("node_children_watch_count", UnitCount, ownReplica, "Watchers notified of a new or deleted child"),
	}
}

func namespaces() []Desc {
	return []Desc{
		summary("read_per_namespace", UnitBytes, ownServer, "Path and reply of a read at or below a top-level znode").set("znode"),
		summary("write_per_namespace", UnitBytes, ownServer, "Path and data of a write at or below a top-level znode").set("znode"),
		counter("quota_exceeded_error_per_namespace", UnitCount, ownReplica, "Writes refused because of a hard quota, on a leader or a standalone server").set("znode"),
		gauge("quota_count_limit_per_namespace", UnitCount, ownReplica, "Sum of the limits of znodes of all quotas at or below a top-level znode; -1 is not set").set("znode"),
		gauge("quota_bytes_limit_per_namespace", UnitBytes, ownReplica, "The same, of bytes").set("znode"),
		gauge("quota_count_usage_per_namespace", UnitCount, ownReplica, "Znodes that count against these quotas").set("znode"),
		gauge("quota_bytes_usage_per_namespace", UnitBytes, ownReplica, "Bytes that count against these quotas").set("znode"),
	}
}

// own are the metrics that Apache ZooKeeper does not have.
func own() []Desc {
	list := []Desc{
		counter("bytes_sent_count", UnitBytes, ownServer, "Replies and events sent, including the lengths of frames"),
		gauge("forwarded_request_bytes", UnitBytes, ownReplica, "On a leader, bytes of learners' requests that are not committed yet; a learner that forwards more than its share is answered -127"),
		gauge("session_question_bytes", UnitBytes, ownReplica, "On a leader, bytes of learners' questions about sessions that are ending; 16 MiB at most"),
		gauge("peer_buffer_bytes", UnitBytes, ownLinks, "Bytes held in the buffers of all connections of other servers; `peerBufferBytes` bounds them").on(OnMember),
		gauge("unsynced_bytes", UnitBytes, ownReplica, "On a server of an ensemble, memory of the transactions that wait for its disk; `unsyncedBytes` bounds it"),
		gauge("disk_free_bytes", UnitBytes, ownReplica, "Bytes that can still be written to the disk of the log or of the snapshots, whichever has less"),
		gauge("disk_nearly_full", UnitCount, ownReplica, "Whether less of the disk is free than `diskReserveBytes`, so that writes of this server's clients are refused: 1 or 0"),
		gauge("healing", UnitCount, ownReplica, "Whether this member of an ensemble has lost data and has no vote until it has everything again: 1 or 0"),
		counter("healed_count", UnitCount, ownReplica, "Times that this member has healed since it was started"),
		gauge("connection_buffer_bytes", UnitBytes, ownServer, "Bytes held for all clients in input buffers, replies not taken and identities; `connectionBufferBytes` bounds them"),
		gauge("watch_memory_bytes", UnitBytes, ownReplica, "Bytes that all watches take; `watchBytes` bounds them"),
		gauge("session_memory_bytes", UnitBytes, ownReplica, "Bytes that all sessions take, 512 each; `sessionBytes` bounds them"),
		counter("sessions_refused_count", UnitCount, ownServer, "New sessions refused because all sessions take too much memory (`sessionBytes`)"),
		gauge("request_bytes_in_flight", UnitBytes, ownServer, "Bytes of this server's clients' requests that are not answered yet, 512 or more for each operation of a multi; `globalOutstandingBytes` bounds them"),
		quantiles("limit_wait_time", ownServer, "Waits of connections until the rates of `limitsFile` let them continue").withLimits(),
		gauge("limit_waiting_connections", UnitCount, ownServer, "Connections that wait because of a rate of `limitsFile`").withLimits(),
		counter("limit_requests_refused", UnitCount, ownServer, "Requests refused because of the watches or ephemerals of `limitsFile`").withLimits(),
		counter("limit_connections_refused", UnitCount, ownServer, "Connections refused because of the connections of `limitsFile`").withLimits(),
		gauge("limit_identities", UnitCount, ownServer, "Identities that `limitsFile` is applied to, and those that were until their buckets are full").withLimits(),
		counter("failed_logins_count", UnitCount, ownServer, "Logins that failed: auth packets and SASL, and wrong passwords of the superuser"),
		counter("failed_peer_logins_count", UnitCount, ownLinks, "Connections to the ports for other servers whose TLS handshake or login by SASL was refused, or that did not log in").on(OnMember),
		counter("audit_lines_count", UnitCount, ownServer, "Lines of the audit log, with `audit.enable`"),
		counter("audit_lines_lost_count", UnitCount, ownServer, "Lines about ends of sessions that the audit log had no room for"),
		counter("audit_write_errors_count", UnitCount, ownServer, "Writes of the audit log that failed, and were tried again"),
		gauge("audit_queue_bytes", UnitBytes, ownServer, "Bytes of lines that wait to be written; `audit.queueBytes` bounds them"),
		counter("audit_wait_count", UnitCount, ownServer, "How often a connection with changes had to wait for the audit log"),
		counter("slow_clients_closed_count", UnitCount, ownServer, "Connections closed because the client did not read its replies or events"),
		counter("slow_fsync_count", UnitCount, ownReplica, "Fsyncs of the log that took longer than `fsync.warningthresholdms`"),
		quantiles("tree_read_lock_time", ownReplica, "Times for which the tree's lock was held to read: nothing is applied meanwhile"),
		quantiles("tree_write_lock_time", ownReplica, "Times for which the tree's lock was held to apply: nothing is read meanwhile"),
		quantiles("request_time", ownServer, "Requests by operation, from reading one to queueing its reply: `readlatency` and `updatelatency` together").set("op"),
		quantiles("read_request_time", ownServer, "The same as `readlatency`"),
		quantiles("update_request_time", ownServer, "The same as `updatelatency`"),
		summary("fsync_time", UnitMilliseconds, ownReplica, "The same as `fsynctime`"),
		summary("snapshot_time", UnitMilliseconds, ownReplica, "The same as `snapshottime`"),
		quantiles("stage_time", ownReplica, "Turns of the pipeline's stages `order`, `log` (with the wait for the disk) and `apply`, each with all that was queued").set("stage"),
		gauge("learner_lag_transactions", UnitCount, ownReplica, "Transactions that the leader has logged or proposed and this follower has not acknowledged").on(OnLeader).set("server"),
		decimal("learner_silence_seconds", UnitSeconds, ownReplica, "Time since the leader sent the last message that this learner has answered").on(OnLeader).set("server"),
		gauge("tree_memory_bytes", UnitBytes, ownReplica, "Memory of the tree: `index`, `nodes`, `data` (blocks of names and data, and large data) and `children` (without the spare room of their lists)").set("part"),
		gauge("memory_budget_bytes", UnitBytes, ownServer, "Limits of memory, 0 if there is none: `connection_buffer_bytes`, `request_bytes_in_flight`, `watch_memory_bytes`, `session_memory_bytes`, `unsynced_bytes` and `peer_buffer_bytes` show what is used").set("budget"),
	}
	for i := range list {
		list[i].Own = true
	}
	return list
}
