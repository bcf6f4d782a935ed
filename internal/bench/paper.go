package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Paper repeats the evaluation of the ZooKeeper paper, its section 5, and goes on
// where the paper ends. Each system is measured in turn, a run after the other, on
// servers that are started for the purpose, all on this machine.
//
// What is measured is kept in a file after every point. A Paper that finds the
// file goes on where that one was interrupted.
type Paper struct {
	Systems     []System // the others are compared with the first
	Sizes       []int    // servers of an ensemble, for the experiments that vary them
	Runs        int      // of everything; a figure is the median of them
	BarRuns     int      // of each point that has a Bar, if more; then Quick has these points too
	Quick       bool     // fewer points, smaller trees
	Barriers    []int    // of table 3, one after the other, unless Quick
	Experiments []string // of Experiments(); none for all
	Out         string   // directory of what is found
	Dir         string   // for the servers' data; it is created, and what is made there removed
	Port        int      // that the servers are given, and as many above it as they need
	Duration    time.Duration
	Warmup      time.Duration
	Progress    io.Writer

	found    *PaperData
	plan     []stage
	sessions int // of the experiment with idle ones
	began    time.Time
	ended    int // points measured since began
}

// PaperData is what a Paper has found, over all its runs.
type PaperData struct {
	Start    time.Time         `json:"start"`
	End      time.Time         `json:"end"`
	Command  string            `json:"command"`
	Commit   string            `json:"commit"`
	Machine  Machine           `json:"machine"`
	Disk     string            `json:"disk"`
	Quick    bool              `json:"quick"`
	Seconds  float64           `json:"seconds_per_point"`
	Systems  []string          `json:"systems"`
	Versions map[string]string `json:"versions"`
	Samples  []Sample          `json:"samples"`
	Failures []Failures        `json:"failures"`
}

// A Sample is one point of one curve, measured once.
type Sample struct {
	Experiment string             `json:"experiment"`
	System     string             `json:"system"`
	Members    int                `json:"members"`
	Run        int                `json:"run"` // from 1
	Params     map[string]float64 `json:"params"`
	Values     map[string]float64 `json:"values"`
}

// Failures is the timeline of figure 8, of one run.
type Failures struct {
	Run    int     `json:"run"`
	Sample float64 `json:"sample_seconds"`
	Timeline
}

// paperFile is where PaperData is kept, below Out.
const paperFile = "paper.json"

// ReadPaper returns what a Paper has found that wrote into a directory.
func ReadPaper(dir string) (*PaperData, error) {
	b, err := os.ReadFile(filepath.Join(dir, paperFile))
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	found := &PaperData{}
	if err := json.Unmarshal(b, found); err != nil {
		return nil, fmt.Errorf("bench: %s: %w", filepath.Join(dir, paperFile), err)
	}
	return found, nil
}

// Values returns what the runs have measured of one value at one point, run after
// run; of all points of the experiment if params is nil.
func (d *PaperData) Values(experiment, system string, members int, params map[string]float64, value string) (list []float64) {
	for _, s := range d.Samples {
		if v, ok := s.Values[value]; ok && s.is(experiment, system, members, params) {
			list = append(list, v)
		}
	}
	return list
}

func (s *Sample) is(experiment, system string, members int, params map[string]float64) bool {
	return s.Experiment == experiment && s.System == system && s.Members == members &&
		(params == nil || maps.Equal(s.Params, params))
}

// Run measures what is missing, and returns all that there is: also after an
// error, or an interrupt.
func (p *Paper) Run(ctx context.Context) (*PaperData, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	for _, dir := range []string{p.Dir, p.Out} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, fmt.Errorf("bench: %w", err)
		}
	}
	if err := p.resume(); err != nil {
		return nil, err
	}
	p.began = time.Now()
	for run := 1; run <= max(p.Runs, p.BarRuns); run++ {
		for rest := p.plan; len(rest) > 0; {
			n := onSameServers(rest)
			for k := range p.Systems {
				system := p.Systems[(k+run-1)%len(p.Systems)] // they take turns in being the first
				if err := p.visit(ctx, rest[:n], system, run); err != nil {
					return p.found, err
				}
			}
			rest = rest[n:]
		}
	}
	p.found.End = time.Now()
	return p.found, p.save()
}

func (p *Paper) check() error {
	known := Experiments()
	for _, e := range p.Experiments {
		if !slices.Contains(known, e) {
			return fmt.Errorf("bench: there is no experiment %q; there are %s", e, strings.Join(known, ", "))
		}
	}
	for _, n := range p.Sizes {
		if n < 1 || n > maxMembers {
			return fmt.Errorf("bench: paper: an ensemble of %d; it must have 1 to %d servers", n, maxMembers)
		}
	}
	if len(p.Systems) == 0 || len(p.Sizes) == 0 || p.Runs < 1 || p.Duration < tick || p.Out == "" {
		return errors.New("bench: paper: a parameter is out of range")
	}
	p.sessions = p.idleSessions()
	p.plan = slices.DeleteFunc(p.stages(), func(s stage) bool {
		return len(p.Experiments) > 0 && !slices.Contains(p.Experiments, s.experiment)
	})
	return nil
}

// resume reads what an earlier Paper has found, which must have measured the same
// on the same machine.
func (p *Paper) resume() error {
	fresh := &PaperData{
		Start: time.Now(), Command: strings.Join(os.Args, " "), Commit: Commit(), Machine: ThisMachine(),
		Disk: describeDisk(p.Dir), Quick: p.Quick, Seconds: p.Duration.Seconds(), Versions: map[string]string{},
	}
	for _, s := range p.Systems {
		fresh.Systems = append(fresh.Systems, s.Name)
	}
	found, err := ReadPaper(p.Out)
	switch {
	case errors.Is(err, os.ErrNotExist):
		p.found = fresh
		return nil
	case err != nil:
		return err
	case found.Commit != fresh.Commit || found.Machine != fresh.Machine || found.Quick != fresh.Quick ||
		found.Seconds != fresh.Seconds || !slices.Equal(found.Systems, fresh.Systems):
		return fmt.Errorf("bench: %s holds what another program, machine or set of options has measured; "+
			"choose another --out, or remove it", filepath.Join(p.Out, paperFile))
	}
	p.say("going on with %s: %d points are measured", filepath.Join(p.Out, paperFile), len(found.Samples))
	p.found = found
	return nil
}

// save replaces the file, whole or not at all.
func (p *Paper) save() error {
	b, err := json.MarshalIndent(p.found, "", " ")
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	name := filepath.Join(p.Out, paperFile)
	if err := os.WriteFile(name+".new", append(b, '\n'), 0o644); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	return nil
}

// A stage is points of one experiment that are measured on the same servers, one
// after the other.
type stage struct {
	experiment string
	members    int
	extra      []string // lines of zoo.cfg
	points     []point
	failures   bool // the stage is figure 8; it has no points
	broadcast  bool // of a System's Broadcast
	own        bool // of this program alone
	started    bool // only for servers that are started here: it needs their processes
	shared     bool // on the servers of the stage before, if that is shared too
}

// onSameServers returns how many stages at the beginning of a plan are measured on
// the same servers.
func onSameServers(plan []stage) int {
	n := 1
	for n < len(plan) && plan[n-1].shared && plan[n].shared && plan[n].members == plan[0].members {
		n++
	}
	return n
}

// A point is one measurement.
type point struct {
	params map[string]float64
	run    func(ctx context.Context, v *paperVisit) (values, error)
}

// A paperVisit is a stage of one system in one run.
type paperVisit struct {
	*Paper
	*ensemble // without members for a System of hosts
}

// suits reports whether a system can be measured in a stage.
func (s *stage) suits(system System) bool {
	if s.broadcast || s.own {
		return system.Broadcast != nil
	}
	return system.Hosts == nil || !s.started && !s.failures && s.members == len(system.Hosts)
}

// visit measures what is missing of stages that share their servers.
func (p *Paper) visit(ctx context.Context, stages []stage, system System, run int) error {
	if stages[0].failures {
		return p.failures(ctx, &stages[0], system, run)
	}
	stages = slices.DeleteFunc(slices.Clone(stages), func(s stage) bool {
		return len(p.missing(&s, system, run)) == 0
	})
	if len(stages) == 0 {
		return nil
	}
	first := &stages[0]
	if first.broadcast {
		system.Command = system.Broadcast
	}
	var err error
	e := &ensemble{system: system}
	if system.Hosts == nil {
		dir, err := os.MkdirTemp(p.Dir, system.Name+"-")
		if err != nil {
			return fmt.Errorf("bench: %w", err)
		}
		if e, err = startEnsemble(ctx, system, dir, p.Port, first.members, first.extra...); err != nil {
			return err
		}
	}
	defer e.stop()
	v := &paperVisit{p, e}
	if p.found.Versions[system.Name] == "" {
		p.found.Versions[system.Name] = serverVersion(ctx, system.TLS, v.addresses()[0])
	}
	if first.broadcast {
		err = rest(ctx, 2*time.Second) // it loads itself
	} else {
		err = v.warm(ctx)
	}
	if err != nil {
		return e.failed(err)
	}
	for i := range stages {
		if err := v.stage(ctx, &stages[i], run); err != nil {
			return err
		}
	}
	e.stop()
	if e.dir == "" {
		return nil
	}
	return os.RemoveAll(e.dir)
}

// stage measures what is missing of a stage, point by point.
func (v *paperVisit) stage(ctx context.Context, s *stage, run int) error {
	for _, q := range v.missing(s, v.system, run) {
		got, err := q.run(ctx, v)
		if err != nil {
			return fmt.Errorf("%s: %s, %d servers, %v: %w", v.system.Name, s.experiment, s.members, q.params, v.failed(err))
		}
		v.found.Samples = append(v.found.Samples, Sample{
			Experiment: s.experiment, System: v.system.Name, Members: s.members, Run: run, Params: q.params, Values: got,
		})
		if err := v.save(); err != nil {
			return err
		}
		v.tell(s, v.system, run, q.params, got)
	}
	return nil
}

// missing are the points of a stage that are to be measured of a system in a run,
// and are not yet.
func (p *Paper) missing(s *stage, system System, run int) (list []point) {
	for _, q := range s.points {
		if s.suits(system) && run <= p.runsOf(s, q) && !p.has(s, system, run, q.params) {
			list = append(list, q)
		}
	}
	return list
}

// runsOf is how often a point is measured. Points that only
// this program can reach have no target, and take long.
func (p *Paper) runsOf(s *stage, q point) int {
	if s.isBar(q) && !s.own {
		return max(p.Runs, p.BarRuns)
	}
	return p.Runs
}

func (p *Paper) has(s *stage, system System, run int, params map[string]float64) bool {
	return slices.ContainsFunc(p.found.Samples, func(x Sample) bool {
		return x.Run == run && x.is(s.experiment, system.Name, s.members, params)
	})
}

// failures records figure 8.
func (p *Paper) failures(ctx context.Context, s *stage, system System, run int) error {
	if !s.suits(system) || p.recorded(system, run) {
		return nil
	}
	f := Failover{
		Systems: []System{system}, Members: s.members, Connections: paperConnections, Outstanding: paperOutstanding,
		ReadRatio: 0.7, Size: valueBytes, Keys: mixKeys, Step: failureStep(p.Quick), Sample: 100 * time.Millisecond,
		Warmup: p.Warmup, Dir: p.Dir, Port: p.Port,
	}
	found, err := f.Run(ctx)
	if err != nil {
		return err
	}
	p.found.Failures = append(p.found.Failures, Failures{Run: run, Sample: found.Sample, Timeline: found.Systems[0]})
	p.ended++
	p.say("run %d of %d: %s: failures recorded", run, max(p.Runs, p.BarRuns), system.Name)
	return p.save()
}

// tell prints a line of progress for a point.
func (p *Paper) tell(s *stage, system System, run int, params map[string]float64, got values) {
	p.ended++
	left := p.left()
	each := time.Since(p.began) / time.Duration(p.ended)
	p.say("run %d of %d: %s, %d servers: %s %s: %s; %d left, about %v", run, max(p.Runs, p.BarRuns), system.Name, s.members,
		s.experiment, figures(params), figures(chief(got)), left, (time.Duration(left) * each).Round(time.Minute))
}

// left counts the points that are still to be measured.
func (p *Paper) left() (n int) {
	for i := range p.plan {
		s := &p.plan[i]
		for _, system := range p.Systems {
			for run := 1; run <= max(p.Runs, p.BarRuns); run++ {
				n += len(p.missing(s, system, run))
				if s.failures && s.suits(system) && !p.recorded(system, run) {
					n++
				}
			}
		}
	}
	return n
}

// recorded reports whether figure 8 is there.
func (p *Paper) recorded(system System, run int) bool {
	return slices.ContainsFunc(p.found.Failures, func(f Failures) bool { return f.Run == run && f.System == system.Name })
}

// chief leaves out what a line of progress has no room for.
func chief(got values) values {
	few := maps.Clone(got)
	maps.DeleteFunc(few, func(k string, _ float64) bool { return strings.HasSuffix(k, "_ms") || strings.HasSuffix(k, "_rate") })
	return few
}

// figures lists names and values in the order of the names.
func figures(m map[string]float64) string {
	var list []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		list = append(list, fmt.Sprintf("%s %.4g", k, m[k]))
	}
	return strings.Join(list, ", ")
}

func (p *Paper) say(format string, args ...any) {
	if p.Progress != nil {
		fmt.Fprintf(p.Progress, format+"\n", args...)
	}
}
