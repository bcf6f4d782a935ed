package crash

import (
	"fmt"
	"net"
	"time"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/frames"
	"github.com/pinfold-zk/pinfold/zk"
)

// client is a session that lives on over connections.
type client struct {
	nc   *frames.Conn
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
	c.nc = frames.New(nc)
	before := c.resp.SessionID
	c.resp, err = c.nc.Connect(wire.ConnectRequest{
		LastZxidSeen: c.seen, TimeoutMillis: int32(sessionTimeout.Milliseconds()),
		SessionID: before, Password: c.resp.Password, HasReadOnly: true,
	})
	if before != 0 && err == nil && c.resp.SessionID != before {
		return fmt.Errorf("session %v is lost", before)
	}
	return err
}

// reply reads the reply to the request xid.
func (c *client) reply(xid int32) (zk.Code, []byte, error) {
	r, err := c.nc.Reply()
	if err == nil && r.Xid != xid {
		err = fmt.Errorf("reply to %d, want %d", r.Xid, xid)
	}
	if err == nil {
		c.seen = max(c.seen, r.Zxid)
	}
	return r.Err, r.Body, err
}

// call sends one request and waits for its reply. The error may be its code.
func (c *client) call(op wire.OpCode, body []byte) ([]byte, error) {
	if _, err := c.nc.Write(frames.AppendRequest(nil, 0, op, body)); err != nil {
		return nil, err
	}
	code, b, err := c.reply(0)
	if err == nil && code != zk.OK {
		err = code
	}
	return b, err
}

// state reads the children of a znode and their data.
func (c *client) state(path string) (map[string]string, error) {
	body, err := c.call(wire.OpGetChildren, frames.Path(path, false))
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", path, err)
	}
	d := jute.NewDecoder(body)
	m := map[string]string{}
	for _, name := range d.Strings() {
		body, err := c.call(wire.OpGetData, frames.Path(path+"/"+name, false))
		if err != nil {
			return nil, fmt.Errorf("read %s/%s: %w", path, name, err)
		}
		d := jute.NewDecoder(body)
		m[name] = string(d.Buffer())
	}
	return m, d.Err()
}
