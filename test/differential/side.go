package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/frames"
	"github.com/pinfold-zk/pinfold/zk"
)

// barrierXid is the first xid of the barriers; requests stay away from it and
// what follows it.
const barrierXid = int32(0x60000000)

// expiryPatience is how long a session may outlive its timeout before the run
// calls it immortal.
const expiryPatience = 20 * time.Second

// A client is one session on one server and its connection.
type client struct {
	conn *conn // nil while there is none
	id   int64
	pass []byte
}

// drop closes the connection, if there is one.
func (c *client) drop() {
	if c != nil && c.conn != nil {
		c.conn.close()
		c.conn = nil
	}
}

// A side is one of the two servers with the connections to it. Its methods are
// called by one goroutine at a time.
type side struct {
	name    string
	addr    string
	base    int64 // last zxid when the run began; everything is relative to it
	last    int64 // last zxid that a barrier has shown
	before  int64 // last zxid before the present step
	clients map[string]*client
	ids     map[int64]string // session id to client name
	control *conn            // super user's; only for barriers and the comparison of trees
	xid     int32            // of the last barrier
}

// newSide connects the control session and marks the start of the run.
func newSide(name, addr, superPassword string) (*side, error) {
	s := &side{name: name, addr: addr, clients: map[string]*client{}, ids: map[int64]string{}, xid: barrierXid}
	c, resp, got := s.shake(connectBody(step{Timeout: longTimeout}, 0, 0, make([]byte, wire.PasswordLen)))
	if got.Kind != itemSession {
		return nil, fmt.Errorf("%s (%s): control session: %v", name, addr, got)
	}
	s.control = c
	s.ids[int64(resp.SessionID)] = "control"
	auth := wire.AuthPacket{Scheme: "digest", Auth: []byte(superPassword)}
	q := request{Xid: wire.XidAuth, Op: wire.OpAuth, Body: auth.Append(nil)}
	if i := s.ask(&q); i.Kind != itemReply || i.Err != zk.OK {
		return nil, fmt.Errorf("%s (%s): control session's auth: %v", name, addr, i)
	}
	s.barrier(map[string][]item{})
	s.base = s.last
	return s, nil
}

// close ends every connection and no session.
func (s *side) close() {
	for _, c := range s.clients {
		if c.conn != nil {
			c.conn.close()
		}
	}
	s.control.close()
}

// rel makes a zxid of this server comparable.
func (s *side) rel(z int64) int64 {
	switch z {
	case -1:
		return noZxid
	case 0:
		return zeroZxid
	}
	return z - s.base
}

func (s *side) sessionName(id int64) string {
	if id == 0 {
		return "0"
	}
	if n, ok := s.ids[id]; ok {
		return n
	}
	return fmt.Sprintf("unknown session %#x", uint64(id))
}

// connectBody is the handshake for a session, id 0 for a new one.
func connectBody(t step, seen, id int64, pass []byte) []byte {
	r := wire.ConnectRequest{
		LastZxidSeen: zk.Zxid(seen), TimeoutMillis: t.Timeout, SessionID: zk.SessionID(id),
		Password: pass, HasReadOnly: !t.NoByte,
	}
	return r.Append(nil)
}

// shake opens a connection and sends one frame as its handshake. The item's
// text holds what both servers must agree on. The connection is nil unless the
// server accepted.
func (s *side) shake(body []byte) (*conn, wire.ConnectResponse, item) {
	var resp wire.ConnectResponse
	c, err := dial(s.addr)
	if err != nil {
		return nil, resp, item{Kind: itemNonsense, Text: err.Error()}
	}
	c.send(frames.Append(nil, body))
	b, err := c.frame(answerTimeout)
	if err != nil {
		c.close()
		return nil, resp, item{Kind: itemRefused, Text: "without an answer: " + string(failItem(err).Kind)}
	}
	d := jute.NewDecoder(b)
	resp.Decode(&d)
	if d.Err() != nil || d.Len() > 0 {
		c.close()
		return nil, resp, item{Kind: itemNonsense, Text: fmt.Sprintf("handshake answer %x", b)}
	}
	text := fmt.Sprintf("protocol=%d timeout=%d readOnly=%v/%v password of %d bytes, %s",
		resp.ProtocolVersion, resp.TimeoutMillis, resp.HasReadOnly, resp.ReadOnly, len(resp.Password),
		map[bool]string{true: "zeros", false: "not zeros"}[!slices.ContainsFunc(resp.Password, func(b byte) bool { return b != 0 })])
	if resp.SessionID != 0 {
		return c, resp, item{Kind: itemSession, Text: text}
	}
	_, err = c.frame(answerTimeout)
	c.close()
	return nil, resp, item{Kind: itemRefused, Text: text + ", then " + string(failItem(err).Kind)}
}

func failItem(err error) item {
	switch {
	case err == nil:
		return item{Kind: itemNonsense, Text: "a frame where none belongs"}
	case errors.Is(err, errSilent):
		return item{Kind: itemSilent}
	case err.Error() == "EOF":
		return item{Kind: itemClosed}
	}
	return item{Kind: itemNonsense, Text: err.Error()}
}

// run does the step and returns what came on each connection until everything
// that the step caused has come.
func (s *side) run(t *step) map[string][]item {
	got := map[string][]item{}
	s.before = s.last
	switch t.Kind {
	case kindOpen:
		s.open(t, got)
	case kindRequest:
		s.requests(t, got)
	case kindDrop:
		s.clients[t.Client].drop()
	case kindAttach:
		s.attach(t, got)
	case kindShake:
		s.shakeAndLeave(t, got)
	case kindRaw:
		if c := s.clients[t.Client]; c != nil && c.conn != nil {
			c.conn.send(t.Bytes)
		}
	case kindExpire:
		s.expire(t, got)
	}
	s.barrier(got)
	return got
}

func (s *side) open(t *step, got map[string][]item) {
	c, resp, i := s.shake(connectBody(*t, 0, 0, make([]byte, wire.PasswordLen)))
	got[t.Client] = append(got[t.Client], i)
	if c != nil {
		s.clients[t.Client] = &client{conn: c, id: int64(resp.SessionID), pass: resp.Password}
		s.ids[int64(resp.SessionID)] = t.Client
	}
}

// requests sends all at once and reads as many replies.
func (s *side) requests(t *step, got map[string][]item) {
	c := s.clients[t.Client]
	if c == nil || c.conn == nil {
		return
	}
	var out []byte
	for i := range t.Reqs {
		out = t.Reqs[i].frame(out, s.base)
	}
	c.conn.send(out)
	for i := range t.Reqs {
		for {
			it := s.read(c.conn, &t.Reqs[i])
			got[t.Client] = append(got[t.Client], it)
			if it.Kind == itemEvent {
				continue
			}
			if it.Kind != itemReply {
				c.conn.close()
				c.conn = nil
				return
			}
			if it.endsConnection() {
				got[t.Client] = append(got[t.Client], s.awaitClose(c.conn)...)
				c.conn.close()
				c.conn = nil
				return
			}
			break
		}
	}
}

// endsConnection tells that the server closes behind this reply. It does so
// soon, not at once, so a barrier might still be answered.
func (i *item) endsConnection() bool {
	return i.answers(wire.OpCloseSession) && i.Err == zk.OK || i.answers(wire.OpAuth) && i.Err == zk.ErrAuthFailed ||
		i.Zxid == noZxid && i.Err == zk.ErrUnimplemented
}

// awaitClose reads until the server closes, or is silent, which differs.
func (s *side) awaitClose(c *conn) []item {
	var got []item
	for {
		i := s.read(c, &request{Op: wire.OpError})
		got = append(got, i)
		if i.Kind != itemEvent && i.Kind != itemReply {
			return got
		}
	}
}

// read reads one frame: an event or the reply to q.
func (s *side) read(c *conn, q *request) item {
	b, err := c.frame(answerTimeout)
	if err != nil {
		return failItem(err)
	}
	d := jute.NewDecoder(b)
	var h wire.ReplyHeader
	h.Decode(&d)
	if d.Err() != nil {
		return item{Kind: itemNonsense, Text: fmt.Sprintf("%x", b)}
	}
	i := item{Kind: itemReply, Xid: h.Xid, Zxid: s.rel(int64(h.Zxid)), Err: h.Err, Req: q}
	if h.Xid == wire.XidNotification {
		var e wire.WatcherEvent
		e.Decode(&d)
		i.Kind, i.Event, i.Path, i.Req = itemEvent, e.Type, e.Path, nil
		if e.State != zk.StateSyncConnected || h.Err != zk.OK || d.Err() != nil || d.Len() > 0 {
			i.Text = fmt.Sprintf("state=%d err=%d frame=%x", e.State, h.Err, b)
		}
		return i
	}
	if h.Err != zk.OK {
		if d.Len() > 0 {
			i.Text = fmt.Sprintf("[body behind an error: %x]", d.Rest())
		}
		return i
	}
	s.readBody(&i, q, d.Rest())
	return i
}

// ask sends q on the control connection and returns its reply.
func (s *side) ask(q *request) item {
	s.control.send(q.frame(nil, s.base))
	for {
		i := s.read(s.control, q)
		if i.Kind != itemEvent {
			return i
		}
	}
}

// barrier sends a sync on every connection and reads up to its reply. Requests
// of one connection are answered in order and events go before later replies,
// so what comes before the reply is all that there is. A connection that the
// server has closed shows here.
func (s *side) barrier(got map[string][]item) {
	s.xid++
	q := request{Xid: s.xid, Op: wire.OpSync, Body: pathBody("barrier")}
	frame := q.frame(nil, 0)
	for _, c := range s.clients {
		if c.conn != nil {
			c.conn.send(frame)
		}
	}
	for name, c := range s.clients {
		if c.conn == nil {
			continue
		}
		items, ok := s.readBarrier(c.conn, &q)
		got[name] = append(got[name], items...)
		if !ok {
			c.conn.close()
			c.conn = nil
		}
	}
	// The control connection is last, so that its zxid is the newest.
	s.control.send(frame)
	if items, ok := s.readBarrier(s.control, &q); !ok || len(items) > 0 {
		got["control"] = append(got["control"], items...)
	}
}

func (s *side) readBarrier(c *conn, q *request) (items []item, ok bool) {
	for {
		i := s.read(c, q)
		switch {
		case i.Kind == itemReply && i.Xid == q.Xid:
			if z := i.Zxid; z != noZxid && z != zeroZxid {
				s.last = z + s.base
			}
			return items, true
		case i.Kind == itemReply, i.Kind == itemEvent:
			items = append(items, i)
		default:
			return append(items, i), false
		}
	}
}

// othersWatch reports whether a connection other than the named client's has a
// watch on path.
func (s *side) othersWatch(name, path string) bool {
	r := wire.PathInt{Path: path, Value: int32(zk.WatcherAny)}
	q := request{Xid: 1, Op: wire.OpCheckWatches, Body: r.Append(nil)}
	found := false
	for n, c := range s.clients {
		if n != name && c.conn != nil {
			c.conn.send(q.frame(nil, 0))
			i := s.read(c.conn, &q)
			found = found || i.Kind == itemReply && i.Err == zk.OK
		}
	}
	return found
}

// forgets reports whether q, a checkWatches that found one, soon finds none:
// the watch was of a connection whose end the server had not yet seen.
func (s *side) forgets(name string, q *request) bool {
	c := s.clients[name]
	for end := time.Now().Add(2 * time.Second); c != nil && c.conn != nil && time.Now().Before(end); {
		c.conn.send(q.frame(nil, 0))
		if s.read(c.conn, q).Err == zk.ErrNoWatcher {
			return true
		}
		time.Sleep(20 * time.Millisecond)
	}
	return false
}

// mayRead reports whether the client's connection has READ on path, or nothing
// is there.
func (s *side) mayRead(c *client, path string) bool {
	r := wire.PathWatch{Path: path}
	q := request{Xid: 1, Op: wire.OpGetChildren, Body: r.Append(nil)}
	c.conn.send(q.frame(nil, 0))
	return s.read(c.conn, &q).Err != zk.ErrNoAuth
}

// attach presents a session's id again on a new connection.
func (s *side) attach(t *step, got map[string][]item) {
	c := s.clients[t.Client]
	if c == nil {
		return
	}
	pass := slices.Clone(c.pass)
	switch t.Pass {
	case "wrong":
		pass[3] ^= 0x40
	case "empty":
		pass = nil
	case "long":
		pass = append(pass, 0)
	}
	fresh, resp, i := s.shake(connectBody(*t, s.last+t.Seen, c.id, pass))
	if i.Kind == itemSession {
		if int64(resp.SessionID) != c.id {
			i.Text += ", another session id"
		}
		if !slices.Equal(resp.Password, c.pass) {
			i.Text += ", another password"
		}
	}
	got[t.Client] = append(got[t.Client], i)
	if fresh == nil {
		return // the barrier tells what became of the old connection
	}
	if c.conn != nil {
		s.xid++
		q := request{Xid: s.xid, Op: wire.OpSync, Body: pathBody("barrier")}
		c.conn.send(q.frame(nil, 0))
		items, ok := s.readBarrier(c.conn, &q)
		if ok {
			items = append(items, item{Kind: itemNonsense, Text: "the old connection stays open"})
		}
		old := t.Client + "'s old connection"
		got[old] = append(got[old], items...)
		c.conn.close()
	}
	c.conn = fresh
}

// shakeAndLeave tries a handshake and closes the session that may come of it,
// for its timeout may be too short to be kept.
func (s *side) shakeAndLeave(t *step, got map[string][]item) {
	c, _, i := s.shake(t.Bytes)
	got[t.Client] = append(got[t.Client], i)
	if c == nil {
		return
	}
	defer c.close()
	q := request{Xid: 1, Op: wire.OpCloseSession}
	c.send(q.frame(nil, 0))
	got[t.Client] = append(got[t.Client], s.read(c, &q))
	_, err := c.frame(answerTimeout)
	got[t.Client] = append(got[t.Client], failItem(err))
}

// expire opens a short session, does its requests, drops it and waits until
// the server has ended it. Nothing else consumes a zxid meanwhile, so the next
// zxid is the end.
func (s *side) expire(t *step, got map[string][]item) {
	s.open(t, got)
	s.requests(t, got)
	c := s.clients[t.Client]
	if c == nil || c.conn == nil {
		return
	}
	s.barrier(got)
	c.conn.close()
	c.conn = nil
	alive := s.last
	for end := time.Now().Add(expiryPatience); s.last == alive; {
		if time.Now().After(end) {
			got[t.Client] = append(got[t.Client], item{Kind: itemWaited})
			return
		}
		time.Sleep(20 * time.Millisecond)
		s.barrier(got)
	}
}
