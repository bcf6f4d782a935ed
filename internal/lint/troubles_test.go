package lint

import (
	"fmt"
	"go/ast"
	"regexp"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/logging"
)

const troubles = "docs/ops/troubleshooting.md"

// A warning or an error of a server's log is a symptom: an operator finds its event in the page that
// says what to do.
func TestTroublesAreExplained(t *testing.T) {
	page := readText(t, troubles)
	for _, f := range load(t).gos {
		if logs(f) {
			for _, finding := range unexplained(f, page) {
				t.Error(finding)
			}
		}
	}
}

// The metrics of the page's tables exist: each is in the second column of four, in backquotes.
func TestTroublesNameMetrics(t *testing.T) {
	known := readText(t, "docs/ops/monitoring.md")
	rows := regexp.MustCompile(`(?m)^\|[^|]*\|([^|]*)\|[^|]*\|[^|]*\|$`)
	count := 0
	for _, row := range rows.FindAllStringSubmatch(strings.ReplaceAll(readText(t, troubles), `\|`, ""), -1) {
		for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(row[1], -1) {
			count++
			if name := m[1]; name != "up" && name != "idle" && !strings.Contains(known, "`"+name+"`") {
				t.Errorf("%s names the metric %s, which docs/ops/monitoring.md does not have", troubles, name)
			}
		}
	}
	if count < 30 {
		t.Errorf("%s has only %d metrics in its tables", troubles, count)
	}
}

// unexplained returns the warnings and errors of a file whose events the page does not have.
func unexplained(f *goFile, page string) (findings []string) {
	messages(f, func(call *ast.CallExpr, text string, _ bool) {
		s, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || s.Sel.Name != "Warn" && s.Sel.Name != "Error" {
			return
		}
		if event := logging.Event(text); !strings.Contains(page, "`"+event+"`") {
			findings = append(findings, fmt.Sprintf("%s: %s does not have the event `%s`", f.at(call), troubles, event))
		}
	})
	return findings
}

func TestUnexplainedTroublesAreFound(t *testing.T) {
	const page = "| `session_expired` | the client was silent |"
	check := func(f *goFile) []string { return unexplained(f, page) }
	checkSamples(t, "internal/x/a.go", check, []sample{
		{`func f() { s.log.Warn("session expired", "session", 1) }`, ""},
		{`func f() { s.log.Info("snapshot written", "zxid", 1) }`, ""},
		{`func f() { s.log.Error("a client was refused", "client", 1) }`, "does not have the event `client_refused`"},
	})
}
