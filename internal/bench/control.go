package bench

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/pinfold-zk/pinfold/internal/fourletter"
	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// callTimeout bounds a handshake and one call of a control connection.
const callTimeout = 30 * time.Second

// ErrRefused is a handshake that the server answered with no session.
var ErrRefused = errors.New("server refused the session")

// dialSession connects to a server and opens the session that is asked for; it
// returns what the server grants. An error is of the network, or wraps
// ErrRefused or ErrProtocol.
func dialSession(ctx context.Context, e *Encryption, addr string, local *net.TCPAddr, request wire.ConnectRequest) (
	*link, wire.ConnectResponse, error) {
	var response wire.ConnectResponse
	c, err := dialLink(ctx, e, addr, local)
	if err != nil {
		return nil, response, fmt.Errorf("bench: connect to %s: %w", addr, err)
	}
	giveUp := context.AfterFunc(ctx, func() { c.Close() })
	response, err = handshake(c, request)
	if !giveUp() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		c.Close()
		return nil, response, fmt.Errorf("bench: handshake with %s: %w", addr, err)
	}
	return c, response, nil
}

// newSessionRequest asks for a session that there is not yet.
func newSessionRequest(timeout time.Duration) wire.ConnectRequest {
	return wire.ConnectRequest{
		TimeoutMillis: int32(timeout.Milliseconds()),
		Password:      make([]byte, wire.PasswordLen),
		HasReadOnly:   true,
	}
}

// handshake opens a session on a fresh connection.
func handshake(c net.Conn, request wire.ConnectRequest) (r wire.ConnectResponse, err error) {
	if err := c.SetDeadline(time.Now().Add(callTimeout)); err != nil {
		return r, err
	}
	b := request.Append(make([]byte, 4))
	jute.PutInt(b, int32(len(b)-4))
	if _, err := c.Write(b); err != nil {
		return r, err
	}
	b, err = readFrameFrom(c, nil)
	if err != nil {
		return r, err
	}
	d := jute.NewDecoder(b)
	r.Decode(&d)
	if err := d.Err(); err != nil {
		return r, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	if r.TimeoutMillis <= 0 || r.SessionID == 0 {
		return r, ErrRefused
	}
	return r, c.SetDeadline(time.Time{})
}

// readFrameFrom reads one frame's content, into b if that is large enough.
func readFrameFrom(r io.Reader, b []byte) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxReply {
		return nil, fmt.Errorf("%w: frame of %d bytes", ErrProtocol, int32(n))
	}
	if uint32(cap(b)) < n {
		b = make([]byte, n)
	}
	_, err := io.ReadFull(r, b[:n])
	return b[:n], err
}

// A control is a session for what surrounds a measurement: one call after the
// other, each waited for. It does not ping.
type control struct {
	conn net.Conn
	r    *bufio.Reader
	xid  int32
	buf  []byte
}

func dialControl(ctx context.Context, e *Encryption, addr string) (*control, error) {
	conn, _, err := dialSession(ctx, e, addr, nil, newSessionRequest(30*time.Second))
	if err != nil {
		return nil, err
	}
	return &control{conn: conn, r: bufio.NewReader(conn)}, nil
}

// call sends a frame and waits for its reply. An error reply is returned as its
// zk.Code.
func (c *control) call(f frame) error {
	if err := c.conn.SetDeadline(time.Now().Add(callTimeout)); err != nil {
		return err
	}
	c.xid++
	jute.PutInt(f.b[frameXid:], c.xid)
	if _, err := c.conn.Write(f.b); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	b, err := readFrameFrom(c.r, c.buf)
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	c.buf = b
	d := jute.NewDecoder(b)
	var head wire.ReplyHeader
	head.Decode(&d)
	switch {
	case d.Err() != nil || head.Xid != c.xid:
		return fmt.Errorf("bench: %w: reply with xid %d, request had %d",
			ErrProtocol, head.Xid, c.xid)
	case head.Err != zk.OK:
		return head.Err
	}
	return nil
}

// create makes a znode; that it exists already is no error.
func (c *control) create(p string, data []byte) error {
	err := c.call(createFrame(path{prefix: p}, data))
	if err != nil && !errors.Is(err, zk.ErrNodeExists) {
		return fmt.Errorf("bench: create %s: %w", p, err)
	}
	return nil
}

// remove deletes a znode; that there is none is no error.
func (c *control) remove(p string) error {
	err := c.call(deleteFrame(path{prefix: p}))
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return fmt.Errorf("bench: delete %s: %w", p, err)
	}
	return nil
}

// close ends the session. The measurement is over by then, so errors do not matter.
func (c *control) close() {
	_ = c.call(bareFrame(wire.OpCloseSession, 0))
	c.conn.Close()
}

// status is what the server says of itself.
func status(ctx context.Context, e *Encryption, addr string) (fourletter.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	text, err := askServer(ctx, e, addr, "srvr")
	if err != nil {
		return fourletter.Status{}, err
	}
	return fourletter.Parse(text)
}

// leads reports whether the server says that it leads.
func leads(ctx context.Context, e *Encryption, addr string) bool {
	s, err := status(ctx, e, addr)
	return err == nil && s.Mode == "leader"
}

// serverVersion returns what the server says it is, "" if it does not.
func serverVersion(ctx context.Context, e *Encryption, addr string) string {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	text, err := askServer(ctx, e, addr, "srvr")
	if err != nil {
		return ""
	}
	version, _ := field(text, "Zookeeper version:")
	return version
}
