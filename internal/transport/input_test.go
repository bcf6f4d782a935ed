package transport

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/socket"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/zk"
)

// pieces is a reader that returns what cut says, at most.
type pieces struct {
	rest []byte
	cut  func(room int) int
	read int // bytes returned so far
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	n := min(len(b), len(p.rest), max(1, p.cut(len(b))))
	p.read += copy(b, p.rest[:n])
	p.rest = p.rest[n:]
	return n, nil
}

func newInput(src io.Reader) *input {
	in := &input{src: src}
	in.account.Init(socket.NewBudget(64<<20), chunkBytes)
	return in
}

// readAll reads packets until the source ends.
func readAll(t *testing.T, in *input, limit int) (all []zab.Packet) {
	t.Helper()
	for {
		if err := in.fill(); err != nil {
			if err != io.EOF {
				t.Fatal(err)
			}
			return all
		}
		in.chunk.lend() // for ever: the packets are compared at the end
		var err error
		if all, err = in.packets(all, limit); err != nil {
			t.Fatal(err)
		}
	}
}

// randomPackets are of all sizes, some larger than a chunk.
func randomPackets(rnd *rand.Rand, n int) (ps []zab.Packet) {
	for i := range n {
		p := zab.Packet{Type: zab.Commit, Zxid: zk.Zxid(i)}
		switch rnd.IntN(4) {
		case 0:
			p = proposal(p.Zxid, randomBytes(rnd, rnd.IntN(3000)))
		case 1:
			p = zab.Packet{Type: zab.Request, Zxid: -1, Data: randomBytes(rnd, rnd.IntN(50)), Auth: []zk.ID{{Scheme: "ip", ID: "10.0.0.1"}}}
		}
		if i%100 == 50 {
			p = proposal(p.Zxid, randomBytes(rnd, chunkBytes/2+rnd.IntN(2*chunkBytes)))
		}
		ps = append(ps, p)
	}
	return ps
}

func randomBytes(rnd *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	return b
}

func encode(ps []zab.Packet) (b []byte) {
	for _, p := range ps {
		b = AppendPacket(b, p)
	}
	return b
}

// However the stream is cut, its packets come whole and in order, and stay as
// they are while later ones are read.
func TestInputCut(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	want := randomPackets(rnd, 400)
	stream := encode(want)
	for _, tt := range []struct {
		name string
		cut  func(room int) int
	}{
		{"all that there is room for", func(room int) int { return room }},
		{"a segment", func(int) int { return 1448 }},
		{"at random", func(room int) int { return rnd.IntN(100000) }},
		{"small, at random", func(room int) int { return rnd.IntN(300) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := newInput(&pieces{rest: stream, cut: tt.cut})
			comparePackets(t, readAll(t, in, testLimit), want)
			if got := in.src.(*pieces).read; got != len(stream) {
				t.Errorf("%d bytes are counted of %d", got, len(stream))
			}
		})
	}
	t.Run("byte by byte", func(t *testing.T) {
		few := append(want[:40:40], ack(7))
		in := newInput(&pieces{rest: encode(few), cut: func(int) int { return 1 }})
		comparePackets(t, readAll(t, in, testLimit), few)
	})
}

// A packet that announces much gets no more room than twice what has come,
// beyond a chunk; a link that has said nothing holds little.
func TestInputAllocatesAsBytesCome(t *testing.T) {
	const limit = 64 << 20
	b := AppendPacket(nil, proposal(1, make([]byte, 3<<20)))
	binary.BigEndian.PutUint32(b[12:], limit) // announced, and never there
	in := newInput(&pieces{rest: b, cut: func(int) int { return 10000 }})
	for came := 0; ; came = in.src.(*pieces).read {
		if err := in.fill(); err == io.EOF {
			break
		}
		if ps, err := in.packets(nil, limit); err != nil || len(ps) > 0 {
			t.Fatal(ps, err)
		}
		if came == 0 && len(in.buf) != firstChunkBytes {
			t.Errorf("the first buffer has %d bytes", len(in.buf))
		}
		if came > 0 && len(in.buf) > max(chunkBytes, 2*came) {
			t.Fatalf("%d bytes for %d that came", len(in.buf), came)
		}
	}
	if in.src.(*pieces).read != len(b) {
		t.Errorf("read %d of %d", in.src.(*pieces).read, len(b))
	}
}

// Chunks are filled to the end before another is made: a thousand small packets
// that come one by one need what they are long.
func TestInputFillsChunks(t *testing.T) {
	one := encode([]zab.Packet{proposal(1, make([]byte, 236))}) // 256 bytes
	src := &pieces{rest: bytes.Repeat(one, 4*chunkBytes/len(one)), cut: func(int) int { return len(one) }}
	in := newInput(src)
	seen := map[*byte]int{}
	for in.fill() == nil {
		if _, err := in.packets(nil, testLimit); err != nil {
			t.Fatal(err)
		}
		seen[&in.buf[0]] = len(in.buf)
	}
	if len(seen) > 6 {
		t.Errorf("%d chunks for four chunks of packets", len(seen))
	}
}

func TestInputStopsAtGarbage(t *testing.T) {
	b := append(encode([]zab.Packet{ack(1), ack(2)}), "GET / HTTP/1.1\r\n"...)
	in := newInput(&pieces{rest: b, cut: func(room int) int { return room }})
	if err := in.fill(); err != nil {
		t.Fatal(err)
	}
	ps, err := in.packets(nil, testLimit)
	if len(ps) != 2 || !errors.Is(err, ErrPacket) {
		t.Errorf("%v, %v; want two packets and ErrPacket", ps, err)
	}
}

// consume takes exactly n bytes of a stream by its windows.
func consume(s SnapshotSource, n int) (body []byte, err error) {
	b := s.Buffered()
	for {
		take := min(n-len(body), len(b))
		body = append(body, b[:take]...)
		s.Discard(take)
		if len(body) == n {
			return body, nil
		}
		if b, err = s.Fill(1); err != nil {
			return body, err
		}
	}
}

// A snapshot may be cut anywhere, and is followed by packets without a pause.
func TestSnapshotWithinPackets(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for _, size := range []int{0, 1, 1000, chunkBytes - 34, chunkBytes + 17} {
		body := randomBytes(rnd, size)
		before := []zab.Packet{ack(1), {Type: zab.Snap, Zxid: 9}}
		after := []zab.Packet{proposal(10, randomBytes(rnd, 500)), {Type: zab.NewLeader, Zxid: 11}, ack(12)}
		all := slices.Concat(encode(before), body, []byte(signature), encode(after))
		for _, cut := range []func(int) int{
			func(room int) int { return room },
			func(int) int { return rnd.IntN(40) },
			func(int) int { return 1 },
		} {
			in := newInput(&pieces{rest: all, cut: cut})
			comparePackets(t, readUntilSnap(t, in), before)
			s, err := in.beginStream()
			if err != nil {
				t.Fatal(err)
			}
			if b, err := consume(s, size); err != nil || !bytes.Equal(b, body) {
				t.Fatalf("%d bytes of %d, %v", len(b), size, err)
			}
			if err := s.end(); err != nil {
				t.Fatal(err)
			}
			in.chunk.lend()
			rest, err := in.packets(nil, testLimit)
			if err != nil {
				t.Fatal(err)
			}
			comparePackets(t, append(rest, readAll(t, in, testLimit)...), after)
			if got := in.src.(*pieces).read; got != len(all) {
				t.Errorf("%d bytes are counted of %d", got, len(all))
			}
		}
	}
}

func readUntilSnap(t *testing.T, in *input) (ps []zab.Packet) {
	t.Helper()
	for {
		if err := in.fill(); err != nil {
			t.Fatal(err)
		}
		in.chunk.lend() // for ever: the packets are compared at the end
		var err error
		if ps, err = in.packets(ps, testLimit); err != nil {
			t.Fatal(err)
		}
		if len(ps) > 0 && ps[len(ps)-1].Type == zab.Snap {
			return ps
		}
	}
}

func mustStream(t *testing.T, in *input) *stream {
	t.Helper()
	s, err := in.beginStream()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// P6: the buffers of all links stay within their budget, however many links send parts of
// large packets. The others wait, are closed in the end, and leave nothing charged.
func TestP6BuffersOfLinksAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const links, limit, part = 40, 4 << 20, 3 << 20
		budget := socket.NewBudget(limit)
		over := make(chan struct{})
		var ended atomic.Int32
		var group sync.WaitGroup
		for range links {
			in := &input{src: io.MultiReader(bytes.NewReader(make([]byte, part)), silence{over})}
			in.account.Init(budget, chunkBytes)
			group.Go(func() {
				defer in.close()
				for in.fill() == nil {
				}
				ended.Add(1)
			})
		}
		synctest.Wait()
		if used := budget.Used(); used > limit+links*chunkBytes || used < limit {
			t.Errorf("%d bytes are charged, the limit is %d", used, limit)
		}
		time.Sleep(bufferPatience)
		synctest.Wait()
		if ended.Load() == 0 {
			t.Error("no link was closed that waits for room")
		}
		close(over)
		group.Wait()
		if used := budget.Used(); used != 0 {
			t.Errorf("%d bytes stay charged", used)
		}
	})
}

// silence is a peer that sends nothing until over is closed, and closes then.
type silence struct{ over chan struct{} }

func (s silence) Read([]byte) (int, error) {
	<-s.over
	return 0, io.EOF
}

func TestSnapshotWithoutSignature(t *testing.T) {
	in := newInput(&pieces{rest: append([]byte("\x00\x00\x00\x0aBenWasThere"), 0, 0, 0), cut: func(room int) int { return room }})
	if err := mustStream(t, in).end(); !errors.Is(err, ErrPacket) {
		t.Errorf("%v, want ErrPacket", err)
	}
	in = newInput(&pieces{rest: []byte("\x00\x00\x00\x0aBenWas"), cut: func(room int) int { return room }})
	if err := mustStream(t, in).end(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%v, want the unexpected end", err)
	}
}

// Fill shows more and more until what is asked for is there, and no more memory
// is taken than twice what came.
func TestFillGrows(t *testing.T) {
	all := randomBytes(rand.New(rand.NewPCG(5, 6)), 5*chunkBytes)
	in := newInput(&pieces{rest: all, cut: func(int) int { return 5000 }})
	s, err := in.beginStream()
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n < len(all); n += 7777 {
		b, err := s.Fill(n)
		if err != nil || len(b) < n || !bytes.Equal(b, all[:len(b)]) {
			t.Fatalf("Fill(%d): %d bytes, %v", n, len(b), err)
		}
		if len(s.buf) > max(chunkBytes, 2*len(b)) {
			t.Fatalf("%d bytes of buffer for %d", len(s.buf), len(b))
		}
	}
	if b, err := s.Fill(len(all) + 1); err != io.ErrUnexpectedEOF || !bytes.Equal(b, all) {
		t.Errorf("past the end: %d bytes, %v", len(b), err)
	}
}

// A chunk is used again when the input has left it and every handler has released it, and
// not before.
func TestChunkIsReleased(t *testing.T) {
	var all []byte
	for range 3 * chunkBytes / 1000 {
		all = AppendPacket(all, proposal(1, make([]byte, 1000)))
	}
	in := newInput(&pieces{rest: all, cut: func(n int) int { return n }})
	type held struct {
		c  *chunk
		ps []zab.Packet
	}
	var lent []held
	for in.fill() == nil {
		ps, err := in.packets(nil, testLimit)
		if err != nil {
			t.Fatal(err)
		}
		if len(ps) > 0 {
			in.chunk.lend()
			lent = append(lent, held{in.chunk, ps})
		}
	}
	in.close()
	refs := map[*chunk]int32{}
	for _, h := range lent {
		refs[h.c]++
	}
	if len(refs) < 3 {
		t.Fatalf("%d chunks", len(refs))
	}
	for c, n := range refs {
		if got := c.refs.Load(); got != n {
			t.Errorf("a chunk has %d references, was lent %d times", got, n)
		}
		for range n {
			c.Release()
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("a chunk can be released twice")
				}
			}()
			c.Release()
		}()
	}
}
