package server

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// wireClient speaks the protocol over a connection, frame by frame. It is used by
// one goroutine at a time.
type wireClient struct {
	t  testing.TB
	nc net.Conn
	in *bufio.Reader

	xid    int32
	resp   wire.ConnectResponse
	events []wireEvent // that have come, oldest first
}

type wireEvent struct {
	zxid zk.Zxid
	wire.WatcherEvent
}

// reply is a frame that is no event.
type reply struct {
	wire.ReplyHeader
	body []byte
}

func newWireClient(t testing.TB, nc net.Conn) *wireClient {
	return &wireClient{t: t, nc: nc, in: bufio.NewReader(nc)}
}

// frame puts the length in front.
func frame(b []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
}

func (c *wireClient) write(b []byte) error {
	_, err := c.nc.Write(b)
	return err
}

// readFrame returns the next frame without its length.
func (c *wireClient) readFrame() ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(c.in, head[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(head[:]))
	_, err := io.ReadFull(c.in, b)
	return b, err
}

// connect asks for a session.
func (c *wireClient) connect(req wire.ConnectRequest) error {
	if req.Password == nil {
		req.Password = make([]byte, wire.PasswordLen)
	}
	if err := c.write(frame(req.Append(nil))); err != nil {
		return err
	}
	b, err := c.readFrame()
	if err != nil {
		return err
	}
	d := jute.NewDecoder(b)
	c.resp = wire.ConnectResponse{}
	c.resp.Decode(&d)
	return d.Err()
}

func (c *wireClient) mustConnect(timeout time.Duration) {
	c.t.Helper()
	err := c.connect(wire.ConnectRequest{TimeoutMillis: int32(timeout.Milliseconds()), HasReadOnly: true})
	if err != nil || c.resp.SessionID == 0 {
		c.t.Fatalf("connect: %+v, %v", c.resp, err)
	}
}

// resume asks for the session of another connection.
func (c *wireClient) resume(old *wireClient) error {
	return c.connect(wire.ConnectRequest{
		TimeoutMillis: old.resp.TimeoutMillis, SessionID: old.resp.SessionID, Password: old.resp.Password, HasReadOnly: true,
	})
}

// encode appends a request's frame to b.
func encode(b []byte, xid int32, op wire.OpCode, body []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(8+len(body)))
	return append(wire.RequestHeader{Xid: xid, Op: op}.Append(b), body...)
}

// send sends a request and returns its xid.
func (c *wireClient) send(op wire.OpCode, body []byte) (int32, error) {
	c.xid++
	return c.xid, c.write(encode(nil, c.xid, op, body))
}

// next returns the next frame; an event is noted as well, and has xid -1.
func (c *wireClient) next() (reply, error) {
	b, err := c.readFrame()
	if err != nil {
		return reply{}, err
	}
	d := jute.NewDecoder(b)
	var r reply
	r.Decode(&d)
	r.body = d.Rest()
	if d.Err() != nil {
		return r, fmt.Errorf("reply of %d bytes: %w", len(b), d.Err())
	}
	if r.Xid == wire.XidNotification {
		e := wireEvent{zxid: r.Zxid}
		e.Decode(&d)
		c.events = append(c.events, e)
		return r, d.Err()
	}
	return r, nil
}

// nextReply returns the next frame that is no event.
func (c *wireClient) nextReply() (reply, error) {
	for {
		r, err := c.next()
		if err != nil || r.Xid != wire.XidNotification {
			return r, err
		}
	}
}

// do sends a request and waits for its reply.
func (c *wireClient) do(op wire.OpCode, body []byte) (reply, error) {
	xid, err := c.send(op, body)
	if err != nil {
		return reply{}, err
	}
	r, err := c.nextReply()
	if err == nil && r.Xid != xid && op != wire.OpPing {
		err = fmt.Errorf("reply has xid %d, want %d", r.Xid, xid)
	}
	return r, err
}

// call is do that must work; the reply may carry an error code.
func (c *wireClient) call(op wire.OpCode, body []byte) reply {
	c.t.Helper()
	r, err := c.do(op, body)
	if err != nil {
		c.t.Fatalf("%v: %v", op, err)
	}
	return r
}

// mustCall is call whose code must be OK.
func (c *wireClient) mustCall(op wire.OpCode, body []byte) reply {
	c.t.Helper()
	r := c.call(op, body)
	if r.Err != zk.OK {
		c.t.Fatalf("%v: %v", op, r.Err)
	}
	return r
}

func createBody(path string, data []byte, mode zk.CreateMode) []byte {
	r := wire.CreateRequest{Path: path, Data: data, ACL: zk.OpenACLUnsafe(), Flags: mode}
	return r.Append(nil, wire.OpCreate)
}

func setBody(path string, data []byte) []byte {
	r := wire.SetDataRequest{Path: path, Data: data, Version: -1}
	return r.Append(nil)
}

func readBody(path string, watch bool) []byte {
	r := wire.PathWatch{Path: path, Watch: watch}
	return r.Append(nil)
}

func deleteBody(path string) []byte {
	r := wire.PathVersion{Path: path, Version: -1}
	return r.Append(nil)
}

func addWatchBody(path string, mode zk.AddWatchMode) []byte {
	r := wire.PathInt{Path: path, Value: int32(mode)}
	return r.Append(nil)
}

func (c *wireClient) create(path, data string, mode zk.CreateMode) reply {
	c.t.Helper()
	return c.mustCall(wire.OpCreate, createBody(path, []byte(data), mode))
}

// get returns the data of a znode and the reply's zxid, or "" and the code.
func (c *wireClient) get(path string) (string, reply) {
	c.t.Helper()
	r := c.call(wire.OpGetData, readBody(path, false))
	d := jute.NewDecoder(r.body)
	return string(d.Buffer()), r
}

// has reports whether a znode exists.
func (c *wireClient) has(path string) bool {
	c.t.Helper()
	return c.call(wire.OpExists, readBody(path, false)).Err == zk.OK
}

// ended reports whether the server has closed the connection; it reads what is
// there before.
func (c *wireClient) ended() error {
	for {
		if _, err := c.next(); err != nil {
			return err
		}
	}
}
