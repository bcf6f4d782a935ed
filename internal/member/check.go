package member

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/internal/fourletter"
)

// ErrNotAsked is the error of a question or a request that a server has no way to receive.
var ErrNotAsked = errors.New("there is no way to ask this server")

// checkEnsemble checks what every change needs.
func (p *changes) checkEnsemble() {
	switch leader := p.v.leader(); {
	case len(p.v.Members.Members) == 0:
		p.Refuse("the server is standalone", "a server with standaloneEnabled=false and its own server line is an ensemble of one, which can grow")
	case p.v.Groups:
		p.Refuse("the members have groups or weights", "such a configuration is replaced as a whole: pinfold cli reconfig -file members.txt")
	case leader == nil && p.unknown():
		p.Refuse("the client ports of the members are not in the configuration",
			"name it by --client-port; better write it into the server lines of all members, as in server.1=host:2888:3888;2181, and restart them one by one")
	case leader == nil:
		p.Refuse("no member says that it leads: "+p.statuses(), "the ensemble must serve, and 4lw.commands.whitelist have srvr, as by default")
	default:
		p.OK("server %d leads", leader.ID)
	}
}

// unknown reports whether no member has a known address for clients.
func (p *changes) unknown() bool {
	return !slices.ContainsFunc(p.v.Members.Members, func(m client.Member) bool { return m.ClientAddr() != "" })
}

// statuses says what each member does.
func (p *changes) statuses() string {
	var all []string
	for _, m := range p.v.Members.Members {
		all = append(all, fmt.Sprintf("server %d %v", m.ID, p.v.servers[m.ID]))
	}
	return strings.Join(all, "; ")
}

// checkMajority checks that enough of the voters after a change serve now. An observer that
// becomes a voter by the change counts only afterwards.
func (p *changes) checkMajority(to []client.Member) {
	all := voters(to)
	need := len(all)/2 + 1
	var now, later, missing []int64
	for _, id := range all {
		switch s := p.v.servers[id]; {
		case !s.Serves():
			missing = append(missing, id)
		case s.Mode == "observer":
			later = append(later, id)
		default:
			now = append(now, id)
		}
	}
	after := len(now) + len(later)
	switch {
	case len(all) < 2:
		p.Refuse(fmt.Sprintf("%d voters would be left: one server alone does not survive any failure", len(all)),
			"add another member first. (An ensemble of one needs standaloneEnabled=false, and pinfold cli reconfig)")
	case len(now) < need:
		p.Refuse(fmt.Sprintf("of the %d voters after the change, %s, only %s serve with a vote now; %d are needed for a majority", len(all), idList(all), idList(now), need),
			"start "+idList(missing)+" or wait until they follow; then repeat the command")
	case after == need:
		p.Warn(fmt.Sprintf("after the change the majority needs all of the %d voters that serve: none may fail", after), p.sparse(missing))
	default:
		p.OK("a majority stays: %d of the %d voters after the change serve, %d are needed", after, len(all), need)
	}
	if len(all)%2 == 0 && len(all) > 2 {
		p.Warn(fmt.Sprintf("%d voters survive no more failures than %d", len(all), len(all)-1), "an odd number is better; an observer adds readers without a vote")
	}
}

func (p *changes) sparse(missing []int64) string {
	if len(missing) == 0 {
		return "add a voter soon"
	}
	return "start " + idList(missing)
}

// idList prints "1, 2 and 5".
func idList(ids []int64) string {
	ids = slices.Sorted(slices.Values(ids))
	var words []string
	for _, id := range ids {
		words = append(words, fmt.Sprint(id))
	}
	switch n := len(words); n {
	case 0:
		return "none"
	case 1:
		return words[0]
	default:
		return strings.Join(words[:n-1], ", ") + " and " + words[n-1]
	}
}

// checkLine checks the server line of a new member.
func (p *changes) checkLine(m *client.Member) {
	if m.Client == "" {
		p.Refuse("the line of the new server has no address for clients", "write it after a semicolon: "+m.Line()+";2181")
	}
	for _, other := range p.v.Members.Members {
		for _, a := range m.Addresses {
			for _, b := range other.Addresses {
				if other.ID != m.ID && a.Host == b.Host && samePort(a, b) {
					p.Refuse(fmt.Sprintf("server %d has a port of %s already", other.ID, a.Host), "give the new server ports of its own")
				}
			}
		}
	}
}

func samePort(a, b client.MemberAddress) bool {
	return a.QuorumPort == b.QuorumPort || a.ElectionPort == b.ElectionPort || a.QuorumPort == b.ElectionPort || a.ElectionPort == b.QuorumPort
}

// checkNames checks that the hosts of a new member can be resolved here and by all members.
func (p *changes) checkNames(ctx context.Context, m *client.Member) {
	for _, a := range m.Addresses {
		if _, err := netip.ParseAddr(a.Host); err != nil {
			p.checkName(ctx, a.Host)
		}
	}
}

func (p *changes) checkName(ctx context.Context, host string) {
	ctx, cancel := context.WithTimeout(ctx, fourletter.AnswerWithin)
	defer cancel()
	const advice = "make the name known to the resolver there, or use an address; then repeat the command"
	if err := p.e.LookUp(ctx, nil, host); err != nil {
		p.Refuse(fmt.Sprintf("%s cannot be resolved on this machine: %v", host, err), advice)
		return
	}
	var known, unasked []int64
	for i := range p.v.Members.Members {
		m := &p.v.Members.Members[i]
		switch err := p.e.LookUp(ctx, m, host); {
		case err == nil:
			known = append(known, m.ID)
		case errors.Is(err, ErrNotAsked):
			unasked = append(unasked, m.ID)
		default:
			p.Refuse(fmt.Sprintf("server %d cannot resolve %s: %v", m.ID, host, err), advice)
		}
	}
	if len(known) > 0 {
		p.OK("%s can be resolved here and by %s", host, idList(known))
	}
	if len(unasked) > 0 {
		p.Warn(fmt.Sprintf("%s can be resolved here; whether %s can is not known", host, idList(unasked)),
			"--admin-port asks the administration servers of Pinfold's members")
	}
}

// checkFollows checks that a new server runs and is in sync with this ensemble.
func (p *changes) checkFollows(ctx context.Context, m *client.Member) {
	s := p.v.servers[m.ID]
	if !s.Serves() {
		p.Refuse(fmt.Sprintf("server %d at %s is not in sync with the leader: it %v", m.ID, m.ClientAddr(), s), p.zooCfg(m))
		return
	}
	if s.Mode == "leader" {
		p.Refuse(fmt.Sprintf("server %d at %s leads an ensemble of its own", m.ID, m.ClientAddr()), p.zooCfg(m))
		return
	}
	ctx, cancel := context.WithTimeout(ctx, fourletter.AnswerWithin)
	defer cancel()
	has, err := p.e.MembersAt(ctx, m.ClientAddr())
	if err != nil {
		p.Refuse(fmt.Sprintf("server %d does not show its configuration: %v", m.ID, err), p.zooCfg(m))
		return
	}
	for _, ours := range p.v.Members.Members {
		if other := has.Find(ours.ID); other == nil || other.Addresses[0] != ours.Addresses[0] {
			p.Refuse(fmt.Sprintf("the server at %s follows another ensemble: server %d is not in its configuration as here", m.ClientAddr(), ours.ID), p.zooCfg(m))
			return
		}
	}
	p.OK("server %d runs and follows: it %v", m.ID, s)
}

// zooCfg says how a new server is started.
func (p *changes) zooCfg(m *client.Member) string {
	var b strings.Builder
	fmt.Fprintf(&b, "start it with an empty data directory whose file myid has %d, and these lines in its zoo.cfg; then repeat the command:\n", m.ID)
	b.WriteString("    reconfigEnabled=true\n")
	for _, other := range p.v.Members.Members {
		if other.ID != m.ID {
			b.WriteString("    " + other.Line() + "\n")
		}
	}
	b.WriteString("    " + m.WithRole(true).Line())
	return b.String()
}
