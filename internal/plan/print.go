package plan

import (
	"encoding/json"
	"fmt"
	"io"
)

// A Printer shows what a command does, as text or as one JSON value a line. An error to
// write is ignored: a change goes on when its output is no longer read.
type Printer struct {
	Out  io.Writer
	JSON bool

	step int // that runs, from 1
}

// Line prints a line of text.
func (o *Printer) Line(format string, args ...any) { fmt.Fprintf(o.Out, format+"\n", args...) }

// Value prints a line of JSON.
func (o *Printer) Value(v any) {
	if b, err := json.Marshal(v); err == nil {
		o.Line("%s", b)
	}
}

// plan shows a plan.
func (o *Printer) plan(p *Plan) {
	if o.JSON {
		o.Value(struct {
			Event string `json:"event"`
			*Plan
		}{"plan", p})
		return
	}
	if p.Version == "" {
		o.Line("%s", p.Command)
	} else {
		o.Line("%s, configuration %s", p.Command, p.Version)
	}
	for _, c := range p.Checks {
		o.Line("  %-8s %s", c.Result, c.Text)
		if c.Advice != "" {
			o.Line("           %s", c.Advice)
		}
	}
	if p.Refused() != nil {
		return
	}
	for i, s := range p.Steps {
		o.Line("  step %d   %s", i+1, s.Text)
	}
}

// An event is a line of JSON about a step.
type event struct {
	Event   string `json:"event"` // begin, progress, done, failed, end
	Step    int    `json:"step,omitempty"`
	Text    string `json:"text,omitempty"`
	Version string `json:"version,omitempty"`
}

func (o *Printer) begins(i int, p *Plan) {
	o.step = i + 1
	if o.JSON {
		o.Value(event{Event: "begin", Step: o.step, Text: p.Steps[i].Text})
		return
	}
	o.Line("%d/%d %s …", o.step, len(p.Steps), p.Steps[i].Text)
}

func (o *Printer) progress(text string) {
	if o.JSON {
		o.Value(event{Event: "progress", Step: o.step, Text: text})
		return
	}
	o.Line("    %s", text)
}

func (o *Printer) done() {
	if o.JSON {
		o.Value(event{Event: "done", Step: o.step})
		return
	}
	o.Line("    done")
}

func (o *Printer) failed(err error) {
	if o.JSON {
		o.Value(event{Event: "failed", Step: o.step, Text: err.Error()})
	}
}

func (o *Printer) end(p *Plan) {
	if o.JSON {
		o.Value(event{Event: "end", Text: p.After, Version: p.NewVersion})
		return
	}
	if p.After != "" {
		o.Line("%s", p.After)
	}
}
