package replica

import (
	"context"

	"github.com/pinfold-zk/pinfold/internal/storage"
)

// taken is the outcome of a task that TakeSnapshot waits for. The channel that it is sent
// on has room for it.
type taken struct {
	snapshot storage.Snapshot
	err      error
}

// TakeSnapshot writes a snapshot of the tree, beside everything else that the server does,
// and waits until it is durable. The snapshot has every transaction that was applied
// before the call; those that are applied meanwhile may be in it. If a snapshot is being
// written already, the new one follows it, and one snapshot serves all calls that wait
// for it.
//
// The error is that of ctx, or says why no snapshot was written: the server stops, is not
// in a role in which it may, or cannot write. If ctx ends first, the snapshot is written
// all the same.
func (r *Replica) TakeSnapshot(ctx context.Context) (storage.Snapshot, error) {
	answer := make(chan taken, 1)
	if err := r.snap.want(answer); err != nil {
		return storage.Snapshot{}, err
	}
	select {
	case t := <-answer:
		return t.snapshot, t.err
	case <-ctx.Done():
		return storage.Snapshot{}, context.Cause(ctx)
	case <-r.stopping:
	case <-r.failed:
	}
	return storage.Snapshot{}, errStopping
}

// want has the next task answer, and starts it unless another one runs.
func (p *snapshots) want(answer chan<- taken) error {
	p.mu.Lock()
	switch {
	case p.Stopping():
		p.mu.Unlock()
		return errStopping
	case p.mu.held:
		p.mu.Unlock()
		return errCanceled
	}
	p.mu.wanted = append(p.mu.wanted, answer)
	var t *snapshotTask
	if p.mu.task == nil {
		t = p.newTask()
	}
	p.mu.Unlock()
	p.start(t)
	return nil
}

// refuseLocked answers the calls for which no task was made: none is made until the
// server has another role. REQUIRES: p.mu.
func (p *snapshots) refuseLocked() {
	for _, answer := range p.mu.wanted {
		answer <- taken{err: errCanceled}
	}
	p.mu.wanted = nil
}

// answer tells the callers of TakeSnapshot that the task has ended. REQUIRES: t.mu.
func (t *snapshotTask) answer(err error) {
	done := taken{err: err}
	if err == nil {
		done.snapshot = t.job.w.Snapshot()
	}
	for _, answer := range t.wanted {
		answer <- done
	}
	t.wanted = nil
}
