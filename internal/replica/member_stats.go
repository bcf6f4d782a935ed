package replica

import (
	"strconv"
	"strings"
	"time"

	"github.com/pinfold-zk/pinfold/internal/metric"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/zk"
)

// MemberStats counts what only a server of an ensemble does. All of it is zero on a
// standalone server, except Propagation and LocalSessions.
type MemberStats struct {
	Elections    metric.Counter // begun
	Diffs, Snaps metric.Counter // learners that were synchronized by transactions, by a snapshot

	// How many learners were being synchronized by transactions, or by a snapshot, each time that one more was.
	DiffsRunning, SnapsRunning metric.Summary[int64]

	Healed metric.Counter // times that this server has healed (heal.go)

	LearnerProposals metric.Counter // received by a follower; an observer sees commits only
	LearnerCommits   metric.Counter
	Revalidations    metric.Counter // sessions about which the leader was asked, and has answered

	Election                       metric.Summary[time.Duration] // from its beginning until there was a leader
	FollowerSync, ObserverSync     metric.Summary[time.Duration] // from there until the learner served
	Unavailable, LeaderUnavailable metric.Summary[time.Duration] // without a quorum; until this server led

	// The age of transactions by the clock of the leader that made them: when they
	// reached a learner, were committed on the leader, were committed on a learner, were
	// applied. If the clocks of two servers differ, so do these ages.
	Proposed, Acked, Committed, Propagation metric.Histogram

	// How long the leader's proposals, and its commits, took until they were kept for observers, and
	// passed to them; of a follower with observerMasterPort, whether it has observers or not.
	OMProposals, OMCommits metric.Histogram

	ProposalSizes metric.Sizes // of this leader, or the last
	LocalSessions metric.Gauge
	Unsynced      metric.Gauge // bytes of transactions that wait for the disk
}

// noteServing is called when the server begins to serve in mode m: idle is how long
// there was no quorum, syncing how long ago the election ended.
func (s *MemberStats) noteServing(m Mode, idle, syncing time.Duration) {
	s.Unavailable.Add(idle)
	switch m {
	case Leader:
		s.LeaderUnavailable.Add(idle)
		s.ProposalSizes.Reset()
	case Follower:
		s.FollowerSync.Add(syncing)
	case Observer:
		s.ObserverSync.Add(syncing)
	}
}

// countEvent counts an event of the Zab core.
func (o *orderer) countEvent(e *zab.Event) {
	switch e.Kind {
	case zab.EventLooking:
		o.stats.Elections.Add(1)
		o.lookingFor = o.Now()
	case zab.EventElected:
		o.electedAt = o.Now()
		o.stats.Election.Add(o.electedAt - o.lookingFor)
	case zab.EventSyncing:
		if strings.HasPrefix(e.Reason, zab.Snap.String()) {
			o.stats.Snaps.Add(1)
			o.stats.SnapsRunning.Add(int64(e.Running))
		} else {
			o.stats.Diffs.Add(1)
			o.stats.DiffsRunning.Add(int64(e.Running))
		}
	}
}

// countCommitted counts transactions that the core has released to the applier.
func (o *orderer) countCommitted(txns []txn.Txn) {
	switch o.role {
	case zab.Leading:
		addAges(&o.stats.Acked, txns, o.clock.UnixMilli())
	case zab.Following, zab.Observing:
		o.stats.LearnerCommits.Add(int64(len(txns)))
		addAges(&o.stats.Committed, txns, o.clock.UnixMilli())
	}
}

// countProposed counts transactions that a follower has received from the leader.
func (o *orderer) countProposed(txns []txn.Txn) {
	if o.role == zab.Following {
		o.stats.LearnerProposals.Add(int64(len(txns)))
		addAges(&o.stats.Proposed, txns, o.clock.UnixMilli())
	}
}

// countForObservers counts what a follower that is an observer master has taken from its leader
// since start, and passed on. All packets of one turn of Order are handled at once: so they have one time.
func (o *orderer) countForObservers(start time.Duration, m *mail) {
	if o.role != zab.Following || !o.up || !o.o.Ensemble.ObserverMasters {
		return
	}
	var proposals, commits int
	for i := range m.events {
		e := &m.events[i]
		if e.kind != packetsCame || e.link != o.leaderLink {
			continue
		}
		for j := e.first; j < e.last; j++ {
			switch m.packets[j].Type {
			case zab.Proposal:
				proposals++
			case zab.Commit, zab.CommitAndActivate:
				commits++
			}
		}
	}
	took := o.Now() - start
	if proposals > 0 {
		o.stats.OMProposals.Add(proposals, took)
	}
	if commits > 0 {
		o.stats.OMCommits.Add(commits, took)
	}
}

// addAges adds the age of each transaction. All transactions of one millisecond, as in
// most batches, cost one update.
func addAges(h *metric.Histogram, txns []txn.Txn, nowMillis int64) {
	for len(txns) > 0 {
		n := 1
		for n < len(txns) && txns[n].Time == txns[0].Time {
			n++
		}
		if age := nowMillis - txns[0].Time; age >= 0 {
			h.Add(n, time.Duration(age)*time.Millisecond)
		}
		txns = txns[n:]
	}
}

// bindMemberMetrics gives a registry the metrics of members, and of local sessions.
func (r *Replica) bindMemberMetrics(reg *metric.Registry) {
	s := &r.stats.MemberStats
	for name, source := range map[string]metric.Source{
		"local_sessions":                  &s.LocalSessions,
		"unsynced_bytes":                  &s.Unsynced,
		"looking_count":                   &s.Elections,
		"diff_count":                      &s.Diffs,
		"snap_count":                      &s.Snaps,
		"inflight_diff_count":             &s.DiffsRunning,
		"inflight_snap_count":             &s.SnapsRunning,
		"learner_proposal_received_count": &s.LearnerProposals,
		"learner_commit_received_count":   &s.LearnerCommits,
		"revalidate_count":                &s.Revalidations,
		"election_time":                   &s.Election,
		"follower_sync_time":              &s.FollowerSync,
		"observer_sync_time":              &s.ObserverSync,
		"unavailable_time":                &s.Unavailable,
		"leader_unavailable_time":         &s.LeaderUnavailable,
		"propagation_latency":             &s.Propagation,
		"proposal_latency":                &s.Proposed,
		"quorum_ack_latency":              &s.Acked,
		"commit_propagation_latency":      &s.Committed,
		"om_proposal_process_time_ms":     &s.OMProposals,
		"om_commit_process_time_ms":       &s.OMCommits,
	} {
		reg.Bind(name, source)
	}
	reg.Collect(r.collectRole, "server_state", "peer_state", "observer_master_id",
		"learners", "synced_followers", "synced_observers", "synced_non_voting_followers", "pending_syncs", "leader_uptime",
		"last_proposal_size", "min_proposal_size", "max_proposal_size",
		"learner_handler_qp_size", "learner_handler_qp_time_ms", "ack_latency",
		"learner_lag_transactions", "learner_silence_seconds")
}

// collectRole reports the mode, and what a server in that mode knows of the ensemble.
func (r *Replica) collectRole(c metric.Collection) {
	mode := r.Mode()
	c.Text("server_state", mode.String())
	switch mode {
	case Leader:
		c.Text("peer_state", "leading - broadcast")
		r.collectLeader(c)
	case Follower:
		c.Text("peer_state", "following - broadcast")
		c.Int("synced_observers", r.Status().SyncedObservers())
	case Observer:
		c.Text("peer_state", "observing - broadcast")
		c.Int("observer_master_id", r.Status().Master)
	}
}

// collectLeader reports what a leader knows of its learners.
func (r *Replica) collectLeader(c metric.Collection) {
	status := r.Status()
	var followers, nonVoting, observers int64
	for _, l := range status.Learners {
		switch {
		case !l.Synced:
		case l.Observer:
			observers++
		case l.Votes:
			followers++
		default:
			followers++ // as Apache counts it
			nonVoting++
		}
		of := c.Of(strconv.FormatInt(l.ID, 10))
		of.Summary("learner_handler_qp_size", metric.Aggregate{})
		of.Summary("learner_handler_qp_time_ms", metric.Aggregate{})
		of.Summary("ack_latency", metric.Aggregate{})
		if l.Synced && !l.Observer { // observers acknowledge nothing
			of.Int("learner_lag_transactions", lag(max(status.Last, status.Proposed), l.Acked))
		}
		of.Decimal("learner_silence_seconds", max(r.Now()-l.Heard, 0).Seconds())
	}
	c.Int("learners", int64(len(status.Learners)))
	c.Int("synced_followers", followers)
	c.Int("synced_observers", observers)
	c.Int("synced_non_voting_followers", nonVoting)
	c.Int("pending_syncs", int64(status.Syncs))
	c.Int("leader_uptime", (r.Now() - r.Since()).Milliseconds())
	last, least, most := r.stats.ProposalSizes.Get()
	c.Int("last_proposal_size", last)
	c.Int("min_proposal_size", least)
	c.Int("max_proposal_size", most)
}

// lag returns how many transactions there are from acked to last, at least: of former
// epochs it does not count any.
func lag(last, acked zk.Zxid) int64 {
	if acked >= last {
		return 0
	}
	n := int64(last.Counter())
	if acked.Epoch() == last.Epoch() {
		n -= int64(acked.Counter())
	}
	return n
}
