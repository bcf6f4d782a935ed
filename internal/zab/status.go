package zab

import (
	"time"

	"github.com/pinfold-zk/pinfold/zk"
)

// Status is what an operator may want to know of a core.
type Status struct {
	Role        Role
	Serving     bool
	State       string // election, discovery, synchronization or broadcast: Apache's ZabState
	Leader      int64  // its server id, this server's if it leads; 0 if there is none
	Master      int64  // of an observer: the server id of the one that serves it, the leader or another
	Epoch       uint32
	Last        zk.Zxid // of the log
	Committed   zk.Zxid
	Proposed    zk.Zxid // of a leader
	Outstanding int     // proposals of a leader that are not committed
	Pending     int     // proposals of a follower that are not committed
	Syncs       int     // of a leader, that are not answered
	Since       time.Duration
	Learners    []LearnerStatus // in the order in which they came; of a follower these are observers
}

// SyncedObservers returns how many observers are up to date that this server serves.
func (s *Status) SyncedObservers() (n int64) {
	for _, l := range s.Learners {
		if l.Observer && l.Synced {
			n++
		}
	}
	return n
}

// LearnerStatus is a learner as its leader sees it.
type LearnerStatus struct {
	ID       int64
	Link     LinkID
	Observer bool
	Votes    bool // its acknowledgements count: it is a voter of the committed membership
	Synced   bool // has been sent UPTODATE
	Acked    zk.Zxid
	Heard    time.Duration // when what it last answered was sent
}

// Status tells how things are. The caller owns the result.
func (c *Core) Status() Status {
	s := Status{
		Role: c.role, Serving: c.phase == broadcast, State: c.phase.state(), Leader: c.learner.leader, Epoch: c.epoch,
		Last: c.last, Committed: c.committed, Proposed: c.leader.zxid,
		Outstanding: c.leader.outstanding.Len(), Pending: c.learner.pending.Len(),
		Syncs: c.leader.syncs.Len(), Since: c.since,
	}
	if c.role == Leading {
		s.Leader = c.cfg.ID
	}
	if c.role == Observing {
		s.Master = c.learner.master
	}
	for _, l := range c.leader.learners {
		if l.holds {
			s.Learners = append(s.Learners, LearnerStatus{
				ID: l.id, Link: l.link, Observer: l.observer, Votes: c.votes(l), Synced: l.state == upToDate,
				Acked: l.lastAcked(), Heard: l.contact,
			})
		}
	}
	return s
}

// lastAcked is the last proposal that a follower has acknowledged, 0 for an observer.
func (l *learner) lastAcked() zk.Zxid {
	if l.acks == nil {
		return 0
	}
	return l.acks.upto
}

// state returns Apache's name of the part of the protocol that a phase belongs to.
func (p phase) state() string {
	switch p {
	case electing, settling:
		return "election"
	case connecting, discovery:
		return "discovery"
	case syncing, acked, uptodate:
		return "synchronization"
	}
	return "broadcast"
}
