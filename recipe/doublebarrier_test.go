package recipe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/inproc"
	"github.com/pinfold-zk/pinfold/zk"
)

// A party is a number of processes at one double barrier.
type party struct {
	t       *testing.T
	s       *inproc.Server
	clients []*client.Client
	members []*DoubleBarrier
}

func newParty(t *testing.T, s *inproc.Server, n int) *party {
	p := &party{t: t, s: s}
	for range n {
		c := s.Client(t)
		p.clients = append(p.clients, c)
		p.members = append(p.members, NewDoubleBarrier(c, "/app/double", n, DoubleBarrierOptions{}))
	}
	return p
}

// start runs f for the members from..to-1, and returns a channel of their ends.
func (p *party) start(from, to int, f func(b *DoubleBarrier) error) chan error {
	ends := make(chan error, to-from)
	for _, b := range p.members[from:to] {
		go func() { ends <- f(b) }()
	}
	synctest.Wait()
	return ends
}

func enter(b *DoubleBarrier) error { return b.Enter(context.Background()) }

func leave(b *DoubleBarrier) error { return b.Leave(context.Background()) }

// all waits for the ends of n.
func (p *party) all(ends chan error, n int) {
	p.t.Helper()
	for range n {
		must(p.t, <-ends)
	}
}

// none demands that nobody has come to an end.
func (p *party) none(ends chan error, when string) {
	p.t.Helper()
	synctest.Wait()
	select {
	case err := <-ends:
		p.t.Fatalf("passed early (%v) %s", err, when)
	default:
	}
}

func (p *party) disturb() {
	for _, f := range []func(){p.s.Cut, p.s.Restart} {
		f()
		time.Sleep(5 * time.Second) // clients connect again
		synctest.Wait()
	}
}

func TestDoubleBarrier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParty(t, inproc.Start(t), 5)
		for round := range 3 {
			ends := p.start(0, 4, enter)
			p.disturb()
			p.none(ends, fmt.Sprintf("in round %d", round))
			ends2 := p.start(4, 5, enter)
			p.all(ends, 4)
			p.all(ends2, 1)
			ends = p.start(1, 5, leave)
			p.disturb()
			p.none(ends, "before all had left")
			ends2 = p.start(0, 1, leave)
			p.all(ends, 4)
			p.all(ends2, 1)
			if names, _, err := p.clients[0].Children(context.Background(), "/app/double"); err != nil || len(names) != 0 {
				t.Errorf("after round %d there are %v, %v", round, names, err)
			}
		}
		wantErr(t, leave(p.members[0]), ErrNotEntered)
		alone := NewDoubleBarrier(p.clients[0], "/app/double", 1, DoubleBarrierOptions{})
		must(t, enter(alone))
		wantErr(t, enter(alone), ErrEntered)
		must(t, leave(alone))
	})
}

// Processes run through many rounds at their own pace; nobody is in a round while
// another is in the one before or behind.
func TestDoubleBarrierRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rounds, n = 15, 4
		p := newParty(t, inproc.Start(t), n)
		var entered, left [rounds]atomic.Int32
		done := make(chan struct{})
		var group sync.WaitGroup
		for i, b := range p.members {
			group.Go(func() {
				for r := range rounds {
					time.Sleep(time.Duration((i*7+r*3)%5) * 10 * time.Millisecond)
					if err := enter(b); err != nil {
						t.Error(err)
						return
					}
					entered[r].Add(1)
					if r > 0 && left[r-1].Load() != n {
						t.Errorf("round %d began when %d had left the one before", r, left[r-1].Load())
					}
					time.Sleep(time.Duration((i*3+r)%4) * 10 * time.Millisecond)
					if r+1 < rounds && entered[r+1].Load() != 0 {
						t.Errorf("round %d began during round %d", r+1, r)
					}
					left[r].Add(1)
					if err := leave(b); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		go func() {
			for {
				select {
				case <-done:
					return
				case <-time.After(70 * time.Millisecond):
					p.s.Cut()
				}
			}
		}()
		group.Wait()
		close(done)
	})
}

// Whoever dies inside keeps nobody waiting, wherever it stands, in the computation
// or on its way out.
func TestDoubleBarrierDeathInside(t *testing.T) {
	for _, leaving := range []bool{false, true} {
		for dead := range 4 {
			synctest.Test(t, func(t *testing.T) {
				p := newParty(t, inproc.Start(t), 4)
				for i := range 4 { // one after the other, so that they stand in this order
					p.start(i, i+1, enter)
				}
				last := (dead + 1) % 4
				var ends []chan error
				for i := range 4 {
					if i != last && i != dead {
						ends = append(ends, p.start(i, i+1, leave))
					}
				}
				var dying chan error
				if leaving {
					dying = p.start(dead, dead+1, leave)
				}
				p.s.Expire(p.clients[dead].SessionID())
				if leaving {
					if err := <-dying; !errors.Is(err, zk.ErrSessionExpired) {
						t.Errorf("the dead one: %v", err)
					}
				}
				for _, e := range ends {
					p.none(e, "with one inside")
				}
				for _, e := range append(ends, p.start(last, last+1, leave)) {
					must(t, <-e)
				}
			})
		}
	}
}

// A process that dies while it waits is not counted; neither is one whose context
// has ended.
func TestDoubleBarrierDeathBeforeEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParty(t, inproc.Start(t), 3)
		gone := p.start(0, 1, enter)
		p.s.Expire(p.clients[0].SessionID())
		if err := <-gone; !errors.Is(err, zk.ErrSessionExpired) {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := p.members[1].Enter(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		synctest.Wait()
		ends := p.start(1, 3, enter)
		p.none(ends, "with two of three")
		late := NewDoubleBarrier(p.s.Client(t), "/app/double", 3, DoubleBarrierOptions{})
		must(t, enter(late))
		p.all(ends, 2)
	})
}

// When all die inside, "ready" stays, and opens nothing.
func TestDoubleBarrierAllDie(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inproc.Start(t)
		p := newParty(t, s, 3)
		p.all(p.start(0, 3, enter), 3)
		for _, c := range p.clients {
			s.Expire(c.SessionID())
		}
		next := newParty(t, s, 3)
		ends := next.start(0, 2, enter)
		next.none(ends, "by the ready of those who died")
		last := next.start(2, 3, enter)
		next.all(ends, 2)
		next.all(last, 1)
		next.all(next.start(0, 3, leave), 3)
	})
}

// One who comes late joins if there are enough with it, and is waited for.
func TestDoubleBarrierLateComer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inproc.Start(t)
		p := newParty(t, s, 2)
		p.all(p.start(0, 2, enter), 2)
		late := NewDoubleBarrier(s.Client(t), "/app/double", 2, DoubleBarrierOptions{})
		must(t, enter(late))
		ends := p.start(0, 2, leave)
		p.none(ends, "with the one who came late inside")
		must(t, leave(late))
		p.all(ends, 2)
	})
}

func TestDoubleBarrierLostAnswers(t *testing.T) {
	for _, op := range []wire.OpCode{wire.OpCreate2, wire.OpGetData, wire.OpExists, wire.OpGetChildren, wire.OpMulti, wire.OpDelete, wire.OpSync} {
		for skip := range 5 {
			synctest.Test(t, func(t *testing.T) {
				p := newParty(t, inproc.Start(t), 3)
				p.s.LoseAnswer(op, skip)
				for range 2 {
					ends := p.start(0, 2, enter)
					p.none(ends, "with two of three")
					last := p.start(2, 3, enter)
					p.all(ends, 2)
					p.all(last, 1)
					ends = p.start(1, 3, leave)
					p.none(ends, "with one inside")
					last = p.start(0, 1, leave)
					p.all(ends, 2)
					p.all(last, 1)
				}
			})
		}
	}
}

// hooked is a client that does something when a transaction begins.
type hooked struct {
	Client
	hook func()
}

func (h hooked) Txn() *client.Txn {
	h.hook()
	return h.Client.Txn()
}

// One that dies when the last to come has just counted it is not counted.
func TestDoubleBarrierDeathWhileCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParty(t, inproc.Start(t), 2)
		gone := p.start(0, 1, enter)
		h := hooked{p.clients[1], func() { p.s.Expire(p.clients[0].SessionID()) }}
		p.members[1] = NewDoubleBarrier(h, "/app/double", 2, DoubleBarrierOptions{})
		ends := p.start(1, 2, enter)
		if err := <-gone; !errors.Is(err, zk.ErrSessionExpired) {
			t.Error(err)
		}
		p.none(ends, "with one of two")
		must(t, enter(NewDoubleBarrier(p.s.Client(t), "/app/double", 2, DoubleBarrierOptions{})))
		must(t, <-ends)
	})
}

// One whose session has ended inside does not wait for those of a later round.
func TestDoubleBarrierLeaveAfterExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inproc.Start(t)
		c := s.Client(t, client.NewSession())
		b := NewDoubleBarrier(c, "/double", 1, DoubleBarrierOptions{})
		must(t, enter(b))
		s.Expire(c.SessionID())
		time.Sleep(5 * time.Second)
		must(t, enter(NewDoubleBarrier(s.Client(t), "/double", 1, DoubleBarrierOptions{})))
		must(t, leave(b))
	})
}

// Processes stand in order over the wrap of their numbers.
func TestDoubleBarrierOrder(t *testing.T) {
	guid := newGUID()
	var want []string
	for _, number := range []string{"2147483646", "2147483647", "-2147483648", "-2147483647"} {
		want = append(want, processName(guid)+number)
	}
	names := []string{want[2], "ready", want[0], "p-x", "p-" + guid, want[3], "q" + want[0], want[1]}
	if got := inOrder(names); !slices.Equal(got, want) {
		t.Errorf("in order: %q", got)
	}
	if last := numberOf(want[3]); !after(last, numberOf(want[1])) || after(last, last) || after(numberOf(want[1]), last) {
		t.Error("after is wrong")
	}
}

// One whose session has ended while it waited to enter is told, although the client
// has another: it is not registered any more.
func TestDoubleBarrierEnterAfterExpiry(t *testing.T) {
	for _, others := range []int{0, 1, 2} {
		synctest.Test(t, func(t *testing.T) {
			s := inproc.Start(t)
			c := s.Client(t, client.NewSession())
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- NewDoubleBarrier(c, "/double", 2, DoubleBarrierOptions{}).Enter(ctx) }()
			synctest.Wait()
			s.Cut()
			s.Expire(c.SessionID())
			for range others {
				o := NewDoubleBarrier(s.Client(t), "/double", 2, DoubleBarrierOptions{})
				go o.Enter(ctx)
			}
			wantErr(t, <-ended, zk.ErrSessionExpired)
			cancel()
			settle()
		})
	}
}
