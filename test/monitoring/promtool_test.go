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

// rules is the file of the alerts, and ruleCases what makes each of them fire or leaves it silent.
const (
	rules     = "../../deploy/prometheus/alerts.yml"
	ruleCases = "alerts_test.yml"
)

// TestRules has promtool read the alerts, and run the cases of each in its own time.
func TestRules(t *testing.T) {
	if *pinfold == "" {
		t.Skip("no -pinfold")
	}
	for _, args := range [][]string{{"check", "rules", rules}, {"test", "rules", ruleCases}} {
		if out, err := promtool(t, nil, args...); err != nil {
			t.Errorf("promtool %v: %v: %s", args, err, out)
		}
	}
}

// alertNames returns the names of the alerts.
func alertNames(t *testing.T) (names []string) {
	t.Helper()
	text, err := os.ReadFile(rules)
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(string(text), -1) {
		names = append(names, found[1])
	}
	if len(names) < 18 {
		t.Errorf("only %d alerts", len(names))
	}
	return names
}

// Every alert has a case in which it fires, and one in which it does not.
func TestAlertsHaveCases(t *testing.T) {
	text, err := os.ReadFile(ruleCases)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range alertNames(t) {
		for what, pattern := range map[string]string{
			"fires":    `alertname: ` + name + `\n +exp_alerts:\n +- exp_labels: {severity: `,
			"does not": `alertname: ` + name + `, exp_alerts: \[\]`,
		} {
			if !regexp.MustCompile(pattern).Match(text) {
				t.Errorf("%s has no case in which %s %s", ruleCases, name, what)
			}
		}
	}
}

// Every alert has a section in the page for operators.
func TestAlertsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/ops/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range alertNames(t) {
		if !strings.Contains(string(page), "| `"+name+"` |") {
			t.Errorf("docs/ops/monitoring.md has no row for %s", name)
		}
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
