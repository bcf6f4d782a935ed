package member

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/internal/fourletter"
)

// A view is an ensemble at a moment.
type view struct {
	client.Members
	servers map[int64]fourletter.Answer // the members, and the new one
}

// look asks for the configuration, and asks all members, and extra if it is no member.
func look(ctx context.Context, e Ensemble, extra *client.Member) (*view, error) {
	m, err := e.Members(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	v := &view{Members: m, servers: map[int64]fourletter.Answer{}}
	all := slices.Clone(m.Members)
	if extra != nil && v.Find(extra.ID) == nil {
		all = append(all, *extra)
	}
	for i, answer := range fourletter.AnswersOf(all, func(m *client.Member) fourletter.Answer { return ask(ctx, e, m) }) {
		v.servers[all[i].ID] = answer
	}
	return v, nil
}

// errNoAddress is the answer of a member that cannot be asked.
var errNoAddress = errors.New("its address for clients is not known (--client-port)")

// lookAsLeader is look with the configuration that the leader has: a server that is no
// member may have another one.
func lookAsLeader(ctx context.Context, e Ensemble, extra *client.Member) (*view, error) {
	v, err := look(ctx, e, extra)
	if err != nil {
		return nil, err
	}
	leader := v.leader()
	if leader == nil {
		return v, nil
	}
	m, err := e.MembersAt(ctx, leader.ClientAddr())
	if err != nil {
		return nil, fmt.Errorf("read the configuration of the leader, server %d: %w", leader.ID, err)
	}
	v.Members = m
	return v, nil
}

// ask asks one server.
func ask(ctx context.Context, e Ensemble, m *client.Member) fourletter.Answer {
	addr := m.ClientAddr()
	if addr == "" {
		return fourletter.Answer{Err: errNoAddress}
	}
	return fourletter.Answered(ctx, func(ctx context.Context) (fourletter.Status, error) { return e.Status(ctx, addr) })
}

// leader returns the member that leads; nil if none says so.
func (v *view) leader() *client.Member {
	for i := range v.Members.Members {
		if m := &v.Members.Members[i]; v.servers[m.ID].Mode == "leader" {
			return m
		}
	}
	return nil
}

// voters returns the ids of the members with a vote.
func voters(members []client.Member) (ids []int64) {
	for i := range members {
		if !members[i].Observer {
			ids = append(ids, members[i].ID)
		}
	}
	return ids
}

// changed returns the members after a change.
func changed(members []client.Member, joining *client.Member, leaving ...int64) []client.Member {
	to := slices.DeleteFunc(slices.Clone(members), func(m client.Member) bool {
		return slices.Contains(leaving, m.ID) || joining != nil && m.ID == joining.ID
	})
	if joining != nil {
		to = append(to, *joining)
	}
	return to
}
