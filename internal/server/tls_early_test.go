package server

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/replica"
)

// With earlyDropSecureConnectionHandshakes a server without a quorum closes a connection with TLS
// before it has read the client's hello. Without it, and on a server with a quorum, the handshake
// begins: here it fails, as the client leaves.
func TestEarlyDrop(t *testing.T) {
	for _, drop := range []bool{true, false} {
		inEnsemble(t, 3, 0, func(e *ensemble) {
			lonely := e.in(replica.Follower)[0]
			e.part(lonely)
			e.until("the quorum is lost", func() bool { return lonely.rep.Mode() == replica.Idle })
			for r, early := range map[*rig]bool{lonely: drop, e.leader(): false} {
				client, nc := net.Pipe()
				c := r.srv.newConn(nc, netip.MustParseAddrPort("10.0.0.1:1"))
				client.Close()
				err := c.encrypt(&tls.Config{}, time.Now().Add(time.Minute))
				counted := r.srv.stats.TLSDropped.Load() == 1
				if errors.Is(err, errNoQuorum) != early || errors.Is(err, io.EOF) == early || counted != early {
					t.Errorf("drop %v, %v: %v, counted %v", drop, r.rep.Mode(), err, counted)
				}
				c.kill("the test is over")
			}
		}, func(_ int64, s *rigSetup) { s.cfg.Client.EarlyDrop = drop })
	}
}
