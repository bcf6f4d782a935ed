package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Failover records the throughput of an ensemble under full load while members
// of it are killed and started again, as figure 8 of the ZooKeeper paper shows
// it: a follower fails and recovers; a different one; the leader; two followers
// one after the other, of five or more members; the leader again.
type Failover struct {
	Systems     []System
	Members     int
	Connections int
	Outstanding int
	ReadRatio   float64
	Size        int
	Keys        int
	Step        time.Duration // between two events
	Sample      time.Duration // width of a sample
	Warmup      time.Duration // before the record begins
	Dir         string        // for data; what is made there is removed
	Port        int
	Progress    io.Writer
}

// Failovers is what Failover found.
type Failovers struct {
	Start   time.Time      `json:"start"`
	Command string         `json:"command"`
	Commit  string         `json:"commit"`
	Machine Machine        `json:"machine"`
	Disk    string         `json:"disk"`
	Params  map[string]any `json:"params"`
	Sample  float64        `json:"sample_seconds"`
	Systems []Timeline     `json:"systems"`
}

// A Timeline is the record of one system. The i-th sample begins i times the
// width of a sample after the beginning.
type Timeline struct {
	System  string   `json:"system"`
	Version string   `json:"version"`
	Events  []Event  `json:"events"`
	Reads   []uint32 `json:"reads"`  // answered, sample by sample
	Writes  []uint32 `json:"writes"` // likewise
}

// An Event is something that was done to a member.
type Event struct {
	Mark   string  `json:"mark"` // of the figure: 1, 2, … , 4a
	Member int     `json:"member"`
	Leads  bool    `json:"leads"`          // it led when it was killed
	Killed float64 `json:"killed_seconds"` // since the beginning of the record
	// Started is when the process was started again, Back when it served and had
	// caught up.
	Started float64 `json:"started_seconds"`
	Back    float64 `json:"back_seconds"`
	// Gap is the longest time without an acknowledged write between Killed and
	// Started, in milliseconds.
	Gap float64 `json:"gap_millis"`
}

// Run records the systems one after the other.
func (f *Failover) Run(ctx context.Context) (*Failovers, error) {
	if len(f.Systems) == 0 || f.Members < 3 || f.Members > maxMembers || f.Connections < 1 || f.Outstanding < 1 ||
		f.ReadRatio < 0 || f.ReadRatio >= 1 || f.Size < 0 || f.Keys < 1 || f.Step < tick || f.Sample < tick {
		return nil, errors.New("bench: failover: a parameter is out of range")
	}
	if err := os.MkdirAll(f.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	found := &Failovers{
		Start: time.Now(), Command: strings.Join(os.Args, " "), Commit: Commit(),
		Machine: ThisMachine(), Disk: describeDisk(f.Dir), Sample: f.Sample.Seconds(),
		Params: map[string]any{
			"members": f.Members, "connections": f.Connections, "outstanding": f.Outstanding,
			"read_ratio": f.ReadRatio, "size": f.Size, "keys": f.Keys,
		},
	}
	for _, s := range f.Systems {
		line, err := f.system(ctx, s)
		if err != nil {
			return nil, err
		}
		found.Systems = append(found.Systems, *line)
	}
	return found, nil
}

// system records one system, on a fresh ensemble.
func (f *Failover) system(ctx context.Context, s System) (*Timeline, error) {
	dir, err := os.MkdirTemp(f.Dir, s.Name+"-")
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	e, err := startEnsemble(ctx, s, dir, f.Port, f.Members)
	if err != nil {
		return nil, err
	}
	defer e.stop()
	line, err := f.record(ctx, e)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name, e.failed(err)) // the logs stay
	}
	e.stop()
	return line, os.RemoveAll(dir)
}

// record applies the load and does what the plan says.
func (f *Failover) record(ctx context.Context, e *ensemble) (*Timeline, error) {
	line := &Timeline{System: e.system.Name, Version: serverVersion(ctx, e.system.TLS, e.members[0].addr)}
	b, err := startBackground(ctx, Mix{
		Options: Options{Servers: e.addresses(), TLS: e.system.TLS}, Connections: f.Connections, Outstanding: f.Outstanding,
		ReadRatio: f.ReadRatio, Size: f.Size, Keys: f.Keys,
	}, &track{every: f.Sample})
	if err != nil {
		return nil, err
	}
	d := &drama{Failover: f, ensemble: e, now: b.now}
	if err = rest(b.run.ctx, f.Warmup); err == nil {
		// The record begins with a sample, so that it has no half ones.
		d.start = (b.now()/int64(f.Sample) + 1) * int64(f.Sample)
		err = d.play(b.run.ctx)
	}
	end := b.now()
	if err := b.finish(ctx, err); err != nil {
		return nil, err
	}
	for i := range d.events {
		ev := &d.events[i]
		ev.Gap = b.track.longestGap(d.at(ev.Killed), d.at(ev.Started)).Seconds() * 1000
	}
	first, last := int(d.start/int64(f.Sample)), int(end/int64(f.Sample))
	line.Reads, line.Writes = b.track.samples(first, last)
	line.Events = d.events
	return line, nil
}

// A drama does the events.
type drama struct {
	*Failover
	ensemble *ensemble
	now      func() int64
	start    int64 // of the record
	events   []Event
}

// seconds is the time since the beginning of the record; at is its inverse.
func (d *drama) seconds() float64 { return time.Duration(d.now() - d.start).Seconds() }

func (d *drama) at(seconds float64) int64 { return d.start + int64(seconds*1e9) }

// play goes through the plan: what is killed together is also brought back
// together.
func (d *drama) play(ctx context.Context) error {
	acts := [][]role{{{"1", follower(0)}}, {{"2", follower(1)}}, {{"3", theLeader}}}
	if d.Members >= 5 {
		acts = append(acts, []role{{"4a", follower(0)}, {"4b", follower(1)}})
	}
	acts = append(acts, []role{{fmt.Sprint(len(acts) + 1), theLeader}})
	for _, act := range acts {
		if err := d.act(ctx, act); err != nil {
			return err
		}
	}
	return rest(ctx, d.Step)
}

// A role chooses the member that is killed, and names the event.
type role struct {
	mark string
	who  func(ctx context.Context, e *ensemble) (member int, leads bool, err error)
}

func theLeader(ctx context.Context, e *ensemble) (int, bool, error) {
	i, err := e.leader(ctx)
	return i, true, err
}

// follower returns the n-th of the followers that were there at first. Where one
// of several is away already, the numbers of the others move up: then it is the
// first of those.
func follower(n int) func(context.Context, *ensemble) (int, bool, error) {
	return func(ctx context.Context, e *ensemble) (int, bool, error) {
		list, err := e.followers(ctx)
		if err != nil {
			return 0, false, err
		}
		return list[min(n, len(list)-1)], false, nil
	}
}

// act kills the members with a step between, and starts them a step later.
func (d *drama) act(ctx context.Context, roles []role) error {
	first := len(d.events)
	for _, r := range roles {
		if err := rest(ctx, d.Step); err != nil {
			return err
		}
		i, leads, err := r.who(ctx, d.ensemble)
		if err != nil {
			return err
		}
		d.events = append(d.events, Event{Mark: r.mark, Member: i + 1, Leads: leads, Killed: d.seconds()})
		d.ensemble.kill(i)
		d.say("%s: member %d is killed, %s", r.mark, i+1, map[bool]string{true: "the leader", false: "a follower"}[leads])
	}
	if err := rest(ctx, d.Step); err != nil {
		return err
	}
	for k := first; k < len(d.events); k++ {
		d.events[k].Started = d.seconds()
		if err := d.ensemble.restart(d.events[k].Member - 1); err != nil {
			return err
		}
	}
	for k := first; k < len(d.events); k++ {
		if err := d.ensemble.awaitSync(ctx, d.events[k].Member-1); err != nil {
			return err
		}
		d.events[k].Back = d.seconds()
		d.say("%s: member %d is back", d.events[k].Mark, d.events[k].Member)
	}
	return nil
}

func (d *drama) say(format string, args ...any) {
	if d.Progress != nil {
		fmt.Fprintf(d.Progress, "== %s, %5.1f s: "+format+"\n",
			append([]any{d.ensemble.system.Name, d.seconds()}, args...)...)
	}
}

// Print writes what each event did, in Markdown.
func (f *Failovers) Print(w io.Writer) error {
	var b strings.Builder
	b.WriteString("| | |")
	for _, s := range f.Systems {
		fmt.Fprintf(&b, " %s: no write for | back in sync after |", s.System)
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---:|---:|", len(f.Systems)) + "\n")
	for k, ev := range f.Systems[0].Events {
		who := "a follower"
		if ev.Leads {
			who = "the leader"
		}
		fmt.Fprintf(&b, "| %s | %s |", ev.Mark, who)
		for _, s := range f.Systems {
			ev := s.Events[k]
			fmt.Fprintf(&b, " %s | %s |", quantity(ev.Gap, "ms"), quantity(ev.Back-ev.Started, "s"))
		}
		b.WriteString("\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteJSON writes everything to a file, on one line: most of it are samples.
func (f *Failovers) WriteJSON(name string) error {
	b, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	if err := os.WriteFile(name, append(b, '\n'), 0o644); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	return nil
}

// sectionFailover is the section of the page that keeps what Failover found.
const sectionFailover = "members that fail"

// WriteMarkdown writes the table into its section of a page, with the picture,
// whose name is relative to the page.
func (f *Failovers) WriteMarkdown(name, picture string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "![Throughput over time, while members fail and come back](%s)\n\n", picture)
	fmt.Fprintf(&b, "%s, commit %s, samples of %v ms%s.\n\n", f.Start.UTC().Format("2006-01-02"), f.Commit,
		f.Sample*1000, describe(f.Params))
	if err := f.Print(&b); err != nil {
		return err
	}
	b.WriteString("\n" + f.Machine.describe(f.Disk))
	for _, s := range f.Systems {
		fmt.Fprintf(&b, "- %s: %s\n", s.System, s.Version)
	}
	fmt.Fprintf(&b, "- command: `%s`\n", f.Command)
	return writeSection(filepath.Clean(name), sectionFailover, "While members fail", b.String())
}
