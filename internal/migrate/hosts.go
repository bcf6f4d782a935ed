package migrate

import (
	"context"
	"fmt"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/internal/fourletter"
	"github.com/pinfold-zk/pinfold/internal/member"
	"github.com/pinfold-zk/pinfold/internal/plan"
)

// A Pair is a member, and the server on another host that takes its place.
type Pair struct {
	Old int64
	New client.Member
}

// hosts puts servers in the place of members.
type hosts struct {
	plan.Plan
	e     Ensemble
	m     member.Ensemble
	o     Options
	out   *plan.Printer
	flock *flock
}

// Hosts puts servers on other hosts in the place of members by changes of the configuration,
// one after the other, the leader last: no host needs both programs. Of each pair the new
// server is started by e.Start, becomes an observer and has all data, takes the place of the
// old one in one transaction, and the old one is stopped by e.Stop. A run that was interrupted
// can be run again: the configuration says which pairs are done.
func Hosts(ctx context.Context, e Ensemble, m member.Ensemble, pairs []Pair, o Options, out *plan.Printer, confirm func() bool) error {
	now, err := m.Members(ctx)
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	h := &hosts{Plan: plan.New("migrate to other hosts", fmt.Sprintf("%x", int64(now.Version))), e: e, m: m, o: o, out: out}
	defer func() {
		if h.flock != nil {
			h.flock.close()
		}
	}()
	left := h.order(ctx, now, pairs)
	if o.Canary != "" && len(left) > 0 {
		h.step("a canary session on each member, below "+o.Canary, func(ctx context.Context, _ func(string)) (err error) {
			h.flock, err = hatch(ctx, e, placesOf(now.Members, pairs), len(now.Members), o.Canary)
			return err
		})
	}
	for _, p := range left {
		h.step(fmt.Sprintf("server %d takes the place of server %d", p.New.ID, p.Old), func(ctx context.Context, say func(string)) error {
			return h.replace(ctx, *now.Find(p.Old), p, say)
		})
	}
	return h.Run(ctx, o.Options, out, confirm)
}

func (h *hosts) step(text string, run func(context.Context, func(string)) error) {
	h.Steps = append(h.Steps, plan.Step{Text: text, Run: run})
}

// placesOf returns the members and the new servers.
func placesOf(members []client.Member, pairs []Pair) *Config {
	c := &Config{}
	for _, m := range members {
		c.Members = append(c.Members, placeOf(m))
	}
	for _, p := range pairs {
		c.Members = append(c.Members, placeOf(p.New))
	}
	return c
}

func placeOf(m client.Member) Member {
	return Member{ID: m.ID, Observer: m.Observer, Host: m.Addresses[0].Host, Client: m.ClientAddr()}
}

// order returns the pairs that are left, that of the leader last, and checks them. What the
// ensemble needs for each change, internal/member checks before it.
func (h *hosts) order(ctx context.Context, now client.Members, pairs []Pair) (all []Pair) {
	var last []Pair
	for _, p := range pairs {
		old, present := now.Find(p.Old), now.Find(p.New.ID)
		switch {
		case old == nil && present != nil && !present.Observer:
			h.OK("server %d is in the place of server %d already", p.New.ID, p.Old)
		case old == nil:
			h.Refuse(fmt.Sprintf("server %d is no member", p.Old), "pinfold member list shows them")
		case p.New.Client == "":
			h.Refuse(fmt.Sprintf("the line of server %d has no address for clients", p.New.ID), "write it after a semicolon: "+p.New.Line()+";2181")
		default:
			if s, err := h.m.Status(ctx, old.ClientAddr()); err == nil && s.Mode == "leader" {
				last = append(last, p)
				continue
			}
			all = append(all, p)
		}
	}
	return append(all, last...)
}

// replace puts one server in the place of one member.
func (h *hosts) replace(ctx context.Context, old client.Member, p Pair, say func(string)) error {
	place := placeOf(p.New)
	if s := ask(ctx, h.e, place); s.Gone() {
		say(fmt.Sprintf("start server %d", p.New.ID))
		if err := h.e.Start(ctx, place); err != nil {
			return fmt.Errorf("the command that starts server %d failed: %w", p.New.ID, err)
		}
	}
	err := plan.Poll(ctx, h.o.Wait, say, func(ctx context.Context) error {
		if s := ask(ctx, h.e, place); s.Err != nil || s.Mode != "observer" && s.Mode != "follower" {
			return fmt.Errorf("server %d %v", p.New.ID, s)
		}
		// The checks of the change ask for it once: a JVM that has just begun may be too slow for them.
		ctx, cancel := context.WithTimeout(ctx, fourletter.AnswerWithin)
		defer cancel()
		if _, err := h.m.MembersAt(ctx, place.Client); err != nil {
			return fmt.Errorf("server %d does not show its configuration: %w", p.New.ID, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	change := member.Command{Name: "replace", ID: p.Old, New: p.New}
	if err := member.Run(ctx, h.m, change, plan.Options{Yes: true, Wait: h.o.Wait}, &plan.Printer{Out: h.out.Out, JSON: h.out.JSON}, nil); err != nil {
		return err
	}
	say(fmt.Sprintf("stop server %d", p.Old))
	if err := h.e.Stop(ctx, placeOf(old)); err != nil {
		return fmt.Errorf("the command that stops server %d failed; it is no member any more, stop it: %w", p.Old, err)
	}
	if h.flock != nil {
		say("clients: " + h.flock.felt().String())
		h.After = "Clients, in all: " + h.flock.total().String()
	}
	select {
	case <-time.After(h.o.Settle):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
