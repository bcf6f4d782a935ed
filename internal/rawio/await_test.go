//go:build linux && (amd64 || arm64) && !race

package rawio

import (
	"net"
	"testing"
)

// connected returns the two ends of a TCP connection.
func connected(t *testing.T) (a, b *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	near, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close(); far.Close() })
	return near.(*net.TCPConn), far.(*net.TCPConn)
}

// If this fails after an update of Go: see ADR 31 for what to look at.
func TestPollIsKnown(t *testing.T) {
	a, _ := connected(t)
	if PollOf(a) == 0 {
		t.Error("the poller's entry of a TCP connection is not known: clients' connections read more often than they need to")
	}
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	if PollOf(near) != 0 || PollOf(nil) != 0 || PollOf(new(net.TCPConn)) != 0 {
		t.Error("what has no descriptor has an entry")
	}
}

// What was reported before the wait ends it, and so does what comes later; RawConn.Read tells why it has ended otherwise.
func TestAwait(t *testing.T) {
	a, b := connected(t)
	raw, err := a.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	await := func() (readable bool) {
		if err := raw.Control(func(uintptr) { readable = PollOf(a).Await() }); err != nil {
			t.Fatal(err)
		}
		return readable
	}
	buf := make([]byte, 10)
	for range 100 {
		if _, err := b.Write([]byte("x")); err != nil || !await() {
			t.Fatal("not readable", err)
		}
		if n, err := a.Read(buf); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	go b.Write([]byte("x"))
	if !await() {
		t.Error("not readable")
	}
	a.CloseRead()
	if !await() { // an end is readable
		t.Error("the end is not readable")
	}
	a.Close()
	if err := raw.Control(func(uintptr) {}); err == nil {
		t.Error("a closed connection has a descriptor")
	}
}
