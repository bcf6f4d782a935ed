package server

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/internal/watch"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/test/choices"
	"github.com/pinfold-zk/pinfold/zk"
)

var (
	portSeeds = flag.Uint64("port-seeds", 200, "TestClientPortAtRandom: how many inputs")
	portFrom  = flag.Uint64("port-from", 0, "TestClientPortAtRandom: the first seed")
)

// portMaxFrame is jute.maxbuffer of the server. The budgets are small, so that a few
// connections use them up.
const portMaxFrame = 96 << 10

// portMaxSteps bounds what one input does, and portMaxInput its length.
const (
	portMaxSteps = 200
	portMaxInput = 2 << 10
)

// port is a server under the attack of a script.
type port struct {
	*rig
	disk      *gateFS
	stalled   bool // the disk finishes nothing
	script    *portScript
	strangers [4]*portStranger
	past      []*portStranger // those before them
	innocent  *innocent
	trace     []string
}

// runPort interprets an input as the acts of several clients of one server, and checks
// what they and an innocent client are told, and what they leave behind.
func runPort(t *testing.T, input []byte) {
	source := &portScript{choices.New(input[:min(len(input), portMaxInput)])}
	snapshots := of(source, 1<<30, 10, 1<<30, 50)
	synctest.Test(t, func(t *testing.T) {
		disk := newGateFS(vfs.NewMem())
		p := &port{disk: disk, script: source, rig: newRig(t, func(o *rigSetup) {
			o.fs = disk
			o.cfg.Client.MaxFrameBytes, o.cfg.Client.BufferBytes, o.cfg.Requests.MaxOutstandingBytes = portMaxFrame, 1, 1
			o.cfg.Client.SessionlessTimeout = 5 * time.Second
			o.cfg.Commands.Allowed = []string{"*"}
			o.cfg.Snapshot.Count = snapshots
		})}
		err := p.run()
		p.stall(false)
		for _, x := range append(p.past, p.strangers[:]...) {
			if x != nil {
				x.close(false)
			}
		}
		if err != nil {
			t.Errorf("%v\n\t%s", err, strings.Join(p.trace, "\n\t"))
		}
	})
}

func (p *port) note(format string, args ...any) {
	p.trace = append(p.trace, fmt.Sprintf(format, args...))
}

// run lets the clients act; then all leave, and the server is restarted.
func (p *port) run() error {
	p.innocent = newInnocent(p.open())
	for range portMaxSteps {
		if p.script.Done() {
			break
		}
		if err := p.step(); err != nil {
			return err
		}
		if p.failed() {
			return fmt.Errorf("the replica has failed: %w", p.rep.Failure())
		}
	}
	if err := p.part(); err != nil {
		return err
	}
	if err := p.checkServer(1); err != nil {
		return err
	}
	return p.checkRestart()
}

// step does one thing.
func (p *port) step() error {
	s := p.script
	kind, slot := s.N(32), s.N(len(p.strangers))
	switch {
	case kind < 16:
		p.request(slot, 1)
	case kind < 19:
		p.request(slot, 2+s.N(20))
	case kind < 21:
		p.half(slot)
	case kind < 23:
		p.raw(slot)
	case kind < 25:
		x := p.at(slot)
		on := s.N(2) == 1
		p.note("%d reads: %v", slot, on)
		x.setReading(on)
	case kind < 27:
		half := s.Rarely()
		p.note("%d closes, one direction only: %v", slot, half)
		p.at(slot).close(half)
		if !half {
			p.dismiss(slot)
		}
	case kind == 27:
		p.word(slot)
	case kind == 28 && s.Rarely():
		p.crowd(slot)
	case kind == 28:
		p.dismiss(slot)
		p.greet(slot)
	case kind == 30 && s.N(2) == 0:
		p.stall(!p.stalled)
	case kind == 29:
		return p.pass(of(s, time.Millisecond, 100*time.Millisecond, time.Second, 3*time.Second, 11*time.Second, 21*time.Second))
	default:
		p.note("the innocent client acts")
		return p.innocent.act(s, p.stalled)
	}
	if s.N(4) > 0 {
		synctest.Wait()
	}
	return nil
}

// at returns the stranger in a slot; a new one with a session if there is none.
func (p *port) at(slot int) *portStranger {
	if p.strangers[slot] == nil {
		p.note("%d connects", slot)
		p.connect(slot, wire.ConnectRequest{TimeoutMillis: 4000, Password: make([]byte, wire.PasswordLen), HasReadOnly: true})
	}
	return p.strangers[slot]
}

// dismiss empties a slot. Its stranger stays as it is: connected, if it has not closed.
func (p *port) dismiss(slot int) {
	if x := p.strangers[slot]; x != nil {
		p.past = append(p.past, x)
		p.strangers[slot] = nil
	}
}

func (p *port) connect(slot int, req wire.ConnectRequest) {
	p.strangers[slot] = newPortStranger(p.pipe())
	p.strangers[slot].send(frame(req.Append(nil)))
}

// greet connects with a handshake of any form.
func (p *port) greet(slot int) {
	s := p.script
	req := wire.ConnectRequest{TimeoutMillis: of(s, 4000, s.Int()), Password: make([]byte, wire.PasswordLen), HasReadOnly: !s.Rarely()}
	req.ReadOnly = s.Rarely()
	if who := s.N(8); who < len(p.strangers) { // resumes the session of another, or of its own past
		var known []wire.ConnectResponse
		for _, x := range append(p.past, p.strangers[:]...) {
			if x == nil {
				continue
			}
			if k, ok := x.known(); ok {
				known = append(known, k)
			}
		}
		if len(known) > 0 {
			k := known[s.N(len(known))]
			req.SessionID, req.Password = k.SessionID, k.Password
		}
	} else if who == 7 {
		req.SessionID = of(s, p.innocent.resp.SessionID, 1, -1, zk.SessionID(s.Long()))
	}
	if s.Rarely() {
		req.Password = of(s, nil, []byte{}, make([]byte, 1000), []byte("wrong password!!"))
	}
	if s.Rarely() {
		req.LastZxidSeen = zk.Zxid(s.Long())
	}
	if s.Rarely() {
		req.ProtocolVersion = s.Int()
	}
	b := frame(req.Append(nil))
	if s.Rarely() {
		b = b[:s.N(len(b))]
	}
	p.note("%d connects: %+v", slot, req)
	p.strangers[slot] = newPortStranger(p.pipe())
	p.strangers[slot].send(b)
}

// request sends n requests in one write.
func (p *port) request(slot, n int) {
	x := p.at(slot)
	b := x.tail
	x.tail = nil
	for range n {
		if p.script.Done() && n > 1 {
			break
		}
		x.xid++
		f := p.script.request(x.xid)
		p.note("%d sends %.60x of %d bytes", slot, f, len(f))
		b = append(b, f...)
	}
	x.send(b)
}

// half sends the beginning of a request; what is sent next is the rest.
func (p *port) half(slot int) {
	x := p.at(slot)
	x.xid++
	f := append(x.tail, p.script.request(x.xid)...)
	at := min(p.script.N(256), len(f))
	p.note("%d sends %d of %d bytes: %.60x", slot, at, len(f), f)
	x.send(f[:at])
	x.tail = f[at:]
}

// raw sends bytes of the script as they are.
func (p *port) raw(slot int) {
	x, s := p.at(slot), p.script
	b := s.Bytes(s.N(64))
	p.note("%d sends %x", slot, b)
	x.send(b)
}

// crowd creates children with long names, so that the list of them is a long reply.
func (p *port) crowd(slot int) {
	x, path := p.at(slot), p.script.path()
	p.note("%d crowds %.40q", slot, path)
	var b []byte
	for i := range 1 + longReply/(4<<10) {
		x.xid++
		name := fmt.Sprintf("%s/%04d%s", strings.TrimSuffix(path, "/"), i, strings.Repeat("n", 4<<10))
		b = encode(b, x.xid, wire.OpCreate, createBody(name, nil, zk.Persistent))
	}
	x.send(append(x.tail, b...))
	x.tail = nil
}

// stall makes the disk finish nothing, or finish everything.
func (p *port) stall(on bool) {
	if p.stalled != on {
		p.note("the disk stalls: %v", on)
		p.stalled = on
		p.disk.set(on, nil)
	}
}

// word connects and asks a four-letter word.
func (p *port) word(slot int) {
	words := []string{"ruok", "stat", "cons", "dump", "wchp", "wchc", "mntr", "srvr", "wchs", "hash", "conf", "crst", "srst", "gtmk", "stmk\x00\x00\x00\x00\x00\x00\x00\x01", "isro", "envi", "dirs", "none"}
	p.dismiss(slot)
	w := of(p.script, words...)
	p.note("%d asks %q", slot, w)
	p.strangers[slot] = newPortStranger(p.pipe())
	p.strangers[slot].send([]byte(w))
	if p.script.N(2) == 1 {
		p.strangers[slot].setReading(false)
	}
}

// pass lets virtual time pass. The innocent client keeps its session.
func (p *port) pass(d time.Duration) error {
	p.note("%v pass", d)
	for ; d > 0; d -= rigTick {
		pass(min(d, rigTick))
		p.innocent.ask(wire.OpPing, nil, innocentReply{})
		if err := p.innocent.settle(); err != nil {
			return err
		}
	}
	return nil
}

// part makes all strangers read what they were sent, which must be right, and leave.
func (p *port) part() error {
	p.stall(false)
	all := p.past
	for _, x := range p.strangers {
		if x != nil {
			all = append(all, x)
		}
	}
	for _, x := range all {
		x.setReading(true)
	}
	synctest.Wait()
	for _, x := range all {
		if err := x.verdict(); err != nil {
			return err
		}
	}
	if err := p.innocent.lookAtAll(); err != nil {
		return err
	}
	for _, x := range all {
		x.close(false)
	}
	return p.pass(lastWords)
}

// checkServer checks that nothing is left of those who have left.
func (p *port) checkServer(conns int) error {
	synctest.Wait() // the last reply has been read, and may not be accounted for
	watches, due, identified := 0, 0, 0
	p.srv.eachConn(func(c *conn) { identified += c.mu.identified }, nil)
	p.rep.Watches(func(t *watch.Tables) { watches = t.Len() })
	for _, n := range p.innocent.nodes {
		if n.watched {
			due++
		}
	}
	for _, left := range []struct {
		what      string
		got, want int64
	}{
		{"connections", int64(p.conns()), int64(conns)},
		{"watches", int64(watches), int64(due * conns)},
		{"bytes of buffers", p.srv.budget.Used(), int64(identified)},
		{"bytes in flight", p.srv.flight.Used(), 0},
		{"bytes of large requests", p.srv.large.inFlight.Load(), 0},
		{"requests in the pipeline", int64(p.rep.Outstanding()), 0},
		{"goroutines of connections", int64(connGoroutines()), int64(conns)},
	} {
		if left.got != left.want {
			return fmt.Errorf("%d %s are left, want %d", left.got, left.what, left.want)
		}
	}
	_, err := p.dump()
	return err
}

// dump returns the complete tree, a line for each znode. The error says that the tree's
// own digest or counts are not what its znodes add up to.
func (p *port) dump() (lines []string, err error) {
	p.rep.View(func(t replica.View) {
		var digest uint64
		var scratch znode.Scratch
		ephemerals := 0
		var visit func(path string)
		visit = func(path string) {
			id := t.Lookup(path)
			var stat zk.Stat
			t.Stat(id, &stat)
			lines = append(lines, fmt.Sprintf("%.40q %x %+v %v", path, t.Sum(id), stat, p.srv.auth.Mask(t.ACL(id), []zk.ID{{Scheme: "super"}})))
			if m := t.Mode(id); znode.InDigest(path) {
				digest += uint64(m.Digest(t.Sum(id), &scratch))
			}
			if t.IsEphemeral(stat.EphemeralOwner) {
				ephemerals++
			}
			t.Children(id, func(name string) { visit(strings.TrimSuffix(path, "/") + "/" + name) })
		}
		visit("/")
		slices.Sort(lines) // a restart changes the order of children
		switch {
		case digest != t.Digest():
			err = fmt.Errorf("the tree's digest is %x, its znodes' %x", t.Digest(), digest)
		case ephemerals != t.EphemeralCount():
			err = fmt.Errorf("the tree counts %d ephemerals, there are %d", t.EphemeralCount(), ephemerals)
		}
		lines = append(lines, fmt.Sprintf("%d sessions at %v", t.SessionCount(), t.LastZxid()))
	})
	return lines, err
}

// checkRestart restarts the server, which must have the same tree; then all sessions but
// that of the innocent client expire.
func (p *port) checkRestart() error {
	before, err := p.dump()
	if err != nil {
		return err
	}
	p.rig = p.restart()
	after, err := p.dump()
	if err != nil {
		return fmt.Errorf("after a restart: %w", err)
	}
	if !slices.Equal(before, after) {
		return fmt.Errorf("after a restart the tree is another one: before\n\t%s\nafter\n\t%s", strings.Join(before, "\n\t"), strings.Join(after, "\n\t"))
	}
	if err := p.innocent.moveIn(newWireClient(p.t, p.pipe())); err != nil {
		return err
	}
	if err := p.pass(21 * rigTick); err != nil {
		return err
	}
	if err := p.innocent.lookAtAll(); err != nil {
		return err
	}
	if n := p.sessions(); n != 1 {
		return fmt.Errorf("%d sessions are left", n)
	}
	p.innocent.ask(wire.OpCloseSession, nil, innocentReply{})
	if err := p.innocent.settle(); err != nil {
		return err
	}
	pass(lastWords)
	return p.checkServer(0)
}

// Random acts of several clients at once disturb no other client, and leave nothing
// behind.
func TestClientPortAtRandom(t *testing.T) {
	for seed := *portFrom; seed < *portFrom+*portSeeds; seed++ {
		runPort(t, choices.Random(seed, portMaxInput))
		if t.Failed() {
			t.Fatalf("seed %d: go test ./internal/server -run TestClientPortAtRandom -port-from %d -port-seeds 1", seed, seed)
		}
	}
}

// FuzzClientPort does what TestClientPortAtRandom does, with inputs that the fuzzer
// finds.
func FuzzClientPort(f *testing.F) {
	for seed := range uint64(50) {
		f.Add(choices.Random(seed, 300))
	}
	f.Fuzz(runPort)
}
