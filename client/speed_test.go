package client

import (
	"context"
	"encoding/binary"
	"net"
	"sync"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// prompt is a server that answers everything at once: reads of data by 1 KiB,
// changes by a Stat. It allocates nothing for a request.
type prompt struct {
	conn net.Conn
	in   []byte
	out  []byte
}

func (p *prompt) serve() {
	data := make([]byte, 1024)
	n, greeted := 0, false
	for {
		m, err := p.conn.Read(p.in[n:])
		if err != nil {
			return
		}
		n += m
		at := 0
		for n-at >= 4 {
			size := int(binary.BigEndian.Uint32(p.in[at:]))
			if n-at < 4+size {
				break
			}
			body := p.in[at+4 : at+4+size]
			at += 4 + size
			if !greeted {
				answer := wire.ConnectResponse{TimeoutMillis: 30_000, SessionID: 5, Password: testPassword, HasReadOnly: true}
				p.out = append(p.out, frame(answer.Append)...)
				greeted = true
				continue
			}
			p.answer(int32(binary.BigEndian.Uint32(body)), wire.OpCode(binary.BigEndian.Uint32(body[4:])), data)
		}
		n = copy(p.in, p.in[at:n])
		if _, err := p.conn.Write(p.out); err != nil {
			return
		}
		p.out = p.out[:0]
	}
}

func (p *prompt) answer(xid int32, op wire.OpCode, data []byte) {
	start := len(p.out)
	p.out = wire.ReplyHeader{Xid: xid, Zxid: 1}.Append(append(p.out, 0, 0, 0, 0))
	switch op {
	case wire.OpGetData:
		p.out = binary.BigEndian.AppendUint32(p.out, uint32(len(data)))
		p.out = append(p.out, data...)
		p.out = wire.AppendStat(p.out, &zk.Stat{})
	case wire.OpSetData, wire.OpExists:
		p.out = wire.AppendStat(p.out, &zk.Stat{})
	}
	binary.BigEndian.PutUint32(p.out[start:], uint32(len(p.out)-start-4))
}

// promptClient is at a prompt server, by a socket: connections in memory allocate.
func promptClient(t testing.TB) *Client {
	t.Helper()
	in, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	var served sync.WaitGroup
	served.Go(func() {
		conn, err := in.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		p := &prompt{conn: conn, in: make([]byte, 256<<10)}
		p.serve()
	})
	c, err := Dial(t.Context(), in.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.abandon()
		served.Wait()
	})
	return c
}

// flight starts n operations and waits for their callbacks.
type flight struct {
	c    *Client
	data []byte
	left sync.WaitGroup

	got func(data []byte, stat zk.Stat, err error)
	set func(stat zk.Stat, err error)
}

func newFlight(t testing.TB, c *Client) *flight {
	f := &flight{c: c, data: make([]byte, 1024)}
	f.got = func(data []byte, _ zk.Stat, err error) {
		if err != nil || len(data) != 1024 {
			t.Errorf("%d bytes, %v", len(data), err)
		}
		f.left.Done()
	}
	f.set = func(_ zk.Stat, err error) {
		if err != nil {
			t.Error(err)
		}
		f.left.Done()
	}
	return f
}

func (f *flight) gets(ctx context.Context, n int) {
	f.left.Add(n)
	for range n {
		f.c.GetAsync(ctx, "/bench/znode-0001", f.got)
	}
	f.left.Wait()
}

func (f *flight) sets(ctx context.Context, n int) {
	f.left.Add(n)
	for range n {
		f.c.SetAsync(ctx, "/bench/znode-0001", f.data, -1, f.set)
	}
	f.left.Wait()
}

// Operations of 1 KiB that call back allocate nothing. A get that waits allocates
// its data; those that wait are allowed one more, as under the race detector a
// sync.Pool forgets at random.
func TestAllocations(t *testing.T) {
	f := newFlight(t, promptClient(t))
	ctx := t.Context()
	const batch = 500
	for _, x := range []struct {
		name string
		most float64
		run  func()
	}{
		{"GetAsync", 0.1, func() { f.gets(ctx, batch) }},
		{"SetAsync", 0.1, func() { f.sets(ctx, batch) }},
		{"GetAsync, one by one", 0.1, func() {
			for range batch {
				f.gets(ctx, 1)
			}
		}},
		{"Get", 2, func() {
			for range batch {
				if _, _, err := f.c.Get(ctx, "/bench/znode-0001"); err != nil {
					t.Error(err)
				}
			}
		}},
		{"Set", 1, func() {
			for range batch {
				if _, err := f.c.Set(ctx, "/bench/znode-0001", f.data, -1); err != nil {
					t.Error(err)
				}
			}
		}},
	} {
		if each := testing.AllocsPerRun(10, x.run) / batch; each > x.most {
			t.Errorf("%s: %.2f allocations, more than %v", x.name, each, x.most)
		} else {
			t.Logf("%s: %.2f allocations", x.name, each)
		}
	}
}

func BenchmarkGetAsync(b *testing.B) {
	f := newFlight(b, promptClient(b))
	b.ReportAllocs()
	f.gets(b.Context(), b.N)
}

func BenchmarkSetAsync(b *testing.B) {
	f := newFlight(b, promptClient(b))
	b.ReportAllocs()
	f.sets(b.Context(), b.N)
}

func BenchmarkGet(b *testing.B) {
	c := promptClient(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := c.Get(b.Context(), "/bench/znode-0001"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSet(b *testing.B) {
	c, data := promptClient(b), make([]byte, 1024)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Set(b.Context(), "/bench/znode-0001", data, -1); err != nil {
			b.Fatal(err)
		}
	}
}
