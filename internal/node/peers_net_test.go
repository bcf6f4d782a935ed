package node

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"github.com/pinfold-zk/pinfold/test/memconn"
)

// peersNet is a network in memory: the ports of servers and of a stranger.
type peersNet struct {
	mu        sync.Mutex
	listeners map[string]*peersListener
	dials     uint16
}

// peersListener is an open port.
type peersListener struct {
	n       *peersNet
	address string
	conns   chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

func newPeersNet() *peersNet { return &peersNet{listeners: map[string]*peersListener{}} }

func (n *peersNet) listen(address string) (net.Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners[address] != nil {
		return nil, fmt.Errorf("%s is in use", address)
	}
	l := &peersListener{n: n, address: address, conns: make(chan net.Conn), closed: make(chan struct{})}
	n.listeners[address] = l
	return l, nil
}

func (n *peersNet) dial(ctx context.Context, address string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listeners[address]
	n.dials++
	from := netip.AddrPortFrom(netip.MustParseAddr("10.9.9.9"), n.dials)
	n.mu.Unlock()
	if l == nil {
		return nil, fmt.Errorf("connect %s: connection refused", address)
	}
	near, far := memconn.New(64<<10, from)
	select {
	case l.conns <- far:
		return near, nil
	case <-l.closed:
		return nil, fmt.Errorf("connect %s: connection refused", address)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept returns the next connection (net.Listener).
func (l *peersListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept.
func (l *peersListener) Close() error {
	l.once.Do(func() {
		close(l.closed)
		l.n.mu.Lock()
		defer l.n.mu.Unlock()
		delete(l.n.listeners, l.address)
	})
	return nil
}

// Addr is the address that was opened.
func (l *peersListener) Addr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(l.address))
}
