package server

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/memconn"
	"github.com/pinfold-zk/pinfold/zk"
)

// script makes random requests within one part of the tree, and knows what each
// must be answered: the part belongs to one connection.
type script struct {
	rng   *rand.Rand
	root  string
	nodes map[string]*scriptNode
	xid   int32
}

type scriptNode struct {
	data    string
	version int32
}

// expectation is how a reply must look.
type expectation struct {
	xid   int32
	what  string
	code  zk.Code
	check func(d *jute.Decoder) error // of the body, if the code is OK
}

func newScript(root string, seed uint64) *script {
	return &script{rng: rand.New(rand.NewPCG(seed, 7)), root: root, nodes: map[string]*scriptNode{}}
}

// request returns the next request's frame and what to expect.
func (s *script) request() ([]byte, expectation) {
	s.xid++
	path := fmt.Sprintf("%s/%c", s.root, 'a'+s.rng.IntN(5))
	op, body, e := s.choose(path)
	e.xid, e.what = s.xid, fmt.Sprintf("request %d, %v %s", s.xid, op, path)
	if op == wire.OpPing {
		e.xid = wire.XidPing
	}
	return encode(nil, s.xid, op, body), e
}

func (s *script) choose(path string) (wire.OpCode, []byte, expectation) {
	n := s.nodes[path]
	none := zk.OK
	if n == nil {
		none = zk.ErrNoNode
	}
	switch s.rng.IntN(11) {
	case 0, 1:
		data := s.data()
		if n != nil {
			return wire.OpCreate, createBody(path, []byte(data), zk.Persistent), expectation{code: zk.ErrNodeExists}
		}
		s.nodes[path] = &scriptNode{data: data}
		return wire.OpCreate, createBody(path, []byte(data), zk.Persistent), expectation{check: func(d *jute.Decoder) error {
			return same(d.String(), path)
		}}
	case 2:
		delete(s.nodes, path)
		return wire.OpDelete, deleteBody(path), expectation{code: none}
	case 3, 4:
		data := s.data()
		return wire.OpSetData, setBody(path, []byte(data)), expectation{code: none, check: s.set(n, data)}
	case 5:
		return s.multi(path, n)
	case 6:
		return wire.OpGetChildren, readBody(s.root, false), expectation{check: s.children()}
	case 7:
		return wire.OpPing, nil, expectation{}
	case 8:
		return wire.OpSync, jute.AppendString(nil, path), expectation{check: func(d *jute.Decoder) error {
			return same(d.String(), path)
		}}
	case 9:
		return wire.OpExists, readBody(path, false), expectation{code: none, check: statOf(n)}
	default:
		return wire.OpGetData, readBody(path, false), expectation{code: none, check: dataOf(n)}
	}
}

func (s *script) data() string { return strings.Repeat("x", s.rng.IntN(200)) + fmt.Sprint(s.xid) }

// set changes n, which may not exist, and returns a check of the Stat.
func (s *script) set(n *scriptNode, data string) func(*jute.Decoder) error {
	if n == nil {
		return nil
	}
	n.data = data
	n.version++
	return statOf(n)
}

// multi checks the version, right or wrong, and sets the data.
func (s *script) multi(path string, n *scriptNode) (wire.OpCode, []byte, expectation) {
	version := int32(s.rng.IntN(3))
	check := wire.MultiOp{Type: wire.OpCheck, Version: version}
	set := wire.MultiOp{Type: wire.OpSetData, Version: -1}
	check.Path, set.Path = path, path
	data := s.data()
	set.Data = []byte(data)
	body := wire.AppendMultiEnd(set.Append(check.Append(nil)))
	if n != nil && n.version == version {
		s.set(n, data)
		return wire.OpMulti, body, expectation{check: func(d *jute.Decoder) error {
			var h wire.MultiHeader
			h.Decode(d)
			return same(h.Type, wire.OpCheck)
		}}
	}
	return wire.OpMulti, body, expectation{check: func(d *jute.Decoder) error {
		var h wire.MultiHeader
		h.Decode(d)
		return same(h.Type, wire.OpError)
	}}
}

func (s *script) children() func(*jute.Decoder) error {
	var want []string
	for path := range s.nodes {
		want = append(want, strings.TrimPrefix(path, s.root+"/"))
	}
	slices.Sort(want)
	return func(d *jute.Decoder) error {
		got := slices.Clone(d.Strings())
		slices.Sort(got)
		return same(fmt.Sprint(got), fmt.Sprint(want))
	}
}

func statOf(n *scriptNode) func(*jute.Decoder) error {
	if n == nil {
		return nil
	}
	want := *n
	return func(d *jute.Decoder) error {
		s := wire.DecodeStat(d)
		return errors.Join(same(s.Version, want.version), same(int(s.DataLength), len(want.data)))
	}
}

func dataOf(n *scriptNode) func(*jute.Decoder) error {
	if n == nil {
		return nil
	}
	want := *n
	return func(d *jute.Decoder) error {
		got := string(d.Buffer())
		return errors.Join(same(got, want.data), same(wire.DecodeStat(d).Version, want.version))
	}
}

func same[T comparable](got, want T) error {
	if got != want {
		return fmt.Errorf("got %v, want %v", got, want)
	}
	return nil
}

// verify compares a reply with what was expected.
func (e *expectation) verify(r reply) error {
	switch {
	case r.Xid != e.xid:
		return fmt.Errorf("%s: reply has xid %d", e.what, r.Xid)
	case r.Err != e.code:
		return fmt.Errorf("%s: code %d, want %d", e.what, r.Err, e.code)
	case e.check == nil || e.code != zk.OK:
		return nil
	}
	d := jute.NewDecoder(r.body)
	if err := errors.Join(e.check(&d), d.Err()); err != nil {
		return fmt.Errorf("%s: %w", e.what, err)
	}
	return nil
}

// play sends n requests in writes of random length, and verifies the replies as
// they come, all of them and in order.
func (s *script) play(c *wireClient, n int) error {
	expected := make(chan expectation, n)
	writes := make(chan error, 1)
	go func() { writes <- s.write(c.nc, n, expected) }()
	for e := range expected {
		r, err := c.nextReply()
		if err == nil {
			err = e.verify(r)
		}
		if err != nil {
			c.nc.Close() // the writer must end, too
			for range expected {
			}
			return errors.Join(fmt.Errorf("%s: %w", e.what, err), ignoreClosed(<-writes))
		}
	}
	return <-writes
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return err
}

func (s *script) write(w io.Writer, n int, expected chan<- expectation) error {
	defer close(expected)
	var buf []byte
	for range n {
		b, e := s.request()
		expected <- e
		buf = append(buf, b...)
		for len(buf) > 0 && s.rng.IntN(4) > 0 {
			k := 1 + s.rng.IntN(len(buf))
			if _, err := w.Write(buf[:k]); err != nil {
				return err
			}
			buf = buf[k:]
		}
	}
	_, err := w.Write(buf)
	return err
}

// testScripts plays random scripts on several connections at once.
func testScripts(t *testing.T, dial func() net.Conn, s *rig, seed uint64, clients, requests int) {
	t.Logf("seed %d", seed)
	var wg sync.WaitGroup
	for i := range clients {
		c := s.openWith(dial())
		root := fmt.Sprintf("/s%d-%d", seed, i)
		c.create(root, "", zk.Persistent)
		wg.Go(func() {
			if err := newScript(root, seed+uint64(i)).play(c, requests); err != nil {
				t.Errorf("client %d, seed %d: %v", i, seed, err)
			}
		})
	}
	wg.Wait()
}

// P1 and P5: pipelined reads and writes, mixed at random, are answered in order,
// each by a state with exactly the session's earlier writes.
func TestP1RepliesInOrder(t *testing.T) {
	s := newRig(t)
	addr := s.listen()
	testScripts(t, func() net.Conn { return dial(t, addr) }, s, rand.Uint64(), 6, 3000)
}

func TestP5ReadsSeeOwnWrites(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		s := newRig(t)
		testScripts(t, s.pipe, s, rand.Uint64(), 4, 2000)
	})
	t.Run("slow disk", func(t *testing.T) {
		// While a sync waits, whole buffers of reads gather behind the writes.
		synctest.Test(t, func(t *testing.T) {
			s := newRig(t, func(o *rigSetup) { o.fs = &slowFS{o.fs} })
			testScripts(t, s.pipe, s, 42, 3, 1500)
		})
	})
}

// slowFS takes ten milliseconds of a bubble's time for each sync.
type slowFS struct{ vfs.FS }

type slowFile struct{ vfs.File }

func (f slowFile) Sync() error {
	<-time.After(10 * time.Millisecond)
	return f.File.Sync()
}

func (f *slowFS) CreateDirect(name string) (vfs.File, error) {
	file, err := f.FS.CreateDirect(name)
	return slowFile{file}, err
}

// P1: what ends a connection is answered in its turn, what is behind it never.
func TestP1UnknownOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateFS(vfs.NewMem())
		s := newRig(t, func(o *rigSetup) { o.fs = g })
		c := s.open()
		g.set(true, nil)
		b := encode(nil, 1, wire.OpCreate, createBody("/a", nil, zk.Persistent))
		b = encode(b, 2, wire.OpGetData, readBody("/a", false))
		b = encode(b, 3, 99, nil)
		b = encode(b, 4, wire.OpGetData, readBody("/a", false))
		c.write(b)
		synctest.Wait()
		g.set(false, nil)
		for _, want := range []wire.ReplyHeader{{Xid: 1}, {Xid: 2}, {Xid: 3, Err: zk.ErrUnimplemented}} {
			if r, err := c.next(); err != nil || r.Xid != want.Xid || r.Err != want.Err {
				t.Fatalf("reply %+v, %v, want %+v", r.ReplyHeader, err, want)
			}
		}
		if r, err := c.next(); err == nil {
			t.Fatalf("a reply behind the end: %+v", r)
		}
	})
}

// P2: no acknowledgement while the disk has not synced; reads go on.
func TestP2NoReplyBeforeSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateFS(vfs.NewMem())
		s := newRig(t, func(o *rigSetup) { o.fs = g })
		c, other := s.open(), s.open()
		g.set(true, nil)
		for op, body := range map[wire.OpCode][]byte{
			wire.OpCreate:       createBody("/a", nil, zk.Persistent),
			wire.OpDelete:       deleteBody("/missing"), // an error is logged, too
			wire.OpCloseSession: nil,
		} {
			if op != wire.OpCloseSession {
				c.send(op, body)
			}
		}
		c.send(wire.OpCloseSession, nil)
		created := newWireClient(t, s.pipe())
		go created.connect(wire.ConnectRequest{TimeoutMillis: 5000})
		time.Sleep(time.Second)
		synctest.Wait()
		if n := c.in.Buffered() + c.nc.(*memconn.Conn).Waiting(); n > 0 {
			t.Fatalf("%d bytes came before the sync", n)
		}
		if n := created.nc.(*memconn.Conn).Waiting(); n > 0 {
			t.Fatalf("a session of %d bytes before the sync", n)
		}
		if other.has("/a") {
			t.Fatal("a read shows what is not durable")
		}
		g.set(false, nil)
		for range 3 {
			if r, err := c.next(); err != nil {
				t.Fatalf("after the sync: %+v, %v", r, err)
			}
		}
	})
}

// P2: when the disk fails there is no acknowledgement, ever; the server says so
// and stops, whatever waits in it; and a new one has all that was acknowledged.
func TestP2DiskFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		g := newGateFS(mem)
		s := newRig(t, func(o *rigSetup) { o.fs = g; o.cfg.Requests.MaxOutstanding = 10 })
		c := s.open()
		for i := range 20 {
			c.create(fmt.Sprintf("/acked%d", i), "", zk.Persistent)
		}
		g.set(true, nil)
		waiting := newWireClient(t, s.pipe())
		go waiting.connect(wire.ConnectRequest{TimeoutMillis: 5000})
		// One fills the pipeline, the other must wait for room in it.
		clients := []*wireClient{c, s.pipedClient()}
		for i, c := range clients {
			var b []byte
			for k := range 40 {
				b = encode(b, int32(k), wire.OpCreate, createBody(fmt.Sprintf("/lost%d-%d", i, k), nil, zk.Persistent))
			}
			go c.write(b)
		}
		synctest.Wait()
		g.set(false, syscall.EIO)
		<-s.rep.Failed()
		if !errors.Is(s.rep.Failure(), syscall.EIO) {
			t.Errorf("failure: %v", s.rep.Failure())
		}
		s.stop() // must not hang
		for _, c := range clients {
			if r, err := c.next(); err == nil {
				t.Errorf("an acknowledgement after the failure: %+v", r)
			}
		}
		s = newRig(t, func(o *rigSetup) { o.fs = mem })
		c = s.open()
		for i := range 20 {
			if !c.has(fmt.Sprintf("/acked%d", i)) {
				t.Errorf("/acked%d is lost", i)
			}
		}
	})
}

// pipedClient is open for a server whose disk is stuck: nobody waits for the
// session.
func (s *rig) pipedClient() *wireClient {
	c := newWireClient(s.t, s.pipe())
	c.write(frame((&wire.ConnectRequest{TimeoutMillis: 5000, Password: make([]byte, 16)}).Append(nil)))
	return c
}

// Stop ends connections whose session is not made yet.
func TestStopDuringHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateFS(vfs.NewMem())
		s := newRig(t, func(o *rigSetup) { o.fs = g })
		s.open().create("/a", "", zk.Persistent)
		g.set(true, nil)
		s.pipedClient()
		synctest.Wait()
		stopped := make(chan struct{})
		go func() { s.srv.Stop(); close(stopped) }()
		synctest.Wait()
		g.set(false, nil)
		synctest.Wait()
		select {
		case <-stopped:
		default:
			t.Fatal("Stop hangs")
		}
	})
}

// P3: the zxids of replies to one connection's writes rise by one.
func TestP3NoGap(t *testing.T) {
	s := newRig(t)
	c := s.open()
	last := c.create("/a", "", zk.Persistent).Zxid
	var b []byte
	const n = 500
	for i := range n {
		b = encode(b, int32(i), wire.OpSetData, setBody([]string{"/a", "/missing"}[i%2], nil))
	}
	go c.write(b)
	for i := range n {
		r, err := c.next()
		if err != nil || r.Zxid != last+1 {
			t.Fatalf("reply %d: %+v, %v, want zxid %v", i, r.ReplyHeader, err, last+1)
		}
		last = r.Zxid
	}
}

// P7: a client that has seen more than the server is refused.
func TestP7LastZxidSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t)
		last := s.open().create("/a", "", zk.Persistent).Zxid
		for ahead := range zk.Zxid(3) {
			c := newWireClient(t, s.pipe())
			err := c.connect(wire.ConnectRequest{LastZxidSeen: last + ahead, TimeoutMillis: 5000})
			if ok := err == nil && c.resp.SessionID != 0; ok != (ahead == 0) {
				t.Errorf("client is %d ahead: %v, session %v", ahead, err, c.resp.SessionID)
			}
			if err == nil {
				last++ // its session
			}
		}
		// A session that comes back is checked likewise.
		old := s.open()
		c := newWireClient(t, s.pipe())
		if err := c.connect(wire.ConnectRequest{
			LastZxidSeen: last + 100, TimeoutMillis: 5000, SessionID: old.resp.SessionID, Password: old.resp.Password,
		}); err != io.EOF {
			t.Errorf("resumed ahead of the server: %v", err)
		}
		if !old.has("/a") {
			t.Error("the refused client has disturbed its session")
		}
	})
}
