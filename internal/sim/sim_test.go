package sim

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

var (
	seedFlag    = flag.Uint64("seed", 0, "TestSeed: the seed to run")
	seedsFlag   = flag.Int("seeds", 60, "TestSoak: how many seeds")
	faultsFlag  = flag.Int("faults", 0, "TestSoak: as many seeds as have this many faults, whatever -seeds says")
	huntFlag    = flag.Int("hunt", 0, "TestHunt: how many seeds are tried")
	twiceFlag   = flag.Int("twice", 1, "TestSoak: every so many-th seed is run a second time, when the same must happen")
	fromFlag    = flag.Uint64("from", 1, "TestSoak, TestHunt: the first seed")
	linesFlag   = flag.Int("lines", 100, "how many lines of a failing seed's trace are shown; 0 is all")
	reconfFlag  = flag.Bool("reconfigures", false, "TestSeed, TestSoak, TestHunt: every seed changes the configuration of the ensemble")
	impatient   = flag.Bool("impatient", false, "TestSeed, TestSoak, TestHunt: members are silent for two ticks at most while something waits for them")
	effectsFlag = flag.Bool("effects", false, "TestHunt: look only at what members deliver and clients see")
)

// TestMain has the garbage collector run between runs, see collect, or where a run
// is large. By itself it would be busy: the pools of a server keep all of a run for
// one more collection.
func TestMain(m *testing.M) {
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(768 << 20)
	os.Exit(m.Run())
}

// collect collects the garbage of the last runs, if they were many.
func collect(runs int) {
	if runs%8 == 0 {
		runtime.GC()
	}
}

// replay is the command that runs a seed again.
func replay(seed uint64) string {
	text := fmt.Sprintf("go test ./internal/sim -run TestSeed -seed %d", seed)
	if *reconfFlag {
		text += " -reconfigures"
	}
	if *impatient {
		text += " -impatient"
	}
	return text
}

// explain runs a seed again, with its trace, and returns the end of that.
func explain(o Options) string {
	o.Trace = true
	lines := Run(o).Trace
	if *linesFlag > 0 && len(lines) > *linesFlag {
		lines = lines[len(lines)-*linesFlag:]
	}
	text := ""
	for _, l := range lines {
		text += l + "\n"
	}
	return text
}

// TestSeed runs one seed and shows what happened.
func TestSeed(t *testing.T) {
	if *seedFlag == 0 {
		t.Skip("no -seed is given")
	}
	o := Options{Seed: *seedFlag, Reconfigures: *reconfFlag, Impatient: *impatient}
	res := Run(o)
	fmt.Print(explain(o))
	fmt.Printf("hash %x, %d events, %v of virtual time\n%v", res.Hash, res.Events, res.Virtual, &res.Coverage)
	if res.Violation != nil {
		t.Fatal(res.Violation)
	}
}

// TestSoak runs seeds, each of them twice if -twice does not say otherwise: the
// second time the same happens.
func TestSoak(t *testing.T) {
	var cover Coverage
	var virtual time.Duration
	events, seeds, again := 0, 0, 0
	began := time.Now()
	for ; *faultsFlag == 0 && seeds < *seedsFlag || cover.faults() < *faultsFlag; seeds++ {
		seed := *fromFlag + uint64(seeds)
		collect(seeds)
		o := Options{Seed: seed, Reconfigures: *reconfFlag, Impatient: *impatient}
		res := Run(o)
		cover.Add(&res.Coverage)
		virtual += res.Virtual
		events += res.Events
		if res.Violation == nil {
			res.Violation = checkLinearizable(res.Registers)
		}
		if res.Violation != nil {
			fmt.Printf("%s fails: %v\n", replay(seed), res.Violation) // at once: a soak may be stopped before it ends
			t.Errorf("seed %d: %v\n%s\nreplay: %s", seed, res.Violation, explain(o), replay(seed))
			continue
		}
		if seeds%*twiceFlag == 0 {
			again++
			if second := Run(o); second.Hash != res.Hash || second.Events != res.Events {
				t.Errorf("seed %d: what happens is not determined: %d events, hash %x, then %d, %x", seed, res.Events, res.Hash, second.Events, second.Hash)
			}
		}
		if n := seeds + 1; n%1000 == 0 {
			fmt.Printf("%d seeds, to %d, %d faults, %d members healed, in %v\n", n, seed, cover.faults(), cover.Healed, time.Since(began).Round(time.Second))
		}
	}
	if seeds >= 300 && !*reconfFlag {
		for _, name := range cover.missing() {
			t.Errorf("%d seeds, and never: %s", seeds, name)
		}
	}
	took := time.Since(began)
	hours := virtual.Hours() * float64(seeds+again) / float64(seeds)
	t.Logf("%d seeds, %d runs in %v; %v of virtual time in a run of each, %d events; %.0f virtual hours in an hour\n%v",
		seeds, seeds+again, took.Round(time.Millisecond), virtual.Round(time.Second), events, hours/took.Hours(), &cover)
}

// TestHunt runs seeds until one violates an invariant, which fails the test. It is
// for a build into which test/mutants has put a bug.
func TestHunt(t *testing.T) {
	if *huntFlag == 0 {
		t.Skip("no -hunt is given")
	}
	for i := range *huntFlag {
		collect(i)
		seed := *fromFlag + uint64(i)
		res := Run(Options{Seed: seed, Effects: *effectsFlag, Reconfigures: *reconfFlag, Impatient: *impatient})
		if res.Violation == nil {
			res.Violation = checkLinearizable(res.Registers)
		}
		if res.Violation != nil {
			t.Fatalf("seed=%d: %v", seed, res.Violation)
		}
	}
}

// Every invariant holds while the configuration of the ensemble is changed at random. A run of
// TestSoak has that in one seed of four.
func TestReconfigurations(t *testing.T) {
	var cover Coverage
	for i := range *seedsFlag {
		collect(i)
		seed := *fromFlag + uint64(i)
		res := Run(Options{Seed: seed, Reconfigures: true})
		if res.Violation == nil {
			res.Violation = checkLinearizable(res.Registers)
		}
		if res.Violation != nil {
			t.Fatalf("seed=%d: %v\nreplay: %s -reconfigures", seed, res.Violation, replay(seed))
		}
		cover.Add(&res.Coverage)
	}
	if cover.Reconfigs == 0 {
		t.Error("the configuration was never changed")
	}
}
