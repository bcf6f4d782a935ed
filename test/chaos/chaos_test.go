package chaos

import (
	"context"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
)

var (
	pinfold = flag.String("pinfold", "", "`path` of the binary, from here or from the root of the repository")
	kinds   = flag.String("kinds", "pinfold,pinfold,pinfold", "`members` of the ensemble")
	seed    = flag.Uint64("seed", 0, "of what is done when; 0 is any")
	lasts   = flag.Duration("for", 20*time.Second, "how `long` there are faults")
)

const root = "../.."

// patience is how long an ensemble and clients may take to get over a fault.
const patience = 60 * time.Second

// TestChaos is the whole test.
func TestChaos(t *testing.T) {
	if *pinfold == "" && strings.Contains(*kinds, string(cluster.Pinfold)) {
		t.Skip("no servers to test: -pinfold names the binary, or -kinds apache,apache,apache does without")
	}
	if *seed == 0 {
		*seed = rand.Uint64N(1 << 32)
	}
	t.Logf("again: go test ./test/chaos -v -count 1 -seed %d -kinds %s -for %v -pinfold %s", *seed, *kinds, *lasts, *pinfold)
	e := start(t)
	w := newWorld(t, e)
	w.employ()
	f := &faults{world: w, rng: rand.New(rand.NewPCG(*seed, 1))}
	f.run(*lasts)
	w.finish()
}

// start starts the ensemble; it is killed when the test ends.
func start(t *testing.T) *cluster.Ensemble {
	specs, err := cluster.ParseSpecs(*kinds)
	if err != nil {
		t.Fatal(err)
	}
	binary := *pinfold
	if _, err := os.Stat(binary); err != nil && !filepath.IsAbs(binary) {
		binary = filepath.Join(root, binary)
	}
	e, err := cluster.New(cluster.Options{
		Dir: t.TempDir(), Specs: specs, Links: true,
		Programs: cluster.Programs{Pinfold: binary, Apache: filepath.Join(root, "scripts/apache-server"), JVMFlags: "-Xmx512m -XX:+UseSerialGC"},
		Lines:    []string{"maxClientCnxns=0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := e.Start(ctx); err != nil {
		t.Fatal(err)
	}
	return e
}

// faults are what is done to servers and clients, one after the other.
type faults struct {
	*world
	rng *rand.Rand
}

func (f *faults) run(d time.Duration) {
	f.t.Helper()
	all := []struct {
		name string
		do   func() error
	}{
		{"the leader is killed", f.killLeader}, {"a member is killed", f.killMember}, {"the leader is cut off", f.isolateLeader},
		{"a member is paused", f.pause}, {"clients lose their connections", f.cutClients}, {"a client dies", f.killClient},
		{"a client dies", f.killClient}, {"a client dies", f.killClient},
	}
	for end := time.Now().Add(d); time.Now().Before(end) && !f.t.Failed(); {
		fault := all[f.rng.IntN(len(all))]
		f.t.Logf("%6.1f s  %s", time.Since(f.began).Seconds(), fault.name)
		if err := fault.do(); err != nil {
			f.t.Fatalf("%s: %v", fault.name, err)
		}
		f.rest(time.Duration(200+f.rng.IntN(800)) * time.Millisecond)
	}
}

func (f *faults) rest(d time.Duration) { <-time.After(d) }

func (f *faults) leader() (*cluster.Member, error) {
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	return f.e.WaitLeader(ctx, func(*cluster.Member) bool { return true })
}

func (f *faults) killLeader() error {
	m, err := f.leader()
	if err != nil {
		return err
	}
	return f.kill(m)
}

func (f *faults) killMember() error { return f.kill(f.e.Members[f.rng.IntN(len(f.e.Members))]) }

// kill kills a member, lets the others go on for a while, and brings it back.
func (f *faults) kill(m *cluster.Member) error {
	m.Kill()
	f.rest(time.Duration(500+f.rng.IntN(2000)) * time.Millisecond)
	if err := m.Start(); err != nil {
		return err
	}
	return f.whole()
}

func (f *faults) isolateLeader() error {
	m, err := f.leader()
	if err != nil {
		return err
	}
	f.e.Links.Isolate(m.ID)
	f.rest(time.Duration(1000+f.rng.IntN(4000)) * time.Millisecond)
	f.e.Links.Heal(f.rng.IntN(2) == 0)
	return f.whole()
}

func (f *faults) pause() error {
	m := f.e.Members[f.rng.IntN(len(f.e.Members))]
	if err := m.Pause(); err != nil {
		return err
	}
	f.rest(time.Duration(500+f.rng.IntN(5000)) * time.Millisecond)
	if err := m.Resume(); err != nil {
		return err
	}
	return f.whole()
}

func (f *faults) cutClients() error {
	for _, l := range f.living() {
		if f.rng.IntN(2) == 0 {
			l.line.cut()
		}
	}
	return nil
}

func (f *faults) killClient() error {
	if all := f.living(); len(all) > 0 {
		all[f.rng.IntN(len(all))].die()
	}
	return nil
}

// whole waits until all members serve.
func (w *world) whole() error {
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	return w.e.WaitServing(ctx)
}
