package socket

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/test/goroutines"
	"github.com/pinfold-zk/pinfold/test/memconn"

	"github.com/pinfold-zk/pinfold/internal/spare"
)

// end is a Conn with its halves, as an owner has them.
type end struct {
	conn    *Conn
	in      Input
	budget  *Budget
	account Account
	group   sync.WaitGroup
	mu      struct {
		sync.Mutex
		sync.Cond
		out     Output
		sending int // bytes
		sent    int // bytes
		drained int // calls
		err     error
	}
}

// testBuffer is the size of pooled buffers.
const testBuffer = 4 << 10

func newEnd(c *Conn) *end {
	e := &end{conn: c}
	e.mu.L = &e.mu.Mutex
	e.budget = NewBudget(1 << 30)
	e.account.Init(e.budget, FreeBytes)
	e.in.Init(c, NewInputPool(testBuffer, new(spare.Buffers)), e.budget)
	e.mu.out.Charge(&e.account)
	e.mu.out.Init(&e.mu.Mutex, e, NewOutputPool(testBuffer, new(spare.Buffers), &e.group))
	e.mu.out.Attach(c)
	return e
}

func (e *end) Sending(n int) { e.mu.sending += n }

func (e *end) Sent(n int, err error) {
	e.mu.sent += n
	if err != nil {
		e.mu.err = err
		e.mu.out.Stop()
	}
	e.mu.Broadcast()
}

func (e *end) Drained() { e.mu.drained++; e.mu.Broadcast() }

// write appends b and flushes.
func (e *end) write(b []byte, wait bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.err != nil {
		return
	}
	e.mu.out.Need()
	e.mu.out.Buf = append(e.mu.out.Buf, b...)
	e.mu.out.Flush(wait)
}

// await waits until ok, which is called with the lock held.
func (e *end) await(ok func() bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for !ok() {
		e.mu.Wait()
	}
}

// flushing reports whether a flusher or another writer is at work.
func (e *end) flushing() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mu.out.Writing()
}

// held is how many bytes of buffers the end holds.
func (e *end) held() (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n = cap(e.mu.out.Buf) + e.mu.out.Unsent()
	if r := e.conn.records; r != nil {
		n += cap(r.backlog)
	}
	if e.in.buf != nil {
		n += len(*e.in.buf)
	}
	return n
}

// tcp returns the two ends of a connection over loopback. The test's end closes
// them.
func tcp(t testing.TB) (near, far net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	near, err = net.Dial("tcp", l.Addr().String())
	if err == nil {
		far, err = l.Accept()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close(); far.Close() })
	return near, far
}

// memory returns the two ends of a connection without a descriptor.
func memory(t testing.TB) (near, far net.Conn) {
	t.Helper()
	client, server := memconn.New(32<<10, netip.MustParseAddrPort("10.0.0.9:40000"))
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

// kinds are the connections that every test of both halves runs on: the end that
// is tested, and the peer as an ordinary net.Conn.
var kinds = []struct {
	name string
	make func(t testing.TB) (*end, net.Conn)
}{
	{"descriptor", func(t testing.TB) (*end, net.Conn) {
		near, far := tcp(t)
		return newEnd(New(near, Options{})), far
	}},
	{"memory", func(t testing.TB) (*end, net.Conn) {
		near, far := memory(t)
		return newEnd(New(near, Options{})), far
	}},
	{"tls", tlsPair},
}

// eachKind runs f as a subtest on every kind of connection. At the end of f no
// flusher may be left.
func eachKind(t *testing.T, f func(t *testing.T, e *end, peer net.Conn)) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			e, peer := k.make(t)
			f(t, e, peer)
			e.conn.Close()
			peer.Close()
			e.group.Wait()
			e.in.Clear()
			e.mu.Lock()
			defer e.mu.Unlock()
			if n := e.budget.Used(); n != 0 {
				t.Errorf("%d bytes are charged at the end", n)
			}
		})
	}
}

func randomBytes(seed uint64, n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)}).Read(b)
	return b
}

// S1: bytes leave in order, from many goroutines, with and without waiting, and in
// streams, while the peer reads slowly.
func TestS1Order(t *testing.T) {
	eachKind(t, func(t *testing.T, e *end, peer net.Conn) {
		const messages = 3000
		got := make(chan []byte)
		go func() { b, _ := io.ReadAll(peer); got <- b }()
		var turn sync.Mutex
		var want []byte
		var shared, copies [][]byte
		rnd := rand.New(rand.NewPCG(1, 2))
		next := 0
		step := func() bool { // each appends under turn, so that the order is known
			turn.Lock()
			defer turn.Unlock()
			if next == messages {
				return false
			}
			next++
			b := randomBytes(uint64(next), rnd.IntN(3000))
			want = append(want, b...)
			if next%25 != 0 {
				e.write(b, next%3 == 0)
				return true
			}
			e.mu.Lock()
			defer e.mu.Unlock()
			if next%50 != 0 {
				e.mu.out.Share(b)
				shared, copies = append(shared, b), append(copies, bytes.Clone(b))
				e.mu.out.Flush(next%3 == 0)
				return true
			}
			e.mu.out.Stream(func(w io.Writer) error { _, err := w.Write(b); return err })
			e.mu.out.Flush(false)
			return true
		}
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				for step() {
				}
			})
		}
		group.Wait()
		e.await(func() bool { return e.mu.out.Unsent() == 0 && !e.mu.out.Writing() && len(e.mu.out.streams) == 0 })
		if err := e.conn.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if b := <-got; !bytes.Equal(b, want) {
			t.Errorf("%d bytes arrived of %d, or in another order", len(b), len(want))
		}
		if n := e.conn.Traffic(); n != uint64(len(want)) {
			t.Errorf("traffic %d, want %d", n, len(want))
		}
		if !reflect.DeepEqual(shared, copies) {
			t.Error("bytes that are shared were overwritten")
		}
	})
}

// S1: bytes arrive as they were sent, in buffers that grow, however they are
// consumed.
func TestS1Input(t *testing.T) {
	eachKind(t, func(t *testing.T, e *end, peer net.Conn) {
		want := randomBytes(3, 300<<10)
		go func() {
			for rest := want; len(rest) > 0; {
				n, err := peer.Write(rest[:min(len(rest), 1+len(rest)%7000)])
				if err != nil {
					return
				}
				rest = rest[n:]
			}
			peer.Close()
		}()
		var got []byte
		rnd := rand.New(rand.NewPCG(4, 5))
		for {
			if err := e.in.Fill(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			if size, came := len(*e.in.buf), e.in.Len(); size > max(testBuffer, 2*came+testBuffer) {
				t.Fatalf("a buffer of %d bytes for %d", size, came)
			}
			n := rnd.IntN(e.in.Len() + 1)
			got = append(got, e.in.Bytes()[:n]...)
			e.in.Consume(n)
			e.in.Release()
		}
		got = append(got, e.in.Bytes()...)
		if !bytes.Equal(got, want) {
			t.Errorf("%d bytes of %d, or others", len(got), len(want))
		}
	})
}

// S2: a peer that takes what it is sent costs no goroutine: each flush writes on
// the caller's, on a descriptor with and without a layer.
func TestS2NoFlusherWhileThePeerReads(t *testing.T) {
	for _, k := range kinds {
		if k.name == "memory" {
			continue // it can only block
		}
		t.Run(k.name, func(t *testing.T) {
			e, peer := k.make(t)
			message, echo := randomBytes(6, 9000), make([]byte, 9000)
			for i := range 200 {
				e.write(message, false)
				if e.flushing() {
					t.Fatalf("message %d: a flusher was started", i)
				}
				if _, err := io.ReadFull(peer, echo); err != nil || !bytes.Equal(echo, message) {
					t.Fatalf("message %d: %v", i, err)
				}
			}
			if e.mu.drained != 200 {
				t.Errorf("drained %d times", e.mu.drained)
			}
		})
	}
}

// S2: what a peer does not take is left to one flusher, which ends when the peer
// has caught up; Flush never blocks.
func TestS2FlusherWhileThePeerIsSlow(t *testing.T) {
	eachKind(t, func(t *testing.T, e *end, peer net.Conn) {
		message := randomBytes(7, 256<<10)
		n := 0
		for ; n < 200; n++ {
			e.write(message, false)
			if e.flushing() && n > 40 {
				break
			}
		}
		if n == 200 {
			t.Fatal("the connection takes everything")
		}
		echo := make([]byte, len(message))
		for i := range n + 1 {
			if _, err := io.ReadFull(peer, echo); err != nil || !bytes.Equal(echo, message) {
				t.Fatalf("message %d: %v", i, err)
			}
		}
		e.await(func() bool { return !e.mu.out.Writing() })
		if want := (n + 1) * len(message); e.mu.sent != want || e.mu.sending != want {
			t.Errorf("sending %d, sent %d, want %d", e.mu.sending, e.mu.sent, want)
		}
		if h := e.held(); h > 0 {
			t.Errorf("%d bytes are held when all is sent", h)
		}
	})
}

// S2: a buffer of which a part is sent is in memory completely, and stays charged as such.
func TestS2PartlySentBufferIsCharged(t *testing.T) {
	eachKind(t, func(t *testing.T, e *end, peer net.Conn) {
		message := randomBytes(8, 16<<20)
		e.write(message, false)
		if _, err := io.ReadFull(peer, message[:len(message)/4]); err != nil {
			t.Fatal(err)
		}
		e.await(func() bool { return e.mu.sent >= len(message)/4 })
		e.mu.Lock()
		if held := e.account.Held(); e.mu.out.Writing() && held < len(message) {
			t.Errorf("%d bytes are charged for a buffer of %d", held, len(message))
		}
		e.mu.Unlock()
		if _, err := io.ReadFull(peer, message[len(message)/4:]); err != nil {
			t.Fatal(err)
		}
		e.await(func() bool { return !e.mu.out.Writing() })
		if held := e.account.Held(); held > 0 {
			t.Errorf("%d bytes are charged when all is sent", held)
		}
	})
}

// A write that fails ends the output and its flusher.
func TestWriteFails(t *testing.T) {
	eachKind(t, func(t *testing.T, e *end, peer net.Conn) {
		if err := e.conn.SetWriteDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		for range 60 { // more than any connection takes
			e.write(make([]byte, 256<<10), false)
		}
		e.await(func() bool { return e.mu.err != nil })
		if !errors.Is(e.mu.err, os.ErrDeadlineExceeded) {
			t.Errorf("error %v", e.mu.err)
		}
		e.mu.Lock()
		e.mu.out.AwaitIdle()
		e.mu.Unlock()
		e.write([]byte("more"), true) // returns at once
	})
}

// A stream's error ends the output; what is queued after it is not sent.
func TestStreamFails(t *testing.T) {
	eachKind(t, func(t *testing.T, e *end, peer net.Conn) {
		wrong := errors.New("the log is gone")
		e.mu.Lock()
		e.mu.out.Buf = append(e.mu.out.Buf, "before"...)
		e.mu.out.Stream(func(io.Writer) error { return wrong })
		e.mu.out.Stream(func(io.Writer) error { t.Error("a later stream ran"); return nil })
		e.mu.out.Flush(false)
		e.mu.Unlock()
		b := make([]byte, 6)
		if _, err := io.ReadFull(peer, b); err != nil || string(b) != "before" {
			t.Errorf("%q, %v", b, err)
		}
		e.await(func() bool { return e.mu.err != nil })
		if !errors.Is(e.mu.err, wrong) {
			t.Errorf("error %v", e.mu.err)
		}
	})
}

// S3: a connection that waits for the rest of a short frame holds the bytes that have
// come, and no buffer; they are charged.
func TestS3ShortFrameHoldsItsBytes(t *testing.T) {
	eachKind(t, func(t *testing.T, e *end, peer net.Conn) {
		if e.conn.raw == nil {
			t.Skip("a connection without a descriptor waits with a buffer")
		}
		message := randomBytes(9, 3*testBuffer)
		sent := 0
		for _, upto := range []int{100, testBuffer / 4, testBuffer/4 + 1, testBuffer, len(message)} {
			if _, err := peer.Write(message[sent:upto]); err != nil {
				t.Fatal(err)
			}
			for sent = upto; e.in.Len() < sent; {
				if err := e.in.Fill(); err != nil {
					t.Fatal(err)
				}
			}
			short := upto <= testBuffer/4
			for wait := time.Millisecond; ; wait *= 2 { // on a busy machine a deadline is over before Fill waits
				if err := e.conn.SetReadDeadline(time.Now().Add(wait)); err != nil {
					t.Fatal(err)
				}
				if err := e.in.Fill(); !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Fatal(err)
				}
				if !short || e.in.buf == nil || wait > 10*time.Second {
					break
				}
			}
			if err := e.conn.SetReadDeadline(time.Time{}); err != nil {
				t.Fatal(err)
			}
			if used := int(e.budget.Used()); (e.in.buf == nil) != short || used < upto || short && used > 2*upto || used > 9*testBuffer {
				t.Errorf("after %d bytes it holds a buffer: %v; %d bytes are charged", upto, e.in.buf != nil, used)
			}
			if !bytes.Equal(e.in.Bytes(), message[:upto]) {
				t.Fatalf("other bytes than the %d that were sent", upto)
			}
		}
		if e.in.Clear(); e.budget.Used() != 0 {
			t.Errorf("%d bytes stay charged", e.budget.Used())
		}
	})
}

// S3: a connection that began to wait when the budget had room reads no more than can wait
// without a buffer if there is none when bytes arrive.
func TestS3IdleReliesOnNoRoom(t *testing.T) {
	eachKind(t, func(t *testing.T, e *end, peer net.Conn) {
		if e.conn.raw == nil {
			t.Skip("a connection without a descriptor waits with a buffer")
		}
		waiting := make(chan error)
		go func() { waiting <- e.in.Fill() }()
		if !goroutines.Await("IO wait", "socket.(*Input).Fill") {
			t.Fatal("Fill does not wait")
		}
		var other Account
		other.Init(e.budget, 0)
		other.Charge(1 << 30)
		defer other.Charge(-1 << 30)
		if _, err := peer.Write(make([]byte, testBuffer)); err != nil {
			t.Fatal(err)
		}
		if err := <-waiting; err != nil {
			t.Fatal(err)
		}
		if n := e.in.Len(); n > testBuffer/4 {
			t.Errorf("%d bytes were read", n)
		}
		e.in.Clear()
	})
}

// S3: a connection that waits for input holds no buffer, after it has read and
// written much.
func TestS3IdleHoldsNothing(t *testing.T) {
	eachKind(t, func(t *testing.T, e *end, peer net.Conn) {
		if e.conn.raw == nil {
			t.Skip("a connection without a descriptor waits with a buffer")
		}
		big := randomBytes(8, 100<<10)
		echo := make([]byte, len(big))
		for range 3 {
			go peer.Write(big)
			for read := 0; read < len(big); {
				if err := e.in.Fill(); err != nil {
					t.Fatal(err)
				}
				read += e.in.Len()
				e.in.Clear()
			}
			e.write(big, false)
			if _, err := io.ReadFull(peer, echo); err != nil {
				t.Fatal(err)
			}
		}
		e.await(func() bool { return !e.mu.out.Writing() })
		waiting := make(chan error)
		go func() { waiting <- e.in.Fill() }()
		if !goroutines.Await("IO wait", "socket.(*Input).Fill") {
			t.Fatal("Fill does not wait")
		}
		if err := e.conn.SetReadDeadline(time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
		if err := <-waiting; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
		if h := e.held(); h > 0 {
			t.Errorf("%d bytes are held", h)
		}
	})
}

// S4: what was sent before CloseWrite arrives whole although the peer goes on
// sending, and the connection then ends in order.
func TestS4LastBytesArrive(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			for range 20 {
				e, peer := k.make(t)
				wrote := make(chan error, 1)
				go func() { _, err := peer.Write(make([]byte, 1<<20)); wrote <- err }()
				if err := e.in.Fill(); err != nil {
					t.Fatal(err)
				}
				last := randomBytes(9, 100<<10)
				done := make(chan struct{})
				go func() {
					defer close(done)
					e.write(last, true)
					if err := e.conn.CloseWrite(); err != nil {
						t.Error(err)
					}
					new(Lingering).Drain(e.conn, &e.in)
				}()
				if b, err := io.ReadAll(peer); err != nil || !bytes.Equal(b, last) {
					t.Fatalf("%d bytes of %d, %v", len(b), len(last), err)
				}
				if err := <-wrote; err != nil {
					t.Fatal("the peer could not send:", err)
				}
				peer.Close()
				<-done
			}
		})
	}
}

// Lingering is bounded in time, bytes and connections, and ends with Close.
func TestLingeringIsBounded(t *testing.T) {
	open := func(t *testing.T) (*end, net.Conn) {
		near, far := memory(t)
		e := newEnd(New(near, Options{}))
		if err := e.conn.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		return e, far
	}
	t.Run("time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			e, _ := open(t)
			began := time.Now()
			if new(Lingering).Drain(e.conn, &e.in); time.Since(began) != lingerTimeout {
				t.Errorf("it took %v", time.Since(began))
			}
		})
	})
	t.Run("a peer that sends for ever", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			e, peer := open(t)
			began := time.Now()
			sent := make(chan int)
			go func() {
				total := 0
				for b := make([]byte, 10<<10); ; {
					n, err := peer.Write(b)
					if total += n; err != nil {
						sent <- total
						return
					}
				}
			}()
			new(Lingering).Drain(e.conn, &e.in)
			if total := <-sent; total > lingerBytes+1<<20 || time.Since(began) > 0 {
				t.Errorf("%d bytes in %v", total, time.Since(began))
			}
		})
	})
	t.Run("connections", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var l Lingering
			var group sync.WaitGroup
			var ended sync.Map
			for i := range maxLingering + 10 {
				e, _ := open(t)
				group.Go(func() { l.Drain(e.conn, &e.in); ended.Store(i, true) })
				synctest.Wait()
			}
			for i := range maxLingering + 10 {
				if _, ok := ended.Load(i); ok != (i < 10) {
					t.Errorf("connection %d: ended is %v", i, ok)
				}
			}
			if l.Len() != maxLingering {
				t.Errorf("%d connections linger", l.Len())
			}
			l.Close()
			group.Wait()
			e, _ := open(t)
			began := time.Now()
			if l.Drain(e.conn, &e.in); time.Since(began) > 0 || l.Len() != 0 {
				t.Error("it lingers after Close")
			}
		})
	})
}
