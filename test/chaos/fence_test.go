package chaos

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pinfold-zk/pinfold/recipe"
	"github.com/pinfold-zk/pinfold/zk"
)

// A resource is what a lock or a leadership protects: another system, which takes
// orders with fencing tokens and refuses those that are older than one it has
// seen. Two holders with one token, or a token that came before, would be a lock
// that two have.
type resource struct {
	label string

	mu       sync.Mutex // guards what follows
	newest   zk.Zxid
	granted  map[zk.Zxid]bool
	value    int // is read, and written one larger, by each holder, several times
	accepted int
	stale    int // refused
	bad      []string
}

func newResource(label string) *resource { return &resource{label: label, granted: map[zk.Zxid]bool{}} }

// grant notes that somebody holds a token.
func (r *resource) grant(token zk.Zxid) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.granted[token] {
		r.bad = append(r.bad, fmt.Sprintf("token %v was granted twice", token))
	}
	r.granted[token] = true
}

func (r *resource) read(token zk.Zxid) (value int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if token < r.newest {
		r.stale++
		return 0, false
	}
	r.newest = token
	return r.value, true
}

func (r *resource) write(token zk.Zxid, value int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if token < r.newest {
		r.stale++
		return false
	}
	r.newest, r.value = token, value
	r.accepted++
	return true
}

// use is a critical section: it reads, takes its time, and writes. held ends it.
func (r *resource) use(ctx context.Context, token zk.Zxid, lost <-chan struct{}) {
	r.grant(token)
	for range 3 {
		value, ok := r.read(token)
		pause(ctx, 3*time.Millisecond)
		if !ok || !r.write(token, value+1) {
			return
		}
		select {
		case <-lost:
			return
		default:
		}
	}
}

func (r *resource) check(w *world) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range r.bad {
		w.t.Errorf("%s: %s", r.label, b)
	}
	if r.value != r.accepted {
		w.t.Errorf("%s: %d writes were accepted, but the value is %d: two held it at a time", r.label, r.accepted, r.value)
	}
	w.t.Logf("%s: %d holders, %d orders of those who did not know of their loss were refused", r.label, len(r.granted), r.stale)
}

// locks take a lock in turn.
type locks struct {
	*resource
	done atomic.Int64
}

func (*locks) name() string                       { return "lock" }
func (k *locks) progress() int64                  { return k.done.Load() }
func (*locks) drain(context.Context, *life) error { return nil }

func (k *locks) work(ctx context.Context, l *life) error {
	lock := recipe.NewLock(l.c, "/lock")
	for {
		h, err := lock.Lock(ctx)
		if err != nil {
			return err
		}
		k.use(ctx, h.Token(), h.Lost())
		if err := h.Unlock(ctx); err != nil && !errors.Is(err, recipe.ErrLost) {
			return err
		}
		k.done.Add(1)
		pause(ctx, 10*time.Millisecond)
	}
}
