package ratelimit

import (
	"testing"
	"time"
)

// A burst passes at once, then one line per period; a line that passes tells how many did not.
func TestLines(t *testing.T) {
	l := Lines{Burst: 3, Period: time.Second}
	now := time.Hour
	for i, tt := range []struct {
		after   time.Duration
		omitted int
		ok      bool
	}{
		{0, 0, true}, {0, 0, true}, {0, 0, true}, {0, 0, false}, {500 * time.Millisecond, 0, false},
		{500 * time.Millisecond, 2, true}, {0, 0, false},
		{time.Hour, 1, true}, {0, 0, true}, {0, 0, true}, {0, 0, false},
	} {
		now += tt.after
		if omitted, ok := l.Admit(now); omitted != tt.omitted || ok != tt.ok {
			t.Errorf("line %d: %d, %t; want %d, %t", i, omitted, ok, tt.omitted, tt.ok)
		}
	}
}
