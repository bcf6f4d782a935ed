package migrate

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/pinfold-zk/pinfold/internal/plan"
)

// A migration is a run that is planned.
type migration struct {
	plan.Plan
	e     Ensemble
	c     *Config
	o     Options
	state *State
	order []Member // to take
	flock *flock   // the canaries; nil if there are none
}

// Run plans a migration, shows the plan, asks confirm unless o.Yes, and carries it out.
func Run(ctx context.Context, e Ensemble, c *Config, o Options, out *plan.Printer, confirm func() bool) error {
	state, err := ReadState(o.State)
	if err != nil {
		return err
	}
	state.begin(o.To, time.Now().UTC())
	v, wrong := unsound(ctx, e, c)
	r := newMigration(e, c, o, state, v, wrong)
	defer r.end()
	return r.Run(ctx, o.Options, out, confirm)
}

// newMigration makes the plan from what the members do, and what is wrong with that.
func newMigration(e Ensemble, c *Config, o Options, state *State, v *view, wrong []string) *migration {
	r := &migration{Plan: plan.New("migrate to "+o.To, ""), e: e, c: c, o: o, state: state}
	for _, id := range o.Only {
		if c.find(id) == nil {
			r.Refuse(fmt.Sprintf("--member %d: zoo.cfg has no server.%d", id, id), "give the id of a member")
		}
	}
	half := r.half(v)
	r.checkSound(v, wrong, half)
	r.order = append(half, r.rest(v)...)
	r.checkQuorums()
	r.checkOld(v)
	r.checkHandOver(v)
	if len(r.order) == 0 {
		r.OK("no member is left to take")
		return r
	}
	if o.Verify != nil && len(half) == 0 {
		r.step("the members are compared, here and after each", o.Verify)
	}
	if o.Canary != "" {
		r.step("a canary session on each member, below "+o.Canary, r.hatch)
	}
	for i := range r.order {
		m := r.order[i]
		r.step(fmt.Sprintf("server %d on %s: %s", m.ID, m.Host, r.what(m, v)), func(ctx context.Context, say func(string)) error {
			return r.takeNext(ctx, i, say)
		})
	}
	r.step("all members are in sync", r.finish)
	return r
}

func (r *migration) step(text string, run func(context.Context, func(string)) error) {
	r.Steps = append(r.Steps, plan.Step{Text: text, Run: run})
}

// what says what is done with a member.
func (r *migration) what(m Member, v *view) string {
	s := v.servers[m.ID]
	if s.Err != nil {
		return "start " + r.o.To + "; it was stopped by a run that did not end"
	}
	leave := ""
	if r.handsOver(m, s) {
		leave = "hand the leadership over, "
	}
	to := r.o.To
	if to == Any {
		to = "it again"
	}
	return fmt.Sprintf("%sstop %s (%s), start %s", leave, s.Version, s.Mode, to)
}

// half returns the members that an earlier run has stopped and that are not back.
func (r *migration) half(v *view) (all []Member) {
	for _, m := range r.c.Members {
		if r.chosen(m) && (r.state.at(m.ID) == stopping || r.state.at(m.ID) == starting) && v.servers[m.ID].Gone() {
			all = append(all, m)
		}
	}
	return all
}

func (r *migration) chosen(m Member) bool {
	return len(r.o.Only) == 0 || slices.Contains(r.o.Only, m.ID)
}

// checkSound checks that nothing is wrong but the members that are half-way.
func (r *migration) checkSound(v *view, wrong []string, half []Member) {
	for _, m := range half {
		wrong = slices.DeleteFunc(wrong, func(text string) bool { return strings.HasPrefix(text, fmt.Sprintf("server %d ", m.ID)) })
		r.Warn(fmt.Sprintf("server %d is down: an earlier run has stopped it", m.ID), "it is started first")
	}
	for _, text := range wrong {
		r.Refuse(text, "no member may be stopped now; repair this, and repeat the command")
	}
	if len(wrong) == 0 && len(half) == 0 {
		r.OK("all %d members serve and are in sync; server %d leads", len(r.c.Members), v.leader().ID)
	}
}

// rest returns the members to take that serve: observers, followers, the leader. The followers
// with the greatest id go first: of those with the same history it is elected when the leader
// leaves, and its new program has run for longest then. A JVM is slow at first.
func (r *migration) rest(v *view) (all []Member) {
	for _, mode := range []string{"observer", "follower", "leader"} {
		for _, m := range slices.Backward(r.c.Members) {
			s := v.servers[m.ID]
			switch {
			case s.Mode != mode || !r.chosen(m):
			case r.o.To != Any && program(s.Version) == r.o.To:
				r.OK("server %d runs %s already: %s", m.ID, r.o.To, s.Version)
			case r.o.To == Any && (r.state.at(m.ID) == done || r.state.at(m.ID) == starting):
				r.OK("server %d was taken already", m.ID)
			default:
				all = append(all, m)
			}
		}
	}
	return all
}

// checkQuorums checks that the members that are left when one stops are a quorum.
func (r *migration) checkQuorums() {
	for _, m := range r.order {
		if !m.Observer && !r.c.quorumWithout(m.ID) {
			r.Refuse(fmt.Sprintf("without server %d the other voters are no quorum: the service would stop while it is away", m.ID),
				"such an ensemble cannot be migrated live: stop it, and start the other servers over the same directories")
		}
	}
}

// checkHandOver warns of a leader of Pinfold's that cannot be asked to hand over.
func (r *migration) checkHandOver(v *view) {
	for _, m := range r.order {
		if s := v.servers[m.ID]; s.Mode == "leader" && program(s.Version) == Pinfold && !r.e.CanHandOver(m) {
			r.Warn(fmt.Sprintf("server %d leads, and is stopped as the leader", m.ID),
				"with --admin-port and the superuser's --auth-file it hands over before, and writes wait for a shorter time")
		}
	}
}

// checkOld warns of what 3.4 does not know.
func (r *migration) checkOld(v *view) {
	for _, m := range r.c.Members {
		if strings.HasPrefix(v.servers[m.ID].Version, "3.4.") {
			r.Warn(fmt.Sprintf("server %d runs %s", m.ID, v.servers[m.ID].Version),
				"until no member is of 3.4, clients must not use what it does not know: containers, TTLs, creates that return a Stat, reconfig")
		}
	}
}

// Show prints what the members do, and what the state file says of them; it returns an error
// if no member may be stopped now.
func Show(ctx context.Context, e Ensemble, c *Config, state *State, out *plan.Printer) error {
	v, wrong := unsound(ctx, e, c)
	if out.JSON {
		out.Value(v.listed(state, wrong))
	} else {
		v.print(out.Out, state)
		for _, text := range wrong {
			out.Line("%s", text)
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("no member may be stopped now: %s", wrong[0])
	}
	if !out.JSON {
		out.Line("all members are in sync: any one may be taken")
	}
	return nil
}

// A listed is a member as Show prints it.
type listed struct {
	ID      int64   `json:"id"`
	Client  string  `json:"client"`
	Mode    string  `json:"mode,omitempty"`
	Runs    string  `json:"runs,omitempty"`
	Version string  `json:"version,omitempty"`
	Zxid    string  `json:"zxid,omitempty"`
	Error   string  `json:"error,omitempty"`
	Record  *record `json:"record,omitempty"`
}

func (v *view) listed(state *State, wrong []string) any {
	list := []listed{}
	for _, m := range v.config.Members {
		s := v.servers[m.ID]
		l := listed{ID: m.ID, Client: m.Client, Mode: s.Mode, Version: s.Version, Record: state.Members[m.ID]}
		if s.Err != nil {
			l.Error = s.String()
		} else {
			l.Runs, l.Zxid = program(s.Version), s.Zxid.String()
		}
		list = append(list, l)
	}
	return struct {
		To       string   `json:"to,omitempty"` // of the last run
		Members  []listed `json:"members"`
		Problems []string `json:"problems"`
	}{state.To, list, append([]string{}, wrong...)}
}

func (v *view) print(out io.Writer, state *State) {
	fmt.Fprintf(out, "%-4s %-22s %-9s %-8s %-22s %-14s %s\n", "id", "clients", "role", "runs", "version", "zxid", "last run: "+state.To)
	for _, m := range v.config.Members {
		s, last := v.servers[m.ID], ""
		if r := state.Members[m.ID]; r != nil {
			last = r.State + " " + r.Since.Format(time.RFC3339)
		}
		if s.Err != nil {
			fmt.Fprintf(out, "%-4d %-22s %v  %s\n", m.ID, m.Client, s, last)
			continue
		}
		fmt.Fprintf(out, "%-4d %-22s %-9s %-8s %-22s %-14v %s\n", m.ID, m.Client, s.Mode, program(s.Version), s.Version, s.Zxid, last)
	}
}
