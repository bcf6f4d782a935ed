package crash

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// client is a session that lives on over connections, spoken frame by frame.
type client struct {
	nc   net.Conn
	in   *bufio.Reader
	resp wire.ConnectResponse
	seen zk.Zxid // the latest that a reply has carried
}

const sessionTimeout = 40 * time.Second

// connect opens a connection for the session, a new one at first. The server must
// have seen everything that this client has.
func (c *client) connect(addr string) error {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	c.nc, c.in = nc, bufio.NewReader(nc)
	req := wire.ConnectRequest{
		LastZxidSeen: c.seen, TimeoutMillis: int32(sessionTimeout.Milliseconds()),
		SessionID: c.resp.SessionID, Password: c.resp.Password, HasReadOnly: true,
	}
	if req.Password == nil {
		req.Password = make([]byte, wire.PasswordLen)
	}
	b := req.Append(make([]byte, 4))
	jute.PutInt(b, int32(len(b)-4))
	if _, err := nc.Write(b); err != nil {
		return err
	}
	if b, err = c.frame(); err != nil {
		return err
	}
	d := jute.NewDecoder(b)
	c.resp = wire.ConnectResponse{}
	c.resp.Decode(&d)
	if req.SessionID != 0 && c.resp.SessionID != req.SessionID {
		return fmt.Errorf("session %v is lost", req.SessionID)
	}
	return d.Err()
}

func (c *client) frame() ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(c.in, head[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(head[:]))
	_, err := io.ReadFull(c.in, b)
	return b, err
}

// reply reads the reply to the request xid.
func (c *client) reply(xid int32) (zk.Code, []byte, error) {
	b, err := c.frame()
	if err != nil {
		return 0, nil, err
	}
	d := jute.NewDecoder(b)
	var h wire.ReplyHeader
	h.Decode(&d)
	if d.Err() != nil || h.Xid != xid {
		return 0, nil, fmt.Errorf("reply to %d, want %d: %v", h.Xid, xid, d.Err())
	}
	c.seen = max(c.seen, h.Zxid)
	return h.Err, d.Rest(), nil
}

func appendRequest(b []byte, xid int32, op wire.OpCode, body []byte) []byte {
	b = jute.AppendInt(b, int32(8+len(body)))
	return append(wire.RequestHeader{Xid: xid, Op: op}.Append(b), body...)
}

// call sends one request and waits for its reply.
func (c *client) call(op wire.OpCode, body []byte) (zk.Code, []byte, error) {
	if _, err := c.nc.Write(appendRequest(nil, 0, op, body)); err != nil {
		return 0, nil, err
	}
	return c.reply(0)
}

// state reads the children of a znode and their data.
func (c *client) state(path string) (map[string]string, error) {
	list := wire.PathWatch{Path: path}
	code, body, err := c.call(wire.OpGetChildren, list.Append(nil))
	if err != nil || code != zk.OK {
		return nil, fmt.Errorf("list %s: %w", path, firstOf(err, code))
	}
	d := jute.NewDecoder(body)
	m := map[string]string{}
	for _, name := range d.Strings() {
		read := wire.PathWatch{Path: path + "/" + name}
		code, body, err := c.call(wire.OpGetData, read.Append(nil))
		if err != nil || code != zk.OK {
			return nil, fmt.Errorf("read %s: %w", read.Path, firstOf(err, code))
		}
		d := jute.NewDecoder(body)
		m[name] = string(d.Buffer())
	}
	return m, d.Err()
}

func firstOf(err error, code zk.Code) error {
	if err != nil {
		return err
	}
	return code
}
