package sim

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/config"
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
		e.weights[0] = 1 // no voter had any weight
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

// members is the ensemble as the configuration of its members lists it.
func (e *electorate) members(observers int) config.Members {
	var b strings.Builder
	for id := 1; id <= len(e.weights)+observers; id++ {
		role := "participant"
		if id > len(e.weights) {
			role = "observer"
		}
		fmt.Fprintf(&b, "server.%d=10.0.1.%d:2888:3888:%s\n", id, id, role)
	}
	if !e.plain {
		groups := map[int][]string{}
		for i, w := range e.weights {
			fmt.Fprintf(&b, "weight.%d=%d\n", i+1, w)
			groups[e.groups[i]] = append(groups[e.groups[i]], strconv.Itoa(i+1))
		}
		for g, ids := range groups {
			fmt.Fprintf(&b, "group.%d=%s\n", g+1, strings.Join(ids, ":"))
		}
	}
	m, err := config.ParseMembers([]byte(b.String()))
	if err != nil {
		panic(fmt.Sprintf("sim: %+v: %v", e, err))
	}
	return *m
}
