package replica

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// Stats counts what the stages do. Anybody may read it at any time.
type Stats struct {
	Proposals, Commits, Expired atomic.Int64
	SlowFsyncs, SnapshotErrors  atomic.Int64
	DigestMismatches            atomic.Int64
	Throttled                   atomic.Int64 // requests that had waited too long
	Fsync, Snapshot             Summary[time.Duration]
	Synced                      Summary[int64] // transactions per fsync
	// Watchers that one change told, by the type of the event; changes that
	// nobody watched do not count.
	Created, Deleted, Changed, Children Summary[int64]

	MemberStats

	startup Report
	digests digestHistory
}

// Stats returns the counters.
func (r *Replica) Stats() *Stats { return &r.stats }

// Startup is what recovery has found.
func (s *Stats) Startup() *Report { return &s.startup }

// Reset sets back what is counted and summed up. What tells of the present, of
// the start and of the digests stays.
func (s *Stats) Reset() {
	for _, c := range [...]*atomic.Int64{
		&s.Proposals, &s.Commits, &s.Expired, &s.SlowFsyncs, &s.SnapshotErrors, &s.DigestMismatches,
		&s.Throttled,
	} {
		c.Store(0)
	}
	s.Fsync.reset()
	s.Snapshot.reset()
	for _, c := range [...]*Summary[int64]{&s.Synced, &s.Created, &s.Deleted, &s.Changed, &s.Children} {
		c.reset()
	}
	s.MemberStats.reset()
}

// told counts the watchers that an event of type ev was sent to.
func (s *Stats) told(ev zk.EventType, watchers int) {
	switch ev {
	case zk.EventNodeCreated:
		s.Created.Add(int64(watchers))
	case zk.EventNodeDeleted:
		s.Deleted.Add(int64(watchers))
	case zk.EventNodeDataChanged:
		s.Changed.Add(int64(watchers))
	case zk.EventNodeChildrenChanged:
		s.Children.Add(int64(watchers))
	}
}

// Summary accumulates durations, or numbers of anything.
type Summary[T ~int64] struct {
	mu struct {
		sync.Mutex
		count    int64
		sum      T
		min, max T
	}
}

// Add counts one.
func (s *Summary[T]) Add(d T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.count == 0 || d < s.mu.min {
		s.mu.min = d
	}
	s.mu.max = max(s.mu.max, d)
	s.mu.count++
	s.mu.sum += d
}

func (s *Summary[T]) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.count, s.mu.sum, s.mu.min, s.mu.max = 0, 0, 0, 0
}

// Get returns how many there were, their sum, the least and the largest.
func (s *Summary[T]) Get() (count int64, sum, least, most T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.count, s.mu.sum, s.mu.min, s.mu.max
}

// DigestAt is the tree's digest after a transaction.
type DigestAt struct {
	Zxid   zk.Zxid
	Digest uint64
}

// The history of digests: one in digestEvery transactions, digestsKept of them,
// as the four-letter word "hash" shows them.
const (
	digestEvery = 128
	digestsKept = 1024
)

type digestHistory struct {
	mu struct {
		sync.Mutex
		list []DigestAt
	}
}

// recordDigest keeps the digest of every digestEvery-th zxid: on all servers
// the same, so that their histories can be compared.
func (s *Stats) recordDigest(t *znode.Tree) {
	if t.LastZxid()%digestEvery != 0 {
		return
	}
	h := &s.digests
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.mu.list) == digestsKept {
		h.mu.list = append(h.mu.list[:0], h.mu.list[1:]...)
	}
	h.mu.list = append(h.mu.list, DigestAt{t.LastZxid(), t.Digest()})
}

// Digests returns the history, oldest first, and the version of the digests.
func (s *Stats) Digests() ([]DigestAt, int) {
	s.digests.mu.Lock()
	defer s.digests.mu.Unlock()
	return append([]DigestAt(nil), s.digests.mu.list...), txn.DigestVersion
}
