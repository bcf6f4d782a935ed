package zab

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/zab/election"
	"github.com/pinfold-zk/pinfold/zk"
)

// solo is one core with a disk that forgets nothing, and an owner who does what
// it is told. The other servers are made of packets.
type solo struct {
	tb    testing.TB
	core  *Core
	now   time.Duration
	began uint64 // the last write that was begun
	kinds map[uint64]WriteKind
	lost  uint64   // writes up to here are not done: a truncation has failed
	links []LinkID // that are up
	last  LinkID

	// The role that was taken last, and where the log ended then.
	term     uint64
	tookLast zk.Zxid

	// What came out since the last input.
	sent  []Packet
	to    []LinkID // of sent
	wrote []Write
	told  []Event
	dials int64
	seen  *Ready

	// What came out ever.
	synced, delivered int
	asked             []Lookup
}

func testConfig(voters int) Config {
	return Config{
		ID: 1, Members: membersOf(voters, 0),
		Tick: 100 * ms, InitLimit: 10, SyncLimit: 5, Window: 8, SizeFactor: 0.33,
	}
}

// newSolo makes a server. One that has a history has had a leader, which has told the membership.
func newSolo(tb testing.TB, cfg Config, s State) *solo {
	if m := &s.Members; cfg.Reader != nil && s.Last != 0 && m.Committed == nil {
		m.Committed, m.Seen = cfg.Members, cfg.Members
	}
	o := &solo{tb: tb, core: New(cfg, s, 0), kinds: map[uint64]WriteKind{}}
	o.drive()
	return o
}

// drive does what the core wants.
func (o *solo) drive() {
	o.sent, o.to, o.wrote, o.told, o.dials = nil, nil, nil, nil, 0
	for {
		rd := o.core.Ready()
		o.seen = rd
		if rd.Term != o.term {
			o.term, o.tookLast = rd.Term, o.core.last
		}
		for i := range rd.Sends {
			for _, p := range rd.Sends[i].Packets {
				o.sent, o.to = append(o.sent, p), append(o.to, rd.Sends[i].Link)
			}
		}
		o.told = append(o.told, rd.Events...)
		o.synced += rd.Synced
		o.delivered += len(rd.Deliver)
		for i := range rd.Writes {
			w := rd.Writes[i]
			w.Entries = append([]Entry(nil), w.Entries...)
			o.wrote = append(o.wrote, w)
			o.began = w.Seq
			o.kinds[o.began] = w.Kind
		}
		if rd.Dial != 0 {
			o.last++
			o.dials = rd.Dial
			o.core.Dialing(o.last)
			o.links = append(o.links, o.last)
		}
		for _, cl := range rd.Close {
			o.unlink(cl.Link)
		}
		o.asked = append(o.asked, rd.Lookups...)
		if err := verify(o.core); err != nil {
			o.tb.Fatal(err)
		}
		if quiet(&o.core.ready) {
			return
		}
	}
}

func (o *solo) unlink(l LinkID) {
	for i := range o.links {
		if o.links[i] == l {
			o.links = append(o.links[:i:i], o.links[i+1:]...)
			return
		}
	}
}

// elect makes a server the leader, by the others' word.
func (o *solo) elect(leader int64) {
	voters := o.core.system.Voters()
	for _, id := range voters {
		if id == o.core.cfg.ID {
			continue
		}
		n := election.Notification{
			From: id, State: election.Looking, Leader: leader, Zxid: o.core.last, PeerEpoch: int64(o.core.currentEpoch),
			ElectionEpoch: o.core.election.ElectionEpoch(), Version: 2,
		}
		if leader != o.core.cfg.ID {
			n.State = election.Following
			if id == leader {
				n.State = election.Leading
			}
		}
		o.core.Notification(o.now, n)
		o.drive()
	}
}

// persist makes everything durable that was begun.
func (o *solo) persist() {
	for range 8 {
		if o.core.persisted >= o.began {
			return
		}
		o.core.Persisted(o.now, o.began)
		o.drive()
	}
}

func (o *solo) step(l LinkID, ps ...Packet) {
	o.core.Step(o.now, l, ps)
	o.drive()
}

func (o *solo) up(l LinkID) {
	o.core.LinkUp(o.now, l)
	o.drive()
}

func (o *solo) tick(d time.Duration) {
	o.now += d
	o.core.Tick(o.now)
	o.drive()
	if next := o.core.Deadline(); next <= o.now {
		o.tb.Fatalf("at %v, after Tick, the deadline is %v", o.now, next)
	}
}

// accept makes a link of somebody who connects.
func (o *solo) accept() LinkID {
	o.last++
	o.links = append(o.links, o.last)
	o.up(o.last)
	return o.last
}

// infoOf is the first packet of a follower.
func infoOf(id int64, accepted uint32) Packet {
	data := binary.BigEndian.AppendUint64(nil, uint64(id))
	data = binary.BigEndian.AppendUint32(data, ProtocolVersion)
	return Packet{Type: FollowerInfo, Zxid: zk.MakeZxid(accepted, 0), Data: binary.BigEndian.AppendUint64(data, 0)}
}

func ackEpochOf(currentEpoch int32, last zk.Zxid) Packet {
	return Packet{Type: AckEpoch, Zxid: last, Data: binary.BigEndian.AppendUint32(nil, uint32(currentEpoch))}
}

// says is what came out last on a link, but for pings.
func (o *solo) says(l LinkID) string {
	var list []string
	for i := range o.sent {
		if o.to[i] == l && o.sent[i].Type != Ping {
			list = append(list, describe(&o.sent[i]))
		}
	}
	return strings.Join(list, ", ")
}

// writes is what is to be written since the last input.
func (o *solo) writes() string {
	var list []string
	for i := range o.wrote {
		list = append(list, describeWrite(&o.wrote[i]))
	}
	return strings.Join(list, ", ")
}

// want compares.
func want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s:\n got %v\nwant %v", what, got, want)
	}
}

// history is a disk with the first n transactions of epoch e, established.
func history(e, n uint32) State {
	s := State{AcceptedEpoch: e, CurrentEpoch: e, Last: zk.MakeZxid(e, n)}
	for i := range n {
		s.Recent = append(s.Recent, Entry{zk.MakeZxid(e, i+1), []byte("data")})
	}
	return s
}

// propose proposes n transactions.
func (o *solo) propose(n int) {
	z, _ := o.core.NextZxid()
	es := make([]Entry, n)
	for i := range es {
		es[i] = Entry{z + zk.Zxid(i), []byte("data")}
	}
	if err := o.core.Propose(es); err != nil {
		o.tb.Fatal(err)
	}
	o.drive()
}

// sync asks for one.
func (o *solo) sync() {
	if err := o.core.Sync(0); err != nil {
		o.tb.Fatal(err)
	}
	o.drive()
}

// join has a follower come with a history, up to NEWLEADER.
func (o *solo) join(id int64, accepted uint32, currentEpoch int32, last zk.Zxid) LinkID {
	l := o.accept()
	o.step(l, infoOf(id, accepted))
	o.persist()
	o.step(l, ackEpochOf(currentEpoch, last))
	return l
}

// leads makes the core the leader, with followers that have what it has; it
// serves if they are a quorum. Their links are theirs by id.
func leads(t *testing.T, cfg Config, s State, followers ...int64) (*solo, []LinkID) {
	o := newSolo(t, cfg, s)
	o.elect(1)
	links := make([]LinkID, len(cfg.Members.Members())+1)
	for _, id := range followers {
		links[id] = o.accept()
		o.step(links[id], infoOf(id, s.AcceptedEpoch))
	}
	o.persist()
	for _, id := range followers {
		o.step(links[id], ackEpochOf(int32(s.CurrentEpoch), s.Last))
	}
	o.persist()
	for _, id := range followers {
		o.ack(links[id], zk.MakeZxid(o.core.epoch, 0))
	}
	return o, links
}

func (o *solo) ack(l LinkID, z zk.Zxid) { o.step(l, Packet{Type: Ack, Zxid: z}) }

// follows2 makes the core a follower of 2 that has accepted the next epoch and
// told its history.
func follows2(t *testing.T, cfg Config, s State) (*solo, LinkID) {
	o := newSolo(t, cfg, s)
	o.elect(2)
	l := o.core.learner.link
	o.up(l)
	o.step(l, Packet{Type: LeaderInfo, Zxid: zk.MakeZxid(s.AcceptedEpoch+1, 0)})
	o.persist()
	return o, l
}

// Packets of a leader.
func proposalOf(z zk.Zxid) Packet { return Packet{Type: Proposal, Zxid: z, Data: []byte("data")} }
func commitOf(z zk.Zxid) Packet   { return Packet{Type: Commit, Zxid: z} }
func newLeaderOf(e uint32) Packet { return Packet{Type: NewLeader, Zxid: zk.MakeZxid(e, 0)} }
func upToDatePacket() Packet      { return Packet{Type: UpToDate, Zxid: -1} }
func diffOf(z zk.Zxid) Packet     { return Packet{Type: Diff, Zxid: z} }
func leaderInfoOf(e uint32) Packet {
	return Packet{Type: LeaderInfo, Zxid: zk.MakeZxid(e, 0)}
}

// notify has a voter look for a leader, in an election.
func (o *solo) notify(from, electionEpoch int64) {
	o.core.Notification(o.now, election.Notification{
		From: from, State: election.Looking, Leader: from, ElectionEpoch: electionEpoch, Version: 2,
	})
	o.drive()
}

// noteOf is a settled server's word about who leads.
func noteOf(from, leader, electionEpoch int64) election.Notification {
	n := election.Notification{From: from, State: election.Following, Leader: leader, ElectionEpoch: electionEpoch, Version: 2}
	if from == leader {
		n.State = election.Leading
	}
	return n
}
