package zab

import (
	"fmt"
	"time"
)

// A server whose disk finishes no write goes on: a quorum of others commits, and it
// applies what they have committed. What it has appended waits in memory. Two
// bounds end that:
//
//   - A leader whose disk has finished no write for StallAfter hands over, if a
//     quorum does without it. It settles, which means that it takes no part in an
//     election until all its writes are durable, so it is not elected again.
//   - A server that has more than StallBytes waiting for its disk gives its role up,
//     a leader only if a quorum does without it. Otherwise nothing of this is
//     committed, and the owner must take no more requests from clients.
//
// A leader that commits nothing of what it has proposed for StallAfter, because the
// disks of a quorum are stalled, leaves too: its clients are better told.
const (
	DefaultStallAfter = 30 * time.Second
	DefaultStallBytes = 192 << 20
)

// Unsynced is the memory of the transactions that were appended and are not durable
// here, and whether it exceeds StallBytes. The owner bounds it while a learner is
// synchronized, by reading no more from the link; from then on the core does, to
// StallBytes and what comes within a tick.
func (c *Core) Unsynced() (bytes int64, overfull bool) { return c.unsynced, c.overfull() }

// DiskStalled reports whether this server's disk has finished no write for
// StallAfter, though one is pending. A server that has left its role in this state
// takes part in an election only when the disk has finished all writes.
func (c *Core) DiskStalled() bool {
	return c.persisted < c.seq && c.now-c.diskSince >= c.cfg.StallAfter
}

// overfull reports whether too much waits for this server's disk.
func (c *Core) overfull() bool { return c.unsynced > c.cfg.StallBytes }

// dispensable reports whether a quorum without this leader is there and has what
// this server's disk does not: more transactions, or the epoch.
func (c *Core) dispensable() bool {
	ahead := c.committed > c.persistedZxid || c.appends.Len() == 0
	return ahead && c.quorum(false, func(l *learner) bool { return l.state == upToDate })
}

// stalled returns why a leader that serves has to leave its role for the sake of a
// disk, nil if it has not.
func (c *Core) stalled() error {
	s := &c.leader
	switch {
	case (c.DiskStalled() || c.overfull()) && c.dispensable():
		return fmt.Errorf("its disk has finished no write for %v, %d bytes wait for it, and a quorum does without it", c.now-c.diskSince, c.unsynced)
	case s.outstanding.Len() > 0 && c.now-s.oldestSince >= c.cfg.StallAfter:
		return fmt.Errorf("no quorum has acknowledged %v for %v: the disks of too many servers are stalled", s.outstanding.At(0).Zxid, c.now-s.oldestSince)
	}
	return nil
}
