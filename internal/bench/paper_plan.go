package bench

import (
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

// stages is the plan of one run.
func (p *Paper) stages() (plan []stage) {
	for _, n := range p.Sizes {
		plan = append(plan, stage{experiment: "throughput", members: n, points: throughputPoints(p.ratios(), false)})
	}
	for _, n := range p.ensembles() {
		plan = append(plan, stage{experiment: "leader", members: n, points: throughputPoints(p.ratios(), true)})
	}
	for _, n := range p.ensembles() {
		plan = append(plan, stage{experiment: "broadcast", members: n, broadcast: true, points: broadcastPoints()})
	}
	plan = append(plan, stage{experiment: "failures", members: 5, failures: true})
	for _, n := range p.ensembles() {
		plan = append(plan, stage{experiment: "creates", members: n, points: createPoints(p.workers())})
	}
	plan = append(plan,
		stage{experiment: "barriers", members: 3, points: p.barrierPoints()},
		stage{experiment: "alone", members: 3, points: alonePoints()},
		stage{experiment: "sync", members: 3, points: syncPoints()},
		stage{experiment: "open", members: 3, points: p.openPoints()},
		stage{experiment: "watchers", members: 3, points: p.watcherPoints()},
		stage{experiment: "sessions", members: 1, started: true, extra: []string{"clientPortAddress=0.0.0.0"}, points: p.sessionPoints()},
		stage{experiment: "profile", members: 3, extra: []string{"snapCount=50000"}, points: p.profilePoints()},
	)
	for _, n := range p.treeSizes() {
		plan = append(plan, stage{experiment: "trees", members: 3, started: true, points: treePoints(n)})
	}
	return plan
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
