// Package httpconn bounds the open connections of an HTTP server.
package httpconn

import (
	"net"
	"net/http"
	"sync"
)

// Limit bounds the number of open connections. If there are too many, the one that has been
// without a request for the longest time is closed; if all have requests, the new one is. So
// idle connections never keep a request out. The methods may be called concurrently.
type Limit struct {
	Most int // set before the first connection

	mu     sync.Mutex
	open   map[net.Conn]uint64 // when it became idle, as a serial number; 0: it has a request
	serial uint64
}

// Note implements http.Server.ConnState.
func (t *Limit) Note(c net.Conn, state http.ConnState) {
	if victim := t.change(c, state); victim != nil {
		victim.Close() // an error changes nothing; the server notices, and calls Note
	}
}

// change records the state of a connection, and returns the connection to close, nil if
// there is room for all.
func (t *Limit) change(c net.Conn, state http.ConnState) (victim net.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open == nil {
		t.open = map[net.Conn]uint64{}
	}
	t.serial++
	switch state {
	case http.StateNew:
		if len(t.open) >= t.Most {
			victim = t.longestIdle(c)
		}
		delete(t.open, victim)
		if victim != c {
			t.open[c] = t.serial
		}
	case http.StateIdle, http.StateActive:
		if _, ok := t.open[c]; !ok {
			break // it is being closed
		}
		if t.open[c] = 0; state == http.StateIdle {
			t.open[c] = t.serial
		}
	default:
		delete(t.open, c)
	}
	return victim
}

// longestIdle returns the connection that has been idle for the longest time, or c if
// none is.
func (t *Limit) longestIdle(c net.Conn) net.Conn {
	least := t.serial + 1
	for other, since := range t.open {
		if since > 0 && since < least {
			c, least = other, since
		}
	}
	return c
}
