package server

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/ratelimit"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

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
			{"none", "x", zk.ErrAuthFailed, ratelimit.FirstPenalty},
			{"none", "x", zk.ErrAuthFailed, 2 * ratelimit.FirstPenalty},
			{"digest", "super:guess", zk.OK, 4 * ratelimit.FirstPenalty},
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
