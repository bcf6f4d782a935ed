package logging

import "maps"

// Event returns the name of the event that a message of the server is about. Rules for
// alerts use it: the text of a message may become better, the name of its event stays.
// internal/lint checks that every message of the server has a name. A message that comes
// from elsewhere, from the program that embeds the server for example, is "unnamed".
func Event(message string) string {
	if name, ok := events[message]; ok {
		return name
	}
	return "unnamed"
}

// Events returns all messages of the server with the names of their events.
func Events() map[string]string { return maps.Clone(events) }

// events has the name of the event of each message, in the order of the names.
var events = map[string]string{
	"cannot accept a client; trying again: are there enough file descriptors?": "accept_failed",
	"znodes with an unknown ACL are open to all clients until the log sets it": "acl_unknown",
	"the administration server has ended; clients are still served":            "admin_ended",
	"a request to the administration server failed":                            "admin_request_failed",
	"a snapshot for the administration server failed":                          "admin_snapshot_failed",
	"a snapshot that is being sent cannot be read":                             "admin_snapshot_send_failed",
	"a snapshot for the administration server cannot be read":                  "admin_snapshot_unreadable",
	"administration server":                                           "admin_started",
	"the authentication of a client failed":                           "authentication_failed",
	"connection closed: the client did not authenticate first":        "authentication_required",
	"connection closed":                                               "client_connection_closed",
	"a client's connection was closed because of an error":            "client_connection_failed",
	"connection closed: the client does not read its events":          "client_reads_no_events",
	"connection closed: the client does not read its replies":         "client_reads_no_replies",
	"a client was refused":                                            "client_refused",
	"socket closed":                                                   "client_socket_closed",
	"connection closed: no room for a reply in connectionBufferBytes": "connection_buffers_full",
	"connections were closed by the command shed_connections":         "connections_shed",
	"the tree's digest is not the one that was logged":                "digest_mismatch",
	"this server is elected and does not lead, for its tree is not what its log leads to: a quorum of voters is in this state, and none has a tree for the others; it looks again in a tick": "elected_with_wrong_tree",
	"election link is closed: the server is not a member of the ensemble any more":                                                                                                           "election_link_closed",
	"connected to a server for elections":                                                 "election_link_connected",
	"cannot connect to a server for elections; trying again":                              "election_link_failed",
	"the connection to a server for elections is lost; it is made again":                  "election_link_lost",
	"an election message cannot be read":                                                  "election_message_unreadable",
	"a client was refused: it expects another ensemble":                                   "ensemble_name_wrong",
	"a crash has interrupted a synchronization: the current epoch is raised to the log's": "epoch_raised",
	"old files purged": "files_purged",
	"fsync of the transaction log was slow: is the disk overloaded?":              "fsync_slow",
	"connection closed: its identity has too many connections (limitsFile)":       "identity_connections_exceeded",
	"a request was refused: too many watches or ephemerals (limitsFile)":          "identity_limit_exceeded",
	"connection closed: too many large requests at a time (largeRequestMaxBytes)": "large_requests_exceeded",
	"a leader is elected":                                "leader_elected",
	"a learner has gone":                                 "learner_gone",
	"a learner is up to date":                            "learner_synchronized",
	"a learner is being synchronized":                    "learner_synchronizing",
	"the limits of sessions and identities have changed": "limits_changed",
	"the new limits are not used, the earlier ones remain: correct the file": "limits_file_wrong",
	"local session expired": "local_session_expired",
	"the log was cut to what the leader has, and the state read again": "log_cut",
	"the log cannot be cut to what the leader has":                     "log_cut_failed",
	"the file of the transaction log was removed while it was in use: it has been written anew, nothing is lost; find out which program removes files there": "log_file_removed",
	"the log level has changed": "log_level_changed",
	"replaying the log":         "log_replaying",
	"the log ends in a write that a crash interrupted; it is cut off, nothing in it is known to have been synced": "log_torn",
	"looking for a leader": "looking_for_leader",
	"members of the ensemble cannot be reached: their addresses cannot be read":                                                            "member_address_unreadable",
	"the membership of the ensemble has changed":                                                                                           "membership_changed",
	"the leader has changed the membership of the ensemble; this server keeps that of its configuration, because reconfigEnabled is false": "membership_ignored",
	"metrics are not served to Prometheus any more":                                                                                        "metrics_ended",
	"metrics for Prometheus":                                                                         "metrics_started",
	"connection closed: the reply to a multiRead is too large":                                       "multi_read_too_large",
	"an election notification is too large and is not sent; please report this":                      "notification_too_large",
	"ephemerals of a session that does not exist are deleted":                                        "orphaned_ephemerals_deleted",
	"cannot accept a connection of another server; trying again: are there enough file descriptors?": "peer_accept_failed",
	"a connection of another server was refused":                                                     "peer_connection_refused",
	"cannot listen for the other servers; trying again in a second":                                  "peer_listen_failed",
	"a peer was refused": "peer_refused",
	"purge of old files failed; it will be tried again": "purge_failed",
	"a quorum is there":                                                                         "quorum_formed",
	"no quorum: clients that only read are served":                                              "read_only_mode",
	"no read-only mode: the leader's snapshot has not come whole":                               "read_only_mode_impossible",
	"connection closed: the client restores more watches than it may have (limitsFile)":         "restored_watches_exceeded",
	"connection closed: there is no room for the watches that the client restores (watchBytes)": "restored_watches_refused",
	"the role is given up":                                                                      "role_given_up",
	"a client has logged in by SASL":                                                            "sasl_login",
	"a SASL login failed":                                                                       "sasl_login_failed",
	"a SASL login was refused: the user name cannot be used in an ACL, or the connection has too many identities":                  "sasl_login_refused",
	"no client can log in by SASL: the login file lacks the section; add it, or name another one by zookeeper.sasl.serverconfig":   "sasl_section_missing",
	"SASLAuthenticationProvider.superPassword has no effect: the login file has no user super; add the user or remove the setting": "sasl_super_missing",
	"the server has failed and stops: acknowledged writes are on the disk, others may be lost; restart it once the cause is gone":  "server_failed",
	"session expired": "session_expired",
	"a setting in the configuration needs attention":                            "setting_needs_attention",
	"snapshot failed; the log has everything, the next one will be tried":       "snapshot_failed",
	"snapshot given up; the log has everything":                                 "snapshot_given_up",
	"a snapshot that was given up cannot be removed; the next start removes it": "snapshot_not_removed",
	"the snapshot was made of a wrong tree, trying the one before":              "snapshot_of_wrong_tree",
	"a snapshot will be asked for":                                              "snapshot_requested",
	"snapshot cannot be used, trying the one before":                            "snapshot_skipped",
	"snapshot cannot be used":                                                   "snapshot_unusable",
	"snapshot written":                                                          "snapshot_written",
	"stopping":                                                                  "stopping",
	"the ensemble is there":                                                     "synchronized_with_leader",
	"the tree is not what the log leads to: damaged memory, or a bug that we would like to hear of":                                              "tree_diverged",
	"the tree is not what the log leads to, from whichever snapshot: this server neither serves nor leads until a leader has sent it a snapshot": "tree_diverged_for_good",
	"a watch was refused: all watches take too much memory (watchBytes)":                                                                         "watch_refused",
	"zxids are missing between neighbouring entries of the log, as Apache leaves them where a request came to nothing":                           "zxids_missing",
}
