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
	Fsync, Snapshot             Summary
	digests                     digestHistory
}

// Stats returns the counters.
func (r *Replica) Stats() *Stats { return &r.stats }

// Summary accumulates durations.
type Summary struct {
	mu struct {
		sync.Mutex
		count    int64
		sum      time.Duration
		min, max time.Duration
	}
}

// Add counts one.
func (s *Summary) Add(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.count == 0 || d < s.mu.min {
		s.mu.min = d
	}
	s.mu.max = max(s.mu.max, d)
	s.mu.count++
	s.mu.sum += d
}

// Get returns how many there were, their sum, the least and the largest.
func (s *Summary) Get() (count int64, sum, least, most time.Duration) {
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
		next zk.Zxid // of the next one to be kept
	}
}

func (s *Stats) init(t *znode.Tree) { s.digests.mu.next = t.LastZxid() + digestEvery }

// recordDigest keeps the digest if enough transactions have passed.
func (s *Stats) recordDigest(t *znode.Tree) {
	h := &s.digests
	h.mu.Lock()
	defer h.mu.Unlock()
	if t.LastZxid() < h.mu.next {
		return
	}
	h.mu.next = t.LastZxid() + digestEvery
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
