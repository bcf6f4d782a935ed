package socket

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func account(b *Budget) *Account {
	a := new(Account)
	a.Init(b, FreeBytes)
	return a
}

// Greedy accounts settle at equal shares and leave one for those who come later;
// an account that needs little never waits.
func TestBudgetIsShared(t *testing.T) {
	const limit, step = 16 << 20, 16 << 10
	for n := 1; n <= 9; n++ {
		b := NewBudget(limit)
		accounts := make([]*Account, n)
		for i := range accounts {
			accounts[i] = account(b)
		}
		for grew := true; grew; {
			grew = false
			for _, a := range accounts {
				grew = a.Grow(step) || grew
			}
		}
		share := limit / (n + 1)
		for i, a := range accounts {
			if h := a.Held(); h < share-2*n*step || h > share+2*n*step {
				t.Errorf("account %d of %d holds %d, want about %d", i, n, h, share)
			}
		}
		if modest := account(b); !modest.Grow(FreeBytes) {
			t.Error("an account that needs little has to wait")
		}
		if late := account(b); !late.Grow(share / 4) {
			t.Errorf("after %d greedy accounts nothing is left for another", n)
		}
	}
}

// The account that holds more waits first, and goes on when another has released.
func TestBudgetGreediestWaitsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 1 << 20
		b := NewBudget(limit)
		greedy, other := account(b), account(b)
		greedy.Charge(500 << 10)
		if greedy.Grow(100<<10) || !other.Grow(200<<10) {
			t.Fatal("the greediest must wait, the other need not")
		}
		done := make(chan bool, 1)
		go func() { done <- greedy.AwaitGrow(10<<10, time.Minute) }()
		synctest.Wait()
		if len(done) > 0 {
			t.Fatal("it did not wait")
		}
		other.Charge(-200 << 10)
		synctest.Wait()
		if len(done) != 1 || !<-done {
			t.Error("it did not go on when there was room")
		}
		greedy.Charge(-greedy.Held())
		if b.Used() != 0 {
			t.Errorf("%d bytes are charged at the end", b.Used())
		}
	})
}

// Waiting ends after its patience, with Close, and at once for what never fits.
func TestBudgetWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(1 << 20)
		full, a := account(b), account(b)
		full.Charge(1 << 20)
		began := time.Now()
		if a.AwaitGrow(400<<10, time.Second) || time.Since(began) != 0 {
			t.Errorf("more than Most: waited %v", time.Since(began))
		}
		if a.AwaitGrow(100<<10, time.Second) || time.Since(began) != time.Second {
			t.Errorf("waited %v", time.Since(began))
		}
		done := make(chan bool)
		go func() { done <- a.AwaitGrow(100<<10, time.Hour) }()
		synctest.Wait()
		a.Close()
		if <-done || time.Since(began) != time.Second {
			t.Error("Close did not end the wait")
		}
		if without := account(NewBudget(0)); !without.Grow(1 << 40) {
			t.Error("a budget of 0 has a limit")
		}
	})
}

// A release wakes the waiters that fit, the oldest first, and no others.
func TestBudgetWakesWhoFits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const waiters, size = 50, 100 << 10
		b := NewBudget(1 << 20)
		full := account(b)
		full.Charge(1 << 20)
		var granted []int
		var mu sync.Mutex
		for i := range waiters {
			a := account(b)
			go func() {
				if a.AwaitGrow(size, time.Hour) {
					mu.Lock()
					granted = append(granted, i)
					mu.Unlock()
				}
			}()
			synctest.Wait()
		}
		for want := range 3 {
			full.Charge(-2 * size)
			synctest.Wait()
			if len(granted) != want+1 || granted[want] != want {
				t.Errorf("after %d releases the waiters %v have gone on", want+1, granted)
			}
			full.Charge(size)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if b.Used() != int64(full.Held()+len(granted)*size) || len(b.queue) != 0 || b.waiting.Load() != 0 {
			t.Errorf("%d bytes are charged, %d wait", b.Used(), len(b.queue))
		}
	})
}

// Many goroutines never exceed the limit by Grow, and nothing stays charged.
func TestBudgetHolds(t *testing.T) {
	b := NewBudget(4 << 20)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			a := account(b)
			for i := range 2000 {
				if a.Grow(FreeBytes + i*100) {
					if used := b.Used(); used > 4<<20+8*FreeBytes {
						t.Errorf("%d bytes are charged", used)
						return
					}
				} else {
					a.Charge(-a.Held())
				}
			}
			a.Charge(-a.Held())
		})
	}
	group.Wait()
	if b.Used() != 0 {
		t.Errorf("%d bytes stay charged", b.Used())
	}
}

// Closed is one channel for all callers, and is closed by Close, whichever comes first.
func TestClosed(t *testing.T) {
	for range 1000 {
		var a Account
		a.Init(NewBudget(1), 0)
		var waiters sync.WaitGroup
		for range 3 {
			waiters.Go(func() { <-a.Closed() })
		}
		waiters.Go(a.Close)
		waiters.Go(a.Close)
		waiters.Wait()
		a.Close()
		<-a.Closed()
	}
}
