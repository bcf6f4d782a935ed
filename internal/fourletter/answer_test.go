package fourletter

import (
	"context"
	"net"
	"testing"
	"time"
)

// A server is gone if its port refuses, not if the time for the answer is over.
func TestGone(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	asked := func(ctx context.Context) Answer {
		return Answered(ctx, func(ctx context.Context) (Status, error) { return Srvr(ctx, addr) })
	}
	over, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	if a := asked(over); a.Err == nil || a.Gone() {
		t.Errorf("with no time left: %v", a)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if a := asked(canceled); a.Err == nil || a.Gone() {
		t.Errorf("canceled: %v", a)
	}
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	if a := asked(t.Context()); !a.Gone() {
		t.Errorf("at a closed port: %v", a)
	}
}
