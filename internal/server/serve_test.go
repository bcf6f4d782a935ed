package server

import (
	"errors"
	"net"
	"testing"
)

// A server that is stopped before it serves closes the listener, unless its owner has.
func TestServeAfterStop(t *testing.T) {
	s := newRig(t)
	s.stop()
	for _, closed := range []bool{false, true} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if closed {
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.srv.Serve(l, nil); err != nil {
			t.Errorf("already closed %v: %v", closed, err)
		}
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("already closed %v: then the port is open: %v", closed, err)
		}
	}
}
