package replica

import (
	"bytes"
	"io"
	"time"

	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/internal/zab/election"
	"github.com/pinfold-zk/pinfold/zk"
)

// Network is how a replica reaches the other servers of its ensemble. Its
// methods do not block. What comes in, the network tells the replica by LinkUp,
// Packets, Snapshot, LinkDown, Notification, PeerUp and PeerDown.
type Network interface {
	// Dial connects to a server's quorum port, with master to its port for observers; LinkUp or
	// LinkDown follows.
	Dial(peer int64, master bool) zab.LinkID
	// Send sends packets on a link, after everything that was sent before. If it returns
	// true it keeps their data, which must never change.
	Send(l zab.LinkID, ps []zab.Packet) (keeps bool)
	// Stream has f write to the link, at this place, in a goroutine of the
	// link's. Its error ends the link.
	Stream(l zab.LinkID, f func(w io.Writer) error)
	// CloseLink ends a link; LinkDown follows.
	CloseLink(l zab.LinkID, reason error)
	// Progress is the number of bytes that went through a link, either way.
	Progress(l zab.LinkID) uint64
	// AppendPacket appends a packet as Stream has to write it.
	AppendPacket(b []byte, p zab.Packet) []byte
	// Notify sends a message of the election; a newer one replaces it.
	Notify(peer int64, payload []byte)
	// SetMembers tells that the membership has changed: links to these servers are to
	// be kept, and those to others closed. The slice is not changed later.
	SetMembers(members []zab.Member)
}

// Clock is the time. The simulator has its own.
type Clock interface {
	Now() time.Duration // since the replica was started; it does not jump
	UnixMilli() int64   // of the wall clock
}

// wallClock is the clock of the machine.
type wallClock struct{ started time.Time }

func (c wallClock) Now() time.Duration { return time.Since(c.started) }
func (c wallClock) UnixMilli() int64   { return time.Now().UnixMilli() }

// event is something that the network or another stage tells Order.
type event struct {
	kind        eventKind
	link        zab.LinkID
	peer        int64
	first, last int // of the packets
	mem         Lease
	at          zab.Location
	permits     bool
	seq         uint64
	zxid        zk.Zxid
	net         Network
	err         error
}

type eventKind int

const (
	joined eventKind = iota // over net
	linkUp
	linkDown
	packetsCame
	noteCame // of peer, in ballots
	peerUp
	peerDown
	writesDone // up to seq
	cutFailed  // a truncation; the log ends at zxid
	located    // answers a zab.Lookup
	consulted  // the oracle; it permits

	treeDiverged // the tree is not what the log leads to, see giveUpTree; zxid is its last
)

// LinkUp tells that a link is there. A link that was not dialled is a learner's.
func (r *Replica) LinkUp(l zab.LinkID, remote string, dialed bool) {
	r.putEvent(event{kind: linkUp, link: l})
}

// LinkDown tells that a link is gone, or could not be made. It is the last that
// is told of it.
func (r *Replica) LinkDown(l zab.LinkID, err error) {
	r.putEvent(event{kind: linkDown, link: l, err: err})
}

// Lease is a reference to memory that is used again when it is released.
type Lease = interface{ Release() }

// Packets takes packets from a link, in order. It copies ps and keeps what they hold
// until it releases mem, which may be nil; it need not release it. It blocks while too many wait, so that the sender is
// slowed. The caller calls Work soon.
//
// REQUIRES: the caller holds no lock.
func (r *Replica) Packets(l zab.LinkID, ps []zab.Packet, mem Lease) {
	if len(ps) == 1 && ps[0].Type == zab.Snap {
		ps = []zab.Packet{{Type: zab.Snap, Zxid: ps[0].Zxid, Data: r.shownMembers(r.incomingTrees.peek(l))}}
	}
	r.putPackets(l, ps, mem)
}

// maxConfigBytes bounds the configuration in a message of the election.
const maxConfigBytes = 128 << 10

// Notification takes a message of the election. One that cannot be read is
// dropped, and logged.
func (r *Replica) Notification(from int64, payload []byte) {
	n, err := election.Parse(from, payload)
	if err != nil {
		r.log.Warn("an election message cannot be read", "from", from, "err", err)
		return
	}
	if !r.dynamic() || len(n.Config) > maxConfigBytes {
		n.Config = nil // nothing reads it
	}
	n.Config = bytes.Clone(n.Config) // the payload may be much longer
	if r.ballots.put(n) {
		r.putEvent(event{kind: noteCame, peer: from})
	}
}

// PeerUp tells that the election link to a server is there.
func (r *Replica) PeerUp(id int64) { r.putEvent(event{kind: peerUp, peer: id}) }

// ConsultOracle tells whether the oracle permits this server to go on without the other voter, see
// zab.Core.ConsultOracle.
//
// REQUIRES: zab.Config.Oracle.
func (r *Replica) ConsultOracle(permits bool) { r.putEvent(event{kind: consulted, permits: permits}) }

// PeerDown tells that the election link to a server is lost or was refused.
func (r *Replica) PeerDown(id int64) { r.putEvent(event{kind: peerDown, peer: id}) }
