package recipe

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/pinfold-zk/pinfold/test/inproc"
	"github.com/pinfold-zk/pinfold/zk"
)

// A queue with a znode of another library is refused, whether or not we would wait,
// and gets no znode of ours. Names of the same library are no reason.
func TestOtherNamesAreRefused(t *testing.T) {
	for _, test := range []struct {
		foreign string
		kind    string // lock or election
		names   NodeNames
		use     []NodeNames // nil: it is not refused
		refused bool
	}{
		{"0b1f8a2e11112222333344445555666a__lock__", "lock", CuratorNames, []NodeNames{KazooNames}, true},
		{"0b1f8a2e11112222333344445555666a__rlock__", "lock", CuratorNames, []NodeNames{KazooNames}, true},
		{"0b1f8a2e11112222333344445555666a__rlock__", "lock", KazooNames, nil, false},
		{"_c_0b1f8a2e-1111-2222-3333-444455556666-lock-", "lock", KazooNames, []NodeNames{CuratorNames, SelectorNames, ZooKeeperNames}, true},
		{"_c_0b1f8a2e-1111-2222-3333-444455556666-lock-", "lock", ZooKeeperNames, nil, false},
		{"guid-lock-", "lock", CuratorNames, nil, false},
		{"_c_0b1f8a2e-1111-2222-3333-444455556666-__READ__", "lock", CuratorNames, nil, true},
		{"read-", "lock", ZooKeeperNames, nil, true},
		{"_c_0b1f8a2e-1111-2222-3333-444455556666-latch-", "lock", CuratorNames, nil, true},
		{"x-72057594037927936-", "lock", ZooKeeperNames, nil, true},

		{"_c_0b1f8a2e-1111-2222-3333-444455556666-latch-", "election", CuratorNames, nil, false},
		{"_c_0b1f8a2e-1111-2222-3333-444455556666-lock-", "election", CuratorNames, []NodeNames{SelectorNames}, true},
		{"_c_0b1f8a2e-1111-2222-3333-444455556666-lock-", "election", SelectorNames, nil, false},
		{"ffff8a2e11112222333344445555666a__lock__", "election", CuratorNames, []NodeNames{KazooNames}, true},
		{"guid-n_", "election", CuratorNames, []NodeNames{ZooKeeperNames}, true},
		{"guid-n_", "election", ZooKeeperNames, nil, false},
	} {
		t.Run(test.kind+" "+test.foreign, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := context.Background()
				s := inproc.Start(t)
				theirs, ours := s.Client(t), s.Client(t)
				must(t, makePath(ctx, theirs, "/q", nil))
				_, err := theirs.Create(ctx, "/q/settings", nil, zk.Persistent, nil) // is no contender
				must(t, err)
				foreign, err := theirs.Create(ctx, "/q/"+test.foreign, nil, zk.EphemeralSequential, nil)
				must(t, err)
				got := make(chan error, 1)
				wait, giveUp := context.WithCancel(ctx)
				go func() {
					opts := []LockOption{UseNames(test.names), RefuseOtherNames()}
					if test.kind == "lock" {
						_, err := NewLock(ours, "/q", opts...).Lock(wait)
						got <- err
						return
					}
					_, err := NewElection(ours, "/q", opts...).Campaign(wait)
					got <- err
				}()
				settle()
				names, stat, err := theirs.Children(ctx, "/q")
				must(t, err)
				if !test.refused {
					if len(names) != 3 || len(got) > 0 {
						t.Errorf("of a queue that is not refused: %q, %d errors", names, len(got))
					}
					giveUp()
					if err := <-got; !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
					return
				}
				giveUp()
				err = <-got
				var other *NamesError
				if !errors.As(err, &other) || other.Znode != foreign || !slices.Equal(other.Names, test.use) {
					t.Errorf("got %v, %+v, want %s and names %v", err, other, foreign, test.use)
				}
				if len(names) != 2 || stat.Cversion != 2 {
					t.Errorf("the queue has %q, cversion %d: ours was in it", names, stat.Cversion)
				}
			})
		})
	}
}

// A contender with other names that comes while we wait is found when the queue is
// read next; our znode is deleted.
func TestOtherNamesAreRefusedWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := inproc.Start(t)
		first, err := NewLock(s.Client(t), "/q", RefuseOtherNames()).Lock(ctx)
		must(t, err)
		p := begin(ctx, NewLock(s.Client(t), "/q", RefuseOtherNames()).Lock)
		theirs := s.Client(t)
		foreign, err := theirs.Create(ctx, "/q/0b1f8a2e11112222333344445555666a__lock__", nil, zk.EphemeralSequential, nil)
		must(t, err)
		settle()
		if closed(p.done) {
			t.Fatalf("done before the queue was read again: %v", p.err)
		}
		must(t, first.Unlock(ctx))
		settle()
		var other *NamesError
		if !closed(p.done) || !errors.As(p.err, &other) || other.Znode != foreign {
			t.Errorf("%v, want %s", p.err, foreign)
		}
		if names, _, err := theirs.Children(ctx, "/q"); err != nil || len(names) != 1 {
			t.Errorf("the queue has %q, %v", names, err)
		}
	})
}
