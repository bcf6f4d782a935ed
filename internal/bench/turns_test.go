//go:build linux

package bench

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// With turns every row that leaves the servers as they were is loaded so many
// times in each pair, on both systems, and nothing else is measured.
func TestCompareTurns(t *testing.T) {
	a, b := fakeSystem(), fakeSystem()
	a.Name, b.Name = "one", "two"
	const pairs, turns = 2, 3
	var said strings.Builder
	c := &Compare{
		Systems: []System{a, b}, Members: 3, Pairs: pairs, Turns: turns, Least: 0.97, Dir: t.TempDir(),
		Port: freePorts(t, portsPerSystem+3), Duration: 20 * time.Millisecond, Znodes: 1, Sessions: 1, Kills: 1, Away: 1,
		AwayRate: 1, Progress: &said,
	}
	found, err := c.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	if err := found.Print(&table); err != nil {
		t.Fatal(err)
	}
	for _, m := range ensembleMetrics() {
		got, want := len(found.ratios(m)), pairs*turns
		if m.row == "failover" || m.row == "rejoin" {
			want = 0
		}
		// Of so short a load the processor time can be less than /proc counts.
		if got != want && !(got == 0 && !m.higher) {
			t.Errorf("%s: %d ratios, want %d", m.key, got, want)
		}
		if strings.Contains(table.String(), "| "+m.title+" |") != (want > 0) {
			t.Errorf("%s: want it in the table: %v\n%s", m.key, want > 0, &table)
		}
	}
	if found.Version[0] == "" || found.Version[1] == "" {
		t.Errorf("versions %q", found.Version)
	}
	if n := strings.Count(said.String(), "== "); n != pairs*6 {
		t.Errorf("%d lines of progress, want one for each pair and row:\n%s", n, &said)
	}
	if left, err := os.ReadDir(c.Dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestCompareRefusesTurns(t *testing.T) {
	two := []System{{Name: "x", Command: []string{"true"}}, {Name: "y", Command: []string{"true"}}}
	for _, c := range []struct {
		compare Compare
		want    string
	}{
		{Compare{Systems: two, Turns: 2, Rows: []string{"reads", "memory"}}, "memory cannot be measured in turn"},
		{Compare{Systems: two, Turns: 1}, "two or more"},
		{Compare{Systems: two, Turns: -2}, "two or more"},
		{Compare{Systems: two[:1], Turns: 2}, "of two systems"},
	} {
		c.compare.Pairs, c.compare.Members, c.compare.Znodes, c.compare.Sessions = 1, 1, 1, 1
		if _, err := c.compare.Run(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}

// A ratio above 1 says "better" for costs too, and decides about the bar.
func TestRatiosOfTurns(t *testing.T) {
	c := &Comparison{
		Systems: []string{"old", "new"}, Version: []string{"1", "2"}, Members: 1, Turns: 3, Least: 0.97,
		Visits: [][]values{
			{{"reads/s": 100, "reads/cpu": 4}, {"reads/s": 200, "reads/cpu": 8}, {"writes/s": 1}, {"reads/s": 300, "reads/cpu": 4}},
			{{"reads/s": 110, "reads/cpu": 5}, {"reads/s": 220, "reads/cpu": 10}, {"reads/s": 330, "reads/cpu": 5}},
		},
	}
	page := filepath.Join(t.TempDir(), "bench.md")
	if err := c.WriteMarkdown(page); err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Medians of 3 loads of each row to each server, in turn",
		"| reads, 20 × 100 | 200/s | 220/s | 1.10 [1.10, 1.10] | ≥ 0.97 | PASS |",
		"| reads, 20 × 100, server CPU | 4.00 µs | 5.00 µs | 0.80 [0.80, 0.80] | ≥ 0.97 | **MISS** |",
	} {
		if !strings.Contains(string(table), want) {
			t.Errorf("no line %q in\n%s", want, table)
		}
	}
}

// A load in which a system did nothing does not take the row's interval away.
func TestRatiosOfStalledLoads(t *testing.T) {
	c := &Comparison{
		Systems: []string{"old", "new"}, Version: []string{"1", "2"}, Members: 3, Turns: 4,
		Visits: [][]values{
			{{"create/s": 0, "create/p50": 0}, {"create/s": 100, "create/p50": 4}, {"create/s": 0, "create/p50": 0}, {"create/s": 100, "create/p50": 4}},
			{{"create/s": 100, "create/p50": 4}, {"create/s": 0, "create/p50": 0}, {"create/s": 0, "create/p50": 0}, {"create/s": 110, "create/p50": 2}},
		},
	}
	for _, test := range []struct {
		m    metric
		last float64
	}{{metric{key: "create/s", higher: true}, 1.1}, {metric{key: "create/p50"}, 2}} {
		if got, want := c.ratios(test.m), []float64{math.Inf(1), 0, 1, test.last}; !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", test.m.key, got, want)
		}
	}
}

// The interval has the true ratio in it about as often as it promises, when the
// loads are independent and when those of one pair have something in common.
func TestInterval(t *testing.T) {
	const pairs, turns, tries = 20, 8, 40
	for _, c := range []struct {
		name             string
		perPair, perTurn float64 // standard deviations of the logarithm
	}{{"independent", 0, 0.15}, {"by pair", 0.1, 0.05}} {
		random := rand.New(rand.NewPCG(7, 7))
		hits := 0
		for range tries {
			var ratios []float64
			for range pairs {
				common := c.perPair * random.NormFloat64()
				for range turns {
					ratios = append(ratios, math.Exp(common+c.perTurn*random.NormFloat64()))
				}
			}
			median, low, high := interval(ratios, turns)
			if !(low <= median && median <= high) {
				t.Fatalf("%s: median %v outside of [%v, %v]", c.name, median, low, high)
			}
			if low <= 1 && 1 <= high {
				hits++
			}
		}
		if hits < 32 {
			t.Errorf("%s: the true ratio was in %d of %d intervals of 95 %%", c.name, hits, tries)
		}
	}
}
