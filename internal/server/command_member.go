package server

import (
	"fmt"

	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/metric"
	"github.com/pinfold-zk/pinfold/internal/replica"
)

// membership is the part of conf that servers of an ensemble have.
func (t *text) membership(q *config.Quorum) {
	peerType := 0
	if q.Observer {
		peerType = 1
	}
	own := q.Own().Addresses[0]
	t.b = fmt.Appendf(t.b, "initLimit=%d\nsyncLimit=%d\nelectionAlg=3\nelectionPort=%d\nquorumPort=%d\npeerType=%d\n",
		q.InitLimit, q.SyncLimit, own.ElectionPort, own.QuorumPort, peerType)
	if t.mode != replica.ReadOnly { // as in Apache
		t.b = append(append(t.b, "membership: \n"...), q.Members.Text()...)
	}
}

// member prints the lines of mntr that servers of an ensemble have. One that
// reads only has none of them, as in Apache.
func (t *text) member() {
	s := t.c.s
	role := ""
	switch t.mode {
	case replica.Leader:
		role = "leading"
	case replica.Follower:
		role = "following"
	case replica.Observer:
		role = "observing"
	default:
		return
	}
	t.b = fmt.Appendf(t.b, "zk_peer_state\t%s - broadcast\n", role)
	status := s.replica.Status()
	if t.mode == replica.Observer {
		t.integer("observer_master_id", status.Leader)
	}
	t.integer("quorum_size", int64(len(s.cfg.Quorum.Members.Voters())))
	if t.mode == replica.Leader {
		t.leader()
	}
}

// leader prints the lines of mntr that a leader has.
func (t *text) leader() {
	r := t.c.s.replica
	status := r.Status()
	var followers, observers int64
	for _, l := range status.Learners {
		switch {
		case !l.Synced:
		case l.Observer:
			observers++
		default:
			followers++
		}
	}
	t.integer("learners", int64(len(status.Learners)))
	t.integer("synced_followers", followers)
	t.integer("synced_observers", observers)
	t.integer("synced_non_voting_followers", 0) // there are none without reconfiguration
	t.integer("pending_syncs", int64(status.Syncs))
	t.integer("leader_uptime", (r.Now() - r.Since()).Milliseconds())
	last, least, most := r.Stats().ProposalSizes.Get()
	t.integer("last_proposal_size", last)
	t.integer("min_proposal_size", least)
	t.integer("max_proposal_size", most)
	for _, l := range status.Learners {
		t.basic(fmt.Sprintf("%d_learner_handler_qp_size", l.ID), metric.Summary{})
		t.advanced(fmt.Sprintf("%d_learner_handler_qp_time_ms", l.ID), metric.Summary{})
	}
}
