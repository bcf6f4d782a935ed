package ensemble

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/transport"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/test/ensemble/client"
	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
	"github.com/pinfold-zk/pinfold/zk"
)

// TestRecoverUnsure creates the second of the states that need an operator (docs/ops/membership.md): a voter has installed
// the tree of a leader with a change that it did not know, is cut off before it knows the change to be committed, and the leader is
// lost. It has the longest history of the two that are left, and may not lead.
func TestRecoverUnsure(t *testing.T) {
	rec := newWedge(t, "pinfold,pinfold,pinfold", 0, "forceSnapshotSync=true")
	lead := rec.installAndLose()
	other := rec.others[0]
	rec.wedged(rec.left, other)
	back := rec.keep(lead)
	rec.empty(lead)
	rec.endsWith(lead, back, other)
	rec.endWedge(other, other, lead)
}

// installAndLose has a leader log a transaction and a change, alone, and brings them to a voter that was away: as a tree, whose
// acknowledgement a gate holds. The leader is killed.
func (r *recovery) installAndLose() (lead *cluster.Member) {
	r.t.Helper()
	lead, _ = r.leader()
	r.left = r.e.Member(lead.ID%3 + 1)
	other := r.e.Member(r.left.ID%3 + 1)
	r.others = []*cluster.Member{other, lead}
	r.left.Kill()
	r.written = r.write(lead)
	_, err := r.e.WaitCaughtUp(r.within(patience), other)
	r.must(err)
	g := r.newGate(lead.Quorum)
	moved := strings.Replace((&membership{rig: r.rig}).line(lead.ID, participant), lead.Quorum, g.address, 1)
	change, _, _ := strings.Cut(moved, ";")
	s := r.visit(lead, true)
	has, err := other.Status()
	r.must(err)
	r.must(other.Pause())
	// The first request becomes a transaction that changes nothing, since that version is wrong.
	r.must(s.Post(client.Set("/before-0", nil, noVersion), reconfig(moved, "", nil, -1)))
	r.untilLogged(lead, change)
	other.Kill()
	lead.Kill()
	r.must(lead.Start())
	r.must(r.left.Start())
	select {
	case <-g.held:
	case <-r.within(patience).Done():
		r.t.Fatalf("%v acknowledges no tree of %v\n%s", r.left, lead, r.left.Tail())
	}
	lead.Kill()
	g.end()
	r.unsure(r.left, change, has.Zxid)
	r.noteChange()
	r.must(other.Start())
	return lead
}

// unsure demands that a member has a change and does not know which members were committed before it; and that another
// server's history, which ends with last, does not tell either.
func (r *recovery) unsure(m *cluster.Member, change string, last zk.Zxid) {
	r.t.Helper()
	content, err := os.ReadFile(membersFile(m))
	r.must(err)
	var has struct {
		Committed, Seen string
		Unsure, Blind   bool
	}
	r.must(json.Unmarshal(content, &has))
	var version zk.Zxid
	_, text, _ := strings.Cut(has.Seen, "version=")
	if _, err := fmt.Sscanf(text, "%x", &version); err != nil {
		r.t.Fatalf("%v: no version in %s", err, content)
	}
	if !has.Unsure || has.Blind || !strings.Contains(has.Seen, change) || strings.Contains(has.Committed, change) {
		r.t.Fatalf("%v has %s, and not in doubt a change with %s", m, content, change)
	}
	if version.Epoch() != last.Epoch() || version <= last+1 {
		r.t.Fatalf("the change is transaction %v, and the other history ends with %v", version, last)
	}
}

// membersFile is the file in which a member of Pinfold's keeps what it knows of the members.
func membersFile(m *cluster.Member) string { return filepath.Join(m.DataDir, "version-2", "members") }

// A gate is before the quorum port of a leader. What the leader sends passes. What a learner sends passes up to its first
// ACK, so that it gets everything from the leader except for UPTODATE.
type gate struct {
	address string
	held    chan struct{} // closed when there is an ACK that does not pass

	leader string
	ln     net.Listener
	wg     sync.WaitGroup
	once   sync.Once

	mu    sync.Mutex
	conns []net.Conn // nil once the gate has ended
	ended bool
}

// newGate opens a gate at a port of its own.
func (r *rig) newGate(leader string) *gate {
	r.t.Helper()
	port, err := r.e.FreePort()
	r.must(err)
	g := &gate{address: fmt.Sprintf("127.0.0.1:%d", port), held: make(chan struct{}), leader: leader}
	g.ln, err = net.Listen("tcp", g.address)
	r.must(err)
	g.wg.Go(g.accept)
	r.t.Cleanup(g.end)
	return g
}

// end closes the gate and all connections.
func (g *gate) end() {
	g.mu.Lock()
	_ = g.ln.Close() // an error means that it is closed
	for _, c := range g.conns {
		_ = c.Close()
	}
	g.conns, g.ended = nil, true
	g.mu.Unlock()
	g.wg.Wait()
}

// add has a connection closed at the end.
func (g *gate) add(c net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.conns = append(g.conns, c); g.ended {
		_ = c.Close()
	}
}

func (g *gate) accept() {
	for {
		learner, err := g.ln.Accept()
		if err != nil {
			return
		}
		g.add(learner)
		leader, err := net.Dial("tcp", g.leader)
		if err != nil {
			_ = learner.Close()
			continue
		}
		g.add(leader)
		g.wg.Go(func() {
			_, _ = io.Copy(learner, leader) // an error is the end of one of the two
			_ = learner.Close()
		})
		g.wg.Go(func() {
			g.pass(leader, learner)
			_ = leader.Close()
		})
	}
}

// pass passes packets until one is an ACK, then reads on and passes nothing.
func (g *gate) pass(leader, learner net.Conn) {
	var got []byte
	buf := make([]byte, 4<<10)
	for {
		n, err := learner.Read(buf)
		if err != nil {
			return
		}
		got = append(got, buf[:n]...)
		for {
			p, size, err := transport.DecodePacket(got, 1<<20)
			if err != nil {
				return
			}
			if size > len(got) {
				break
			}
			if p.Type == zab.Ack {
				g.once.Do(func() { close(g.held) })
				_, _ = io.Copy(io.Discard, learner)
				return
			}
			if _, err := leader.Write(got[:size]); err != nil {
				return
			}
			got = got[size:]
		}
	}
}
