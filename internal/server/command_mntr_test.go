package server

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/metric"
	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

var updateMntr = flag.Bool("update", false, "write testdata/mntr anew; then read the difference")

// TestMntrLines compares the lines of mntr, in their order, with testdata/mntr:
// the key and the kind of the value, and the value itself where virtual time and
// the test determine it. Monitoring depends on all of them.
func TestMntrLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestServer(t, func(c *config.Config) { c.Client.MaxTotal = 0 })
		k := connect(t, s.pipe(), 30000)
		k.create("/top", "0123456789", zk.Persistent)
		k.read(wire.OpGetData, "/top", true)
		k.set("/top", []byte("0123"))
		k.create("/top/e", "", zk.Ephemeral)
		k.mustCall(wire.OpPing, nil)
		checkMntr(t, "standalone", ask(t, s.pipe(), "mntr"))
	})
	inEnsemble(t, 3, 1, func(e *ensemble) {
		c := e.in(replica.Follower)[0].open()
		c.create("/top", "0123456789", zk.Persistent)
		c.get("/top")
		c.call(wire.OpPing, nil)
		pass(rigTick)
		checkMntr(t, "leader", e.leader().word("mntr"))
		checkMntr(t, "follower", e.in(replica.Follower)[0].word("mntr"))
		checkMntr(t, "observer", e.in(replica.Observer)[0].word("mntr"))
		checkMntr(t, "read-only", e.alone().word("mntr"))
	}, allWords, readOnlyMode)
}

// undetermined are the keys whose values a test run does not determine: they
// depend on the process, on who won the election, or on the batches that the
// goroutines happened to make.
var undetermined = regexp.MustCompile(`^zk_(version|(open|max)_file_descriptor_count|observer_master_id|` +
	`(avg|min|max|cnt|sum)_(sync_processor_batch_size|fsynctime|(leader_)?unavailable_time|election_time|(follower|observer)_sync_time|inflight_diff_count)|` +
	`\w+_latency|approximate_data_size|uptime|leader_uptime)$`)

// learnerID is the number in the keys about one learner: which servers are
// learners, and in which order they came, differs between runs.
var learnerID = regexp.MustCompile(`^(zk_[a-z0-9]+_)\d+_`)

// checkMntr compares the answer to mntr with a golden file.
func checkMntr(t *testing.T, name, answer string) {
	t.Helper()
	var lines []string
	for line := range strings.Lines(answer) {
		key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if !ok {
			t.Errorf("%s: %q has no tab", name, line)
		}
		kind := "TEXT"
		switch {
		case regexp.MustCompile(`^-?\d+$`).MatchString(value):
			kind = "INTEGER"
		case regexp.MustCompile(`^-?\d+\.\d+$`).MatchString(value):
			kind = "DECIMAL"
		}
		if !undetermined.MatchString(key) {
			kind += " " + value
		}
		lines = append(lines, learnerID.ReplaceAllString(key, "${1}N_")+"\t"+kind)
	}
	got := strings.Join(lines, "\n") + "\n"
	file := filepath.Join("testdata", "mntr", name+".txt")
	if *updateMntr {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("mntr of a server in mode %s (-golden +here):\n%s", name, diff)
	}
}

// A client chooses the names of znodes, and mntr has a namespace's name in up to 14 lines. Forty names of a megabyte
// once made an answer of 200 MB: names of more than metric.MaxKeyBytes are in no line.
func TestLongNamesAreNoNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestServer(t, nil)
		k := connect(t, s.pipe(), 30000)
		shown := strings.Repeat("s", metric.MaxKeyBytes)
		for _, name := range []string{shown, shown + "x"} {
			k.create("/"+name, "", zk.Persistent)
			k.create("/zookeeper/quota/"+name, "", zk.Persistent)
			k.create("/zookeeper/quota/"+name+"/zookeeper_limits", "count=5,bytes=5", zk.Persistent)
			k.create("/zookeeper/quota/"+name+"/zookeeper_stats", "count=1,bytes=0", zk.Persistent)
			k.read(wire.OpGetData, "/"+name, true)
		}
		k.mustCall(wire.OpPing, nil)
		s.foldAll()
		answer := ask(t, s.pipe(), "mntr")
		if n := strings.Count(answer, shown+"_"); n < 10 || !strings.Contains(answer, shown+"_quota_count_limit") {
			t.Errorf("mntr has the name of %d bytes %d times", len(shown), n)
		}
		if strings.Contains(answer, shown+"x") {
			t.Errorf("mntr has a name of %d bytes", len(shown)+1)
		}
	})
}
