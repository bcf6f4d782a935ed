package sim

import (
	"runtime"
	"testing"
)

// A run leaves no coroutine behind: each would hold the whole run.
func TestRunLeavesNothing(t *testing.T) {
	before := runtime.NumGoroutine()
	for seed := range uint64(20) {
		Run(Options{Seed: seed})
		if n := runtime.NumGoroutine(); n > before { // one of another test may end meanwhile
			t.Fatalf("seed %d: %d goroutines more than before", seed, n-before)
		}
	}
}
