package ensemble

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
	"github.com/pinfold-zk/pinfold/test/ensemble/load"
)

var (
	stopBy   = flag.String("stop", "kill", "how TestMigrationGap ends Apache's servers: kill (SIGKILL), reset (the same, and ss closes their connections; root only) or stop (SIGTERM)")
	asked    = flag.Bool("asked", true, "members have administration servers: TestMigrationGap has leaders of Pinfold's asked to hand over")
	compared = flag.Bool("compared", true, "TestMigrationGap compares the members after each migration")
	jvm      = flag.String("jvm", "", "more `flags` of the JVMs that TestMigrationGap measures")
)

// TestMigrationGap measures what clients feel of a migration of an ensemble with -base znodes,
// and back: the longest gap of the canaries of `pinfold migrate` for each member, the longest
// time without an acknowledged write, and how many writes are acknowledged compared with before.
// Writers write one request at a time, without a pause.
func TestMigrationGap(t *testing.T) {
	skipUnlessMeasured(t)
	for _, members := range mixtures(t, "apache,apache,apache") {
		r := newRig(t, members, rigOptions{jvm: fastJVM + " " + *jvm, admin: *asked, lines: superuser()})
		m := newMigration(r)
		w, err := load.StartWriters(load.WritersConfig{
			Addrs: r.e.Clients(), Clients: *clients, Batch: 1, Znodes: *base, Bytes: 100,
		})
		r.must(err)
		for range max(*rounds, 1) {
			m.measure("run", w, cluster.Pinfold, *stopBy)
			m.measure("back", w, r.specs[0].Kind, "stop")
		}
		m.compareWithElection(w)
		r.must(w.Stop())
	}
}

// beforeFor is how long the writers' rate is measured before a migration.
const beforeFor = 10 * time.Second

// measure runs a migration, and logs what was felt.
func (m *migration) measure(name string, w *load.Writers, kind cluster.Kind, stop string) {
	m.t.Helper()
	m.c.becomes(kind)
	rate := func(since time.Time, acked int64) float64 {
		return float64(w.Acked()-acked) / time.Since(since).Seconds()
	}
	acked, began := w.Acked(), time.Now()
	m.must(m.e.Until(m.within(patience), func() bool { return time.Since(began) > beforeFor }))
	before := rate(began, acked)
	acked, began = w.Acked(), time.Now()
	out, status := m.run(name, append(m.asSuper, "--yes", "--settle", "1s", "--wait", "5m", "--stop", m.c.command(stop), "--start", m.c.command("start"))...)
	during := rate(began, acked)
	gap, at := w.LongestGap(began, time.Now())
	m.t.Logf("pinfold migrate %s: %d\n%s", name, status, out)
	if status != 0 {
		m.t.FailNow()
	}
	took := time.Since(began)
	if *compared {
		equal, status := m.run("verify", m.asSuper...)
		if status != 0 {
			m.t.Errorf("pinfold migrate verify: %d\n%s", status, equal)
		}
		m.t.Logf("pinfold migrate verify: %s", equal[strings.LastIndex(strings.TrimSpace(equal), "\n")+1:])
	}
	m.t.Logf("RESULT %s, members ended by %s, %d znodes: canaries %s; no write acknowledged for %d ms from %s; %.0f writes a second before, %.0f during, %.2f; took %.1f s",
		name, stop, *base, m.canaries(), gap.Milliseconds(), at.Format("15:04:05.000"), before, during, during/before, took.Seconds())
}

// compareWithElection measures what an election costs when nobody migrates: the leader is killed, with as much data.
func (m *migration) compareWithElection(w *load.Writers) {
	m.t.Helper()
	leader, _ := m.leader()
	killed := time.Now()
	if *stopBy == "reset" {
		m.must(leader.KillConnections())
	} else {
		leader.Kill()
	}
	_, err := m.e.WaitLeader(m.within(patience), func(one *cluster.Member) bool { return one != leader })
	m.must(err)
	acked, began := w.Acked(), time.Now()
	m.must(m.e.Until(m.within(patience), func() bool { return time.Since(began) > beforeFor }))
	gap, at := w.LongestGap(killed, time.Now())
	m.t.Logf("RESULT an election of %s alone, members ended by %s, %d znodes: no write acknowledged for %d ms from %s; %.0f writes a second afterwards",
		m.specs[0].Kind, *stopBy, *base, gap.Milliseconds(), at.Format("15:04:05.000"), float64(w.Acked()-acked)/time.Since(began).Seconds())
}

// canaries is what the state file says of the members, in the order in which they were taken.
func (m *migration) canaries() string {
	m.t.Helper()
	var state struct {
		Members map[int]struct {
			Since time.Time
			Felt  struct {
				Gap int64 `json:"longest_gap_ms"`
			}
		}
	}
	text, err := os.ReadFile(m.state)
	m.must(err)
	m.must(json.Unmarshal(text, &state))
	var all []string
	for len(state.Members) > 0 {
		first := 0
		for id, one := range state.Members {
			if first == 0 || one.Since.Before(state.Members[first].Since) {
				first = id
			}
		}
		all = append(all, fmt.Sprintf("%d ms", state.Members[first].Felt.Gap))
		delete(state.Members, first)
	}
	return strings.Join(all, ", ")
}
