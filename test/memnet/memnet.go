// Package memnet is a network in memory between the servers of an ensemble, for tests.
// It replaces internal/transport, works without sockets, and works in a synctest
// bubble. Packets are handed over as they are, a snapshot in one piece.
package memnet

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/pinfold-zk/pinfold/internal/transport"
	"github.com/pinfold-zk/pinfold/internal/zab"
)

// Network connects the members of one ensemble. The zero value has none.
type Network struct {
	mu struct {
		sync.Mutex
		idle    sync.Cond // running has become 0
		running int       // goroutines
		members map[int64]*Port
		cut     map[[2]int64]bool // for both directions
		last    zab.LinkID
		notes   map[[2]int64][]byte // from and to: the last message of the election
	}
}

// Port is a member's connection to the network: its replica.Network.
type Port struct {
	n       *Network
	id      int64
	handler transport.Handler
	ends    map[zab.LinkID]*end // guarded by n.mu
}

// Errors with which links end.
var (
	errClosed = errors.New("memnet: the link was closed")
	errCut    = errors.New("memnet: the members cannot reach each other")
)

// end is one end of a link. What is to be handed to its owner is queued.
type end struct {
	port *Port
	id   zab.LinkID
	far  *end // nil if the dial failed

	mu struct {
		sync.Mutex
		sync.Cond
		queue  []item
		closed error
		bytes  uint64
	}
	snap zab.Packet // the last packet sent here, if it is a SNAP; owned by the sender
}

// item is what arrives at an end: packets, or a stream, which is read when its turn
// comes.
type item struct {
	mem     transport.Lease // what the packets lie in
	packets []zab.Packet
	stream  func(w io.Writer) error
	snap    zab.Packet // the SNAP before the stream, if it is a snapshot
}

// Attach creates the port of a member; the caller then tells the replica to join. An
// earlier member with the same id is detached.
func (n *Network) Attach(id int64, h transport.Handler) *Port {
	n.Detach(id)
	n.mu.Lock()
	if n.mu.members == nil {
		n.mu.members, n.mu.cut, n.mu.notes = map[int64]*Port{}, map[[2]int64]bool{}, map[[2]int64][]byte{}
	}
	p := &Port{n: n, id: id, handler: h, ends: map[zab.LinkID]*end{}}
	n.mu.members[id] = p
	n.mu.Unlock()
	return p
}

// Meet creates the election links of a member that has joined.
func (n *Network) Meet(id int64) {
	n.mu.Lock()
	p := n.mu.members[id]
	var peers []*Port
	for _, o := range n.mu.members {
		if o != p && !n.mu.cut[[2]int64{o.id, id}] {
			peers = append(peers, o)
		}
	}
	n.mu.Unlock()
	for _, o := range peers {
		n.meet(p, o)
	}
}

// meet creates the election link between two members; each sends its last message on it
// again.
func (n *Network) meet(a, b *Port) {
	n.mu.Lock()
	toA, toB := n.mu.notes[[2]int64{b.id, a.id}], n.mu.notes[[2]int64{a.id, b.id}]
	n.mu.Unlock()
	a.handler.PeerUp(b.id)
	b.handler.PeerUp(a.id)
	if toA != nil {
		a.handler.Notification(b.id, slices.Clone(toA))
	}
	if toB != nil {
		b.handler.Notification(a.id, slices.Clone(toB))
	}
}

// Detach removes a member, as if its process had ended: its links break.
func (n *Network) Detach(id int64) {
	n.mu.Lock()
	p := n.mu.members[id]
	delete(n.mu.members, id)
	var peers []*Port
	for _, o := range n.mu.members {
		peers = append(peers, o)
		delete(n.mu.notes, [2]int64{id, o.id})
	}
	n.mu.Unlock()
	if p == nil {
		return
	}
	p.closeAll(errClosed, func(*end) bool { return true })
	for _, o := range peers {
		o.handler.PeerDown(id)
	}
}

// Cut separates two members: their links break, and no new link can be made.
func (n *Network) Cut(a, b int64) {
	n.mu.Lock()
	n.mu.cut[[2]int64{a, b}], n.mu.cut[[2]int64{b, a}] = true, true
	pa, pb := n.mu.members[a], n.mu.members[b]
	n.mu.Unlock()
	if pa == nil || pb == nil {
		return
	}
	pa.closeAll(errCut, func(e *end) bool { return e.far.port == pb })
	pa.handler.PeerDown(b)
	pb.handler.PeerDown(a)
}

// Heal undoes Cut.
func (n *Network) Heal(a, b int64) {
	n.mu.Lock()
	delete(n.mu.cut, [2]int64{a, b})
	delete(n.mu.cut, [2]int64{b, a})
	pa, pb := n.mu.members[a], n.mu.members[b]
	n.mu.Unlock()
	if pa != nil && pb != nil {
		n.meet(pa, pb)
	}
}

// Close waits until nothing is being handed over. All members must be detached; one that
// still dials meanwhile is told that the link is down.
func (n *Network) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.idle.L = &n.mu.Mutex
	for n.mu.running > 0 {
		n.mu.idle.Wait()
	}
}

// spawn runs f in a goroutine that Close waits for. A WaitGroup would not do: it must not
// grow while Close waits for it. REQUIRES: n.mu.
func (n *Network) spawn(f func()) {
	n.mu.running++
	go func() {
		f()
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.mu.running--; n.mu.running == 0 {
			n.mu.idle.Broadcast()
		}
	}()
}

// closeAll breaks the links for which which returns true.
func (p *Port) closeAll(reason error, which func(*end) bool) {
	p.n.mu.Lock()
	var ends []*end
	for _, e := range p.ends {
		if which(e) {
			ends = append(ends, e)
		}
	}
	p.n.mu.Unlock()
	for _, e := range ends {
		e.shut(reason)
	}
}

// Dial connects to another member's quorum port (replica.Network).
func (p *Port) Dial(peer int64, _ bool) zab.LinkID {
	n := p.n
	n.mu.Lock()
	defer n.mu.Unlock()
	near := n.newEnd(p)
	far := n.mu.members[peer]
	if far == nil || n.mu.members[p.id] != p || n.mu.cut[[2]int64{p.id, peer}] {
		near.far = &end{} // there is no such member
		n.spawn(func() { p.forget(near); p.handler.LinkDown(near.id, errCut) })
		return near.id
	}
	near.far = n.newEnd(far)
	near.far.far = near
	n.spawn(func() { near.far.serve(false) })
	n.spawn(func() { near.serve(true) })
	return near.id
}

// newEnd creates an end. REQUIRES: n.mu.
func (n *Network) newEnd(p *Port) *end {
	n.mu.last++
	e := &end{port: p, id: n.mu.last}
	e.mu.L = &e.mu.Mutex
	p.ends[e.id] = e
	return e
}

func (p *Port) forget(e *end) {
	p.n.mu.Lock()
	delete(p.ends, e.id)
	p.n.mu.Unlock()
}

func (p *Port) end(l zab.LinkID) *end {
	p.n.mu.Lock()
	defer p.n.mu.Unlock()
	return p.ends[l]
}

// serve hands over what arrives, until the link breaks.
func (e *end) serve(dialed bool) {
	e.port.handler.LinkUp(e.id, "memory", dialed)
	e.hand()
}

// StandIn implements transport.Reader.
func (e *end) StandIn() { e.port.n.spawn(e.hand) }

// hand is serve after LinkUp.
func (e *end) hand() {
	for {
		it, err := e.next()
		if err == nil && it.stream != nil {
			err = e.read(&it)
		} else if err == nil {
			e.port.handler.Packets(e.id, it.packets, it.mem)
		}
		if err != nil {
			e.shut(err)
			e.port.forget(e)
			e.port.handler.LinkDown(e.id, err)
			return
		}
		if !e.port.handler.Work(e) {
			return
		}
	}
}

// next waits for the next item. Items that were queued when the link broke are lost.
func (e *end) next() (item, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(e.mu.queue) == 0 && e.mu.closed == nil {
		e.mu.Wait()
	}
	if e.mu.closed != nil {
		return item{}, e.mu.closed
	}
	it := e.mu.queue[0]
	e.mu.queue = e.mu.queue[1:]
	return it, nil
}

// read reads a stream: a snapshot with its signature, or a run of packets.
func (e *end) read(it *item) error {
	var b bytes.Buffer
	if err := it.stream(&b); err != nil {
		return err
	}
	if it.snap.Type == zab.Snap {
		if err := e.port.handler.Snapshot(e.id, it.snap.Zxid, &source{b.Bytes()}); err != nil {
			return err
		}
		e.port.handler.Packets(e.id, []zab.Packet{it.snap}, nil)
		return nil
	}
	var ps []zab.Packet
	for rest := b.Bytes(); len(rest) > 0; {
		p, n, err := transport.DecodePacket(rest, len(rest))
		if err != nil {
			return err
		}
		ps, rest = append(ps, p), rest[n:]
	}
	e.port.handler.Packets(e.id, ps, nil)
	return nil
}

// source is a snapshot that has arrived completely.
type source struct{ b []byte }

func (s *source) Buffered() []byte { return s.b }
func (s *source) Discard(n int)    { s.b = s.b[n:] }

func (s *source) Fill(n int) ([]byte, error) {
	if n > len(s.b) {
		return s.b, io.EOF
	}
	return s.b, nil
}

// arrive queues an item for the end's owner.
func (e *end) arrive(it item) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.closed == nil {
		e.mu.queue = append(e.mu.queue, it)
		for i := range it.packets {
			e.mu.bytes += uint64(len(it.packets[i].Data)) + 1
		}
		e.mu.Signal()
	}
}

// shut breaks the link at both ends.
func (e *end) shut(reason error) {
	for _, side := range []*end{e, e.far} {
		side.mu.Lock()
		if side.mu.closed == nil {
			side.mu.closed = reason
			side.mu.Broadcast()
		}
		side.mu.Unlock()
	}
}

// Send puts packets on a link (replica.Network).
func (p *Port) Send(l zab.LinkID, ps []zab.Packet) (keeps bool) {
	e := p.end(l)
	if e == nil || len(ps) == 0 {
		return false
	}
	mem := new(memory)
	ps = slices.Clone(ps)
	for i := range ps {
		ps[i].Data = mem.clone(ps[i].Data)
	}
	if last := len(ps) - 1; ps[last].Type == zab.Snap {
		e.snap, ps = ps[last], ps[:last] // it is handed over after its body
	}
	if len(ps) > 0 {
		e.far.arrive(item{packets: ps, mem: mem})
	}
	return false
}

// memory is what the packets of an item lie in. It is overwritten when it is released, so
// that a test fails if someone reads it afterwards.
type memory struct{ parts [][]byte }

func (m *memory) clone(b []byte) []byte {
	b = bytes.Clone(b)
	m.parts = append(m.parts, b)
	return b
}

// Release overwrites the memory (replica.Lease).
func (m *memory) Release() {
	for _, b := range m.parts {
		for i := range b {
			b[i] = 0xdb
		}
	}
}

// Stream has f write to a link (replica.Network).
func (p *Port) Stream(l zab.LinkID, f func(w io.Writer) error) {
	e := p.end(l)
	if e == nil {
		return
	}
	e.far.arrive(item{stream: f, snap: e.snap})
	e.snap = zab.Packet{}
}

// CloseLink breaks a link (replica.Network).
func (p *Port) CloseLink(l zab.LinkID, reason error) {
	if e := p.end(l); e != nil {
		e.shut(reason)
	}
}

// Progress returns the number of bytes sent and received on a link (replica.Network).
func (p *Port) Progress(l zab.LinkID) uint64 {
	e := p.end(l)
	if e == nil {
		return 0
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mu.bytes
}

// AppendPacket appends the bytes of a packet (replica.Network).
func (p *Port) AppendPacket(b []byte, packet zab.Packet) []byte {
	return transport.AppendPacket(b, packet)
}

// SetMembers does nothing: every server can reach every other (replica.Network).
func (p *Port) SetMembers([]zab.Member) {}

// Notify sends a message of the election (replica.Network).
func (p *Port) Notify(peer int64, payload []byte) {
	n := p.n
	n.mu.Lock()
	to := n.mu.members[peer]
	if n.mu.members[p.id] != p {
		to = nil // it is detached
	} else if n.mu.notes[[2]int64{p.id, peer}] = payload; n.mu.cut[[2]int64{p.id, peer}] {
		to = nil
	}
	n.mu.Unlock()
	if to != nil {
		to.handler.Notification(p.id, slices.Clone(payload))
	}
}
