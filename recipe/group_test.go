package recipe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/test/inproc"
	"github.com/pinfold-zk/pinfold/zk"
)

// describe gives members as "name=data", a name from the server as its prefix.
func describe(members []GroupMember) (list []string) {
	for _, m := range members {
		name, _, _ := strings.Cut(m.Name, "-")
		list = append(list, name+"="+string(m.Data))
	}
	return list
}

// view follows a group; its list is what Watch has yielded.
func view(ctx context.Context, g *Group) *seen {
	w := &seen{end: make(chan error, 1)}
	go func() {
		for members, err := range g.Watch(ctx) {
			if err != nil {
				w.end <- err
				return
			}
			w.add(fmt.Sprint(describe(members)))
		}
	}()
	return w
}

func TestGroupWithLostAnswers(t *testing.T) {
	sweep(t, func(t *testing.T, s *inproc.Server) {
		ctx := context.Background()
		group := func() *Group { return NewGroup(s.Client(t), "/app/group", GroupOptions{}) }
		a, b := group(), group()
		w := view(ctx, group())
		settle()
		m1, err := a.Join(ctx, "one", []byte("1"))
		must(t, err)
		_, err = b.Join(ctx, "one", []byte("2"))
		wantErr(t, err, zk.ErrNodeExists)
		settle()
		m2, err := b.Join(ctx, "", []byte("2"))
		must(t, err)
		settle()
		must(t, m1.Leave(ctx))
		if !isLost(m1.hold) || isLost(m2.hold) {
			t.Error("who has left is lost, who has not is not")
		}
		m3, err := b.Join(ctx, "one", []byte("3"))
		must(t, err)
		must(t, m1.Leave(ctx))
		if m3.Token() <= m1.Token() {
			t.Errorf("the second member of the name has token %v, the first %v", m3.Token(), m1.Token())
		}
		settle()
		members, err := a.Members(ctx)
		if got := describe(members); err != nil || !slices.Equal(got, []string{"member=2", "one=3"}) {
			t.Errorf("members: %q, %v", got, err)
		}
		want := []string{"[]", "[one=1]", "[one=1 member=2]", "[member=2]", "[member=2 one=3]"}
		if !slices.Equal(w.list, want) {
			t.Errorf("the view was %q, not %q", w.list, want)
		}
	})
}

// Members that are killed leave, with the end of their sessions; a restart of the
// server is none.
func TestGroupOfKilledMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := inproc.Start(t)
		killed, c := s.Client(t), s.Client(t)
		m, err := NewGroup(killed, "/g", GroupOptions{}).Join(ctx, "killed", nil)
		must(t, err)
		g := NewGroup(c, "/g", GroupOptions{})
		other, err := g.Join(ctx, "other", nil)
		must(t, err)
		_, err = c.Create(ctx, "/g/not-a-member", nil, zk.Persistent, nil)
		must(t, err)
		w := view(ctx, g)
		s.Restart()
		settle()
		if isLost(m.hold) || isLost(other.hold) {
			t.Fatal("lost by a restart")
		}
		s.Expire(killed.SessionID())
		<-m.Lost()
		settle()
		if w.last() != "[other=]" || isLost(other.hold) {
			t.Errorf("present: %s", w.last())
		}
		wantErr(t, m.Leave(ctx), zk.ErrSessionExpired)
		s.Expire(c.SessionID())
		wantErr(t, <-w.end, zk.ErrSessionExpired)
	})
}

// A process that starts again waits for the end of the session before.
func TestGroupWaitForName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		s := inproc.Start(t)
		before, c := s.Client(t), s.Client(t)
		_, err := NewGroup(before, "/g", GroupOptions{}).Join(ctx, "name", []byte("before"))
		must(t, err)
		joined := make(chan error, 1)
		g := NewGroup(c, "/g", GroupOptions{WaitForName: true})
		wait := func() {
			_, err := g.Join(ctx, "name", []byte("after"))
			joined <- err
		}
		go wait()
		settle()
		cancel()
		wantErr(t, <-joined, context.Canceled)
		ctx = context.Background()
		go wait()
		settle()
		s.Expire(before.SessionID())
		must(t, <-joined)
		if members, err := g.Members(ctx); err != nil || fmt.Sprint(describe(members)) != "[name=after]" {
			t.Errorf("members: %v, %v", describe(members), err)
		}
	})
}

// A Join whose caller is gone leaves no member.
func TestGroupJoinGivenUp(t *testing.T) {
	for _, name := range []string{"", "name"} {
		synctest.Test(t, func(t *testing.T) {
			s := inproc.Start(t)
			c := s.Client(t)
			_, err := c.Create(context.Background(), "/g", nil, zk.Persistent, nil)
			must(t, err)
			ctx, cancel := context.WithCancel(context.Background())
			held := &stalled{AsyncClient: c, cut: func() {
				s.Stop()
				time.AfterFunc(time.Second, cancel)
			}}
			if _, err := NewGroup(held, "/g", GroupOptions{}).Join(ctx, name, nil); !errors.Is(err, context.Canceled) {
				t.Fatalf("join %q: %v", name, err)
			}
			s.Start()
			settle()
			if names := childrenOf(t, s, "/g"); len(names) > 0 {
				t.Errorf("it left %q", names)
			}
		})
	}
}

// stalled is a Client that loses the server when it is to create a znode.
type stalled struct {
	AsyncClient
	cut func()
}

func (c *stalled) Create2(ctx context.Context, path string, data []byte, mode zk.CreateMode, acl []zk.ACL) (string, zk.Stat, error) {
	c.cut()
	return c.AsyncClient.Create2(ctx, path, data, mode, acl)
}

// A member that another has replaced by the time of the next look is told.
func TestGroupOfAsManyOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := inproc.Start(t)
		g := NewGroup(s.Client(t), "/g", GroupOptions{})
		m, err := g.Join(ctx, "name", []byte("1"))
		must(t, err)
		var told []string
		for members, err := range g.Watch(ctx) {
			must(t, err)
			told = append(told, describe(members)...)
			if len(told) == 2 {
				break
			}
			must(t, m.Leave(ctx))
			_, err = g.Join(ctx, "name", []byte("2"))
			must(t, err)
		}
		if !slices.Equal(told, []string{"name=1", "name=2"}) {
			t.Errorf("told %q", told)
		}
	})
}
