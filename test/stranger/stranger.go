// Package stranger makes up what a stranger says on the quorum port and on the election
// port of a server: messages in the name of any server, with numbers that are near to what
// is true, or at their limits. Which one is next is a matter of a seed. The tests of the
// Zab core and the simulator use it; each decides which messages are sent, and where.
package stranger

import (
	"encoding/binary"
	"math"
	"math/rand/v2"

	"github.com/pinfold-zk/pinfold/internal/zab/election"
	"github.com/pinfold-zk/pinfold/zk"
)

// Target is what a stranger knows of the server that it talks to.
type Target struct {
	Servers                            int // their ids are 1 to this
	AcceptedEpoch, CurrentEpoch, Epoch uint32
	EpochLead                          uint32 // by how much a claimed epoch may be ahead
	Last, Committed                    zk.Zxid
	ElectionEpoch                      int64
}

// Types of packets that a learner sends, with Apache's numbers.
const (
	Ack          int32 = 3
	FollowerInfo int32 = 11
	ObserverInfo int32 = 16
	AckEpoch     int32 = 18
)

// Packet is one for the quorum port.
type Packet struct {
	Type int32
	Zxid zk.Zxid
	Data []byte
}

// maxEpoch is the last epoch that fits the signed zxids of Java.
const maxEpoch = 1<<31 - 1

// protocolVersion is what a server of today says in FOLLOWERINFO.
const protocolVersion = 0x10000

func id(r *rand.Rand, t *Target) int64 {
	if r.IntN(8) == 0 {
		return []int64{0, -1, math.MinInt64, math.MaxInt64, 77}[r.IntN(5)]
	}
	return int64(1 + r.IntN(t.Servers))
}

// DrawEpoch draws an epoch that a server might claim.
func DrawEpoch(r *rand.Rand, t *Target) uint32 {
	near := []uint32{t.AcceptedEpoch, t.AcceptedEpoch + 1, t.AcceptedEpoch + 2, t.CurrentEpoch, t.Epoch, t.AcceptedEpoch + t.EpochLead}
	far := []uint32{0, maxEpoch - 1, maxEpoch, 1 << 31, 1<<32 - 1, 1 << 20}
	return append(near, far...)[r.IntN(len(near)+len(far))]
}

func zxid(r *rand.Rand, t *Target) zk.Zxid {
	z := []zk.Zxid{
		t.Last, t.Committed, t.Last + 1, zk.MakeZxid(t.Epoch, 0), 0, -1, math.MaxInt64, math.MinInt64,
		zk.MakeZxid(DrawEpoch(r, t), uint32(r.IntN(3))),
	}
	return z[r.IntN(len(z))]
}

// DrawPacket draws a packet: mostly one that a learner sends, in any order.
func DrawPacket(r *rand.Rand, t *Target) Packet {
	switch r.IntN(8) {
	case 0, 1, 2:
		p := Packet{Type: FollowerInfo}
		p.Data = binary.BigEndian.AppendUint64(nil, uint64(id(r, t)))
		p.Data = binary.BigEndian.AppendUint32(p.Data, protocolVersion)
		p.Data = binary.BigEndian.AppendUint64(p.Data, 0)
		p.Zxid = zk.MakeZxid(DrawEpoch(r, t), 0)
		if r.IntN(4) == 0 {
			p.Type = ObserverInfo
		}
		return p
	case 3, 4:
		z := zxid(r, t)
		current := []uint32{t.CurrentEpoch, DrawEpoch(r, t), math.MaxUint32}[r.IntN(3)]
		return Packet{Type: AckEpoch, Zxid: z, Data: binary.BigEndian.AppendUint32(nil, current)}
	case 5, 6:
		return Packet{Type: Ack, Zxid: zxid(r, t)}
	}
	kind := int32(r.IntN(21))
	return Packet{Type: kind, Zxid: zxid(r, t), Data: make([]byte, r.IntN(24))}
}

// Types of packets that a leader sends, with Apache's numbers.
const (
	Proposal   int32 = 2
	Ping       int32 = 5
	Inform     int32 = 8
	NewLeader  int32 = 10
	UpToDate   int32 = 12
	LeaderInfo int32 = 17
)

// DrawAnswer draws what a stranger answers to a packet of a leader, if anything. Mostly it is
// what a learner answers, so that a stranger comes through discovery with a history that is
// sent as DIFF, cut by TRUNC or replaced by SNAP, and stays as an observer does. Now and then a
// number in it is another one: it acknowledges what it was not sent.
func DrawAnswer(r *rand.Rand, t *Target, kind int32, z zk.Zxid) (p Packet, ok bool) {
	wrong := r.IntN(8) == 0
	if wrong {
		z = zxid(r, t)
	}
	switch kind {
	case LeaderInfo:
		return drawHistory(r, t), true
	case NewLeader, UpToDate:
		return Packet{Type: Ack, Zxid: z}, true
	case Ping:
		p := Packet{Type: Ping, Zxid: z}
		for range r.IntN(3) { // of sessions that nobody has
			p.Data = binary.BigEndian.AppendUint64(p.Data, uint64(math.MaxInt64-r.Int64N(8)))
			p.Data = binary.BigEndian.AppendUint32(p.Data, []uint32{0, 1, math.MaxInt32, math.MaxUint32}[r.IntN(4)])
		}
		return p, true
	case Proposal, Inform:
		return Packet{Type: Ack, Zxid: z}, wrong || r.IntN(4) == 0
	}
	return Packet{}, false
}

// drawHistory draws an ACKEPOCH: a history that ends where the target's does, before it,
// within it where it has none, or beyond.
func drawHistory(r *rand.Rand, t *Target) Packet {
	last := []zk.Zxid{
		0, -1, t.Last, t.Committed, t.Last - 1, t.Committed - zk.Zxid(r.IntN(20)),
		zk.MakeZxid(t.CurrentEpoch, 1<<20), zk.MakeZxid(t.Epoch-1, 1<<31), zk.MakeZxid(t.Epoch-1, uint32(r.IntN(20))),
		zk.MakeZxid(uint32(r.IntN(int(min(t.Epoch, 8))+1)), uint32(r.IntN(50))), zxid(r, t),
	}
	epochs := []uint32{math.MaxUint32, 0, t.Epoch - 1, t.CurrentEpoch, DrawEpoch(r, t)}
	return Packet{
		Type: AckEpoch, Zxid: last[r.IntN(len(last))],
		Data: binary.BigEndian.AppendUint32(nil, epochs[r.IntN(len(epochs))]),
	}
}

// DrawNotification draws a message of the election.
func DrawNotification(r *rand.Rand, t *Target) election.Notification {
	rounds := []int64{t.ElectionEpoch, t.ElectionEpoch + 1, 0, -1, 1 << 62, 1<<62 - 1, math.MaxInt64, math.MinInt64}
	n := election.Notification{From: id(r, t), State: election.State(r.IntN(4)), Leader: id(r, t), Zxid: zxid(r, t), Version: int32(r.IntN(3))}
	n.ElectionEpoch = rounds[r.IntN(len(rounds))]
	n.PeerEpoch = []int64{int64(DrawEpoch(r, t)), int64(t.CurrentEpoch), math.MaxInt64, math.MinInt64}[r.IntN(4)]
	return n
}
