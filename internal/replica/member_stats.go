package replica

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/pinfold-zk/pinfold/internal/metric"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/zab"
)

// MemberStats is what a server of an ensemble counts besides. All of it is zero
// on a standalone server, but for Propagation.
type MemberStats struct {
	Elections    atomic.Int64 // begun
	Diffs, Snaps atomic.Int64 // learners that were synchronized by transactions, by a snapshot

	LearnerProposals atomic.Int64 // that came to a follower; an observer sees commits alone
	LearnerCommits   atomic.Int64
	Revalidations    atomic.Int64 // sessions about which the leader was asked, and has answered

	Election                       Summary[time.Duration] // from its beginning until there was a leader
	FollowerSync, ObserverSync     Summary[time.Duration] // from there until the learner served
	Unavailable, LeaderUnavailable Summary[time.Duration] // without a quorum; of which the next leader

	// How old a transaction was by the clock of the leader that made it: when it
	// came to a learner, was committed on the leader, was committed on a learner,
	// was applied. Where the clocks of two machines disagree, so do these.
	Proposed, Acked, Committed, Propagation metric.Histogram

	ProposalSizes Sizes // of this leader, or the last
	LocalSessions atomic.Int64
}

func (s *MemberStats) reset() {
	for _, c := range [...]*atomic.Int64{
		&s.Elections, &s.Diffs, &s.Snaps, &s.LearnerProposals, &s.LearnerCommits, &s.Revalidations,
	} {
		c.Store(0)
	}
	for _, d := range [...]*Summary[time.Duration]{
		&s.Election, &s.FollowerSync, &s.ObserverSync, &s.Unavailable, &s.LeaderUnavailable,
	} {
		d.reset()
	}
	for _, h := range [...]*metric.Histogram{&s.Proposed, &s.Acked, &s.Committed, &s.Propagation} {
		h.Reset()
	}
}

// noteServing counts what led to a mode that serves: the time without a quorum,
// and that since the role was taken.
func (s *MemberStats) noteServing(m Mode, idle, syncing time.Duration) {
	s.Unavailable.Add(idle)
	switch m {
	case Leader:
		s.LeaderUnavailable.Add(idle)
		s.ProposalSizes.reset()
	case Follower:
		s.FollowerSync.Add(syncing)
	case Observer:
		s.ObserverSync.Add(syncing)
	}
}

// countEvent counts what the Zab core tells.
func (r *Replica) countEvent(e *zab.Event) {
	switch e.Kind {
	case zab.EventLooking:
		r.stats.Elections.Add(1)
		r.lookingFor = r.Now()
	case zab.EventElected:
		r.electedAt = r.Now()
		r.stats.Election.Add(r.electedAt - r.lookingFor)
	case zab.EventSyncing:
		if strings.HasPrefix(e.Reason, zab.Snap.String()) {
			r.stats.Snaps.Add(1)
		} else {
			r.stats.Diffs.Add(1)
		}
	}
}

// countCommitted counts transactions that the core lets go to the applier.
func (r *Replica) countCommitted(txns []txn.Txn) {
	switch r.role {
	case zab.Leading:
		addAges(&r.stats.Acked, txns, r.clock.UnixMilli())
	case zab.Following, zab.Observing:
		r.stats.LearnerCommits.Add(int64(len(txns)))
		addAges(&r.stats.Committed, txns, r.clock.UnixMilli())
	}
}

// countProposed counts transactions that the leader has sent.
func (r *Replica) countProposed(txns []txn.Txn) {
	if r.role == zab.Following {
		r.stats.LearnerProposals.Add(int64(len(txns)))
		addAges(&r.stats.Proposed, txns, r.clock.UnixMilli())
	}
}

// addAges adds how old transactions are. Those of one millisecond, as prepared
// batches are, cost as much as one.
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

// Sizes keeps the last, the least and the largest of some sizes in bytes. One
// goroutine adds, any may read.
type Sizes struct {
	last atomic.Int64 // plus one; 0 is none
	span metric.Span
}

func (s *Sizes) add(bytes int) {
	s.last.Store(int64(bytes) + 1)
	s.span.Add(int64(bytes), int64(bytes))
}

func (s *Sizes) reset() {
	s.last.Store(0)
	s.span.Reset()
}

// Get returns them, all -1 if there are none.
func (s *Sizes) Get() (last, least, most int64) {
	if last = s.last.Load() - 1; last < 0 {
		return -1, -1, -1
	}
	least, most = s.span.Get()
	return last, least, most
}
