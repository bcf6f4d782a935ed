package election

import (
	"math"
	"time"
)

// Step takes a notification that came from n.From. It does not keep n.Config and n.SeenText. A
// message from this server's own id, which another one must have by mistake, is
// ignored.
func (e *Election) Step(now time.Duration, n Notification) {
	e.now = now
	i, voter := e.cfg.System.Index(n.From)
	switch {
	case n.From == e.cfg.ID:
	case !voter:
		e.stepStranger(n)
	case e.phase == looking:
		e.stepLooking(i, n)
	case n.State == Looking:
		e.keepEarlyVote(i, n)
	}
}

// stepStranger answers a server that is no voter: so observers and servers that
// are to be voters find the leader. Its vote is not counted. Two servers that know
// different voters may be strangers to each other, and both look: each is then answered
// once until the next broadcast, or the exchange would not end.
func (e *Election) stepStranger(n Notification) {
	if n.State != Looking || e.phase == idle {
		return
	}
	if e.phase == looking {
		if e.answered.Has(n.From) {
			return
		}
		if e.answered.Len() < maxAsked {
			e.answered.Add(n.From)
		}
	}
	e.answer(n.From)
}

// answer tells a server that looks this one's vote, and tells it again when
// Settle changes it. The vote of a server that is no voter does not count, so it
// answers only for the membership's sake.
func (e *Election) answer(to int64) {
	if e.me < 0 && !e.cfg.Changes {
		return
	}
	e.send(to)
	if e.asked.Len() < maxAsked {
		e.asked.Add(to)
	}
}

// keepEarlyVote answers a voter that looks while this server does not, and keeps its
// vote: if this server is about to look too, for the same reason, it would
// otherwise wait until that vote is sent again.
func (e *Election) keepEarlyVote(i int, n Notification) {
	n.Config, n.SeenText = nil, nil
	if e.phase == settled && e.state == Leading {
		e.loseVote(i, n.ballot())
	}
	e.earlyVotes[i] = earlyVote{n: n, at: e.now, heard: true}
	switch {
	case e.phase == settled:
		e.answer(n.From)
	case e.defers && e.followBest(n.ballot().Vote):
	case e.endorses && n.Leader == e.cfg.ID:
		e.disclaim(n)
	case e.endorses && e.me >= 0:
		e.endorse(n.ballot().Vote)
	}
}

// loseVote notes that a voter whose vote has helped to elect this server votes for a better candidate.
func (e *Election) loseVote(i int, b ballot) {
	mine := func(b *ballot) bool { return b.Leader == e.cfg.ID && b.ElectionEpoch == e.vote.ElectionEpoch }
	was := &e.received[i]
	if !was.cast || !mine(was) || b.ElectionEpoch != was.ElectionEpoch || b.Leader == e.cfg.ID || !b.outranks(was.Vote) {
		return
	}
	*was = b
	e.deserted = !e.agreed(e.received, mine)
}

// disclaim tells a voter that votes for this server, which has no vote of its own at
// present, that this server is no candidate, in that voter's election epoch or in the later
// one of this server. Without that, a vote for this server on false grounds (see eligible)
// may never end: each of the others, when it gives up and looks, hears the last votes of those
// that still follow, elects this server, and passes the vote on.
func (e *Election) disclaim(n Notification) {
	if n.ElectionEpoch > e.clock {
		e.clock = n.ElectionEpoch // invariant 1
		clear(e.received)
		if e.phase == looking {
			e.vote.ElectionEpoch = e.clock
		}
	}
	e.sendVote(n.From, Vote{NoCandidate, math.MinInt64, math.MinInt64, e.clock})
}

// followBest ends the election of a server that defers with the vote v, and tells all voters, if no
// voter can name a better candidate, the candidate itself votes so, and a quorum with this server
// does. It reports whether it did.
func (e *Election) followBest(v Vote) bool {
	if v.Zxid != e.own.Zxid || v.PeerEpoch != e.own.PeerEpoch || v.Leader == e.cfg.ID || !e.eligible(v) {
		return false
	}
	agrees := func(id int64) bool {
		i, ok := e.cfg.System.Index(id)
		if !ok || i == e.me {
			return ok
		}
		early := &e.earlyVotes[i]
		return early.heard && e.now-early.at <= e.cfg.FinalizeWait && early.n.ballot().Vote == v
	}
	for _, id := range e.cfg.System.Voters() {
		if id > v.Leader && id != e.cfg.ID && e.cfg.System.Weight(id) > 0 && !e.down.Has(id) {
			return false
		}
	}
	if !agrees(v.Leader) || !e.cfg.System.Quorum(agrees) {
		return false
	}
	i, _ := e.cfg.System.Index(v.Leader)
	e.earlyVotes[i] = earlyVote{} // if the owner loses that leader, it does not follow the same vote again
	e.finish(v)
	e.broadcast()
	return true
}

// endorse sends the vote v, which a voter has just cast, to all voters that have cast
// it, if they are a quorum without this server. For them it is this server's vote in
// their election: it decides nothing, and they need not wait for another one.
func (e *Election) endorse(v Vote) {
	voters := e.cfg.System.Voters()
	votes := func(i int) bool {
		early := &e.earlyVotes[i]
		return i != e.me && early.heard && early.n.ballot().Vote == v
	}
	backed := e.cfg.System.Quorum(func(id int64) bool {
		i, _ := e.cfg.System.Index(id)
		return votes(i)
	})
	if !backed || v.Leader == e.cfg.ID {
		return
	}
	e.clock = max(e.clock, v.ElectionEpoch) // invariant 1
	for i, id := range voters {
		if votes(i) {
			e.sendVote(id, v)
		}
	}
}

// stepLooking takes a voter's message during an election.
func (e *Election) stepLooking(i int, n Notification) {
	if n.State == Looking && n.Leader == e.cfg.ID && !e.casts() {
		e.disclaim(n)
		return
	}
	if n.State == Looking && n.ElectionEpoch < e.clock {
		if e.casts() {
			e.send(n.From)
		}
		return
	}
	if none := n.Leader == NoCandidate && n.State == Looking; !none && !e.cfg.System.Voter(n.Leader) {
		return
	}
	switch n.State {
	case Looking:
		if e.casts() {
			e.stepVote(i, n.ballot())
		}
	case Following, Leading:
		e.stepSettled(i, n.ballot())
	}
}

// casts reports whether this server votes.
func (e *Election) casts() bool { return e.me >= 0 || e.cfg.Changes && !e.cfg.Observer }

// ballot returns what counts of n.
func (n *Notification) ballot() ballot {
	return ballot{
		Vote:    Vote{n.Leader, n.Zxid, n.PeerEpoch, n.ElectionEpoch},
		state:   n.State,
		version: n.Version,
		cast:    true,
	}
}

// stepVote takes the vote of a voter that looks, in this election epoch or a
// later one.
func (e *Election) stepVote(i int, b ballot) {
	if b.Zxid == notInitialised || e.own.Zxid == notInitialised {
		return
	}
	later := b.ElectionEpoch > e.clock
	if later {
		e.clock = b.ElectionEpoch
		clear(e.received)
	}
	e.received[i] = b // first: what a candidate says of itself counts
	switch {
	case later:
		e.propose(e.best())
	case !e.eligible(e.vote):
		best := e.best()
		best.ElectionEpoch = e.clock
		if best != e.vote { // otherwise no server has a candidate yet
			e.propose(best)
		}
	case e.beats(b.Vote, e.vote):
		e.propose(b.Vote)
	case e.beats(e.vote, b.Vote) && !e.isAside(b.Leader):
		e.send(e.cfg.System.Voters()[i]) // it may have missed ours; one for a server that is set aside it has not
	}
	if s := e.settledOn[i].ElectionEpoch; s < b.ElectionEpoch || s >= lastElectionEpoch {
		e.settledOn[i] = ballot{} // it has left that leader
	}
	e.tally()
}

// beats reports whether a is a better candidate than b: first whether it may be
// elected at all, then by history, then by id.
func (e *Election) beats(a, b Vote) bool {
	mayA, mayB := e.eligible(a), e.eligible(b)
	if !mayA || !mayB {
		return mayA
	}
	return a.outranks(b)
}

// outranks reports whether a vote is for a later history than another or, if for
// none, for a greater id.
func (v Vote) outranks(b Vote) bool {
	switch {
	case v.PeerEpoch != b.PeerEpoch:
		return v.PeerEpoch > b.PeerEpoch
	case v.Zxid != b.Zxid:
		return v.Zxid > b.Zxid
	}
	return v.Leader > b.Leader
}

// eligible reports whether a vote may be adopted: its candidate has weight and, if only by a change
// that was heard of, a history that reaches the change, is not set
// aside, and does not itself contradict the vote. A server knows its own history; and one that
// looks votes for itself or for better, so a vote for it that outranks its own is on
// false grounds: they are stale, or invented. Such a vote would go round among the
// servers for ever, each telling the next, and the election would not end, or elect
// the same unfit server again and again.
func (e *Election) eligible(v Vote) bool {
	i, ok := e.cfg.System.Index(v.Leader)
	if !ok || e.cfg.System.Weight(v.Leader) == 0 || e.isAside(v.Leader) {
		return false
	}
	if v.Zxid < e.cfg.Heard && !e.cfg.System.Counts(v.Leader) {
		return false
	}
	if i == e.me {
		return e.own.Leader == e.cfg.ID && v.Zxid == e.own.Zxid && v.PeerEpoch == e.own.PeerEpoch
	}
	its := &e.received[i]
	return !(its.cast && its.state == Looking && its.ElectionEpoch == v.ElectionEpoch && v.outranks(its.Vote))
}

// best is the best candidate of this server and of the votes in this election epoch.
func (e *Election) best() Vote {
	best := e.own
	for i := range e.received {
		if b := &e.received[i]; b.cast && b.state == Looking && i != e.me && e.beats(b.Vote, best) {
			best = b.Vote
		}
	}
	return best
}

// tally looks at whether the proposal has a quorum, and ends the election or
// its wait accordingly.
func (e *Election) tally() {
	switch {
	case !e.backed():
		e.finalizing = false
	case e.cfg.EarlyFinish && e.unanimous():
		e.finish(e.vote)
	case !e.finalizing:
		e.finalizing = true
		e.finalizeAt = e.now + e.cfg.FinalizeWait
	}
}

// backed reports whether a quorum votes for the proposal, in all its parts.
func (e *Election) backed() bool {
	return e.cfg.System.Weight(e.vote.Leader) > 0 &&
		e.agreed(e.received, func(b *ballot) bool { return b.Vote == e.vote })
}

// unanimous reports whether every voter that could still name a better
// candidate votes for the proposal.
func (e *Election) unanimous() bool {
	for i, id := range e.cfg.System.Voters() {
		votes := e.received[i].cast && e.received[i].Vote == e.vote
		if !votes && e.cfg.System.Weight(id) > 0 && !e.down.Has(id) {
			return false
		}
	}
	return true
}

// agreed reports whether the voters whose ballots pass agree are a quorum.
func (e *Election) agreed(ballots []ballot, agree func(*ballot) bool) bool {
	return e.cfg.System.Quorum(func(id int64) bool {
		i, _ := e.cfg.System.Index(id)
		return ballots[i].cast && agree(&ballots[i])
	})
}

// stepSettled takes the vote of a voter that has settled on a leader. If a
// quorum has, this server joins them: by the votes of its own election epoch,
// where looking voters may help, or by those of any. A leader without weight
// cannot be one.
func (e *Election) stepSettled(i int, b ballot) {
	if e.cfg.System.Weight(b.Leader) == 0 {
		return
	}
	e.settledOn[i] = b
	aside := e.isAside(b.Leader)
	if b.ElectionEpoch == e.clock {
		e.received[i] = b
		if !aside && e.namesItself(i, &b) {
			e.propose(b.Vote)
		}
		if !aside && e.joinRound(&b) {
			return
		}
	}
	if !aside && e.join(e.settledOn, &b, sameReign) {
		return
	}
	if e.casts() {
		e.tally()
	}
}

// namesItself reports whether a ballot of this election epoch is that of a leader which is a better candidate than
// the one that this server votes for: a leader votes for itself. Those that elected it may have gone, and the vote
// that it cast while it looked may not have come, so no other vote for it is left. Its epoch may be a new one already
// that discovery has fixed: it is compared only if it is no later than this server's.
func (e *Election) namesItself(i int, b *ballot) bool {
	return e.casts() && b.state == Leading && b.Leader == e.cfg.System.Voters()[i] && b.PeerEpoch <= e.own.PeerEpoch && e.beats(b.Vote, e.vote)
}

// joinRound ends the election if a quorum of its own epoch has settled on b's
// leader. If that is this server they have merely been faster, unless their
// votes are of an earlier life of it: then the grounds differ.
func (e *Election) joinRound(b *ballot) bool {
	if b.Leader != e.cfg.ID {
		return e.join(e.received, b, sameRound)
	}
	mine := e.own
	mine.ElectionEpoch = e.clock
	if b.Vote != mine || !e.agreed(e.received, func(o *ballot) bool { return o.Vote == mine }) {
		return false
	}
	e.finish(mine)
	return true
}

// join ends the election if a quorum of the ballots agrees with b, its leader
// among them, which leads. What the leader says itself is the result.
func (e *Election) join(ballots []ballot, b *ballot, same func(a, b *ballot) bool) bool {
	i, _ := e.cfg.System.Index(b.Leader)
	leader := &ballots[i]
	if b.Leader == e.cfg.ID || leader.state != Leading || !same(leader, b) {
		return false
	}
	// While the voters change, a quorum of the old or of the new ones is enough to find a
	// leader: whether it may lead is not decided here.
	if !e.cfg.TrustsLeader && !e.cfg.System.QuorumOfEither(func(id int64) bool {
		i, _ := e.cfg.System.Index(id)
		return ballots[i].cast && same(&ballots[i], b)
	}) {
		return false
	}
	e.finish(leader.Vote)
	return true
}

// sameRound reports whether two votes of one election epoch are for the same.
// Of servers that have settled, some may not have been told the leader's new
// epoch yet; one that looks must agree in everything.
func sameRound(a, b *ballot) bool {
	if a.state == Looking || b.state == Looking {
		return a.Vote == b.Vote
	}
	return a.Leader == b.Leader
}

// sameReign reports whether two servers have settled on the same reign. Their
// zxids and election epochs need not be equal (ZOOKEEPER-1818): a late joiner's
// are its own. Servers of version 0 do not learn the leader's new epoch
// (ZOOKEEPER-1732), so only the leader is compared with theirs.
func sameReign(a, b *ballot) bool {
	return a.Leader == b.Leader &&
		(a.PeerEpoch == b.PeerEpoch || (a.version == 0) != (b.version == 0))
}
