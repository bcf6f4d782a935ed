package monitoring

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
)

var (
	apache = flag.Bool("apache", false, "ask Apache ZooKeeper 3.9.3 for the names of its metrics")
	update = flag.Bool("update", false, "write the list of these names anew")
)

// names is the list that the exporter's own tests compare with.
const names = "../../internal/exporter/testdata/apache-3.9.3.txt"

// The list of the names and types of Apache's metrics, in each role, is that of the real
// server.
func TestApacheNames(t *testing.T) {
	if !*apache {
		t.Skip("no -apache")
	}
	t.Setenv("JARS", compileProvider(t))
	roles := map[string]map[string]string{"standalone": {}, "leader": {}, "follower": {}, "observer": {}}
	ensemble(t, "apache-3.9", roles)
	ensemble(t, "apache-3.9,apache-3.9,apache-3.9,apache-3.9:observer", roles)
	got := format(t, roles)
	if *update {
		if err := os.WriteFile(names, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(names)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s is not what Apache says (-list +Apache):\n%s", names, diff)
	}
}

// compileProvider compiles the provider of metrics that prints their names.
func compileProvider(t *testing.T) (classes string) {
	t.Helper()
	jars, err := exec.Command("../../scripts/apache-release", "3.9").Output()
	if err != nil {
		t.Fatalf("scripts/apache-release 3.9: %v", err)
	}
	dir := strings.TrimSpace(string(jars))
	classes = t.TempDir()
	out, err := exec.Command("java", "-XX:TieredStopAtLevel=1", "-cp", "/usr/share/java/eclipse-jdt-core.jar",
		"org.eclipse.jdt.internal.compiler.batch.Main", "-proc:none", "-nowarn", "-17",
		"-cp", filepath.Join(dir, "zookeeper.jar"), "-d", classes, "apache").CombinedOutput()
	if err != nil {
		t.Fatalf("compiling: %v\n%s", err, out)
	}
	return classes
}

// ensemble starts servers and collects what each registers in its role.
func ensemble(t *testing.T, kinds string, roles map[string]map[string]string) {
	t.Helper()
	specs, err := cluster.ParseSpecs(kinds)
	if err != nil {
		t.Fatal(err)
	}
	script, err := filepath.Abs("../../scripts/apache-server")
	if err != nil {
		t.Fatal(err)
	}
	e, err := cluster.New(cluster.Options{Dir: t.TempDir(), Specs: specs,
		Programs: cluster.Programs{Apache: script, JVMFlags: "-Xmx256m -XX:TieredStopAtLevel=1"},
		Lines:    []string{"metricsProvider.className=MetricNames"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := e.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if err := e.WaitServing(ctx); err != nil {
		t.Fatal(err)
	}
	for _, m := range e.Members {
		text, err := cluster.Ask(m.Client, "mntr", 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		collect(t, text, roles)
	}
}

// collect reads an answer to mntr.
func collect(t *testing.T, text string, roles map[string]map[string]string) {
	t.Helper()
	types, role := map[string]string{}, ""
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		key = strings.TrimPrefix(key, "zk_")
		switch {
		case !ok:
			t.Fatalf("line %q", line)
		case key == "server_state":
			role = value
		case slices.ContainsFunc([]string{"counter", "gauge", "summary"}, func(s string) bool { return strings.HasPrefix(value, s) }):
			types[key] = value
		}
	}
	if roles[role] == nil {
		t.Fatalf("a server is %q:\n%s", role, text)
	}
	maps.Copy(roles[role], types)
}

// format writes a line for each metric: name, type, and the roles that have it if these
// are not all.
func format(t *testing.T, roles map[string]map[string]string) string {
	t.Helper()
	all := map[string]string{}
	for _, of := range roles {
		for name, typ := range of {
			if all[name] != "" && all[name] != typ {
				t.Errorf("%s is a %s and a %s", name, all[name], typ)
			}
			all[name] = typ
		}
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		var in []string
		for _, role := range slices.Sorted(maps.Keys(roles)) {
			if roles[role][name] != "" {
				in = append(in, role)
			}
		}
		if len(in) == len(roles) {
			in = []string{"all"}
		}
		fmt.Fprintf(&b, "%s\t%s\t%s\n", name, all[name], strings.Join(in, " "))
	}
	return b.String()
}
