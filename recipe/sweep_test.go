package recipe

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/inproc"
	"github.com/pinfold-zk/pinfold/zk"
)

// sweep runs a scenario in which recipes must keep their promises once without a
// loss, and then, for each kind of request and each k, with the k-th answer lost,
// until the scenario has no k-th.
func sweep(t *testing.T, scenario func(t *testing.T, s *inproc.Server)) {
	t.Helper()
	t.Run("none", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { scenario(t, inproc.Start(t)) })
	})
	total := 0
	for _, op := range []wire.OpCode{
		wire.OpCreate, wire.OpCreate2, wire.OpSetData, wire.OpDelete, wire.OpMulti,
		wire.OpExists, wire.OpGetData, wire.OpGetChildren2, wire.OpSync,
	} {
		for skip, lost := 0, 1; lost > 0; skip++ {
			t.Run(fmt.Sprintf("%v %d", op, skip), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := inproc.Start(t)
					s.LoseAnswer(op, skip)
					scenario(t, s)
					lost = s.Lost()
				})
			})
			total += lost
		}
	}
	if total == 0 {
		t.Error("no answer was lost")
	}
}

// settle lets clients connect again, and everything happen that can.
func settle() {
	time.Sleep(2 * time.Second)
	synctest.Wait()
}

// must is for what cannot fail.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantErr is for what must fail.
func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("the error is %v, not %v", err, want)
	}
}

// childrenOf are the names below a znode, by another client.
func childrenOf(t *testing.T, s *inproc.Server, path string) []string {
	t.Helper()
	var names []string
	c := s.Client(t)
	err := retry(context.Background(), func() (err error) {
		names, _, err = c.Children(context.Background(), path)
		return err
	})
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		t.Fatal(err)
	}
	return names
}
