package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/pinfold-zk/pinfold/internal/socket"
	"github.com/pinfold-zk/pinfold/internal/tlsport"
)

// Encryption is TLS on the connections with the other servers.
type Encryption struct {
	Port  *tlsport.Port
	Dial  bool // connections that this server makes have TLS
	Plain bool // other servers may connect without TLS: the first byte decides

	Timeout time.Duration // for the first byte and the handshake on an accepted connection; 5 s

	// Hosts makes a certificate on a connection that this server makes valid only if
	// it names the host or the address of the server line.
	Hosts bool
	// ClientHosts is the same on an accepted connection: the certificate must name the
	// address from which the other server connects, or a host of a server line that
	// has this address.
	ClientHosts bool
	// Members makes a certificate valid only if it names a host of the server line of
	// the id that the other side claims.
	Members bool
}

// Errors of connections with TLS.
var (
	ErrTLS      = errors.New("transport: TLS")
	ErrIdentity = errors.New("transport: the certificate is not that of the server")
)

// tlsHandshake is the first byte of a connection with TLS. No message of another server
// begins with it.
const tlsHandshake = 0x16

// secureConn is a connection with TLS whose Close does not wait for the other side.
type secureConn struct{ *tls.Conn }

// Close closes the connection at once (net.Conn).
func (c secureConn) Close() error { return c.NetConn().Close() }

// finish ends the writing side, and waits at most until the deadline for the end of the
// other. The error is what the other side has said against the handshake: with TLS 1.3 it
// does so after this side has completed it.
func (c secureConn) finish(deadline time.Time) error {
	_ = c.SetDeadline(deadline) // fails only if closed; then reading fails too
	if err := c.CloseWrite(); err != nil {
		return nil // it is gone, and what was written may have arrived
	}
	var said *net.OpError
	if _, err := io.Copy(io.Discard, c.Conn); errors.As(err, &said) && said.Op == "remote error" {
		return fmt.Errorf("%w: %w", ErrTLS, err)
	}
	return nil
}

// shakeHands completes a handshake on nc before the deadline, unless ctx ends before.
func shakeHands(ctx context.Context, nc net.Conn, handshake func() error, deadline time.Time) error {
	defer context.AfterFunc(ctx, func() { nc.Close() })() // an error changes nothing: the handshake fails
	_ = nc.SetDeadline(deadline)                          // fails only if closed; then the handshake fails too
	if err := handshake(); err != nil {
		nc.Close() // an error changes nothing: the connection is given up
		return fmt.Errorf("%w: handshake: %w", ErrTLS, explain(err))
	}
	_ = nc.SetDeadline(time.Time{})
	return nil
}

// explain returns why a handshake has failed (tlsport.Explain), and leaves ErrIdentity in it.
func explain(err error) error {
	if errors.Is(err, ErrIdentity) {
		return err
	}
	return tlsport.Explain(err)
}

// secureDialled puts TLS on a connection to a server, if that is configured. If there is an
// error, the connection is closed.
func (t *Transport) secureDialled(ctx context.Context, nc net.Conn, id int64, targets []target) (net.Conn, error) {
	if e := t.o.Encryption; e == nil || !e.Dial {
		return nc, nil
	}
	c := tls.Client(nc, t.dialConfig(nc, id, targets))
	err := shakeHands(ctx, nc, c.Handshake, time.Now().Add(t.o.ConnectTimeout))
	return secureConn{c}, t.noteHandshake(id, nc, err)
}

// secureLeader is secureDialled for a learner link.
func (t *Transport) secureLeader(ctx context.Context, nc net.Conn, id int64, targets []target) (*socket.Conn, error) {
	if e := t.o.Encryption; e == nil || !e.Dial {
		return socket.New(nc, socket.Options{}), nil
	}
	config := t.dialConfig(nc, id, targets)
	sock := socket.New(nc, socket.Options{Layer: func(nc net.Conn) net.Conn { return tls.Client(nc, config) }})
	err := shakeHands(ctx, nc, sock.Handshake, time.Now().Add(t.o.ConnectTimeout))
	return sock, t.noteHandshake(id, nc, err)
}

// noteHandshake logs that a handshake with another server has failed, and returns err.
func (t *Transport) noteHandshake(id int64, nc net.Conn, err error) error {
	if err != nil && t.ctx.Err() == nil {
		t.refused.Warn("a TLS handshake with another server failed", "peer", id, "remote", remoteName(nc), "err", err)
	}
	return err
}

func (t *Transport) dialConfig(nc net.Conn, id int64, targets []target) *tls.Config {
	e := t.o.Encryption
	return e.Port.Dial(func(leaf *x509.Certificate) error {
		if e.Members {
			if err := t.checkMember(leaf, id); err != nil {
				return err
			}
		}
		named := func(a target) bool { return tlsport.Names(leaf, a.host) }
		if e.Hosts && !slices.ContainsFunc(targets, named) && !tlsport.Names(leaf, addressOf(nc)) {
			return fmt.Errorf("%w: %s is not for %v", ErrIdentity, tlsport.Describe(leaf), targets)
		}
		return nil
	})
}

// checkMember reports whether a certificate names a host of a server.
func (t *Transport) checkMember(leaf *x509.Certificate, id int64) error {
	var hosts []string
	for _, a := range t.addresses(id) {
		if hosts = append(hosts, a.Host); leaf != nil && tlsport.Names(leaf, a.Host) {
			return nil
		}
	}
	switch {
	case leaf == nil:
		return fmt.Errorf("%w: it has none, and says that it is server %d", ErrIdentity, id)
	case hosts == nil:
		return fmt.Errorf("%w: %s comes with the server id %d, which is not in the configuration", ErrIdentity, tlsport.Describe(leaf), id)
	}
	return fmt.Errorf("%w: %s comes with the server id %d, whose hosts are %q", ErrIdentity, tlsport.Describe(leaf), id, hosts)
}

// acceptConfig is for a connection that another server has made.
func (t *Transport) acceptConfig(nc net.Conn) *tls.Config {
	e := t.o.Encryption
	return e.Port.Accept(func(leaf *x509.Certificate) error {
		switch {
		case leaf == nil: // it needs none, or package crypto/tls has refused it
			return nil
		case e.Members && len(t.namedBy(leaf)) == 0:
			return fmt.Errorf("%w: %s names no host of a server of the configuration", ErrIdentity, tlsport.Describe(leaf))
		case e.ClientHosts && !tlsport.Names(leaf, addressOf(nc)) && !t.namesHostAt(leaf, addressOf(nc)):
			return fmt.Errorf("%w: %s is not for %s", ErrIdentity, tlsport.Describe(leaf), addressOf(nc))
		}
		return nil
	})
}

// namedBy returns the hosts of the server lines that a certificate names.
func (t *Transport) namedBy(leaf *x509.Certificate) (hosts []string) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, addresses := range t.mu.known {
		for _, a := range addresses {
			if !slices.Contains(hosts, a.Host) && tlsport.Names(leaf, a.Host) {
				hosts = append(hosts, a.Host)
			}
		}
	}
	return hosts
}

// namesHostAt reports whether a certificate names a host of a server line that has the
// address.
func (t *Transport) namesHostAt(leaf *x509.Certificate, address string) bool {
	ctx, cancel := context.WithTimeout(t.ctx, t.o.ConnectTimeout)
	defer cancel()
	return slices.ContainsFunc(t.namedBy(leaf), func(host string) bool {
		addresses, err := t.o.Resolve(ctx, host)
		return err == nil && slices.Contains(addresses, address)
	})
}

// addressOf returns the other side's IP address, without the port.
func addressOf(nc interface{ RemoteAddr() net.Addr }) string {
	host, _, err := net.SplitHostPort(remoteName(nc))
	if err != nil {
		return remoteName(nc)
	}
	return host
}

// accepted is what the first byte and the handshake of an accepted connection have shown.
type accepted struct {
	plain   bool              // there is no TLS
	leaf    *x509.Certificate // of the other side; nil if it has none
	refused bool              // this server has refused the handshake
}

// secureAccepted waits for the first byte of an accepted connection, and shakes hands; its
// computing waits for a turn, at most until gone is closed, as it is when the connection makes
// way for another. add puts TLS on the connection, around what inTurns returns, and returns the
// handshake. Without Options.Encryption it does nothing. The deadlines of nc are removed.
func (t *Transport) secureAccepted(nc net.Conn, sock *socket.Conn, gone <-chan struct{},
	add func(config *tls.Config, inTurns func(net.Conn) net.Conn) (*tls.Conn, func() error)) (a accepted, err error) {
	e := t.o.Encryption
	if a.plain = e == nil; a.plain {
		return a, nil
	}
	deadline := time.Now().Add(e.Timeout)
	_ = nc.SetReadDeadline(deadline) // fails only if closed; then reading fails too
	first, err := sock.PeekByte()
	switch {
	case errors.Is(err, errors.ErrUnsupported) && !e.Plain: // the handshake decides
	case err != nil:
		return a, fmt.Errorf("%w: first byte: %w", ErrTLS, err)
	case first != tlsHandshake && !e.Plain:
		return a, fmt.Errorf("%w: the other server does not use it, and portUnification is not set", ErrTLS)
	case first != tlsHandshake:
		_ = nc.SetReadDeadline(time.Time{})
		t.refused.Warn("another server has connected without TLS, which portUnification allows", "remote", remoteName(nc))
		return accepted{plain: true}, nil
	}
	var turns *tlsport.TurnConn
	layer, handshake := add(t.acceptConfig(nc), func(nc net.Conn) net.Conn {
		turns = t.handshakes.Conn(nc, gone)
		return turns
	})
	err = shakeHands(t.ctx, nc, func() error {
		defer turns.EndTurns()
		err := handshake()
		a.refused = err != nil && !isDisconnect(err)
		return err
	}, deadline)
	if err != nil {
		return a, err
	}
	a.leaf = leafOf(layer)
	return a, nil
}

func leafOf(layer *tls.Conn) *x509.Certificate {
	if chain := layer.ConnectionState().PeerCertificates; len(chain) > 0 {
		return chain[0]
	}
	return nil
}

// checkClaim reports whether the other side of an accepted connection may be the server
// that it says it is. Without TLS, where that is allowed, it may.
func (t *Transport) checkClaim(a accepted, id int64) error {
	if e := t.o.Encryption; e == nil || !e.Members || a.plain {
		return nil
	}
	return t.checkMember(a.leaf, id)
}
