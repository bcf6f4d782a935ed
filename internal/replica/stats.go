package replica

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pinfold-zk/pinfold/internal/metric"
	"github.com/pinfold-zk/pinfold/internal/pipeline"
	"github.com/pinfold-zk/pinfold/internal/session"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/watch"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// Stats counts what the stages do. It may be read at any time. BindMetrics says which
// metric each field is.
type Stats struct {
	Proposals, Commits, Expired metric.Counter
	SlowFsyncs, SnapshotErrors  metric.Counter
	DigestMismatches            metric.Counter
	Throttled                   metric.Counter // requests answered ErrThrottledOp
	Fsync, Snapshot             metric.Summary[time.Duration]
	Synced                      metric.Summary[int64] // transactions per fsync
	ReadHolds, WriteHolds       metric.Histogram      // for how long the tree's lock was held
	// Watchers that one change notified, by the type of the event. Changes without a
	// watcher do not count.
	Created, Deleted, Changed, Children metric.Summary[int64]

	stages    *metric.Set[*metric.Histogram]        // turns of each stage
	turns     [pipeline.Apply + 1]*metric.Histogram // of stages
	overQuota *metric.Set[*metric.Counter]          // writes refused because of a hard quota, by top-level znode

	MemberStats

	startup Report
	digests digestHistory
	events  atomic.Int64 // of the last four: watchers that were notified
}

// Stats returns the counters.
func (r *Replica) Stats() *Stats { return &r.stats }

// countNotified counts the watchers that were notified of an event of type ev.
func (s *Stats) countNotified(ev zk.EventType, watchers int) {
	s.events.Add(int64(watchers))
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

// BindMetrics gives a registry the metrics of this replica. The values that are read
// by a call, such as the number of znodes, are read under the tree's lock or the watch
// tables' lock, for a few instructions.
func (r *Replica) BindMetrics(reg *metric.Registry) {
	s := &r.stats
	for name, source := range map[string]metric.Source{
		"stale_sessions_expired":             &s.Expired,
		"proposal_count":                     &s.Proposals,
		"prep_processor_request_queued":      &s.Proposals,
		"commit_count":                       &s.Commits,
		"digest_mismatches_count":            &s.DigestMismatches,
		"snapshot_error_count":               &s.SnapshotErrors,
		"slow_fsync_count":                   &s.SlowFsyncs,
		"throttled_ops":                      &s.Throttled,
		"forwarded_request_bytes":            &r.order.forwarded.bytes,
		"session_question_bytes":             &r.order.undecided.shares.bytes,
		"fsynctime":                          &s.Fsync,
		"snapshottime":                       &s.Snapshot,
		"sync_processor_batch_size":          &s.Synced,
		"sync_processor_request_queued":      metric.Func(s.logged),
		"node_created_watch_count":           &s.Created,
		"node_deleted_watch_count":           &s.Deleted,
		"node_changed_watch_count":           &s.Changed,
		"node_children_watch_count":          &s.Children,
		"tree_read_lock_time":                &s.ReadHolds,
		"tree_write_lock_time":               &s.WriteHolds,
		"outstanding_requests":               metric.Func(func() int64 { return int64(r.Outstanding()) }),
		"quota_exceeded_error_per_namespace": s.overQuota,
		"fsync_time":                         &s.Fsync,
		"snapshot_time":                      &s.Snapshot,
		"stage_time":                         s.stages,
		"watch_count":                        metric.Func(r.countWatches),
		"disk_free_bytes":                    metric.Func(r.room.free.Load),
		"disk_nearly_full":                   metric.Func(r.diskShort),
		"healing":                            metric.Func(r.isHealing),
		"healed_count":                       &s.Healed,
		"watch_memory_bytes":                 metric.Func(r.sumWatches),
	} {
		reg.Bind(name, source)
	}
	reg.Collect(s.startup.collect, "dbinittime", "startup_snap_load_time", "startup_txns_load_time", "startup_txns_loaded")
	reg.Collect(r.collectTree, "znode_count", "ephemerals_count", "approximate_data_size", "global_sessions", "session_memory_bytes")
	reg.Collect(r.collectQuotas, "quota_count_limit_per_namespace", "quota_bytes_limit_per_namespace",
		"quota_count_usage_per_namespace", "quota_bytes_usage_per_namespace")
	reg.Collect(r.collectMemory, "tree_memory_bytes")
	r.bindMemberMetrics(reg)
}

// init makes the sets.
func (s *Stats) init() {
	s.overQuota = metric.NewSet(maxNamespaces, func() *metric.Counter { return new(metric.Counter) })
	s.stages = metric.NewSet(len(s.turns), func() *metric.Histogram { return new(metric.Histogram) })
	for stage, name := range map[pipeline.Stage]string{pipeline.Order: "order", pipeline.Log: "log", pipeline.Apply: "apply"} {
		s.turns[stage] = s.stages.Of(name).Value
	}
}

// collectMemory reports the memory of the tree.
func (r *Replica) collectMemory(c metric.Collection) {
	var m znode.Memory
	r.View(func(tree View) { m = tree.Memory() })
	for part, bytes := range map[string]int64{"index": m.Index, "nodes": m.Nodes, "data": m.Data, "children": m.Children} {
		c.Of(part).Int("tree_memory_bytes", bytes)
	}
}

// maxNamespaces is the largest number of top-level znodes whose refused writes are
// counted.
const maxNamespaces = 256

// countOverQuota counts a write that a hard quota refuses.
func (s *Stats) countOverQuota(path string) {
	if k := s.overQuota.Of(znode.TopName(path)); k != nil {
		k.Value.Add(1)
	}
}

// More quotas than maxQuotas are not reported: a scrape would cost too much. quotaPiece is
// how many are read under one hold of the tree's lock; quotaPathUnit bytes of a path count like one.
const (
	maxQuotas     = 1024
	quotaPiece    = 32
	quotaPathUnit = 1024
)

// collectQuotas sums quotas by top-level znode. One with a name of more than metric.MaxKeyBytes is left out.
func (r *Replica) collectQuotas(c metric.Collection) {
	type sums struct{ countLimit, bytesLimit, count, bytes int64 }
	all := map[string]*sums{}
	r.View(func(tree View) {
		work := 0
		for _, path := range tree.QuotaPaths(maxQuotas) {
			name := znode.TopName(path)
			if name == "" || len(name) > metric.MaxKeyBytes { // before its path is copied and hashed
				continue
			}
			if work += 1 + len(path)/quotaPathUnit; work >= quotaPiece {
				if work = 0; !tree.Pause(func() {}) {
					all = nil // of a tree that is gone
					return
				}
			}
			limits, used, ok := tree.QuotaLimits(path)
			if !ok {
				continue
			}
			if all[name] == nil {
				all[name] = &sums{}
			}
			countLimit, bytesLimit := limits.Limits()
			s := all[name]
			s.countLimit, s.bytesLimit = s.countLimit+countLimit, s.bytesLimit+bytesLimit
			s.count, s.bytes = s.count+used.Count, s.bytes+used.Bytes
		}
	})
	for _, name := range slices.Sorted(maps.Keys(all)) {
		s, of := all[name], c.Of(name)
		of.Int("quota_count_limit_per_namespace", s.countLimit)
		of.Int("quota_bytes_limit_per_namespace", s.bytesLimit)
		of.Int("quota_count_usage_per_namespace", s.count)
		of.Int("quota_bytes_usage_per_namespace", s.bytes)
	}
}

// logged returns the number of transactions that were written to the log.
func (s *Stats) logged() int64 {
	_, txns, _, _ := s.Synced.Get()
	return txns
}

func (r *Replica) countWatches() (n int64) {
	r.Watches(func(w *watch.Tables) { n = int64(w.Len()) })
	return n
}

func (r *Replica) sumWatches() (n int64) {
	r.Watches(func(w *watch.Tables) { n = int64(w.Bytes()) })
	return n
}

// collectTree reads what is counted of one state of the tree.
func (r *Replica) collectTree(c metric.Collection) {
	var znodes, ephemerals, sessions int
	var size int64
	r.View(func(tree View) {
		znodes, ephemerals, size, sessions = tree.Count(), tree.EphemeralCount(), tree.DataSize(), tree.SessionCount()
	})
	c.Int("znode_count", int64(znodes))
	c.Int("ephemerals_count", int64(ephemerals))
	c.Int("approximate_data_size", size+1) // Apache has the root a second time, as "/"
	c.Int("global_sessions", int64(sessions))
	c.Int("session_memory_bytes", session.Weight*(int64(sessions)+r.stats.LocalSessions.Load()))
}

// collect reports the recovery. The summaries of the replay are empty if the log had
// nothing to replay.
func (r *Report) collect(c metric.Collection) {
	c.Summary("dbinittime", metric.Once(r.Took).Millis())
	c.Summary("startup_snap_load_time", metric.Once(r.LoadTook).Millis())
	var took, txns metric.Aggregate
	if n := int64(r.Replayed); n > 0 {
		took, txns = metric.Once(r.Took-r.LoadTook).Millis(), metric.AggregateOf(1, n, n, n)
	}
	c.Summary("startup_txns_load_time", took)
	c.Summary("startup_txns_loaded", txns)
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
