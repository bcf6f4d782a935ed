package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Compare measures two systems on this machine in turn, a pair of visits at a
// time, so that what disturbs the machine disturbs both; and takes medians.
type Compare struct {
	Systems []System // one or two; the second is compared with the first
	Members int      // of each system: 1 for a server alone, more for an ensemble
	Pairs   int
	// Turns, if not 0, is how often each row's load is given to each system of a
	// pair in turn, while both stay up. 0: every visit starts a system afresh.
	Turns int
	// Least, if not 0, takes the place of all bars: the ratio of the second system to
	// the first that every row is to reach, 0.97 for "at most 3 % worse".
	Least    float64
	Rows     []string // of Rows(); none for all
	Dir      string   // for data; it is created, and what is made there removed
	Port     int      // that the servers are given, and as many above it as they need
	Duration time.Duration
	Warmup   time.Duration
	Znodes   int     // of the rows that need many
	Sessions int     // of the row idle
	Kills    int     // of leaders, in the row failover
	Away     int     // znodes that a member misses in the row rejoin
	AwayRate float64 // writes per second while it comes back

	// Settle is how long an ensemble is left alone before and after a leader is
	// killed, and under load before a member comes back.
	Settle   time.Duration
	Progress io.Writer

	results []*Result
}

// A Comparison is what Compare found.
type Comparison struct {
	Start   time.Time `json:"start"`
	Command string    `json:"command"`
	Commit  string    `json:"commit"`
	Machine Machine   `json:"machine"`
	Disk    string    `json:"disk"`
	Systems []string  `json:"systems"`
	Members int       `json:"members"`
	Turns   int       `json:"turns,omitempty"`
	Least   float64   `json:"least,omitempty"`
	// Encrypted says that there was TLS on every connection.
	Encrypted bool       `json:"encrypted,omitempty"`
	Znodes    int        `json:"znodes"`
	Version   []string   `json:"versions"`
	Visits    [][]values `json:"visits"` // by system, then pair; with turns, then load
	Results   []*Result  `json:"results"`
	Missed    int        `json:"missed"` // bars
}

// Run visits the systems. What was measured before an error or an interrupt is
// returned with it.
func (c *Compare) Run(ctx context.Context) (*Comparison, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	found := &Comparison{
		Start: time.Now(), Command: strings.Join(os.Args, " "), Commit: Commit(),
		Machine: ThisMachine(), Disk: describeDisk(c.Dir), Members: c.Members, Turns: c.Turns, Least: c.Least,
		Znodes: c.Znodes, Encrypted: c.Systems[0].TLS != nil,
		Visits: make([][]values, len(c.Systems)),
	}
	for _, s := range c.Systems {
		found.Systems = append(found.Systems, s.Name)
	}
	var err error
	for pair := 0; pair < c.Pairs && err == nil; pair++ {
		if c.Turns > 0 {
			c.say("pair %d of %d", pair+1, c.Pairs)
			err = c.takeTurns(ctx, found)
			continue
		}
		for k := 0; k < len(c.Systems) && err == nil; k++ {
			c.say("pair %d of %d: %s", pair+1, c.Pairs, c.Systems[k].Name)
			var got values
			got, err = c.visit(ctx, c.Systems[k])
			found.Visits[k] = append(found.Visits[k], got)
		}
	}
	found.Results = c.results
	found.Version = c.versions(found.Systems)
	return found, err
}

// check refuses what cannot be measured.
func (c *Compare) check() error {
	known := Rows(c.Members)
	for _, r := range c.Rows {
		if !slices.Contains(known, r) {
			return fmt.Errorf("bench: there is no row %q; there are %s", r, strings.Join(known, ", "))
		}
	}
	if len(c.Systems) < 1 || len(c.Systems) > 2 || c.Pairs < 1 || c.Znodes < 1 || c.Sessions < 1 ||
		c.Members < 1 || c.Members > maxMembers || c.Least < 0 {
		return errors.New("bench: compare: a parameter is out of range")
	}
	if c.Members > 1 && (c.Members < 3 || c.Kills < 1 || c.Away < 1 || c.AwayRate <= 0 || c.Settle < 0) {
		return errors.New("bench: compare: a parameter of the ensemble is out of range; it needs 3 members to lose one")
	}
	if c.Turns != 0 {
		return c.checkTurns()
	}
	return nil
}

// visit starts a system afresh and measures the rows that are wanted.
func (c *Compare) visit(ctx context.Context, s System) (values, error) {
	dir, err := os.MkdirTemp(c.Dir, s.Name+"-")
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	v := &visit{Compare: c, system: s, dir: dir, port: c.Port, values: values{}}
	if c.Members > 1 {
		err = v.ensemble(ctx)
	} else if err = v.empty(ctx); err == nil {
		err = v.full(ctx)
	}
	if err != nil {
		return v.values, err // the logs stay
	}
	return v.values, errors.Join(os.RemoveAll(dir), os.RemoveAll(dir+"-full"))
}

func (c *Compare) wants(row string) bool { return len(c.Rows) == 0 || slices.Contains(c.Rows, row) }

func (c *Compare) say(format string, args ...any) {
	if c.Progress != nil {
		fmt.Fprintf(c.Progress, "== "+format+"\n", args...)
	}
}

// keep notes a result, and makes an error of refused operations and of an
// interrupt: neither belongs into a median.
func (v *visit) keep(r *Result, err error) (*Result, error) {
	if r != nil {
		r.Params["system"] = v.system.Name
		v.results = append(v.results, r)
		if n := r.ErrorCount(); n > 0 && err == nil {
			err = fmt.Errorf("bench: %d operations were refused", n)
		}
		if r.Interrupted && err == nil {
			err = context.Canceled
		}
	}
	return r, err
}

// versions returns what each system says that it is.
func (c *Compare) versions(systems []string) []string {
	out := make([]string, len(systems))
	for _, r := range c.results {
		if k := slices.Index(systems, fmt.Sprint(r.Params["system"])); k >= 0 {
			out[k] = r.ServerVersion
		}
	}
	return out
}

// over returns the median of a metric over the visits to a system, of a worst
// case the worst; and whether it was measured.
func (c *Comparison) over(system int, key string) (float64, bool) {
	all := c.measured(system, key)
	if len(all) == 0 {
		return 0, false
	}
	if strings.HasSuffix(key, worstCase) {
		return slices.Max(all), true
	}
	return medianOf(all), true
}

// measured returns what was measured of a metric, in that order.
func (c *Comparison) measured(system int, key string) (all []float64) {
	for _, v := range c.Visits[system] {
		if x, ok := v[key]; ok {
			all = append(all, x)
		}
	}
	return all
}

// visits returns how many values a median is of.
func (c *Comparison) visits() (n int) {
	for _, m := range metricsOf(c.Members, c.Znodes, c.Encrypted) {
		n = max(n, len(c.measured(0, m.key)))
	}
	return n
}

// medianOf returns the median, 0 of nothing; it sorts all.
func medianOf(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

// Print writes the table in Markdown and counts the missed bars.
func (c *Comparison) Print(w io.Writer) error {
	c.Missed = 0
	var b strings.Builder
	fmt.Fprintf(&b, "| |%s", " "+strings.Join(c.Systems, " | ")+" |")
	if len(c.Systems) == 2 {
		b.WriteString(" ratio | bar | |\n|---|---:|---:|---:|---:|---|\n")
	} else {
		b.WriteString("\n|---|---:|\n")
	}
	for _, m := range metricsOf(c.Members, c.Znodes, c.Encrypted) {
		c.printMetric(&b, m)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (c *Comparison) printMetric(b *strings.Builder, m metric) {
	var got [2]float64
	var ok [2]bool
	for k := range c.Systems {
		got[k], ok[k] = c.over(k, m.key)
	}
	if !ok[0] && !ok[1] {
		return
	}
	fmt.Fprintf(b, "| %s |", m.title)
	for k := range c.Systems {
		if ok[k] {
			fmt.Fprintf(b, " %s |", quantity(got[k], m.unit))
		} else {
			b.WriteString(" – |")
		}
	}
	if len(c.Systems) == 2 {
		ratio := "–"
		if ok[0] && ok[1] && got[0] > 0 && got[1] > 0 {
			ratio = c.ratio(m, got[0], got[1])
		}
		bar, verdict := m.bar, ""
		if pass := c.passes(m); pass != nil && ok[1] {
			if verdict = "PASS"; !pass(got[0], got[1]) {
				verdict = "**MISS**"
				c.Missed++
			}
		}
		if c.Least > 0 {
			bar = fmt.Sprintf("≥ %.2f", c.Least)
		}
		fmt.Fprintf(b, " %s | %s | %s |", ratio, bar, verdict)
	}
	b.WriteString("\n")
}

// ratio prints how b compares with a: as many times the rate, a part of the
// cost. With turns it prints how many times better b is, for costs too, and the
// confidence interval of that.
func (c *Comparison) ratio(m metric, a, b float64) string {
	if each := c.ratios(m); len(each) > 0 {
		median, low, high := interval(each, c.Turns)
		return fmt.Sprintf("%.2f [%.2f, %.2f]", median, low, high)
	}
	if m.higher {
		return fmt.Sprintf("%.2f ×", b/a)
	}
	return fmt.Sprintf("1/%.2f", a/b)
}

// passes returns the bar of a metric as a function of what both systems
// reached, nil if there is none.
func (c *Comparison) passes(m metric) func(a, b float64) bool {
	if c.Least == 0 {
		return m.pass
	}
	return func(a, b float64) bool {
		better := b / a
		if !m.higher {
			better = a / b
		}
		if each := c.ratios(m); len(each) > 0 {
			better = medianOf(each)
		}
		return better >= c.Least
	}
}

// quantity prints a value with as many digits as mean something.
func quantity(v float64, unit string) string {
	number := fmt.Sprintf("%.2f", v)
	if v >= 100 {
		number = grouped(v)
	} else if v >= 10 {
		number = fmt.Sprintf("%.1f", v)
	}
	if strings.HasPrefix(unit, "/") {
		return number + unit
	}
	return number + " " + unit
}

// Of the sections of the page that keeps what was measured.
const (
	sectionAlone    = "a server alone"
	sectionEnsemble = "an ensemble"
)

const aloneMethod = `Each row loads for a while before it is measured. Server CPU is what /proc says,
for each operation. RSS is read a few seconds after the load, of a JVM after two
forced collections. A restart is timed from exec, after kill -9, to the first
successful read. Snapshots back to back is what snapCount's default leads to under
full write load. "pinfold bench --help" tells more.
`

// WriteMarkdown writes the table, and how it came about, into its section of a
// page: docs/bench.md.
func (c *Comparison) WriteMarkdown(name string) error {
	section, title, method := sectionAlone, "A server alone", aloneMethod
	what := "each server"
	if c.Members > 1 {
		section, title = sectionEnsemble, fmt.Sprintf("An ensemble of %d", c.Members)
		method, what = ensembleMethod, fmt.Sprintf("each ensemble of %d", c.Members)
	}
	if c.Encrypted {
		section, title = section+", TLS", title+", TLS on every connection"
	}
	var b strings.Builder
	visits := "visits"
	if c.Turns > 0 {
		visits = "loads of each row"
	}
	fmt.Fprintf(&b, "%s, commit %s. Medians of %d %s to %s, in turn, with the generator\n"+
		"on the same machine and fsync on; values of 1 KiB unless the row says otherwise.\n\n",
		c.Start.UTC().Format("2006-01-02"), c.Commit, c.visits(), visits, what)
	if err := c.Print(&b); err != nil {
		return err
	}
	b.WriteString("\n" + c.Machine.describe(c.Disk))
	for k, s := range c.Systems {
		fmt.Fprintf(&b, "- %s: %s\n", s, c.Version[k])
	}
	fmt.Fprintf(&b, "- command: `%s`\n\n", c.Command)
	b.WriteString(method)
	return writeSection(filepath.Clean(name), section, title, b.String())
}

// describe returns the lines of a list.
func (m Machine) describe(disk string) string {
	return fmt.Sprintf("- machine: %d × %s, %d MB, Linux %s, %s\n- disk: %s\n",
		m.CPUs, m.CPU, m.MemoryMB, m.Kernel, m.Go, disk)
}

// WriteJSON writes everything to a file.
func (c *Comparison) WriteJSON(name string) error { return writeJSON(name, c) }

func writeJSON(name string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	if err := os.WriteFile(name, append(b, '\n'), 0o644); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	return nil
}
