package metric

// The components of Apache ZooKeeper that the metrics in this file are about. This
// server does the same work without them, or does not do it.
const (
	apacheCommits   = "the commit processor"
	apacheQueues    = "the queues between threads: requests are handled in batches, and wait for the disk only (`fsynctime`, `updatelatency`)"
	apacheMembers   = "queues and throttles between members"
	apacheThrottle  = "the request throttler, and details of the connection throttle"
	apacheCache     = "the cache of replies"
	apacheWatches   = "the deferred removal of watches"
	apacheShutdown  = "a process that continues without its database: here the process ends"
	apacheMachine   = "the Java virtual machine and Netty"
	apacheForwarded = "the options of forwarding by learners"
)

// absentCounters also has the counters of TLS connections and of the scheme ensemble, and
// absentSummaries those of synchronizations under way, which are not absent: mntr shows them
// in this order.
func absentCounters() []Desc {
	const n = UnitCount
	return []Desc{
		counter("quit_leading_due_to_disloyal_voter", n, ownReplica, "Terms that ended because voters preferred another leader").absent(apacheMembers),
		counter("request_commit_queued", n, ownReplica, "Commits queued").absent(apacheCommits),
		counter("requests_not_forwarded_to_commit_processor", n, ownReplica, "Requests that a learner did not forward").absent(apacheForwarded),
		counter("skip_learner_request_to_next_processor_count", n, ownReplica, "Requests that a learner answered itself").absent(apacheForwarded),
		counter("outstanding_changes_queued", n, ownReplica, "Change records added").absent(apacheQueues),
		counter("outstanding_changes_removed", n, ownReplica, "Change records removed").absent(apacheQueues),
		counter("stale_requests", n, ownServer, "Requests of connections that had closed").absent(apacheThrottle),
		counter("stale_requests_dropped", n, ownServer, "Stale requests that were dropped").absent(apacheThrottle),
		counter("stale_replies", n, ownServer, "Replies that were not sent because the connection had closed").absent(apacheThrottle),
		counter("add_dead_watcher_stall_time", UnitMilliseconds, ownReplica, "Time waited because the queue of closed watchers was full").absent(apacheWatches),
		counter("dead_watchers_queued", n, ownReplica, "Closed watchers queued").absent(apacheWatches),
		counter("dead_watchers_cleared", n, ownReplica, "Closed watchers removed").absent(apacheWatches),
		counter("response_packet_cache_hits", n, ownServer, "`getData` replies from the cache").absent(apacheCache),
		counter("response_packet_cache_misses", n, ownServer, "`getData` replies that were not in the cache").absent(apacheCache),
		counter("response_packet_get_children_cache_hits", n, ownServer, "`getChildren2` replies from the cache").absent(apacheCache),
		counter("response_packet_get_children_cache_misses", n, ownServer, "`getChildren2` replies that were not in the cache").absent(apacheCache),
		counter("ensemble_auth_success", n, ownServer, "Clients that named this ensemble"),
		counter("ensemble_auth_fail", n, ownServer, "Clients that named another ensemble"),
		counter("ensemble_auth_skip", n, ownServer, "Clients that named no ensemble, or a server without a name"),
		counter("tls_handshake_exceeded", n, ownServer, "Connections refused because of too many TLS handshakes"),
		counter("unsuccessful_handshake", n, ownServer, "Failed TLS handshakes"),
		counter("insecure_admin_count", n, ownServer, "Connections without TLS to an administration port that accepts both (`admin.portUnification`)"),
		counter("cnxn_closed_without_zk_server_running", n, ownServer, "Connections closed before the TLS handshake because there was no quorum"),
		counter("unrecoverable_error_count", n, ownServer, "Threads that ended by an exception").absent(apacheShutdown),
	}
}

func absentSummaries() []Desc {
	const n, ms = UnitCount, UnitMilliseconds
	return []Desc{
		summary("inflight_snap_count", n, ownReplica, "Learners that this leader was synchronizing by a snapshot when one more was"),
		summary("inflight_diff_count", n, ownReplica, "Learners that this leader was synchronizing by transactions when one more was"),
		summary("learner_request_processor_queue_size", n, ownReplica, "Requests queued on a learner").absent(apacheMembers),
		summary("prep_processor_queue_size", n, ownReplica, "Requests that wait to be prepared").absent(apacheQueues),
		summary("prep_process_time", ms, ownReplica, "Preparing a request").absent(apacheQueues),
		summary("proposal_process_time", ms, ownReplica, "Passing a request on after it was prepared").absent(apacheQueues),
		summary("sync_processor_queue_size", n, ownReplica, "Requests that wait to be logged").absent(apacheQueues),
		summary("sync_process_time", ms, ownReplica, "Logging a request, without the flush").absent(apacheQueues),
		summary("commit_process_time", ms, ownReplica, "One round of the commit processor").absent(apacheCommits),
		summary("requests_in_session_queue", n, ownReplica, "Requests in the queue of a session").absent(apacheCommits),
		summary("pending_session_queue_size", n, ownReplica, "Sessions with queued requests").absent(apacheCommits),
		summary("reads_after_write_in_session_queue", n, ownReplica, "Reads released after a write of their session").absent(apacheCommits),
		summary("reads_issued_from_session_queue", n, ownReplica, "Reads released in one round").absent(apacheCommits),
		summary("session_queues_drained", n, ownReplica, "Sessions whose queues were emptied in one round").absent(apacheCommits),
		summary("time_waiting_empty_pool_in_commit_processor_read_ms", ms, ownReplica, "Waiting for running reads before a write").absent(apacheCommits),
		summary("write_batch_time_in_commit_processor", ms, ownReplica, "Processing a batch of writes").absent(apacheCommits),
		summary("concurrent_request_processing_in_commit_processor", n, ownReplica, "Reads that run when a write is due").absent(apacheCommits),
		summary("read_commit_proc_req_queued", n, ownReplica, "Reads queued").absent(apacheCommits),
		summary("write_commit_proc_req_queued", n, ownReplica, "Writes queued").absent(apacheCommits),
		summary("commit_commit_proc_req_queued", n, ownReplica, "Commits queued").absent(apacheCommits),
		summary("read_commit_proc_issued", n, ownReplica, "Reads passed on in one round").absent(apacheCommits),
		summary("write_commit_proc_issued", n, ownReplica, "Writes passed on in one round").absent(apacheCommits),
		summary("connection_token_deficit", n, ownServer, "Tokens that the connection throttle lacked").absent(apacheThrottle),
		summary("netty_queued_buffer_capacity", UnitBytes, ownServer, "Bytes held while a connection is throttled").absent(apacheMachine),
		summary("socket_closing_time", ms, ownServer, "Closing a socket between members").absent(apacheMachine),
	}
}

// absentQuantiles also has the times of observer masters, which are not absent: mntr shows them in
// this order.
func absentQuantiles() []Desc {
	return []Desc{
		quantiles("proposal_ack_creation_latency", ownReplica, "Age of transactions when their ACK was made").absent(apacheMembers),
		quantiles("om_proposal_process_time_ms", ownReplica, "From taking a proposal from the leader until it was kept for observers, on a follower with `observerMasterPort`"),
		quantiles("om_commit_process_time_ms", ownReplica, "From taking a commit from the leader until it was passed to observers, on a follower with `observerMasterPort`"),
		quantiles("prep_processor_queue_time_ms", ownReplica, "Waiting to be prepared").absent(apacheQueues),
		quantiles("close_session_prep_time", ownReplica, "Collecting the ephemerals of a session that closes").absent(apacheQueues),
		quantiles("sync_processor_queue_time_ms", ownReplica, "Waiting to be logged").absent(apacheQueues),
		quantiles("sync_processor_queue_flush_time_ms", ownReplica, "One flush of the log").absent(apacheQueues),
		quantiles("sync_processor_queue_and_flush_time_ms", ownReplica, "From queueing a request to its flush").absent(apacheQueues),
		quantiles("read_commitproc_time_ms", ownReplica, "Time of a read in the commit processor").absent(apacheCommits),
		quantiles("write_commitproc_time_ms", ownReplica, "Time of a write in the commit processor").absent(apacheCommits),
		quantiles("local_write_committed_time_ms", ownReplica, "From the commit of a write of this server's client to its processing").absent(apacheCommits),
		quantiles("server_write_committed_time_ms", ownReplica, "From the commit of another server's write to its processing").absent(apacheCommits),
		quantiles("read_final_proc_time_ms", ownReplica, "Reading from the tree").absent(apacheQueues),
		quantiles("write_final_proc_time_ms", ownReplica, "Applying to the tree").absent(apacheQueues),
		quantiles("request_throttle_queue_time_ms", ownServer, "Waiting in the request throttler").absent(apacheQueues),
		quantiles("dead_watchers_cleaner_latency", ownReplica, "Removing closed watchers").absent(apacheWatches),
		quantiles("jvm_pause_time_ms", ownServer, "Pauses of the Java virtual machine").absent(apacheMachine),
	}
}
