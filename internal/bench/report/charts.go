package report

import (
	"cmp"
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/bench"
)

// A chart is a plot of one value of an experiment.
type chart struct {
	id, title, text string
	experiment      string
	x, value        string // the parameter, and what was measured
	axes
}

const perSecond = "operations per second"

func charts() []chart {
	return []chart{
		{"throughput", "Figure 5: throughput by the share of reads",
			"Clients on all servers, 1 KiB, 100 requests outstanding on each of 30 connections.",
			"throughput", "reads_percent", "rate", axes{"share of reads, %", perSecond, false, true}},
		{"cpu", "The same: what an operation costs", "CPU of all servers together.",
			"throughput", "reads_percent", "cpu_us", axes{"share of reads, %", "µs of CPU an operation", false, true}},
		{"leader", "Figure 6: all clients on the leader", "The load of figure 5, at the leader alone.",
			"leader", "reads_percent", "rate", axes{"share of reads, %", perSecond, false, true}},
		{"broadcast", "Figure 7: atomic broadcast alone", "The leader makes the transactions; there are no clients. Only Pinfold can be told to.",
			"broadcast", "size", "rate", axes{"bytes of data", "transactions per second", false, false}},
		{"creates", "Table 2: creates one after the other",
			"Each worker creates a znode of 1 KiB, waits, deletes it without waiting, and goes on.",
			"creates", "workers", "rate", axes{"workers", "creates per second", false, false}},
		{"create-latency", "The same: mean latency", "", "creates", "workers", "create_mean_ms", axes{"workers", "ms", false, false}},
		{"barriers", "Table 3: double barriers", "Each client enters all barriers in succession, then leaves them.",
			"barriers", "barriers", "seconds", axes{"barriers", "seconds", false, true}},
		{"alone", "One request outstanding", "120 connections.", "alone", "reads_percent", "rate",
			axes{"share of reads, %", perSecond, false, false}},
		{"sync", "Sync", "Each client syncs and waits.", "sync", "clients", "sync_p50_ms", axes{"clients", "median, ms", true, true}},
		{"open", "Writes by schedule: p99 up to saturation",
			"Latency counts from when a write was due. A curve ends where a system did less than 95 % of what was due.",
			"open", "rate", "write_p99_ms", axes{"writes per second", "p99, ms", true, true}},
		{"open-median", "The same: median", "", "open", "rate", "write_p50_ms", axes{"writes per second", "median, ms", true, true}},
		{"profile-reads", "A production profile: p99 of reads",
			"Two reads (65 % get, 33 % list, 2 % exists) to one multi of five writes, by schedule; the tree grows, and snapshots are taken meanwhile.",
			"profile", "rate", "read_p99_ms", axes{"reads and multis per second", "p99, ms", true, true}},
		{"profile-multis", "The same: p99 of multis", "", "profile", "rate", "multi_p99_ms",
			axes{"reads and multis per second", "p99, ms", true, true}},
		{"watchers", "Watch events", "One writer; each watcher reads again after each event.", "watchers", "watchers", "rate",
			axes{"watchers", "events per second", true, true}},
		{"watch-cpu", "The same: what an event costs", "CPU of all servers together, the watch's renewal and the write's share included.",
			"watchers", "watchers", "cpu_us", axes{"watchers", "µs of CPU an event", true, true}},
		{"sessions", "Idle sessions", "", "sessions", "sessions", "session_kb", axes{"sessions", "KB of RSS each", false, false}},
		{"tree-memory", "Znodes of 100 bytes: memory", "RSS of one server.", "trees", "znodes", "server_mb",
			axes{"znodes", "MB", true, true}},
		{"tree-start", "The same: start with what is on disk", "Until the server serves all that there is.", "trees", "znodes", "start_s",
			axes{"znodes", "seconds", true, true}},
		{"tree-join", "The same: start with an empty disk", "The leader sends a snapshot.", "trees", "znodes", "join_s",
			axes{"znodes", "seconds", true, true}},
	}
}

// section is nil if nothing of the chart was measured.
func (c chart) section(found *bench.PaperData) (*section, error) {
	curves := c.curves(found)
	if len(curves) == 0 {
		return nil, nil
	}
	picture, err := drawCurves(curves, c.axes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.id, err)
	}
	s := &section{ID: c.id, Title: c.title, Text: c.text, Head: []string{c.axes.x}, Picture: template.HTML(picture)} // our own
	xs := map[float64]bool{}
	for _, v := range curves {
		s.Head = append(s.Head, v.name)
		for _, p := range v.points {
			xs[p.x] = true
		}
	}
	for _, x := range slices.Sorted(maps.Keys(xs)) {
		row := []string{number(x)}
		for _, v := range curves {
			row = append(row, v.at(x))
		}
		s.Rows = append(s.Rows, row)
	}
	return s, nil
}

// at prints the point of a curve: the median, and how far the runs are apart.
func (c *curve) at(x float64) string {
	for _, p := range c.points {
		switch {
		case p.x != x:
		case p.high > p.low:
			return fmt.Sprintf("%s (%s–%s)", number(p.median), number(p.low), number(p.high))
		default:
			return number(p.median)
		}
	}
	return ""
}

// curves gathers the samples: a curve for each system, number of servers and
// value of the parameters that are not on the x axis.
func (c chart) curves(found *bench.PaperData) (list []curve) {
	type key struct {
		system  string
		members int
		rest    string
	}
	measured := map[key]map[float64][]float64{}
	for _, s := range found.Samples {
		v, ok := s.Values[c.value]
		if s.Experiment != c.experiment || !ok || s.Values["saturated"] == 1 {
			continue
		}
		k := key{s.System, s.Members, others(s.Params, c.x)}
		if measured[k] == nil {
			measured[k] = map[float64][]float64{}
		}
		measured[k][s.Params[c.x]] = append(measured[k][s.Params[c.x]], v)
	}
	order := func(a, b key) int {
		return cmp.Or(cmp.Compare(slices.Index(found.Systems, b.system), slices.Index(found.Systems, a.system)),
			cmp.Compare(a.members, b.members), cmp.Compare(len(a.rest), len(b.rest)), strings.Compare(a.rest, b.rest))
	}
	index := map[string]int{}
	for _, k := range slices.SortedFunc(maps.Keys(measured), order) {
		v := curve{name: k.system + ", " + servers(k.members) + k.rest, index: index[k.system],
			system: len(found.Systems) - 1 - slices.Index(found.Systems, k.system)}
		index[k.system]++
		for _, x := range slices.Sorted(maps.Keys(measured[k])) {
			v.points = append(v.points, spreadOf(x, measured[k][x]))
		}
		list = append(list, v)
	}
	return list
}

func spreadOf(x float64, runs []float64) spread {
	slices.Sort(runs)
	n := len(runs)
	return spread{x, (runs[(n-1)/2] + runs[n/2]) / 2, runs[0], runs[n-1]}
}

func servers(n int) string {
	if n == 1 {
		return "1 server"
	}
	return fmt.Sprintf("%d servers", n)
}

// others names the parameters beside x.
func others(params map[string]float64, x string) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(params)) {
		if k != x {
			fmt.Fprintf(&b, ", %s %s", number(params[k]), k)
		}
	}
	return b.String()
}
