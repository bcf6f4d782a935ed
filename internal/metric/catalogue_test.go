package metric

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the tables of docs/ops/monitoring.md anew")

// The tables are between these two in docs/ops/monitoring.md.
const (
	tablesBegin = "go test ./internal/metric -update -->\n\n"
	tablesEnd   = "<!-- end of the generated tables -->\n"
)

// A table of the page holds the metrics that has accepts.
type table struct {
	title, intro string
	has          func(*Desc) bool
	columns      []string
	row          func(*Desc) []string
}

// key is how mntr names a metric.
func key(d *Desc) string {
	if d.Key != "" {
		return "`<" + d.Key + ">_" + d.Name + "`"
	}
	return "`" + d.Name + "`"
}

func kindOf(d *Desc) string {
	if d.Quantiles {
		return string(d.Type) + ", q"
	}
	return string(d.Type)
}

func counted(d *Desc) []string {
	return []string{key(d), kindOf(d), string(d.Unit), "`" + d.Owner + "`", d.Help}
}

func tables() []table {
	live := func(d *Desc) bool { return d.Absent == "" && !d.Own }
	state := func(d *Desc) bool { return live(d) && (d.Type == TypeGauge || d.Type == TypeInfo) }
	columns := []string{"key", "type", "unit", "owner", "is"}
	return []table{
		{"State of a server", "", func(d *Desc) bool { return state(d) && d.On == "" }, columns, counted},
		{"State of a member", "Servers of an ensemble have these besides, in the given role. A read-only server has none of them.",
			func(d *Desc) bool { return state(d) && d.On != "" },
			[]string{"key", "on a", "type", "unit", "owner", "is"},
			func(d *Desc) []string {
				row := counted(d)
				return append([]string{row[0], string(d.On)}, row[1:]...)
			}},
		{"Counters", "", func(d *Desc) bool { return live(d) && d.Type == TypeCounter }, columns, counted},
		{"Summaries", "", func(d *Desc) bool { return live(d) && d.Type == TypeSummary }, columns, counted},
		{"Only in Pinfold", "Apache ZooKeeper does not have these. `mntr` does not print them, except those that begin with `limit_`.",
			func(d *Desc) bool { return d.Own },
			[]string{"key", "for Prometheus", "type", "unit", "owner", "is"},
			func(d *Desc) []string {
				row := counted(d)
				return append([]string{row[0], "`" + d.Exported() + "`"}, row[1:]...)
			}},
		{"Always 0", "These are about components that exist only in Apache ZooKeeper. Those of learners are printed by a leader only.",
			func(d *Desc) bool { return d.Absent != "" },
			[]string{"key", "type", "unit", "is, in Apache", "component of Apache"},
			func(d *Desc) []string { return []string{key(d), kindOf(d), string(d.Unit), d.Help, d.Absent} }},
	}
}

// render writes the tables of all metrics.
func render(descs []Desc) string {
	var b strings.Builder
	for _, t := range tables() {
		fmt.Fprintf(&b, "### %s\n\n", t.title)
		if t.intro != "" {
			b.WriteString(t.intro + "\n\n")
		}
		fmt.Fprintf(&b, "| %s |\n%s|\n", strings.Join(t.columns, " | "), strings.Repeat("|---", len(t.columns)))
		for i := range descs {
			if t.has(&descs[i]) {
				fmt.Fprintf(&b, "| %s |\n", strings.Join(t.row(&descs[i]), " | "))
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// docs/ops/monitoring.md has every metric of the catalogue, and no other.
func TestDocumentationIsTheCatalogue(t *testing.T) {
	const name = "../../docs/ops/monitoring.md"
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), tablesBegin)
	got, tail, ended := strings.Cut(rest, tablesEnd)
	if !ok || !ended {
		t.Fatalf("%s has no line that ends with %q, or none that is %q", name, tablesBegin, tablesEnd)
	}
	descs := Catalogue()
	want := render(descs)
	for i := range descs {
		if n := strings.Count(want, "| "+key(&descs[i])+" |"); n != 1 {
			t.Errorf("%s has %d rows", descs[i].Name, n)
		}
	}
	if *update {
		if err := os.WriteFile(name, []byte(head+tablesBegin+want+tablesEnd+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s is not up to date; run with -update (-catalogue +page):\n%s", name, diff)
	}
}

// problems returns what a description lacks.
func problems(d *Desc) (found []string) {
	for _, c := range []struct {
		wrong bool
		what  string
	}{
		{!regexp.MustCompile(`^[a-z][a-z0-9_]*[a-z0-9]$`).MatchString(d.Name), "the name"},
		{!map[Type]bool{TypeInfo: true, TypeCounter: true, TypeGauge: true, TypeSummary: true}[d.Type], "the type"},
		{!map[Unit]bool{UnitText: true, UnitCount: true, UnitBytes: true, UnitMilliseconds: true, UnitSeconds: true, UnitRatio: true}[d.Unit], "the unit"},
		{(d.Unit == UnitText) != (d.Type == TypeInfo), "the unit of a text"},
		{d.Unit == UnitRatio && !d.Decimal, "a ratio that is not a decimal"},
		{!regexp.MustCompile("^[A-Z`].{4,}[^.]$").MatchString(d.Help) || strings.ContainsAny(d.Help, "|\n"), "the help"},
		{strings.ContainsAny(d.Absent, "|\n"), "the absent component"},
		{d.Quantiles && d.Type != TypeSummary, "quantiles of what is no summary"},
		{d.Decimal && d.Type != TypeGauge, "a fraction of what is no gauge"},
		{!map[Role]bool{"": true, OnMember: true, OnLeader: true, OnVoter: true, OnObserver: true}[d.On], "the role"},
		{d.Own && d.Absent != "", "a component that is absent in Apache"},
	} {
		if c.wrong {
			found = append(found, c.what)
		}
	}
	sources, err := filepath.Glob(filepath.Join("../..", d.Owner, "*.go"))
	if err != nil || d.Owner == "" || len(sources) == 0 {
		found = append(found, "the owner")
	}
	return found
}

// Every metric has a unique name, a type, a unit, an owner that is a package, and help.
func TestMetricsAreDescribed(t *testing.T) {
	names := map[string]bool{}
	for _, d := range Catalogue() {
		for _, p := range problems(&d) {
			t.Errorf("%s: %s is wrong or missing: %+v", d.Name, p, d)
		}
		if names[d.Name] {
			t.Errorf("%s is there twice", d.Name)
		}
		names[d.Name] = true
	}
	for _, d := range []Desc{
		counter("", UnitCount, ownServer, "Some help"), counter("a_b", "apples", ownServer, "Some help"),
		counter("a_b", UnitText, ownServer, "Some help"), counter("a_b", UnitCount, "", "Some help"),
		counter("a_b", UnitCount, "internal/none", "Some help"), counter("a_b", UnitCount, ownServer, ""),
		counter("a_b", UnitCount, ownServer, "Two | cells"), gauge("a_b", UnitRatio, ownServer, "Some help"),
		{Name: "a_b", Unit: UnitCount, Owner: ownServer, Help: "Some help"},
	} {
		if got := problems(&d); len(got) != 1 {
			t.Errorf("%+v: %q, want one problem", d, got)
		}
	}
}
