package replica

import (
	"testing"

	"github.com/pinfold-zk/pinfold/internal/prep"
	"github.com/pinfold-zk/pinfold/internal/session"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/test/memnet"
	"github.com/pinfold-zk/pinfold/zk"
)

// After many writes a server holds the memory of those alone that the core keeps for
// learners: the window. That nobody reads what was released, all tests of groups and the
// simulator show, for it is overwritten.
func TestMemoryIsReleased(t *testing.T) {
	inGroup(t, 3, 1, nil, func(g *group) {
		for _, id := range g.ids {
			g.write(g.up[id], g.session(g.up[id], 100_000), 200)
		}
		pass(groupTick)
		for _, m := range g.up {
			var batches, leases int
			m.inOrder(func(o *orderer) { batches, leases = o.batches.Len(), o.leases.Len() })
			window := m.rep.window()
			most, mostLeases := 0, window
			if m.rep.Mode() == Leader {
				most, mostLeases = window, 0
			}
			if batches > most || leases > mostLeases {
				t.Errorf("server %d, %v: %d batches and %d buffers are held, want at most %d and %d",
					g.id(m), m.rep.Mode(), batches, leases, most, mostLeases)
			}
		}
	})
}

// What a link keeps is not used again.
func TestQueuedMemoryIsKept(t *testing.T) {
	inGroup(t, 3, 0, nil, func(g *group) {
		g.keeps = true
		g.restart()
		leader := g.leader()
		g.write(leader, g.session(leader, 100_000), 200)
		pass(groupTick)
		leader.inOrder(func(o *orderer) {
			if o.batches.Len() == 0 {
				t.Error("no batch is held")
			}
			for _, b := range o.batches.All() {
				if !b.lent {
					t.Errorf("the batch to %v is not marked as kept", b.last())
				}
			}
		})
		g.agree()
	})
}

// Requests that are dropped as their link is lost, and become no transaction, hold up no
// buffer that comes after them; theirs are left to the garbage collector, for requests before
// them may still wait.
func TestDroppedRequestsHoldNoMemory(t *testing.T) {
	inGroup(t, 3, 0, nil, func(g *group) {
		leader, follower := g.leader(), g.in(Follower)[0]
		s := g.session(follower, 100_000)
		const lost = zab.LinkID(1 << 40)
		leader.inOrder(func(o *orderer) {
			o.incoming = append(o.incoming, Request{Request: prep.Request{Owner: ownerOf(lost)}})
			o.received++
			o.leases.Push(lent{mem: neverReleased{t}, received: o.received})
			o.dropForwarded(lost)
		})
		g.write(follower, s, 10)
		pass(groupTick)
		leader.inOrder(func(o *orderer) {
			if n := o.leases.Len(); n > 0 {
				t.Errorf("%d buffers are held", n)
			}
		})
	})
}

type neverReleased struct{ t *testing.T }

func (n neverReleased) Release() { n.t.Error("the buffer is released") }

// inOrder calls f in a turn of Order.
func (m *machine) inOrder(f func(o *orderer)) {
	m.rep.putCall(func(*session.Tracker, func(zk.SessionID) (int64, bool)) { f(&m.rep.order) })
	pass(0)
}

// keeping is a network whose links keep what they are sent.
type keeping struct{ *memnet.Port }

func (k keeping) Send(l zab.LinkID, ps []zab.Packet) bool {
	k.Port.Send(l, ps)
	return true
}
