package recipe

import (
	"context"
	"errors"
	"math/rand/v2"
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

func TestRWLockOrder(t *testing.T) {
	for _, names := range []NodeNames{CuratorNames, KazooNames, ZooKeeperNames} {
		synctest.Test(t, func(t *testing.T) {
			ctx := context.Background()
			s := inproc.Start(t)
			l := func() *RWLock { return NewRWLock(s.Client(t), "/a/lock", UseNames(names)) }
			line := []*pending{
				begin(ctx, l().RLock), begin(ctx, l().RLock), // read at once
				begin(ctx, l().Lock),                         // waits for both
				begin(ctx, l().RLock), begin(ctx, l().RLock), // do not overtake it
				begin(ctx, l().Lock),
			}
			have := func(want ...bool) {
				t.Helper()
				for i, p := range line {
					if closed(p.done) != want[i] || p.err != nil {
						t.Fatalf("%d has it: %v, want %v; %v", i, !want[i], want[i], p.err)
					}
				}
				list, err := l().Contenders(ctx)
				if err != nil {
					t.Fatal(err)
				}
				for _, who := range list {
					i := 0
					for line[i].held == nil || line[i].held.Token() != who.Token {
						if i++; i == len(line) {
							break
						}
					}
					if who.Holds != (i < len(line)) {
						t.Errorf("%+v", who)
					}
				}
			}
			have(true, true, false, false, false, false)
			if _, err := l().TryRLock(ctx); !errors.Is(err, ErrHeld) {
				t.Error("a reader overtakes a writer that waits: ", err)
			}
			mustUnlock(t, line[1].held)
			have(true, true, false, false, false, false)
			mustUnlock(t, line[0].held)
			have(true, true, true, false, false, false)
			mustUnlock(t, line[2].held)
			have(true, true, true, true, true, false)
			mustUnlock(t, line[3].held)
			mustUnlock(t, line[4].held)
			have(true, true, true, true, true, true)
			if _, err := l().TryLock(ctx); !errors.Is(err, ErrHeld) {
				t.Error(err)
			}
			mustUnlock(t, line[5].held)
			h, err := l().TryRLock(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if both, err := l().TryRLock(ctx); err != nil {
				t.Error(err)
			} else {
				mustUnlock(t, both)
			}
			mustUnlock(t, h)
		})
	}
}

// Readers and writers that lose their connections, and answers.
func TestRWLockExcludes(t *testing.T) {
	const clients, rounds = 8, 8
	synctest.Test(t, func(t *testing.T) {
		s := inproc.Start(t)
		var readers, writers, entered, together atomic.Int32
		var written atomic.Int64
		var group sync.WaitGroup
		for i := range clients {
			c := s.Client(t, client.SessionTimeout(20*time.Second))
			group.Go(func() {
				l := NewRWLock(c, "/a/lock")
				for range rounds {
					lock, mine, others := l.Lock, &writers, &readers
					if i%4 != 0 {
						lock, mine, others = l.RLock, &readers, &writers
					}
					h, err := lock(context.Background())
					if err != nil {
						t.Error(err)
						return
					}
					n := mine.Add(1)
					if others.Load() != 0 || n > 1 && mine == &writers {
						t.Errorf("%d readers and %d writers are inside", readers.Load(), writers.Load())
					}
					if mine == &writers && written.Swap(int64(h.Token())) > int64(h.Token()) || written.Load() > int64(h.Token()) {
						t.Error("a writer had a larger token before")
					}
					if n > 1 {
						together.Add(1)
					}
					time.Sleep(10 * time.Millisecond)
					mine.Add(-1)
					entered.Add(1)
					if err := h.Unlock(context.Background()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		random := rand.New(rand.NewPCG(3, 4))
		ops := []wire.OpCode{wire.OpCreate2, wire.OpDelete, wire.OpGetData, wire.OpGetChildren2}
		for entered.Load() < clients*rounds && !t.Failed() {
			time.Sleep(time.Duration(random.IntN(60)) * time.Millisecond)
			if random.IntN(8) == 0 {
				s.Restart()
			} else {
				s.LoseAnswer(ops[random.IntN(len(ops))], random.IntN(3))
			}
		}
		group.Wait()
		if together.Load() == 0 || s.Lost() == 0 {
			t.Errorf("%d read together, %d answers lost", together.Load(), s.Lost())
		}
		if names := left(t, s.Client(t)); len(names) > 0 {
			t.Errorf("%q stay", names)
		}
	})
}

func TestReentrantRWLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := inproc.Start(t)
		l, other := NewRWLock(s.Client(t), "/a/lock", Reentrant()), NewRWLock(s.Client(t), "/a/lock")
		w := mustLock(t, l)
		r, err := l.RLock(ctx)
		if err != nil || r.Token() != w.Token() {
			t.Fatal(err)
		}
		waiting := begin(ctx, other.RLock)
		mustUnlock(t, w)
		if closed(waiting.done) {
			t.Error("a reader of the writer's does not keep others out")
		}
		mustUnlock(t, r)
		<-waiting.done
		r1, err1 := l.RLock(ctx)
		writer := begin(ctx, other.Lock)
		r2, err2 := l.RLock(ctx)
		if err1 != nil || err2 != nil || r1.Token() != r2.Token() {
			t.Fatal(err1, err2)
		}
		if _, err := l.Lock(ctx); !errors.Is(err, ErrUpgrade) {
			t.Error(err)
		}
		mustUnlock(t, r1)
		mustUnlock(t, waiting.held)
		if closed(writer.done) {
			t.Error("a reader that holds twice let go with the first Unlock")
		}
		mustUnlock(t, r2)
		<-writer.done
		mustUnlock(t, writer.held)
	})
}

// No reader is woken by a reader, and a writer by the one before it alone.
func TestRWLockNoHerd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := inproc.Start(t)
		var reads, writes atomic.Int32
		c := func() Client { return counting{s.Client(t), &reads, &writes} }
		var line []*pending
		for range 5 {
			line = append(line, begin(ctx, NewRWLock(c(), "/a/lock").RLock))
		}
		for range 5 {
			line = append(line, begin(ctx, NewRWLock(c(), "/a/lock").Lock))
		}
		for i, want := range []int32{0, 0, 0, 0, 1, 1, 1} {
			reads.Store(0)
			mustUnlock(t, line[i].held)
			synctest.Wait()
			if n := reads.Load(); n != want {
				t.Errorf("release %d made %d reads, want %d", i, n, want)
			}
		}
	})
}

func TestRevoke(t *testing.T) {
	for _, word := range []string{"unlock", "__REVOKE__"} {
		synctest.Test(t, func(t *testing.T) {
			ctx := context.Background()
			s := inproc.Start(t)
			l := func() *RevocableLock {
				return NewRevocableLock(s.Client(t), "/a/lock", HolderData([]byte("me")))
			}
			reader := begin(ctx, l().RLock)
			writer, behind := begin(ctx, l().Lock), begin(ctx, l().Lock)
			list, err := l().Contenders(ctx)
			if err != nil || len(list) != 3 || !list[0].Holds || !list[0].Shared || string(list[0].Data) != "me" {
				t.Fatal(list, err)
			}
			op := s.Client(t)
			say := func(path, what string) {
				if _, err := op.Set(ctx, path, []byte(what), -1); err != nil {
					t.Fatal(err)
				}
			}
			say(reader.held.Path(), "something else")
			if closed(reader.held.Revoked()) || closed(writer.done) {
				t.Fatal("any word revokes")
			}
			s.Restart() // the watch outlives it
			time.Sleep(2 * time.Second)
			say(reader.held.Path(), word)
			if !closed(reader.held.Revoked()) || closed(reader.held.Lost()) {
				t.Error("the holder was not asked, or has lost it")
			}
			say("/a/lock/"+list[1].Name, word)
			if <-writer.done; !errors.Is(writer.err, ErrRevoked) || closed(behind.done) {
				t.Error("who waits: ", writer.err)
			}
			mustUnlock(t, reader.held)
			<-behind.done
			if err := l().Revoke(ctx, list[0]); err != nil {
				t.Error("who is gone: ", err)
			}
			if err := l().Revoke(ctx, Contender{Name: "x"}); err == nil {
				t.Error("anything is written to")
			}
			mustUnlock(t, behind.held)
		})
	}
}

// The holder of a lock that cannot be revoked is not asked.
func TestRevokeOfALock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := inproc.Start(t).Client(t)
		h := mustLock(t, NewLock(c, "/a/lock"))
		if err := NewRevocableLock(c, "/a/lock").Revoke(context.Background(), Contender{Name: h.Path()[len("/a/lock/"):]}); err != nil {
			t.Fatal(err)
		}
		if closed(h.Revoked()) || closed(h.Lost()) {
			t.Error("it heeds it")
		}
		mustUnlock(t, h)
	})
}

func TestRevokeWithin(t *testing.T) {
	for _, op := range []wire.OpCode{0, wire.OpSetData, wire.OpGetData, wire.OpDelete} {
		for _, polite := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				ctx := context.Background()
				s := inproc.Start(t)
				holder := s.Client(t)
				h := mustLock(t, NewRevocableLock(holder, "/a/lock"))
				l := NewRevocableLock(s.Client(t), "/a/lock")
				list, err := l.Contenders(ctx)
				if err != nil || len(list) != 1 {
					t.Fatal(list, err)
				}
				next := begin(ctx, l.Lock)
				began := time.Now()
				if op != 0 {
					s.LoseAnswer(op, 0)
				}
				if polite {
					go func() {
						<-h.Revoked()
						time.Sleep(5 * time.Second)
						h.Unlock(ctx)
					}()
				}
				if err := l.RevokeWithin(ctx, list[0], 20*time.Second); err != nil {
					t.Fatal(op, err)
				}
				<-next.done
				took := time.Since(began)
				if wantLost := !polite; closed(h.Lost()) != wantLost || wantLost != (took >= 20*time.Second) || took > 22*time.Second {
					t.Errorf("%v: after %v, lost: %v", op, took, h.Err())
				}
				if polite && took < 5*time.Second {
					t.Errorf("taken after %v", took)
				}
				mustUnlock(t, next.held)
			})
		}
	}
}

func TestRevokeWithinIsAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inproc.Start(t)
		h := mustLock(t, NewRevocableLock(s.Client(t), "/a/lock"))
		l := NewRevocableLock(s.Client(t), "/a/lock")
		list, err := l.Contenders(context.Background())
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := l.RevokeWithin(ctx, list[0], time.Minute); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		time.Sleep(2 * time.Minute)
		if closed(h.Lost()) || !closed(h.Revoked()) {
			t.Error("it was taken away, or not asked for")
		}
		mustUnlock(t, h)
		if err := l.RevokeWithin(context.Background(), list[0], time.Minute); err != nil {
			t.Error("who is gone: ", err)
		}
	})
}

// Readers and writers of all kinds of locks at one path know each other.
func TestLocksOfOnePath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		c := inproc.Start(t).Client(t)
		r, err := NewRWLock(c, "/a/lock").RLock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for name, newLock := range locks {
			if _, err := newLock(c).TryLock(ctx); name != "SimpleLock" && !errors.Is(err, ErrHeld) {
				t.Errorf("%s: %v", name, err)
			}
		}
		mustUnlock(t, r)
		h := mustLock(t, NewLock(c, "/a/lock"))
		if _, err := NewRWLock(c, "/a/lock", UseNames(KazooNames)).TryRLock(ctx); !errors.Is(err, ErrHeld) {
			t.Error(err)
		}
		mustUnlock(t, h)
		if _, err := NewLock(c, "bad path").Lock(ctx); !errors.Is(err, zk.ErrBadArguments) {
			t.Error(err)
		}
	})
}
