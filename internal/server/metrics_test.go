package server

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/metric"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

func TestTopNamespace(t *testing.T) {
	for path, want := range map[string]string{
		"": "", "/": "", "/a": "a", "/a/b": "a", "/zookeeper/quota/x": "zookeeper", "odd": "", "//x": "",
	} {
		if got := topNamespace(path); got != want {
			t.Errorf("%q: %q, want %q", path, got, want)
		}
	}
}

func TestNamespacesAreBounded(t *testing.T) {
	var n namespaces
	var y tally
	for i := range 2 * maxNamespaces {
		y.add(&n, fmt.Sprintf("/n%04d/x", i), 10)
		y.add(&n, fmt.Sprintf("/n%04d", i), 30)
	}
	y.fold()
	all := n.summaries()
	if len(all) != maxNamespaces {
		t.Fatalf("%d namespaces", len(all))
	}
	for i, s := range all {
		want := namedSummary{fmt.Sprintf("n%04d", i), metric.Plain(2, 40, 10, 30)}
		if s != want {
			t.Fatalf("%+v, want %+v", s, want)
		}
	}
	n.reset()
	if all := n.summaries(); len(all) != maxNamespaces || all[0].Summary != (metric.Summary{}) {
		t.Errorf("after reset: %d, %+v", len(all), all[0])
	}
}

// To count a request allocates nothing.
func TestCountingDoesNotAllocate(t *testing.T) {
	s := newTestServer(t, nil)
	var c connStats
	c.reset()
	allocs := testing.AllocsPerRun(1000, func() {
		c.reads.begin(&s.stats.readsBy, "/a/b", 20)
		c.reads.end(&s.stats.readsBy, 120)
		c.reads.begin(&s.stats.readsBy, "/b", 120)
		c.reads.end(&s.stats.readsBy, 130)
		c.noteReply(100)
		c.add(1, time.Millisecond, time.Second)
		s.stats.Reads.Add(1, time.Millisecond)
		c.unsaid.sent++
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
	k.create("/a", []byte("0123456789"), zk.Persistent)
	k.create("/b", []byte("01234"), zk.Persistent)
	k.read(wire.OpGetData, "/a", false)
	k.read(wire.OpExists, "/b", false)
	k.read(wire.OpExists, "/missing", false)
	k.read(wire.OpGetChildren, "/", false)
	k.must(wire.OpPing, nil)
	s.collect()
	const frame, statBytes = 4, 68
	want := []namedSummary{
		{"a", metric.Plain(1, 2+frame+10+statBytes, 2+frame+10+statBytes, 2+frame+10+statBytes)},
		{"b", metric.Plain(1, 2+statBytes, 2+statBytes, 2+statBytes)},
	}
	if got := s.stats.readsBy.summaries(); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestCounters(t *testing.T) {
	s := newTestServer(t, nil)
	k := connect(t, s.dial(), 30000)
	k.create("/a", make([]byte, 100), zk.Persistent)
	k.read(wire.OpGetData, "/a", true)
	k.set("/a", make([]byte, 200))
	if code, _ := k.do(wire.OpCheckWatches, nil); code != zk.ErrMarshalling {
		t.Fatal(code)
	}
	k.c.Close()
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

// docs/ops/monitoring.md names every key of mntr, and no other.
func TestMonitoringPage(t *testing.T) {
	const name = "../../docs/ops/monitoring.md"
	page, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	_, page, _ = bytes.Cut(page, []byte("\n## mntr\n"))
	documented := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`.*?`) \\|").FindAllStringSubmatch(string(page), -1) {
		for _, key := range regexp.MustCompile("`([a-z0-9_<>]+)`").FindAllStringSubmatch(row[1], -1) {
			documented[key[1]] = false
		}
	}
	parts := regexp.MustCompile(`^(avg|min|max|cnt|sum|p50|p95|p99|p999)_`)
	variable := regexp.MustCompile(`^(top|zookeeper|([1-4]))_`)
	inEnsemble(t, 3, 1, func(e *ensemble) {
		c := e.rigs[4].open()
		c.create("/top", "", zk.Persistent)
		c.get("/top")
		c.call(wire.OpPing, nil)
		for id := range int64(4) {
			for line := range strings.Lines(e.rigs[id+1].word("mntr")) {
				key, _, _ := strings.Cut(strings.TrimPrefix(line, "zk_"), "\t")
				if _, ok := documented[key]; !ok {
					key = parts.ReplaceAllString(key, "")
					if m := variable.FindStringSubmatch(key); m != nil {
						kind := "<znode>_"
						if m[2] != "" {
							kind = "<server>_"
						}
						key = kind + key[len(m[0]):]
					}
				}
				if _, ok := documented[key]; !ok {
					t.Errorf("%s does not name %s", name, key)
				}
				documented[key] = true
			}
		}
	}, allWords)
	for key, printed := range documented {
		if !printed {
			t.Errorf("%s names %s, which mntr does not print", name, key)
		}
	}
}
