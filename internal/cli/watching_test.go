package cli

import (
	"strings"
	"testing"
)

// Watches that are told of the same change print one event; one that was left behind
// that change prints the next.
func TestAnEventIsPrintedOnce(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		printed := func(line string) int {
			out, errs, status := r.do(line)
			if status != statusOK {
				t.Fatalf("%s: %s", line, errs)
			}
			return strings.Count(out, "WatchedEvent")
		}
		r.must("create /a")
		r.must("addWatch /a")
		for range 3 {
			r.must("get -w /a")
			r.must("get -w /a")
			if n := printed("set /a x"); n != 1 {
				t.Errorf("a change was printed %d times", n)
			}
		}
		if n := printed("delete /a"); n != 1 {
			t.Errorf("the deletion was printed %d times", n)
		}
		r.must("create /a")
		r.must("removewatches /a")
		for range 3 {
			r.must("ls -w /a")
			if n := printed("create -s /a/x-"); n != 1 {
				t.Errorf("a child was printed %d times", n)
			}
		}
	})
}
