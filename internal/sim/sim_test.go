package sim

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"
)

var (
	seedFlag     = flag.Uint64("seed", 0, "TestSeed: the seed to run")
	seedsFlag    = flag.Int("seeds", 60, "TestSoak, TestMutation: how many seeds")
	twiceFlag    = flag.Int("twice", 1, "TestSoak: every so many-th seed is run a second time, when the same must happen")
	fromFlag     = flag.Uint64("from", 1, "TestSoak, TestMutation: the first seed")
	traceFlag    = flag.Int("trace", 100, "how many lines of a failing seed's trace are shown; 0 is all")
	effectsFlag  = flag.Bool("effects", false, "TestMutation: look at what members deliver and clients see alone")
	mutationFlag = flag.String("mutation", "", "TestSeed, TestMutation: the bug to put back, by its name")
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

// bug is the one that -mutation names.
func bug(t *testing.T) Bug {
	if *mutationFlag == "" {
		return Bug{}
	}
	for _, b := range Bugs {
		if b.Name == *mutationFlag {
			return b
		}
	}
	t.Fatalf("no bug is called %q", *mutationFlag)
	return Bug{}
}

// replay is the command that runs a seed again.
func replay(seed uint64) string {
	cmd := fmt.Sprintf("go test ./internal/sim -run TestSeed -seed %d", seed)
	if *mutationFlag != "" {
		cmd += " -mutation " + *mutationFlag
	}
	return cmd
}

// explain runs a seed again, with its trace, and returns the end of that.
func explain(o Options) string {
	o.Trace = true
	lines := Run(o).Trace
	if *traceFlag > 0 && len(lines) > *traceFlag {
		lines = lines[len(lines)-*traceFlag:]
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
	o := Options{Seed: *seedFlag, Bug: bug(t)}
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
	events, runs := 0, *seedsFlag
	began := time.Now()
	for i := range *seedsFlag {
		seed := *fromFlag + uint64(i)
		collect(i)
		res := Run(Options{Seed: seed})
		cover.Add(&res.Coverage)
		virtual += res.Virtual
		events += res.Events
		if res.Violation == nil {
			res.Violation = checkLinearizable(res.Registers)
		}
		if res.Violation != nil {
			t.Errorf("seed %d: %v\n%s\nreplay: %s", seed, res.Violation, explain(Options{Seed: seed}), replay(seed))
			continue
		}
		if i%*twiceFlag == 0 {
			runs++
			if again := Run(Options{Seed: seed}); again.Hash != res.Hash || again.Events != res.Events {
				t.Errorf("seed %d: what happens is not determined: %d events, hash %x, then %d, %x", seed, res.Events, res.Hash, again.Events, again.Hash)
			}
		}
		if n := i + 1; n%1000 == 0 {
			fmt.Printf("%d seeds, to %d, in %v\n", n, seed, time.Since(began).Round(time.Second))
		}
	}
	took := time.Since(began)
	hours := virtual.Hours() * float64(runs) / float64(*seedsFlag)
	t.Logf("%d seeds, %d runs in %v; %v of virtual time in a run of each, %d events; %.0f virtual hours in an hour\n%v",
		*seedsFlag, runs, took.Round(time.Millisecond), virtual.Round(time.Second), events, hours/took.Hours(), &cover)
}

// findBug runs seeds until a bug that is put back is found, and returns how many
// that took, 0 if it is not.
func findBug(b Bug, from uint64, seeds int, effects bool) (int, *Violation) {
	for i := range seeds {
		collect(i)
		if v := Run(Options{Seed: from + uint64(i), Bug: b, Effects: effects}).Violation; v != nil {
			return i + 1, v
		}
	}
	return 0, nil
}

// TestBugsAreFound puts each bug back.
func TestBugsAreFound(t *testing.T) {
	for _, b := range Bugs {
		if n, _ := findBug(b, 1, 300, false); n == 0 {
			t.Errorf("%s is not found: %s", b.Name, b.What)
		}
	}
}

// TestMutation puts bugs back, the one that -mutation names or all, and prints a
// line of the table in docs/testing.md for each.
func TestMutation(t *testing.T) {
	if *mutationFlag == "" {
		t.Skip("no -mutation is given: a bug's name, or all")
	}
	for _, b := range Bugs {
		if *mutationFlag != b.Name && *mutationFlag != "all" {
			continue
		}
		n, v := findBug(b, *fromFlag, *seedsFlag, *effectsFlag)
		if n == 0 {
			t.Errorf("%s is not found in %d seeds: %s", b.Name, *seedsFlag, b.What)
			continue
		}
		detail, _, _ := strings.Cut(v.Detail, "\n")
		t.Logf("| %s | %s | %d | %s: %s |", b.Name, b.What, n, v.Invariant, detail)
	}
}
