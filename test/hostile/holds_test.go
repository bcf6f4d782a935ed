package hostile

import (
	"bufio"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"
)

// longHold is the bound of the bucket up to which a hold of the tree's lock is as short as
// docs/ops/limits.md says: 2 ms. Beside servers, attackers and innocent clients on a few processors the
// holder waits for its own now and then, so that the number is reported and not judged.
const longHold = 2048 * time.Microsecond

// holds are the holds of the tree's lock while servers were attacked.
type holds struct {
	Count   int64
	Long    int64         // of these, longer than longHold
	Longest time.Duration // the bound of the bucket of the longest
}

// add adds what a member's scrape says of a histogram of seconds.
func (h *holds) add(text, name string) {
	var bounds []time.Duration
	var counts []int64 // of holds that are no longer than each bound
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		rest, ok := strings.CutPrefix(lines.Text(), name+`_bucket{le="`)
		bound, value, ok2 := strings.Cut(rest, `"} `)
		seconds, err := strconv.ParseFloat(bound, 64)
		n, err2 := strconv.ParseFloat(value, 64)
		if !ok || !ok2 || err != nil || err2 != nil {
			continue
		}
		if math.IsInf(seconds, 1) {
			seconds = time.Hour.Seconds()
		}
		bounds = append(bounds, time.Duration(math.Round(seconds*1e6))*time.Microsecond)
		counts = append(counts, int64(n))
	}
	if len(counts) == 0 {
		return
	}
	all := counts[len(counts)-1]
	h.Count += all
	for i, n := range counts {
		if bounds[i] == longHold {
			h.Long += all - n
		}
		if n < all && i+1 < len(bounds) {
			h.Longest = max(h.Longest, bounds[i+1])
		} else if all > 0 {
			h.Longest = max(h.Longest, bounds[0])
		}
	}
}

func (h *holds) String() string {
	if h.Long == 0 {
		return fmt.Sprintf("≤ %v", round(h.Longest))
	}
	return fmt.Sprintf("≤ %v (%d of %d over 2 ms)", round(h.Longest), h.Long, h.Count)
}

func TestHolds(t *testing.T) {
	const text = `# TYPE a histogram
a_bucket{le="6.4e-05"} 5
a_bucket{le="0.002048"} 8
a_bucket{le="0.004096"} 9
a_bucket{le="0.008192"} 9
a_bucket{le="+Inf"} 9
a_count 9
b_bucket{le="6.4e-05"} 0
b_bucket{le="+Inf"} 0
c_bucket{le="6.4e-05"} 3
c_bucket{le="0.002048"} 3
c_bucket{le="+Inf"} 3
`
	for name, want := range map[string]holds{
		"a": {9, 1, 4096 * time.Microsecond}, "b": {}, "c": {3, 0, 64 * time.Microsecond}, "none": {},
	} {
		var h holds
		if h.add(text, name); h != want {
			t.Errorf("%s: %+v, want %+v", name, h, want)
		}
	}
}
