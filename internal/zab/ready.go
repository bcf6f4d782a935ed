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
	WriteTruncate                       // the log ends at Zxid, and the tree is read again from the disk
	WriteInstall                        // the tree that came over Link, or of Replace if that is 0, is the state at Zxid, and the log begins after it
	WriteMembers                        // Members is what the server knows of the membership
	WriteHealed                         // the server has healed: what it has from now on is whole
)

// Write is something that must become durable, after every Write before it.
type Write struct {
	Seq     uint64
	Kind    WriteKind
	Entries []Entry
	Epoch   uint32
	Zxid    zk.Zxid
	Link    LinkID // of WriteInstall: over which the snapshot came
	Members Memberships
}

// SendKind says what a Send puts on a link.
type SendKind int

// The kinds of sends.
const (
	SendPackets  SendKind = iota // Packets
	SendRange                    // PROPOSAL and COMMIT of each transaction of the log in (After, Upto]
	SendSnapshot                 // the tree, which is at Zxid or later when its stream begins
)

// Send is something to be sent on a link, after everything sent on it before.
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
	EventDeclined                     // this server is elected, and may not lead: Reason
	EventDesignation                  // the leader has changed the membership, and this server's is static
	EventMembers                      // a change of the membership is committed: Zxid is its version
	EventHealing                      // this server heals, and waits: Reason
	EventHealed                       // this server has healed, from the leader Peer: it has everything up to Zxid
)

// Event is something that the owner logs for operators.
type Event struct {
	Kind   EventKind
	Peer   int64
	Link   LinkID
	Epoch  uint32
	Zxid   zk.Zxid
	Reason string
	// Running is, of EventSyncing, how many learners are being sent the same, transactions
	// or a snapshot, this one among them.
	Running int
}

// Ready is what is to be done, in this order: events are logged, the role is
// changed, messages sent, links dialled and closed, deliveries taken, writes begun,
// and committed transactions applied. Messages do not wait for the writes of the
// same Ready; what has to is not in it yet. Nor does applying: Commit may cover
// transactions of the same Ready's Writes, and of any that are not durable.
//
// What is for the owner of a role (Deliver, Synced, Lookups, Dial) is for the
// Role and Term of the same Ready: that of a role which has been left since is
// void, and not in it.
type Ready struct {
	Events []Event
	Writes []Write
	Sends  []Send
	Notify []election.Message
	Dial   int64 // connect to this leader, and call Dialing with the link; 0: do not connect
	// DialMaster says that Dial is for an observer: its port is observerMasterPort.
	DialMaster bool
	Close      []Closing
	Lookups    []Lookup
	Deliver    []Delivery
	Synced     int // so many of the oldest syncs are done once SyncedAt is applied
	// SyncedAt means something if Synced is not 0.
	SyncedAt zk.Zxid
	// Members are the servers to which links are to be kept, this one included. It is
	// nil if they have not changed; before the first change they are Config.Members.
	Members []Member

	// The present state; unlike the above it is there in every Ready.
	Commit  zk.Zxid // everything up to it is to be applied
	Durable zk.Zxid // everything up to it is durable here; a snapshot that shows more must not become visible
	Role    Role
	Term    uint64 // counts roles: another Term is another role, even of the same kind
	Epoch   uint32 // of the role, once agreed on
	Serving bool   // clients may be served; a leader may propose
}

// spareSlots bounds how large a slice within a Ready is kept for the next one.
const spareSlots = 1 << 12

// reset empties r, but keeps its memory.
func (r *Ready) reset() {
	clear(r.Events)
	clear(r.Notify)
	clear(r.Close)
	clear(r.Deliver)
	for i := range r.Writes {
		r.Writes[i] = Write{Entries: emptied(r.Writes[i].Entries)}
	}
	for i := range r.Sends {
		r.Sends[i] = Send{Packets: emptied(r.Sends[i].Packets)}
	}
	*r = Ready{
		Events: r.Events[:0], Writes: r.Writes[:0], Sends: r.Sends[:0], Notify: r.Notify[:0],
		Close: r.Close[:0], Lookups: r.Lookups[:0], Deliver: r.Deliver[:0],
	}
}

// emptied is s without what it holds; its memory is kept unless it is large.
func emptied[T any](s []T) []T {
	if cap(s) > spareSlots {
		return nil
	}
	clear(s)
	return s[:0]
}

// extend lengthens s by one element, which has the memory of one that was there
// before.
func extend[T any](s []T) []T {
	if len(s) < cap(s) {
		return s[:len(s)+1]
	}
	var zero T
	return append(s, zero)
}

// newSend appends a Send and returns its index.
func (r *Ready) newSend(l LinkID, kind SendKind) int {
	r.Sends = extend(r.Sends)
	s := &r.Sends[len(r.Sends)-1]
	*s = Send{Link: l, Kind: kind, Packets: s.Packets[:0]}
	return len(r.Sends) - 1
}

// newWrite appends a Write.
func (r *Ready) newWrite(seq uint64, kind WriteKind) *Write {
	r.Writes = extend(r.Writes)
	w := &r.Writes[len(r.Writes)-1]
	*w = Write{Seq: seq, Kind: kind, Entries: w.Entries[:0]}
	return w
}
