package load

import (
	"testing"
	"time"
)

func TestLongestGap(t *testing.T) {
	acks := []time.Duration{40, 10, 20, 100}
	for _, c := range []struct{ from, to, gap, began time.Duration }{
		{0, 50, 20, 20}, {0, 100, 60, 40}, {10, 20, 10, 10}, {41, 90, 49, 41}, {0, 200, 100, 100},
	} {
		gap, began := LongestGap(acks, c.from, c.to)
		if gap != c.gap || began != c.began {
			t.Errorf("from %d to %d: %d at %d, want %d at %d", c.from, c.to, gap, began, c.gap, c.began)
		}
	}
}
