package client

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/memconn"
	"github.com/pinfold-zk/pinfold/zk"
)

// ensemble is what a Client under test believes to be servers: every attempt to
// connect is a peer that the test plays, or nobody accepts it.
type ensemble struct {
	t     *testing.T
	conns chan *peer
}

func newEnsemble(t *testing.T) *ensemble { return &ensemble{t: t, conns: make(chan *peer)} }

var clientAddr = netip.MustParseAddrPort("10.9.9.9:999")

// dial is a Dialer.
func (e *ensemble) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	near, far := memconn.New(1<<20, clientAddr)
	select {
	case e.conns <- &peer{t: e.t, conn: far, addr: addr}:
		return near, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// accept takes the next connection.
func (e *ensemble) accept() *peer {
	e.t.Helper()
	select {
	case p := <-e.conns:
		return p
	case <-time.After(time.Hour):
		e.t.Fatal("the client does not connect")
		return nil
	}
}

// names is a Resolver for which every name is an address.
type names struct{}

func (names) LookupHost(_ context.Context, host string) ([]string, error) { return []string{host}, nil }

// peer is the server's end of a connection.
type peer struct {
	t    *testing.T
	conn net.Conn
	addr string
}

const testSession = zk.SessionID(0x1234)

var testPassword = []byte("0123456789abcdef")

// frame reads what the client sends next; ok is false at the connection's end.
func (p *peer) frame() (b []byte, ok bool) {
	p.t.Helper()
	head := make([]byte, 4)
	if _, err := io.ReadFull(p.conn, head); err != nil {
		return nil, false
	}
	b = make([]byte, binary.BigEndian.Uint32(head))
	if _, err := io.ReadFull(p.conn, b); err != nil {
		return nil, false
	}
	return b, true
}

// asked reads the handshake.
func (p *peer) asked() wire.ConnectRequest {
	p.t.Helper()
	b, ok := p.frame()
	if !ok {
		p.t.Fatal("no handshake")
	}
	var ask wire.ConnectRequest
	d := jute.NewDecoder(b)
	ask.Decode(&d)
	if d.Err() != nil || !ask.HasReadOnly {
		p.t.Fatalf("handshake %x: %v", b, d.Err())
	}
	return ask
}

// send writes a frame.
func (p *peer) send(body func(b []byte) []byte) {
	p.t.Helper()
	if _, err := p.conn.Write(frame(body)); err != nil {
		p.t.Errorf("send: %v", err)
	}
}

// welcome answers the handshake.
func (p *peer) welcome(id zk.SessionID, timeout time.Duration, readOnly bool) {
	p.t.Helper()
	answer := wire.ConnectResponse{TimeoutMillis: int32(timeout.Milliseconds()), SessionID: id,
		Password: testPassword, ReadOnly: readOnly, HasReadOnly: true}
	p.send(answer.Append)
}

// refuse answers a handshake for a session that is over.
func (p *peer) refuse() {
	p.t.Helper()
	p.asked()
	answer := wire.ConnectResponse{Password: make([]byte, wire.PasswordLen), HasReadOnly: true}
	p.send(answer.Append)
}

// greet is asked and welcome.
func (p *peer) greet(timeout time.Duration) wire.ConnectRequest {
	p.t.Helper()
	ask := p.asked()
	p.welcome(testSession, timeout, false)
	return ask
}

// asking is a request as it came.
type asking struct {
	xid  int32
	op   wire.OpCode
	body []byte
}

// path is the body's first string.
func (a asking) path() string {
	d := jute.NewDecoder(a.body)
	return d.String()
}

// pathInt decodes a body of a path and a number.
func (a asking) pathInt() (string, int32) {
	d := jute.NewDecoder(a.body)
	return d.String(), d.Int()
}

// watches reports whether a read asks for a watch.
func (a asking) watches() bool { return a.body[len(a.body)-1] == 1 }

// next reads a request.
func (p *peer) next() asking {
	p.t.Helper()
	a, ok := p.poll()
	if !ok {
		p.t.Fatal("the client has closed the connection instead of sending a request")
	}
	return a
}

func (p *peer) poll() (asking, bool) {
	p.t.Helper()
	b, ok := p.frame()
	if !ok {
		return asking{}, false
	}
	var head wire.RequestHeader
	d := jute.NewDecoder(b)
	head.Decode(&d)
	return asking{head.Xid, head.Op, d.Rest()}, true
}

// expect reads a request and checks its operation.
func (p *peer) expect(op wire.OpCode) asking {
	p.t.Helper()
	a := p.next()
	if a.op != op {
		p.t.Fatalf("request %v %q, want %v", a.op, a.body, op)
	}
	return a
}

// silent checks that the client has sent nothing more.
func (p *peer) silent() {
	p.t.Helper()
	synctest.Wait()
	if n := p.conn.(*memconn.Conn).Waiting(); n > 0 {
		p.t.Errorf("the client has sent %d bytes more: %v", n, p.next())
	}
}

// reply answers a request.
func (p *peer) reply(xid int32, zxid zk.Zxid, code zk.Code, body ...func(b []byte) []byte) {
	p.t.Helper()
	p.send(func(b []byte) []byte {
		b = wire.ReplyHeader{Xid: xid, Zxid: zxid, Err: code}.Append(b)
		for _, f := range body {
			b = f(b)
		}
		return b
	})
}

// event tells of a change.
func (p *peer) event(t zk.EventType, path string) {
	p.t.Helper()
	e := wire.WatcherEvent{Type: t, State: zk.StateSyncConnected, Path: path}
	p.reply(wire.XidNotification, -1, zk.OK, e.Append)
}

// cut breaks the connection.
func (p *peer) cut() { p.conn.Close() }

// ended waits until the client has closed the connection.
func (p *peer) ended() {
	p.t.Helper()
	for {
		if a, ok := p.poll(); !ok {
			return
		} else if a.op != wire.OpPing {
			p.t.Errorf("request %v %q at the end", a.op, a.body)
		}
	}
}

// Bodies of answers.

func text(s string) func([]byte) []byte {
	return func(b []byte) []byte { return jute.AppendString(b, s) }
}

func buffer(s string) func([]byte) []byte {
	return func(b []byte) []byte { return jute.AppendBuffer(b, []byte(s)) }
}

func vector(s ...string) func([]byte) []byte {
	return func(b []byte) []byte { return jute.AppendStrings(b, s) }
}

func statOf(version int32) func([]byte) []byte {
	return func(b []byte) []byte { return wire.AppendStat(b, &zk.Stat{Version: version}) }
}

// connected returns a Client with its first connection.
func connected(t *testing.T, servers string, opts ...Option) (*Client, *ensemble, *peer) {
	t.Helper()
	e := newEnsemble(t)
	c, p := e.client(servers, opts...)
	return c, e, p
}

func (e *ensemble) client(servers string, opts ...Option) (*Client, *peer) {
	e.t.Helper()
	var p *peer
	c := e.dialTo(servers, opts, func() {
		p = e.accept()
		p.greet(9 * time.Second)
	})
	return c, p
}

// dialTo dials while play runs. The Client takes the servers for later ones than 3.4,
// and is abandoned when the test ends.
func (e *ensemble) dialTo(servers string, opts []Option, play func()) *Client {
	e.t.Helper()
	var c *Client
	done := make(chan error, 1)
	go func() {
		var err error
		c, err = Dial(e.t.Context(), servers, append([]Option{Dialer(e.dial), LookUp(names{})}, opts...)...)
		done <- err
	}()
	play()
	if err := <-done; err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(c.abandon)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.newer = true
	return c
}

// after runs f beside the test and gives its error.
func after(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return done
}

// journal gathers what happens in order.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf(format, args...))
}

// want compares all that has happened.
func (j *journal) want(t *testing.T, lines ...string) {
	t.Helper()
	synctest.Wait()
	j.mu.Lock()
	defer j.mu.Unlock()
	if !slices.Equal(j.lines, lines) {
		t.Errorf("happened:\n\t%s\nwant:\n\t%s", strings.Join(j.lines, "\n\t"), strings.Join(lines, "\n\t"))
	}
	j.lines = nil
}

// states gathers the states of a Client.
func (j *journal) states(c *Client) (cancel func()) {
	states, cancel := c.States()
	go func() {
		for s := range states {
			j.add("%v", s)
		}
		j.add("no more states")
	}()
	return cancel
}

// check compares the error of an operation with what is wanted of it.
func check(t *testing.T, what string, err, want error, maybe bool) {
	t.Helper()
	e, ok := err.(*Error)
	switch {
	case want == nil && err != nil:
		t.Errorf("%s: %v", what, err)
	case want == nil:
	case !ok:
		t.Errorf("%s: error %v is no *Error; want %v", what, err, want)
	case e.Err != want && e.Reason != want || e.Maybe != maybe:
		t.Errorf("%s: error %v, maybe %v; want %v, maybe %v", what, e, e.Maybe, want, maybe)
	}
}

// answering is a connection that takes all that is written, and has its answers.
type answering struct{ io.Reader }

func (answering) Write(b []byte) (int, error)      { return len(b), nil }
func (answering) Close() error                     { return nil }
func (answering) LocalAddr() net.Addr              { return nil }
func (answering) RemoteAddr() net.Addr             { return nil }
func (answering) SetDeadline(time.Time) error      { return nil }
func (answering) SetReadDeadline(time.Time) error  { return nil }
func (answering) SetWriteDeadline(time.Time) error { return nil }
