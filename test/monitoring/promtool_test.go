package monitoring

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

func promtool(t *testing.T, input []byte, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command("promtool", args...)
	cmd.Stdin = bytes.NewReader(input)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestRules(t *testing.T) {
	if *pinfold == "" {
		t.Skip("no -pinfold")
	}
	if out, err := promtool(t, nil, "check", "rules", "../../deploy/prometheus/alerts.yml"); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// Every alert has a section in the page for operators.
func TestAlertsAreDocumented(t *testing.T) {
	rules, err := os.ReadFile("../../deploy/prometheus/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/ops/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(string(rules), -1)
	for _, name := range names {
		if !strings.Contains(string(page), "| `"+name[1]+"` |") {
			t.Errorf("docs/ops/monitoring.md has no row for %s", name[1])
		}
	}
	if len(names) < 10 {
		t.Errorf("only %d alerts", len(names))
	}
}

// promtool finds nothing to improve in the names that Apache ZooKeeper has not chosen.
func TestPromtoolCheckMetrics(t *testing.T) {
	if *pinfold == "" {
		t.Skip("no -pinfold")
	}
	e := startMembers(t, 1)
	res, err := http.Get("http://" + e.Member(1).Metrics + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	out, _ := promtool(t, text, "check", "metrics") // the status is that of Apache's names
	for line := range strings.Lines(out) {
		name, _, _ := strings.Cut(line, " ")
		if !apacheName(t, name) {
			t.Errorf("promtool: %s", line)
		}
	}
	if !strings.Contains(out, "connection_request_count counter metrics should have \"_total\" suffix") {
		t.Errorf("promtool has not read the metrics: %s", out)
	}
}

// apacheName reports whether Apache ZooKeeper has chosen a name.
func apacheName(t *testing.T, name string) bool {
	t.Helper()
	list, err := os.ReadFile(names)
	if err != nil {
		t.Fatal(err)
	}
	return strings.HasPrefix(string(list), name+"\t") || strings.Contains(string(list), "\n"+name+"\t")
}
