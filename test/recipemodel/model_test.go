package recipemodel

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/recipe"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "TestSeed: the seed to run")
	againFlag = flag.Int("again", 1, "TestSeed: how often")
	seedsFlag = flag.Int("seeds", 21, "TestSoak: how many seeds")
	fromFlag  = flag.Uint64("from", 1, "TestSoak: the first seed")
	roleFlag  = flag.String("role", "", "TestSoak, TestSeed: the only recipe that is used, by its name")
	linesFlag = flag.Int("lines", 60, "how many lines of a failing seed's trace are shown; 0 is all")
)

// A maker makes a role.
type maker struct {
	name string
	make func(w *world, path string) role
}

// makers are the roles of all recipes.
func makers() []maker {
	return []maker{
		{"simplelock", newSimpleLock},
		{"lock", newLock()},
		{"kazoolock", newLock(recipe.UseNames(recipe.KazooNames))},
		{"reentrantlock", newReentrantLock},
		{"rwlock", newRWLock()},
		{"kazoorwlock", newRWLock(recipe.UseNames(recipe.KazooNames))},
		{"revocable", newRevocableLock},
		{"election", newElection},
		{"semaphore", newSemaphore},
		{"config", newConfig},
		{"ready", newReady},
		{"counter", newCounter},
		{"names", newNames},
		{"queue", newQueue(false)},
		{"priorityqueue", newQueue(true)},
		{"peercommit", newCommit(false)},
		{"coordinatedcommit", newCommit(true)},
		{"group", newGroup},
		{"rendezvous", newMeetings},
		{"barrier", newBarrier},
		{"doublebarrier", newDouble},
	}
}

// TestSoak runs seeds.
func TestSoak(t *testing.T) {
	began := time.Now()
	for i := range *seedsFlag {
		seed := *fromFlag + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) { run(t, seed) })
		if n := i + 1; n%100 == 0 {
			fmt.Printf("%d seeds, to %d, in %v\n", n, seed, time.Since(began).Round(time.Second))
		}
	}
}

// TestSeed runs one seed.
func TestSeed(t *testing.T) {
	if *seedFlag == 0 {
		t.Skip("no -seed is given")
	}
	for range *againFlag {
		run(t, *seedFlag)
	}
}

// replay is the command that runs a seed again.
func replay(seed uint64) string {
	cmd := fmt.Sprintf("go test ./test/recipemodel -run TestSeed -again 20 -seed %d", seed)
	if *roleFlag != "" {
		cmd += " -role " + *roleFlag
	}
	return cmd
}

// run runs a seed. Its deadlock is a panic of synctest.
func run(t *testing.T, seed uint64) {
	t.Helper()
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(os.Stderr, "seed %d: %v\nreplay: %s\n", seed, p, replay(seed))
			panic(p)
		}
	}()
	defer func() {
		if t.Failed() {
			t.Logf("replay: %s", replay(seed))
			fmt.Printf("seed %d has failed; replay: %s\n", seed, replay(seed)) // at once, while others go on
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(seed, 1<<63))
		w := newWorld(t, seed, 3+rng.IntN(6))
		for i, m := range choose(rng, seed) {
			w.roles = append(w.roles, m.make(w, fmt.Sprintf("/base/%d-%s", i, m.name)))
		}
		w.run(time.Duration(4+rng.IntN(14)) * time.Second)
		w.s.Stop()
		wait(t.Context(), time.Hour)
		if left := bubble(); len(left) > 0 {
			w.errorf("%d goroutines are left:\n%s", len(left), strings.Join(left, "\n\n"))
		}
		if t.Failed() {
			w.show()
		}
	})
}

// choose returns one to three roles. The first goes through all of them with the
// seeds.
func choose(rng *rand.Rand, seed uint64) []maker {
	all := makers()
	if *roleFlag != "" {
		return slices.DeleteFunc(all, func(m maker) bool { return m.name != *roleFlag })
	}
	chosen := []maker{all[seed%uint64(len(all))]}
	for range rng.IntN(3) {
		chosen = append(chosen, all[rng.IntN(len(all))])
	}
	return chosen
}

// show shows the end of the trace.
func (w *world) show() {
	lines := w.trace
	if *linesFlag > 0 && len(lines) > *linesFlag {
		at := slices.IndexFunc(lines, func(s string) bool { return strings.Contains(s, "BROKEN") })
		from := max(at+1-*linesFlag, 0)
		lines = lines[from : from+*linesFlag]
	}
	w.t.Logf("trace of seed %d (%v):\n%s", w.seed, w.rolesNames(), strings.Join(lines, "\n"))
}

// bubble returns the stacks of the other goroutines of this bubble.
func bubble() (list []string) {
	b := make([]byte, 4<<20)
	all := strings.Split(string(b[:runtime.Stack(b, true)]), "\n\n")
	_, mine, _ := strings.Cut(strings.SplitN(all[0], "\n", 2)[0], "synctest bubble ")
	for _, s := range all[1:] {
		head, _, _ := strings.Cut(s, "\n")
		if strings.Contains(head, "synctest bubble "+mine) && !strings.Contains(s, "testing/synctest.testingSynctestTest") && !strings.Contains(s, "internal/synctest.Run") {
			list = append(list, s)
		}
	}
	return list
}
