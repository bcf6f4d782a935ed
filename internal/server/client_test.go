package server

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/frames"
	"github.com/pinfold-zk/pinfold/zk"
)

// wireClient speaks the protocol over a connection, frame by frame. It is used by
// one goroutine at a time.
type wireClient struct {
	t  testing.TB
	nc net.Conn
	in *frames.Conn // reads nc

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
	return &wireClient{t: t, nc: nc, in: frames.New(nc)}
}

// frame puts the length in front.
func frame(b []byte) []byte { return frames.Append(nil, b) }

func (c *wireClient) write(b []byte) error {
	_, err := c.nc.Write(b)
	return err
}

// readFrame returns the next frame without its length.
func (c *wireClient) readFrame() ([]byte, error) { return c.in.Next() }

// connect asks for a session.
func (c *wireClient) connect(req wire.ConnectRequest) (err error) {
	c.resp, err = c.in.Connect(req)
	return err
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
	return frames.AppendRequest(b, xid, op, body)
}

// send sends a request and returns its xid.
func (c *wireClient) send(op wire.OpCode, body []byte) (int32, error) {
	c.xid++
	return c.xid, c.write(encode(nil, c.xid, op, body))
}

// next returns the next frame; an event is noted as well, and has xid -1.
func (c *wireClient) next() (reply, error) {
	r, err := c.in.Reply()
	if err == nil && r.Xid == wire.XidNotification {
		e := wireEvent{zxid: r.Zxid}
		d := jute.NewDecoder(r.Body)
		e.Decode(&d)
		c.events = append(c.events, e)
		err = d.Err()
	}
	return reply{r.ReplyHeader, r.Body}, err
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
	return frames.Create(path, data, mode)
}

func setBody(path string, data []byte) []byte { return frames.Set(path, data) }

func readBody(path string, watch bool) []byte { return frames.Path(path, watch) }

func deleteBody(path string) []byte { return frames.Delete(path) }

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
