package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// A metric is one line of the comparison's table.
type metric struct {
	row    string // the row that measures it
	key    string
	title  string
	unit   string
	higher bool // more is better
	bar    string
	// pass reports whether b, compared with a, meets the bar; a is 0 if the
	// first system was not measured. nil: there is no bar.
	pass func(a, b float64) bool
}

func times(n float64) func(a, b float64) bool {
	return func(a, b float64) bool { return a > 0 && b >= n*a }
}

func part(n float64) func(a, b float64) bool { return func(a, b float64) bool { return b <= a/n } }

func most(n float64) func(a, b float64) bool { return func(_, b float64) bool { return b <= n } }

// metrics is the table, with the bars that the project has set itself; those of
// memory and restart are for so many millions of znodes.
func metrics(millions float64) []metric {
	rss, restart := 250*millions, 0.7
	if millions > 1 {
		restart = millions
	}
	return []metric{
		{"reads", "reads/s", "reads, 20 × 100", "/s", true, "≥ 8 ×", times(8)},
		{"reads", "reads/cpu", "reads, 20 × 100, server CPU", "µs", false, "≤ 1/8", part(8)},
		{"writes", "writes/s", "writes, 20 × 100", "/s", true, "≥ 4 ×", times(4)},
		{"writes", "writes/cpu", "writes, 20 × 100, server CPU", "µs", false, "", nil},
		{"mix", "mix/s", "80/20, 20 × 100", "/s", true, "≥ 6 ×", times(6)},
		{"mix", "mix/cpu", "80/20, 20 × 100, server CPU", "µs", false, "", nil},
		{"reads120", "reads120/s", "reads, 120 × 1", "/s", true, "≥ 2 ×", times(2)},
		{"reads120", "reads120/cpu", "reads, 120 × 1, server CPU", "µs", false, "", nil},
		{"create", "create/p50", "sync create, 1 worker, median", "ms", false, "≤ 0.25 ms", most(0.25)},
		{"watch", "watch/cpu", "watch event, 200 watchers, server CPU", "µs", false, "≤ 1/6", part(6)},
		{"watch", "watch/paced", "the same at 20 sets/s, server CPU", "µs", false, "≤ 1/6", part(6)},
		{"watch", "watch/s", "watch events, 200 watchers", "/s", true, "", nil},
		{"idle", "idle/rss", "idle session, RSS", "KB", false, "≤ 20 KB", most(20)},
		{"connect", "connect/s", "connections opened and closed, 20 at a time", "/s", true, "", nil},
		{"connect", "connect/cpu", "the same, server CPU", "µs", false, "", nil},
		{"sessions", "sessions/s", "with a session on each", "/s", true, "", nil},
		{"sessions", "sessions/cpu", "the same, server CPU", "µs", false, "", nil},
		{"fill", "fill/s", "filling, 50,000 creates at a time", "/s", true, "", nil},
		{"memory", "memory/rss", "RSS with the znodes", "MB", false, "≤ " + quantity(rss, "MB"), most(rss)},
		{"memory", "memory/s", "filling, creates", "/s", true, "", nil},
		{"restart", "restart/s", "restart with them", "s", false, fmt.Sprintf("≤ %.4g s", restart), most(restart)},
		{"snapshot", "snapshot/quiet", "writes with them, no snapshot", "/s", true, "", nil},
		{"snapshot", "snapshot/busy", "writes with them, snapshots back to back", "/s", true, "", nil},
		{"snapshot", "snapshot/fall", "writes lost to snapshots", "%", false, "< 15 %", most(15)},
	}
}

// bar is what the second system is to reach.
type bar struct {
	text string
	pass func(a, b float64) bool
}

// With TLS the project has set itself these bars, by the key of the metric, and no others. A server
// alone has others than an ensemble.
var (
	encryptedBars = map[string]bar{
		"reads/s": {"≥ 8 ×", times(8)}, "reads120/s": {"≥ 1.8 ×", times(1.8)},
		"connect/s": {"≥ 2 ×", times(2)}, "sessions/s": {"≥ 2 ×", times(2)}, "idle/rss": {"≤ 30 KB", most(30)},
	}
	encryptedEnsembleBars = map[string]bar{"writes/s": {"≥ 5 ×", times(5)}}
)

// worstCase ends the keys of metrics whose worst visit counts, not the median.
const worstCase = "/max"

// metricsOf returns the table for systems of so many members, with so many
// znodes where there are many. Fewer than a million have the bars of a million.
func metricsOf(members, znodes int, encrypted bool) []metric {
	list, bars := metrics(max(1, float64(znodes)/1e6)), encryptedBars
	if members > 1 {
		list, bars = ensembleMetrics(), encryptedEnsembleBars
	}
	if encrypted {
		for i := range list {
			b := bars[list[i].key]
			list[i].bar, list[i].pass = b.text, b.pass
		}
	}
	return list
}

// Rows returns the names of a comparison's rows, in the order of the table. An
// ensemble has others than a server alone.
func Rows(members int) []string {
	var names []string
	for _, m := range metricsOf(members, 0, false) {
		if !slices.Contains(names, m.row) {
			names = append(names, m.row)
		}
	}
	return names
}

// values are what one visit to one system measured, by the metrics' keys.
type values map[string]float64

// A visit measures one system once.
type visit struct {
	*Compare
	system System
	dir    string
	port   int
	values values
	filled int // znodes that the row fill has created
}

const valueBytes = 1024

func (v *visit) options(i *instance) Options {
	return v.timed(Options{Servers: []string{i.addr}, TLS: i.system.TLS, Pids: []int{i.cmd.Process.Pid}})
}

// timed adds to the options of a load what the caller wants of all.
func (v *visit) timed(o Options) Options {
	o.Progress, o.Duration, o.Warmup = v.Progress, v.Duration, v.Warmup
	return o
}

// A loadRow is a row that is measured on servers without many znodes.
type loadRow struct {
	name string
	run  func(context.Context, Options) error
}

// aloneRows are the rows of a server without many znodes. settle is called before
// the memory of idle sessions is measured.
func (v *visit) aloneRows(settle Settle) []loadRow {
	load := func(key string, ratio float64, connections, outstanding int) loadRow {
		return loadRow{key, func(ctx context.Context, o Options) error {
			return v.mixRow(ctx, key, v.mix(o, ratio, connections, outstanding))
		}}
	}
	return []loadRow{
		load("reads", 1, 20, 100), load("writes", 0, 20, 100), load("mix", 0.8, 20, 100),
		load("reads120", 1, 120, 1),
		{"create", v.create},
		{"watch", v.watch},
		{"idle", func(ctx context.Context, o Options) error { return v.idle(ctx, o, settle) }},
		{"connect", func(ctx context.Context, o Options) error { return v.connect(ctx, o, "connect", false) }},
		{"sessions", func(ctx context.Context, o Options) error { return v.connect(ctx, o, "sessions", true) }},
		{"fill", v.fill},
	}
}

// empty measures what needs no znodes, on a fresh server.
func (v *visit) empty(ctx context.Context) (err error) {
	var i *instance
	rows := v.aloneRows(func(ctx context.Context) error { return i.settle(ctx) })
	if !slices.ContainsFunc(rows, func(r loadRow) bool { return v.wants(r.name) }) {
		return nil
	}
	if i, _, err = startServer(ctx, v.system, v.dir, v.port, "/zookeeper"); err != nil {
		return err
	}
	defer i.kill()
	if err := v.warm(ctx, v.options(i)); err != nil {
		return err
	}
	for _, r := range rows {
		if !v.wants(r.name) {
			continue
		}
		v.say("%s: %s", v.system.Name, r.name)
		if err := r.run(ctx, v.options(i)); err != nil {
			return fmt.Errorf("%s: %s: %w", v.system.Name, r.name, err)
		}
	}
	return nil
}

// warm loads servers that have just started. A JVM compiles what it has seen
// often: neither system's first row should pay for that.
func (v *visit) warm(ctx context.Context, o Options) error {
	connections, outstanding := 20, 100
	if v.Members > 1 {
		connections, outstanding = ensembleConnections, ensembleOutstanding
	}
	_, err := v.keep(v.mix(o, 0.8, connections, outstanding).Run(ctx))
	return err
}

// mixKeys is the number of znodes of a mix.
const mixKeys = 1000

func (v *visit) mix(o Options, ratio float64, connections, outstanding int) Mix {
	return Mix{
		Options: o, Connections: connections, Outstanding: outstanding,
		ReadRatio: ratio, Size: valueBytes, Keys: mixKeys,
	}
}

func (v *visit) mixRow(ctx context.Context, key string, m Mix) error {
	r, err := v.keep(m.Run(ctx))
	if err != nil {
		return err
	}
	v.values[key+"/s"], v.values[key+"/cpu"] = r.Rate(), r.ServerCPU()
	return nil
}

func (v *visit) create(ctx context.Context, o Options) error {
	r, err := v.keep(Create{Options: o, Workers: 1, Size: valueBytes}.Run(ctx))
	if err != nil {
		return err
	}
	v.values["create/p50"] = r.Op("create").P50 / 1000
	return nil
}

func (v *visit) watch(ctx context.Context, o Options) error {
	r, err := v.keep(Watch{Options: o, Watchers: 200, Size: valueBytes}.Run(ctx))
	if err != nil {
		return err
	}
	v.values["watch/cpu"], v.values["watch/s"] = r.ServerCPU(), r.Op("event").Rate
	// A server that is not busy wakes up for every event by itself, which costs
	// more than events that follow each other closely.
	r, err = v.keep(Watch{Options: o, Watchers: 200, Size: valueBytes,
		Interval: 50 * time.Millisecond}.Run(ctx))
	if err != nil {
		return err
	}
	v.values["watch/paced"] = r.ServerCPU()
	return nil
}

func (v *visit) idle(ctx context.Context, o Options, settle Settle) error {
	r, err := v.keep(Idle{Options: o, Sessions: v.Sessions, Settle: settle}.Run(ctx))
	if err != nil {
		return err
	}
	v.values["idle/rss"] = r.Figure(figureSessionRSS)
	return nil
}

// connectWorkers have one connection each at a time.
const connectWorkers = 20

func (v *visit) connect(ctx context.Context, o Options, key string, sessions bool) error {
	r, err := v.keep(Connect{Options: o, Workers: connectWorkers, Sessions: sessions}.Run(ctx))
	if err != nil {
		return err
	}
	v.values[key+"/s"], v.values[key+"/cpu"] = r.Rate(), r.ServerCPU()
	return nil
}

// fillPart is how many znodes a load of the row fill creates.
const fillPart = 50_000

// fill creates the next znodes beside those of the loads before, as the row memory does: a server
// with a million of them takes 20 turns.
func (v *visit) fill(ctx context.Context, o Options) error {
	r, err := v.keep(znodesToFill(o, v.filled, fillPart).Run(ctx))
	if err != nil {
		return err
	}
	v.filled += fillPart
	v.values["fill/s"] = r.Rate()
	return nil
}

// fillParent is the znode below which servers are filled.
const fillParent = "/pinfold-fill"

// znodesToFill are count znodes of 100 bytes, from number first on.
func znodesToFill(o Options, first, count int) Fill {
	return Fill{Options: o, Connections: 8, Outstanding: 200, Path: fillParent, First: first, Count: count, Size: 100, Parents: 1}
}

// full measures what needs the znodes, on a second fresh server.
func (v *visit) full(ctx context.Context) error {
	if !v.wants("memory") && !v.wants("restart") && !v.wants("snapshot") {
		return nil
	}
	dir := v.dir + "-full"
	i, _, err := startServer(ctx, v.system, dir, v.port, "/zookeeper")
	if err != nil {
		return err
	}
	defer func() { i.kill() }()
	v.say("%s: %d znodes", v.system.Name, v.Znodes)
	fill, err := v.keep(znodesToFill(v.options(i), 0, v.Znodes).Run(ctx))
	if err != nil {
		return err
	}
	rss, err := Options{Pids: []int{i.cmd.Process.Pid}}.rss(ctx, i.settle)
	if err != nil {
		return err
	}
	v.values["memory/rss"], v.values["memory/s"] = float64(rss)/(1<<20), fill.Rate()
	if !v.wants("restart") && !v.wants("snapshot") {
		return nil
	}
	restart := func(extra ...string) error {
		i.kill()
		last := path{prefix: fillParent + "/k", numbered: true}.at(uint64(v.Znodes - 1))
		next, took, err := startServer(ctx, v.system, dir, v.port, last, extra...)
		if err != nil {
			return err
		}
		i, v.values["restart/s"] = next, took.Seconds()
		return nil
	}
	v.say("%s: restart", v.system.Name)
	if err := restart(); err != nil || !v.wants("snapshot") {
		return err
	}
	took := v.values["restart/s"]
	err = v.snapshot(ctx, &i, restart)
	v.values["restart/s"] = took // the others are not from the same state
	return err
}

// snapshot writes while snapshots follow each other, as snapCount's default has
// it under full load, and then while there are none. *i changes with restart.
func (v *visit) snapshot(ctx context.Context, i **instance, restart func(...string) error) error {
	v.say("%s: snapshots", v.system.Name)
	before := (*i).snapshots()
	busy, err := v.warmWrites(ctx, *i)
	if err != nil {
		return err
	}
	made := (*i).snapshots() - before
	if made == 0 {
		return errors.New("bench: no snapshot was taken while writing")
	}
	v.say("%s: %d snapshots taken", v.system.Name, made)
	if err := restart("snapCount=1000000000"); err != nil {
		return err
	}
	quiet, err := v.warmWrites(ctx, *i)
	if err != nil {
		return err
	}
	v.values["snapshot/busy"], v.values["snapshot/quiet"] = busy.Rate(), quiet.Rate()
	v.values["snapshot/fall"] = 100 * (1 - busy.Rate()/quiet.Rate())
	return nil
}

// warmWrites measures writes for the second time after a start: by then a JVM
// has compiled what it needs.
func (v *visit) warmWrites(ctx context.Context, i *instance) (*Result, error) {
	writes := v.mix(v.options(i), 0, 20, 100)
	if _, err := v.keep(writes.Run(ctx)); err != nil {
		return nil, err
	}
	return v.keep(writes.Run(ctx))
}
