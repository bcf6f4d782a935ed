package member

import (
	"context"
	"fmt"
	"strings"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/internal/plan"
)

// changes is the plan of a command, and what it is made from.
type changes struct {
	plan.Plan
	e Ensemble
	v *view
	r *run
}

// newPlan makes the plan of a command.
func newPlan(ctx context.Context, e Ensemble, c Command) (*changes, error) {
	var extra *client.Member
	if c.Name == "add" || c.Name == "replace" {
		extra = &c.New
	}
	v, err := lookAsLeader(ctx, e, extra)
	if err != nil {
		return nil, err
	}
	p := &changes{Plan: plan.New(c.Name, fmt.Sprintf("%x", int64(v.Version))), e: e, v: v, r: &run{e: e, version: v.Version}}
	if p.checkEnsemble(); p.Refused() != nil {
		return p, nil
	}
	switch c.Name {
	case "add":
		p.add(ctx, c.New)
	case "remove":
		p.remove(c.ID)
	case "promote":
		p.turn(c.ID, false)
	case "demote":
		p.turn(c.ID, true)
	case "replace":
		p.replace(ctx, c.ID, c.New)
	case "move-leader":
		p.moveLeader()
	default:
		return nil, fmt.Errorf("there is no command %s", c.Name)
	}
	return p, nil
}

// member returns a member; it refuses the plan if there is none.
func (p *changes) member(id int64) *client.Member {
	m := p.v.Find(id)
	if m == nil {
		p.Refuse(fmt.Sprintf("server %d is no member", id), "pinfold member list shows them")
	}
	return m
}

func (p *changes) add(ctx context.Context, m client.Member) {
	if p.v.Find(m.ID) != nil {
		p.Refuse(fmt.Sprintf("server %d is a member already", m.ID), "promote and demote change its vote, replace puts another server in its place")
		return
	}
	p.checkLine(&m)
	if p.Refused() == nil {
		p.checkNames(ctx, &m)
		p.checkFollows(ctx, &m)
	}
	if !m.Observer {
		p.checkMajority(changed(p.v.Members.Members, &m))
	}
	p.step(fmt.Sprintf("server %d becomes %s", m.ID, role(&m)), change(&m))
	p.step(fmt.Sprintf("server %d has the new configuration", m.ID), await(m))
}

func (p *changes) remove(id int64) {
	m := p.member(id)
	if m == nil {
		return
	}
	p.noteLeader(id)
	if !m.Observer {
		p.checkMajority(changed(p.v.Members.Members, nil, id))
	}
	p.step(fmt.Sprintf("server %d is removed", id), change(nil, id))
	p.step(fmt.Sprintf("a write tells server %d", id), write)
	p.After = fmt.Sprintf("Stop server %d: until then it follows without a vote and serves clients.", id)
}

// noteLeader warns of a change that takes the leader its role.
func (p *changes) noteLeader(id int64) {
	if leader := p.v.leader(); leader != nil && leader.ID == id {
		p.Warn(fmt.Sprintf("server %d leads: another voter takes over, and all clients connect again", id), "sessions and watches stay; writes that are under way are lost or not answered")
	}
}

// turn gives a member a vote, or takes it.
func (p *changes) turn(id int64, observer bool) {
	m := p.member(id)
	switch {
	case m == nil:
		return
	case m.Observer == observer:
		p.Refuse(fmt.Sprintf("server %d is %s already", id, role(m)), "nothing is to do")
		return
	case !strings.Contains(m.Line(), ";"):
		p.Refuse(fmt.Sprintf("the line of server %d has no address for clients, which a change of it needs", id),
			"write it into the server lines of all members, as in server.1=host:2888:3888;2181, and restart them one by one")
		return
	}
	to := m.WithRole(observer)
	if observer {
		p.noteLeader(id)
	} else if s := p.v.servers[id]; s.Serves() {
		p.OK("server %d is in sync: it %v", id, s)
	} else {
		p.Refuse(fmt.Sprintf("server %d is not in sync: it %v", id, s), "start it, or wait until it follows; then repeat the command")
	}
	p.checkMajority(changed(p.v.Members.Members, &to))
	p.step(fmt.Sprintf("server %d becomes %s", id, role(&to)), change(&to))
	p.step(fmt.Sprintf("server %d serves as %s", id, role(&to)), await(to))
}

func (p *changes) replace(ctx context.Context, old int64, m client.Member) {
	leaves := p.member(old)
	if leaves == nil {
		return
	}
	m = m.WithRole(leaves.Observer)
	asObserver := m.WithRole(true)
	present := p.v.Find(m.ID)
	switch {
	case m.ID == old:
		p.Refuse(fmt.Sprintf("the new server has the id of the old one, %d", old),
			"give it another id; or, if it comes at the same addresses, stop the old one and start the new one with an empty data directory: it gets the data from the leader")
		return
	case present != nil && (!present.Observer || present.Line() != asObserver.Line()):
		p.Refuse(fmt.Sprintf("server %d is a member already: %s", m.ID, present.Line()), "remove one of them with pinfold member remove")
		return
	}
	p.checkLine(&m)
	if p.Refused() == nil {
		p.checkNames(ctx, &m)
		p.checkFollows(ctx, &m)
	}
	p.noteLeader(old)
	if !m.Observer {
		p.checkMajority(changed(p.v.Members.Members, &m, old))
	}
	if present == nil {
		p.step(fmt.Sprintf("server %d becomes an observer", m.ID), change(&asObserver))
	}
	p.step(fmt.Sprintf("server %d has all data", m.ID), await(asObserver))
	p.step(fmt.Sprintf("server %d takes the place of server %d as %s, in one transaction", m.ID, old, role(&m)), change(&m, old))
	p.step(fmt.Sprintf("a write tells server %d", old), write)
	p.step(fmt.Sprintf("server %d serves as %s", m.ID, role(&m)), await(m))
	p.After = fmt.Sprintf("Stop server %d, if it runs: until then it follows without a vote and serves clients.", old)
}

func (p *changes) moveLeader() {
	leader := *p.v.leader()
	to := leader.WithRole(true)
	p.noteLeader(leader.ID)
	if p.e.CanHandOver(leader.ID) {
		p.checkMajority(p.v.Members.Members) // no vote is taken
		p.step(fmt.Sprintf("server %d hands the leadership over", leader.ID), handOver(leader))
		return
	}
	if !strings.Contains(leader.Line(), ";") {
		p.Refuse(fmt.Sprintf("the line of server %d has no address for clients, which a change of it needs", leader.ID), "--admin-port asks a leader of Pinfold's without it")
		return
	}
	p.checkMajority(changed(p.v.Members.Members, &to))
	p.step(fmt.Sprintf("server %d becomes an observer, and another voter leads", leader.ID), change(&to))
	p.step(fmt.Sprintf("server %d serves as an observer", leader.ID), await(to))
	p.step(fmt.Sprintf("server %d becomes a participant again", leader.ID), change(&leader))
	p.step(fmt.Sprintf("server %d serves as a participant", leader.ID), await(leader))
}

func (p *changes) step(text string, f func(context.Context, *run) error) {
	p.Steps = append(p.Steps, plan.Step{Text: text, Run: func(ctx context.Context, say func(string)) error {
		p.r.say = say
		err := f(ctx, p.r)
		p.NewVersion = p.r.version.String()
		return err
	}})
}

// role says what a member is.
func role(m *client.Member) string {
	if m.Observer {
		return "an observer"
	}
	return "a participant"
}
