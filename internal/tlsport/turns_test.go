package tlsport

import (
	"errors"
	"net"
	"testing"
	"testing/synctest"
)

// arriving is a connection on which one byte has arrived, and no more does.
type arriving struct {
	net.Conn
	left int
	more chan struct{}
}

func (a *arriving) Read(p []byte) (int, error) {
	if a.left == 0 {
		<-a.more
		return 0, net.ErrClosed
	}
	a.left--
	return 1, nil
}

func (*arriving) Write(p []byte) (int, error) { return len(p), nil }

// Of many handshakes that something has arrived for as many compute as there are turns. One that
// waits for its peer, or writes, computes nothing, and one whose connection ends waits no longer.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := &Turns{make(chan struct{}, 2)}
		more := make(chan struct{})
		began, left := make(chan int, 10), make(chan int, 10)
		var conns []*TurnConn
		var gone []chan struct{}
		for i := range 5 {
			gone = append(gone, make(chan struct{}))
			c := turns.Conn(&arriving{left: 1, more: more}, gone[i])
			conns = append(conns, c)
			go func() {
				switch n, err := c.Read(make([]byte, 1)); {
				case err == nil && n == 1:
					began <- i
				case errors.Is(err, net.ErrClosed):
					left <- i
				}
			}()
			synctest.Wait()
		}
		next := func(want ...int) {
			t.Helper()
			synctest.Wait()
			if len(began) != len(want) {
				t.Fatalf("%d begin, want %v", len(began), want)
			}
			for _, i := range want {
				if got := <-began; got != i {
					t.Errorf("%d begins, want %d", got, i)
				}
			}
		}
		next(0, 1)
		close(gone[2])
		synctest.Wait()
		if len(left) != 1 || <-left != 2 {
			t.Error("one whose connection has ended waits")
		}
		if _, err := conns[0].Write([]byte("x")); err != nil { // its turn ends
			t.Error(err)
		}
		next(3)
		go func() { _, _ = conns[1].Read(make([]byte, 1)) }() // waits for its peer
		next(4)
		conns[3].EndTurns()
		conns[3].EndTurns() // once more does nothing
		conns[4].EndTurns()
		if n := len(turns.slots); n != 0 {
			t.Errorf("%d turns are taken in the end", n)
		}
		close(more)
	})
}
