package recipemodel

import (
	"context"
	"sync"
	"time"

	"github.com/pinfold-zk/pinfold/zk"
)

// A holding is what somebody has that others may not have, or not all.
type holding struct {
	l       *life
	token   zk.Zxid
	session zk.SessionID
	lost    <-chan struct{}
	shared  bool
	late    bool // lost may be closed late when the session ends by itself
	since   time.Time
	taken   func() bool // reports whether somebody may have taken it away; nil if nobody does
}

// sound reports whether h must be sure of what it has.
func (h *holding) sound() bool {
	select {
	case <-h.lost:
		return false
	default:
	}
	return !(h.taken != nil && h.taken()) && !h.l.forced(h.session) && !(h.late && h.l.endangered(h.since))
}

// An arena is what is held: it sees who has it at the same time, directly, and
// serves as a resource that refuses tokens older than one it has seen.
type arena struct {
	w     *world
	label string
	room  int // how many may share it; 0 is any number of those who share

	mu       sync.Mutex // guards what follows
	holders  map[*holding]struct{}
	tokens   map[zk.Zxid]*life
	newest   [2]zk.Zxid // token of all, and of those who do not share
	seen     zk.Zxid    // the newest that has written
	value    int        // is read, and written one larger
	accepted int
	count    int64
}

func newArena(w *world, label string) *arena {
	return &arena{w: w, label: label, holders: map[*holding]struct{}{}, tokens: map[zk.Zxid]*life{}}
}

func (a *arena) name() string { return a.label }

func (a *arena) done() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count
}

// enter notes that somebody has it, who must not have it beside those who have
// and are sure of it. Others of the same owner that have the same token are one.
func (a *arena) enter(h *holding) {
	h.since = time.Now()
	a.mu.Lock()
	var beside []*holding
	for o := range a.holders {
		if !(o.shared && h.shared) && !(o.l == h.l && o.token == h.token) {
			beside = append(beside, o)
		}
	}
	a.holders[h] = struct{}{}
	owner, again := a.tokens[h.token]
	a.tokens[h.token] = h.l
	before := a.newest[0]
	if h.shared {
		before = a.newest[1]
	}
	a.newest[0] = max(a.newest[0], h.token)
	if !h.shared {
		a.newest[1] = max(a.newest[1], h.token)
	}
	a.count++
	a.mu.Unlock()
	a.w.logf("%s: client %d has it by %v, shared %v", a.label, h.l.n, h.token, h.shared)
	if again && owner != h.l {
		a.w.errorf("%s: clients %d and %d have the token %v", a.label, owner.n, h.l.n, h.token)
	}
	if len(beside) == 0 && h.token >= before {
		return
	}
	a.w.instant()
	if !h.sound() {
		return
	}
	if h.token < before {
		a.w.errorf("%s: client %d has it by %v after somebody had it by %v", a.label, h.l.n, h.token, before)
	}
	sure := 0
	for _, o := range beside {
		if o.sound() {
			sure++
			if a.room == 0 {
				a.w.errorf("%s: client %d has it by %v, while client %d has it by %v since %v",
					a.label, h.l.n, h.token, o.l.n, o.token, o.since.Sub(a.w.began))
			}
		}
	}
	if a.room > 0 && sure >= a.room {
		a.w.errorf("%s: client %d has it beside %d others", a.label, h.l.n, sure)
	}
}

// leave notes that h gives it back from now on.
func (a *arena) leave(h *holding) {
	a.mu.Lock()
	delete(a.holders, h)
	a.mu.Unlock()
	a.w.logf("%s: client %d gives %v back", a.label, h.l.n, h.token)
}

// use is a critical section at the resource.
func (a *arena) use(ctx context.Context, h *holding) {
	for range 1 + h.l.roll(3) {
		value, ok := a.read(h.token)
		wait(ctx, time.Duration(h.l.roll(4000))*time.Microsecond)
		if !ok || !a.write(h.token, value+1) {
			return
		}
	}
}

func (a *arena) read(token zk.Zxid) (int, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if token < a.seen {
		return 0, false
	}
	a.seen = token
	return a.value, true
}

func (a *arena) write(token zk.Zxid, value int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if token < a.seen {
		return false
	}
	a.seen, a.value = token, value
	a.accepted++
	return true
}

func (a *arena) check() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.value != a.accepted {
		a.w.errorf("%s: %d writes were accepted, but the value is %d: two had it at a time", a.label, a.accepted, a.value)
	}
}
