package sim

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/pinfold-zk/pinfold/internal/transport"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/internal/zab/election"
	"github.com/pinfold-zk/pinfold/test/stranger"
	"github.com/pinfold-zk/pinfold/zk"
)

// strangerKind is whether a run has a stranger, and what it may do.
type strangerKind int

const (
	noStranger strangerKind = iota
	// amongFaults acts while members fail. It says anything, but never finishes discovery
	// in the name of a voter: such a voter may be away, and what it would acknowledge counts
	// (docs/zab.md, Strangers).
	amongFaults
	// amongHealthy says anything while all members serve, and nothing fails. It must
	// disturb no member.
	amongHealthy
)

// intruder is a process that reaches both ports of every member, and is none of them. Its
// choices have a source of their own. It sends no REQUEST and no REVALIDATE: a stranger that
// behaves as a correct observer may use any session (docs/ops/limits.md).
type intruder struct {
	s         *Sim
	kind      strangerKind
	rng       *rand.Rand
	m         *member // its place in the network, with the id 0
	links     []*intrusion
	by        map[zab.LinkID]*intrusion
	isPeer    map[zab.LinkID]bool     // the members' ends of its links, those that are closed too
	began     bool                    // all members have served
	round     int64                   // of the last election
	claims    map[claim]time.Duration // when it has last spoken in that name
	heard     []heardNote
	overheard []zab.Packet
}

// intrusion is a link of the intruder.
type intrusion struct {
	end   *end
	to    *member
	first zab.PacketType // 0 before the first packet
	id    int64          // that the first packet names
	upto  bool           // the member has sent UPTODATE
}

// claim is an id in which the intruder speaks to a member.
type claim struct {
	to int
	id int64
}

// heardNote is a message of the election between members.
type heardNote struct {
	from    int64
	payload []byte
}

// keptMessages is how many messages of members the intruder knows, to send them again.
const keptMessages = 64

// maxStrangeEpoch is more than all claims in a run may raise an epoch to, by
// zab.maxEpochLead an election.
const maxStrangeEpoch = 1 << 19

func newIntruder(s *Sim) *intruder {
	return &intruder{
		s: s, kind: s.profile.stranger, rng: rand.New(rand.NewPCG(s.o.Seed, 0x73747261_6e676572)),
		m:  &member{s: s, who: "x", up: true, rate: 1},
		by: map[zab.LinkID]*intrusion{}, isPeer: map[zab.LinkID]bool{}, claims: map[claim]time.Duration{},
	}
}

// begin has the intruder act until all is healed.
func (x *intruder) begin() {
	if x.kind == noStranger {
		return
	}
	x.s.after(time.Duration(x.rng.IntN(20))*time.Millisecond, func() {
		if !x.s.faulting {
			return
		}
		if x.ready() {
			n := 1
			if x.rng.IntN(30) == 0 {
				n = 1 + x.rng.IntN(100)
			}
			for range n {
				x.attack()
			}
		}
		x.begin()
	})
}

// ready reports whether the intruder may act now.
func (x *intruder) ready() bool {
	if x.kind == amongFaults {
		x.s.disturbed(x.s.now)
		return true
	}
	for _, m := range x.s.members[1:] {
		if !m.up || !m.rep.Serving() {
			if x.began {
				x.s.fail("Stranger", "member %d has lost its role, and nothing but a stranger was there: %s", m.id, x.s.describe())
			}
			return false
		}
	}
	x.began = true
	return true
}

// stop closes all links of the intruder. No epoch may be far from where it was.
func (x *intruder) stop() {
	for len(x.links) > 0 {
		x.links[0].end.shut(errLink)
	}
	for _, m := range x.s.members[1:] {
		if e := m.shadow.epochs.accepted.asked; e > maxStrangeEpoch {
			x.s.fail("Stranger", "member %d has accepted epoch %d: a stranger uses the epochs up", m.id, e)
		}
	}
}

// attack says one thing to one member.
func (x *intruder) attack() {
	to := x.s.members[1+x.rng.IntN(len(x.s.members)-1)]
	n := len(x.links)
	switch {
	case x.rng.IntN(3) == 0:
		x.vote(to)
	case n == 0 || x.rng.IntN(6) == 0:
		x.connect(to)
	default:
		l := x.links[n-1-x.rng.IntN(min(n, 8))]
		if l.first != 0 && !l.to.shadow.leads() && x.rng.IntN(8) > 0 {
			return // a server that looks keeps the link as long as there is no second packet
		}
		x.send(l, x.packet(l))
	}
}

// target is what the intruder knows of a member: all that there is to know.
func (x *intruder) target(m *member) *stranger.Target {
	h := &m.shadow
	return &stranger.Target{
		Servers: len(x.s.members) - 1, AcceptedEpoch: h.epochs.accepted.asked, CurrentEpoch: h.epochs.current.asked, Epoch: h.epoch,
		EpochLead: 1 << 10, Last: h.last(), Committed: h.applied, ElectionEpoch: x.round,
	}
}

// vote sends a message of the election: a new one, or one that a member has sent.
func (x *intruder) vote(to *member) {
	n := stranger.DrawNotification(x.rng, x.target(to))
	v := heardNote{n.From, n.Append(nil)}
	if len(x.heard) > 0 && x.rng.IntN(6) == 0 {
		v = x.heard[x.rng.IntN(len(x.heard))]
	}
	x.s.cover.StrangeVotes++
	x.s.after(x.s.net.delay(), func() {
		if to.up {
			to.after(0, func() { to.rep.Notification(v.from, v.payload) })
		}
	})
}

// connect makes a link to a member's quorum port.
func (x *intruder) connect(to *member) {
	if !to.up || to.paused > x.s.now {
		return
	}
	net := &x.s.net
	e, far := net.newEnd(x.m), net.newEnd(to)
	e.peer, far.peer = far, e
	e.up, far.up = true, true
	l := &intrusion{end: e, to: to}
	x.links = append(x.links, l)
	x.by[e.id], x.isPeer[far.id] = l, true
	to.rep.LinkUp(far.id, "x", false)
	if x.rng.IntN(2) == 0 {
		x.send(l, x.introduction(to))
	}
}

// introduction is the first packet of a learner, with nothing wrong in it but the id and,
// now and then, the epoch.
func (x *intruder) introduction(to *member) zab.Packet {
	t := x.target(to)
	accepted := t.AcceptedEpoch
	if x.rng.IntN(3) == 0 {
		accepted = stranger.DrawEpoch(x.rng, t)
	}
	p := zab.Packet{Type: zab.ObserverInfo, Zxid: zk.MakeZxid(accepted, 0)}
	if x.rng.IntN(2) == 0 {
		p.Type = zab.FollowerInfo
	}
	id := 1 + x.rng.IntN(len(x.s.members))
	p.Data = binary.BigEndian.AppendUint64(nil, uint64(id))
	p.Data = binary.BigEndian.AppendUint32(p.Data, zab.ProtocolVersion)
	p.Data = binary.BigEndian.AppendUint64(p.Data, 0)
	return p
}

// packet draws what is sent on a link: mostly a new packet, else one of a member's.
func (x *intruder) packet(l *intrusion) zab.Packet {
	if len(x.overheard) > 0 && x.rng.IntN(6) == 0 {
		return x.overheard[x.rng.IntN(len(x.overheard))]
	}
	p := stranger.DrawPacket(x.rng, x.target(l.to))
	return zab.Packet{Type: zab.PacketType(p.Type), Zxid: p.Zxid, Data: p.Data}
}

// send sends a packet, if it is one that the intruder may send.
func (x *intruder) send(l *intrusion, p zab.Packet) {
	switch {
	case p.Type == zab.Request || p.Type == zab.Revalidate:
		return
	case x.kind == amongFaults && l.first == zab.FollowerInfo && p.Type == zab.AckEpoch:
		return
	}
	if l.first == 0 {
		l.first = p.Type
		if len(p.Data) >= 8 {
			l.id = int64(binary.BigEndian.Uint64(p.Data))
		}
	}
	x.claims[claim{l.to.id, l.id}] = x.s.now
	x.s.cover.StrangePackets++
	if x.s.trace.on {
		x.s.say("x", "sends on %d to %d: %v", l.end.id, l.to.id, p)
	}
	l.end.transmit(chunk{b: transport.AppendPacket(nil, p)})
}

// receive answers, mostly, what a learner answers: so the intruder comes as far as an
// observer does.
func (x *intruder) receive(e *end, c chunk) {
	l := x.by[e.id]
	if l == nil || c.snap {
		return
	}
	for b := c.b; len(b) > 0; {
		p, n, err := transport.DecodePacket(b, 4<<20)
		if err != nil || n > len(b) {
			return
		}
		b = b[n:]
		switch p.Type {
		case zab.UpToDate:
			l.upto = true
			x.s.cover.StrangersServed++
		case zab.Trunc:
			x.s.cover.StrangersCut++
		}
		if x.rng.IntN(8) == 0 {
			continue
		}
		if a, ok := stranger.DrawAnswer(x.rng, x.target(l.to), int32(p.Type), p.Zxid); ok {
			x.send(l, zab.Packet{Type: zab.PacketType(a.Type), Zxid: a.Zxid, Data: a.Data})
		}
	}
}

// closed forgets a link.
func (x *intruder) closed(e *end) {
	delete(x.by, e.id)
	for i, l := range x.links {
		if l.end == e {
			x.links = append(x.links[:i:i], x.links[i+1:]...)
			return
		}
	}
}

// hearNote and hearPacket take what members say to each other.
func (x *intruder) hearNote(from int, payload []byte) {
	if x.kind == noStranger {
		return
	}
	if n, err := election.Parse(int64(from), payload); err == nil {
		x.round = n.ElectionEpoch
	}
	x.heard = append(x.heard[max(0, len(x.heard)+1-keptMessages):], heardNote{int64(from), payload})
}

func (x *intruder) hearPacket(from *member, p zab.Packet) {
	if x.kind == noStranger {
		return
	}
	p.Data = slices.Clone(p.Data) // the sender uses it again
	x.overheard = append(x.overheard[max(0, len(x.overheard)+1-keptMessages):], p)
	for _, l := range x.links { // an observer is not sent proposals, and acknowledges them
		if a, ok := stranger.DrawAnswer(x.rng, x.target(l.to), int32(p.Type), p.Zxid); ok && l.upto && l.to == from && p.Type == zab.Proposal {
			x.send(l, zab.Packet{Type: zab.PacketType(a.Type), Zxid: a.Zxid, Data: a.Data})
		}
	}
}

// caused reports whether the intruder is why a member has refused a peer: the link is the
// intruder's; the id is one that the intruder holds, and it answers pings; or the member was
// elected by false votes and has begun, by the intruder's word, an epoch that others have
// been in. It gets no quorum for that.
func (x *intruder) caused(m *member, e *zab.Event) bool {
	if x.isPeer[e.Link] {
		return true
	}
	if x.kind == amongFaults && strings.Contains(e.Reason, "its history is of epoch") {
		return true
	}
	spoke, ok := x.claims[claim{m.id, e.Peer}]
	return ok && x.s.now-spoke < 2*x.s.profile.tick && strings.Contains(e.Reason, "is connected already")
}
