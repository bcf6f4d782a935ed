package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pinfold-zk/pinfold/zk"
)

// warm loads servers that have just started: a JVM compiles what it has seen
// often, and neither system's first point should pay for that. Three JVMs on two
// processors need 12 seconds until they are as fast as they ever are, and some
// more for writes alone.
func (v *paperVisit) warm(ctx context.Context) error {
	mixed, written := max(2*v.Duration, 3*time.Second), time.Duration(0)
	if slices.ContainsFunc(v.members, (*instance).isJava) {
		mixed, written = max(mixed, 10*time.Second), 5*time.Second
	}
	o := v.load()
	o.Duration, o.Warmup = mixed, 0
	if _, err := v.mixOf(o, 0.8, paperConnections, paperOutstanding).Run(ctx); err != nil || written == 0 {
		return err
	}
	o.Duration = written
	_, err := v.mixOf(o, 0, paperConnections, paperOutstanding).Run(ctx)
	return err
}

// load is of all members.
func (v *paperVisit) load() Options {
	if v.system.Hosts != nil {
		return v.timed(Options{Servers: v.system.Hosts})
	}
	return v.timed(v.options(v.living()))
}

// addresses are of all members.
func (v *paperVisit) addresses() []string { return v.load().Servers }

// leaderAddress asks the members.
func (v *paperVisit) leaderAddress(ctx context.Context) (string, error) {
	if v.system.Hosts == nil {
		i, err := v.leader(ctx)
		if err != nil {
			return "", err
		}
		return v.members[i].addr, nil
	}
	for _, addr := range v.system.Hosts {
		if leads(ctx, v.system.TLS, addr) {
			return addr, nil
		}
	}
	return "", fmt.Errorf("bench: none of %v says that it leads; is the four-letter word srvr allowed?", v.system.Hosts)
}

func (v *paperVisit) timed(o Options) Options {
	o.Duration, o.Warmup = v.Duration, v.Warmup
	return o
}

func (v *paperVisit) mixOf(o Options, ratio float64, connections, outstanding int) Mix {
	return Mix{Options: o, Connections: connections, Outstanding: outstanding, ReadRatio: ratio, Size: valueBytes, Keys: mixKeys}
}

// valuesOf are what every load gives: operations a second, the servers' CPU for
// each and their memory together, and the latencies of each kind of operation.
func valuesOf(r *Result, err error) (values, error) {
	if err == nil && r.ErrorCount() > 0 {
		err = fmt.Errorf("bench: %d operations were refused", r.ErrorCount())
	}
	if err == nil && r.Interrupted {
		err = context.Canceled
	}
	if err != nil {
		return nil, err
	}
	got := values{"rate": r.Rate(), "cpu_us": r.ServerCPU()}
	for _, s := range r.Servers {
		got["rss_mb"] += float64(s.RSSBytes) / (1 << 20)
	}
	for _, op := range r.Ops {
		got[op.Op+"_rate"], got[op.Op+"_p50_ms"], got[op.Op+"_p99_ms"] = op.Rate, op.P50/1000, op.P99/1000
		got[op.Op+"_mean_ms"], got[op.Op+"_p999_ms"] = op.Mean/1000, op.P999/1000
	}
	return got, nil
}

// throughputPoints are figure 5, and figure 6 when all clients are on the leader.
func throughputPoints(ratios []float64, leader bool) (list []point) {
	for _, percent := range ratios {
		list = append(list, point{values{"reads_percent": percent}, func(ctx context.Context, v *paperVisit) (values, error) {
			o := v.load()
			if leader {
				addr, err := v.leaderAddress(ctx)
				if err != nil {
					return nil, err
				}
				o.Servers = []string{addr}
			}
			return valuesOf(v.mixOf(o, percent/100, paperConnections, paperOutstanding).Run(ctx))
		}})
	}
	return list
}

// broadcastPoints are figure 7: the leader makes transactions by itself, and the
// zxid tells how many were committed.
func broadcastPoints() []point {
	return []point{{values{"size": valueBytes}, func(ctx context.Context, v *paperVisit) (values, error) {
		addr, err := v.leaderAddress(ctx)
		if err != nil {
			return nil, err
		}
		first, before, err := v.progress(ctx, addr)
		if err != nil {
			return nil, err
		}
		start := time.Now()
		if err := rest(ctx, v.Duration); err != nil {
			return nil, err
		}
		last, after, err := v.progress(ctx, addr)
		if err != nil {
			return nil, err
		}
		n := float64(last - first)
		return values{"rate": n / time.Since(start).Seconds(), "cpu_us": (after - before).Seconds() * 1e6 / n}, nil
	}}}
}

// progress is the zxid of a member, and the processor time of all.
func (v *paperVisit) progress(ctx context.Context, addr string) (zxid zk.Zxid, cpu time.Duration, err error) {
	s, err := status(ctx, v.system.TLS, addr)
	if err != nil {
		return 0, 0, fmt.Errorf("bench: %s: %w", addr, err)
	}
	for _, pid := range v.load().Pids {
		u, err := processUsage(pid)
		if err != nil {
			return 0, 0, err
		}
		cpu += u.cpu
	}
	return s.Zxid, cpu, nil
}

// createPoints are table 2.
func createPoints(workers []int) (list []point) {
	for _, n := range workers {
		list = append(list, point{values{"workers": float64(n)}, func(ctx context.Context, v *paperVisit) (values, error) {
			r, err := Create{Options: v.load(), Workers: n, Size: valueBytes}.Run(ctx)
			got, err := valuesOf(r, err)
			if err == nil {
				got["rate"] = got["create_rate"] // no caller waits for the deletes
			}
			return got, err
		}})
	}
	return list
}

// alonePoints have many clients with one request each.
func alonePoints() (list []point) {
	for _, percent := range []float64{80, 100} {
		list = append(list, point{values{"reads_percent": percent}, func(ctx context.Context, v *paperVisit) (values, error) {
			return valuesOf(v.mixOf(v.load(), percent/100, 120, 1).Run(ctx))
		}})
	}
	return list
}

func (p *Paper) syncPoints() (list []point) {
	counts := []int{1, 10, 100}
	if p.Quick {
		counts = []int{1, 100}
	}
	for _, n := range counts {
		list = append(list, point{values{"clients": float64(n)}, func(ctx context.Context, v *paperVisit) (values, error) {
			return valuesOf(Sync{Options: v.load(), Clients: n}.Run(ctx))
		}})
	}
	return list
}

// openRates are writes a second by schedule. 12,000 is half of what Apache can do
// on a machine with two processors.
func (p *Paper) openRates() []float64 {
	if p.Quick {
		return []float64{4000, 12000}
	}
	return []float64{1000, 2000, 4000, 8000, 12000, 16000, 24000, 32000, 48000, 64000, 96000, 128000}
}

// A system that has done less than this part of a rate is saturated.
const kept = 0.95

// openPoints raise the rate until a system does not keep up any more.
func (p *Paper) openPoints() (list []point) {
	for _, rate := range p.openRates() {
		list = append(list, point{values{"rate": rate}, func(ctx context.Context, v *paperVisit) (values, error) {
			if v.saturated("open", rate) {
				return values{"saturated": 1}, nil
			}
			m := v.mixOf(v.load(), 0, paperConnections, 1000)
			m.Rate = rate
			return saturation(rate)(valuesOf(m.Run(ctx)))
		}})
	}
	return list
}

// saturation marks what is less than it should be.
func saturation(rate float64) func(values, error) (values, error) {
	return func(got values, err error) (values, error) {
		if err == nil && got["rate"] < kept*rate {
			got["saturated"] = 1
		}
		return got, err
	}
}

// saturated reports whether the system could not keep up with a smaller rate.
func (v *paperVisit) saturated(experiment string, rate float64) bool {
	for _, s := range v.found.Samples {
		if s.Experiment == experiment && s.System == v.system.Name && s.Params["rate"] < rate && s.Values["saturated"] == 1 {
			return true
		}
	}
	return false
}

func (p *Paper) watcherPoints() (list []point) {
	counts := []int{200, 10_000}
	if p.Quick {
		counts = []int{200, 2000}
	}
	for _, n := range counts {
		list = append(list, point{values{"watchers": float64(n)}, func(ctx context.Context, v *paperVisit) (values, error) {
			got, err := valuesOf(Watch{Options: v.load(), Watchers: n, Size: valueBytes}.Run(ctx))
			if err == nil {
				got["rate"] = got["event_rate"] // reading again is not what is asked
			}
			return got, err
		}})
	}
	return list
}

// idleSessions returns how many are opened: 50,000, or as many as there may be
// files open.
func (p *Paper) idleSessions() int {
	if p.Quick && p.BarRuns == 0 {
		return 5000
	}
	const want, spare = 50_000, 1000 // spare are files beside the sessions
	return allowFiles(want+spare) - spare
}

func sessionPoints(n int) []point {
	return []point{{values{"sessions": float64(n)}, func(ctx context.Context, v *paperVisit) (values, error) {
		o := v.load()
		// One address has no more than 28,000 ports for its clients.
		for _, host := range []string{"127.0.0.2", "127.0.0.3", "127.0.0.4"} {
			o.Servers = append(o.Servers, fmt.Sprintf("%s:%d", host, v.port))
		}
		r, err := Idle{Options: o, Sessions: n, Settle: v.members[0].settle}.Run(ctx)
		got, err := valuesOf(r, err)
		if err == nil {
			got["session_kb"] = r.Figure(figureSessionRSS)
		}
		return got, err
	}}}
}

// Sync has clients sync and wait for the answer, and sync again.
type Sync struct {
	Options
	Clients int
}

// Run applies the load. The Result is nil only if nothing was measured.
func (s Sync) Run(ctx context.Context) (*Result, error) {
	if s.Clients < 1 {
		return nil, fmt.Errorf("bench: sync: %d clients", s.Clients)
	}
	root := path{prefix: "/"}
	r, err := prepare(ctx, s.Options, s.Clients, func(int) script { return &syncScript{frame: syncFrame(root)} })
	if err != nil {
		return nil, err
	}
	r.start()
	return r.conclude(ctx, "sync", map[string]any{"clients": s.Clients})
}

// syncBody is what a sync is answered with: the path.
const syncBody = 4 + 1

type syncScript struct {
	idleScript
	frame frame
}

func (s *syncScript) next(c *session, now int64) {
	if c.underWay() == 0 {
		c.send(s.frame, kindSync, syncBody, now)
	}
}
