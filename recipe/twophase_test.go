package recipe

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/test/inproc"
	"github.com/pinfold-zk/pinfold/zk"
)

var sites = []string{"a", "b", "c"}

// outcomes are what those are told who wait.
type outcomes chan error

// ask asks in the background; the answer must be want.
func (o outcomes) ask(ctx context.Context, wait func(ctx context.Context) (Outcome, error), want Outcome) {
	go func() {
		got, err := wait(ctx)
		if err == nil && got != want {
			err = fmt.Errorf("the outcome is %v, not %v", got, want)
		}
		o <- err
	}()
}

func (o outcomes) all(t *testing.T, n int) {
	t.Helper()
	for range n {
		must(t, <-o)
	}
}

func (o outcomes) none(t *testing.T) {
	t.Helper()
	settle()
	select {
	case err := <-o:
		t.Fatalf("decided too early (%v)", err)
	default:
	}
}

func TestPeerCommit(t *testing.T) {
	for _, abort := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ctx := context.Background()
			s := inproc.Start(t)
			told := make(outcomes, 10)
			var at []*PeerCommit
			want := Committed
			if abort {
				want = Aborted
			}
			for range sites {
				p := NewPeerCommit(s.Client(t), "/app/tx", TwoPhaseOptions{})
				at = append(at, p)
				told.ask(ctx, p.Outcome, want) // it need not be known yet
			}
			settle()
			coordinator := s.Client(t)
			must(t, NewPeerCommit(coordinator, "/app/tx", TwoPhaseOptions{}).Begin(ctx, []byte("do it"), []string{"c", "a", "b"}))
			s.Expire(coordinator.SessionID()) // nobody needs it any more
			data, known, err := at[0].Transaction(ctx)
			if err != nil || string(data) != "do it" || fmt.Sprint(known) != fmt.Sprint(sites) {
				t.Errorf("%s %v, %v", data, known, err)
			}
			must(t, at[2].Vote(ctx, "c", true))
			must(t, at[1].Vote(ctx, "b", true))
			told.none(t)
			s.Restart()
			told.none(t)
			must(t, at[0].Vote(ctx, "a", !abort))
			told.all(t, len(sites))
			must(t, at[0].Vote(ctx, "a", !abort))
			wantErr(t, at[0].Vote(ctx, "a", abort), ErrVoted)
			wantErr(t, at[0].Vote(ctx, "d", true), zk.ErrNoNode)
			told.ask(ctx, NewPeerCommit(s.Client(t), "/app/tx", TwoPhaseOptions{}).Outcome, want)
			told.all(t, 1)
			must(t, at[0].Remove(ctx))
			if names := childrenOf(t, s, "/app"); len(names) != 0 {
				t.Error("left:", names)
			}
		})
	}
}

// An abort is known before others have voted, whichever site votes it. A site that
// has died can be voted for, and finds out when it comes back.
func TestPeerCommitAbortsEarly(t *testing.T) {
	for i, site := range sites {
		synctest.Test(t, func(t *testing.T) {
			ctx := context.Background()
			s := inproc.Start(t)
			p := NewPeerCommit(s.Client(t), "/tx", TwoPhaseOptions{})
			must(t, p.Begin(ctx, nil, sites))
			told := make(outcomes, 10)
			told.ask(ctx, p.Outcome, Aborted)
			must(t, p.Vote(ctx, sites[(i+1)%3], true))
			told.none(t)
			must(t, p.Vote(ctx, site, false)) // another, for the dead
			told.all(t, 1)
			back := NewPeerCommit(s.Client(t), "/tx", TwoPhaseOptions{})
			wantErr(t, back.Vote(ctx, site, true), ErrVoted)
			told.ask(ctx, back.Outcome, Aborted)
			told.all(t, 1)
		})
	}
}

// A coordinator that dies leaves all or nothing; one that begins again with
// something else is refused.
func TestCommitBegin(t *testing.T) {
	type commit interface {
		Begin(ctx context.Context, data []byte, sites []string) error
	}
	for name, of := range map[string]func(c Client) commit{
		"peer":        func(c Client) commit { return NewPeerCommit(c, "/a/tx", TwoPhaseOptions{}) },
		"coordinated": func(c Client) commit { return NewCoordinatedCommit(c, "/a/tx", TwoPhaseOptions{}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := context.Background()
				p := of(inproc.Start(t).Client(t))
				for _, bad := range [][]string{{"a", "a"}, {""}, {"a/b"}} {
					wantErr(t, p.Begin(ctx, nil, bad), zk.ErrBadArguments)
				}
				must(t, p.Begin(ctx, []byte("x"), sites))
				must(t, p.Begin(ctx, []byte("x"), []string{"b", "a", "c"}))
				wantErr(t, p.Begin(ctx, []byte("y"), sites), zk.ErrNodeExists)
				wantErr(t, p.Begin(ctx, []byte("x"), sites[:2]), zk.ErrNodeExists)
			})
		})
	}
}

// troupe is a coordinated commit with a client for each of those who take part.
type troupe struct {
	t           *testing.T
	s           *inproc.Server
	coordinator *client.Client
	clients     []*client.Client
	at          []*CoordinatedCommit
	lead        *CoordinatedCommit
	told        outcomes
}

// newTroupe begins a transaction that all sites have joined, and which all of them
// wait for the outcome of.
func newTroupe(t *testing.T, s *inproc.Server, want Outcome) *troupe {
	ctx := context.Background()
	r := &troupe{t: t, s: s, coordinator: s.Client(t), told: make(outcomes, 20)}
	r.lead = NewCoordinatedCommit(r.coordinator, "/app/tx", TwoPhaseOptions{})
	must(t, r.lead.Begin(ctx, []byte("do it"), sites))
	for _, site := range sites {
		c := s.Client(t)
		p := NewCoordinatedCommit(c, "/app/tx", TwoPhaseOptions{})
		must(t, p.Join(ctx, site))
		r.clients, r.at = append(r.clients, c), append(r.at, p)
		r.told.ask(ctx, p.Outcome, want)
	}
	settle()
	return r
}

func (r *troupe) vote(i int, commit bool) {
	r.t.Helper()
	must(r.t, r.at[i].Vote(context.Background(), sites[i], commit))
}

func TestCoordinatedCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		r := newTroupe(t, inproc.Start(t), Committed)
		r.told.ask(ctx, r.lead.Decide, Committed)
		r.vote(0, true)
		r.vote(1, true)
		r.told.none(t)
		r.s.Restart()
		r.told.none(t)
		r.vote(2, true)
		r.told.all(t, 4)
		wantErr(t, r.at[1].Vote(ctx, "b", false), ErrVoted)
		wantErr(t, r.at[1].Join(ctx, "d"), zk.ErrNoNode)
		wantErr(t, r.at[1].Join(ctx, "a"), zk.ErrNodeExists)
		r.s.Expire(r.clients[1].SessionID()) // now that is too late
		back := NewCoordinatedCommit(r.s.Client(t), "/app/tx", TwoPhaseOptions{})
		r.told.ask(ctx, back.Outcome, Committed)
		r.told.ask(ctx, back.Abort, Committed)
		r.told.all(t, 2)
		must(t, r.lead.Remove(ctx))
		if names := childrenOf(t, r.s, "/app"); len(names) != 0 {
			t.Error("left:", names)
		}
	})
}

// Any vote to abort, and the death of any site before the decision, whether it has
// voted or not, aborts.
func TestCoordinatedCommitAborts(t *testing.T) {
	for _, cause := range []string{"vote", "death", "death after the vote"} {
		for i := range sites {
			synctest.Test(t, func(t *testing.T) {
				ctx := context.Background()
				r := newTroupe(t, inproc.Start(t), Aborted)
				r.told.ask(ctx, r.lead.Decide, Aborted)
				r.vote((i+1)%3, true)
				r.told.none(t)
				n := 4
				switch cause {
				case "vote":
					r.vote(i, false)
				case "death after the vote":
					r.vote(i, true)
					r.told.none(t)
					fallthrough
				case "death":
					r.s.Expire(r.clients[i].SessionID())
					n--
				}
				settle()
				expired := 0
				for range 4 {
					if err := <-r.told; errors.Is(err, zk.ErrSessionExpired) {
						expired++
					} else if err != nil {
						t.Errorf("%s of %s: %v", cause, sites[i], err)
					}
				}
				if expired != 4-n {
					t.Errorf("%d sessions have ended", expired)
				}
				back := NewCoordinatedCommit(r.s.Client(t), "/app/tx", TwoPhaseOptions{})
				if cause != "vote" {
					must(t, back.Join(ctx, sites[i])) // which changes nothing any more
				}
				r.told.ask(ctx, back.Outcome, Aborted)
				r.told.all(t, 1)
			})
		}
	}
}

// The sites replace a coordinator that dies: with all votes they commit, otherwise
// they abort.
func TestCoordinatorDies(t *testing.T) {
	for votes := range len(sites) + 1 {
		synctest.Test(t, func(t *testing.T) {
			want := Aborted
			if votes == len(sites) {
				want = Committed
			}
			r := newTroupe(t, inproc.Start(t), want)
			for i := range votes {
				r.vote(i, true)
			}
			r.told.none(t)
			r.s.Expire(r.coordinator.SessionID())
			r.told.all(t, 3)
		})
	}
}

func TestCommitLostAnswers(t *testing.T) {
	sweep(t, func(t *testing.T, s *inproc.Server) {
		ctx := context.Background()
		c := s.Client(t)
		peer := NewPeerCommit(c, "/app/peer", TwoPhaseOptions{})
		must(t, peer.Begin(ctx, []byte("x"), sites))
		told := make(outcomes, 10)
		told.ask(ctx, peer.Outcome, Committed)
		for _, site := range sites {
			told.none(t)
			must(t, peer.Vote(ctx, site, true))
		}
		told.all(t, 1)
		must(t, peer.Remove(ctx))

		r := newTroupe(t, s, Committed)
		r.told.ask(ctx, r.lead.Decide, Committed)
		for i := range sites {
			r.told.none(t)
			r.vote(i, true)
		}
		r.told.all(t, 4)
		must(t, r.lead.Remove(ctx))

		r = newTroupe(t, s, Aborted)
		r.vote(1, true)
		r.told.none(t)
		r.vote(0, false)
		r.told.all(t, 3)
	})
}

// nosy is a client after each of whose first deletions somebody asks.
type nosy struct {
	Client
	asks func()
	n    int
}

func (n *nosy) Delete(ctx context.Context, path string, version int32) error {
	err := n.Client.Delete(ctx, path, version)
	if n.n++; n.n < 20 {
		n.asks()
	}
	return err
}

// removable is a transaction of either form.
type removable interface {
	Begin(ctx context.Context, data []byte, sites []string) error
	Vote(ctx context.Context, site string, commit bool) error
	Outcome(ctx context.Context) (Outcome, error)
	Remove(ctx context.Context) error
}

// Who asks while a transaction is removed is told the outcome, or finds nothing.
func TestOutcomeDuringRemove(t *testing.T) {
	for name, of := range map[string]func(c Client) removable{
		"peers":       func(c Client) removable { return NewPeerCommit(c, "/app/t", TwoPhaseOptions{}) },
		"coordinated": func(c Client) removable { return NewCoordinatedCommit(c, "/app/t", TwoPhaseOptions{}) },
	} {
		for _, commit := range []bool{true, false} {
			t.Run(fmt.Sprint(name, commit), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx := context.Background()
					s := inproc.Start(t)
					c, other := s.Client(t), s.Client(t)
					x := of(c)
					must(t, x.Begin(ctx, nil, []string{"a", "b"}))
					for _, site := range []string{"a", "b"} {
						if k, ok := x.(*CoordinatedCommit); ok {
							must(t, k.Join(ctx, site))
						}
						if err := x.Vote(ctx, site, commit || site == "b"); !errors.Is(err, ErrVoted) {
							must(t, err)
						}
					}
					if k, ok := x.(*CoordinatedCommit); ok {
						_, err := k.Decide(ctx)
						must(t, err)
					}
					want, err := x.Outcome(ctx)
					must(t, err)
					asks := func() {
						short, cancel := context.WithTimeout(ctx, time.Second)
						defer cancel()
						if got, err := of(other).Outcome(short); err == nil && got != want {
							t.Errorf("while it is removed, one is told %v, not %v", got, want)
						}
					}
					must(t, of(&nosy{Client: c, asks: asks}).Remove(ctx))
					must(t, x.Remove(ctx))
					if names := childrenOf(t, s, "/app"); len(names) > 0 {
						t.Errorf("left: %q", names)
					}
				})
			})
		}
	}
}
