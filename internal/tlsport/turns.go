package tlsport

import (
	"net"
	"runtime"
)

// Turns lets the handshakes of a port compute in turns: half of the processors do, and one at
// least. A handshake takes some hundred microseconds of a processor. When thousands are begun
// at the same time, all other goroutines would wait for as many of them in the queues of the
// scheduler, pings and the requests of clients among them; a handshake that waits for its turn
// is in none of these queues. Its methods may be called concurrently.
type Turns struct{ slots chan struct{} }

// NewTurns returns Turns that nothing uses yet.
func NewTurns() *Turns {
	return &Turns{make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))}
}

// Conn returns nc for the handshake of a server. What a Read has returned is computed with in
// a turn, which ends with the next Read or Write: so a peer that stops half-way has none. The
// turns come in the order of the Reads. A Read whose turn has not come when gone is closed
// returns net.ErrClosed.
//
// One goroutine at a time reads and writes until EndTurns.
func (t *Turns) Conn(nc net.Conn, gone <-chan struct{}) *TurnConn {
	return &TurnConn{Conn: nc, turns: t, gone: gone}
}

// A TurnConn is a connection during a handshake, and nc itself afterwards.
type TurnConn struct {
	net.Conn
	turns *Turns // nil after EndTurns
	gone  <-chan struct{}
	has   bool // a turn
}

// Read reads from the connection, and waits for a turn (io.Reader).
func (c *TurnConn) Read(p []byte) (int, error) {
	if c.turns == nil {
		return c.Conn.Read(p)
	}
	c.end()
	n, err := c.Conn.Read(p)
	if err != nil {
		return n, err
	}
	select {
	case c.turns.slots <- struct{}{}:
		c.has = true
		return n, nil
	case <-c.gone:
		return 0, net.ErrClosed
	}
}

// Write writes to the connection, outside of turns (io.Writer).
func (c *TurnConn) Write(p []byte) (int, error) {
	c.end()
	return c.Conn.Write(p)
}

// EndTurns says that the handshake is over.
func (c *TurnConn) EndTurns() {
	c.end()
	c.turns = nil
}

func (c *TurnConn) end() {
	if c.has {
		c.has = false
		<-c.turns.slots
	}
}
