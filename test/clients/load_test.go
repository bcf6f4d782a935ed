package clients

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// registers are the znodes that fifo writes, in turn.
const registers = 10

// A setDone is how a numbered set ended.
type setDone struct {
	version int32 // that it made
	err     error
}

// setLog is the ends of all sets, in order.
type setLog struct {
	mu    sync.Mutex
	sets  []setDone
	acked int
}

func (l *setLog) add(t *testing.T, i int, stat zk.Stat, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.sets) != i {
		t.Errorf("set %d is answered after %d others", i, len(l.sets))
	}
	l.sets = append(l.sets, setDone{stat.Version, err})
	if err == nil {
		l.acked++
	}
}

func (l *setLog) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.sets)
}

// progress waits until a set succeeds that was started after it was called, and more others. So the
// connection works that followed the one that was cut before the call: what is lost with each is a
// run of its own.
func (l *setLog) progress(ctx context.Context, t *testing.T, started *atomic.Int64, more int) {
	t.Helper()
	target := int(started.Load()) + more
	for {
		l.mu.Lock()
		n := len(l.sets)
		reached := n > target && l.sets[n-1].err == nil
		l.mu.Unlock()
		if reached {
			return
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("no progress: %d of %d", n, target)
		}
	}
}

// fifo has a client start numbered sets as fast as it may, on all registers in
// turn, while its connection is cut and a server killed. Completions come in
// order. Of the sets that were lost with a connection, those that took effect are
// the first: the versions of the registers show it.
func fifo(t *testing.T, e *Env) {
	ctx := e.Context()
	c := e.Client()
	for r := range registers {
		_, err := c.Create(ctx, fmt.Sprint("/", r), nil, zk.Persistent, nil)
		must(t, err)
	}
	log := &setLog{}
	stop, cancel := context.WithCancel(ctx)
	var writer sync.WaitGroup
	var started atomic.Int64
	writer.Go(func() {
		for i := 0; stop.Err() == nil; i++ {
			started.Store(int64(i))
			c.SetAsync(ctx, fmt.Sprint("/", i%registers), fmt.Append(nil, i), -1, func(stat zk.Stat, err error) {
				log.add(t, i, stat, err)
			})
		}
	})
	defer writer.Wait()
	defer cancel()
	for range 5 {
		log.progress(ctx, t, &started, 500)
		e.Cut(c)
	}
	log.progress(ctx, t, &started, 500)
	from := log.count()
	e.Restart()
	log.progress(ctx, t, &started, 500)
	to := log.count()
	e.Cut(c)
	log.progress(ctx, t, &started, 500)
	cancel()
	writer.Wait()
	last := make(chan error)
	c.SyncAsync(ctx, "/", func(err error) { last <- err })
	must(t, <-last)
	log.check(t, from, to)
	for r := range registers {
		data, stat, err := c.Get(ctx, fmt.Sprint("/", r))
		must(t, err)
		i := len(log.sets) - 1
		for i%registers != r {
			i--
		}
		if string(data) != fmt.Sprint(i) || stat.Version != log.sets[i].version {
			t.Errorf("register %d is %s in version %d; the last set, %d, made %d", r, data, stat.Version, i, log.sets[i].version)
		}
	}
}

// check goes through the runs of sets that were lost. Those that a restart met
// may have been lost with more than one connection: of them only the number is
// looked at.
func (l *setLog) check(t *testing.T, restarted, served int) {
	t.Helper()
	var versions [registers]int32
	runs := 0
	for i := 0; i < len(l.sets); {
		r := i % registers
		if s := l.sets[i]; s.err == nil {
			if s.version != versions[r]+1 {
				t.Errorf("set %d makes version %d after %d", i, s.version, versions[r])
			}
			versions[r] = s.version
			i++
			continue
		}
		end := i
		var lost []int // that may have been carried out
		for ; end < len(l.sets) && l.sets[end].err != nil; end++ {
			var x *client.Error
			if !errors.As(l.sets[end].err, &x) || !errors.Is(x, zk.ErrConnectionLoss) {
				t.Fatalf("set %d: %v", end, l.sets[end].err)
			}
			if x.Maybe {
				lost = append(lost, end)
			}
		}
		if end+registers > len(l.sets) {
			t.Fatalf("sets %d to %d of %d are lost, and too few follow", i, end, len(l.sets))
		}
		one := end <= restarted || i >= served
		versions = l.run(t, versions, lost, end, one)
		i = end
		runs++
	}
	t.Logf("%d sets, %d acknowledged, %d runs lost", len(l.sets), l.acked, runs)
	if runs == 0 {
		t.Error("nothing was lost: the test has not tested anything")
	}
}

// run looks at the sets that may have been carried out, from the versions before
// them to those of the sets from end on, which all succeeded. It returns the
// versions that they left.
func (l *setLog) run(t *testing.T, before [registers]int32, lost []int, end int, one bool) (after [registers]int32) {
	t.Helper()
	var took [registers]int32
	total := 0
	for i := end; i < end+registers; i++ {
		r := i % registers
		if l.sets[i].err != nil {
			t.Fatalf("set %d is lost too soon after others", i)
		}
		after[r] = l.sets[i].version - 1
		took[r] = after[r] - before[r]
		total += int(took[r])
	}
	if total > len(lost) {
		t.Errorf("%d sets took effect of %d that were lost before %d", total, len(lost), end)
		return after
	}
	var first [registers]int32
	for _, i := range lost[:total] {
		first[i%registers]++
	}
	if one && first != took {
		t.Errorf("of %d sets lost before %d, %d took effect, and not the first: %v, want %v", len(lost), end, total, took, first)
	}
	return after
}
