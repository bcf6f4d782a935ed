package transport

import (
	"net"
	"runtime"
	"sync/atomic"
	"testing"
)

// counting is a port that says when it is asked for the next connection.
type counting struct {
	net.Listener
	next func()
}

func (c *counting) Accept() (net.Conn, error) {
	c.next()
	return c.Listener.Accept()
}

// A flood of connections makes goroutines no faster than they end: when the next connection is
// accepted, the one that has made way for the last is gone.
func TestFloodEndsAsItComes(t *testing.T) {
	const flood, spare = 40 * maxSilent, 30
	var links, goroutines atomic.Int64 // the most that there were
	most := func(of *atomic.Int64, n int) {
		for old := of.Load(); old < int64(n) && !of.CompareAndSwap(old, int64(n)); old = of.Load() {
		}
	}
	var one atomic.Pointer[Transport]
	nodes := startTCP(t, []int64{1, 2}, func(o *Options) {
		listen := o.Listen
		o.Listen = func(address string) (net.Listener, error) {
			l, err := listen(address)
			return &counting{l, func() {
				if t := one.Load(); t != nil {
					t.mu.RLock()
					most(&links, len(t.mu.links))
					t.mu.RUnlock()
					most(&goroutines, runtime.NumGoroutine())
				}
			}}, err
		}
	})
	quorum, election := nodes[1].Addrs()
	before := runtime.NumGoroutine()
	one.Store(nodes[1].Transport)
	var conns []net.Conn
	for i := range flood {
		nc, err := net.Dial("tcp", []net.Addr{quorum[0], election[0]}[i%2].String())
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, nc)
	}
	for _, nc := range conns {
		nc.Close()
	}
	nodes[1].logged.awaitRefusals(t, 20)
	if n := links.Load(); n > maxSilent+1 { // the election port may ask while one makes way
		t.Errorf("%d links, the limit is %d", n, maxSilent)
	}
	if n := int(goroutines.Load()) - before; n > maxSilent+maxGreetings+spare {
		t.Errorf("%d goroutines, the limits are %d and %d", n, maxSilent, maxGreetings)
	}
}
