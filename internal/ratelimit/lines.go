package ratelimit

import "time"

// Lines says which lines of a kind are logged: Burst at once, then one per Period. The
// zero value of the other fields allows a whole burst. The caller serializes its calls.
type Lines struct {
	Burst  int
	Period time.Duration

	full    time.Duration // when a whole burst is allowed again
	omitted int
}

// Admit reports whether a line may be written now, and how many were omitted since the
// last one. If not, it counts one more. The origin of now is the caller's; now is not
// negative and does not fall.
func (l *Lines) Admit(now time.Duration) (omitted int, ok bool) {
	l.full = max(l.full, now)
	if l.full-now > time.Duration(l.Burst-1)*l.Period {
		l.omitted++
		return 0, false
	}
	l.full += l.Period
	omitted, l.omitted = l.omitted, 0
	return omitted, true
}
