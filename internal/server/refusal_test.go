package server

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/refusal"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// TestRefusalsOfClientsAreFew: connections that ask for an unknown scheme with a name
// of 1 MB make few and short lines.
func TestRefusalsOfClientsAreFew(t *testing.T) {
	bubble(t, func(t *testing.T, s *rig) {
		var out bytes.Buffer
		s.srv.refused = refusal.New(slog.New(slog.NewTextHandler(&out, nil)))
		scheme := wire.AuthPacket{Scheme: strings.Repeat("x", 1<<20-100)}
		for range 2 * refusal.Burst {
			c := s.open()
			if r := c.call(wire.OpAuth, scheme.Append(nil)); r.Err != zk.ErrAuthFailed {
				t.Fatalf("code %v", r.Err)
			}
		}
		if n := strings.Count(out.String(), "\n"); n == 0 || n > refusal.Burst {
			t.Errorf("%d lines, want %d", n, refusal.Burst)
		}
		if n := out.Len(); n > refusal.Burst*400 {
			t.Errorf("%d bytes of log", n)
		}
	})
}
