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
