package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/tlsport"
)

const (
	// maxHandshakes is how many TLS handshakes may be in progress; later connections
	// wait, without a buffer.
	maxHandshakes = 1000
	// crowdedHandshake is the time limit of a handshake when half of them are in
	// progress: clients that stop in the middle must not keep the others out.
	crowdedHandshake = 2 * time.Second
)

// Encryption is TLS on a port.
type Encryption struct {
	Config *tls.Config
	// Optional lets a connection whose first byte is not that of a TLS handshake go on
	// without TLS.
	Optional bool
}

// tlsHandshake is the first byte of a connection with TLS. No frame and no four-letter
// word begins with it.
const tlsHandshake = 0x16

// tlsMajor is the second byte: the protocol version of a record.
const tlsMajor = 3

// serveTLS is serve on a connection with TLS. The handshake is part of the time that a connection has
// until it has a session.
func (c *conn) serveTLS(e *Encryption) {
	deadline := time.Now().Add(c.s.cfg.Client.SessionlessTimeout)
	_ = c.sock.SetReadDeadline(deadline) // fails only if closed; then reading fails too
	first, err := c.sock.PeekByte()
	switch {
	case err != nil:
	case first == tlsHandshake:
		err = c.encrypt(e.Config, deadline)
	case !e.Optional:
		err = c.tlsFailed(errors.New("the client does not use TLS"))
	}
	if err != nil {
		c.noteEnd(err)
		c.noteEOF(err)
		c.end()
		return
	}
	c.serve()
}

// encrypt shakes hands, and adds the identity of the client's certificate. Handshakes compute in turns.
func (c *conn) encrypt(config *tls.Config, deadline time.Time) error {
	if c.s.cfg.Client.EarlyDrop && c.s.replica.Mode() == replica.Idle {
		c.s.stats.TLSDropped.Add(1)
		return errNoQuorum
	}
	if !c.s.handshakes.begin(c.remote.Addr(), c.s.cfg.Client.MaxHandshakes, deadline) {
		c.s.stats.TLSExceeded.Add(1)
		return fmt.Errorf("%w: too many TLS handshakes at a time", errEnd)
	}
	defer c.s.handshakes.end()
	if c.s.handshakes.running() > maxHandshakes/2 {
		deadline = time.Now().Add(min(crowdedHandshake, time.Until(deadline)))
	}
	_ = c.sock.SetReadDeadline(deadline)
	_ = c.sock.SetWriteDeadline(deadline) // they fail only if closed; then the handshake fails too
	var turns *tlsport.TurnConn
	var layer *tls.Conn
	c.sock.AddLayer(func(nc net.Conn) net.Conn {
		turns = c.s.shaking.Conn(nc, c.account.Closed())
		layer = tls.Server(turns, config)
		return layer
	})
	err := c.sock.Handshake()
	turns.EndTurns()
	if err != nil {
		return c.tlsFailed(err)
	}
	_ = c.sock.SetWriteDeadline(time.Time{})
	return c.identify(layer)
}

// tlsFailed counts and logs a handshake that has failed, and returns the reason for the end
// of the connection.
func (c *conn) tlsFailed(err error) error {
	c.s.stats.TLSFailed.Add(1)
	c.s.refused.Warn("a client's TLS handshake failed", "client", c.remote, "err", tlsport.Explain(err))
	return fmt.Errorf("%w: TLS: %w", errEnd, err)
}

// identify adds the identity of the client's certificate, if it has one.
func (c *conn) identify(layer *tls.Conn) error {
	chain := layer.ConnectionState().PeerCertificates
	if len(chain) == 0 {
		return nil
	}
	subject, err := tlsport.SubjectName(chain[0].RawSubject)
	if err != nil {
		return fmt.Errorf("%w: %w", errProtocol, err)
	}
	c.mu.Lock()
	c.mu.ids = c.s.auth.Certified(subject, c.mu.ids)
	c.mu.Unlock()
	return nil
}
