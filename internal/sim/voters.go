package sim

import (
	"fmt"
	"math/rand/v2"

	"github.com/pinfold-zk/pinfold/internal/zab/quorum"
)

// electorate is the voters of a run, with their weights and groups, by index from
// 0 for member 1. By default each voter weighs 1, and all are one group.
type electorate struct {
	weights []int
	groups  []int
	plain   bool // a majority of equals
}

// drawElectorate draws the voters: mostly equals, sometimes with weights that
// differ, be they 0 or such that half the weight is possible, or in groups.
func drawElectorate(r *rand.Rand, voters int) electorate {
	e := electorate{weights: make([]int, voters), groups: make([]int, voters)}
	kind := r.IntN(10)
	e.plain = kind < 7
	for i := range voters {
		e.weights[i] = 1
		if kind == 7 || kind == 9 {
			e.weights[i] = r.IntN(4)
		}
		if kind >= 8 {
			e.groups[i] = r.IntN(3)
		}
	}
	if !e.holds(func(int) bool { return true }) {
		e.weights[0] = 1 // nobody had any weight
	}
	return e
}

// holds reports whether a set of members is a quorum: it has more than half of the
// weight in more than half of the groups that have weight.
func (e *electorate) holds(has func(id int) bool) bool {
	total, have := map[int]int{}, map[int]int{}
	for i, w := range e.weights {
		if w == 0 {
			continue
		}
		total[e.groups[i]] += w
		if has(i + 1) {
			have[e.groups[i]] += w
		}
	}
	won := 0
	for g, w := range have {
		if 2*w > total[g] {
			won++
		}
	}
	return 2*won > len(total)
}

// system is the electorate as members are told of it.
func (e *electorate) system() *quorum.System {
	if e.plain {
		ids := make([]int64, len(e.weights))
		for i := range ids {
			ids[i] = int64(i + 1)
		}
		return quorum.Majority(ids...)
	}
	weights, groups := map[int64]int64{}, map[int64]int64{}
	for i := range e.weights {
		weights[int64(i+1)], groups[int64(i+1)] = int64(e.weights[i]), int64(e.groups[i])
	}
	system, err := quorum.Weighted(weights, groups)
	if err != nil {
		panic(fmt.Sprintf("sim: %+v: %v", e, err))
	}
	return system
}
