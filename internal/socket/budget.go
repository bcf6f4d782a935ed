package socket

import (
	"sync"
	"sync/atomic"
	"time"
)

// freeBytes is what every account may hold at any time: a connection that needs
// little never waits.
const freeBytes = 64 << 10

// Budget bounds the bytes that the buffers of many connections hold together. A
// connection has an Account, which is charged for input of unfinished frames, for
// output that the connection has not taken, and for what its owner reserves before
// it builds output.
//
// An account may grow to as many bytes as would then still be free. So a single
// greedy connection gets half of the budget and n of them 1/(n+1) each; the one
// that holds most is the first that has to wait, and always some budget is left
// for others. Beyond the limit are only what never waits: freeBytes for each
// connection, and what Charge is called for. It is safe for concurrent use.
type Budget struct {
	limit   int64
	used    atomic.Int64
	waiting atomic.Int32 // calls of Await that block

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when bytes are released while some wait
}

// NewBudget returns a budget of limit bytes. With limit 0 nothing ever waits.
func NewBudget(limit int) *Budget {
	return &Budget{limit: int64(limit), changed: make(chan struct{})}
}

// Used is how many bytes are charged.
func (b *Budget) Used() int64 { return b.used.Load() }

// Most is how much AwaitGrow gives one account: with more it would have to wait
// until others hold hardly anything.
func (b *Budget) Most() int { return int(b.limit / 3) }

// add charges n bytes, or releases them.
func (b *Budget) add(n int64) {
	b.used.Add(n)
	if n < 0 && b.waiting.Load() > 0 {
		b.mu.Lock()
		close(b.changed)
		b.changed = make(chan struct{})
		b.mu.Unlock()
	}
}

// Account is the share of one connection. Its methods but Await and Close are
// called with the lock of the connection's owner held, or by the only goroutine
// that uses them.
type Account struct {
	budget *Budget
	held   atomic.Int64
	closed chan struct{}
	once   sync.Once
}

// Init opens the account.
func (a *Account) Init(b *Budget) { a.budget, a.closed = b, make(chan struct{}) }

// Charge adds n bytes to what the account holds, or releases them if n is
// negative. It never waits and never fails.
func (a *Account) Charge(n int) {
	if n != 0 {
		a.held.Add(int64(n))
		a.budget.add(int64(n))
	}
}

// Grow charges n bytes if the account may hold them, and reports whether it may.
func (a *Account) Grow(n int) bool {
	b, more := a.budget, int64(n)
	for {
		used, held := b.used.Load(), a.held.Load()+more
		if b.limit > 0 && held > freeBytes && held > b.limit-used-more {
			return false
		}
		if b.used.CompareAndSwap(used, used+more) {
			a.held.Add(more)
			return true
		}
	}
}

// AwaitGrow is Grow that waits until the account may hold n bytes more, for at
// most patience. False means that it may not, that n is more than Most, or that
// the account is closed.
func (a *Account) AwaitGrow(n int, patience time.Duration) bool {
	if a.Grow(n) {
		return true
	}
	b := a.budget
	if n > b.Most() {
		return false
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	b.waiting.Add(1)
	defer b.waiting.Add(-1)
	for {
		b.mu.Lock()
		changed := b.changed
		b.mu.Unlock()
		if a.Grow(n) { // what was released before changed was read
			return true
		}
		select {
		case <-changed:
		case <-timer.C:
			return false
		case <-a.closed:
			return false
		}
	}
}

// Close ends calls of AwaitGrow. What the account holds stays charged until it is
// released. It may be called any number of times by any goroutine.
func (a *Account) Close() { a.once.Do(func() { close(a.closed) }) }

// Held is how many bytes the account holds.
func (a *Account) Held() int { return int(a.held.Load()) }
