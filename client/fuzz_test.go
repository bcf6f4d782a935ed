package client

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"testing"
	"testing/iotest"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// Frames arrive in any pieces, and come out whole.
func TestFramesInPieces(t *testing.T) {
	var in []byte
	var want [][]byte
	for _, n := range []int{0, 1, 5, 4091, 4092, 4093, 70_000, 3, 200_000, 8} {
		body := bytes.Repeat([]byte{byte(n)}, n)
		want = append(want, body)
		in = append(in, frame(func(b []byte) []byte { return append(b, body...) })...)
	}
	for name, r := range map[string]io.Reader{
		"whole": bytes.NewReader(in), "halves": iotest.HalfReader(bytes.NewReader(in)),
		"bytes": iotest.OneByteReader(bytes.NewReader(in)), "data with EOF": iotest.DataErrReader(bytes.NewReader(in)),
	} {
		var f frameReader
		f.init(r, 1<<20)
		for i, w := range want {
			got, err := f.next()
			if err != nil || !bytes.Equal(got, w) {
				t.Fatalf("%s: frame %d has %d bytes, want %d; %v", name, i, len(got), len(w), err)
			}
		}
		if _, err := f.next(); err != io.EOF {
			t.Errorf("%s: at the end %v", name, err)
		}
	}
}

// endless is a stream of frames whose bodies have size bytes, all there at once.
type endless struct {
	size  int
	at    int
	reads int
}

func (e *endless) Read(b []byte) (int, error) {
	e.reads++
	head := binary.BigEndian.AppendUint32(nil, uint32(e.size))
	for i := range b {
		if b[i] = 0; e.at < len(head) {
			b[i] = head[e.at]
		}
		e.at = (e.at + 1) % (len(head) + e.size)
	}
	return len(b), nil
}

// While more waits than fits, the buffer grows to its usual size and no further:
// answers that come faster than they are read take few reads, whatever their size.
func TestBufferGrowsWithWhatWaits(t *testing.T) {
	for _, size := range []int{0, 20, 1100, 4092, 5000, 65_000} {
		e := &endless{size: size}
		var f frameReader
		f.init(e, 1<<20)
		const bytes = 20 * usualBuffer
		for range bytes / (4 + size) {
			if b, err := f.next(); err != nil || len(b) != size {
				t.Fatalf("%d bytes of %d, %v", len(b), size, err)
			}
		}
		// The front of a frame that is cut off takes the place of other bytes.
		if most := 10 + bytes/(usualBuffer-4-size); len(f.buf) != usualBuffer || e.reads > most {
			t.Errorf("frames of %d bytes: %d reads, at most %d expected, a buffer of %d bytes", size, e.reads, most, len(f.buf))
		}
	}
}

// No length is believed before the bytes are there.
func TestAnnouncedLengths(t *testing.T) {
	for _, x := range []struct {
		length uint32
		want   error
	}{{1<<20 + 1, io.ErrUnexpectedEOF}, {1<<31 - 1, io.ErrUnexpectedEOF}, {1 << 31, nil}, {1<<32 - 1, nil}, {1 << 20, io.ErrUnexpectedEOF}} {
		var f frameReader
		head := binary.BigEndian.AppendUint32(nil, x.length)
		f.init(bytes.NewReader(append(head, 1, 2, 3)), 1<<20)
		if _, err := f.next(); err == nil || x.want != nil && !errors.Is(err, x.want) || len(f.buf) > 2*firstBuffer {
			t.Errorf("length %#x: error %v, a buffer of %d bytes", x.length, err, len(f.buf))
		}
	}
}

// Of a frame beyond the limit there is the beginning; it takes no memory, and the next
// one is behind it.
func TestFramesBeyondTheLimit(t *testing.T) {
	const limit = 100
	var in []byte
	sizes := []int{20, 101, 100, 1 << 20, 7, 115, 116, 0}
	for i, n := range sizes {
		in = binary.BigEndian.AppendUint32(in, uint32(n))
		in = append(in, bytes.Repeat([]byte{byte(i)}, n)...)
	}
	for name, r := range map[string]io.Reader{
		"whole": bytes.NewReader(in), "halves": iotest.HalfReader(bytes.NewReader(in)), "bytes": iotest.OneByteReader(bytes.NewReader(in)),
	} {
		var f frameReader
		f.init(r, limit)
		for i, n := range sizes {
			want, cut := n, 0
			if n > limit {
				want, cut = cutFrame, n
			}
			b, err := f.next()
			if err != nil || f.cut != cut || !bytes.Equal(b, bytes.Repeat([]byte{byte(i)}, want)) {
				t.Fatalf("%s: frame %d of %d bytes: %v, cut %d, %v", name, i, n, b, f.cut, err)
			}
		}
		if _, err := f.next(); err != io.EOF || len(f.buf) > usualBuffer {
			t.Errorf("%s: at the end %v, a buffer of %d bytes", name, err, len(f.buf))
		}
	}
}

// heapOf is what f allocates, in bytes.
func heapOf(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// calls are operations whose answers are decoded in all the ways that there are.
func calls(c *Client) []call {
	txn, read := c.Txn(), c.ReadTxn()
	txn.Create("/a", nil, zk.Persistent, nil)
	txn.Set("/a", nil, -1)
	txn.Check("/a", 1)
	read.Get("/a")
	read.Children("/a")
	list := []call{txn.call(), read.txn.call()}
	for d := decodeNothing; d < decodeMulti; d++ {
		list = append(list, call{op: wire.OpGetData, name: "get", path: "/a", decode: d})
	}
	for kind := range watchKinds {
		k := call{op: wire.OpGetData, name: "get", path: "/a", decode: decodeStat}
		if k.watch = c.newWatch(kind, "/a"); kind >= persistentWatch {
			k = call{op: wire.OpAddWatch, name: "addwatch", watch: c.newPersistent(kind, "/a")}
		}
		list = append(list, k)
	}
	return list
}

type ignored struct{}

func (ignored) complete(*result) {}

// FuzzAnswers reads what a server may send once the session stands: nothing makes
// the Client crash, or allocate more than a few times what was sent.
func FuzzAnswers(f *testing.F) {
	reply := func(xid int32, code zk.Code, body ...func([]byte) []byte) []byte {
		return frame(func(b []byte) []byte {
			b = wire.ReplyHeader{Xid: xid, Zxid: 5, Err: code}.Append(b)
			for _, g := range body {
				b = g(b)
			}
			return b
		})
	}
	giant := func(b []byte) []byte { return jute.AppendInt(b, 1<<31-1) }
	event := wire.WatcherEvent{Type: zk.EventNodeDeleted, State: zk.StateSyncConnected, Path: "/a"}
	many := func(b []byte) []byte {
		b = jute.AppendInt(b, 1000)
		return append(b, make([]byte, 4000)...)
	}
	for kind := byte(0); kind < 20; kind++ {
		f.Add(kind, reply(1, zk.OK, buffer("x"), statOf(1)))
		f.Add(kind, reply(1, zk.OK, vector("a", "b"), statOf(1)))
		f.Add(kind, reply(1, zk.OK, giant, giant))
		f.Add(kind, reply(1, zk.OK, many))
		f.Add(kind, reply(1, zk.ErrNoNode))
		f.Add(kind, append(reply(1, zk.OK, statOf(1)), reply(wire.XidNotification, zk.OK, event.Append)...))
	}
	f.Add(byte(0), reply(1, zk.OK, results(is(wire.OpCreate2, text("/a"), statOf(1)), is(wire.OpSetData, statOf(1)), is(wire.OpCheck))))
	f.Add(byte(0), reply(1, zk.OK, results(fails(zk.OK), fails(zk.ErrNoNode), fails(zk.ErrRuntimeInconsistency))))
	f.Add(byte(1), reply(1, zk.OK, results(is(wire.OpGetData, buffer("x"), statOf(9)), is(wire.OpGetChildren, vector("k", "m")))))
	f.Add(byte(9), reply(2, zk.OK))
	f.Add(byte(9), reply(wire.XidAuth, zk.OK))
	f.Add(byte(9), reply(wire.XidSetWatches, zk.ErrUnimplemented))
	f.Add(byte(9), append(reply(wire.XidPing, zk.OK), 0x7f, 0xff, 0xff, 0xff))
	const limit = 64 << 10
	f.Fuzz(func(t *testing.T, kind byte, in []byte) {
		if len(in) > limit {
			return
		}
		c, err := newClient("a", []Option{MaxReply(limit)})
		if err != nil {
			t.Fatal(err)
		}
		defer c.cancel()
		ks := calls(c)
		k := ks[int(kind)%len(ks)]
		k.done = ignored{}
		if err := c.queue(&k, nothing); err != nil {
			t.Fatal(err)
		}
		c.taken = 1
		l := &link{}
		l.frames.init(bytes.NewReader(in), limit)
		spent := heapOf(func() {
			for err == nil {
				var b []byte
				if b, err = l.frames.next(); err == nil {
					err = c.take(l, b)
				}
			}
		})
		if most := uint64(32*len(in) + 64<<10); spent > most {
			t.Errorf("%d bytes make the client allocate %d", len(in), spent)
		}
	})
}

// FuzzHandshake reads a server's first answer.
func FuzzHandshake(f *testing.F) {
	good := wire.ConnectResponse{TimeoutMillis: 1000, SessionID: 5, Password: testPassword, HasReadOnly: true}
	f.Add(frame(good.Append))
	old := good
	old.HasReadOnly = false
	f.Add(frame(old.Append))
	f.Add(frame(func(b []byte) []byte { return append(good.Append(b)[:16], 0x7f, 0xff, 0xff, 0xff) }))
	f.Add([]byte("This ZooKeeper instance is not currently serving requests\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		c, err := newClient("a", []Option{MaxReply(1 << 10)})
		if err != nil {
			t.Fatal(err)
		}
		defer c.cancel()
		l := &link{conn: answering{bytes.NewReader(in)}}
		l.frames.init(bytes.NewReader(in), 1<<10)
		err = c.openSession(l)
		if ok := err == nil; ok != (c.session.id != 0) || ok && c.session.timeout <= 0 {
			t.Errorf("session %v, %v: %v", c.session.id, c.session.timeout, err)
		}
	})
}
