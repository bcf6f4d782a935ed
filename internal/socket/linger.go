package socket

import (
	"slices"
	"sync"
	"time"
)

// Bounds of what lingering connections hold.
const (
	maxLingering  = 256             // connections of one Lingering at a time
	lingerBytes   = 4 << 20         // read from one of them
	lingerTimeout = 2 * time.Second // from the end of its output
)

// Lingering ends connections so that their last output arrives. TCP resets a
// connection that is closed with unread input, or that input reaches after the
// close; a client that is reset while it writes never reads what it was sent
// before. So the writing side is closed first, and what the peer still sends is
// read and discarded until the peer closes its side: at most lingerBytes, for at
// most lingerTimeout. A connection that lingers costs a descriptor and the
// goroutine of its reader. There are at most maxLingering: when there are more the
// oldest is closed, so that peers that never close cannot keep out others.
//
// The zero value is ready to use.
type Lingering struct {
	mu     sync.Mutex
	conns  []*Conn // oldest first
	closed bool
}

// Drain reads and discards the input of c, whose writing side is closed, and then
// closes c. It blocks the caller, who is the reader, within the bounds above. in is
// the reader's Input, which Drain uses for its buffer and leaves empty.
func (l *Lingering) Drain(c *Conn, in *Input) {
	if l.enter(c) {
		_ = c.SetReadDeadline(time.Now().Add(lingerTimeout)) // fails only if closed, as Fill will
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

// enter adds c, in place of the oldest if there are too many. It is false after
// Close.
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

// leave removes c, if it is still there.
func (l *Lingering) leave(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.conns, c); i >= 0 {
		l.conns = slices.Delete(l.conns, i, i+1)
	}
}

// Len is the number of connections that linger.
func (l *Lingering) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.conns)
}

// Close closes all connections that linger. A later Drain closes its connection at
// once.
func (l *Lingering) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, c := range l.conns {
		c.Close() // an error changes nothing: its reader ends
	}
}
