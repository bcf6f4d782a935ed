package admin

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold"
	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
)

var (
	release = flag.String("release", "", "compare with a real `release` of Apache: 3.8, or 3.9 after scripts/apache-release")
	binary  = flag.String("pinfold", "", "`path` of the binary for -release, from the root of the repository")
	record  = flag.Bool("record", false, "with -release 3.9: write testdata anew")
)

const root = "../.."

// The roles of servers whose answers are compared. Only real servers are observers, and
// leaders with observers.
var roles = []string{"standalone", "leader", "follower", "observer"}

// settings turn the administration server on, at a free port.
var settings = map[string]string{
	"admin.enableServer": "true", "admin.serverAddress": "127.0.0.1", "admin.serverPort": "0", "admin.rateLimiterIntervalInMS": "2000000000",
}

// start starts a server of this process.
func start(t *testing.T, servers ...*pinfold.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, s := range servers {
		t.Cleanup(func() {
			if err := s.Stop(); err != nil {
				t.Error(err)
			}
		})
		must(t, s.Start(ctx))
	}
	for _, s := range servers {
		must(t, s.Ready(ctx))
	}
}

// recorded reads the recorded answers of Apache to a role.
func recorded(t *testing.T, role string) (answers map[string]answer) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", role+".json"))
	must(t, err)
	must(t, json.Unmarshal(text, &answers))
	return answers
}

// A standalone server answers like Apache's.
func TestStandalone(t *testing.T) {
	t.Parallel()
	s, err := pinfold.New(pinfold.Config{DataDir: t.TempDir(), Settings: settings})
	must(t, err)
	start(t, s)
	use(t, s.Addr())
	compare(t, "standalone", recorded(t, "standalone"), askAll(t, s.AdminAddr()))
}

// A leader and a follower answer like Apache's.
func TestEnsemble(t *testing.T) {
	t.Parallel()
	servers, err := pinfold.NewEnsemble(3, pinfold.Config{DataDir: t.TempDir(), Settings: settings})
	must(t, err)
	start(t, servers...)
	seen := map[string]bool{}
	for _, s := range servers {
		role := s.Role()
		if seen[role] {
			continue
		}
		seen[role] = true
		t.Run(role, func(t *testing.T) {
			use(t, s.Addr())
			apache, ours := recorded(t, role), askAll(t, s.AdminAddr())
			for _, name := range []string{"observers", "obsr"} { // there are none here
				delete(apache, name)
			}
			compare(t, role, apache, ours)
		})
	}
	if !seen["leader"] || !seen["follower"] {
		t.Errorf("the roles were %v", seen)
	}
}

// Real servers of a release answer like the binary. With -record their answers become
// testdata.
func TestRelease(t *testing.T) {
	kind := map[string]cluster.Kind{"3.8": cluster.Apache, "3.9": cluster.Apache39}[*release]
	if kind == "" {
		t.Skip("without -release nothing is compared with real servers")
	}
	apache := askReal(t, kind)
	if *record {
		for role, answers := range apache {
			shorten(t, answers)
			text, err := json.MarshalIndent(answers, "", "\t")
			must(t, err)
			must(t, os.WriteFile(filepath.Join("testdata", role+".json"), append(text, '\n'), 0o644))
		}
		return
	}
	ours := askReal(t, cluster.Pinfold)
	for _, role := range roles {
		compare(t, role, apache[role], ours[role])
		if *release == "3.9" {
			compare(t, role+", as recorded", recorded(t, role), ours[role])
		}
	}
}

// askReal starts a server, and then three members and an observer, and returns the
// answers of each role.
func askReal(t *testing.T, kind cluster.Kind) map[string]map[string]answer {
	t.Helper()
	answers := map[string]map[string]answer{}
	for _, specs := range [][]cluster.Spec{{{Kind: kind}}, {{Kind: kind}, {Kind: kind}, {Kind: kind}, {Kind: kind, Observer: true}}} {
		for role, of := range askCluster(t, specs) {
			answers[role] = of
		}
	}
	return answers
}

func askCluster(t *testing.T, specs []cluster.Spec) map[string]map[string]answer {
	t.Helper()
	path := *binary
	if path != "" && !filepath.IsAbs(path) {
		path = filepath.Join(root, path)
	}
	e, err := cluster.New(cluster.Options{
		Dir: t.TempDir(), Specs: specs, Admin: true, Lines: []string{"admin.rateLimiterIntervalInMS=2000000000"},
		Programs: cluster.Programs{Apache: filepath.Join(root, "scripts/apache-server"), Pinfold: path, JVMFlags: "-Xmx256m -XX:+UseSerialGC"},
	})
	must(t, err)
	defer e.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	must(t, e.Start(ctx))
	must(t, e.WaitServing(ctx))
	answers := map[string]map[string]answer{}
	for _, m := range e.Members {
		status, err := m.Status()
		must(t, err)
		role := strings.ToLower(status.Mode)
		if answers[role] != nil {
			continue
		}
		t.Run(string(m.Kind())+" "+role, func(t *testing.T) {
			use(t, m.Client)
			answers[role] = askAll(t, m.Admin)
		})
	}
	return answers
}
