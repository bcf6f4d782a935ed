package sim

import (
	"flag"
	"fmt"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/zab"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "run this seed only, with its trace")
	seedsFlag = flag.Int("seeds", 0, "how many seeds TestSoak runs")
	fromFlag  = flag.Uint64("from", 1, "the first seed of TestSoak")
	lastFlag  = flag.Int("last", 300, "how many lines of a failing seed's trace are shown; 0 is all")
)

// TestSeed runs one seed and shows what happened.
func TestSeed(t *testing.T) {
	if *seedFlag == 0 {
		t.Skip("no -seed")
	}
	res := Run(Options{Seed: *seedFlag, Trace: true})
	lines := res.Trace
	if *lastFlag > 0 && len(lines) > *lastFlag {
		lines = lines[len(lines)-*lastFlag:]
	}
	for _, l := range lines {
		fmt.Println(l)
	}
	fmt.Printf("hash %x, %d events, %v virtual\n%v", res.Hash, res.Events, res.Virtual, &res.Coverage)
	if res.Violation != nil {
		t.Fatal(res.Violation)
	}
}

// TestSoak runs many seeds.
func TestSoak(t *testing.T) {
	n := *seedsFlag
	if n == 0 {
		n = 50
	}
	var cover Coverage
	for seed := *fromFlag; seed < *fromFlag+uint64(n); seed++ {
		res := Run(Options{Seed: seed, Mutation: zab.Mutation(0)})
		cover.Add(&res.Coverage)
		if res.Violation != nil {
			t.Errorf("seed %d: %v", seed, res.Violation)
			continue
		}
		again := Run(Options{Seed: seed})
		if again.Hash != res.Hash {
			t.Errorf("seed %d: %x and %x", seed, res.Hash, again.Hash)
		}
	}
	fmt.Print(&cover)
}
