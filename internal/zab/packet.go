package zab

import (
	"fmt"

	"github.com/pinfold-zk/pinfold/zk"
)

// PacketType is the kind of a packet on the quorum port, with Apache's number
// (protocol page, section 13).
type PacketType int32

// The packets. D is the leader or an observer master, L a learner, F a follower,
// O an observer.
const (
	Request           PacketType = 1  // L to D: a client's write or sync
	Proposal          PacketType = 2  // D to F: a transaction
	Ack               PacketType = 3  // L to D: it is durable; with epoch<<32, NEWLEADER is
	Commit            PacketType = 4  // D to F: a quorum has it
	Ping              PacketType = 5  // both ways; the answer carries the touched sessions
	Revalidate        PacketType = 6  // both ways: is the session alive?
	Sync              PacketType = 7  // D to L: everything committed before has been sent
	Inform            PacketType = 8  // D to O: a committed transaction
	CommitAndActivate PacketType = 9  // D to F: Commit of a reconfiguration
	NewLeader         PacketType = 10 // D to L: the history is complete
	FollowerInfo      PacketType = 11 // F to D: the first packet
	UpToDate          PacketType = 12 // D to L: serve clients
	Diff              PacketType = 13 // D to L: transactions follow
	Trunc             PacketType = 14 // D to L: forget what is later
	Snap              PacketType = 15 // D to L: a whole tree follows
	ObserverInfo      PacketType = 16 // O to D: the first packet
	LeaderInfo        PacketType = 17 // D to L: the new epoch
	AckEpoch          PacketType = 18 // L to D: the epoch is accepted
	InformAndActivate PacketType = 19 // D to O: Inform of a reconfiguration
	lastPacketType               = InformAndActivate
	firstPacketType              = Request
	_                 PacketType = 0
)

var packetNames = [...]string{
	Request: "REQUEST", Proposal: "PROPOSAL", Ack: "ACK", Commit: "COMMIT", Ping: "PING",
	Revalidate: "REVALIDATE", Sync: "SYNC", Inform: "INFORM", CommitAndActivate: "COMMITANDACTIVATE",
	NewLeader: "NEWLEADER", FollowerInfo: "FOLLOWERINFO", UpToDate: "UPTODATE", Diff: "DIFF",
	Trunc: "TRUNC", Snap: "SNAP", ObserverInfo: "OBSERVERINFO", LeaderInfo: "LEADERINFO",
	AckEpoch: "ACKEPOCH", InformAndActivate: "INFORMANDACTIVATE",
}

// Known reports whether t is one of the packets above.
func (t PacketType) Known() bool { return t >= firstPacketType && t <= lastPacketType }

// String is Apache's name of the packet.
func (t PacketType) String() string {
	if t.Known() {
		return packetNames[t]
	}
	return fmt.Sprintf("packet type %d", int32(t))
}

// Packet is one message between a learner and its leader. What Data means
// depends on Type (protocol page, section 13); a null buffer is nil.
//
// On the wire SNAP has no data. The core is told of it with the text of the latest membership that transactions have
// made of the leader's tree; nil if the tree does not tell.
type Packet struct {
	Type PacketType
	Zxid zk.Zxid
	Data []byte
	Auth []zk.ID // identities of the client, in a Request; nil is null
}

// String says what it is, for the log.
func (p Packet) String() string {
	return fmt.Sprintf("%v zxid %v, %d bytes", p.Type, p.Zxid, len(p.Data))
}

// ProtocolVersion is what both sides tell each other.
const ProtocolVersion = 0x10000

// LinkID names a link between a learner and its leader while it is up. Its owner
// gives the numbers, each once; 0 is none.
type LinkID uint64
