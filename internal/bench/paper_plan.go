package bench

import (
	"maps"
	"slices"
	"time"
)

// The load of the paper's 5.1 on a small machine: fewer clients than its 250, as
// many requests outstanding on each.
const (
	paperConnections = 30
	paperOutstanding = 100
)

// Experiments returns the names of a Paper's experiments, in their order.
func Experiments() []string {
	var names []string
	p := Paper{Sizes: []int{3}}
	for _, s := range p.stages() {
		if !slices.Contains(names, s.experiment) {
			names = append(names, s.experiment)
		}
	}
	return names
}

// stages is the plan of the first run; further ones may leave points out.
func (p *Paper) stages() []stage {
	plan := p.form()
	if !p.Quick || p.BarRuns == 0 {
		return plan
	}
	full := *p
	full.Quick = false
	for _, s := range full.form() {
		plan = withBars(plan, s)
	}
	return plan
}

// withBars adds to a plan the points of a stage that have a Bar, if they are missing.
func withBars(plan []stage, s stage) []stage {
	i := slices.IndexFunc(plan, func(have stage) bool { return have.experiment == s.experiment && have.members == s.members })
	s.points = slices.DeleteFunc(slices.Clone(s.points), func(q point) bool {
		return !s.isBar(q) || i >= 0 && slices.ContainsFunc(plan[i].points, func(have point) bool { return maps.Equal(have.params, q.params) })
	})
	switch {
	case len(s.points) == 0:
	case i < 0 || s.started:
		// Memory is measured on servers that have done nothing else.
		plan = append(plan, s)
	default:
		plan[i].points = append(plan[i].points, s.points...)
	}
	return plan
}

// isBar reports whether a point of the stage has a Bar.
func (s *stage) isBar(q point) bool {
	return slices.ContainsFunc(bars(), func(b Bar) bool {
		return b.Experiment == s.experiment && b.Members == s.members && (b.Params == nil || maps.Equal(b.Params, q.params))
	})
}

// form is the plan that Quick or its absence asks for.
func (p *Paper) form() (plan []stage) {
	for _, n := range p.Sizes {
		plan = append(plan, p.sized(n)...)
	}
	if !slices.Contains(p.Sizes, 3) {
		plan = append(plan, p.three()...)
	}
	for _, n := range p.ensembles() {
		plan = append(plan, stage{experiment: "broadcast", members: n, broadcast: true, points: broadcastPoints()})
	}
	plan = append(plan,
		stage{experiment: "failures", members: 5, failures: true},
		stage{experiment: "sessions", members: 1, started: true, extra: []string{"clientPortAddress=0.0.0.0"}, points: sessionPoints(p.sessions)},
		stage{experiment: "profile", members: 3, extra: []string{"snapCount=50000"}, points: p.profilePoints()},
	)
	for _, n := range p.treeSizes() {
		plan = append(plan, stage{experiment: "trees", members: 3, started: true, points: treePoints(n)})
	}
	if !p.Quick {
		plan = append(plan, stage{experiment: "trees", members: 1, started: true, own: true, points: hugePoints(), extra: noSnapshots()})
	}
	return plan
}

// sized are the stages on n servers. Those that write much have servers of their
// own, as what is logged is not removed before the servers are; the quick form
// does not write long enough to fill a disk.
func (p *Paper) sized(n int) []stage {
	plan := []stage{{experiment: "throughput", members: n, shared: p.Quick, points: throughputPoints(p.ratios(), false)}}
	if n < 3 {
		return plan
	}
	if !p.Quick || n == 3 {
		plan = append(plan, stage{experiment: "leader", members: n, shared: p.Quick, points: throughputPoints(p.ratios(), true)})
	}
	plan = append(plan,
		stage{experiment: "creates", members: n, shared: true, points: createPoints(p.workers())},
	)
	if n == 3 {
		plan = append(plan, p.three()...)
	}
	return plan
}

// three are the stages that are measured on three servers alone.
func (p *Paper) three() []stage {
	return []stage{
		{experiment: "alone", members: 3, shared: true, points: alonePoints()},
		{experiment: "sync", members: 3, shared: true, points: p.syncPoints()},
		{experiment: "watchers", members: 3, shared: true, points: p.watcherPoints()},
		{experiment: "barriers", members: 3, shared: true, points: p.barrierPoints()},
		{experiment: "open", members: 3, shared: p.Quick, points: p.openPoints()},
	}
}

// ratios are the shares of reads, in percent.
func (p *Paper) ratios() []float64 {
	if p.Quick {
		return []float64{0, 50, 80, 100}
	}
	return []float64{0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100}
}

// ensembles are the sizes that have a leader.
func (p *Paper) ensembles() []int {
	return slices.DeleteFunc(slices.Clone(p.Sizes), func(n int) bool { return n < 3 })
}

// workers are those of table 2.
func (p *Paper) workers() []int {
	if p.Quick {
		return []int{1, 10}
	}
	return []int{1, 10, 20}
}

func failureStep(quick bool) time.Duration {
	if quick {
		return 2 * time.Second
	}
	return 5 * time.Second
}

// treeSizes are numbers of znodes of 100 bytes.
func (p *Paper) treeSizes() []int {
	if p.Quick {
		return []int{100_000}
	}
	return []int{100_000, 1_000_000}
}
