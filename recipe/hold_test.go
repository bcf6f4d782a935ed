package recipe

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/inproc"
	"github.com/pinfold-zk/pinfold/zk"
)

func made(t *testing.T, c Client, path string) *hold {
	t.Helper()
	_, stat, err := c.Create2(context.Background(), path, nil, zk.Ephemeral, nil)
	if err != nil {
		t.Fatal(err)
	}
	return keep(context.Background(), c, path, stat.Czxid)
}

func isLost(h *hold) bool {
	time.Sleep(2 * time.Second) // clients connect again
	synctest.Wait()
	select {
	case <-h.lost:
		return true
	default:
		return false
	}
}

func TestHoldIsLost(t *testing.T) {
	ctx := context.Background()
	for name, lose := range map[string]func(s *inproc.Server, c Client){
		"deleted": func(s *inproc.Server, c Client) { c.Delete(ctx, "/held", -1) },
		"expired": func(s *inproc.Server, c Client) { s.Expire(c.SessionID()) },
		"replaced": func(s *inproc.Server, c Client) {
			c.Delete(ctx, "/held", -1)
			c.Create(ctx, "/held", nil, zk.Ephemeral, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := inproc.Start(t)
				c := s.Client(t)
				h := made(t, c, "/held")
				for _, harmless := range []func(){s.Cut, s.Restart, func() { c.Set(ctx, "/held", nil, -1) }} {
					if harmless(); isLost(h) {
						t.Fatal("lost too early")
					}
				}
				if lose(s, c); !isLost(h) {
					t.Error("its loss was not told")
				}
			})
		})
	}
}

// The deletion that is repeated because its answer was lost spares what another
// has made meanwhile.
func TestGivingSparesASuccessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := inproc.Start(t)
		c := s.Client(t)
		h := made(t, c, "/held")
		s.LoseAnswer(wire.OpDelete, 0)
		if err := h.give(ctx, c); err != nil || !isLost(h) || s.Lost() != 1 {
			t.Fatalf("given: %v, %d answers lost", err, s.Lost())
		}
		made(t, c, "/held")
		if err := h.give(ctx, c); err != nil {
			t.Fatal(err)
		}
		if _, exists, err := c.Exists(ctx, "/held"); !exists || err != nil {
			t.Errorf("the successor exists: %v, %v", exists, err)
		}
	})
}

func TestGivingWithAnEndedContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inproc.Start(t)
		c := s.Client(t)
		h := made(t, c, "/held")
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := h.give(ctx, c); !errors.Is(err, context.Canceled) || !isLost(h) {
			t.Fatal(err)
		}
		if _, exists, err := c.Exists(context.Background(), "/held"); exists || err != nil {
			t.Errorf("it exists: %v, %v", exists, err)
		}
	})
}

func TestTakeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inproc.Start(t)
		c := s.Client(t)
		if _, _, err := c.Create2(context.Background(), "/q", nil, zk.Persistent, nil); err != nil { // the release is known then
			t.Fatal(err)
		}
		s.Stop()
		synctest.Wait()
		ctx, cancel := context.WithCancel(context.Background())
		created := make(chan error)
		go func() {
			_, _, err := createFindable(ctx, c, "/q", "guid-", "guid", nil, nil)
			created <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-created; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		takeBack(ctx, c, "/q", "guid")
		s.Start()
		time.Sleep(2 * time.Second) // the client tries again
		synctest.Wait()
		stat, _, err := c.Exists(context.Background(), "/q")
		if err != nil || stat.NumChildren != 0 || stat.Cversion != 2 {
			t.Errorf("created and deleted: %+v, %v", stat, err)
		}
	})
}
