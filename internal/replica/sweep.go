package replica

import (
	"time"

	"github.com/pinfold-zk/pinfold/internal/prep"
	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/wire"
)

// A sweeper deletes what no client deletes: containers and znodes that have outlived their
// time, and old files.
type sweeper struct{ *Replica }

// sweep deletes containers that have lost their children and znodes that have
// outlived their time, at most SweepPerMinute of them (features page, section 6).
func (r sweeper) sweep() {
	tick := time.NewTicker(max(r.o.SweepInterval, time.Millisecond))
	defer tick.Stop()
	for r.ticks(tick.C) && r.sweepPaced(r.due()) {
	}
}

// ticks waits for c. False means that the server stops, or has failed.
func (r *Replica) ticks(c <-chan time.Time) bool {
	select {
	case <-c:
		return true
	case <-r.stopping:
	case <-r.failed:
	}
	return false
}

// Sweep submits all deletions that are due, at once. The simulator calls it; a server
// has a goroutine that paces them.
func (r *Replica) Sweep() {
	s := sweeper{r}
	for _, path := range s.due() {
		s.delete(path)
	}
}

// due lists what is to be deleted; only a leader or a standalone server finds any.
func (r sweeper) due() (due []string) {
	if !r.serving.Load() || !r.decides.Load() {
		return nil
	}
	now := r.clock.UnixMilli()
	since := r.lockRead()
	r.tree.Expired(now, r.o.NeverUsed.Milliseconds(), func(path string) { due = append(due, path) })
	r.unlockRead(since)
	return due
}

// delete submits the server's own request to delete a container.
func (r sweeper) delete(path string) {
	r.Submit([]Request{{
		Request:  prep.Request{Op: wire.OpDeleteContainer, Body: []byte(path)},
		Received: r.Now(),
	}})
}

// sweepPaced submits the deletions at an even pace; false means that the server
// is stopping.
func (r sweeper) sweepPaced(due []string) bool {
	pause := time.Minute / time.Duration(max(r.o.SweepPerMinute, 1))
	for _, path := range due {
		r.delete(path)
		if !r.ticks(time.After(pause)) {
			return false
		}
	}
	return true
}

// purge removes old snapshots and logs by the clock.
func (r sweeper) purge() {
	tick := time.NewTicker(r.o.PurgeInterval)
	defer tick.Stop()
	for {
		keep := storage.Retention{Snapshots: r.o.PurgeRetain, Bytes: r.o.PurgeBytes}
		if r.o.PurgeAge > 0 {
			keep.NotBefore = time.Now().Add(-r.o.PurgeAge)
		}
		removed, err := r.o.Dir.Purge(keep)
		if err != nil {
			r.log.Error("purge of old files failed; it will be tried again", "err", err)
		} else if len(removed) > 0 {
			r.log.Info("old files purged", "files", removed)
		}
		if !r.ticks(tick.C) {
			return
		}
	}
}
