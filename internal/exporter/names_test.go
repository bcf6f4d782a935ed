package exporter

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinfold-zk/pinfold/internal/metric"
)

// apacheTypes returns the names and types of Apache ZooKeeper 3.9.3's metrics, as the
// server itself has told them (test/monitoring), and the roles that have each.
func apacheTypes(t *testing.T) (types, roles map[string]string) {
	t.Helper()
	text, err := os.ReadFile("testdata/apache-3.9.3.txt")
	if err != nil {
		t.Fatal(err)
	}
	types, roles = map[string]string{}, map[string]string{}
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		types[f[0]], roles[f[0]] = f[1], f[2]
	}
	return types, roles
}

// typeOf describes the type of a metric as the list of Apache's does.
func typeOf(d *metric.Desc) string {
	typ := string(d.Type)
	switch {
	case d.Quantiles:
		typ += " 0.5 0.9 0.99"
	case d.Type == metric.TypeSummary:
		typ += " 0.5"
	}
	if d.Key != "" {
		typ += " set"
	}
	return typ
}

// Every metric that Apache exports has the same name and type here, and no other has a
// name without a prefix.
func TestNamesAndTypesAreApaches(t *testing.T) {
	want, _ := apacheTypes(t)
	got := map[string]string{}
	for _, d := range metric.Catalogue() {
		if name := d.Exported(); name != "" && !strings.HasPrefix(name, "pinfold_") {
			got[name] = typeOf(&d)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names and types (-Apache +here):\n%s", diff)
	}
	if names := slices.Sorted(maps.Keys(want)); len(names) < 150 {
		t.Errorf("the list has only %d names", len(names))
	}
}

// A role that Apache exports a metric in exports it here.
func TestRolesAreApaches(t *testing.T) {
	_, want := apacheTypes(t)
	for _, d := range metric.Catalogue() {
		roles := map[metric.Role]string{
			"": "all", metric.OnMember: "follower leader observer", metric.OnVoter: "follower leader", metric.OnLeader: "leader",
		}[d.On]
		if of, ok := want[d.Exported()]; ok && d.Key == "" && of != roles {
			t.Errorf("%s is on %q, in Apache on %q", d.Name, roles, of)
		}
	}
}
