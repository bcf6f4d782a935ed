package member

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/pinfold-zk/pinfold/client"
)

// A Printer shows what a command does, as text or as one JSON value a line. An error to
// write is ignored: a change goes on when nobody reads about it any more.
type Printer struct {
	Out  io.Writer
	JSON bool

	step int // that runs, from 1
}

func (o *Printer) line(format string, args ...any) { fmt.Fprintf(o.Out, format+"\n", args...) }

func (o *Printer) value(v any) {
	if b, err := json.Marshal(v); err == nil {
		o.line("%s", b)
	}
}

// plan shows a plan.
func (o *Printer) plan(p *plan) {
	if o.JSON {
		o.value(struct {
			Event string `json:"event"`
			*plan
		}{"plan", p})
		return
	}
	o.line("%s, configuration %s", p.Command, p.Version)
	for _, c := range p.Checks {
		o.line("  %-8s %s", c.Result, c.Text)
		if c.Advice != "" {
			o.line("           %s", c.Advice)
		}
	}
	if p.refused() != nil {
		return
	}
	for i, s := range p.Steps {
		o.line("  step %d   %s", i+1, s.Text)
	}
}

// An event is a line of JSON about a step.
type event struct {
	Event   string `json:"event"` // begin, progress, done, failed, end
	Step    int    `json:"step,omitempty"`
	Text    string `json:"text,omitempty"`
	Version string `json:"version,omitempty"`
}

func (o *Printer) begins(i int, p *plan) {
	o.step = i + 1
	if o.JSON {
		o.value(event{Event: "begin", Step: o.step, Text: p.Steps[i].Text})
		return
	}
	o.line("%d/%d %s …", o.step, len(p.Steps), p.Steps[i].Text)
}

func (o *Printer) progress(text string) {
	if o.JSON {
		o.value(event{Event: "progress", Step: o.step, Text: text})
		return
	}
	o.line("    waiting: %s", text)
}

func (o *Printer) done() {
	if o.JSON {
		o.value(event{Event: "done", Step: o.step})
		return
	}
	o.line("    done")
}

func (o *Printer) failed(err error) {
	if o.JSON {
		o.value(event{Event: "failed", Step: o.step, Text: err.Error()})
	}
}

func (o *Printer) end(p *plan, version fmt.Stringer) {
	if o.JSON {
		o.value(event{Event: "end", Text: p.After, Version: version.String()})
		return
	}
	if p.After != "" {
		o.line("%s", p.After)
	}
}

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
func List(ctx context.Context, e Ensemble, out *Printer) error {
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
		out.value(struct {
			Version string   `json:"version"`
			Members []listed `json:"members"`
		}{version, all})
		return nil
	}
	if len(all) == 0 {
		out.line("The server is standalone.")
		return nil
	}
	out.line("%-4s %-12s %-9s %-13s %-22s %s", "id", "role", "state", "zxid", "clients", "release")
	for _, m := range all {
		out.line("%-4d %-12s %-9s %-13s %-22s %s", m.ID, m.Role, m.State, m.Zxid, m.Client, m.Release)
	}
	out.line("configuration %s", version)
	return nil
}

func (v *view) listed(m *client.Member) listed {
	l := listed{ID: m.ID, Role: "participant", Client: m.ClientAddr(), Line: m.Line()}
	if m.Observer {
		l.Role = "observer"
	}
	s := v.servers[m.ID]
	if s.err != nil {
		l.State = "down?"
		l.Release = s.err.Error()
		return l
	}
	l.State, l.Zxid, l.Release = s.Mode, s.Zxid.String(), s.Version
	return l
}
