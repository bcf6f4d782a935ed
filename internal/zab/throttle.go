package zab

import "fmt"

// syncKind says what a learner is sent to make its history the leader's.
type syncKind int

const (
	noSync syncKind = iota
	diffSync
	snapSync
)

// String is the kind in messages.
func (k syncKind) String() string { return [...]string{"none", "transactions", "a snapshot"}[k] }

// limit is how many learners may be synchronized by the kind at a time; 0 is no
// limit.
func (c *Config) limit(k syncKind) int {
	switch k {
	case snapSync:
		return c.MaxSnapSyncs
	case diffSync:
		return c.MaxDiffSyncs
	}
	return 0
}

// admitSync begins the synchronization of a learner, which ends when it has
// acknowledged NEWLEADER or its link is gone. An observer beyond the limit is
// refused, and false is returned; it comes back. A participant is never refused,
// but it counts (as with Apache's LearnerSyncThrottler).
func (c *Core) admitSync(l *learner, k syncKind) bool {
	if limit := c.cfg.limit(k); l.observer && limit > 0 {
		if running := c.syncing(k); running >= limit {
			c.refuse(l, fmt.Errorf("%d learners are being sent %v, and no more may at a time", running, k))
			return false
		}
	}
	l.sync = k
	return true
}

// syncing is how many learners are being synchronized by the kind.
func (c *Core) syncing(k syncKind) (n int) {
	for _, l := range c.leader.learners {
		if l.sync == k && !l.newAcked {
			n++
		}
	}
	return n
}
