package node

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/pinfold-zk/pinfold/internal/server"
	"github.com/pinfold-zk/pinfold/internal/tlsport"
)

// openStores reads the stores of TLS.
func (n *Node) openStores() (err error) {
	if c := &n.o.Config.Client; c.Secure || c.Unified {
		p, err := tlsport.Open(n.o.Config.TLS, n.log)
		if err != nil {
			return fmt.Errorf("server: TLS of the client port: %w", err)
		}
		n.tls = &server.Encryption{Config: p.Config()}
	}
	if q := &n.o.Config.Quorum; q.Distributed() && q.TLS.Ports() {
		if n.peerTLS, err = tlsport.Open(n.o.Config.QuorumTLS, n.log); err != nil {
			return fmt.Errorf("server: TLS between servers: %w", err)
		}
	}
	return nil
}

// openPorts opens the ports of clients.
func (n *Node) openPorts() (err error) {
	c := &n.o.Config.Client
	if n.listener == nil && !c.OnlySecure {
		if n.listener, err = server.Listen(context.Background(), c.Addr()); err != nil {
			return fmt.Errorf("server: client port: %w", err)
		}
		if q := &n.o.Config.Quorum; q.ReconfigEnabled && q.Distributed() {
			n.listener = &movable{address: c.Addr(), l: n.listener}
		}
	}
	if c.Secure {
		if n.secure, err = server.Listen(context.Background(), c.SecureAddr()); err != nil {
			return fmt.Errorf("server: client port with TLS: %w", err)
		}
	}
	return nil
}

// SecureAddr returns the address of the port with TLS only, nil if there is none.
func (n *Node) SecureAddr() net.Addr {
	if n.secure == nil {
		return nil
	}
	return n.secure.Addr()
}

// ports are the ports of clients that are open.
func (n *Node) ports() (list []net.Listener) {
	if n.listener != nil {
		list = append(list, n.listener)
	}
	if n.secure != nil {
		list = append(list, n.secure)
	}
	return list
}

// serve accepts clients at all ports. The channel receives one result: the first failure,
// or nil when all ports are closed.
func (n *Node) serve() <-chan error {
	each := make(chan error, 2)
	start := func(l net.Listener, e *server.Encryption) {
		go func() { each <- n.server.Serve(l, e) }()
	}
	if n.listener != nil {
		var e *server.Encryption
		if n.o.Config.Client.Unified {
			e = &server.Encryption{Config: n.tls.Config, Optional: true}
		}
		start(n.listener, e)
	}
	if n.secure != nil {
		n.log.Info("clients with TLS", "address", n.secure.Addr().String())
		start(n.secure, n.tls)
	}
	served := make(chan error, 1)
	go func() {
		var errs []error
		for range n.ports() {
			err := <-each
			if errs = append(errs, err); err != nil {
				break // Close ends the other port
			}
		}
		served <- errors.Join(errs...)
	}()
	return served
}
