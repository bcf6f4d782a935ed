package member

import (
	"context"
	"fmt"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/internal/plan"
)

// A listed is a member as list shows it.
type listed struct {
	ID      int64  `json:"id"`
	Role    string `json:"role"`  // participant or observer
	State   string `json:"state"` // leader, follower, observer, or why it is not known
	Zxid    string `json:"zxid,omitempty"`
	Release string `json:"release,omitempty"`
	Client  string `json:"client,omitempty"`
	Line    string `json:"line"`
}

// List shows the members and what each of them does.
func List(ctx context.Context, e Ensemble, out *plan.Printer) error {
	v, err := lookAsLeader(ctx, e, nil)
	if err != nil {
		return err
	}
	all := []listed{}
	for i := range v.Members.Members {
		all = append(all, v.listed(&v.Members.Members[i]))
	}
	version := fmt.Sprintf("%x", int64(v.Version))
	if out.JSON {
		out.Value(struct {
			Version string   `json:"version"`
			Members []listed `json:"members"`
		}{version, all})
		return nil
	}
	if len(all) == 0 {
		out.Line("The server is standalone.")
		return nil
	}
	out.Line("%-4s %-12s %-9s %-13s %-22s %s", "id", "role", "state", "zxid", "clients", "release")
	for _, m := range all {
		out.Line("%-4d %-12s %-9s %-13s %-22s %s", m.ID, m.Role, m.State, m.Zxid, m.Client, m.Release)
	}
	out.Line("configuration %s", version)
	return nil
}

func (v *view) listed(m *client.Member) listed {
	l := listed{ID: m.ID, Role: "participant", Client: m.ClientAddr(), Line: m.Line()}
	if m.Observer {
		l.Role = "observer"
	}
	s := v.servers[m.ID]
	if s.Err != nil {
		l.State = "down?"
		l.Release = s.Err.Error()
		return l
	}
	l.State, l.Zxid, l.Release = s.Mode, s.Zxid.String(), s.Version
	return l
}
