package node

import (
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/zk"
)

// exporting is the configuration of a server that exports metrics on a free port.
func exporting(t *testing.T, more ...string) *config.Config {
	t.Helper()
	settings := map[string]string{
		"dataDir": "/data", "preAllocSize": "64", "clientPort": "0", "clientPortAddress": "127.0.0.1",
		"metricsProvider.className": "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider",
		"metricsProvider.httpHost":  "127.0.0.1", "metricsProvider.httpPort": "0",
	}
	for _, line := range more {
		key, value, _ := strings.Cut(line, "=")
		settings[key] = value
	}
	cfg, _, err := (&config.Source{Settings: settings}).Load()
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// MetricsAddr returns the address at which Prometheus gets the metrics, nil if there is
// none.
func (n *Node) MetricsAddr() net.Addr {
	if n.metrics == nil {
		return nil
	}
	return n.metrics.Addr()
}

// exported returns what Prometheus gets of a node.
func exported(t *testing.T, n *Node) string {
	t.Helper()
	res, err := http.Get("http://" + n.MetricsAddr().String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != 200 {
		t.Fatalf("%s, %v: %s", res.Status, err, text)
	}
	return string(text)
}

// A server exports every metric that Apache ZooKeeper 3.9.3 has on such a server, under
// its type, with all quantiles; and no other without a prefix.
func TestExportedMetrics(t *testing.T) {
	n, stop := run(t, Options{Config: exporting(t), FS: vfs.NewMem()})
	c := dial(t, n)
	for _, path := range []string{"/a", "/zookeeper/quota/a", "/zookeeper/quota/a/zookeeper_limits", "/zookeeper/quota/a/zookeeper_stats"} {
		data := ""
		if strings.HasSuffix(path, "_limits") {
			data = "count=10,bytes=-1=;byteHardLimit=1000;countHardLimit=-1"
		}
		if _, err := c.Create(t.Context(), path, []byte(data), zk.Persistent, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := c.Get(t.Context(), "/a"); err != nil {
		t.Fatal(err)
	}
	got := exported(t, n)
	list, err := os.ReadFile("../exporter/testdata/apache-3.9.3.txt")
	if err != nil {
		t.Fatal(err)
	}
	known := 0
	for line := range strings.Lines(string(list)) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		name, typ := f[0], strings.Fields(f[1])
		if f[2] != "all" && !strings.Contains(f[2], "standalone") || setsWithoutKeys[name] {
			continue
		}
		known++
		if !strings.Contains(got, "# TYPE "+name+" "+typ[0]+"\n") {
			t.Errorf("no %s %s", typ[0], name)
		}
		for _, q := range typ[1:] {
			if q != "set" && !strings.Contains(got, `quantile="`+q+`"} `) {
				t.Errorf("%s has no quantile %s", name, q)
			}
		}
	}
	for _, line := range []string{
		`quota_count_limit_per_namespace{key="a"} 10`, `quota_bytes_limit_per_namespace{key="a"} 1000`,
		`quota_count_usage_per_namespace{key="a"} 1`, `quota_bytes_usage_per_namespace{key="a"} 0`,
		`read_per_namespace_count{key="a"} 1`, "znode_count 9", "process_open_fds ", "go_goroutines ",
		`pinfold_server_state_info{server_state="standalone"} 1`,
	} {
		if !strings.Contains(got, "\n"+line) {
			t.Errorf("no line %q", line)
		}
	}
	for line := range strings.Lines(got) {
		if name, ok := strings.CutPrefix(line, "# TYPE "); ok && !strings.HasPrefix(name, "pinfold_") &&
			!strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") {
			known--
		}
	}
	if known != 0 || t.Failed() {
		t.Errorf("%d more names than Apache's list has:\n%s", -known, got)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// setsWithoutKeys have no sample on a standalone server that refuses nothing.
var setsWithoutKeys = map[string]bool{
	"ack_latency": true, "learner_handler_qp_size": true, "learner_handler_qp_time_ms": true, "quota_exceeded_error_per_namespace": true,
}

func TestExporterSettings(t *testing.T) {
	n, stop := run(t, Options{Config: exporting(t, "metricsProvider.exportJvmInfo=false", "enforceQuota=true"), FS: vfs.NewMem()})
	c := dial(t, n)
	for _, path := range []string{"/zookeeper/quota/a", "/zookeeper/quota/a/zookeeper_limits", "/zookeeper/quota/a/zookeeper_stats", "/a"} {
		if _, err := c.Create(t.Context(), path, []byte("count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=1"), zk.Persistent, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Create(t.Context(), "/a/b", nil, zk.Persistent, nil); err == nil {
		t.Fatal("no quota")
	}
	got := exported(t, n)
	if !strings.Contains(got, "quota_exceeded_error_per_namespace{key=\"a\"} 1\n") || strings.Contains(got, "\ngo_") || strings.Contains(got, "\nprocess_") {
		t.Errorf("no refused write, or metrics of the process:\n%s", got)
	}
	_, port, _ := strings.Cut(n.MetricsAddr().String(), ":")
	taken, err := Open(Options{Config: exporting(t, "metricsProvider.httpPort="+port), FS: vfs.NewMem()})
	if err == nil || !strings.Contains(err.Error(), "metrics port: ") {
		t.Errorf("two nodes on one port: %v, %v", taken, err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	plain, err := Open(Options{Config: standalone(t), FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	if a := plain.MetricsAddr(); a != nil {
		t.Errorf("without the provider, metrics are at %v", a)
	}
	if err := plain.Close(); err != nil {
		t.Error(err)
	}
}
