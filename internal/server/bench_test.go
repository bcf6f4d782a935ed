package server

import (
	"bufio"
	"encoding/binary"

	"net"
	"sync"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// pipelined sends the same request b.N times, depth at a time, over loopback, and
// reads the replies.
func pipelined(b *testing.B, depth int, op wire.OpCode, body []byte, change ...func(*rigSetup)) {
	s := newRig(b, append(change, realDisk(b))...)
	c := s.openWith(dial(b, s.listen()))
	c.mustCall(wire.OpCreate, createBody("/x", make([]byte, 1024), zk.Persistent))
	var batch []byte
	for i := range depth {
		batch = encode(batch, int32(i), op, body)
	}
	in := bufio.NewReaderSize(c.nc, 1<<20)
	b.ReportAllocs()
	b.ResetTimer()
	for left := b.N; left > 0; left -= depth {
		n := min(left, depth)
		if _, err := c.nc.Write(batch[:len(batch)/depth*n]); err != nil {
			b.Fatal(err)
		}
		if err := discardFrames(in, n); err != nil {
			b.Fatal(err)
		}
	}
}

// realDisk puts the data into a temporary directory: the file system in memory
// allocates every sector.
func realDisk(t testing.TB) func(*rigSetup) {
	return func(o *rigSetup) { o.fs, o.cfg.Data.Dir = vfs.OS{}, t.TempDir() }
}

func discardFrames(in *bufio.Reader, n int) error {
	for range n {
		head, err := in.Peek(4)
		if err != nil {
			return err
		}
		if _, err := in.Discard(4 + int(binary.BigEndian.Uint32(head))); err != nil {
			return err
		}
	}
	return nil
}

func BenchmarkGetData(b *testing.B) {
	pipelined(b, 100, wire.OpGetData, readBody("/x", false))
}

func BenchmarkExists(b *testing.B) {
	pipelined(b, 100, wire.OpExists, readBody("/x", false))
}

func BenchmarkGetDataUnpipelined(b *testing.B) {
	pipelined(b, 1, wire.OpGetData, readBody("/x", false))
}

func BenchmarkSetData(b *testing.B) {
	pipelined(b, 100, wire.OpSetData, setBody("/x", make([]byte, 1024)))
}

// BenchmarkMix has four reads for each write, on eight connections.
func BenchmarkMix(b *testing.B) {
	s := newRig(b, realDisk(b))
	addr := s.listen()
	const depth, clients = 100, 8
	var wg sync.WaitGroup
	var batch []byte
	for i := range depth {
		if i%5 == 0 {
			batch = encode(batch, int32(i), wire.OpSetData, setBody("/x", make([]byte, 1024)))
		} else {
			batch = encode(batch, int32(i), wire.OpGetData, readBody("/x", false))
		}
	}
	s.openWith(dial(b, addr)).create("/x", "", zk.Persistent)
	b.ReportAllocs()
	b.ResetTimer()
	for range clients {
		c := s.openWith(dial(b, addr))
		in := bufio.NewReaderSize(c.nc, 1<<20)
		wg.Go(func() {
			for left := b.N / clients; left > 0; left -= depth {
				if err := roundTrip(c.nc, in, batch, depth); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// Reads allocate nothing; writes little.
func TestAllocations(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector makes sync.Pool forget")
	}
	for _, c := range []struct {
		name  string
		op    wire.OpCode
		body  []byte
		depth int     // requests at a time
		most  float64 // for each request
	}{
		{"getData", wire.OpGetData, readBody("/x", false), 100, 0.05},
		{"exists", wire.OpExists, readBody("/x", false), 100, 0.05},
		{"ping", wire.OpPing, nil, 100, 0.05},
		{"setData", wire.OpSetData, setBody("/x", make([]byte, 100)), 100, 4},
		{"getData alone", wire.OpGetData, readBody("/x", false), 1, 0.5},
		{"setData alone", wire.OpSetData, setBody("/x", make([]byte, 100)), 1, 2.5}, // the Caller's Turn is used again
	} {
		s := newRig(t, realDisk(t))
		client := s.openWith(dial(t, s.listen()))
		client.mustCall(wire.OpCreate, createBody("/x", make([]byte, 100), zk.Persistent))
		var batch []byte
		for i := range c.depth {
			batch = encode(batch, int32(i), c.op, c.body)
		}
		in := bufio.NewReaderSize(client.nc, 1<<20)
		got := testing.AllocsPerRun(200, func() {
			if err := roundTrip(client.nc, in, batch, c.depth); err != nil {
				t.Fatal(err)
			}
		}) / float64(c.depth)
		if got > c.most {
			t.Errorf("%s: %.2f allocations, at most %.2f", c.name, got, c.most)
		}
	}
}

func roundTrip(nc net.Conn, in *bufio.Reader, batch []byte, n int) error {
	if _, err := nc.Write(batch); err != nil {
		return err
	}
	return discardFrames(in, n)
}

// What the limits cost when they are on and nothing waits.
func BenchmarkGetDataUnpipelinedLimited(b *testing.B) {
	pipelined(b, 1, wire.OpGetData, readBody("/x", false), generousLimits)
}

func BenchmarkGetDataLimited(b *testing.B) {
	pipelined(b, 100, wire.OpGetData, readBody("/x", false), generousLimits)
}

func generousLimits(o *rigSetup) {
	o.limits = "session requests=1000000000 bytes=2000000000\nidentity requests=1000000000 bytes=2000000000"
}
