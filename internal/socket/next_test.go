package socket

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/rawio"

	"github.com/pinfold-zk/pinfold/internal/spare"
)

// inputOn returns an Input on one end of a TCP connection, and the other end.
func inputOn(t testing.TB) (in *Input, peer net.Conn) {
	near, far := tcp(t)
	in = new(Input)
	in.Init(New(near, Options{}), NewInputPool(64, new(spare.Buffers)), NewBudget(0))
	return in, far
}

// awaitUnread waits until n bytes have arrived that were not read.
func awaitUnread(t *testing.T, c *Conn, n int) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); runtime.Gosched() {
		unread := 0
		if err := c.raw.Control(func(fd uintptr) { unread, _ = rawio.Unread(fd) }); err != nil {
			t.Fatal(err)
		}
		if unread == n {
			return
		}
	}
	t.Fatalf("%d bytes have not arrived", n)
}

// fills reads once, and wants these bytes; it consumes them.
func fills(t *testing.T, in *Input, fill func() error, want string) {
	t.Helper()
	if err := fill(); err != nil || string(in.Bytes()) != want {
		t.Fatalf("read %q, %v; want %q", in.Bytes(), err, want)
	}
	in.Consume(len(want))
}

func sends(t *testing.T, peer net.Conn, b string) {
	t.Helper()
	if _, err := peer.Write([]byte(b)); err != nil {
		t.Fatal(err)
	}
}

// Bytes that arrive between a read and the wait for more are found without a read, and so are those that come after.
func TestFillNextForgetsNothing(t *testing.T) {
	in, peer := inputOn(t)
	sends(t, peer, "first")
	fills(t, in, in.Fill, "first")
	if !in.conn.drained {
		t.Error("the read has taken all, which is not noted")
	}
	sends(t, peer, "between")
	awaitUnread(t, in.conn, len("between"))
	fills(t, in, in.FillNext, "between")
	go func() { _, _ = peer.Write([]byte("after")) }()
	fills(t, in, in.FillNext, "after")

	// Of two reports for one read the second finds nothing: FillNext waits on.
	sends(t, peer, "a")
	awaitUnread(t, in.conn, 1)
	sends(t, peer, "b")
	awaitUnread(t, in.conn, 2)
	fills(t, in, in.FillNext, "ab")
	go func() { _, _ = peer.Write([]byte("c")) }()
	fills(t, in, in.FillNext, "c")

	// What a read has left is read without a wait.
	long := string(randomBytes(1, 100))
	sends(t, peer, long)
	awaitUnread(t, in.conn, len(long))
	fills(t, in, in.FillNext, long[:64])
	fills(t, in, in.FillNext, long[64:])
}

// A peer whose bytes come early is read before a wait, and one whose bytes do not is waited for: one wait in 16 is preceded by
// a read.
func TestEarlyBytesAreExpected(t *testing.T) {
	reads := func(e *early, n int, arrives func(i int) bool) (reads int) {
		for i := range n {
			if e.expected() {
				reads++
				e.learn(arrives(i))
			}
		}
		return reads
	}
	for _, c := range []struct {
		name    string
		arrives func(i int) bool
		least   int
		most    int
	}{
		{"never", func(int) bool { return false }, 62, 63},
		{"always", func(int) bool { return true }, 1000, 1000},
		{"every other time", func(i int) bool { return i%2 == 0 }, 1000, 1000},
		{"every tenth time", func(i int) bool { return i%10 == 0 }, 60, 500},
	} {
		if n := reads(new(early), 1000, c.arrives); n < c.least || n > c.most {
			t.Errorf("%s: %d reads before a wait, want %d to %d", c.name, n, c.least, c.most)
		}
	}
	var e early
	reads(&e, 1000, func(int) bool { return true })
	if n := reads(&e, 1000, func(int) bool { return false }); n > 16+63 {
		t.Errorf("after early bytes, %d reads find nothing", n)
	}
}

// No request is forgotten, however it meets the wait: clients and readers take random pauses.
func TestFillNextManyRounds(t *testing.T) {
	const connections, rounds = 8, 2000
	ended := make(chan error, 2*connections)
	for k := range connections {
		in, peer := inputOn(t)
		pause := func(r *rand.Rand) {
			for range r.IntN(50) {
				runtime.Gosched()
			}
		}
		_ = in.conn.SetReadDeadline(time.Now().Add(time.Minute))
		_ = peer.SetReadDeadline(time.Now().Add(time.Minute))
		go func() { // answers each byte
			r := rand.New(rand.NewPCG(1, uint64(k)))
			for got := 0; got < rounds; {
				if err := in.FillNext(); err != nil {
					ended <- err
					return
				}
				b := append([]byte(nil), in.Bytes()...)
				in.Consume(len(b))
				got += len(b)
				pause(r)
				if _, err := in.conn.Write(b); err != nil {
					ended <- err
					return
				}
				pause(r)
			}
			ended <- nil
		}()
		go func() { // sends up to three bytes, and reads the answers
			r := rand.New(rand.NewPCG(2, uint64(k)))
			for sent := 0; sent < rounds; {
				n := min(1+r.IntN(3), rounds-sent)
				for range n {
					if _, err := peer.Write([]byte{1}); err != nil {
						ended <- err
						return
					}
					pause(r)
				}
				if _, err := io.ReadFull(peer, make([]byte, n)); err != nil {
					ended <- err
					return
				}
				sent += n
			}
			ended <- nil
		}()
	}
	for range 2 * connections {
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
}

// A deadline, a close, and the peer's end all end the wait, before it and during it.
func TestFillNextEnds(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(in *Input, peer net.Conn)
		want error
	}{
		{"deadline", func(in *Input, _ net.Conn) { _ = in.conn.SetReadDeadline(time.Unix(1, 0)) }, os.ErrDeadlineExceeded},
		{"close", func(in *Input, _ net.Conn) { in.conn.Close() }, net.ErrClosed},
		{"end of the peer", func(_ *Input, peer net.Conn) { peer.Close() }, io.EOF},
		{"half an end", func(_ *Input, peer net.Conn) { _ = peer.(*net.TCPConn).CloseWrite() }, io.EOF},
		{"reset", func(_ *Input, peer net.Conn) { _ = peer.(*net.TCPConn).SetLinger(0); peer.Close() }, syscall.ECONNRESET},
	} {
		for round := range 20 {
			in, peer := inputOn(t)
			sends(t, peer, "request")
			fills(t, in, in.Fill, "request")
			ended := make(chan error, 1)
			if round%2 == 0 {
				c.end(in, peer)
			}
			go func() { ended <- in.FillNext() }()
			if round%2 == 1 {
				for range round { // the wait may have begun
					runtime.Gosched()
				}
				c.end(in, peer)
			}
			if err := <-ended; !errors.Is(err, c.want) {
				t.Errorf("%s, round %d: %v, want %v", c.name, round, err, c.want)
			}
			if in.buf != nil {
				t.Errorf("%s, round %d: a buffer is left", c.name, round)
			}
			in.conn.Close()
			peer.Close()
		}
	}
}

// An end that comes with the last bytes, or after them, is noticed when the peer has refused the answer.
func TestFillNextAfterAnEndWithBytes(t *testing.T) {
	in, peer := inputOn(t)
	sends(t, peer, "request")
	peer.Close()
	awaitUnread(t, in.conn, len("request"))
	fills(t, in, in.Fill, "request")
	if _, err := in.conn.Write([]byte("answer")); err != nil {
		t.Fatal(err)
	}
	_ = in.conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	if err := in.FillNext(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the end is not noticed: %v", err)
	}
}
