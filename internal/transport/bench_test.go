package transport

import (
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/zk"
)

// counter is a Handler that counts packets.
type counter struct {
	up      chan zab.LinkID
	packets int           // the reader's
	want    atomic.Int64  // so many, and done hears of it
	run     int           // packets of a run, each of which takes one from window
	window  chan struct{} // holds a value for each run that is under way
	done    chan error
}

func (c *counter) LinkUp(l zab.LinkID, _ string, _ bool) { c.up <- l }
func (c *counter) Packets(_ zab.LinkID, ps []zab.Packet, mem Lease) {
	defer mem.Release()
	for range (c.packets+len(ps))/c.run - c.packets/c.run {
		<-c.window
	}
	if c.packets += len(ps); int64(c.packets) == c.want.Load() {
		c.done <- nil
	}
}
func (c *counter) Work(Reader) bool                                   { return true }
func (c *counter) LinkDown(_ zab.LinkID, err error)                   { c.done <- err }
func (c *counter) Snapshot(zab.LinkID, zk.Zxid, SnapshotSource) error { return io.EOF }
func (c *counter) Notification(int64, []byte)                         {}
func (c *counter) PeerUp(int64)                                       {}
func (c *counter) PeerDown(int64)                                     {}

// windowBytes is how much BenchmarkLink sends ahead of what has arrived, as a
// leader does that has so many proposals outstanding.
const windowBytes = 4 << 20

// BenchmarkLink sends packets over loopback, in runs, as fast as they are taken.
// The time is for both ends.
func BenchmarkLink(b *testing.B) {
	for _, bm := range []struct {
		name   string
		packet zab.Packet
		run    int
	}{
		{"ack", ack(1), 1}, {"ack", ack(1), 64},
		{"proposal1k", proposal(1, make([]byte, 1024)), 1}, {"proposal1k", proposal(1, make([]byte, 1024)), 64},
		{"proposal1k", proposal(1, make([]byte, 1024)), 2048},
	} {
		b.Run(fmt.Sprintf("%s/run=%d", bm.name, bm.run), func(b *testing.B) {
			quorum, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			peers := map[int64][]Address{1: {{"127.0.0.1", quorum.Addr().(*net.TCPAddr).Port, 1}}, 2: {{"127.0.0.1", 1, 1}}}
			size := len(AppendPacket(nil, bm.packet)) * bm.run
			leader, learner := newCounter(1, 1), newCounter(bm.run, max(1, windowBytes/size))
			leader.window <- struct{}{}
			a := benchNode(b, Options{
				ID: 1, Peers: peers, Handler: leader, QuorumListen: []string{"given"}, MaxQueueBytes: 1 << 40,
				Listen: func(string) (net.Listener, error) { return quorum, nil },
			})
			l := benchNode(b, Options{ID: 2, Peers: peers, Handler: learner})
			learner.want.Store(int64(b.N * bm.run))
			leader.want.Store(1)
			l.Send(l.Dial(1, false), []zab.Packet{ack(0)}) // who accepts wants to be told something
			if err := <-leader.done; err != nil {
				b.Fatal(err)
			}
			down := <-leader.up
			run := make([]zab.Packet, bm.run)
			for i := range run {
				run[i] = bm.packet
			}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				learner.window <- struct{}{}
				a.Send(down, run)
			}
			if err := <-learner.done; err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*bm.run), "ns/packet")
		})
	}
}

func newCounter(run, window int) *counter {
	return &counter{
		up: make(chan zab.LinkID, 1), run: run, window: make(chan struct{}, window), done: make(chan error, 2),
	}
}

func benchNode(b *testing.B, o Options) *Transport {
	b.Helper()
	t, err := New(o)
	if err == nil {
		err = t.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { t.Close() })
	return t
}

// BenchmarkInput reads packets out of a stream that is all there.
func BenchmarkInput(b *testing.B) {
	for _, bm := range []struct {
		name   string
		packet zab.Packet
	}{{"ack", ack(1)}, {"proposal1k", proposal(1, make([]byte, 1024))}} {
		b.Run(bm.name, func(b *testing.B) {
			one := AppendPacket(nil, bm.packet)
			in := newInput(&endless{stream: one})
			var ps []zab.Packet
			b.SetBytes(int64(len(one)))
			b.ReportAllocs()
			for n := 0; n < b.N; {
				if err := in.fill(); err != nil {
					b.Fatal(err)
				}
				var err error
				if ps, err = in.packets(ps[:0], testLimit); err != nil {
					b.Fatal(err)
				}
				n += len(ps)
				clear(ps)
			}
		})
	}
}

// endless repeats a stream.
type endless struct {
	stream []byte
	at     int
}

func (e *endless) Read(p []byte) (n int, err error) {
	for n < len(p) {
		k := copy(p[n:], e.stream[e.at:])
		n += k
		e.at = (e.at + k) % len(e.stream)
	}
	return n, nil
}
