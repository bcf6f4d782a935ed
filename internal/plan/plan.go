// Package plan is a command that changes an ensemble, as the user sees it: checks and
// steps that are shown, confirmed, and carried out one after the other.
//
//	plan.go   checks and steps, and carrying them out
//	poll.go   waits for something, and reports what it waits for
//	print.go  text and JSON
package plan

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrRefused is the error of a command whose checks have failed; the plan that was printed
// says why. Nothing was changed.
var ErrRefused = errors.New("refused: nothing was changed")

// ErrDeclined is the error of a command that the user has not confirmed.
var ErrDeclined = errors.New("nothing was changed")

// The results of a check.
const (
	resultOK      = "ok"
	resultWarning = "warning"
	resultRefused = "refused"
)

// A Check is a condition of a plan, and whether it holds.
type Check struct {
	Result string `json:"result"`
	Text   string `json:"text"`
	Advice string `json:"advice,omitempty"` // what to do
}

// A Step is a part of a plan that is done or not. It can be repeated.
type Step struct {
	Text string `json:"text"`
	// Run carries the step out. say reports progress.
	Run func(ctx context.Context, say func(text string)) error `json:"-"`
}

// A Plan is what a command is about to do.
type Plan struct {
	Command string  `json:"command"`
	Version string  `json:"version,omitempty"` // of the configuration that it changes, in hex
	Checks  []Check `json:"checks"`
	Steps   []Step  `json:"steps"`
	After   string  `json:"after,omitempty"` // what is left to do by hand

	NewVersion string `json:"-"` // of the configuration, when the steps are done
}

// New returns a plan without checks and steps.
func New(command, version string) Plan {
	return Plan{Command: command, Version: version, Checks: []Check{}, Steps: []Step{}}
}

// OK adds a check that holds.
func (p *Plan) OK(format string, args ...any) {
	p.Checks = append(p.Checks, Check{Result: resultOK, Text: fmt.Sprintf(format, args...)})
}

// Warn adds a check that does not hold, and does not refuse the plan.
func (p *Plan) Warn(text, advice string) {
	p.Checks = append(p.Checks, Check{resultWarning, text, advice})
}

// Refuse adds a check that refuses the plan.
func (p *Plan) Refuse(text, advice string) {
	p.Checks = append(p.Checks, Check{resultRefused, text, advice})
}

// Refused returns the first check that refuses the plan, nil if there is none.
func (p *Plan) Refused() *Check {
	for i := range p.Checks {
		if p.Checks[i].Result == resultRefused {
			return &p.Checks[i]
		}
	}
	return nil
}

// Options say how a plan is carried out.
type Options struct {
	Yes    bool          // without asking
	DryRun bool          // shows the plan, and changes nothing
	Wait   time.Duration // how long each step may wait for something
}

// Run shows the plan, asks confirm unless o.Yes, and carries the plan out.
func (p *Plan) Run(ctx context.Context, o Options, out *Printer, confirm func() bool) error {
	out.plan(p)
	switch {
	case p.Refused() != nil:
		return ErrRefused
	case o.DryRun:
		return nil
	case !o.Yes && !confirm():
		return ErrDeclined
	}
	for i := range p.Steps {
		out.begins(i, p)
		if err := p.Steps[i].Run(ctx, out.progress); err != nil {
			out.failed(err)
			return fmt.Errorf("step %d of %d: %s: %w", i+1, len(p.Steps), p.Steps[i].Text, err)
		}
		out.done()
	}
	out.end(p)
	return nil
}
