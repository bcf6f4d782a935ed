package recipe

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/inproc"
	"github.com/pinfold-zk/pinfold/zk"
)

func TestNamesWithLostAnswers(t *testing.T) {
	for _, ephemeral := range []bool{false, true} {
		sweep(t, func(t *testing.T, s *inproc.Server) {
			ctx := context.Background()
			names := func() *Names { return NewNames(s.Client(t), "/names", NamesOptions{Ephemeral: ephemeral}) }
			a, b := names(), names()
			list, err := a.List(ctx, "")
			if err != nil || len(list) > 0 {
				t.Errorf("of nothing: %q, %v", list, err)
			}
			must(t, a.Bind(ctx, "db/primary", []byte("host:1")))
			wantErr(t, b.Bind(ctx, "db/primary", []byte("host:2")), zk.ErrNodeExists)
			v, err := b.Resolve(ctx, "db/primary")
			if err != nil || string(v.Data) != "host:1" {
				t.Errorf("resolve: %q, %v", v.Data, err)
			}
			must(t, b.Rebind(ctx, "db/primary", []byte("host:2")))
			must(t, b.Rebind(ctx, "db/standby", []byte("host:1")))
			if list, err = a.List(ctx, "db"); err != nil || len(list) != 2 || !slices.Contains(list, "standby") {
				t.Errorf("list: %q, %v", list, err)
			}
			wantErr(t, a.Unbind(ctx, "db"), zk.ErrNotEmpty)
			must(t, a.Unbind(ctx, "db/primary"))
			must(t, a.Unbind(ctx, "db/primary"))
			if v, err = b.Resolve(ctx, "db/primary"); err != nil || v.Exists {
				t.Errorf("a free name: %+v, %v", v, err)
			}
		})
	}
}

// Names of a session end with it; a watcher sees that, and a server's restart does
// not trouble it.
func TestNamesOfASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := inproc.Start(t)
		owner, c := s.Client(t), s.Client(t)
		w := &seen{end: make(chan error, 1)}
		go func() {
			w.end <- NewNames(c, "/names", NamesOptions{}).Watch(ctx, "me", func(v Value) { w.add(string(v.Data)) })
		}()
		must(t, NewNames(owner, "/names", NamesOptions{Ephemeral: true}).Bind(ctx, "me", []byte("here")))
		s.Restart()
		settle()
		if w.last() != "here" {
			t.Errorf("bound to %q", w.last())
		}
		s.Expire(owner.SessionID())
		settle()
		if w.last() != "" {
			t.Errorf("after the session's end bound to %q", w.last())
		}
		s.Expire(c.SessionID())
		wantErr(t, <-w.end, zk.ErrSessionExpired)
	})
}

// firstAsked is a client that is between two sessions when it is asked for its
// session first.
type firstAsked struct {
	*client.Client
	asked bool
}

func (f *firstAsked) SessionID() zk.SessionID {
	if !f.asked {
		f.asked = true
		return 0
	}
	return f.Client.SessionID()
}

// Who begins to bind a name between two sessions knows its own binding when the
// answer is lost.
func TestBindBetweenSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := inproc.Start(t)
		c := &firstAsked{Client: s.Client(t, client.NewSession())}
		n := NewNames(c, "/names", NamesOptions{Ephemeral: true})
		must(t, makePath(ctx, c, "/names", nil))
		s.LoseAnswer(wire.OpCreate2, 0)
		must(t, n.Bind(ctx, "leader", nil))
		if s.Lost() != 1 {
			t.Errorf("%d answers were lost", s.Lost())
		}
	})
}
