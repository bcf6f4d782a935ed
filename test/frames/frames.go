// Package frames speaks ZooKeeper's client protocol frame by frame, for tests that
// need to see or to send what a client hides: bytes, replies in order, events between
// them, handshakes of their own. Nothing is retried.
package frames

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// Limit bounds the frames that Next accepts, in bytes. No answer of a test is near it.
const Limit = 64 << 20

// ErrLength is the error of Next for a frame whose length is impossible.
type ErrLength int32

// Error tells the length.
func (e ErrLength) Error() string { return fmt.Sprintf("a frame of %d bytes", int32(e)) }

// A Conn is a client's end of a connection. It is used by one goroutine at a time.
type Conn struct {
	net.Conn
	in *bufio.Reader
}

// New speaks over a connection on which nothing was read.
func New(nc net.Conn) *Conn { return &Conn{Conn: nc, in: bufio.NewReader(nc)} }

// Append appends a body with its length in front.
func Append(b, body []byte) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(body))), body...)
}

// AppendRequest appends the frame of a request.
func AppendRequest(b []byte, xid int32, op wire.OpCode, body []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(8+len(body)))
	return append(wire.RequestHeader{Xid: xid, Op: op}.Append(b), body...)
}

// Send writes a body as a frame.
func (c *Conn) Send(body []byte) error {
	_, err := c.Write(Append(nil, body))
	return err
}

// Next reads a frame and returns its body, which the caller owns.
func (c *Conn) Next() ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(c.in, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > Limit {
		return nil, ErrLength(int32(n))
	}
	b := make([]byte, n)
	_, err := io.ReadFull(c.in, b)
	return b, err
}

// Read reads what comes, which need not be frames (io.Reader).
func (c *Conn) Read(p []byte) (int, error) { return c.in.Read(p) }

// Buffered is how many bytes have been taken from the connection and not been read.
func (c *Conn) Buffered() int { return c.in.Buffered() }

// Connect asks for a session and returns the answer, which may be a refusal: then
// its SessionID is 0. A missing password is one of zeros.
func (c *Conn) Connect(ask wire.ConnectRequest) (answer wire.ConnectResponse, err error) {
	if ask.Password == nil {
		ask.Password = make([]byte, wire.PasswordLen)
	}
	if err := c.Send(ask.Append(nil)); err != nil {
		return answer, err
	}
	b, err := c.Next()
	if err != nil {
		return answer, err
	}
	d := jute.NewDecoder(b)
	answer.Decode(&d)
	return answer, d.Err()
}

// A Reply is a frame after the handshake: an answer, or an event.
type Reply struct {
	wire.ReplyHeader
	Body []byte
}

// Reply reads the next one.
func (c *Conn) Reply() (r Reply, err error) {
	b, err := c.Next()
	if err != nil {
		return r, err
	}
	d := jute.NewDecoder(b)
	r.Decode(&d)
	r.Body = d.Rest()
	if d.Err() != nil {
		err = fmt.Errorf("a reply of %d bytes: %w", len(b), d.Err())
	}
	return r, err
}

// Call sends a request and returns its answer, which must be the next frame.
func (c *Conn) Call(xid int32, op wire.OpCode, body []byte) (Reply, error) {
	if _, err := c.Write(AppendRequest(nil, xid, op, body)); err != nil {
		return Reply{}, err
	}
	r, err := c.Reply()
	if err == nil && r.Xid != xid {
		err = fmt.Errorf("%v: the reply has xid %d, want %d", op, r.Xid, xid)
	}
	return r, err
}

// Create is the body of a create that any client may change.
func Create(path string, data []byte, mode zk.CreateMode) []byte {
	r := wire.CreateRequest{Path: path, Data: data, ACL: zk.OpenACLUnsafe(), Flags: mode}
	return r.Append(nil, wire.OpCreate)
}

// Set is the body of a setData of any version.
func Set(path string, data []byte) []byte {
	r := wire.SetDataRequest{Path: path, Data: data, Version: -1}
	return r.Append(nil)
}

// Path is the body of a getData, an exists or a getChildren.
func Path(path string, watch bool) []byte {
	r := wire.PathWatch{Path: path, Watch: watch}
	return r.Append(nil)
}

// Delete is the body of a delete of any version.
func Delete(path string) []byte {
	r := wire.PathVersion{Path: path, Version: -1}
	return r.Append(nil)
}

// A Splitter cuts a stream, which comes in pieces, into frames.
type Splitter struct{ buf []byte }

// Add appends a piece.
func (s *Splitter) Add(b []byte) { s.buf = append(s.buf, b...) }

// Next returns the body of the next frame; ok is false while it is not whole.
func (s *Splitter) Next() (body []byte, ok bool) {
	if len(s.buf) < 4 {
		return nil, false
	}
	n := 4 + int(binary.BigEndian.Uint32(s.buf))
	if len(s.buf) < n {
		return nil, false
	}
	body, s.buf = s.buf[4:n:n], s.buf[n:]
	return body, true
}
