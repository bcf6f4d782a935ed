package sim

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/pinfold-zk/pinfold/internal/transport"
	"github.com/pinfold-zk/pinfold/internal/zab"
)

// network is what is between the members.
type network struct {
	s        *Sim
	ends     map[zab.LinkID]*end
	list     []*end // those that are open, in the order of their making
	lastLink zab.LinkID
	blocked  [][]bool // [from][to]: nothing gets through
	notes    [][]note // [from][to]: what was sent last
}

// note is the last election message from one server to another.
type note struct {
	payload []byte
	life    int // of its sender
}

func (n *network) init(s *Sim) {
	n.s = s
	n.ends = map[zab.LinkID]*end{}
	size := s.profile.size() + 1
	n.blocked, n.notes = make([][]bool, size), make([][]note, size)
	for i := range size {
		n.blocked[i], n.notes[i] = make([]bool, size), make([]note, size)
	}
}

// end is one end of a link, as its owner knows it.
type end struct {
	net    *network
	id     zab.LinkID
	m      *member
	life   int
	peer   *end // nil until the link is up
	up     bool // its owner was told
	closed bool // its owner has closed it, or was told that it is down
	bytes  uint64

	// What it sends: the rest of queue waits for the stream at its head.
	queue   []sending
	broken  bool // a stream could not be written
	inSnap  bool // the last packet was SNAP: a stream is a snapshot
	arrival time.Duration
	ended   bool // the last chunk is on its way

	// What comes: chunks in the order in which they were sent.
	chunks   []chunk
	arrived  int // of chunks, that have come but are held
	snapshot []byte
	snap     zab.Packet
	waits    bool // for a snapshot's rest
}

// sending is bytes of packets, or a stream.
type sending struct {
	packets []byte
	next    func() ([]byte, bool)
	stop    func()
	snap    bool
}

// chunk is what arrives at once.
type chunk struct {
	b    []byte
	snap bool // of a snapshot
	last bool // the snapshot's last
	end  error
}

var errLink = errors.New("sim: the link is broken")

// memberNet is the network as a member has it (replica.Network).
type memberNet struct{ m *member }

func (n *network) newEnd(m *member) *end {
	n.lastLink++
	e := &end{net: n, id: n.lastLink, m: m, life: m.life}
	n.ends[e.id] = e
	n.list = append(n.list, e)
	return e
}

// SetMembers does nothing: every member can reach every other.
func (mn memberNet) SetMembers([]zab.Member) {}

// Dial connects to a server's quorum port.
func (mn memberNet) Dial(peer int64, _ bool) zab.LinkID {
	m := mn.m
	e := m.s.net.newEnd(m)
	m.leader = e.id
	p := &m.s.profile
	budget := m.s.now + time.Duration(p.initLimit)*p.tick
	m.s.say(m.who, "dials %d by link %d", peer, e.id)
	e.connect(m.s.members[peer], budget)
	return e.id
}

// connect tries until it has connected or the time is over.
func (e *end) connect(to *member, budget time.Duration) {
	s := e.m.s
	e.m.after(s.net.delay()*3, func() {
		switch {
		case e.closed:
		case s.now > budget:
			e.down(fmt.Errorf("sim: server %d cannot be reached", to.id))
		case !to.up || to.paused > s.now || s.net.blocked[e.m.id][to.id] || s.net.blocked[to.id][e.m.id]:
			e.m.after(100*time.Millisecond, func() { e.connect(to, budget) })
		default:
			far := s.net.newEnd(to)
			e.peer, far.peer = far, e
			far.up, e.up = true, true
			s.disturbed(s.now)
			s.trace.note(uint64(e.m.id), uint64(to.id), 7)
			to.rep.LinkUp(far.id, e.m.who, false)
			e.m.rep.LinkUp(e.id, to.who, true)
		}
	})
}

// delay is how long a packet takes.
func (n *network) delay() time.Duration {
	p := &n.s.profile
	if n.s.chance(p.slowPacket) {
		return n.s.between(p.netDelay, 20*p.netDelay)
	}
	return n.s.between(p.netDelay/10, p.netDelay)
}

// Send puts packets on a link.
func (mn memberNet) Send(l zab.LinkID, ps []zab.Packet) (keeps bool) {
	e := mn.m.s.net.ends[l]
	if e == nil || e.closed {
		return false
	}
	var b []byte
	for i := range ps {
		if len(b) > 0 && mn.m.s.chance(mn.m.s.profile.split) {
			e.put(sending{packets: b})
			b = nil
		}
		b = transport.AppendPacket(b, ps[i])
		if e.inSnap = ps[i].Type == zab.Snap; e.inSnap && e.peer != nil {
			mn.m.s.check.offer(mn.m, e.peer.id, ps[i].Zxid)
		}
		if mn.m.s.trace.on {
			mn.m.s.say(mn.m.who, "sends on %d: %v", l, ps[i])
		}
		mn.m.s.stranger.hearPacket(mn.m, ps[i])
	}
	e.put(sending{packets: b})
	return false
}

// Stream has f write to the link, in turns.
func (mn memberNet) Stream(l zab.LinkID, f func(w io.Writer) error) {
	e := mn.m.s.net.ends[l]
	if e == nil || e.closed {
		return
	}
	next, stop := iter.Pull(func(yield func([]byte) bool) {
		w := pieceWriter(func(p []byte) bool { return yield(append([]byte(nil), p...)) })
		if err := f(w); err != nil {
			mn.m.s.say(mn.m.who, "stream on %d ends: %v", l, err)
			e.broken = true
		}
	})
	e.put(sending{next: next, stop: stop, snap: e.inSnap})
}

// pieceWriter hands over what is written, until it is not wanted any more.
type pieceWriter func([]byte) bool

func (w pieceWriter) Write(p []byte) (int, error) {
	if len(p) > 0 && !w(p) {
		return 0, errLink
	}
	return len(p), nil
}

func (e *end) put(q sending) {
	if len(e.queue) > 0 {
		e.queue = append(e.queue, q)
		return
	}
	if q.next == nil {
		e.transmit(chunk{b: q.packets})
		return
	}
	e.queue = append(e.queue, q)
	e.pump()
}

// pump sends the next piece of the stream at the queue's head and, when the stream has
// ended, the packets that have waited for that.
func (e *end) pump() {
	e.m.after(e.m.s.between(10*time.Microsecond, e.m.s.profile.taskDelay), func() {
		if e.closed || len(e.queue) == 0 {
			return
		}
		q := e.queue[0]
		b, ok := q.next()
		if e.broken {
			e.shut(errLink)
			return
		}
		if ok {
			if e.m.s.trace.on {
				e.m.s.say(e.m.who, "streams on %d: %d bytes", e.id, len(b))
			}
			e.transmit(chunk{b: b, snap: q.snap})
			e.pump()
			return
		}
		if q.snap {
			e.transmit(chunk{snap: true, last: true})
		}
		e.queue = e.queue[1:]
		for len(e.queue) > 0 && e.queue[0].next == nil {
			e.transmit(chunk{b: e.queue[0].packets})
			e.queue = e.queue[1:]
		}
		if len(e.queue) > 0 {
			e.pump()
		}
	})
}

// transmit sends a chunk, which arrives after all that were sent before it.
func (e *end) transmit(c chunk) {
	if e.ended || e.peer == nil {
		return
	}
	s := e.m.s
	e.ended = c.end != nil
	e.bytes += uint64(len(c.b))
	far := e.peer
	far.chunks = append(far.chunks, c)
	e.arrival = max(e.arrival, s.now+s.net.delay())
	s.after(e.arrival-s.now, far.arrive)
}

// arrive takes one more chunk from the network; while nothing gets through it is
// held.
func (e *end) arrive() {
	e.arrived++
	if e.net.blocked[e.peer.m.id][e.m.id] {
		return
	}
	e.take()
}

// take handles what has arrived, once the member goes on.
func (e *end) take() {
	s := e.m.s
	if e.m.life == e.life && e.m.paused > s.now {
		s.after(e.m.paused-s.now, e.take)
		return
	}
	for e.arrived > 0 && len(e.chunks) > 0 {
		c := e.chunks[0]
		e.chunks = e.chunks[1:]
		e.arrived--
		if e.closed || e.m.life != e.life {
			continue
		}
		if c.end != nil {
			e.down(c.end)
			continue
		}
		e.bytes += uint64(len(c.b))
		if err := e.read(c); err != nil {
			e.shut(err)
		}
	}
}

// read hands a chunk to the member.
func (e *end) read(c chunk) error {
	r := e.m.rep
	if e.m == e.net.s.stranger.m {
		e.net.s.stranger.receive(e, c)
		return nil
	}
	if c.snap {
		e.snapshot = append(e.snapshot, c.b...)
		if !c.last {
			return nil
		}
		if !e.waits {
			return errors.New("sim: a snapshot without SNAP")
		}
		e.waits = false
		src := &bytesSource{e.snapshot}
		e.snapshot = nil
		if err := r.Snapshot(e.id, e.snap.Zxid, src); err != nil {
			return err
		}
		if string(src.b) != snapshotEnd {
			return fmt.Errorf("sim: a snapshot is followed by %q", src.b)
		}
		r.Packets(e.id, []zab.Packet{e.snap}, nil)
		r.Work(nil)
		return nil
	}
	var ps []zab.Packet
	for b := c.b; len(b) > 0; {
		p, n, err := transport.DecodePacket(b, 4<<20)
		if err != nil {
			return err
		}
		if n > len(b) {
			return errors.New("sim: a packet is cut")
		}
		b = b[n:]
		if p.Type == zab.Snap {
			e.snap, e.waits = p, true
			if len(b) > 0 {
				return errors.New("sim: packets between SNAP and the snapshot")
			}
			break
		}
		ps = append(ps, p)
	}
	if len(ps) > 0 {
		r.Packets(e.id, ps, memory(c.b))
		r.Work(nil)
	}
	return nil
}

// memory is what packets lie in. It is overwritten when it is released, so that a check
// fails if someone reads it afterwards.
type memory []byte

// Release overwrites the memory (replica.Lease).
func (m memory) Release() {
	for i := range m {
		m[i] = 0xdb
	}
}

// snapshotEnd is what follows the body of a snapshot.
const snapshotEnd = "\x00\x00\x00\x0aBenWasHere"

// bytesSource is a snapshot that is there (replica.SnapshotSource).
type bytesSource struct{ b []byte }

func (b *bytesSource) Buffered() []byte { return b.b }

func (b *bytesSource) Fill(n int) ([]byte, error) {
	if len(b.b) < n {
		return b.b, io.EOF
	}
	return b.b, nil
}

func (b *bytesSource) Discard(n int) { b.b = b.b[n:] }

// CloseLink ends a link.
func (mn memberNet) CloseLink(l zab.LinkID, reason error) {
	if e := mn.m.s.net.ends[l]; e != nil {
		e.shut(reason)
	}
}

// shut closes this end, for its owner: what was sent still arrives.
func (e *end) shut(reason error) {
	if e.closed {
		return
	}
	e.down(reason)
	if e.peer != nil {
		e.transmit(chunk{end: errLink})
	}
}

// down tells the owner that the link is gone.
func (e *end) down(reason error) {
	if e.closed {
		return
	}
	e.closed = true
	e.drop()
	s := e.m.s
	s.say(e.m.who, "link %d is down: %v", e.id, reason)
	if e.m == s.stranger.m {
		s.stranger.closed(e)
	} else {
		if !s.stranger.isPeer[e.id] {
			s.disturbed(s.now)
		}
		e.m.after(s.between(0, time.Millisecond), func() {
			e.m.rep.LinkDown(e.id, reason)
		})
	}
	if e.peer != nil && !e.ended {
		e.transmit(chunk{end: errLink})
	}
}

// drop forgets what was to be sent, and the end.
func (e *end) drop() {
	for _, q := range e.queue {
		if q.stop != nil {
			q.stop()
		}
	}
	e.queue = nil
	delete(e.net.ends, e.id)
	for i, o := range e.net.list {
		if o == e {
			e.net.list = append(e.net.list[:i:i], e.net.list[i+1:]...)
			break
		}
	}
}

// Progress is the number of bytes that went through a link.
func (mn memberNet) Progress(l zab.LinkID) uint64 {
	if e := mn.m.s.net.ends[l]; e != nil {
		return e.bytes
	}
	return 0
}

// AppendPacket appends the bytes of a packet.
func (memberNet) AppendPacket(b []byte, p zab.Packet) []byte { return transport.AppendPacket(b, p) }

// reset breaks a link as a lost connection does: what is on its way is lost from
// some place on, in both directions.
func (e *end) reset() {
	s := e.m.s
	far := e.peer
	for _, x := range [...]*end{e, far} {
		if x == nil || x.closed {
			continue
		}
		keep := x.arrived + s.rng.IntN(len(x.chunks)-x.arrived+1)
		for i := keep; i < len(x.chunks); i++ {
			x.chunks[i] = chunk{end: errLink} // their arrivals are queued already
			x.peer.ended = true
		}
	}
	for _, x := range [...]*end{e, far} {
		if x != nil && !x.peer.ended {
			x.peer.transmit(chunk{end: errLink})
		}
	}
}

// started and stopped tell of a member's process.
func (n *network) started(m *member) {
	for id := 1; id < len(n.s.members); id++ {
		if id != m.id {
			n.meet(m, n.s.members[id])
		}
	}
}

// meet has two members' election ports connect, or find that they cannot.
func (n *network) meet(a, b *member) {
	if n.blocked[a.id][b.id] || n.blocked[b.id][a.id] || !a.up {
		return
	}
	if !b.up {
		a.after(n.delay()*2, func() {
			if !b.up {
				a.rep.PeerDown(int64(b.id))
			}
		})
		return
	}
	for _, pair := range [...][2]*member{{a, b}, {b, a}} {
		from, to := pair[0], pair[1]
		from.after(n.delay()*2, func() {
			if !to.up || n.blocked[from.id][to.id] {
				return
			}
			from.rep.PeerUp(int64(to.id))
			n.resend(from, to)
		})
	}
}

// resend sends the last message once more, as on every new connection.
func (n *network) resend(from, to *member) {
	last := n.notes[from.id][to.id]
	if last.payload != nil && last.life == from.life {
		n.carry(from, to, last.payload)
	}
}

func (n *network) stopped(m *member) {
	for _, e := range append([]*end(nil), n.list...) {
		if e.m == m && e.life == m.life-1 {
			e.closed = true
			e.drop()
			if e.peer != nil {
				e.reset()
			}
		}
	}
	for _, o := range n.s.members[1:] {
		if o == m || !o.up || n.blocked[o.id][m.id] || n.blocked[m.id][o.id] {
			continue
		}
		o.after(n.delay()*2, func() {
			if !m.up {
				o.rep.PeerDown(int64(m.id))
			}
		})
	}
}

// Notify sends a message of the election.
func (mn memberNet) Notify(peer int64, payload []byte) {
	m := mn.m
	n := &m.s.net
	if peer < 1 || int(peer) >= len(m.s.members) {
		return
	}
	n.notes[m.id][peer] = note{payload, m.life}
	m.s.stranger.hearNote(m.id, payload)
	to := m.s.members[peer]
	if m.s.chance(m.s.profile.noteLoss) && m.s.faulting {
		return
	}
	n.carry(m, to, payload)
	if m.s.chance(m.s.profile.noteRepeat) {
		n.carry(m, to, payload)
	}
}

// carry delivers a message, if it gets through. Nothing keeps its place.
func (n *network) carry(from, to *member, payload []byte) {
	n.s.after(n.delay(), func() {
		if n.blocked[from.id][to.id] || !to.up {
			return
		}
		to.after(0, func() {
			to.rep.Notification(int64(from.id), payload)
		})
	})
}

// block lets nothing through from one member to another, or lets it through
// again.
func (n *network) block(from, to int, blocked bool) {
	if n.blocked[from][to] == blocked {
		return
	}
	n.blocked[from][to] = blocked
	a, b := n.s.members[from], n.s.members[to]
	if blocked {
		if n.s.chance(0.3) {
			// The connections of the election find out.
			a.after(n.s.between(0, time.Second), func() {
				if a.up && n.blocked[from][to] {
					a.rep.PeerDown(int64(to))
				}
			})
		}
		return
	}
	for _, e := range append([]*end(nil), n.list...) {
		if e.m == b && e.peer != nil && e.peer.m == a && e.arrived > 0 {
			n.s.after(n.delay(), e.take)
		}
	}
	n.meet(a, b)
}

// end stops what is still being streamed.
func (n *network) end() {
	for _, e := range append([]*end(nil), n.list...) {
		e.drop()
	}
}
