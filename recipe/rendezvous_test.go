package recipe

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/inproc"
	"github.com/pinfold-zk/pinfold/zk"
)

type waited struct {
	data string
	err  error
}

func waitAt(ctx context.Context, r *Rendezvous) chan waited {
	c := make(chan waited, 1)
	go func() {
		data, err := r.Wait(ctx)
		c <- waited{string(data), err}
	}()
	return c
}

func TestRendezvousWithLostAnswers(t *testing.T) {
	for _, ephemeral := range []bool{false, true} {
		sweep(t, func(t *testing.T, s *inproc.Server) {
			ctx := context.Background()
			at := func() *Rendezvous {
				return NewRendezvous(s.Client(t), "/run/7", RendezvousOptions{Ephemeral: ephemeral})
			}
			starter, master, second := at(), at(), at()
			early := waitAt(ctx, at())
			settle()
			must(t, starter.Open(ctx))
			wantErr(t, second.Open(ctx), zk.ErrNodeExists)
			late := waitAt(ctx, at())
			settle()
			must(t, master.Fill(ctx, []byte("host:1")))
			wantErr(t, second.Fill(ctx, []byte("host:2")), ErrFilled)
			for name, w := range map[string]chan waited{"early": early, "late": late, "last": waitAt(ctx, at())} {
				if got := <-w; got.data != "host:1" || got.err != nil {
					t.Errorf("the %s worker got %q, %v", name, got.data, got.err)
				}
			}
			gone := make(chan error, 1)
			go func() { gone <- master.Gone(ctx) }()
			settle()
			must(t, starter.Close(ctx))
			must(t, starter.Close(ctx))
			must(t, <-gone)
			wantErr(t, second.Fill(ctx, nil), ErrGone)
		})
	}
}

// The starter's end is seen by all, also by those who still wait.
func TestRendezvousEndsWithTheStarter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := inproc.Start(t)
		starter, c := s.Client(t), s.Client(t)
		r := NewRendezvous(c, "/run", RendezvousOptions{})
		must(t, NewRendezvous(starter, "/run", RendezvousOptions{Ephemeral: true}).Open(ctx))
		w := waitAt(ctx, r)
		settle()
		s.Restart()
		settle()
		s.Expire(starter.SessionID())
		wantErr(t, (<-w).err, ErrGone)
		must(t, r.Gone(ctx))
	})
}

func TestRendezvousOfEmptyData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		s := inproc.Start(t)
		r := NewRendezvous(s.Client(t), "/run", RendezvousOptions{})
		must(t, r.Open(ctx))
		w := waitAt(ctx, r)
		synctest.Wait()
		cancel()
		wantErr(t, (<-w).err, context.Canceled)
		must(t, r.Fill(context.Background(), nil))
		if got := <-waitAt(context.Background(), r); got.data != "" || got.err != nil {
			t.Errorf("got %q, %v", got.data, got.err)
		}
	})
}

// reopened is a Client that opens a rendezvous anew between two looks at it.
type reopened struct {
	AsyncClient
	syncs int
	open  func()
}

func (r *reopened) Sync(ctx context.Context, path string) error {
	if r.syncs++; r.syncs == 2 {
		r.open()
	}
	return r.AsyncClient.Sync(ctx, path)
}

// One that was gone when its Fill was looked for is over, also when there is another.
func TestRendezvousIsOpenedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := inproc.Start(t)
		other := NewRendezvous(s.Client(t), "/run", RendezvousOptions{})
		r := &reopened{AsyncClient: s.Client(t), open: func() { must(t, other.Open(ctx)) }}
		s.LoseAnswer(wire.OpSetData, 0)
		wantErr(t, NewRendezvous(r, "/run", RendezvousOptions{}).Fill(ctx, []byte("host")), ErrGone)
		must(t, other.Fill(ctx, []byte("another")))
	})
}
