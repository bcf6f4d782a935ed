package sim

import (
	"fmt"
	"testing"
	"time"
)

// When a server may tell the client of a local session that it is over.
func TestLocalDenied(t *testing.T) {
	const began, timeout = 900 * time.Millisecond, 400 * time.Millisecond
	for _, tt := range []struct {
		name                               string
		heard, asked, installed, observing time.Duration
		may                                bool
	}{
		{"silent for the timeout", 500, 0, 0, 0, true},
		{"heard of within the timeout", 501, 0, 0, 0, false},
		{"and asked for an ephemeral", 800, 700, 0, 0, false},
		{"the server is sent a snapshot then", 800, 700, 750, 0, true},
		{"it was sent one before", 800, 700, 650, 0, false},
		{"the server observes since then", 800, 700, 0, 750, true},
		{"it has observed before", 800, 700, 0, 650, false},
		{"no ephemeral was asked for", 800, 0, 750, 750, false},
	} {
		ms := func(n time.Duration) time.Duration { return n * time.Millisecond }
		s := newSim(Options{Seed: 1})
		s.profile.drift = 0
		m := newMember(s, 1)
		m.installed, m.observed = ms(tt.installed), ms(tt.observing)
		c := &client{s: s, who: "c0", session: 7, conn: &clientConn{m: m, asked: began}}
		c.home = localHome{m: m, heard: ms(tt.heard), timeout: timeout, lasting: true, asked: ms(tt.asked)}
		var found any
		func() {
			defer func() { found = recover() }()
			c.judgeLocalDenied()
		}()
		if may := found == nil; may != tt.may {
			t.Errorf("%s: %v", tt.name, fmt.Sprint(found))
		}
	}
}
