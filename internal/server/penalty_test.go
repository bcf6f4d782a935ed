package server

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

func TestPenalties(t *testing.T) {
	var p penalties
	a, b := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("2001:db8::1")
	now := time.Hour
	for i, want := range []time.Duration{0, 0, 0, 100, 200, 400, 800, 1600, 3000, 3000} {
		if got := p.failed(a, now); got != want*time.Millisecond {
			t.Errorf("failure %d: %v, want %v ms", i, got, want)
		}
	}
	for range freeFailures + 1 {
		p.failed(b, now)
	}
	if got := p.failed(netip.MustParseAddr("2001:db8::2%eth0"), now); got != 2*firstPenalty {
		t.Errorf("another address of the same network: %v", got)
	}
	for range 2 * freeFailures {
		if got := p.failed(netip.MustParseAddr("127.0.0.1"), now); got != 0 {
			t.Errorf("this machine: %v", got)
		}
	}
	if got := p.failed(a, now+2*forgiveAfter); got != 0 {
		t.Errorf("later: %v", got)
	}
	for i := range 3 * mostOffenders {
		p.failed(netip.AddrFrom4([4]byte{1, byte(i >> 16), byte(i >> 8), byte(i)}), now)
	}
	if n := len(p.mu.offenders); n > mostOffenders {
		t.Errorf("%d addresses are remembered", n)
	}
}

// Replies to failed logins come late, later with each, and nobody else waits. A wrong password
// of the superuser is such a failure, although the client gets the identity.
func TestFailedLoginsAreSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(s *rigSetup) { s.cfg.Auth.SuperDigest = "super:D/InIHSb7yEEbrWz8b9l71RjZJU=" })
		login := func(scheme, auth string) (code zk.Code, took time.Duration) {
			c := r.openFrom(7, 10)
			start := time.Now()
			p := wire.AuthPacket{Scheme: scheme, Auth: []byte(auth)}
			reply, err := c.do(wire.OpAuth, p.Append(nil))
			if err != nil {
				t.Fatal(err)
			}
			return reply.Err, time.Since(start)
		}
		for i, c := range []struct {
			scheme, auth string
			code         zk.Code
			wait         time.Duration
		}{
			{"none", "x", zk.ErrAuthFailed, 0},
			{"none", "x", zk.ErrAuthFailed, 0},
			{"none", "x", zk.ErrAuthFailed, 0},
			{"none", "x", zk.ErrAuthFailed, firstPenalty},
			{"none", "x", zk.ErrAuthFailed, 2 * firstPenalty},
			{"digest", "super:guess", zk.OK, 4 * firstPenalty},
			{"digest", "bob:builder", zk.OK, 0},
		} {
			code, took := login(c.scheme, c.auth)
			if code != c.code || took != c.wait {
				t.Errorf("login %d: %v after %v, want %v after %v", i, code, took, c.code, c.wait)
			}
		}
		if n := r.srv.stats.LoginsFailed.Load(); n != 6 {
			t.Errorf("%d failed logins are counted", n)
		}
		start := time.Now()
		r.open().call(wire.OpPing, nil)
		if time.Since(start) != 0 {
			t.Error("another client waited")
		}
	})
}
