package server

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// handshakeBytes are the bytes that a session begins with.
func handshakeBytes() []byte {
	req := wire.ConnectRequest{TimeoutMillis: 4000, Password: make([]byte, wire.PasswordLen), HasReadOnly: true}
	return frame(req.Append(nil))
}

// badInputs are the seeds of the fuzzing, and a test by themselves.
func badInputs() [][]byte {
	hello := handshakeBytes()
	after := func(b []byte) []byte { return append(bytes.Clone(hello), b...) }
	ints := func(v ...int32) (b []byte) {
		for _, x := range v {
			b = jute.AppendInt(b, x)
		}
		return b
	}
	inputs := [][]byte{
		nil, {0}, hello, hello[:20], after(hello),
		ints(-1), ints(1 << 30), ints(0), ints(7), ints(12, 0, 0, 0),
		after(ints(-1)), after(ints(1<<31 - 1)), after(ints(0)), after(ints(7)), after(ints(1<<20 - 1)),
		after([]byte{0, 0, 0}), after(encode(nil, 1, wire.OpGetData, readBody("/", false))[:9]),
		bytes.Repeat([]byte{0xff}, 1000), bytes.Repeat([]byte{0}, 1000),
	}
	ops := []wire.OpCode{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 99, 100, 101, 102, 103, 104, 105, 106, 107, -1, -10, -11, 1 << 30}
	bodies := [][]byte{
		nil, {0}, ints(-1), ints(-2), ints(1 << 30), ints(0, 0, 0, 0), ints(-1, -1, -1, -1, -1, -1),
		jute.AppendString(nil, "/\x00"), jute.AppendString(nil, strings.Repeat("/a", 1000)),
		append(jute.AppendString(nil, "/fuzz"), ints(1<<30, 1<<30)...),
		ints(14, 0, -1), append(jute.AppendLong(nil, 1), ints(1<<29, 1<<29, 1<<29)...),
		append(wire.MultiHeader{Type: wire.OpCreate}.Append(nil), ints(1<<30)...),
	}
	for i, op := range ops {
		for k, body := range bodies {
			b := encode(bytes.Clone(hello), int32(i), op, body)
			// What is right behind must not be harmed, or not be answered.
			inputs = append(inputs, encode(b, int32(k), wire.OpGetData, readBody("/", false)))
		}
	}
	return inputs
}

// besides feeds input to a connection of its own next to a well-behaved client.
func besides(t *testing.T, s *rig, good *wireClient, input []byte) {
	t.Helper()
	nc := s.pipe()
	bad := newWireClient(t, nc)
	written := make(chan struct{})
	go func() {
		defer close(written)
		nc.Write(input) // may fail: the connection is closed in the middle
	}()
	read := make(chan int64, 1)
	go func() {
		n, _ := io.Copy(io.Discard, bad.in)
		read <- n
	}()
	synctest.Wait()
	path := fmt.Sprintf("/good%d", good.xid)
	good.create(path, "data", zk.Persistent)
	if data, _ := good.get(path); data != "data" {
		t.Errorf("the other client reads %q", data)
	}
	good.mustCall(wire.OpDelete, deleteBody(path))
	nc.Close()
	<-written
	if n := <-read; n > int64(len(input))*20+64<<10 {
		t.Errorf("%d bytes in, %d out", len(input), n)
	}
	synctest.Wait()
	if n := s.conns(); n != 1 {
		t.Errorf("%d connections are left", n)
	}
}

// connGoroutines counts the goroutines that serve connections.
func connGoroutines() int {
	stacks := make([]byte, 1<<20)
	n := 0
	for stack := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
		if strings.Contains(stack, "server.(*conn).") {
			n++
		}
	}
	return n
}

// Bad input costs other clients nothing, and leaves nothing behind.
func TestBadInput(t *testing.T) {
	bubble(t, func(t *testing.T, s *rig) {
		good := s.open()
		besides(t, s, good, nil)
		before := connGoroutines()
		for i, input := range badInputs() {
			besides(t, s, good, input)
			good.call(wire.OpPing, nil)
			if t.Failed() {
				t.Fatalf("input %d: %q", i, input)
			}
		}
		if s.failed() {
			t.Fatalf("the replica has failed: %v", s.rep.Failure())
		}
		if after := connGoroutines(); after > before {
			t.Errorf("%d goroutines of connections, %d before", after, before)
		}
		// Nor do the sessions stay.
		for range 6 {
			pass(rigTick)
			good.call(wire.OpPing, nil)
		}
		n := s.sessions()
		if n != 1 {
			t.Errorf("%d sessions are left", n)
		}
	})
}

// Half-open connections, with a part of a frame or of a handshake, end by the
// clock; what they hold is what they have sent.
func TestHalfOpenConnections(t *testing.T) {
	bubble(t, func(t *testing.T, s *rig) {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		before := m.HeapAlloc
		for i := range 100 {
			b := binary.BigEndian.AppendUint32(nil, 1<<20-1) // announces a megabyte
			if i%2 == 0 {
				b = append(handshakeBytes(), b...)
			}
			s.pipe().Write(append(b, "part"...))
		}
		synctest.Wait()
		runtime.GC()
		runtime.ReadMemStats(&m)
		if grown := int64(m.HeapAlloc) - int64(before); grown > 100*(readBufferBytes+32<<10) {
			t.Errorf("100 half-open connections hold %d bytes", grown)
		}
		if s.conns() != 100 {
			t.Errorf("%d connections", s.conns())
		}
		pass(10*rigTick + lastWords)
		if s.conns() != 0 {
			t.Errorf("%d connections are left", s.conns())
		}
	}, func(o *rigSetup) { o.cfg.Client.SessionlessTimeout = 5 * time.Second })
}

// A frame may come in pieces of any length.
func TestFramesInPieces(t *testing.T) {
	bubble(t, func(t *testing.T, s *rig) {
		rng := rand.New(rand.NewPCG(1, 2))
		c := newWireClient(t, s.pipe())
		b := handshakeBytes()
		b = encode(b, 1, wire.OpCreate, createBody("/x", big[:100<<10], zk.Persistent))
		b = encode(b, 2, wire.OpGetData, readBody("/x", false))
		go func() {
			for len(b) > 0 {
				n := min(1+rng.IntN(1+rng.IntN(3000)), len(b))
				c.nc.Write(b[:n])
				b = b[n:]
			}
		}()
		if _, err := c.readFrame(); err != nil {
			t.Fatal(err)
		}
		for xid := range int32(2) {
			if r, err := c.next(); err != nil || r.Xid != xid+1 || r.Err != zk.OK {
				t.Fatalf("%+v, %v", r.ReplyHeader, err)
			}
		}
	})
}

// FuzzConnection feeds arbitrary bytes to a connection, with and without a
// handshake before them, next to a client whose requests must stay right.
func FuzzConnection(f *testing.F) {
	for _, input := range badInputs() {
		f.Add(true, input)
		if tail, ok := bytes.CutPrefix(input, handshakeBytes()); ok {
			f.Add(false, tail)
		}
	}
	f.Fuzz(func(t *testing.T, bare bool, input []byte) {
		if !bare {
			input = append(handshakeBytes(), input...)
		}
		if len(input) > 16<<10 {
			return
		}
		bubble(t, func(t *testing.T, s *rig) {
			besides(t, s, s.open(), input)
			if s.failed() {
				t.Errorf("the replica has failed: %v", s.rep.Failure())
			}
		})
	})
}
