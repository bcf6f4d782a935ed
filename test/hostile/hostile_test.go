package hostile

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
)

var (
	hostile   = flag.Bool("hostile", false, "attack servers")
	program   = flag.String("binary", "", "`path` of the binary that is judged, from here or from the root of the repository")
	before    = flag.String("before", "", "`path` of an older binary, which is attacked too and not judged")
	apache    = flag.Bool("apache", false, "attack Apache ZooKeeper too, which is not judged")
	sizes     = flag.Int("members", 0, "attack ensembles of so many servers alone, 1 or 3; 0 is both")
	only      = flag.String("only", "", "`expression` for the names of attacks")
	scale     = flag.Float64("scale", 1, "`share` of the attacks' numbers, from 0 to 1")
	seed      = flag.Uint64("seed", 0, "of what is drawn; 0 is any")
	random    = flag.Duration("random", 0, "draw combinations of attacks for so `long`, and run no others")
	together  = flag.Int("together", 1, "`number` of attacks that run at the same time, where that is possible")
	update    = flag.Bool("update", false, "enter the results in docs/ops/limits.md, each when it is there")
	named     = flag.String("table", "", "`name` of a table that is made in several runs: what has a result in it is left out")
	within    = flag.Duration("within", 0, "begin no attack after so `long`; 0 is no limit")
	most      = flag.Duration("most", longest, "of one attack, unless it needs longer or -scale makes it shorter: `duration`")
	keep      = flag.Bool("keep", false, "keep the directories of attacks that failed")
	witnessAt = flag.String("innocent", "", "`addresses`: be an innocent client")
	home      = flag.Int("home", 0, "`index` of the innocent client's first address")
)

const root = "../.."

func TestMain(m *testing.M) {
	flag.Parse()
	if *witnessAt != "" {
		if err := innocentMain(strings.Split(*witnessAt, ","), *home, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// systems are what is attacked.
func systems(t *testing.T) (list []system) {
	t.Helper()
	if !*hostile {
		t.Skip("no servers are attacked without -hostile")
	}
	script := filepath.Join(root, "scripts/apache-server")
	for _, p := range []struct{ name, path string }{{systemNow, *program}, {systemBefore, *before}} {
		if p.path == "" {
			continue
		}
		if _, err := os.Stat(p.path); err != nil && !filepath.IsAbs(p.path) {
			p.path = filepath.Join(root, p.path)
		}
		if _, err := os.Stat(p.path); err != nil {
			t.Fatal(err)
		}
		list = append(list, system{Name: p.name, Kind: cluster.Pinfold, Programs: cluster.Programs{Pinfold: p.path}, Judged: p.name == systemNow})
	}
	if *apache {
		if _, err := exec.LookPath("java"); err != nil {
			t.Fatal(err)
		}
		list = append(list, system{Name: systemApache, Kind: cluster.Apache, Programs: cluster.Programs{Apache: script, JVMFlags: "-Xmx3g"}})
	}
	if len(list) == 0 {
		t.Fatal("nothing to attack: -binary, -before or -apache")
	}
	return list
}

// TestAttacks runs every attack against each system, alone and as an ensemble.
func TestAttacks(t *testing.T) {
	pattern := regexp.MustCompile(*only)
	all := systems(t)
	t.Logf("the first access to a page of memory takes %v", pageCost())
	if *random > 0 {
		t.Skip("combinations alone")
	}
	first, left := time.Now(), 0
	table := slices.DeleteFunc(attacks(), func(a attack) bool { return !pattern.MatchString(a.name) })
	if *together > 1 {
		table = groups(table, *together)
	}
	for i := range table {
		a := &table[i]
		for _, members := range a.sizes() {
			if *sizes != 0 && *sizes != members {
				continue
			}
			for _, s := range all {
				if a.ours && s.Name == systemApache || done(a.name, s.Name, members) {
					continue
				}
				if *within > 0 && time.Since(first) > *within {
					left++
					continue
				}
				t.Run(fmt.Sprintf("%s/%d/%s", a.name, members, s.Name), func(t *testing.T) {
					began := time.Now()
					r := play(t, a, s, members, *scale, drawn())
					r.Table = *named
					judge(t, a, s, r)
					t.Logf("%.1f s", time.Since(began).Seconds())
					if *update && *together == 1 {
						if err := enter([]result{*r}); err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
	}
	if left > 0 {
		t.Logf("LEFT %d attacks: the time is over", left)
	}
}

// done reports whether the table that is made has a result already.
func done(attack, system string, members int) bool {
	if *named == "" {
		return false
	}
	results, err := readResults()
	return err == nil && slices.ContainsFunc(results, func(r result) bool {
		return r.Table == *named && r.Attack == attack && r.System == system && r.Members == members
	})
}

// drawn is the seed of one attack.
func drawn() uint64 {
	if *seed != 0 {
		return *seed
	}
	return rand.Uint64N(1 << 32)
}

// judge reports a result, and fails the test if a promise did not hold.
func judge(t *testing.T, a *attack, s system, r *result) {
	t.Helper()
	t.Logf("RESULT %s %s %d: %v", a.name, s.Name, r.Members, r)
	broken, gross := r.violations(a), r.gross(a, pageCost())
	if a.slow == "" {
		broken = append(broken, gross...)
	} else if len(gross) > 0 {
		t.Logf("known: %s: %q", a.slow, gross)
	}
	complain := t.Errorf
	if !s.Judged {
		complain = t.Logf
	} else if a.open != "" {
		t.Logf("known: %s", a.open)
		complain = t.Logf
	}
	for _, b := range broken {
		complain("broken promise: %s on %d servers: %s", a.name, r.Members, b) // .ci/run looks for these
	}
	if u := r.unfair(); u != "" && s.Judged {
		t.Log(u)
	}
}

// TestRandom draws combinations of attacks that run at the same time, until the time is
// over.
func TestRandom(t *testing.T) {
	all := systems(t)
	if *random == 0 {
		t.Skip("no combinations without -random")
	}
	if *seed == 0 {
		*seed = rand.Uint64N(1 << 32)
	}
	// The first is always run: that is how one is repeated.
	for until, n := time.Now().Add(*random), *seed; n == *seed || time.Now().Before(until) && !t.Failed(); n++ {
		a, members, drawnScale := combination(rand.New(rand.NewPCG(n, 0)))
		t.Run(fmt.Sprintf("seed-%d", n), func(t *testing.T) {
			t.Logf("again: go test ./test/hostile -v -hostile -binary %s -random 1ns -seed %d -scale %g", *program, n, *scale)
			t.Logf("%s on %d servers, scale %.2f", a.what, members, drawnScale**scale)
			for _, s := range all {
				judge(t, &a, s, play(t, &a, s, members, drawnScale**scale, n))
			}
		})
	}
}

// combination draws two to four attacks that can be run at the same time.
func combination(rng *rand.Rand) (a attack, members int, drawnScale float64) {
	members = 1 + 2*rng.IntN(2)
	var fit []attack
	for _, one := range attacks() {
		if !one.offline && !one.restarts && !one.renews && !one.pauses && !one.control && !one.tls && !one.logins && one.open == "" && (members == 3 || !one.ensemble) {
			fit = append(fit, one)
		}
	}
	rng.Shuffle(len(fit), func(i, j int) { fit[i], fit[j] = fit[j], fit[i] })
	return combine(fit[:2+rng.IntN(3)]), members, 0.05 + rng.Float64()/4
}

// groups combines attacks, n at a time: of those that have to do with the same number of
// servers, are known to fail or not, have TLS or logins between servers or not, and need the servers for themselves or not. Those that
// are no attacks are left out.
func groups(list []attack, n int) (all []attack) {
	kind := func(a *attack) string { return fmt.Sprint(a.sizes(), a.open != "", a.tls, a.logins) }
	rest := map[string][]attack{}
	for _, a := range list {
		if a.control {
			continue
		}
		if a.offline || a.restarts || a.renews || a.pauses || a.after != nil {
			all = append(all, a)
			continue
		}
		k := kind(&a)
		rest[k] = append(rest[k], a)
	}
	for _, k := range slices.Sorted(maps.Keys(rest)) {
		for part := range slices.Chunk(rest[k], n) {
			all = append(all, combine(part))
		}
	}
	return all
}

// combine is the attack of all parts at the same time.
func combine(parts []attack) attack {
	all := attack{ensemble: parts[0].ensemble, alone: parts[0].alone}
	var names []string
	for i := range parts {
		names = append(names, parts[i].name)
		all.lines = append(all.lines, parts[i].lines...)
		all.ensemble = all.ensemble || parts[i].ensemble
		all.open = cmp.Or(all.open, parts[i].open)
		all.slow = cmp.Or(all.slow, parts[i].slow)
		all.secret = all.secret || parts[i].secret
		all.tls = all.tls || parts[i].tls
		all.kerberos = all.kerberos || parts[i].kerberos
		all.limits += parts[i].limits
		all.least = max(all.least, parts[i].least)
	}
	all.name = strings.Join(names, "+")
	all.what = all.name
	all.prepare = func(x *scene) {
		done := map[uintptr]bool{} // several attacks have the same preparation
		for i := range parts {
			if at := reflect.ValueOf(parts[i].prepare).Pointer(); parts[i].prepare != nil && !done[at] {
				done[at] = true
				parts[i].prepare(x)
			}
		}
	}
	all.run = func(x *scene) {
		done := make(chan struct{})
		for i := range parts {
			go func() { parts[i].run(x); done <- struct{}{} }()
		}
		for range parts {
			<-done
		}
	}
	return all
}

// Every attack has a name of its own and says what it does; a seed draws the same again.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range attacks() {
		if a.name == "" || seen[a.name] || a.what == "" || a.run == nil || strings.Contains(a.what, "|") {
			t.Errorf("attack %q: %q", a.name, a.what)
		}
		seen[a.name] = true
	}
	for n := range uint64(50) {
		a, members, _ := combination(rand.New(rand.NewPCG(n, 0)))
		b, again, _ := combination(rand.New(rand.NewPCG(n, 0)))
		if a.what != b.what || members != again {
			t.Errorf("seed %d: %s on %d, then %s on %d", n, a.what, members, b.what, again)
		}
	}
}
