package member

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/internal/fourletter"
)

// askWithin bounds the answer of one server.
const askWithin = 3 * time.Second

// A seen is what a server has answered.
type seen struct {
	fourletter.Status
	err error // it has not answered; Status is zero
}

// serves reports whether the server has a role in an ensemble: it is in sync with the
// leader, or is the leader.
func (s seen) serves() bool {
	return s.err == nil && (s.Mode == "leader" || s.Mode == "follower" || s.Mode == "observer")
}

// String says what the server does.
func (s seen) String() string {
	if s.err != nil {
		return "does not answer: " + s.err.Error()
	}
	return fmt.Sprintf("is %s at zxid %v", s.Mode, s.Zxid)
}

// A view is an ensemble at a moment.
type view struct {
	client.Members
	servers map[int64]seen // the members, and the new one
}

// look asks for the configuration, and asks all members, and extra if it is no member.
func look(ctx context.Context, e Ensemble, extra *client.Member) (*view, error) {
	m, err := e.Members(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	v := &view{Members: m, servers: map[int64]seen{}}
	all := slices.Clone(m.Members)
	if extra != nil && v.Find(extra.ID) == nil {
		all = append(all, *extra)
	}
	answers := make([]seen, len(all))
	var asking sync.WaitGroup
	for i := range all {
		asking.Go(func() { answers[i] = ask(ctx, e, &all[i]) })
	}
	asking.Wait()
	for i := range all {
		v.servers[all[i].ID] = answers[i]
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
func ask(ctx context.Context, e Ensemble, m *client.Member) seen {
	addr := m.ClientAddr()
	if addr == "" {
		return seen{err: errNoAddress}
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	s, err := e.Status(ctx, addr)
	return seen{s, err}
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
