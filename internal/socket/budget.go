package socket

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// FreeBytes is what an account usually may hold at any time, so that a connection that
// needs little never waits.
const FreeBytes = 64 << 10

// Budget bounds the bytes that the buffers of many connections hold together. Each
// connection has an Account, which is charged for input of unfinished frames, for
// output that the peer has not read, and for room that its owner reserves before it
// builds output.
//
// An account may grow as long as what it holds is no more than what is then still free.
// So one greedy connection gets at most half of the budget, and n of them 1/(n+1) each.
// The connection that holds most is the first to wait, and some budget always remains
// for others. Only two things may exceed the limit: the free bytes of each account, and
// bytes charged by Charge, which never waits. A Budget is safe for concurrent use.
type Budget struct {
	limit   int64
	used    atomic.Int64
	waiting atomic.Int32 // calls of AwaitGrow that block, or are about to

	mu    sync.Mutex
	queue []*waiter // calls of AwaitGrow that block, the oldest first
}

// waiter is a call of AwaitGrow that blocks.
type waiter struct {
	account *Account
	n       int
	granted chan struct{} // closed when the bytes are charged
}

// NewBudget returns a budget of limit bytes. With limit 0 nothing ever waits.
func NewBudget(limit int) *Budget {
	return &Budget{limit: int64(limit)}
}

// Used returns how many bytes are charged.
func (b *Budget) Used() int64 { return b.used.Load() }

// Most is the most that AwaitGrow grants to one account. For more it would have to wait
// until the other accounts hold hardly anything.
func (b *Budget) Most() int { return int(b.limit / 3) }

// add charges n bytes, or releases them.
func (b *Budget) add(n int64) {
	b.used.Add(n)
	if n < 0 && b.waiting.Load() > 0 {
		b.admit()
	}
}

// admit charges the bytes of the waiters whose accounts may hold them now, the oldest
// first, and wakes these waiters alone.
func (b *Budget) admit() {
	b.mu.Lock()
	defer b.mu.Unlock()
	left := b.queue[:0]
	for i, w := range b.queue {
		if b.used.Load() >= b.limit {
			left = append(left, b.queue[i:]...)
			break
		}
		if w.account.Grow(w.n) {
			close(w.granted)
			b.waiting.Add(-1)
		} else {
			left = append(left, w)
		}
	}
	clear(b.queue[len(left):])
	b.queue = left
}

// enqueue adds a waiter, unless its account may hold the bytes now.
func (b *Budget) enqueue(w *waiter) (granted bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting.Add(1) // first: a release after Grow must see it
	if w.account.Grow(w.n) {
		b.waiting.Add(-1)
		return true
	}
	b.queue = append(b.queue, w)
	return false
}

// leave removes a waiter that gives up. It reports whether its bytes were charged
// meanwhile.
func (b *Budget) leave(w *waiter) (granted bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.queue, w)
	if i < 0 {
		return true
	}
	b.queue = slices.Delete(b.queue, i, i+1)
	b.waiting.Add(-1)
	return false
}

// Account is the share of one connection. Its methods except AwaitGrow and Close are
// called with the lock of the connection's owner held, or by the only goroutine that
// uses them.
type Account struct {
	budget *Budget
	held   atomic.Int64
	closed atomic.Pointer[chan struct{}] // made by the first call of Closed: few connections ever wait
	free   int32
}

// ended is the channel, which is closed, of the accounts that are closed.
var ended = func() *chan struct{} {
	c := make(chan struct{})
	close(c)
	return &c
}()

// Init opens the account, which may always hold free bytes.
func (a *Account) Init(b *Budget, free int) {
	a.budget, a.free = b, int32(free)
}

// Charge adds n bytes to those that the account holds, or releases them if n is
// negative. It never waits and never fails.
func (a *Account) Charge(n int) {
	if n != 0 {
		a.held.Add(int64(n))
		a.budget.add(int64(n))
	}
}

// Grow charges n bytes if the account may hold them, and reports whether it has.
func (a *Account) Grow(n int) bool {
	b, more := a.budget, int64(n)
	for {
		used := b.used.Load()
		if !a.mayHold(more, used) {
			return false
		}
		if b.used.CompareAndSwap(used, used+more) {
			a.held.Add(more)
			return true
		}
	}
}

// CanGrow reports whether Grow would charge n bytes, which may be 0.
func (a *Account) CanGrow(n int) bool { return a.mayHold(int64(n), a.budget.used.Load()) }

// mayHold reports whether the account may hold more while used is charged to the budget.
func (a *Account) mayHold(more, used int64) bool {
	held, limit := a.held.Load()+more, a.budget.limit
	return held <= int64(a.free) || limit == 0 || held <= limit-used-more
}

// Room returns how many bytes Grow would charge now, most at most.
func (a *Account) Room(most int) int {
	b := a.budget
	if b.limit == 0 {
		return most
	}
	held := a.held.Load()
	return int(max(0, min(int64(most), max(int64(a.free)-held, (b.limit-b.used.Load()-held)/2))))
}

// Forever is the patience of a caller that waits until the account is closed.
const Forever = time.Duration(math.MaxInt64)

// AwaitGrow is Grow that waits, for at most patience, until the account may hold n more
// bytes. The callers that have waited longest come first. It returns false if that does
// not happen, if n is more than Most, or if the account is closed.
func (a *Account) AwaitGrow(n int, patience time.Duration) bool {
	if a.Grow(n) {
		return true
	}
	b := a.budget
	if n > b.Most() {
		return false
	}
	var expired <-chan time.Time
	if patience < Forever {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		expired = timer.C
	}
	w := &waiter{a, n, make(chan struct{})}
	if b.enqueue(w) {
		return true
	}
	select {
	case <-w.granted:
		return true
	case <-expired:
	case <-a.Closed():
	}
	return b.leave(w)
}

// Close ends calls of AwaitGrow. What the account holds remains charged until it is
// released. Any goroutine may call it any number of times.
func (a *Account) Close() {
	if c := a.closed.Swap(ended); c != nil && c != ended {
		close(*c)
	}
}

// Closed is closed by Close. Any goroutine may call it.
func (a *Account) Closed() <-chan struct{} {
	if c := a.closed.Load(); c != nil {
		return *c
	}
	c := make(chan struct{})
	if a.closed.CompareAndSwap(nil, &c) {
		return c
	}
	return *a.closed.Load()
}

// Held returns how many bytes the account holds.
func (a *Account) Held() int { return int(a.held.Load()) }
