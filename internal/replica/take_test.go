package replica

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/zk"
)

// A snapshot that is asked for is durable, and has everything that was applied before.
func TestTakeSnapshot(t *testing.T) { synctest.Test(t, testTakeSnapshot) }

func testTakeSnapshot(t *testing.T) {
	m, _ := mustBoot(t, vfs.NewMem(), func(o *Options) { o.SnapCount = 1 << 20 })
	defer func() {
		if err := m.halt(); err != nil {
			t.Error(err)
		}
	}()
	op, body := createSession(30000)
	m.await(t, m.request(0, op, body))
	session := m.note.newSession()
	for round := range 3 {
		op, body = create(fmt.Sprintf("/%d", round), []byte("data"), zk.Persistent)
		m.await(t, m.request(session, op, body))
		before := m.rep.LastApplied()
		var all sync.WaitGroup
		for range 4 { // one snapshot serves those that wait together
			all.Go(func() {
				taken, err := m.rep.TakeSnapshot(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				if taken.Zxid < before {
					t.Errorf("the snapshot at %v lacks what was applied up to %v", taken.Zxid, before)
				}
				checkFile(t, m, taken)
			})
		}
		all.Wait()
	}
	m.rep.snap.cancel()
	if _, err := m.rep.TakeSnapshot(t.Context()); !errors.Is(err, errCanceled) {
		t.Errorf("in no role: %v", err)
	}
	m.rep.snap.allow()
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the client has gone")
	cancel(gone)
	if _, err := m.rep.TakeSnapshot(ctx); err != nil && !errors.Is(err, gone) {
		t.Errorf("without a client: %v", err)
	}
}

// A caller that waits for a snapshot is answered when the server leaves its role. After the
// end of the server it is answered at once.
func TestTakeSnapshotIsAnswered(t *testing.T) {
	for name, end := range map[string]func(*machine){
		"role":   func(m *machine) { m.rep.snap.hold() },
		"cancel": func(m *machine) { m.rep.snap.cancel() },
	} {
		m, _ := mustBoot(t, vfs.NewMem(), func(o *Options) { o.SnapCount = 1 << 20 })
		running := &snapshotTask{} // does not end by itself
		m.rep.snap.mu.Lock()
		m.rep.snap.mu.task = running
		m.rep.snap.mu.Unlock()
		answer := make(chan taken, 1)
		if err := m.rep.snap.want(answer); err != nil {
			t.Fatal(err)
		}
		end(m)
		if got := <-answer; !errors.Is(got.err, errCanceled) {
			t.Errorf("%s: %v", name, got.err)
		}
		if err := m.halt(); err != nil {
			t.Error(err)
		}
		if _, err := m.rep.TakeSnapshot(t.Context()); !errors.Is(err, errStopping) {
			t.Errorf("%s: after the end: %v", name, err)
		}
	}
}

// checkFile reads a snapshot's file, and loads it.
func checkFile(t *testing.T, m *machine, of storage.Snapshot) {
	t.Helper()
	file, bytes, err := m.dir.OpenFile(of)
	if err != nil {
		t.Error(err)
		return
	}
	n, err := io.Copy(io.Discard, file)
	if err != nil || n != bytes {
		t.Errorf("%d bytes of %d, %v", n, bytes, err)
	}
	if err := file.Close(); err != nil {
		t.Error(err)
	}
	if _, err := loadSnapshot(m.dir, of, testTree, 1<<20, false); err != nil {
		t.Error(err)
	}
}

// A snapshot that is being written when one is asked for is not the answer: it may lack
// what was applied since it began.
func TestTakeSnapshotFollowsTheRunningOne(t *testing.T) {
	m, _ := mustBoot(t, vfs.NewMem(), func(o *Options) { o.SnapCount = 1 << 20 })
	running := &snapshotTask{}
	p := &m.rep.snap
	p.mu.Lock()
	p.mu.task = running
	p.mu.Unlock()
	answer := make(chan taken, 1)
	if err := p.want(answer); err != nil {
		t.Fatal(err)
	}
	if len(running.wanted) > 0 {
		t.Fatal("the running snapshot answers")
	}
	p.start(p.finished(running))
	if got := <-answer; got.err != nil || got.snapshot.Name == "" {
		t.Errorf("%+v", got)
	}
	if err := m.halt(); err != nil {
		t.Error(err)
	}
}
