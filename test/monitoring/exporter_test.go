package monitoring

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
	"github.com/pinfold-zk/pinfold/zk"
)

var provider = flag.String("provider", "", "`classpath` of Apache ZooKeeper 3.9.3's own exporter and of what it needs: record what it exports")

// recordedExport is what Apache ZooKeeper 3.9.3's own exporter has shown: a line for each family, as
// family.String writes it, with the roles that show it.
const recordedExport = "testdata/exporter-3.9.3.txt"

// A family is what an exporter says of the metrics of one name.
type family struct {
	typ       string
	labels    map[string]bool
	quantiles map[string]bool
	suffixes  map[string]bool // of the samples' names
}

// String returns the type, then the labels, the quantiles and the suffixes in order.
func (f *family) String() string {
	words := []string{f.typ}
	for _, set := range []map[string]bool{f.labels, f.quantiles, f.suffixes} {
		words = append(words, slices.Sorted(maps.Keys(set))...)
	}
	return strings.Join(words, " ")
}

var (
	sampleLine = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? \S+$`)
	labelPair  = regexp.MustCompile(`(\w+)="((?:[^"\\]|\\.)*)"`)
)

// families reads a scrape. A family without a sample is left out.
func families(t *testing.T, text string) map[string]*family {
	t.Helper()
	all := map[string]*family{}
	name, open := "", (*family)(nil)
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			var typ string
			name, typ, _ = strings.Cut(rest, " ")
			open = &family{typ: typ, labels: map[string]bool{}, quantiles: map[string]bool{}, suffixes: map[string]bool{}}
			continue
		}
		if strings.HasPrefix(line, "#") || line == "" {
			continue
		}
		m := sampleLine.FindStringSubmatch(line)
		if m == nil || open == nil || !strings.HasPrefix(m[1], name) {
			t.Fatalf("line %q in the family %s", line, name)
		}
		all[name] = open
		if suffix := strings.TrimPrefix(m[1], name); suffix != "" {
			open.suffixes[suffix] = true
		}
		for _, l := range labelPair.FindAllStringSubmatch(m[2], -1) {
			if l[1] == "quantile" {
				open.quantiles[l[2]] = true
			} else {
				open.labels[l[1]] = true
			}
		}
	}
	return all
}

// exportedBy starts a server, and then three members and an observer, works with each of them, and returns
// a line for each family that they export.
func exportedBy(t *testing.T, kind string) string {
	t.Helper()
	roles := map[string]map[string]string{"standalone": {}, "leader": {}, "follower": {}, "observer": {}}
	for _, kinds := range []string{kind, strings.Repeat(kind+",", 3) + kind + ":observer"} {
		specs, err := cluster.ParseSpecs(kinds)
		must(t, err)
		script, err := filepath.Abs("../../scripts/apache-server")
		must(t, err)
		e, err := cluster.New(cluster.Options{Dir: t.TempDir(), Specs: specs, Metrics: true, Lines: []string{"enforceQuota=true", "leader.ackLoggingFrequency=1"},
			Programs: cluster.Programs{Apache: script, JVMFlags: "-Xmx256m -XX:TieredStopAtLevel=1", Pinfold: *pinfold}})
		must(t, err)
		t.Cleanup(e.Close)
		ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
		defer cancel()
		must(t, e.Start(ctx))
		must(t, e.WaitServing(ctx))
		for _, m := range e.Members {
			work(ctx, t, m)
		}
		for _, m := range e.Members {
			status, err := m.Status()
			must(t, err)
			of := roles[strings.ToLower(status.Mode)]
			if of == nil {
				t.Fatalf("a server is %q", status.Mode)
			}
			for name, f := range families(t, page(t, m)) {
				of[name] = f.String()
			}
		}
		e.Close()
	}
	return format(t, roles)
}

// work has a client of a server read, write, and break a quota.
func work(ctx context.Context, t *testing.T, m *cluster.Member) {
	t.Helper()
	c, err := client.Dial(ctx, m.Client)
	must(t, err)
	defer c.Close()
	top := fmt.Sprint("/work", m.ID)
	quota := "/zookeeper/quota" + top
	for _, znode := range [][2]string{{top}, {top + "/child"}, {quota}, {quota + "/zookeeper_limits", "count=2,bytes=100000=;byteHardLimit=100000;countHardLimit=2"},
		{quota + "/zookeeper_stats", "count=2,bytes=0"}} {
		_, err := c.Create(ctx, znode[0], []byte(znode[1]), zk.Persistent, nil)
		must(t, err)
	}
	if _, err := c.Create(ctx, top+"/more", nil, zk.Persistent, nil); !errors.Is(err, zk.ErrQuotaExceeded) {
		t.Fatalf("a third znode under a quota of two: %v", err)
	}
	_, _, _, err = c.GetW(ctx, top)
	must(t, err)
	_, err = c.Set(ctx, top, []byte("data"), -1)
	must(t, err)
	must(t, c.Sync(ctx, top))
}

func page(t *testing.T, m *cluster.Member) string {
	t.Helper()
	res, err := http.Get("http://" + m.Metrics + "/metrics")
	must(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	must(t, err)
	return string(text)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// What Apache's own exporter shows in each role is shown here in that role, with the type, the labels, the quantiles
// and the names of the samples; what only we show has a prefix. With -provider Apache's is asked, and compared with
// what is recorded; -update records it anew.
func TestApachesExporter(t *testing.T) {
	if *provider != "" {
		t.Setenv("JARS", *provider)
		got := exportedBy(t, "apache-3.9")
		if *update {
			must(t, os.WriteFile(recordedExport, []byte(got), 0o644))
		}
		if diff := cmp.Diff(recording(t), got); diff != "" {
			t.Errorf("%s is not what Apache exports (-recorded +Apache):\n%s", recordedExport, diff)
		}
	}
	if *pinfold == "" {
		t.Skip("no -pinfold")
	}
	want, got := lines(recording(t)), lines(exportedBy(t, "pinfold"))
	for name, line := range want {
		if !strings.HasPrefix(name, "jvm_") && got[name] != line {
			t.Errorf("%s: Apache exports %q, we %q", name, line, got[name])
		}
	}
	for name, line := range got {
		if want[name] == "" && !strings.HasPrefix(name, "pinfold_") && !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") {
			t.Errorf("only we export %s: %s", name, line)
		}
	}
	if len(want) < 160 {
		t.Errorf("the recording has only %d names", len(want))
	}
}

func recording(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(recordedExport)
	must(t, err)
	return string(text)
}

// lines returns what follows the name in each line.
func lines(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		name, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		all[name] = rest
	}
	return all
}
