package transport

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pinfold-zk/pinfold/internal/peerauth"
	"github.com/pinfold-zk/pinfold/internal/ratelimit"
)

// failedLogins slows those that try to log in, by a certificate or by SASL, and fail: later
// connections from their address wait before the handshake or the login begins. Those that
// wait keep their place among the connections that have not identified themselves, and make
// way for others from the same address. So an address has no more attempts than places in
// the time of a wait, and a flood of connections from it closes itself. A login that succeeds
// ends this for its address: it may be a member's.
type failedLogins struct {
	count atomic.Int64
	start time.Time
	mu    struct {
		sync.Mutex
		ratelimit.Penalties
	}
}

// FailedLogins returns how many accepted connections were refused in the handshake of TLS,
// because of their certificate, or in the login, or because no login came.
func (t *Transport) FailedLogins() int64 { return t.logins.count.Load() }

// failed notes the end of an accepted connection whose login has failed.
func (f *failedLogins) failed(address string) {
	f.count.Add(1)
	if from, err := netip.ParseAddr(address); err == nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.mu.Failed(from, time.Since(f.start))
	}
}

// succeeded notes a login.
func (f *failedLogins) succeeded(address string) {
	if from, err := netip.ParseAddr(address); err == nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.mu.Forgive(from)
	}
}

// wait returns how long a connection from an address waits.
func (f *failedLogins) wait(address string) time.Duration {
	from, err := netip.ParseAddr(address)
	if err != nil {
		return 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.Wait(from, time.Since(f.start))
}

// awaitPenalty waits before the login of an accepted connection begins, at most until gone
// is closed. It waits for a quarter of the time of a first packet at most, in which the other
// server may want its answer.
func (t *Transport) awaitPenalty(address string, gone <-chan struct{}) {
	wait := min(t.logins.wait(address), t.o.HandshakeTimeout/4)
	if wait == 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-gone:
	case <-t.ctx.Done():
	}
}

// noteLoginEnd notes how the login of an accepted connection has ended. It does nothing
// without TLS and SASL.
func (t *Transport) noteLoginEnd(a accepted, address string, err error) {
	switch {
	case a.refused || isRefusal(err):
		t.logins.failed(address)
	case err == nil && (a.leaf != nil || t.o.Authority != nil && t.o.Authority.ServerRequired()):
		t.logins.succeeded(address)
	}
}

// isRefusal reports whether a connection was refused because of its certificate or its login.
// One that ends in silence may be a probe of the port.
func isRefusal(err error) bool {
	return errors.Is(err, ErrIdentity) || errors.Is(err, peerauth.ErrRefused) && !isDisconnect(err)
}

// isDisconnect reports whether a handshake or a login has ended because nothing more came, or
// because the other side refused it.
func isDisconnect(err error) bool {
	var network net.Error // alerts of TLS that the other side sends among them
	for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, os.ErrDeadlineExceeded} {
		if errors.Is(err, end) {
			return true
		}
	}
	return errors.As(err, &network)
}
