package migrate

import (
	"context"
	"fmt"
	"time"

	"github.com/pinfold-zk/pinfold/internal/fourletter"
	"github.com/pinfold-zk/pinfold/zk"
)

// A view is the members at a moment.
type view struct {
	config  *Config
	servers map[int64]fourletter.Answer
}

func ask(ctx context.Context, e Ensemble, m Member) fourletter.Answer {
	return fourletter.Answered(ctx, func(ctx context.Context) (fourletter.Status, error) { return e.Status(ctx, m) })
}

// look asks all members.
func look(ctx context.Context, e Ensemble, c *Config) *view {
	v := &view{config: c, servers: map[int64]fourletter.Answer{}}
	for i, answer := range fourletter.AnswersOf(c.Members, func(m *Member) fourletter.Answer { return ask(ctx, e, *m) }) {
		v.servers[c.Members[i].ID] = answer
	}
	return v
}

// leader returns the member that leads, nil if none or several do.
func (v *view) leader() (leader *Member) {
	for i, m := range v.config.Members {
		if v.servers[m.ID].Mode != "leader" {
			continue
		}
		if leader != nil {
			return nil
		}
		leader = &v.config.Members[i]
	}
	return leader
}

// problems returns what is wrong with the ensemble: all members must serve in their roles,
// and one must lead.
func (v *view) problems() (all []string) {
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	for _, m := range v.config.Members {
		switch s := v.servers[m.ID]; {
		case s.Err != nil:
			add("server %d %v", m.ID, s)
		case s.Mode == "follower" && m.Observer:
			add("server %d follows, and zoo.cfg has it as an observer", m.ID)
		case s.Mode == "observer" && !m.Observer:
			add("server %d observes, and zoo.cfg has it as a voter", m.ID)
		case s.Mode != "leader" && s.Mode != "follower" && s.Mode != "observer":
			add("server %d is %s: it is no member of an ensemble", m.ID, s.Mode)
		}
	}
	if v.leader() == nil {
		add("not exactly one member leads")
	}
	return all
}

// lagging returns the members that have not applied a transaction.
func (v *view) lagging(z zk.Zxid) (all []string) {
	for _, m := range v.config.Members {
		if s := v.servers[m.ID]; s.Behind(z) {
			all = append(all, fmt.Sprintf("server %d is at zxid %v, and the leader was at %v", m.ID, s.Zxid, z))
		}
	}
	return all
}

// How often, and how many times, members are asked that lag.
const (
	lagEvery = 500 * time.Millisecond
	lagTimes = 10
)

// unsound looks, and returns what is wrong; nothing if all members serve, one leads, and all
// have applied what the leader had applied when it was asked first.
func unsound(ctx context.Context, e Ensemble, c *Config) (*view, []string) {
	v := look(ctx, e, c)
	if wrong := v.problems(); len(wrong) > 0 {
		return v, wrong
	}
	goal := v.servers[v.leader().ID].Zxid
	for i := 0; ; i++ {
		wrong := append(v.problems(), v.lagging(goal)...)
		if len(wrong) == 0 || i == lagTimes {
			return v, wrong
		}
		select {
		case <-time.After(lagEvery):
		case <-ctx.Done():
			return v, wrong
		}
		v = look(ctx, e, c)
	}
}
