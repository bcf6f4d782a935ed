package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
)

// steadyRows are the rows whose loads can be given to both systems in turn, many times: they leave
// the servers as they found them, or, fill, each with the same number of znodes more.
var steadyRows = []string{"reads", "writes", "mix", "reads120", "create", "create10", "watch", "connect", "sessions", "fill"}

// takeTurns starts all systems, which stay up, and gives them the load of every
// wanted row in turn, c.Turns times. What each load measured is appended to
// found.Visits, so the n-th load of a row on one system and the n-th on the
// other followed each other. What disturbs the machine for longer than a load
// takes disturbs both alike.
func (c *Compare) takeTurns(ctx context.Context, found *Comparison) (err error) {
	var sides []*side
	defer func() {
		for _, s := range sides {
			err = errors.Join(err, s.stop(err == nil))
		}
	}()
	for k := range c.Systems {
		s, err := c.startSide(ctx, k)
		if err != nil {
			return err
		}
		sides = append(sides, s)
	}
	for r, row := range sides[0].rows {
		if !slices.Contains(steadyRows, row.name) || !c.wants(row.name) {
			continue
		}
		c.say("%s, %d turns", row.name, c.Turns)
		for turn := range c.Turns {
			for k := range sides {
				if turn%2 == 1 { // whichever is first may find the machine in another state
					k = len(sides) - 1 - k
				}
				s := sides[k]
				s.visit.values = values{}
				o := s.visit.ensembleOptions(s.ensemble)
				o.Progress = nil // the loads are short and many
				if err := s.rows[r].run(ctx, o); err != nil {
					return fmt.Errorf("%s: %s: %w", s.visit.system.Name, row.name, s.ensemble.failed(err))
				}
				found.Visits[k] = append(found.Visits[k], s.visit.values)
			}
		}
	}
	return nil
}

// A side is one of the systems that take turns. visit.values are of one load.
type side struct {
	visit    *visit
	ensemble *ensemble // or a server alone
	rows     []loadRow // the same rows on every side
}

// startSide starts the k-th system, with ports of its own, and lets it warm up.
func (c *Compare) startSide(ctx context.Context, k int) (*side, error) {
	dir, err := os.MkdirTemp(c.Dir, c.Systems[k].Name+"-")
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	v := &visit{Compare: c, system: c.Systems[k], dir: dir, port: c.Port + k*portsPerSystem, values: values{}}
	e, err := startEnsemble(ctx, v.system, dir, v.port, c.Members)
	if err != nil {
		return nil, err
	}
	s := &side{visit: v, ensemble: e}
	if s.rows = v.aloneRows(nil); c.Members > 1 {
		s.rows = v.ensembleRows(e)
	}
	if err := v.warm(ctx, v.ensembleOptions(e)); err != nil {
		e.stop()
		return nil, e.failed(err)
	}
	return s, nil
}

// portsPerSystem is how far the ports of two systems that run at the same time
// are apart.
const portsPerSystem = 3 * maxMembers

// stop ends the servers, and removes their data and logs if all went well.
func (s *side) stop(well bool) error {
	s.ensemble.stop()
	if !well {
		return nil
	}
	return os.RemoveAll(s.visit.dir)
}

// checkTurns refuses rows that cannot be measured in turn; if there are none, it
// selects all that can.
func (c *Compare) checkTurns() error {
	if c.Turns < 0 || c.Turns == 1 || len(c.Systems) != 2 {
		return errors.New("bench: turns are two or more, of two systems")
	}
	known := Rows(c.Members)
	can := slices.DeleteFunc(slices.Clone(steadyRows), func(r string) bool { return !slices.Contains(known, r) })
	for _, r := range c.Rows {
		if !slices.Contains(can, r) {
			return fmt.Errorf("bench: the row %s cannot be measured in turn, while the servers stay up; these can: %s",
				r, strings.Join(can, ", "))
		}
	}
	if len(c.Rows) == 0 {
		c.Rows = can
	}
	return nil
}

// resamples is how often an interval draws from the ratios.
const resamples = 2000

// interval returns the median of ratios, and its 95 % confidence interval by the
// bootstrap: of 2,000 medians, each of as many pairs, drawn with replacement, and
// from each of these as many turns. So what the loads of one pair have in common,
// such as a process that has come to lie badly in memory, counts once. The ratios
// of pair n are those from n × turns on; there is at least one. The same ratios
// give the same interval.
func interval(ratios []float64, turns int) (median, low, high float64) {
	draw := rand.New(rand.NewPCG(1, uint64(len(ratios))))
	pairs := slices.Collect(slices.Chunk(ratios, turns))
	medians := make([]float64, resamples)
	var drawn []float64
	for i := range medians {
		drawn = drawn[:0]
		for range pairs {
			pair := pairs[draw.IntN(len(pairs))]
			for range pair {
				drawn = append(drawn, pair[draw.IntN(len(pair))])
			}
		}
		medians[i] = medianOf(drawn)
	}
	slices.Sort(medians)
	return medianOf(slices.Clone(ratios)), medians[resamples/40], medians[resamples-1-resamples/40]
}

// ratios returns how many times better the second system was, one for each turn
// of a metric: above 1 it had the higher rate, or the lower cost. A load that
// measured nothing, as one that a stall outlasts, is infinitely worse than one that did.
// None without turns.
func (c *Comparison) ratios(m metric) (list []float64) {
	if c.Turns == 0 || len(c.Systems) != 2 {
		return nil
	}
	first, second := c.measured(0, m.key), c.measured(1, m.key)
	for n := range min(len(first), len(second)) {
		a, b := first[n], second[n]
		if !m.higher {
			a, b = b, a
		}
		switch one, two := first[n] > 0, second[n] > 0; {
		case one && two:
			list = append(list, b/a)
		case one:
			list = append(list, 0)
		case two:
			list = append(list, math.Inf(1))
		default:
			list = append(list, 1)
		}
	}
	return list
}
