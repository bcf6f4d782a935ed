package bench

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// ensembleMetrics is the table of ensembles, with its bars.
func ensembleMetrics() []metric {
	return []metric{
		{"reads", "reads/s", "reads, 30 × 100", "/s", true, "≥ 8 ×", times(8)},
		{"reads", "reads/cpu", "reads, 30 × 100, CPU of the servers", "µs", false, "", nil},
		{"mix", "mix/s", "80/20, 30 × 100", "/s", true, "≥ 8 ×", times(8)},
		{"mix", "mix/cpu", "80/20, 30 × 100, CPU of the servers", "µs", false, "", nil},
		{"writes", "writes/s", "writes, 30 × 100", "/s", true, "≥ 4 ×", times(4)},
		{"writes", "writes/cpu", "writes, 30 × 100, CPU of the servers", "µs", false, "", nil},
		{"create", "create/s", "sync create, 1 worker", "/s", true, "≥ 2.5 ×", times(2.5)},
		{"create", "create/p50", "sync create, 1 worker, median", "ms", false, "", nil},
		{"create10", "create10/s", "sync create, 10 workers", "/s", true, "≥ 3 ×", times(3)},
		{"create10", "create10/p50", "sync create, 10 workers, median", "ms", false, "", nil},
		{"failover", "failover/gap", "gap in writes after kill -9 of the leader, median", "ms", false,
			"≤ 150 ms", most(150)},
		{"failover", "failover/max", "the same, longest of all", "ms", false, "≤ 150 ms", most(150)},
		{"rejoin", "rejoin/s", "start of a member that missed writes, until it is in sync", "s", false,
			"≤ 1/3", part(3)},
		{"rejoin", "rejoin/rate", "writes meanwhile, as scheduled", "/s", true, "", nil},
	}
}

// maxMembers bounds an ensemble: all are on one machine.
const maxMembers = 9

const ensembleMethod = `Each row loads for a while before it is measured, through all members. CPU of the
servers is what /proc says of all of them together, for each operation. The gap is
the longest time in which none of 10 sessions, each with one write under way, had
an acknowledgement; those that lose their connection try the members in turn at
once, with the session that they have. A member that missed writes was killed, and
100,000 creates of 1 KiB (unless the command says otherwise) were made without it;
the time is from exec to the answer of a sync through it, while others write at a
fixed rate, half of what Apache can do. "pinfold bench compare --help" tells more.
`

// Of the load on an ensemble.
const (
	ensembleConnections = 30
	ensembleOutstanding = 100
)

// ensembleRows are the rows of an ensemble.
func (v *visit) ensembleRows(e *ensemble) []loadRow {
	load := func(key string, ratio float64) loadRow {
		return loadRow{key, func(ctx context.Context, o Options) error {
			return v.mixRow(ctx, key, v.mix(o, ratio, ensembleConnections, ensembleOutstanding))
		}}
	}
	return []loadRow{
		load("reads", 1), load("mix", 0.8), load("writes", 0),
		{"create", func(ctx context.Context, o Options) error { return v.createRow(ctx, o, "create", 1) }},
		{"create10", func(ctx context.Context, o Options) error { return v.createRow(ctx, o, "create10", 10) }},
		{"failover", func(ctx context.Context, _ Options) error { return v.failover(ctx, e) }},
		{"rejoin", func(ctx context.Context, _ Options) error { return v.rejoin(ctx, e) }},
	}
}

// ensemble measures the rows of an ensemble, on a fresh one.
func (v *visit) ensemble(ctx context.Context) error {
	e, err := startEnsemble(ctx, v.system, v.dir, v.port, v.Members)
	if err != nil {
		return err
	}
	defer e.stop()
	if err := v.warm(ctx, v.ensembleOptions(e)); err != nil {
		return e.failed(err)
	}
	for _, row := range v.ensembleRows(e) {
		if !v.wants(row.name) {
			continue
		}
		v.say("%s: %s", v.system.Name, row.name)
		if err := row.run(ctx, v.ensembleOptions(e)); err != nil {
			return fmt.Errorf("%s: %s: %w", v.system.Name, row.name, e.failed(err))
		}
	}
	return nil
}

// ensembleOptions are of a load on all members.
func (v *visit) ensembleOptions(e *ensemble) Options { return v.timed(e.options(e.living())) }

// createRow measures synchronous creates, and counts only those: each is
// followed by a delete whose reply is not awaited.
func (v *visit) createRow(ctx context.Context, o Options, key string, workers int) error {
	r, err := v.keep(Create{Options: o, Workers: workers, Size: valueBytes}.Run(ctx))
	if err != nil {
		return err
	}
	op := r.Op(kindCreate.String())
	v.values[key+"/s"], v.values[key+"/p50"] = op.Rate, op.P50/1000
	return nil
}

// trackEvery is the width of a sample where only gaps and rates are wanted.
const trackEvery = 10 * time.Millisecond

// failoverWriters are the sessions of the row failover, each with one write
// under way.
const failoverWriters = 10

// failover kills one leader after the other, and measures for each how long no
// write was acknowledged. A killed member is back in sync before the next.
func (v *visit) failover(ctx context.Context, e *ensemble) error {
	b, err := startBackground(ctx, Mix{
		Options: Options{Servers: e.addresses(), TLS: e.system.TLS}, Connections: failoverWriters, Outstanding: 1,
		Size: valueBytes, Keys: mixKeys,
	}, &track{every: trackEvery})
	if err != nil {
		return err
	}
	var killed, until []int64
	for k := 0; k < v.Kills && err == nil; k++ {
		var from, to int64
		if from, to, err = v.killLeader(b.run.ctx, e, b.now); err == nil {
			killed, until = append(killed, from), append(until, to)
		}
	}
	if err := b.finish(ctx, err); err != nil {
		return err
	}
	var gaps []float64
	for k := range killed {
		gap := b.track.longestGap(killed[k], until[k])
		v.say("%s: kill %d: no write for %v", v.system.Name, k+1, gap.Round(time.Microsecond))
		gaps = append(gaps, gap.Seconds()*1000)
	}
	v.values["failover/gap"], v.values["failover/max"] = medianOf(gaps), slices.Max(gaps)
	return nil
}

// killLeader kills the leader, waits for another and a while longer, and starts
// the member again. It returns when it was killed and when it was started.
func (v *visit) killLeader(ctx context.Context, e *ensemble, now func() int64) (from, to int64, err error) {
	if err := rest(ctx, v.Settle); err != nil {
		return 0, 0, err
	}
	leader, err := e.leader(ctx)
	if err != nil {
		return 0, 0, err
	}
	from = now()
	e.kill(leader)
	if _, err := e.leader(ctx); err != nil {
		return 0, 0, err
	}
	if err := rest(ctx, v.Settle); err != nil {
		return 0, 0, err
	}
	to = now()
	if err := e.restart(leader); err != nil {
		return 0, 0, err
	}
	return from, to, e.awaitSync(ctx, leader)
}

// rejoin kills a follower, creates znodes that it misses, and measures how long
// it takes from its start until it serves with all that was committed, while
// others write at a fixed rate.
func (v *visit) rejoin(ctx context.Context, e *ensemble) error {
	followers, err := e.followers(ctx)
	if err != nil {
		return err
	}
	away := followers[len(followers)-1]
	e.kill(away)
	left := e.options(e.living())
	fill := Fill{Options: left, Connections: 8, Outstanding: 200, Path: "/pinfold-away",
		Count: v.Away, Size: valueBytes, Parents: 1}
	fill.Progress = v.Progress
	if _, err := v.keep(fill.Run(ctx)); err != nil {
		return err
	}
	b, err := startBackground(ctx, Mix{
		Options: Options{Servers: left.Servers, TLS: left.TLS}, Connections: ensembleConnections,
		Outstanding: ensembleOutstanding, Size: valueBytes, Keys: mixKeys, Rate: v.AwayRate,
	}, &track{every: trackEvery})
	if err != nil {
		return err
	}
	err = rest(b.run.ctx, v.Settle)
	start := time.Now()
	from := b.now()
	if err == nil {
		if err = e.restart(away); err == nil {
			err = e.awaitSync(b.run.ctx, away)
		}
	}
	took, to := time.Since(start), b.now()
	if err := b.finish(ctx, err); err != nil {
		return err
	}
	v.values["rejoin/s"] = took.Seconds()
	v.values["rejoin/rate"] = b.track.writesBetween(from, to)
	return nil
}

// A background is a load that goes on while something is done to the servers.
type background struct {
	run   *run
	track *track
	set   znodes
	o     Options
}

// startBackground creates the znodes of m and sets the load going. finish must
// be called.
func startBackground(ctx context.Context, m Mix, t *track) (*background, error) {
	b := &background{track: t, o: m.Options}
	place := newPlace("mix")
	b.set = znodes{parents: []string{place}, count: m.Keys, size: m.Size}
	if err := b.set.create(ctx, m.Options); err != nil {
		return nil, err
	}
	if err := syncServers(ctx, m.Options); err != nil {
		return nil, err
	}
	var err error
	b.run, err = m.begin(ctx, path{prefix: place + "/k", numbered: true}, t)
	return b, err
}

// now returns the time on the clock of the track.
func (b *background) now() int64 { return int64(time.Since(b.run.epoch)) }

// finish ends the load and removes the znodes. It returns the first error: of
// the load, or the one given, which came of what was done meanwhile.
func (b *background) finish(ctx context.Context, err error) error {
	if e := b.run.stop(); e != nil {
		return e
	}
	if err != nil {
		return err
	}
	return b.set.remove(ctx, b.o)
}
