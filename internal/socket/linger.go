package socket

import (
	"slices"
	"sync"
	"time"
)

// Bounds of the resources of lingering connections.
const (
	maxLingering  = 256             // connections of one Lingering at a time
	lingerBytes   = 4 << 20         // read from one connection
	lingerTimeout = 2 * time.Second // from the end of its output
)

// Lingering ends connections in such a way that their last output arrives. TCP resets a
// connection that is closed with unread input, or that receives input after the close;
// a client that is reset while it writes never reads the server's last bytes. So the
// writing side is closed first, and the peer's further input is read and discarded
// until the peer closes its side: at most lingerBytes, for at most lingerTimeout. A
// lingering connection costs a descriptor and the goroutine of its reader. There are at
// most maxLingering; then the oldest is closed, so that peers that never close cannot
// keep out others.
//
// The zero value is ready to use.
type Lingering struct {
	mu     sync.Mutex
	conns  []*Conn // oldest first
	closed bool
}

// Drain reads and discards the input of c, whose writing side is closed, and then
// closes c. The caller is the reader; Drain blocks it within the bounds above. in is
// the reader's Input: Drain uses its buffer and leaves it empty.
func (l *Lingering) Drain(c *Conn, in *Input) {
	if l.enter(c) {
		_ = c.SetReadDeadline(time.Now().Add(lingerTimeout)) // fails only if closed; then Fill fails too
		for left := lingerBytes; left > 0; {
			in.Clear()
			if in.Fill() != nil {
				break
			}
			left -= in.Len()
		}
		l.leave(c)
	}
	in.Clear()
	c.Close() // an error changes nothing: it is closed
}

// enter adds c, and closes the oldest connection if there are too many. It returns
// false after Close.
func (l *Lingering) enter(c *Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	if len(l.conns) >= maxLingering {
		l.conns[0].Close() // an error changes nothing: its reader ends
		l.conns = slices.Delete(l.conns, 0, 1)
	}
	l.conns = append(l.conns, c)
	return true
}

// leave removes c if it is still in the list.
func (l *Lingering) leave(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.conns, c); i >= 0 {
		l.conns = slices.Delete(l.conns, i, i+1)
	}
}

// Len returns the number of lingering connections.
func (l *Lingering) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.conns)
}

// Close closes all lingering connections. A later Drain closes its connection at once.
func (l *Lingering) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, c := range l.conns {
		c.Close() // an error changes nothing: its reader ends
	}
}
