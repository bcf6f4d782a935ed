package cluster

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// The ports that ensembles take. They end below those that Linux gives to
// outgoing connections, so that a client cannot sit on a stopped member's port.
// They are handed out in blocks: who listens on the first port of a block has
// the rest of it, also while its servers are down, against other programs too.
const (
	firstPort = 32000
	lastPort  = 32767
	portBlock = 16
)

// A portPool hands out ports of the loopback interface, each once. The zero value
// is ready for use.
type portPool struct {
	claims    []net.Listener // on the first port of each block that is this pool's
	next, end int            // what is left of the newest block
}

// take returns a port that nobody has. The error says that there is none left.
func (p *portPool) take() (int, error) {
	for {
		if p.next == p.end {
			if err := p.claim(); err != nil {
				return 0, err
			}
		}
		port := p.next
		p.next++
		if l, err := net.Listen("tcp", loopback(port)); err == nil {
			return port, l.Close()
		}
	}
}

// claim takes another block.
func (p *portPool) claim() error {
	const blocks = (lastPort - firstPort + 1) / portBlock
	for _, block := range rand.Perm(blocks) {
		base := firstPort + block*portBlock
		if l, err := net.Listen("tcp", loopback(base)); err == nil {
			p.claims = append(p.claims, l)
			p.next, p.end = base+1, base+portBlock
			return nil
		}
	}
	return fmt.Errorf("cluster: no free block of ports from %d to %d", firstPort, lastPort)
}

// release gives the blocks back.
func (p *portPool) release() {
	for _, l := range p.claims {
		l.Close()
	}
	*p = portPool{}
}

// loopback is the address of a port of this machine's own.
func loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
