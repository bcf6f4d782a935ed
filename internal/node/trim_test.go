package node

import (
	"testing"
	"time"
)

// TestTrimmer: memory is given back once, when the server has been quiet five times
// running, and only if it is worth it.
func TestTrimmer(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct {
		name   string
		checks []heapUse
		want   []bool
		again  time.Duration // after the last check
	}{
		{"quiet after a load",
			[]heapUse{
				{allocated: 500 * mb, live: 200 * mb, objects: 230 * mb, free: 10 * mb},
				{allocated: 500 * mb, live: 200 * mb, objects: 230 * mb, free: 10 * mb},
				{allocated: 500 * mb, live: 200 * mb, objects: 230 * mb, free: 10 * mb},
				{allocated: 500 * mb, live: 200 * mb, objects: 230 * mb, free: 10 * mb},
				{allocated: 500 * mb, live: 200 * mb, objects: 230 * mb, free: 10 * mb},
				{allocated: 500 * mb, live: 200 * mb, objects: 230 * mb, free: 10 * mb},
				{allocated: 500 * mb, live: 200 * mb, objects: 200 * mb},
			},
			[]bool{false, false, false, false, false, true, false}, trimSeldom},
		{"a little goes on",
			[]heapUse{
				{allocated: 500 * mb, live: 10 * mb, objects: 40 * mb},
				{allocated: 500*mb + mb/4, live: 10 * mb, objects: 40 * mb},
				{allocated: 500*mb + mb/2, live: 10 * mb, objects: 40 * mb},
				{allocated: 500*mb + 3*mb/4, live: 10 * mb, objects: 40 * mb},
				{allocated: 500*mb + 3*mb/4, live: 10 * mb, objects: 40 * mb},
				{allocated: 501 * mb, live: 10 * mb, objects: 40 * mb},
			},
			[]bool{false, false, false, false, false, true}, trimEvery},
		{"a light load after a heavy one",
			[]heapUse{
				{allocated: 500 * mb, live: 10 * mb, objects: 40 * mb, free: 30 * mb},
				{allocated: 501 * mb, live: 10 * mb, objects: 40 * mb, free: 30 * mb},
				{allocated: 502 * mb, live: 10 * mb, objects: 40 * mb, free: 30 * mb},
				{allocated: 503 * mb, live: 10 * mb, objects: 40 * mb, free: 30 * mb},
				{allocated: 504 * mb, live: 10 * mb, objects: 40 * mb, free: 30 * mb},
				{allocated: 505 * mb, live: 10 * mb, objects: 40 * mb, free: 30 * mb},
			},
			[]bool{false, false, false, false, false, true}, trimEvery},
		{"a light load has less garbage",
			[]heapUse{
				{allocated: 500 * mb, live: 10 * mb, objects: 40 * mb}, {allocated: 501 * mb, live: 10 * mb, objects: 41 * mb},
				{allocated: 502 * mb, live: 10 * mb, objects: 42 * mb}, {allocated: 503 * mb, live: 10 * mb, objects: 43 * mb},
				{allocated: 504 * mb, live: 10 * mb, objects: 44 * mb}, {allocated: 505 * mb, live: 10 * mb, objects: 45 * mb},
			},
			[]bool{false, false, false, false, false, false}, trimEvery},
		{"busy",
			[]heapUse{
				{allocated: 500 * mb, objects: 100 * mb}, {allocated: 502 * mb, objects: 100 * mb},
				{allocated: 504 * mb, objects: 100 * mb}, {allocated: 506 * mb, objects: 100 * mb},
				{allocated: 508 * mb, objects: 100 * mb}, {allocated: 510 * mb, objects: 100 * mb},
			},
			[]bool{false, false, false, false, false, false}, trimEvery},
		{"busy in between",
			[]heapUse{
				{allocated: 500 * mb, objects: 100 * mb}, {allocated: 500 * mb, objects: 100 * mb}, {allocated: 500 * mb, objects: 100 * mb},
				{allocated: 520 * mb, objects: 100 * mb}, {allocated: 520 * mb, objects: 100 * mb},
				{allocated: 520 * mb, objects: 100 * mb}, {allocated: 520 * mb, objects: 100 * mb},
				{allocated: 520 * mb, objects: 100 * mb}, {allocated: 520 * mb, objects: 100 * mb},
			},
			[]bool{false, false, false, false, false, false, false, false, true}, trimEvery},
		{"not worth it",
			[]heapUse{
				{allocated: mb, live: mb, objects: 8 * mb}, {allocated: mb, live: mb, objects: 8 * mb},
				{allocated: mb, live: mb, objects: 8 * mb}, {allocated: mb, live: mb, objects: 8 * mb},
			},
			[]bool{false, false, false, false}, trimSeldom},
		{"not worth it for a large heap",
			[]heapUse{
				{live: 2000 * mb, objects: 2090 * mb}, {live: 2000 * mb, objects: 2090 * mb},
				{live: 2000 * mb, objects: 2090 * mb}, {live: 2000 * mb, objects: 2090 * mb},
				{live: 2000 * mb, objects: 2090 * mb}, {live: 2000 * mb, objects: 2100 * mb},
			},
			[]bool{false, false, false, false, false, true}, trimEvery},
		{"less in use than was live",
			[]heapUse{{live: 20 * mb, objects: 10 * mb}, {live: 20 * mb, objects: 10 * mb}, {live: 20 * mb, objects: 10 * mb}},
			[]bool{false, false, false}, trimSeldom},
	} {
		var tr trimmer
		for i, u := range c.checks {
			got, again := tr.due(u)
			if got != c.want[i] {
				t.Errorf("%s: check %d: %v", c.name, i, got)
			}
			if i == len(c.checks)-1 && again != c.again {
				t.Errorf("%s: the next check after %v", c.name, again)
			}
		}
	}
}

// The process becomes quiet once after its start and once after each load, however long it then is.
func TestTrimmerBecomesQuiet(t *testing.T) {
	var idle trimmer
	quiet, allocated := 0, uint64(0)
	for _, load := range []uint64{10 * quietBytes, quietBytes, 0} {
		allocated += load
		for range 3 * trimAfter {
			if idle.due(heapUse{allocated: allocated}); idle.becameQuiet() {
				quiet++
			}
			allocated += quietBytes / 2
		}
	}
	if quiet != 2 {
		t.Errorf("it became quiet %d times after two loads", quiet)
	}
}
