package exporter

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pinfold-zk/pinfold/internal/metric"
)

// parts are the sources of newRegistry.
type parts struct {
	count   metric.Counter
	latency metric.Histogram
	holds   metric.Histogram
	batch   metric.Summary[int64]
	byName  *metric.Set[*metric.Summary[int64]]
}

// newRegistry has a metric of each kind.
func newRegistry() (*metric.Registry, *parts) {
	var p parts
	p.byName = metric.NewSet(9, func() *metric.Summary[int64] { return new(metric.Summary[int64]) })
	r := metric.NewRegistry([]metric.Desc{
		{Name: "state", Type: metric.TypeInfo, Unit: metric.UnitText, Help: "State"},
		{Name: "count", Type: metric.TypeCounter, Unit: metric.UnitCount, Help: "Count"},
		{Name: "leader_id", Type: metric.TypeGauge, Unit: metric.UnitCount, Help: "Leader", MntrOnly: true},
		{Name: "ratio", Type: metric.TypeGauge, Unit: metric.UnitRatio, Decimal: true, Help: "Ratio"},
		{Name: "latency", Type: metric.TypeSummary, Unit: metric.UnitMilliseconds, Quantiles: true, Help: "Latency"},
		{Name: "batch", Type: metric.TypeSummary, Unit: metric.UnitCount, Help: "Batch"},
		{Name: "start", Type: metric.TypeSummary, Unit: metric.UnitMilliseconds, Help: "Start"},
		{Name: "by_name", Type: metric.TypeSummary, Unit: metric.UnitBytes, Key: "znode", Help: "By name"},
		{Name: "slow_count", Type: metric.TypeCounter, Unit: metric.UnitCount, Own: true, Help: "Slow"},
		{Name: "hold_time", Type: metric.TypeSummary, Unit: metric.UnitMilliseconds, Quantiles: true, Own: true, Help: "Holds"},
		{Name: "lag", Type: metric.TypeGauge, Unit: metric.UnitCount, Own: true, Key: "server", Help: "Lag"},
		{Name: "never", Type: metric.TypeCounter, Unit: metric.UnitCount, Absent: "a component", Help: "Never"},
		{Name: "leading", Type: metric.TypeGauge, Unit: metric.UnitCount, On: metric.OnLeader, Help: "Leading"},
	})
	for name, s := range map[string]metric.Source{
		"count": &p.count, "latency": &p.latency, "batch": &p.batch, "by_name": p.byName, "hold_time": &p.holds,
		"slow_count": metric.Func(func() int64 { return 4 }),
	} {
		r.Bind(name, s)
	}
	r.Collect(func(c metric.Collection) {
		c.Text("state", "leader")
		c.Int("leader_id", 1)
		c.Decimal("ratio", .25)
		c.Of("2").Int("lag", 17)
		c.Summary("start", metric.Once(7*time.Millisecond).Millis())
	}, "state", "leader_id", "ratio", "lag", "start", "leading")
	return r, &p
}

// scrape returns the answer to a GET.
func scrape(t *testing.T, h http.Handler, target string) string {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", target, nil))
	if got := w.Header().Get("Content-Type"); w.Code != 200 || !strings.HasPrefix(got, "text/plain; version=0.0.4; charset=utf-8") {
		t.Fatalf("status %d, %s", w.Code, got)
	}
	return w.Body.String()
}

// lines drops the buckets of histograms that are like the one before.
func lines(text string) (list []string) {
	last := ""
	for line := range strings.Lines(text) {
		head, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
		if strings.Contains(head, "_bucket{") {
			if value == last {
				continue
			}
			last = value
		}
		list = append(list, strings.TrimSpace(line))
	}
	return list
}

func TestScrape(t *testing.T) {
	r, p := newRegistry()
	e := New(Options{Metrics: r})
	p.count.Add(3)
	p.batch.Add(4)
	p.latency.Add(10, 2500*time.Microsecond)
	p.holds.Add(2, 100*time.Microsecond)
	p.byName.Of("a\"b").Value.Add(9)
	p.byName.Of("\xff").Value.Add(9)
	want := []string{
		"# HELP batch Batch", "# TYPE batch summary", `batch{quantile="0.5"} 4`, "batch_sum 4", "batch_count 1",
		"# HELP by_name By name", "# TYPE by_name summary",
		`by_name{key="a\"b",quantile="0.5"} 9`, `by_name_sum{key="a\"b"} 9`, `by_name_count{key="a\"b"} 1`,
		"by_name{key=\"\uFFFD\",quantile=\"0.5\"} 9", "by_name_sum{key=\"\uFFFD\"} 9", "by_name_count{key=\"\uFFFD\"} 1",
		"# HELP count Count", "# TYPE count counter", "count 3",
		"# HELP latency Latency", "# TYPE latency summary", `latency{quantile="0.5"} 2.432`, `latency{quantile="0.9"} 2.432`,
		`latency{quantile="0.99"} 2.432`, "latency_sum 25", "latency_count 10",
		"# HELP never Never", "# TYPE never counter", "never 0",
		"# HELP pinfold_hold_seconds Holds", "# TYPE pinfold_hold_seconds histogram",
		`pinfold_hold_seconds_bucket{le="6.4e-05"} 0`, `pinfold_hold_seconds_bucket{le="0.000128"} 2`,
		"pinfold_hold_seconds_sum 0.0002", "pinfold_hold_seconds_count 2",
		"# HELP pinfold_lag Lag", "# TYPE pinfold_lag gauge", `pinfold_lag{server="2"} 17`,
		"# HELP pinfold_slow_total Slow", "# TYPE pinfold_slow_total counter", "pinfold_slow_total 4",
		"# HELP pinfold_state_info State", "# TYPE pinfold_state_info gauge", `pinfold_state_info{state="leader"} 1`,
		"# HELP ratio Ratio", "# TYPE ratio gauge", "ratio 0.25",
		"# HELP start Start", "# TYPE start summary", `start{quantile="0.5"} 7`, "start_sum 7", "start_count 1",
	}
	if diff := cmp.Diff(want, lines(scrape(t, e, "/metrics"))); diff != "" {
		t.Errorf("scrape (-want +got):\n%s", diff)
	}
	want = []string{"# HELP count Count", "# TYPE count counter", "count 3", "# HELP ratio Ratio", "# TYPE ratio gauge", "ratio 0.25"}
	if diff := cmp.Diff(want, lines(scrape(t, e, "/metrics?name[]=count&name[]=ratio"))); diff != "" {
		t.Errorf("scrape of two metrics (-want +got):\n%s", diff)
	}
}

// An empty window has no quantile.
func TestQuantilesOfNothing(t *testing.T) {
	r, _ := newRegistry()
	if got := scrape(t, New(Options{Metrics: r}), "/metrics"); !strings.Contains(got, "latency{quantile=\"0.99\"} NaN\n") {
		t.Errorf("no NaN:\n%s", got)
	}
}

func TestProcess(t *testing.T) {
	r, _ := newRegistry()
	got := scrape(t, New(Options{Metrics: r, Process: true}), "/metrics")
	for _, name := range []string{"process_cpu_seconds_total", "process_start_time_seconds", "process_open_fds", "process_max_fds",
		"process_virtual_memory_bytes", "process_resident_memory_bytes", "go_goroutines", "go_memstats_heap_inuse_bytes"} {
		if !strings.Contains(got, "\n"+name+" ") {
			t.Errorf("no %s", name)
		}
	}
	if strings.Contains(scrape(t, New(Options{Metrics: r}), "/metrics"), "\ngo_") {
		t.Error("metrics of the process without the option")
	}
}

func TestListener(t *testing.T) {
	r, _ := newRegistry()
	l, err := Listen("127.0.0.1:0", New(Options{Metrics: r}), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(l.Addr().String(), nil, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "metrics port: ") {
		t.Errorf("a second listener: %v", err)
	}
	served := make(chan error)
	go func() { served <- l.Serve() }()
	for _, c := range []struct {
		method, path string
		want         int
	}{{"GET", "/metrics", 200}, {"POST", "/metrics", 200}, {"HEAD", "/metrics", 200}, {"TRACE", "/metrics", 405}, {"GET", "/", 404}, {"GET", "/metrics/", 404}} {
		req, err := http.NewRequest(c.method, "http://"+l.Addr().String()+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			t.Error(err)
		}
		res.Body.Close()
		if res.StatusCode != c.want {
			t.Errorf("%s %s: %s", c.method, c.path, res.Status)
		}
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// Connections that have been idle since their scrape do not keep the next one out.
func TestIdleConnectionsGiveWay(t *testing.T) {
	r, _ := newRegistry()
	l, err := Listen("127.0.0.1:0", New(Options{Metrics: r}), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- l.Serve() }()
	for i := range maxConns + 3 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(idleTimeout / 2)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, "GET /metrics HTTP/1.1\r\nHost: pinfold\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("scrape %d: %v", i, err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("scrape %d: %s, %v", i, res.Status, err)
		}
		res.Body.Close()
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}
