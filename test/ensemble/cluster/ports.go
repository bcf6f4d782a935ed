package cluster

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// The ports that ensembles take. They end below those that Linux gives to
// outgoing connections, so that a client cannot sit on a stopped member's port.
const (
	firstPort = 32000
	lastPort  = 32767
)

// A portPool hands out ports of the loopback interface that nobody has, each
// once. Two programs that take ports at the same time may still get the same;
// then the second to listen fails and says so.
type portPool struct {
	next int // counts up from a start that differs between programs
	left int
}

func newPortPool() *portPool {
	n := lastPort - firstPort + 1
	return &portPool{next: rand.IntN(n), left: n}
}

// take returns a free port. The error says that there is none left.
func (p *portPool) take() (int, error) {
	for p.left > 0 {
		port := firstPort + p.next%(lastPort-firstPort+1)
		p.next++
		p.left--
		if l, err := net.Listen("tcp", loopback(port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("cluster: no free port from %d to %d", firstPort, lastPort)
}

// loopback is the address of a port of this machine's own.
func loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
