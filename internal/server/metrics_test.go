package server

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pinfold-zk/pinfold/internal/metric"
	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

func TestNamespacesAreBounded(t *testing.T) {
	n := newNamespaces()
	var y tally
	for i := range 2 * maxNamespaces {
		y.add(n, fmt.Sprintf("/n%04d/x", i), 10)
		y.add(n, fmt.Sprintf("/n%04d", i), 30)
	}
	y.fold()
	all := n.All()
	if len(all) != maxNamespaces {
		t.Fatalf("%d namespaces", len(all))
	}
	for i, k := range all {
		want := metric.AggregateOf(2, 40, 10, 30)
		if got := k.Value.Aggregate(); k.Key != fmt.Sprintf("n%04d", i) || got != want {
			t.Fatalf("%s: %+v, want %+v", k.Key, got, want)
		}
	}
}

// Counting a request allocates nothing.
func TestCountingDoesNotAllocate(t *testing.T) {
	s := newTestServer(t, nil)
	var c connStats
	c.reset()
	allocs := testing.AllocsPerRun(1000, func() {
		c.reads.beginReply(s.stats.readsBy, "/a/b", 20)
		c.reads.endReply(s.stats.readsBy, 120)
		c.reads.beginReply(s.stats.readsBy, "/b", 120)
		c.reads.endReply(s.stats.readsBy, 130)
		c.noteReply(100)
		c.add(1, time.Millisecond, time.Second)
		s.stats.requests[1].Add(1, time.Millisecond)
		c.unreported.sent++
		s.stats.fold(&c)
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

// Reads are counted by what they show, each part of a multi read by itself.
func TestReadTraffic(t *testing.T) {
	s := newTestServer(t, nil)
	k := connect(t, s.dial(), 30000)
	k.create("/a", "0123456789", zk.Persistent)
	k.create("/b", "01234", zk.Persistent)
	k.read(wire.OpGetData, "/a", false)
	k.read(wire.OpExists, "/b", false)
	k.read(wire.OpExists, "/missing", false)
	k.read(wire.OpGetChildren, "/", false)
	k.mustCall(wire.OpPing, nil)
	s.foldAll()
	const frame, statBytes = 4, 68
	want := map[string]metric.Aggregate{
		"a": metric.AggregateOf(1, 2+frame+10+statBytes, 2+frame+10+statBytes, 2+frame+10+statBytes),
		"b": metric.AggregateOf(1, 2+statBytes, 2+statBytes, 2+statBytes),
	}
	got := map[string]metric.Aggregate{}
	for _, k := range s.stats.readsBy.All() {
		got[k.Key] = k.Value.Aggregate()
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reads by namespace (-want +got):\n%s", diff)
	}
}

func TestCounters(t *testing.T) {
	s := newTestServer(t, nil)
	k := connect(t, s.dial(), 30000)
	k.create("/a", strings.Repeat("x", 100), zk.Persistent)
	k.read(wire.OpGetData, "/a", true)
	k.set("/a", make([]byte, 200))
	if r := k.call(wire.OpCheckWatches, nil); r.Err != zk.ErrMarshalling {
		t.Fatal(r.Err)
	}
	k.nc.Close()
	got := ask(t, s.dial(), "mntr")
	for _, line := range []string{
		"zk_packets_received\t6\n", "zk_packets_sent\t6\n", // with this word, and with an event
		"zk_connection_request_count\t1\n", "zk_proposal_count\t3\n", "zk_commit_count\t3\n",
		"zk_sum_sync_processor_batch_size\t3\n", "zk_cnt_updatelatency\t3\n", "zk_cnt_readlatency\t2\n",
		"zk_cnt_node_changed_watch_count\t1\n", "zk_sum_node_changed_watch_count\t1\n",
		"zk_connection_revalidate_count\t0\n", "zk_cnt_snapshottime\t1\n", "zk_cnt_dbinittime\t1\n",
		"zk_cnt_startup_txns_loaded\t0\n", "zk_global_sessions\t1\n",
	} {
		if !strings.Contains(got, line) {
			t.Errorf("no %q in\n%s", line, got)
		}
	}
	if m := regexp.MustCompile(`zk_max_client_response_size\t(\d+)`).FindStringSubmatch(got); m == nil || m[1] != fmt.Sprint(16+4+100+68) {
		t.Errorf("largest reply %v", m)
	}
	if m := regexp.MustCompile(`zk_watch_bytes\t(\d+)`).FindStringSubmatch(got); m == nil || m[1] != fmt.Sprint(4+16+4+4+4+2) {
		t.Errorf("bytes of events %v", m)
	}
	ask(t, s.dial(), "srst")
	got = ask(t, s.dial(), "mntr")
	for _, line := range []string{
		"zk_proposal_count\t0\n", "zk_sum_sync_processor_batch_size\t0\n", "zk_cnt_updatelatency\t0\n",
		"zk_cnt_node_changed_watch_count\t0\n", "zk_cnt_a_write_per_namespace\t0\n", "zk_cnt_dbinittime\t1\n",
		"zk_last_client_response_size\t-1\n", "zk_watch_bytes\t0\n", "zk_packets_received\t1\n",
	} {
		if !strings.Contains(got, line) {
			t.Errorf("after srst: no %q in\n%s", line, got)
		}
	}
}

// Every metric of the catalogue has a value on the servers that its description names,
// and on no other. (That docs/ops/monitoring.md has the same metrics is tested in
// internal/metric.)
func TestEveryMetricHasAValue(t *testing.T) {
	check := func(t *testing.T, r *rig) {
		t.Helper()
		mode := r.rep.Mode()
		member := mode == replica.Leader || mode == replica.Follower || mode == replica.Observer
		for _, m := range r.srv.Metrics().Snapshot() {
			want := map[metric.Role]bool{
				"": true, metric.OnMember: member, metric.OnLeader: mode == replica.Leader,
				metric.OnVoter: mode == replica.Leader || mode == replica.Follower, metric.OnObserver: mode == replica.Observer,
			}[m.On]
			elsewhere := strings.HasPrefix(m.Name, "quota_") || m.Owner == "internal/transport" // internal/node has servers with these
			switch n := len(m.Samples); {
			case (n > 0) != want && !elsewhere:
				t.Errorf("%v: %s has %d values, want some: %v", mode, m.Name, n, want)
			case m.Key == "" && n > 1:
				t.Errorf("%v: %s, which is no set, has %d values", mode, m.Name, n)
			}
			for _, s := range m.Samples {
				if zero := (metric.Sample{Key: s.Key}); m.Absent != "" && s != zero {
					t.Errorf("%v: %s is %+v: here is no %s", mode, m.Name, s, m.Absent)
				}
			}
		}
	}
	inEnsemble(t, 3, 1, func(e *ensemble) {
		for _, r := range e.rigs {
			c := r.open()
			c.create(fmt.Sprint("/of", e.id(r)), "", zk.Persistent)
			c.get(fmt.Sprint("/of", e.id(r)))
			c.call(wire.OpPing, nil)
		}
		pass(rigTick)
		for _, r := range e.rigs {
			check(t, r)
		}
		check(t, e.alone())
	}, readOnlyMode)
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		c := r.open()
		c.create("/a", "", zk.Persistent)
		c.get("/a")
		c.call(wire.OpPing, nil)
		check(t, r)
	})
}

// srst empties every counter and every summary, except those of the start.
func TestResetEmptiesAll(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.open()
		c.create("/a", strings.Repeat("x", 100), zk.Persistent)
		c.get("/a")
		c.mustCall(wire.OpDelete, deleteBody("/a"))
		synctest.Wait() // a turn of the pipeline is counted after its replies are sent
		r.srv.Metrics().Reset()
		for _, m := range r.srv.Metrics().Snapshot() {
			for _, v := range m.Samples {
				start := m.Name == "dbinittime" || strings.HasPrefix(m.Name, "startup_")
				switch {
				case m.Type == metric.TypeCounter && v.Int != 0:
					t.Errorf("%s is %d", m.Name, v.Int)
				case m.Type == metric.TypeSummary && !start && v.Summary != (metric.Aggregate{}):
					t.Errorf("%s %s is %+v", m.Name, v.Key, v.Summary)
				}
			}
		}
	})
}

// Two servers of one process count for themselves.
func TestServersDoNotShareMetrics(t *testing.T) {
	first, second := newTestServer(t, nil), newTestServer(t, nil)
	connect(t, first.dial(), 30000)
	for s, want := range map[*testServer]string{first: "1", second: "0"} {
		if got := gauge(ask(t, s.dial(), "mntr"), "connection_request_count"); got != want {
			t.Errorf("%s session requests, want %s", got, want)
		}
	}
}
