package zab

import (
	"github.com/pinfold-zk/pinfold/internal/zab/election"
	"github.com/pinfold-zk/pinfold/zk"
)

// WriteKind says what a Write changes on the disk.
type WriteKind int

// The kinds of writes.
const (
	WriteEntries       WriteKind = iota // append Entries to the log
	WriteAcceptedEpoch                  // the file acceptedEpoch becomes Epoch
	WriteCurrentEpoch                   // the file currentEpoch becomes Epoch
	WriteTruncate                       // the log ends at Zxid, and the tree is read anew
	WriteInstall                        // the tree that came over Link is the state at Zxid, and the log begins behind it
)

// Write is something that must become durable, after every Write before it.
type Write struct {
	Seq     uint64
	Kind    WriteKind
	Entries []Entry
	Epoch   uint32
	Zxid    zk.Zxid
	Link    LinkID // of WriteInstall: over which the snapshot came
}

// SendKind says what a Send puts on a link.
type SendKind int

// The kinds of sends.
const (
	SendPackets  SendKind = iota // Packets
	SendRange                    // PROPOSAL and COMMIT of each transaction of the log in (After, Upto]
	SendSnapshot                 // the tree, which is at Zxid or later when its stream begins
)

// Send is something for a link, behind everything sent on it before.
type Send struct {
	Link        LinkID
	Kind        SendKind
	Packets     []Packet
	After, Upto zk.Zxid
}

// Delivery is a packet that the core leaves to its owner: on a leader a REQUEST,
// a REVALIDATE and the answer to a PING; on a learner a PING, which the owner
// answers, a SYNC and the answer to a REVALIDATE.
type Delivery struct {
	Link   LinkID
	Packet Packet
	At     zk.Zxid // on a learner: committed before it was sent; SYNC is to wait until that is applied
}

// Closing is a link that is to be closed, and why.
type Closing struct {
	Link   LinkID
	Reason error
}

// Lookup asks where in the log a learner's last transaction is; Located answers.
type Lookup struct {
	Link LinkID
	Zxid zk.Zxid
}

// EventKind says what an Event tells.
type EventKind int

// The events.
const (
	EventLooking     EventKind = iota // an election begins
	EventElected                      // the election is over: Role, Peer
	EventLeft                         // the role is given up: Reason
	EventEpoch                        // the new epoch is agreed on: Epoch
	EventServing                      // the ensemble is there
	EventSyncing                      // a learner, Peer, is sent what Reason says
	EventJoined                       // a learner, Peer, is up to date
	EventGone                         // a learner, Peer, has gone: Reason
	EventRefused                      // a peer was refused: Reason
	EventResync                       // this server will ask for a snapshot: Reason
	EventDesignation                  // the leader has activated a configuration, which is ignored
)

// Event is something that a person who reads the log wants to know.
type Event struct {
	Kind   EventKind
	Peer   int64
	Link   LinkID
	Epoch  uint32
	Zxid   zk.Zxid
	Reason string
}

// Ready is what is to be done, in this order: events are logged, writes begun,
// messages sent. Messages do not wait for the writes of the same Ready; what has
// to is not in it yet.
type Ready struct {
	Events  []Event
	Writes  []Write
	Sends   []Send
	Notify  []election.Message
	Dial    int64 // connect to this leader and tell Dialing the link; 0 is nobody
	Close   []Closing
	Lookups []Lookup
	Deliver []Delivery
	Synced  int // so many of the oldest syncs are done once SyncedAt is applied

	// The present state; unlike the above it is there in every Ready.
	SyncedAt zk.Zxid
	Commit   zk.Zxid // everything up to it is to be applied
	Role     Role
	Term     uint64 // counts roles: another Term is another role, even of the same kind
	Epoch    uint32 // of the role, once agreed on
	Serving  bool   // clients may be served; a leader may propose
}

// send appends packets for a link to the last Send, if that is the link's.
func (r *Ready) send(l LinkID, ps ...Packet) {
	if n := len(r.Sends); n > 0 && r.Sends[n-1].Link == l && r.Sends[n-1].Kind == SendPackets {
		r.Sends[n-1].Packets = append(r.Sends[n-1].Packets, ps...)
		return
	}
	r.Sends = append(r.Sends, Send{Link: l, Packets: ps})
}

// Ready returns what is to be done since the last call. It is valid until the
// next call; entries and packets of it may be kept.
func (c *Core) Ready() *Ready {
	if c.role == Leading {
		c.beginRound()
	}
	c.ready.Notify = c.election.Messages()
	out := &c.out
	*out, c.ready = c.ready, Ready{
		Commit: c.ready.Commit, Role: c.ready.Role, Term: c.ready.Term,
		Epoch: c.ready.Epoch, Serving: c.ready.Serving,
	}
	return out
}
