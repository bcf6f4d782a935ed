package bench

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
)

// A link is a connection to a server: TCP, or TLS on it.
type link struct {
	net.Conn // what is read and written: the TLS connection, or tcp
	tcp      *net.TCPConn
	records  *records // nil: no TLS
}

// dialLink connects to a server, and completes the handshake of TLS if e is not nil. Both
// end with ctx, and after callTimeout.
func dialLink(ctx context.Context, e *Encryption, addr string, local *net.TCPAddr) (*link, error) {
	d := net.Dialer{Timeout: callTimeout}
	if local != nil {
		d.LocalAddr = local
	}
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	l := &link{Conn: conn, tcp: conn.(*net.TCPConn)}
	if e == nil {
		return l, nil
	}
	l.records = newRecords(l.tcp, e.configFor(addr))
	l.Conn = l.records.layer
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := l.records.layer.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return l, nil
}

// Close closes the connection at once (net.Conn): a server's answers are all read by then.
func (l *link) Close() error { return l.tcp.Close() }

// take takes the socket out of the link for a loop. The link can only be dropped then.
func (l *link) take() (socket, error) {
	fd, err := takeSocket(l.tcp)
	if err == nil && l.records != nil {
		l.records.fd = fd
	}
	return socket{fd, l.records}, err
}

// A socket is a connection that a loop drives.
type socket struct {
	fd      int      // -1: none
	records *records // nil: no TLS
}

// records is TLS between a session and its socket. Until take the layer reads and writes by
// the TCP connection, which blocks; afterwards by the loop's calls, which do not.
type records struct {
	net.Conn // TCP
	layer    *tls.Conn
	fd       int    // -1 until take
	input    []byte // read from the socket and not yet by the layer; the loop's memory
	backlog  []byte // written by the layer and not yet to the socket
}

// maxRecord is more than a record of TLS has: of so much the layer may hold the front.
const maxRecord = 17 << 10

func newRecords(tcp *net.TCPConn, config *tls.Config) *records {
	r := &records{Conn: tcp, fd: -1}
	r.layer = tls.Client(r, config)
	return r
}

// errNoInput is a temporary net.Error: crypto/tls goes on after it.
var errNoInput net.Error = noInput{}

type noInput struct{}

func (noInput) Error() string   { return "bench: no input yet" }
func (noInput) Timeout() bool   { return true }
func (noInput) Temporary() bool { return true }

// Read is for the layer (io.Reader).
func (r *records) Read(p []byte) (int, error) {
	if r.fd < 0 {
		return r.Conn.Read(p)
	}
	if len(r.input) == 0 {
		return 0, errNoInput
	}
	n := copy(p, r.input)
	r.input = r.input[n:]
	return n, nil
}

// Write is for the layer (io.Writer).
func (r *records) Write(p []byte) (int, error) {
	if r.fd < 0 {
		return r.Conn.Write(p)
	}
	r.backlog = append(r.backlog, p...)
	return len(p), nil
}

// read reads from the socket once, into room, and decrypts that into b. again means that
// nothing has been decrypted; n is 0 without error at the end of the stream. REQUIRES: b is
// longer than room by maxRecord.
func (r *records) read(room, b []byte) (n int, again bool, err error) {
	k, again, err := readSocket(r.fd, room)
	if again || err != nil || k == 0 {
		return 0, again, err
	}
	for r.input = room[:k]; err == nil; {
		var m int
		m, err = r.layer.Read(b[n:])
		n += m
	}
	r.input = nil
	switch {
	case err == errNoInput:
		return n, n == 0, nil
	case n > 0 || errors.Is(err, io.EOF):
		return n, false, nil // after the last bytes comes the end of the socket's stream
	}
	return 0, false, err
}

// write encrypts b and writes what the socket takes. What it does not take is left, and
// written first by the next call.
func (r *records) write(b []byte) (left int, err error) {
	if len(b) > 0 {
		if _, err := r.layer.Write(b); err != nil {
			return 0, err
		}
	}
	n, err := writeSocket(r.fd, r.backlog)
	r.backlog = r.backlog[:copy(r.backlog, r.backlog[n:])]
	return len(r.backlog), err
}
