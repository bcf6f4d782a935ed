package ensemble

import (
	"flag"
	"slices"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
	"github.com/pinfold-zk/pinfold/test/ensemble/load"
)

var (
	away   = flag.Int("away", 100_000, "how many `writes` a member misses before it rejoins")
	base   = flag.Int("base", 20_000, "how many `znodes` of 1 KiB there are, over which writes go")
	logged = flag.Int("logged", 1<<30, "how many `bytes` the log has that is damaged")
)

// fastJVM is how Apache is run where it is measured.
const fastJVM = "-Xmx2g"

func skipUnlessMeasured(t *testing.T) {
	t.Helper()
	if !*measure {
		t.Skip("this measures, and takes minutes: -measure runs it")
	}
}

// median of durations, for a report.
func median(list []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[len(sorted)/2].Round(time.Millisecond / 10)
}

// TestFailOver measures the longest gap in acknowledged writes after kill -9 of
// the leader. Clients write one request at a time, without a pause, at all
// members, and reconnect at once.
func TestFailOver(t *testing.T) {
	skipUnlessMeasured(t)
	for _, members := range mixtures(t, "apache,apache,apache", "pinfold,pinfold,pinfold") {
		t.Run(members, func(t *testing.T) {
			r := newRig(t, members, rigOptions{jvm: fastJVM})
			w, err := load.StartWriters(failOverLoad(r))
			r.must(err)
			var gaps []time.Duration
			for i := range max(*rounds, 1) {
				gap, began, leader := r.failOver(w)
				t.Logf("round %d: %v without an acknowledged write, from %v after kill -9 of %v",
					i+1, gap.Round(time.Millisecond/10), began.Round(time.Millisecond/10), leader)
				gaps = append(gaps, gap)
			}
			r.must(w.Stop())
			t.Logf("RESULT fail-over %s: median %v of %d, least %v, most %v", members, median(gaps), len(gaps),
				slices.Min(gaps).Round(time.Millisecond/10), slices.Max(gaps).Round(time.Millisecond/10))
		})
	}
}

// failOverLoad is clients that write one request at a time, without a pause, at all members.
func failOverLoad(r *rig) load.WritersConfig {
	return load.WritersConfig{Addrs: r.e.Clients(), Clients: 6, Batch: 1, Znodes: 100, Bytes: 1024}
}

// failOver kills the leader under a load, and starts it again when another leads. It returns the
// longest gap in acknowledged writes, and how long after the kill that began.
func (r *rig) failOver(w *load.Writers) (gap, began time.Duration, leader *cluster.Member) {
	r.t.Helper()
	r.written(w, 500)
	leader, _ = r.leader()
	killed := time.Now()
	leader.Kill()
	_, err := r.e.WaitLeader(r.within(patience), func(m *cluster.Member) bool { return m != leader })
	r.must(err)
	r.written(w, 100)
	gap, at := w.LongestGap(killed, time.Now())
	r.must(leader.Start())
	_, err = r.e.WaitCaughtUp(r.within(patience), leader)
	r.must(err)
	return gap, at.Sub(killed), leader
}

// written waits until writers have had so many more writes acknowledged.
func (r *rig) written(w *load.Writers, writes int64) {
	r.t.Helper()
	target := w.Acked() + writes
	r.must(r.e.Until(r.within(5*patience), func() bool { return w.Acked() >= target }))
}

// TestRejoin measures how long a follower that has missed many writes takes from
// its start until it serves and has caught up, while 2,000 writes a second go on.
func TestRejoin(t *testing.T) {
	skipUnlessMeasured(t)
	for _, members := range mixtures(t, "apache,apache,apache", "pinfold,pinfold,pinfold") {
		t.Run(members, func(t *testing.T) {
			r := newRig(t, members, rigOptions{jvm: fastJVM})
			took := map[cluster.Kind][]time.Duration{}
			for i := range max(*rounds, 1) {
				for _, m := range r.oneOfEachKind() {
					d := r.rejoin(m)
					t.Logf("round %d: %v is back in sync %v after its start", i+1, m, d.Round(time.Millisecond))
					took[m.Kind()] = append(took[m.Kind()], d)
				}
			}
			for kind, list := range took {
				t.Logf("RESULT rejoin of %s in %s after %d writes over %d znodes: median %v of %d, least %v, most %v",
					kind, members, *away, *base, median(list), len(list),
					slices.Min(list).Round(time.Millisecond), slices.Max(list).Round(time.Millisecond))
			}
		})
	}
}

// oneOfEachKind returns a follower of each kind that has one.
func (r *rig) oneOfEachKind() []*cluster.Member {
	r.t.Helper()
	leader, _ := r.leader()
	var list []*cluster.Member
	seen := map[cluster.Kind]bool{}
	for _, m := range r.e.Voters() {
		if m != leader && !seen[m.Kind()] {
			seen[m.Kind()] = true
			list = append(list, m)
		}
	}
	return list
}

// rejoin kills a follower, has the others take writes, and starts it again.
func (r *rig) rejoin(m *cluster.Member) time.Duration {
	r.t.Helper()
	fill := load.WritersConfig{Addrs: r.e.Clients(), Clients: 4, Batch: 100, Znodes: *base, Bytes: 1024}
	w, err := load.StartWriters(fill)
	r.must(err)
	r.written(w, 1000)
	m.Kill()
	r.written(w, int64(*away))
	r.must(w.Stop())

	// 4 clients, 10 writes each, 50 times a second.
	fill.Batch, fill.Pause = 10, 20*time.Millisecond
	fill.Addrs = slices.DeleteFunc(fill.Addrs, func(a string) bool { return a == m.Client })
	w, err = load.StartWriters(fill)
	r.must(err)
	r.written(w, 4000)
	began := time.Now()
	r.must(m.Start())
	_, err = r.e.WaitCaughtUp(r.within(patience), m)
	r.must(err)
	d := time.Since(began)
	r.must(w.Stop())
	return d
}

// TestDamagedLog measures how long a follower takes from its start until it has its vote and has caught up:
// with a damaged byte in the middle of a large log, with that log whole (a restart), and with an empty disk
// (a transfer). Clients write meanwhile. The first should take no longer than the other two together.
func TestDamagedLog(t *testing.T) {
	skipUnlessMeasured(t)
	const size = 64 << 10
	for _, members := range mixtures(t, "pinfold,pinfold,pinfold") {
		t.Run(members, func(t *testing.T) {
			r := newRig(t, members, rigOptions{lines: []string{"snapCount=100000000"}}) // one log file, and no snapshot after it
			w, err := load.StartWriters(load.WritersConfig{Addrs: r.e.Clients(), Clients: 4, Batch: 8, Znodes: 2000, Bytes: size})
			r.must(err)
			r.written(w, int64(*logged/size))
			r.must(w.Stop())
			leader, _ := r.leader()
			followers := slices.DeleteFunc(slices.Clone(r.e.Members), func(m *cluster.Member) bool { return m == leader })
			whole, damaged := followers[0], followers[1]
			r.load()

			whole.Kill()
			began := time.Now()
			r.must(whole.Start())
			_, err = r.e.WaitCaughtUp(r.within(patience), whole)
			r.must(err)
			restart := time.Since(began)

			heal := r.healsFrom(damaged, "a byte in the middle of the log is another", func(m *cluster.Member) error {
				return flip(newest(m, "log."), int64(*logged/2))
			})
			disk := damages[len(damages)-1]
			transfer := r.healsFrom(damaged, disk.what, disk.do)
			r.finish()
			t.Logf("RESULT damaged log of %d MiB in %s: back after %v; restart %v, transfer %v", *logged>>20, members,
				heal.Round(time.Millisecond), restart.Round(time.Millisecond), transfer.Round(time.Millisecond))
		})
	}
}
