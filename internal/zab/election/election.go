package election

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/pinfold-zk/pinfold/internal/zab/quorum"
	"github.com/pinfold-zk/pinfold/zk"
)

// Apache's times, which a Config has for 0.
const (
	DefaultFinalizeWait = 200 * time.Millisecond
	DefaultMinNotify    = 200 * time.Millisecond
	DefaultMaxNotify    = time.Minute
)

// NoCandidate is the Leader in the vote of a server that has no candidate: one without a
// vote that knows no leader, or one that abstains.
const NoCandidate int64 = math.MinInt64

// lastElectionEpoch is the election epoch from which on Look starts again with 1, as a
// process that has just started does. Any epoch that another server tells is taken
// over, since one that has just started cannot know what is too much; so a message
// may raise this server's epoch to this, and counting on must neither overflow nor part the
// servers.
const lastElectionEpoch = 1 << 62

// maxAsked bounds how many servers are remembered as waiting for news. Others
// ask again by themselves.
const maxAsked = 256

// notInitialised is the zxid of a server that does not know its log; its vote
// does not count and it counts no votes.
const notInitialised zk.Zxid = -1

// Electorate describes the voters, and the part of this server. It changes with the
// membership of the ensemble.
type Electorate struct {
	System   *quorum.System // the voters
	Observer bool           // this server is no voter, whatever System says, and will observe
	Abstains bool           // this server votes for others, and for none rather than itself
	// TrustsLeader says that a voter that leads is joined by its own word: it may lead without a
	// quorum of others that say so.
	TrustsLeader bool
	ConfigText   []byte  // sent in every notification; not changed and not copied
	Seen         zk.Zxid // sent in every notification
	// Heard is the zxid of a change of the membership that this server has heard of, and that is not in its
	// history; 0 if there is none. A voter of System whose vote does not count (quorum.System.Counts) is one
	// by that change. It is a candidate only with a history that reaches the change: without the
	// change it counts quorums of a membership that this server does not know.
	Heard    zk.Zxid
	SeenText []byte // likewise; not changed and not copied
	// Changes says that the voters may change. A server that is neither a voter nor an
	// observer votes then: others may know that it has become a voter. And a server
	// without a vote answers: others learn from it how the membership has changed.
	Changes bool
}

// Config is the configuration of an Election.
type Config struct {
	ID int64
	Electorate

	FinalizeWait time.Duration // with a quorum, wait so long for a better candidate; 0 is 200 ms
	MinNotify    time.Duration // first pause before a vote is sent again; 0 is 200 ms
	MaxNotify    time.Duration // to which the pause doubles; 0 is 60 s

	// EarlyFinish ends the wait when every voter with weight that is not
	// Unreachable votes for the same.
	EarlyFinish bool
}

// Vote is a vote: a candidate, and its history. Two votes are the same if all fields are
// equal.
type Vote struct {
	Leader        int64
	Zxid          zk.Zxid // last of Leader's log when it was proposed
	PeerEpoch     int64   // Leader's current epoch when proposed, once settled its reign's
	ElectionEpoch int64   // the election in which the vote is cast
}

// Result is the vote with which an election ended.
type Result = Vote

// Message is a notification to the server To.
type Message struct {
	To int64
	Notification
}

// ballot is what a voter said last.
type ballot struct {
	Vote
	state   State
	version int32
	cast    bool // it said something
}

// earlyVote is a looking voter's vote that came while this server was not looking.
type earlyVote struct {
	n     Notification
	at    time.Duration
	heard bool
}

// phase is the state of an Election.
type phase int

const (
	idle    phase = iota // Look was never called, or Withdraw was: this server has no vote
	looking              // an election is under way
	settled              // it ended
)

// An Election is one server's part in all its elections. Its methods are called
// by one goroutine. Times are durations since any origin that stays the same;
// they must not go back.
type Election struct {
	cfg   Config
	me    int // index of this server in System.Voters, negative if it is no voter
	unfit bool
	phase phase
	state State
	now   time.Duration // of the latest call that said it
	clock int64         // the election epoch

	// own is this server's own candidacy. vote is what it votes for: itself or a better
	// candidate while looking, the elected leader afterwards.
	//
	// Invariant: while looking, vote.ElectionEpoch == clock.
	own, vote Vote

	// By the index of the voter in System.Voters. received holds the votes of
	// this election epoch, mine too; settledOn the latest ones of servers that
	// are not looking, whatever their epoch; early those that came too soon.
	received, settledOn []ballot
	earlyVotes          []earlyVote
	aside               []time.Duration // until then the voter is no candidate for this server, see SetAside

	down     quorum.Set // voters whose links are down
	asked    quorum.Set // servers that were sent a vote that may have changed since
	answered quorum.Set // strangers that were answered since the last broadcast, while looking

	interval   time.Duration // between the last broadcast and the next
	resendAt   time.Duration // when the vote is sent again
	finalizing bool          // a quorum agrees, and the wait is on
	finalizeAt time.Duration // when it ends
	elected    bool          // an election ended, and Elected was not called since
	deserted   bool          // while settled: see Deserted
	endorses   bool          // while idle: see endorse
	defers     bool          // while idle: see Defer

	out []Message
}

// New returns an Election that does nothing until Look. It panics if there is
// no System: that is a mistake of the caller.
func New(cfg Config) *Election {
	if cfg.System == nil {
		panic("election: no quorum system")
	}
	orDefault := func(d *time.Duration, def time.Duration) {
		if *d <= 0 {
			*d = def
		}
	}
	orDefault(&cfg.FinalizeWait, DefaultFinalizeWait)
	orDefault(&cfg.MinNotify, DefaultMinNotify)
	orDefault(&cfg.MaxNotify, DefaultMaxNotify)
	cfg.MaxNotify = max(cfg.MaxNotify, cfg.MinNotify)
	e := &Election{cfg: cfg}
	e.arrange(quorum.Majority())
	return e
}

// SetElectorate changes the voters. The votes of servers that are still voters remain. It
// does not evaluate an election in progress again: call Look.
func (e *Election) SetElectorate(to Electorate) {
	before := e.cfg.System
	e.cfg.Electorate = to
	e.arrange(before)
}

// arrange makes room for what each voter says, and takes over what those of the
// system before have said.
func (e *Election) arrange(before *quorum.System) {
	s := e.cfg.System
	n := len(s.Voters())
	received, settledOn, earlyVotes, aside := make([]ballot, n), make([]ballot, n), make([]earlyVote, n), make([]time.Duration, n)
	for i, id := range s.Voters() {
		if was, ok := before.Index(id); ok {
			received[i], settledOn[i], earlyVotes[i], aside[i] = e.received[was], e.settledOn[was], e.earlyVotes[was], e.aside[was]
		}
	}
	e.received, e.settledOn, e.earlyVotes, e.aside = received, settledOn, earlyVotes, aside
	for _, id := range before.Voters() {
		if !s.Voter(id) {
			e.down.Remove(id)
		}
	}
	var ok bool
	if e.me, ok = s.Index(e.cfg.ID); !ok || e.cfg.Observer {
		e.me = -1
	}
}

// Look begins an election, from no role or from any, also from an election that
// is under way. last is the zxid of the last transaction that is durable in the
// log, currentEpoch that of the durable file: both are read again for every election
// (ZOOKEEPER-2845, ZOOKEEPER-4712).
func (e *Election) Look(now time.Duration, last zk.Zxid, currentEpoch int64) {
	e.now = now
	e.phase, e.state = looking, Looking
	e.elected = false
	e.own = e.candidacy(last, currentEpoch)
	e.begin()
}

// begin begins an election with this server's own vote, in the next election epoch.
func (e *Election) begin() {
	if e.clock >= lastElectionEpoch {
		e.clock = 0
	}
	e.clock++
	clear(e.received)
	clear(e.settledOn)
	e.asked.Clear()
	e.propose(e.own)
	e.tally()
	e.replay()
}

// SetUnfit says whether this server cannot lead or should not, from the next Look on. It then votes
// for itself on grounds that every other server's outrank, so it is elected only if a
// quorum of voters is unfit; its owner must not lead then. It votes for others as ever.
func (e *Election) SetUnfit(unfit bool) { e.unfit = unfit }

// SetAside has this server neither vote for the voter id nor join it until the given time. Its own
// candidacy cannot be set aside.
func (e *Election) SetAside(id int64, until time.Duration) {
	if i, ok := e.cfg.System.Index(id); ok && i != e.me {
		e.aside[i] = until
	}
}

// isAside reports whether a voter is no candidate for this server at present.
func (e *Election) isAside(id int64) bool { return e.Aside(id, e.now) }

// Aside reports whether a voter is set aside at the time now.
func (e *Election) Aside(id int64, now time.Duration) bool {
	i, ok := e.cfg.System.Index(id)
	return ok && now < e.aside[i]
}

// QuorumWithout reports whether the voters other than id that are neither set aside at the time now nor
// unreachable are a quorum, this server among them.
func (e *Election) QuorumWithout(id int64, now time.Duration) bool {
	return e.cfg.System.Quorum(func(other int64) bool {
		return other != id && !e.Aside(other, now) && !e.down.Has(other)
	})
}

// unfitEpoch is the current epoch that an unfit server names: before every real one.
const unfitEpoch = -1

// candidacy returns this server's own vote at the start of an election.
func (e *Election) candidacy(last zk.Zxid, currentEpoch int64) Vote {
	switch {
	case e.cfg.Observer:
		return Vote{Leader: NoCandidate, Zxid: math.MinInt64, PeerEpoch: math.MinInt64}
	case e.me < 0, e.cfg.Abstains:
		return Vote{Leader: NoCandidate, Zxid: last, PeerEpoch: currentEpoch}
	case e.unfit:
		return Vote{Leader: e.cfg.ID, PeerEpoch: unfitEpoch}
	}
	return Vote{Leader: e.cfg.ID, Zxid: last, PeerEpoch: currentEpoch}
}

// replay counts the votes that came while this server was not looking, as if
// they came now. One that is older than the wait for better votes may be from
// an election that has ended, and is forgotten.
func (e *Election) replay() {
	for i, v := range e.earlyVotes {
		if v.heard && e.phase == looking && e.now-v.at <= e.cfg.FinalizeWait {
			e.stepLooking(i, v.n)
		}
	}
}

// propose votes for v in the present election epoch and tells all voters.
func (e *Election) propose(v Vote) {
	v.ElectionEpoch = e.clock
	e.vote = v
	e.finalizing = false
	if e.me >= 0 {
		e.received[e.me] = ballot{Vote: v, state: Looking, version: CurrentVersion, cast: true}
	}
	e.interval = e.cfg.MinNotify
	e.broadcast()
}

// broadcast sends the vote to all voters and starts the pause before the next.
func (e *Election) broadcast() {
	e.resendAt = e.now + e.interval
	e.answered.Clear()
	for i, id := range e.cfg.System.Voters() {
		if i != e.me {
			e.send(id)
		}
	}
}

// send sends the state and the vote to a server, in place of what was to be
// sent to it and is not taken yet.
func (e *Election) send(to int64) { e.sendVote(to, e.vote) }

// sendVote is send with another vote.
func (e *Election) sendVote(to int64, v Vote) {
	m := Message{to, Notification{
		From:          e.cfg.ID,
		State:         e.state,
		Leader:        v.Leader,
		Zxid:          v.Zxid,
		ElectionEpoch: v.ElectionEpoch,
		PeerEpoch:     v.PeerEpoch,
		Version:       CurrentVersion,
		Config:        e.cfg.ConfigText,
		Seen:          e.cfg.Seen,
		SeenText:      e.cfg.SeenText,
	}}
	i := slices.IndexFunc(e.out, func(m Message) bool { return m.To == to })
	if i >= 0 {
		e.out[i] = m
		return
	}
	e.out = append(e.out, m)
}

// Tick does what is due at now. Calling it at any other time does nothing.
func (e *Election) Tick(now time.Duration) {
	e.now = now
	if e.phase != looking {
		return
	}
	if e.finalizing && now >= e.finalizeAt {
		e.finish(e.vote)
		return
	}
	if now < e.resendAt {
		return
	}
	if e.disputed() {
		e.begin()
	} else {
		e.interval = min(2*e.interval, e.longestPause())
		e.broadcast()
	}
}

// healingPause is the longest pause of a voter that has no vote at present. Other voters that
// look do not answer it, and do not remember that it has asked.
const healingPause = 2 * time.Second

// longestPause is the pause to which the pauses between two broadcasts double.
func (e *Election) longestPause() time.Duration {
	if e.cfg.Observer && e.cfg.System.Voter(e.cfg.ID) {
		return min(e.cfg.MaxNotify, healingPause)
	}
	return e.cfg.MaxNotify
}

// disputed reports whether a quorum votes, and has not agreed although this server has sent
// its vote several times since it changed. Votes are exchanged at once, so they differ for
// good: some servers know that a vote is on false grounds (see eligible), and others do not,
// because its candidate has gone. No server votes on such grounds in the next election epoch,
// unless it is told them again.
func (e *Election) disputed() bool {
	return e.casts() && e.interval >= min(4*e.cfg.MinNotify, e.cfg.MaxNotify) && !e.finalizing &&
		e.agreed(e.received, func(b *ballot) bool { return b.state == Looking && b.Leader != NoCandidate })
}

// Deadline returns when Tick must be called next. It returns false if that is
// never, for want of an election.
func (e *Election) Deadline() (time.Duration, bool) {
	switch {
	case e.phase != looking:
		return 0, false
	case e.finalizing:
		return min(e.resendAt, e.finalizeAt), true
	}
	return e.resendAt, true
}

// Messages returns what is to be sent, and forgets it: at most one message to
// each server, none to this one. The slice is valid until the next call of any
// method.
func (e *Election) Messages() []Message {
	out := e.out
	e.out = e.out[:0]
	return out
}

// finish ends the election with v.
func (e *Election) finish(v Vote) {
	e.phase, e.deserted = settled, false
	e.vote = v
	e.clock = max(e.clock, v.ElectionEpoch)
	e.finalizing = false
	e.elected = true
	switch {
	case v.Leader == e.cfg.ID:
		e.state = Leading
	case e.cfg.Observer:
		e.state = Observing
	default:
		e.state = Following
	}
}

// Deserted reports whether voters that have elected this server have voted for a better candidate
// since, in the same election epoch, and the rest is no quorum. They heard of that candidate later, and
// do not take such a vote back: they elect it, and do not come to this server, which
// may look for a leader again.
func (e *Election) Deserted() bool { return e.phase == settled && e.deserted }

// Sought reports whether, while settled, this server has heard a voter that looks for a leader in a later election
// epoch: that voter does not join this server's leader unless a quorum has.
func (e *Election) Sought() bool {
	return e.phase == settled && slices.ContainsFunc(e.earlyVotes, func(v earlyVote) bool {
		return v.heard && v.n.ElectionEpoch > e.clock
	})
}

// Elected reports, once for each election that ended, its result. From its end
// on, servers that look are told the result; the owner takes the role and calls
// Settle, or Look if it cannot.
func (e *Election) Elected() (Result, bool) {
	if !e.elected {
		return Result{}, false
	}
	e.elected = false
	return e.vote, true
}

// Settle says which role the server has taken, under which leader, and the
// epoch of the reign: the elected vote's at first, and again when discovery has
// fixed the new one. Servers that look are told this; those that asked since
// Look are told now. It ends an election that is under way. It panics if state
// is Looking: that is Look.
func (e *Election) Settle(state State, leader int64, peerEpoch int64) {
	if state == Looking {
		panic("election: settling on LOOKING")
	}
	if e.phase != settled || leader != e.vote.Leader {
		e.vote.ElectionEpoch = e.clock
	}
	e.phase, e.state = settled, state
	e.elected, e.finalizing = false, false
	e.vote.Leader, e.vote.PeerEpoch = leader, peerEpoch
	for _, id := range e.asked.IDs() {
		e.send(id)
	}
}

// Withdraw says that this server has left its role and cannot vote yet. Until Look
// or Settle it takes no part in elections and names no leader to others: servers
// that look would join a reign that is over. It keeps the votes that come. If
// endorses is set, it will not be able to vote for long, and endorses what a quorum
// of the others votes for, so that they do not wait for it.
func (e *Election) Withdraw(endorses bool) {
	e.phase, e.state, e.endorses, e.defers = idle, Looking, endorses, false
	e.elected, e.finalizing = false, false
	e.out = e.out[:0]
	e.asked.Clear()
}

// Defer says that this server, which is withdrawn, has left the leadership to the others, and that
// none of them has a longer history than its own, which is durable: last and currentEpoch. It
// is no candidate. As soon as one of the others votes for itself that no other can outrank,
// and a quorum with this server agrees, it follows that one and says so, before the others have
// agreed: a server of Apache's that hears from a quorum that it is followed leads at once,
// and does not wait for better votes.
func (e *Election) Defer(now time.Duration, last zk.Zxid, currentEpoch int64) {
	if e.phase != idle || e.me < 0 {
		return
	}
	e.now, e.defers = now, true
	e.own = Vote{Leader: NoCandidate, Zxid: last, PeerEpoch: currentEpoch}
	for i := range e.earlyVotes {
		if v := &e.earlyVotes[i]; v.heard && now-v.at <= e.cfg.FinalizeWait && e.followBest(v.n.ballot().Vote) {
			return
		}
	}
}

// Unreachable says that the link to a voter is down because its process is
// gone: the connection was refused or reset. It is not waited for any more, and
// what it said of leading or following is not believed. A link that was merely
// replaced by another is not down.
func (e *Election) Unreachable(id int64) {
	i, ok := e.cfg.System.Index(id)
	if !ok || i == e.me {
		return
	}
	e.down.Add(id)
	e.settledOn[i] = ballot{}
	if e.received[i].state != Looking {
		e.received[i] = ballot{}
	}
	if e.phase == looking {
		e.tally()
	}
}

// Reachable says that there is a link to a server, again or for the first
// time. If this server is looking it tells a voter what it votes for: what the link
// sends by itself may be old. No voter is unreachable until Unreachable says so.
func (e *Election) Reachable(id int64) {
	e.answered.Remove(id) // what was sent over the link before it may be lost
	i, ok := e.cfg.System.Index(id)
	if !ok || i == e.me {
		return
	}
	e.down.Remove(id)
	if e.phase == looking {
		e.send(id)
	}
}

// Vote returns what this server votes for: its proposal while it looks, the
// leader it has settled on afterwards, the zero value before the first Look.
func (e *Election) Vote() Vote { return e.vote }

// State returns what this server tells others that it does; Looking before the
// first Look.
func (e *Election) State() State { return e.state }

// ElectionEpoch returns the number of the latest election, Apache's logical
// clock. It is kept as long as the process runs, and starts again with 1 after
// lastElectionEpoch. A settled vote may be of a smaller one: that of the servers that this
// one has joined.
func (e *Election) ElectionEpoch() int64 { return e.clock }

// String describes the election for logs: state, vote and epochs.
func (e *Election) String() string {
	return fmt.Sprintf("%v %v, election %d", e.state, e.vote, e.clock)
}

// String prints the vote as traces and logs have it.
func (v Vote) String() string {
	if v.Leader == NoCandidate {
		return fmt.Sprintf("nobody (election %d)", v.ElectionEpoch)
	}
	return fmt.Sprintf("%d (epoch %d, zxid %v, election %d)", v.Leader, v.PeerEpoch, v.Zxid, v.ElectionEpoch)
}
