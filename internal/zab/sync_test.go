package zab

import (
	"errors"
	"fmt"
	"testing"

	"github.com/pinfold-zk/pinfold/zk"
)

// lasting has a leader with the transactions <3,1>..<3,5>, <4,1>..<4,4>, of which
// the last six are in its window.
func lasting(t *testing.T, factor float64, force bool) *solo {
	cfg := testConfig(3)
	cfg.SizeFactor, cfg.ForceSnap = factor, force
	s := State{AcceptedEpoch: 5, CurrentEpoch: 5, Last: zk.MakeZxid(4, 4)}
	for _, z := range []zk.Zxid{
		zk.MakeZxid(3, 4), zk.MakeZxid(3, 5), zk.MakeZxid(4, 1), zk.MakeZxid(4, 2), zk.MakeZxid(4, 3), zk.MakeZxid(4, 4),
	} {
		s.Recent = append(s.Recent, Entry{z, []byte("data")})
	}
	o, _ := leads(t, cfg, s, 2)
	want(t, "serves", o.core.ready.Serving, true)
	return o
}

// asks has server 3 come with a history and returns what it is sent first, and
// behind it.
func (o *solo) asks(last zk.Zxid) (first, rest string) {
	l := o.join(3, 6, -1, last)
	if len(o.asked) > 0 {
		return "LOOKUP", ""
	}
	text := o.says(l)
	for i := range text {
		if text[i] == ',' && text[i-1] == '>' {
			return text[:i], text[i+2:]
		}
	}
	return text, ""
}

// The leader's choice between DIFF, TRUNC and SNAP is Apache's: the rows are those
// of LearnerHandler.syncFollower (14.3), in its order. Where two differ, the
// second column says what Apache does.
func TestChoiceOfSynchronization(t *testing.T) {
	const all = "PROPOSAL <4,3>, COMMIT <4,3>, PROPOSAL <4,4>, COMMIT <4,4>, NEWLEADER epoch 6"
	for _, c := range []struct {
		name   string
		last   zk.Zxid
		factor float64
		force  bool
		apache string // "" is the same
		first  string
		rest   string
	}{
		{"forced", zk.MakeZxid(4, 4), 0.33, true, "", "SNAP <4,4>", "NEWLEADER epoch 6"},
		{"nothing is missing", zk.MakeZxid(4, 4), 0.33, false, "", "DIFF <4,4>", "NEWLEADER epoch 6"},
		{"an uncommitted tail", zk.MakeZxid(4, 6), 0.33, false, "", "TRUNC <4,4>", "NEWLEADER epoch 6"},
		{"an uncommitted tail of a later epoch", zk.MakeZxid(5, 2), 0.33, false, "", "TRUNC <4,4>", "NEWLEADER epoch 6"},
		// Apache's leader calls its own last zxid <6,0> by then, and the peer's <5,0>
		// is neither in its window nor before it.
		{"the beginning of a later epoch", zk.MakeZxid(5, 0), 0.33, false, "SNAP", "DIFF <4,4>", "NEWLEADER epoch 6"},
		{"the beginning of this epoch", zk.MakeZxid(6, 0), 0.33, false, "", "DIFF <4,4>", "NEWLEADER epoch 6"},
		{"in the window", zk.MakeZxid(4, 2), 0.33, false, "", "DIFF <4,4>", all},
		{"the oldest in the window", zk.MakeZxid(3, 4), 0.33, false, "", "DIFF <4,4>",
			"PROPOSAL <3,5>, COMMIT <3,5>, PROPOSAL <4,1>, COMMIT <4,1>, PROPOSAL <4,2>, COMMIT <4,2>, " + all},
		{"the beginning of an epoch in the window", zk.MakeZxid(4, 0), 0.33, false, "", "DIFF <4,4>",
			"PROPOSAL <4,1>, COMMIT <4,1>, PROPOSAL <4,2>, COMMIT <4,2>, " + all},
		{"an uncommitted tail that others have gone past", zk.MakeZxid(3, 7), 0.33, false, "", "SNAP <4,4>", "NEWLEADER epoch 6"},
		{"before the window", zk.MakeZxid(3, 3), 0.33, false, "", "LOOKUP", ""},
		{"before the window, but the log is not used", zk.MakeZxid(3, 3), -1, false, "", "SNAP <4,4>", "NEWLEADER epoch 6"},
		{"nothing at all", 0, 0.33, false, "", "LOOKUP", ""},
		{"not initialised", -1, 0.33, false, "", "LOOKUP", ""},
	} {
		o := lasting(t, c.factor, c.force)
		first, rest := o.asks(c.last)
		want(t, c.name, first, c.first)
		want(t, c.name, rest, c.rest)
	}
}

// What the window keeps is bounded in bytes by WindowBytes: a learner that lacks more is sent the log.
func TestWindowBytes(t *testing.T) {
	for _, c := range []struct {
		bytes int
		from  zk.Zxid // the oldest that is kept
	}{{0, zk.MakeZxid(4, 1)}, {800, zk.MakeZxid(4, 1)}, {799, zk.MakeZxid(4, 2)}, {200, zk.MakeZxid(4, 7)}, {1, zk.MakeZxid(4, 8)}} {
		cfg := testConfig(3)
		cfg.SizeFactor, cfg.Window, cfg.WindowBytes = 0.33, 100, c.bytes
		s := State{AcceptedEpoch: 5, CurrentEpoch: 5, Last: zk.MakeZxid(4, 8)}
		for z := zk.MakeZxid(4, 1); z <= s.Last; z++ {
			s.Recent = append(s.Recent, Entry{z, make([]byte, 100)})
		}
		for z, first := range map[zk.Zxid]string{c.from: "DIFF <4,8>", c.from - 1: "LOOKUP"} {
			o, _ := leads(t, cfg, s, 2)
			o.core.Applied(s.Last)
			got, _ := o.asks(z)
			want(t, fmt.Sprintf("%d bytes, a learner at %v", c.bytes, z), got, first)
		}
	}
}

// cutTo, and by it the window and the log, against the rows of queueCommittedProposals.
func TestCutTo(t *testing.T) {
	z := zk.MakeZxid
	for _, c := range []struct {
		name                      string
		peer, before, after, last zk.Zxid
		has                       bool
		want                      string
	}{
		{"found", z(4, 2), z(4, 1), z(4, 3), z(4, 9), true, "DIFF <4,9>"},
		{"not found, same epoch", z(4, 7), z(4, 5), z(4, 9), z(4, 9), false, "TRUNC <4,5>"},
		{"not found, the next is of another epoch", z(4, 7), z(4, 5), z(5, 1), z(5, 9), false, "SNAP"},
		{"not found, nothing before", z(4, 7), 0, z(4, 9), z(4, 9), false, "SNAP"},
		{"not found, before is of an older epoch", z(4, 7), z(3, 5), z(4, 9), z(4, 9), false, "TRUNC <3,5>"},
	} {
		p, ok := cutTo(c.peer, c.has, c.before, c.after, c.last)
		got := "SNAP"
		if ok {
			got = describe(&p)
		}
		want(t, c.name, got, c.want)
	}
}

// What is sent when the place in the log is known. The size of the log from there
// may be snapshotSizeFactor, here 1/3, of the snapshot's.
func TestLocated(t *testing.T) {
	z := zk.MakeZxid
	for _, c := range []struct {
		name string
		last zk.Zxid
		at   Location
		err  error
		want string
	}{
		{"found", z(3, 3), Location{Exact: true, Before: z(3, 3), After: z(3, 4)}, nil, "DIFF <4,4>"},
		// Apache cuts it back to <3,2>; but it may be a hole in the leader's log.
		{"not found", z(3, 3), Location{Before: z(3, 2), After: z(3, 4)}, nil, "SNAP <4,4>"},
		{"the next is of another epoch", z(2, 9), Location{Before: z(2, 5), After: z(3, 1)}, nil, "SNAP <4,4>"},
		{"the beginning of an epoch", z(3, 0), Location{Before: z(2, 5), After: z(3, 1)}, nil, "DIFF <4,4>"},
		{"the log begins later", z(3, 3), Location{After: z(3, 4)}, nil, "SNAP <4,4>"},
		{"nothing at all, the log is whole", 0, Location{After: z(1, 1)}, nil, "SNAP <4,4>"},
		{"the log ends before", z(3, 3), Location{Exact: true, Before: z(3, 3)}, nil, "SNAP <4,4>"},
		{"as large as may be", z(3, 3), Location{Exact: true, Before: z(3, 3), After: z(3, 4), LogBytes: 33, SnapshotBytes: 100}, nil, "DIFF <4,4>"},
		{"too large", z(3, 3), Location{Exact: true, Before: z(3, 3), After: z(3, 4), LogBytes: 34, SnapshotBytes: 100}, nil, "SNAP <4,4>"},
		{"no snapshot to compare with", z(3, 3), Location{Exact: true, Before: z(3, 3), After: z(3, 4), LogBytes: 34}, nil, "DIFF <4,4>"},
		{"the log cannot be read", z(3, 3), Location{Exact: true, Before: z(3, 3), After: z(3, 4)}, errors.New("damaged"), "SNAP <4,4>"},
	} {
		o := lasting(t, 0.33, false)
		o.asks(c.last)
		o.core.Located(o.now, o.asked[0].Link, c.at, c.err)
		o.drive()
		want(t, c.name, describe(&o.sent[0]), c.want)
	}
}

// A range of the log ends where the window goes on, whatever has happened since
// the place was looked up.
func TestLocatedAfterThingsHaveChanged(t *testing.T) {
	at := Location{Exact: true, Before: zk.MakeZxid(3, 3), After: zk.MakeZxid(3, 4)}

	// Transactions were proposed and committed, and the log here is behind.
	o := lasting(t, 0.33, false)
	o.asks(zk.MakeZxid(3, 3))
	link := o.asked[0].Link
	o.propose(3)
	o.ack(o.core.leader.learners[0].link, zk.MakeZxid(6, 1))
	o.persist()
	for i := range uint32(2) {
		o.ack(o.core.leader.learners[0].link, zk.MakeZxid(6, i+1))
	}
	o.core.Located(o.now, link, at, nil)
	var sends []Send
	for {
		rd := o.core.Ready()
		for _, s := range rd.Sends {
			s.Packets = append([]Packet(nil), s.Packets...)
			sends = append(sends, s)
		}
		if quiet(&o.core.ready) {
			break
		}
	}
	text := ""
	for i := range sends {
		if sends[i].Kind == SendRange {
			text += fmt.Sprintf("(%s, %s] ", pair(sends[i].After), pair(sends[i].Upto))
		}
		for j := range sends[i].Packets {
			text += describe(&sends[i].Packets[j]) + " "
		}
	}
	want(t, "sent", text, "DIFF <6,2> (<3,3>, <6,2>] PROPOSAL <6,3> NEWLEADER epoch 6 ")

	// The learner has gone.
	o = lasting(t, 0.33, false)
	o.asks(zk.MakeZxid(3, 3))
	o.core.LinkDown(o.now, o.asked[0].Link, errLink)
	o.drive()
	o.core.Located(o.now, o.asked[0].Link, at, nil)
	o.drive()
	want(t, "sent to nobody", len(o.sent), 0)

	// The leader does not lead any more.
	o = lasting(t, 0.33, false)
	o.asks(zk.MakeZxid(3, 3))
	o.core.StepDown(o.now, "test")
	o.drive()
	o.core.Located(o.now, o.asked[0].Link, at, nil)
	o.drive()
	want(t, "sent by nobody", len(o.sent), 0)
}

// What the own disk does not have yet comes from the window (14.3, toBeApplied).
func TestARangeEndsWhereTheDiskDoes(t *testing.T) {
	o := lasting(t, 0.33, false)
	o.asks(zk.MakeZxid(3, 3))
	o.propose(2)
	// A quorum has them without this server only if two others do.
	want(t, "committed", o.core.committed, zk.MakeZxid(4, 4))
	o.core.Located(o.now, o.asked[0].Link, Location{Exact: true, Before: zk.MakeZxid(3, 3), After: zk.MakeZxid(3, 4)}, nil)
	o.drive()
	want(t, "says", o.says(o.asked[0].Link), "DIFF <4,4>, PROPOSAL <6,1>, PROPOSAL <6,2>, NEWLEADER epoch 6")
}

// "In fact, ZooKeeper requires Zab to redeliver at least all messages that were
// delivered after the start of the last snapshot." (paper, 4.2) For a snapshot
// that is sent this is all that is not applied when its stream may begin, in
// order. That is not before all is applied that was committed when the learner
// came: it may have acknowledged that.
func TestAllAfterTheStartOfASnapshotIsDeliveredAgain(t *testing.T) {
	cfg := testConfig(3)
	cfg.Window = 0
	o, links := leads(t, cfg, history(4, 3), 2)
	o.propose(3)
	o.persist()
	o.ack(links[2], zk.MakeZxid(5, 1))
	o.ack(links[2], zk.MakeZxid(5, 2))
	o.core.Applied(zk.MakeZxid(5, 1))
	l := o.accept()
	o.step(l, infoOf(3, 5), ackEpochOf(-1, 0))
	o.core.Located(o.now, o.asked[0].Link, Location{}, nil)
	o.drive()
	want(t, "says", o.says(l), "")
	o.ack(links[2], zk.MakeZxid(5, 3))
	o.propose(1)
	o.core.Applied(zk.MakeZxid(5, 2))
	o.drive()
	want(t, "says", o.says(l), "SNAP <5,2>, PROPOSAL <5,3>, COMMIT <5,3>, PROPOSAL <5,4>, NEWLEADER epoch 5")
}

// While the own tree is being replaced there is none to send.
func TestNoSnapshotIsSentOfATreeThatIsNotThere(t *testing.T) {
	o, l := follows2(t, testConfig(3), history(4, 3))
	o.step(l, Packet{Type: Snap, Zxid: zk.MakeZxid(4, 9)}, newLeaderOf(5))
	o.persist()
	o.core.LinkDown(o.now, l, errLink)
	o.drive()
	o.elect(1)
	a := o.accept()
	o.step(a, infoOf(2, 5))
	o.persist()
	o.step(a, ackEpochOf(4, zk.MakeZxid(3, 1)))
	o.persist()
	o.core.Located(o.now, o.asked[0].Link, Location{}, nil)
	o.drive()
	want(t, "says", o.says(a), "")
	o.core.Applied(zk.MakeZxid(4, 9)) // the owner has the tree now
	o.drive()
	want(t, "says", o.says(a), "SNAP <4,9>, NEWLEADER epoch 6")
}

// "strictly: log all that must survive → fsync → currentEpoch → ACK NEWLEADER →
// later ACKs" (17.1: 4643, 4646, 4685, 4785, 3911). Every write alone makes
// nothing known that needs the next.
func TestNewLeaderIsAcknowledgedWhenAllBeforeItIsDurable(t *testing.T) {
	o, l := follows2(t, testConfig(3), history(4, 3))
	o.step(l, diffOf(zk.MakeZxid(4, 5)),
		proposalOf(zk.MakeZxid(4, 4)), commitOf(zk.MakeZxid(4, 4)), proposalOf(zk.MakeZxid(4, 5)), commitOf(zk.MakeZxid(4, 5)),
		proposalOf(zk.MakeZxid(5, 1)), newLeaderOf(5), proposalOf(zk.MakeZxid(5, 2)))
	want(t, "writes", o.writes(), "the log: <4,4> to <4,5>, the current epoch: 5, the log: <5,1> to <5,2>")
	first := o.began - 2
	for i, w := range []string{"", "", "ACK <5,0>, ACK <5,1>, ACK <5,2>"} {
		o.core.Persisted(o.now, first+uint64(i))
		o.drive()
		want(t, "says", o.says(l), w)
	}
}

// "fsync the sync snapshot before ACK NEWLEADER ... do both [SNAP and TRUNC]"
// (17.1: 2872)
func TestATreeOrACutIsDurableBeforeNewLeaderIsAcknowledged(t *testing.T) {
	for _, p := range []Packet{{Type: Snap, Zxid: zk.MakeZxid(4, 7)}, {Type: Trunc, Zxid: zk.MakeZxid(4, 2)}} {
		o, l := follows2(t, testConfig(3), history(4, 3))
		o.step(l, p, newLeaderOf(5))
		o.core.Persisted(o.now, o.began-1)
		o.drive()
		want(t, "says", o.says(l), "")
		o.persist()
		o.tick(0)
		want(t, "acknowledged", o.core.learner.newAcked, true)
	}
}

// "never let currentEpoch lag the log" (11.2): wherever a crash may come, Apache
// can open what is there.
func TestTheCurrentEpochNeverLagsTheLog(t *testing.T) {
	o, l := follows2(t, testConfig(3), State{AcceptedEpoch: 8})
	o.step(l, diffOf(zk.MakeZxid(6, 1)), proposalOf(zk.MakeZxid(3, 1)), proposalOf(zk.MakeZxid(3, 2)), proposalOf(zk.MakeZxid(6, 1)),
		proposalOf(zk.MakeZxid(9, 1)), newLeaderOf(9))
	want(t, "writes", o.writes(), "the current epoch: 3, the log: <3,1> to <3,2>, the current epoch: 6, the log: <6,1>, the current epoch: 9, the log: <9,1>")
	o, l = follows2(t, testConfig(3), State{AcceptedEpoch: 8})
	o.step(l, Packet{Type: Snap, Zxid: zk.MakeZxid(6, 0)}, proposalOf(zk.MakeZxid(6, 1)), newLeaderOf(9))
	want(t, "writes", o.writes(), "the leader's tree at <6,0>, the current epoch: 6, the log: <6,1>, the current epoch: 9")
}

// A snapshot may be older than the own log's end, which says nothing then about
// what is durable (17.1: "SNAP (forced, at a zxid below the learner's own last log
// entry)").
func TestNothingIsAppliedBeforeASnapshotIsDurable(t *testing.T) {
	o, l := follows2(t, testConfig(3), history(4, 9))
	o.step(l, Packet{Type: Snap, Zxid: zk.MakeZxid(4, 2)}, proposalOf(zk.MakeZxid(4, 3)), commitOf(zk.MakeZxid(4, 3)), newLeaderOf(5), upToDatePacket())
	want(t, "to be applied", o.core.ready.Commit, zk.MakeZxid(4, 2))
	o.persist()
	want(t, "to be applied", o.core.ready.Commit, zk.MakeZxid(4, 3))
}

// Serving begins when all that came before UPTODATE may be applied: committed, and
// durable here. (17.1; 3023)
func TestServingWaitsForWhatCameBeforeUpToDate(t *testing.T) {
	o, l := follows2(t, testConfig(3), history(4, 3))
	o.step(l, diffOf(zk.MakeZxid(4, 3)), newLeaderOf(5))
	o.persist()
	o.step(l, proposalOf(zk.MakeZxid(5, 1)), proposalOf(zk.MakeZxid(5, 2)), upToDatePacket())
	want(t, "says at once", o.says(l), "ACK <5,0>")
	want(t, "serves before COMMIT", o.core.ready.Serving, false)
	o.step(l, commitOf(zk.MakeZxid(5, 1)), commitOf(zk.MakeZxid(5, 2)))
	want(t, "serves before it is durable", o.core.ready.Serving, false)
	o.core.Persisted(o.now, o.began)
	o.drive()
	want(t, "serves", o.core.ready.Serving, true)
	want(t, "says", o.says(l), "ACK <5,1>, ACK <5,2>")
}

// The same for an observer, which is told of what is committed only.
func TestAnObserverWaitsForItsDisk(t *testing.T) {
	cfg := testConfig(3)
	cfg.ID, cfg.Members = 9, observing(3, 9)
	o, l := follows2(t, cfg, history(4, 3))
	o.step(l, diffOf(zk.MakeZxid(4, 3)), newLeaderOf(5))
	o.persist()
	o.step(l, Packet{Type: Inform, Zxid: zk.MakeZxid(5, 1), Data: []byte("data")}, upToDatePacket())
	want(t, "serves before it is durable", o.core.ready.Serving, false)
	o.persist()
	want(t, "serves", o.core.ready.Serving, true)
	want(t, "role", o.core.role, Observing)
}

// "ACK (observers: only epoch<<32)" (13)
func TestAnObserverAcknowledgesNoTransaction(t *testing.T) {
	cfg := testConfig(3)
	cfg.ID, cfg.Members = 9, observing(3, 9)
	o, l := follows2(t, cfg, history(4, 3))
	o.step(l, diffOf(zk.MakeZxid(4, 5)), proposalOf(zk.MakeZxid(4, 4)), commitOf(zk.MakeZxid(4, 4)),
		Packet{Type: Inform, Zxid: zk.MakeZxid(4, 5), Data: []byte("data")}, newLeaderOf(5), upToDatePacket())
	o.core.Persisted(o.now, o.began)
	o.drive()
	want(t, "says", o.says(l), "ACK <5,0>, ACK <5,0>")
	o.step(l, Packet{Type: InformAndActivate, Zxid: zk.MakeZxid(5, 1), Data: []byte("8 bytes.data")})
	want(t, "writes", string(o.wrote[0].Entries[0].Data), "data")
}

// "PROPOSAL: ... must be contiguous, else abort" (14.4; 17.1: 4925)
func TestAGapIsNotTaken(t *testing.T) {
	z := zk.MakeZxid
	for _, next := range []zk.Zxid{z(4, 5), z(4, 3), z(4, 2), z(5, 2), z(5, 0), 0, -1} {
		o, l := follows2(t, testConfig(3), history(4, 3))
		o.step(l, diffOf(z(4, 9)), proposalOf(next))
		want(t, "writes "+pair(next), o.writes(), "")
		want(t, "role", o.core.role != Following || o.core.phase == connecting, true)
	}
}

// "COMMIT(z): z must be the oldest pending txn" (14.6)
func TestACommitMustBeOfTheOldestProposal(t *testing.T) {
	z := zk.MakeZxid
	for _, c := range []zk.Zxid{z(4, 5), z(4, 3), z(4, 6)} {
		o, l := follows2(t, testConfig(3), history(4, 3))
		o.step(l, diffOf(z(4, 9)), proposalOf(z(4, 4)), proposalOf(z(4, 5)), commitOf(c))
		want(t, "role", o.core.role, Looking)
		want(t, "committed", o.core.committed, z(4, 5)) // what is logged, once the role is left
	}
}

// What a truncation that fails was to make room for is not written, and what was
// to follow from it is not true.
func TestWhatBuildsOnAFailedTruncationIsForgotten(t *testing.T) {
	o, l := follows2(t, testConfig(3), history(4, 9))
	o.step(l, Packet{Type: Trunc, Zxid: zk.MakeZxid(4, 2)}, newLeaderOf(5))
	o.core.Step(o.now, l, []Packet{proposalOf(zk.MakeZxid(5, 1))}) // its owner has not asked yet
	o.core.TruncateFailed(o.now, zk.MakeZxid(4, 9))
	o.drive()
	want(t, "writes", o.writes(), "")
	want(t, "log", o.core.last, zk.MakeZxid(4, 9))
	want(t, "to be applied", o.core.ready.Commit, zk.MakeZxid(4, 9))
	want(t, "current epoch", o.core.currentEpoch, 4)
	want(t, "leader", o.core.learner.leader, 2)
}

// The link is lost while the truncation is on its way to the disk: the server
// waits for the disk, and must not wait for ever, or forget its epoch.
func TestATruncationFailsAfterTheLinkIsLost(t *testing.T) {
	o, l := follows2(t, testConfig(3), history(4, 9))
	o.step(l, Packet{Type: Trunc, Zxid: zk.MakeZxid(4, 2)}, newLeaderOf(5))
	o.core.LinkDown(o.now, l, errLink)
	o.drive()
	want(t, "phase", o.core.phase, settling)
	o.core.TruncateFailed(o.now, zk.MakeZxid(4, 9))
	o.drive()
	want(t, "phase", o.core.phase, electing)
	v := o.core.election.Vote()
	want(t, "vote", v.Zxid, zk.MakeZxid(4, 9))
	want(t, "vote's epoch", v.PeerEpoch, 4)
}

// A server that needs a snapshot may have what is committed. As long as its word
// decides about who leads, it says what it has.
func TestWhoNeedsASnapshotHidesNoHistory(t *testing.T) {
	o, l := follows2(t, testConfig(3), history(4, 9))
	o.step(l, Packet{Type: Trunc, Zxid: zk.MakeZxid(4, 2)})
	o.core.TruncateFailed(o.now, zk.MakeZxid(4, 9))
	o.drive()
	o.tick(20 * ms)
	// To the same leader: its word does not count any more.
	l = o.core.learner.link
	o.up(l)
	o.step(l, leaderInfoOf(5))
	want(t, "says", o.says(l), "ACKEPOCH current -1 last <0,0>")
	// To another leader it does.
	o.core.LinkDown(o.now, l, errLink)
	o.drive()
	o.elect(3)
	o.tick(50 * ms)
	l = o.core.learner.link
	o.up(l)
	o.step(l, leaderInfoOf(6))
	o.core.Persisted(o.now, o.began)
	o.drive()
	want(t, "says", o.says(l), "ACKEPOCH current 4 last <4,9>")
	// And what that one wants may well be possible.
	o.step(l, diffOf(zk.MakeZxid(4, 9)), newLeaderOf(6), upToDatePacket())
	o.persist()
	want(t, "serves", o.core.ready.Serving, true)
	want(t, "needs a snapshot", o.core.needSnap, false)
}

// Nothing but the answer to LEADERINFO is expected before it was given.
func TestNothingIsTakenBeforeTheEpochIsDurable(t *testing.T) {
	o := newSolo(t, testConfig(3), history(4, 3))
	o.elect(2)
	l := o.core.learner.link
	o.up(l)
	o.step(l, leaderInfoOf(5), diffOf(zk.MakeZxid(4, 3)))
	want(t, "role", o.core.role, Looking)
}

// "Finally: ACK(epoch<<32) once more" (14.4; 18, 16); a second UPTODATE is
// ignored.
func TestUpToDateIsAcknowledgedOnce(t *testing.T) {
	o, l := follows2(t, testConfig(3), history(4, 3))
	o.step(l, diffOf(zk.MakeZxid(4, 3)), newLeaderOf(5))
	o.core.Persisted(o.now, o.began)
	o.drive()
	want(t, "says", o.says(l), "ACK <5,0>")
	o.step(l, upToDatePacket())
	want(t, "says", o.says(l), "ACK <5,0>")
	o.step(l, upToDatePacket())
	want(t, "says", o.says(l), "")
	want(t, "serves", o.core.ready.Serving, true)
}

// A server that comes to the same leader again has the epoch on its disk already.
func TestTheCurrentEpochIsWrittenOnce(t *testing.T) {
	s := history(4, 3)
	s.AcceptedEpoch, s.CurrentEpoch = 5, 5
	o := newSolo(t, testConfig(3), s)
	o.elect(2)
	l := o.core.learner.link
	o.up(l)
	o.step(l, leaderInfoOf(5))
	o.step(l, diffOf(zk.MakeZxid(4, 3)), newLeaderOf(5))
	want(t, "writes", o.writes(), "")
	want(t, "says", o.says(l), "ACK <5,0>")
}

// A PING is answered while a learner is synchronized; what was for a client of an
// earlier role is for nobody.
func TestWhatIsDeliveredDuringSynchronization(t *testing.T) {
	o, l := follows2(t, testConfig(3), history(4, 3))
	o.step(l, diffOf(zk.MakeZxid(4, 3)))
	for i, p := range []PacketType{Ping, Sync, Revalidate} {
		o.core.Step(o.now, l, []Packet{{Type: p}})
		rd := o.core.Ready()
		want(t, "delivered", len(rd.Deliver) == 1, i == 0)
	}
	want(t, "role", o.core.role, Following)
	o.step(l, Packet{Type: Request})
	want(t, "role", o.core.role, Looking)
}
