package bench

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/pinfold-zk/pinfold/zk"
)

// A Result is what one workload measured, with everything that is needed to
// judge it later. It is what --json writes.
type Result struct {
	Workload      string         `json:"workload"`
	Params        map[string]any `json:"params"`
	Start         time.Time      `json:"start"`
	Seconds       float64        `json:"seconds"`     // measured
	Interrupted   bool           `json:"interrupted"` // it was to be longer
	Ops           []OpResult     `json:"ops"`
	Per           string         `json:"per"`            // what the costs are divided by
	PerCount      uint64         `json:"per_count"`      // how many of them there were
	Lost          uint64         `json:"lost,omitempty"` // requests that a lost connection left unanswered
	Servers       []ServerCost   `json:"servers"`
	GeneratorCPU  float64        `json:"generator_cpu_micros_per_op"`
	Rates         []float64      `json:"rates"`   // answers and events, second by second
	Figures       []Figure       `json:"figures"` // what else the workload found
	ServerVersion string         `json:"server_version"`
	Machine       Machine        `json:"machine"`
	Commit        string         `json:"commit"`
}

// An OpResult is what was measured of one kind of operation. Times are
// microseconds.
type OpResult struct {
	Op     string            `json:"op"`
	Count  uint64            `json:"count"`
	Rate   float64           `json:"per_second"`
	Mean   float64           `json:"mean_micros"`
	P50    float64           `json:"p50_micros"`
	P99    float64           `json:"p99_micros"`
	P999   float64           `json:"p999_micros"`
	Max    float64           `json:"max_micros"`
	Errors map[string]uint64 `json:"errors,omitempty"`
}

// A ServerCost is what a server process used meanwhile.
type ServerCost struct {
	Pid            int     `json:"pid"`
	CPUSeconds     float64 `json:"cpu_seconds"`
	CPUMicrosPerOp float64 `json:"cpu_micros_per_op"`
	RSSBytes       int64   `json:"rss_bytes"`        // at the end
	RSSBytesBefore int64   `json:"rss_bytes_before"` // at the start
}

// A Figure is a value that only one workload has.
type Figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// ErrorCount returns how many operations the server refused.
func (r *Result) ErrorCount() uint64 {
	var n uint64
	for _, op := range r.Ops {
		for _, c := range op.Errors {
			n += c
		}
	}
	return n
}

// Op returns the measurements of one kind; zeros if there were none.
func (r *Result) Op(name string) OpResult {
	for _, op := range r.Ops {
		if op.Op == name {
			return op
		}
	}
	return OpResult{}
}

// Rate returns the operations and events per second, of all kinds together.
func (r *Result) Rate() float64 {
	var rate float64
	for _, op := range r.Ops {
		rate += op.Rate
	}
	return rate
}

// ServerCPU returns the microseconds of all servers' processor time for each
// of r.Per; 0 if no pid was given.
func (r *Result) ServerCPU() float64 {
	var micros float64
	for _, s := range r.Servers {
		micros += s.CPUMicrosPerOp
	}
	return micros
}

// result makes a Result of a window. per is what costs are divided by; nil for
// everything that was counted. REQUIRES: the loops have ended.
func (r *run) result(w *window, workload string, params map[string]any, per ...kind) *Result {
	res := &Result{
		Workload:      workload,
		Params:        params,
		Start:         w.start,
		Seconds:       w.elapsed.Seconds(),
		Rates:         w.rates,
		Servers:       w.servers,
		Per:           "op",
		PerCount:      w.ops,
		ServerVersion: serverVersion(context.Background(), r.o.TLS, r.o.Servers[0]),
		Machine:       ThisMachine(),
		Commit:        Commit(),
	}
	params["servers"] = r.o.Servers
	all := new(tally)
	for _, l := range r.loops {
		all.merge(l.tally)
	}
	for k := range kinds {
		if op, any := all.result(k, w.elapsed); any {
			res.Ops = append(res.Ops, op)
		}
	}
	res.Lost = all.lost
	if len(per) > 0 {
		res.Per, res.PerCount = per[0].String(), all.hist[per[0]].Count()
	}
	if n := float64(res.PerCount); n > 0 {
		res.GeneratorCPU = float64(w.ownCPU.Nanoseconds()) / 1e3 / n
		for i := range res.Servers {
			res.Servers[i].CPUMicrosPerOp = res.Servers[i].CPUSeconds * 1e6 / n
		}
	}
	return res
}

func (t *tally) merge(o *tally) {
	t.lost += o.lost
	for k := range kinds {
		t.hist[k].Merge(&o.hist[k])
		for code, n := range o.errors[k] {
			if t.errors[k] == nil {
				t.errors[k] = make(map[zk.Code]uint64)
			}
			t.errors[k][code] += n
		}
	}
}

// result returns the row of one kind, and whether there is anything in it.
func (t *tally) result(k kind, elapsed time.Duration) (OpResult, bool) {
	h := &t.hist[k]
	op := OpResult{
		Op:    k.String(),
		Count: h.Count(),
		Rate:  float64(h.Count()) / elapsed.Seconds(),
		Mean:  micros(h.Mean()),
		P50:   micros(h.Quantile(0.5)),
		P99:   micros(h.Quantile(0.99)),
		P999:  micros(h.Quantile(0.999)),
		Max:   micros(h.Max()),
	}
	for code, n := range t.errors[k] {
		if op.Errors == nil {
			op.Errors = make(map[string]uint64)
		}
		op.Errors[code.Error()] += n
	}
	return op, op.Count > 0 || len(op.Errors) > 0
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// Print writes the table.
func (r *Result) Print(w io.Writer) error {
	fmt.Fprintf(w, "\n%s, %.1f s%s", r.Workload, r.Seconds, describe(r.Params))
	if r.Interrupted {
		fmt.Fprint(w, " (interrupted)")
	}
	fmt.Fprintln(w)
	if r.ServerVersion != "" {
		fmt.Fprintf(w, "server: %s\n", r.ServerVersion)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\t\tcount\tper second\tmean\tp50\tp99\tp99.9\tmax\terrors\t")
	for _, op := range r.Ops {
		var errs uint64
		for _, n := range op.Errors {
			errs += n
		}
		fmt.Fprintf(t, "\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", op.Op,
			grouped(float64(op.Count)), grouped(op.Rate), latency(op.Mean), latency(op.P50),
			latency(op.P99), latency(op.P999), latency(op.Max), grouped(float64(errs)))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, op := range r.Ops {
		for text, n := range op.Errors {
			fmt.Fprintf(w, "%s: %s × %s\n", op.Op, grouped(float64(n)), text)
		}
	}
	if r.Lost > 0 {
		fmt.Fprintf(w, "lost with a connection, perhaps carried out: %s\n", grouped(float64(r.Lost)))
	}
	for _, s := range r.Servers {
		fmt.Fprintf(w, "server %d: %.2f µs CPU per %s, %.2f processors, RSS %s MB (before: %s)\n",
			s.Pid, s.CPUMicrosPerOp, r.Per, s.CPUSeconds/r.Seconds,
			grouped(float64(s.RSSBytes)/(1<<20)), grouped(float64(s.RSSBytesBefore)/(1<<20)))
	}
	fmt.Fprintf(w, "generator: %.2f µs CPU per %s\n", r.GeneratorCPU, r.Per)
	for _, f := range r.Figures {
		fmt.Fprintf(w, "%s: %.4g %s\n", f.Name, f.Value, f.Unit)
	}
	return nil
}

// WriteJSON writes the result to a file.
func (r *Result) WriteJSON(name string) error { return writeJSON(name, r) }

// describe lists parameters in the order of their names.
func describe(params map[string]any) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(params)) {
		fmt.Fprintf(&b, ", %s %v", strings.ReplaceAll(name, "_", " "), params[name])
	}
	return b.String()
}

// grouped prints a number without decimals, its thousands set apart.
func grouped(v float64) string {
	s := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// latency prints microseconds in the unit that reads best.
func latency(us float64) string {
	switch {
	case us >= 1e6:
		return fmt.Sprintf("%.2f s", us/1e6)
	case us >= 1e3:
		return fmt.Sprintf("%.2f ms", us/1e3)
	}
	return fmt.Sprintf("%.1f µs", us)
}
