package monitoring

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
	"github.com/pinfold-zk/pinfold/zk"
)

var pinfold = flag.String("pinfold", "", "the binary; Debian's prometheus watches three members that run it")

// patience is for everything that has to happen.
const patience = 90 * time.Second

// watched is an ensemble under load, and a Prometheus that scrapes it each second.
type watched struct {
	*cluster.Ensemble
	t   *testing.T
	api string
}

// startMembers starts an ensemble of n servers that export their metrics, and waits until it
// serves.
func startMembers(t *testing.T, n int) *cluster.Ensemble {
	t.Helper()
	specs, err := cluster.ParseSpecs(strings.Repeat("pinfold,", n-1) + "pinfold")
	if err != nil {
		t.Fatal(err)
	}
	e, err := cluster.New(cluster.Options{Dir: t.TempDir(), Specs: specs, Programs: cluster.Programs{Pinfold: *pinfold}, Metrics: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := e.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if err := e.WaitServing(ctx); err != nil {
		t.Fatal(err)
	}
	return e
}

func watch(t *testing.T) *watched {
	t.Helper()
	e := startMembers(t, 3)
	port, err := e.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	w := &watched{e, t, fmt.Sprintf("http://127.0.0.1:%d/api/v1/", port)}
	w.start(t.TempDir(), port)
	return w
}

// start starts Prometheus, with the alerts of deploy but none of their delays.
func (w *watched) start(dir string, port int) {
	w.t.Helper()
	text, err := os.ReadFile(rules)
	if err != nil {
		w.t.Fatal(err)
	}
	var targets []string
	for _, m := range w.Members {
		targets = append(targets, `"`+m.Metrics+`"`)
	}
	for name, text := range map[string]string{
		"alerts.yml": regexp.MustCompile(`(?m)^ +for: .*\n`).ReplaceAllString(string(text), ""),
		"prometheus.yml": "global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [alerts.yml]\n" +
			"scrape_configs:\n  - {job_name: zookeeper, static_configs: [{targets: [" + strings.Join(targets, ", ") + "]}]}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			w.t.Fatal(err)
		}
	}
	p, err := cluster.StartClient(exec.Command("prometheus", "--config.file="+filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(dir, "tsdb"), fmt.Sprintf("--web.listen-address=127.0.0.1:%d", port)),
		filepath.Join(dir, "prometheus.log"))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		p.Kill()
		if log, err := os.ReadFile(filepath.Join(dir, "prometheus.log")); err == nil && w.t.Failed() {
			w.t.Logf("Prometheus:\n%s", log)
		}
	})
}

// get asks Prometheus, and decodes the answer into what. The error is that of a
// Prometheus that is not ready, or refuses the question.
func (w *watched) get(path string, query url.Values, what any) error {
	res, err := http.Get(w.api + path + "?" + query.Encode())
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", res.Status, body)
	}
	return json.Unmarshal(body, &struct{ Data any }{what})
}

// count returns how many series an expression has.
func (w *watched) count(expr string) (int, error) {
	var data struct{ Result []any }
	err := w.get("query", url.Values{"query": {expr}}, &data)
	return len(data.Result), err
}

// until waits until an expression has n series.
func (w *watched) until(what, expr string, n int) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	got, last := 0, error(nil)
	if err := w.Until(ctx, func() bool {
		got, last = w.count(expr)
		return last == nil && got == n
	}); err != nil {
		w.t.Fatalf("%s: %s has %d series, want %d (%v)", what, expr, got, n, last)
	}
}

// load reads and writes through the members until the test ends.
func (w *watched) load() {
	ctx, cancel := context.WithCancel(w.t.Context())
	var all sync.WaitGroup
	for first := range w.Members {
		c, err := client.Dial(ctx, strings.Join(w.Clients(), ","), client.Hosts(cluster.InTurn(w.Clients(), first)))
		if err != nil {
			w.t.Fatal(err)
		}
		all.Go(func() {
			defer c.Close()
			path := fmt.Sprint("/load", first)
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for ctx.Err() == nil {
				// What fails while members are down is tried again.
				_, _ = c.Create(ctx, path, nil, zk.Persistent, nil)
				_, _, _, _ = c.GetW(ctx, path)
				_, _ = c.Set(ctx, path, []byte("some data"), -1)
				<-tick.C
			}
		})
	}
	w.t.Cleanup(func() {
		cancel()
		all.Wait()
	})
}

// alert is an expression of the alert that fires.
func alert(name string) string { return fmt.Sprintf(`ALERTS{alertname=%q, alertstate="firing"}`, name) }

// The real Prometheus scrapes three members under load. Every panel of the dashboard
// shows something, and the members have every series that an alert asks for. When the leader is killed, and then another member, the alerts that
// say so fire, and the one for a member that heals; when all are back, these end.
func TestPrometheus(t *testing.T) {
	if *pinfold == "" {
		t.Skip("no -pinfold")
	}
	w := watch(t)
	w.load()
	w.until("three targets are up", `up{job="zookeeper"} == 1`, 3)
	w.until("load", "rate(updatelatency_count[30s]) > 0", 3)
	w.panels()
	w.selectors()
	// A disk or a machine that is slow may raise others.
	w.until("no alert", `ALERTS{alertname=~"ZooKeeper(Down|NotServing|FollowersMissing|WrongTree)"}`, 0)

	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	leader, err := w.WaitLeader(ctx, func(*cluster.Member) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	leader.Kill()
	w.until("the leader is dead", alert("ZooKeeperDown"), 1)
	w.until("a follower is missing", alert("ZooKeeperFollowersMissing"), 1)
	w.until("the others began an election", "count("+alert("ZooKeeperElections")+") >= 2", 1)
	w.until("two members serve", `pinfold_server_state_info{server_state=~"leader|follower"}`, 2)

	second, err := w.WaitLeader(ctx, func(m *cluster.Member) bool { return m != leader })
	if err != nil {
		t.Fatal(err)
	}
	second.Kill()
	w.until("there is no quorum", alert("ZooKeeperNotServing"), 1)

	// The second one comes back with an empty disk, and heals when the first one is back.
	history := filepath.Join(second.DataDir, "version-2")
	err = errors.Join(os.RemoveAll(history), os.Mkdir(history, 0o750), os.WriteFile(filepath.Join(history, "healing"), []byte("epoch-lost\n"), 0o600), second.Start())
	if err != nil {
		t.Fatal(err)
	}
	w.until("a member cannot heal", alert("ZooKeeperHealsLong"), 1)
	if err := leader.Start(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ZooKeeperDown", "ZooKeeperNotServing", "ZooKeeperFollowersMissing", "ZooKeeperHealsLong"} {
		w.until("all are back", alert(name), 0)
	}
}

// panels checks that every query of the dashboard has an answer.
func (w *watched) panels() {
	w.t.Helper()
	text, err := os.ReadFile("../../deploy/grafana/pinfold.json")
	if err != nil {
		w.t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		w.t.Fatal(err)
	}
	queries := 0
	for _, p := range board.Panels {
		for _, q := range p.Targets {
			queries++
			expr := strings.NewReplacer("$job", "zookeeper", "$instance", ".*", "$__rate_interval", "30s").Replace(q.Expr)
			w.until(fmt.Sprintf("panel %q", p.Title), "count("+expr+")", 1)
		}
	}
	if queries < 30 {
		w.t.Errorf("the dashboard has %d queries, there are more", queries)
	}
}

// selectors checks that every metric of the alerts has a series with the labels that the alert compares or prints. A znode
// with a quota is needed for that.
func (w *watched) selectors() {
	w.t.Helper()
	text, err := os.ReadFile(rules)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, *pinfold, "cli", "--server", w.Members[0].Client, "setquota", "-n", "1000", "-b", "1000000", "/load0").CombinedOutput()
	if err != nil {
		w.t.Fatalf("setquota: %v: %s", err, out)
	}
	metric := regexp.MustCompile(`([a-z_]+)\{([^{}]*)\}`)
	label := regexp.MustCompile(`(\w+)(=|=~)("[^"]*")`)
	printed := regexp.MustCompile(`\$labels\.(\w+)`)
	found := 0
	for _, alert := range strings.Split(string(text), "- alert: ")[1:] {
		name, body, _ := strings.Cut(alert, "\n")
		expr, annotations, _ := strings.Cut(body, "labels: {severity")
		for _, m := range metric.FindAllStringSubmatch(expr, -1) {
			found++
			var matchers []string
			for _, l := range label.FindAllStringSubmatch(m[2], -1) {
				if l[2] == "=" {
					matchers = append(matchers, l[0])
				} else {
					matchers = append(matchers, l[1]+`!=""`) // the alert is for another value than a healthy one
				}
			}
			for _, l := range printed.FindAllStringSubmatch(annotations, -1) {
				matchers = append(matchers, l[1]+`!=""`)
			}
			w.until("alert "+name, "count("+m[1]+"{"+strings.Join(matchers, ", ")+"})", 1)
		}
	}
	if found < 35 {
		w.t.Errorf("the alerts have %d selectors, there are more", found)
	}
}
