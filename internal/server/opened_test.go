package server

import (
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/ratelimit"
	"github.com/pinfold-zk/pinfold/internal/session"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// P6: the sessions of all clients stay within sessionBytes, whether they have a connection
// or not. The address that has opened most is refused first, and is disconnected; others
// still open theirs; what ends leaves room.
func TestP6SessionsStayWithinTheirBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 16
		s := newRig(t, func(o *rigSetup) { o.cfg.Session.Bytes = limit * session.Weight })
		ports := uint16(40000)
		opens := func(host byte) bool {
			ports++
			c := newWireClient(t, s.pipeFrom(netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 9, host}), ports)))
			if err := c.connect(wire.ConnectRequest{TimeoutMillis: 20000}); err != nil {
				return false
			}
			_ = c.nc.Close() // the session goes on
			return true
		}
		most := func(host byte) (n int) {
			for n < 2*limit && opens(host) {
				n++
			}
			return n
		}
		if n := most(1); n != limit/2 {
			t.Errorf("one address opens %d sessions, want %d", n, limit/2)
		}
		if n := most(2); n != limit/4 {
			t.Errorf("another address opens %d sessions, want %d", n, limit/4)
		}
		if !opens(3) {
			t.Error("a third address opens none")
		}
		for _, m := range s.srv.Metrics().Snapshot() {
			switch m.Name {
			case "session_memory_bytes":
				if got, want := m.Samples[0].Int, int64(s.sessions()*session.Weight); got != want {
					t.Errorf("session_memory_bytes is %d, want %d", got, want)
				}
			case "sessions_refused_count":
				if got := m.Samples[0].Int; got != 2 {
					t.Errorf("sessions_refused_count is %d, want 2", got)
				}
			}
		}
		pass(30 * time.Second)
		if n := s.sessions(); n != 0 {
			t.Fatalf("%d sessions have not expired", n)
		}
		if len(s.srv.opened.at)+len(s.srv.opened.by) > 0 {
			t.Errorf("sessions that are over count: %v", s.srv.opened.by)
		}
		if n := most(1); n != limit/2 {
			t.Errorf("after the end of all others one address opens %d sessions, want %d", n, limit/2)
		}
	})
}

// A session that has ended without a transaction, as a leader's snapshot has replaced the
// tree, is counted out before another is refused.
func TestSessionsThatEndUnnoticedAreCountedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t, func(o *rigSetup) { o.cfg.Session.Bytes = 8 * session.Weight })
		c := s.open()
		addr := c.nc.LocalAddr().(*net.TCPAddr).AddrPort().Addr()
		for id := range zk.SessionID(endedPiece + 10) {
			s.srv.opened.begin(id+1, addr)
		}
		if s.srv.mayOpen(addr) {
			t.Error("an address with more than the budget may open a session")
		}
		s.srv.opened.doubt()
		if !s.srv.mayOpen(addr) || s.srv.opened.of(addr) != 1 {
			t.Errorf("the address counts %d sessions, and has 1", s.srv.opened.of(addr))
		}
	})
}

// All addresses of a network of IPv6 count as one: a client has them all.
func TestHostOf(t *testing.T) {
	for _, tt := range [][2]string{
		{"10.0.0.1", "10.0.0.1"}, {"::ffff:10.0.0.1", "10.0.0.1"}, {"2001:db8::1", "2001:db8::"}, {"2001:db8:0:0:9::2%eth0", "2001:db8::"}, {"::1", "::1"},
	} {
		if got := ratelimit.HostOf(netip.MustParseAddr(tt[0])); got != netip.MustParseAddr(tt[1]) {
			t.Errorf("%s counts as %v, want %s", tt[0], got, tt[1])
		}
	}
}
