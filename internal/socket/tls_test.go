package socket

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// certificate is made anew for each call.
func certificate(t testing.TB) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"server"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// tlsPair returns a server's end of a TLS connection over loopback, with the
// handshake done, and the client.
func tlsPair(t testing.TB) (*end, net.Conn) {
	t.Helper()
	near, far := tcp(t)
	config := &tls.Config{Certificates: []tls.Certificate{certificate(t)}}
	c := New(near, Options{Layer: func(nc net.Conn) net.Conn { return tls.Server(nc, config) }})
	client := tls.Client(far, &tls.Config{InsecureSkipVerify: true})
	done := make(chan error, 1)
	go func() { done <- client.Handshake() }()
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return newEnd(c), client
}

// A handshake that does not come is ended by the deadline.
func TestHandshakeTimesOut(t *testing.T) {
	near, _ := tcp(t)
	config := &tls.Config{Certificates: []tls.Certificate{certificate(t)}}
	c := New(near, Options{Layer: func(nc net.Conn) net.Conn { return tls.Server(nc, config) }})
	if err := c.SetReadDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if err := c.Handshake(); err == nil {
		t.Error("no error")
	}
}

// A record that arrives byte by byte is read when it is whole, and no buffer is
// held meanwhile.
func TestTLSRecordInPieces(t *testing.T) {
	near, far := tcp(t)
	config := &tls.Config{Certificates: []tls.Certificate{certificate(t)}}
	c := New(near, Options{Layer: func(nc net.Conn) net.Conn { return tls.Server(nc, config) }})
	slow := &bytewise{Conn: far}
	client := tls.Client(slow, &tls.Config{InsecureSkipVerify: true})
	go client.Handshake() // its result is that of the exchange below
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	e := newEnd(c)
	want := randomBytes(1, 2000)
	go func() { client.Write(want); client.CloseWrite() }()
	var got []byte
	for {
		err := e.in.Fill()
		got = append(got, e.in.Bytes()...)
		e.in.Clear()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%d bytes of %d", len(got), len(want))
	}
}

// bytewise writes one byte at a time.
type bytewise struct{ net.Conn }

func (b *bytewise) Write(p []byte) (int, error) {
	for i := range p {
		if _, err := b.Conn.Write(p[i : i+1]); err != nil {
			return i, err
		}
		runtime.Gosched()
	}
	return len(p), nil
}

// counting is a connection that counts the writes of its descriptor.
type counting struct {
	*net.TCPConn
	writes atomic.Int64
}

func (c *counting) SyscallConn() (syscall.RawConn, error) {
	raw, err := c.TCPConn.SyscallConn()
	return &countingRaw{raw, c}, err
}

type countingRaw struct {
	syscall.RawConn
	c *counting
}

func (r *countingRaw) Write(f func(fd uintptr) bool) error {
	r.c.writes.Add(1)
	return r.RawConn.Write(f)
}

// The records of what is flushed together are written by few system calls.
func TestTLSRecordsInGroups(t *testing.T) {
	near, far := tcp(t)
	config := &tls.Config{Certificates: []tls.Certificate{certificate(t)}, DynamicRecordSizingDisabled: true}
	counted := &counting{TCPConn: near.(*net.TCPConn)}
	c := New(counted, Options{Layer: func(nc net.Conn) net.Conn { return tls.Server(nc, config) }})
	client := tls.Client(far, &tls.Config{InsecureSkipVerify: true})
	go client.Handshake() // its result is that of reading
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	e := newEnd(c)
	for _, size := range []int{100, recordBytes, recordBytes + 1, groupBytes, groupBytes + 1, 5*groupBytes + 100} {
		want := randomBytes(uint64(size), size)
		counted.writes.Store(0)
		e.write(want, true)
		got := make([]byte, size)
		if _, err := io.ReadFull(client, got); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%d bytes arrive changed", size)
		}
		groups := (size + groupBytes - 1) / groupBytes
		if n := int(counted.writes.Load()); n > 2*groups { // twice if the peer is slow
			t.Errorf("%d bytes are written by %d system calls", size, n)
		}
		if n := e.held(); n != 0 {
			t.Errorf("%d bytes are held when all is written", n)
		}
	}
}

// Records that the peer does not read are charged to the account, beside the bytes they were made of.
func TestTLSRecordsAreCharged(t *testing.T) {
	e, client := tlsPair(t)
	const size = 16 << 20 // more than the buffers of both systems
	e.write(make([]byte, size), false)
	for e.conn.ahead() == 0 || !e.flushing() {
		runtime.Gosched()
	}
	e.mu.Lock()
	e.mu.out.settle(true)
	charged, unsent, ahead := e.mu.out.charged, e.mu.out.Unsent(), e.conn.ahead()
	e.mu.Unlock()
	if charged < unsent+ahead {
		t.Errorf("%d bytes are charged for %d and %d of records", charged, unsent, ahead)
	}
	if _, err := io.CopyN(io.Discard, client, size); err != nil {
		t.Fatal(err)
	}
	e.await(func() bool { return !e.mu.out.Writing() })
	if n := e.mu.out.charged; n != 0 {
		t.Errorf("%d bytes are charged when all is written", n)
	}
}

// BenchmarkTLSWrites writes the replies of a pipelined client. It reports the processor time of both ends.
func BenchmarkTLSWrites(b *testing.B) {
	e, client := tlsPair(b)
	const size = 100 << 10
	reply := make([]byte, size)
	arrived := make(chan struct{})
	go func() {
		buf := make([]byte, size)
		for {
			if _, err := io.ReadFull(client, buf); err != nil {
				return
			}
			arrived <- struct{}{}
		}
	}()
	b.SetBytes(size)
	before := processorTime(b)
	for b.Loop() {
		e.write(reply, false)
		<-arrived
	}
	b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "cpu-ns/op")
}

// processorTime is that of this process so far, in nanoseconds.
func processorTime(b *testing.B) int64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
