package election

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/zab/quorum"
	"github.com/pinfold-zk/pinfold/zk"
)

// One test for each rule of the protocol page, sections 12.3 and 12.4, and one
// for each of ours. Server 1 is the one under test, of voters 1, 2 and 3, with
// zxid 0x100000005 in epoch 1, unless the test says otherwise.

var three = quorum.Majority(1, 2, 3)

const (
	ms     = time.Millisecond
	myZxid = zk.Zxid(0x1_00000005)
)

// patient returns a server that waits as Apache does.
func patient(more ...func(*Config)) *Election {
	c := Config{ID: 1, Electorate: Electorate{System: three}}
	for _, f := range more {
		f(&c)
	}
	return New(c)
}

func quick(c *Config)   { c.EarlyFinish = true }
func watcher(c *Config) { c.ID, c.Observer = 9, true }

func voters(s *quorum.System) func(*Config) { return func(c *Config) { c.System = s } }

// look starts the election that most tests are about and forgets its messages.
func look(e *Election) *Election {
	e.Look(0, myZxid, 1)
	e.Messages()
	return e
}

// says builds a notification of version 2.
func says(from int64, s State, leader int64, zxid zk.Zxid, peerEpoch, electionEpoch int64) Notification {
	return Notification{
		From: from, State: s, Leader: leader, Zxid: zxid,
		ElectionEpoch: electionEpoch, PeerEpoch: peerEpoch, Version: CurrentVersion,
	}
}

func (m Message) String() string {
	return fmt.Sprintf("->%d %v %v", m.To, m.State, Vote{m.Leader, m.Zxid, m.PeerEpoch, m.ElectionEpoch})
}

// wantSent checks all that is to be sent, one message a line.
func wantSent(t *testing.T, e *Election, want ...string) {
	t.Helper()
	var got []string
	for _, m := range e.Messages() {
		got = append(got, m.String())
		if m.From != e.cfg.ID || m.Version != CurrentVersion {
			t.Errorf("%v is from %d in version %d", m, m.From, m.Version)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("sent\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// wantElected checks that an election ended, and how.
func wantElected(t *testing.T, e *Election, s State, want Vote) {
	t.Helper()
	got, ok := e.Elected()
	if !ok || got != want || e.State() != s || e.Vote() != want {
		t.Errorf("elected %v %v (%v), want %v %v", e.State(), got, ok, s, want)
	}
	if _, again := e.Elected(); again {
		t.Error("elected twice")
	}
	if at, ok := e.Deadline(); ok {
		t.Errorf("a deadline at %v after the election", at)
	}
}

func wantLooking(t *testing.T, e *Election) {
	t.Helper()
	if r, ok := e.Elected(); ok || e.State() != Looking {
		t.Errorf("%v elected %v, want LOOKING", e.State(), r)
	}
}

func wantVote(t *testing.T, e *Election, leader int64, zxid zk.Zxid, peerEpoch, electionEpoch int64) {
	t.Helper()
	if want := (Vote{leader, zxid, peerEpoch, electionEpoch}); e.Vote() != want {
		t.Errorf("votes for %v, want %v", e.Vote(), want)
	}
}

func wantDeadline(t *testing.T, e *Election, want time.Duration) {
	t.Helper()
	if got, ok := e.Deadline(); !ok || got != want {
		t.Errorf("deadline %v (%v), want %v", got, ok, want)
	}
}

// Rule 12.3: the first proposal is oneself, with the last zxid and the epoch.
// Rule 12.4.1: the logical clock counts one up, all other voters are told.
func TestLookProposesSelf(t *testing.T) {
	e := patient(func(c *Config) { c.ConfigText = []byte("server.1=…") })
	e.Look(0, myZxid, 1)
	for _, m := range e.out {
		if string(m.Config) != "server.1=…" {
			t.Errorf("%v carries the configuration %q", m, m.Config)
		}
	}
	wantSent(t, e,
		"->2 LOOKING 1 (epoch 1, zxid 0x100000005, election 1)",
		"->3 LOOKING 1 (epoch 1, zxid 0x100000005, election 1)")
	wantLooking(t, e)
	e.Look(5*ms, myZxid+1, 2)
	wantSent(t, e,
		"->2 LOOKING 1 (epoch 2, zxid 0x100000006, election 2)",
		"->3 LOOKING 1 (epoch 2, zxid 0x100000006, election 2)")
	if e.ElectionEpoch() != 2 {
		t.Errorf("the clock is %d", e.ElectionEpoch())
	}
}

// Rule 12.3: who is no voter proposes nobody; an observer has no history either.
func TestLookWithoutVote(t *testing.T) {
	e := patient(func(c *Config) { c.ID = 9 })
	e.Look(0, myZxid, 1)
	wantVote(t, e, NoCandidate, myZxid, 1, 1)
	if got := len(e.Messages()); got != 3 {
		t.Errorf("%d messages", got)
	}
	for _, id := range []int64{9, 2} { // also if the voters by mistake have it
		e = patient(watcher, func(c *Config) { c.ID = id })
		e.Look(0, myZxid, 1)
		wantVote(t, e, NoCandidate, math.MinInt64, math.MinInt64, 1)
	}
}

// Rule 12.3: peer epoch, then zxid, then server id.
func TestOrderOfVotes(t *testing.T) {
	e := patient(func(c *Config) { c.ID = 9 })
	ascending := []Vote{
		{Leader: NoCandidate, PeerEpoch: math.MaxInt64, Zxid: math.MaxInt64},
		{Leader: 3, PeerEpoch: 1, Zxid: 0x1_00000004},
		{Leader: 2, PeerEpoch: 1, Zxid: 0x1_00000005},
		{Leader: 3, PeerEpoch: 1, Zxid: 0x1_00000005},
		{Leader: 1, PeerEpoch: 2, Zxid: 0},
		{Leader: 1, PeerEpoch: 2, Zxid: 1},
		{Leader: 2, PeerEpoch: 2, Zxid: 1},
	}
	for i, a := range ascending {
		for j, b := range ascending {
			if got := e.beats(a, b); got != (i > j) {
				t.Errorf("%v beats %v: %v", a, b, got)
			}
		}
	}
}

// Rule 12.3: a candidate with weight 0 never wins. Ours gives up for any other.
func TestWeightlessNeverWins(t *testing.T) {
	s, err := quorum.Weighted(map[int64]int64{3: 0}, map[int64]int64{1: 1, 2: 1, 3: 1})
	if err != nil {
		t.Fatal(err)
	}
	e := look(patient(voters(s), quick))
	e.Step(ms, says(3, Looking, 3, myZxid+100, 1, 1))
	wantVote(t, e, 1, myZxid, 1, 1)
	e.Step(ms, says(2, Looking, 3, myZxid+100, 1, 1))
	wantVote(t, e, 1, myZxid, 1, 1)

	weightless := look(patient(voters(s), func(c *Config) { c.ID = 3 }))
	weightless.Step(ms, says(2, Looking, 2, 7, 0, 1))
	wantVote(t, weightless, 2, 7, 0, 1)

	// It is not elected by a quorum that it does not decide, and cannot lead.
	for _, id := range []int64{1, 2} {
		weightless.Step(2*ms, says(id, Looking, 3, myZxid, 1, 2))
	}
	wantVote(t, weightless, 3, myZxid, 1, 2)
	weightless.Tick(time.Hour)
	wantLooking(t, weightless)
	for _, id := range []int64{1, 2} {
		weightless.Step(time.Hour, says(id, Following, 3, myZxid, 1, 2))
	}
	wantLooking(t, weightless)

	// Nor is it waited for.
	e.Step(ms, says(2, Looking, 1, myZxid, 1, 1))
	wantElected(t, e, Leading, Vote{1, myZxid, 1, 1})
}

// Rule 12.3: votes of looking servers are one only if all parts are equal.
func TestLookingVotesCountIfEqual(t *testing.T) {
	five := quorum.Majority(1, 2, 3, 4, 5)
	for name, other := range map[string]Notification{
		"zxid":       says(2, Looking, 1, myZxid-1, 1, 1),
		"peer epoch": says(2, Looking, 1, myZxid, 0, 1),
	} {
		e := look(patient(voters(five)))
		e.Step(0, other)
		e.Step(0, says(3, Looking, 1, myZxid, 1, 1))
		if e.finalizing {
			t.Errorf("with another %s it is counted", name)
		}
		e.Step(0, says(4, Looking, 1, myZxid, 1, 1))
		if !e.finalizing {
			t.Errorf("with another %s: three votes are no quorum", name)
		}
	}
}

// Rule 12.3: settled votes are one if leader and peer epoch are (ZOOKEEPER-1818);
// with a server of version 0, if the leader is.
func TestSettledVotesCountByLeaderAndEpoch(t *testing.T) {
	old := says(2, Following, 3, 5, 0, 8)
	old.Version = 0
	for _, c := range []struct {
		name     string
		follower Notification
		joins    bool
	}{
		{"another zxid and election epoch", says(2, Following, 3, 5, 4, 8), true},
		{"another peer epoch", says(2, Following, 3, 7, 3, 9), false},
		{"another leader", says(2, Following, 1, 7, 4, 9), false},
		{"another peer epoch in version 0", old, true},
	} {
		e := look(patient())
		e.Step(0, c.follower)
		e.Step(0, says(3, Leading, 3, 7, 4, 9))
		if _, ok := e.Elected(); ok != c.joins {
			t.Errorf("%s: joined %v", c.name, ok)
		}
	}
}

// Rule 12.4.2: on silence the vote is sent again, the pause doubling.
func TestResendDoubles(t *testing.T) {
	e := patient(func(c *Config) { c.MaxNotify = time.Second })
	e.Look(0, myZxid, 1)
	e.Messages()
	at := time.Duration(0)
	for _, pause := range []time.Duration{200 * ms, 400 * ms, 800 * ms, time.Second, time.Second} {
		wantDeadline(t, e, at+pause)
		e.Tick(at + pause - 1)
		wantSent(t, e)
		at += pause
		e.Tick(at)
		wantSent(t, e,
			"->2 LOOKING 1 (epoch 1, zxid 0x100000005, election 1)",
			"->3 LOOKING 1 (epoch 1, zxid 0x100000005, election 1)")
	}
	// What does not change the vote does not put the next sending off.
	e.Step(at+5*ms, says(2, Looking, 1, myZxid-1, 1, 1))
	wantDeadline(t, e, at+time.Second)
	// A new vote is sent with the first pause again.
	e.Step(at+5*ms, says(2, Looking, 2, myZxid+1, 1, 1))
	wantDeadline(t, e, at+205*ms)
}

// The times are Apache's if none are given.
func TestDefaultTimes(t *testing.T) {
	e := patient(func(c *Config) { c.MinNotify = 2 * time.Minute })
	want := Config{ID: 1, Electorate: Electorate{System: three}, FinalizeWait: 200 * ms, MinNotify: 2 * time.Minute, MaxNotify: 2 * time.Minute}
	if got := e.cfg; got.FinalizeWait != want.FinalizeWait || got.MinNotify != want.MinNotify || got.MaxNotify != want.MaxNotify {
		t.Errorf("%+v", got)
	}
	e = patient()
	if e.cfg.MinNotify != 200*ms || e.cfg.MaxNotify != time.Minute {
		t.Errorf("%+v", e.cfg)
	}
}

// Rule 12.4.3: a vote for a server that is no voter is ignored; it is answered if it is old.
// Ours: a voter that looks may vote for nobody.
func TestVoteForStrangerIsIgnored(t *testing.T) {
	e := look(patient())
	e.Step(0, says(2, Looking, 7, myZxid+5, 9, 4))
	for _, leader := range []int64{7, NoCandidate} {
		e.Step(0, says(3, Leading, leader, myZxid+5, 9, 4))
		e.Step(0, says(2, Following, leader, myZxid+5, 9, 4))
	}
	wantVote(t, e, 1, myZxid, 1, 1)
	wantSent(t, e)
	e.Step(0, says(2, Looking, 7, myZxid+5, 9, 0))
	wantSent(t, e, "->2 LOOKING 1 (epoch 1, zxid 0x100000005, election 1)")
}

// Rule 12.1 and 12.4.3: a stranger that looks is answered and not counted.
func TestStrangerIsAnsweredNotCounted(t *testing.T) {
	e := patient()
	e.Step(0, says(9, Looking, 9, myZxid+5, 9, 4))
	wantSent(t, e) // there is no vote yet
	look(e)
	for _, id := range []int64{9, -3} {
		e.Step(0, says(id, Looking, 2, myZxid+5, 9, 4))
	}
	wantSent(t, e,
		"->9 LOOKING 1 (epoch 1, zxid 0x100000005, election 1)",
		"->-3 LOOKING 1 (epoch 1, zxid 0x100000005, election 1)")
	wantVote(t, e, 1, myZxid, 1, 1)
	e.Settle(Following, 2, 4)
	e.Messages()
	e.Step(0, says(9, Looking, NoCandidate, math.MinInt64, math.MinInt64, 77))
	wantSent(t, e, "->9 FOLLOWING 2 (epoch 4, zxid 0x100000005, election 1)")
	for _, s := range []State{Following, Leading, Observing} {
		e.Step(0, says(9, s, 2, 5, 4, 1))
	}
	wantSent(t, e) // ours: only who looks, or two such servers answer each other for ever
}

// Rule 12.4.4: votes without a zxid do not count; without one of its own a
// server counts none.
func TestNotInitialised(t *testing.T) {
	e := look(patient())
	e.Step(0, says(2, Looking, 2, -1, 9, 3))
	wantVote(t, e, 1, myZxid, 1, 1)
	e = patient()
	e.Look(0, -1, 1)
	e.Step(0, says(2, Looking, 2, 5, 9, 3))
	wantVote(t, e, 1, -1, 1, 1)
}

// Rule 12.4.4: a larger election epoch is adopted, the votes so far are void,
// and the better of the vote and the own candidacy is proposed.
func TestLargerElectionEpochIsAdopted(t *testing.T) {
	e := look(patient())
	e.Step(0, says(3, Looking, 3, myZxid+9, 1, 1))
	wantVote(t, e, 3, myZxid+9, 1, 1)
	e.Messages()
	e.Step(0, says(2, Looking, 2, myZxid-1, 1, 7))
	wantSent(t, e,
		"->2 LOOKING 1 (epoch 1, zxid 0x100000005, election 7)",
		"->3 LOOKING 1 (epoch 1, zxid 0x100000005, election 7)")
	if e.finalizing {
		t.Error("the vote of 3 in election 1 counts in election 7")
	}
	if e.received[2].cast {
		t.Error("the vote of 3 in election 1 is kept in election 7")
	}
	e.Step(0, says(2, Looking, 2, myZxid+1, 1, 8))
	wantSent(t, e,
		"->2 LOOKING 2 (epoch 1, zxid 0x100000006, election 8)",
		"->3 LOOKING 2 (epoch 1, zxid 0x100000006, election 8)")
	if !e.finalizing {
		t.Error("both votes for 2 are no quorum")
	}
	e.Step(0, says(3, Looking, 3, myZxid, 1, 9)) // worse than the last proposal
	wantVote(t, e, 3, myZxid, 1, 9)
}

// Rule 12.4.4: a smaller election epoch is not counted, and answered.
func TestSmallerElectionEpochIsAnswered(t *testing.T) {
	e := patient()
	e.Look(0, myZxid, 1)
	look(e) // election 2
	e.Step(0, says(2, Looking, 2, myZxid+1, 1, 1))
	wantVote(t, e, 1, myZxid, 1, 2)
	wantSent(t, e, "->2 LOOKING 1 (epoch 1, zxid 0x100000005, election 2)")
	// It cannot be waited for either: its vote is not in.
	e.Step(0, says(3, Looking, 1, myZxid, 1, 2))
	if !e.finalizing {
		t.Error("the vote of 3 makes no quorum")
	}
}

// Rule 12.4.4: with a quorum, wait for a better vote; the end makes the leader
// lead and the others follow.
func TestQuorumWaits(t *testing.T) {
	e := look(patient())
	e.Step(10*ms, says(2, Looking, 1, myZxid, 1, 1))
	wantDeadline(t, e, 200*ms) // the vote is sent again meanwhile
	e.Tick(200 * ms)
	wantLooking(t, e)
	if len(e.Messages()) != 2 {
		t.Error("the vote is not sent again")
	}
	wantDeadline(t, e, 210*ms)
	e.Tick(210 * ms)
	wantElected(t, e, Leading, Vote{1, myZxid, 1, 1})

	e = look(patient())
	e.Step(10*ms, says(2, Looking, 2, myZxid+1, 1, 1))
	e.Tick(210 * ms)
	wantElected(t, e, Following, Vote{2, myZxid + 1, 1, 1})
}

// Rule 12.4.4: a better vote ends the wait; the next quorum waits anew.
func TestBetterVoteEndsTheWait(t *testing.T) {
	e := look(patient())
	e.Step(10*ms, says(2, Looking, 1, myZxid, 1, 1))
	e.Step(209*ms, says(3, Looking, 3, myZxid+1, 1, 1))
	wantSent(t, e,
		"->2 LOOKING 3 (epoch 1, zxid 0x100000006, election 1)",
		"->3 LOOKING 3 (epoch 1, zxid 0x100000006, election 1)")
	e.Tick(408 * ms)
	wantLooking(t, e)
	e.Tick(409 * ms)
	wantElected(t, e, Following, Vote{3, myZxid + 1, 1, 1})
}

// A worse vote does not prolong the wait. A voter that changes to it is lost.
func TestWorseVoteDuringTheWait(t *testing.T) {
	five := quorum.Majority(1, 2, 3, 4, 5)
	e := look(patient(voters(five)))
	for _, id := range []int64{2, 3} {
		e.Step(10*ms, says(id, Looking, 1, myZxid, 1, 1))
	}
	e.Step(150*ms, says(4, Looking, 4, myZxid-1, 1, 1))
	if e.finalizeAt != 210*ms {
		t.Errorf("the wait ends at %v", e.finalizeAt)
	}
	e.Step(160*ms, says(3, Looking, 3, myZxid-1, 1, 1)) // it began anew
	e.Tick(300 * ms)
	wantLooking(t, e)
}

// Rule 12.4.5 a: settled votes of this election epoch, the leader's own among
// them; a looking voter's counts if it is equal.
func TestJoinTheSameElection(t *testing.T) {
	for _, c := range []struct {
		name  string
		msgs  []Notification
		joins bool
	}{
		{"leader and follower", []Notification{
			says(2, Following, 3, myZxid, 1, 1), says(3, Leading, 3, myZxid, 1, 1)}, true},
		{"the other way round", []Notification{
			says(3, Leading, 3, myZxid, 1, 1), says(2, Following, 3, myZxid, 1, 1)}, true},
		{"one has been told the new epoch", []Notification{
			says(2, Following, 3, myZxid, 1, 1), says(3, Leading, 3, myZxid, 2, 1)}, true},
		{"my own vote and the leader", []Notification{
			says(3, Looking, 3, myZxid, 1, 1), says(3, Leading, 3, myZxid, 1, 1)}, true},
		{"a looking voter's", []Notification{
			says(2, Looking, 3, myZxid, 1, 1), says(3, Leading, 3, myZxid, 1, 1)}, true},
		{"a looking voter's on other grounds", []Notification{
			says(2, Looking, 3, myZxid-1, 1, 1), says(3, Leading, 3, myZxid-2, 1, 1)}, false},
		{"the leader alone", []Notification{
			says(3, Leading, 3, myZxid-1, 1, 1)}, false},
		{"the leader alone, who is better than I am", []Notification{
			says(3, Leading, 3, myZxid, 1, 1)}, true},
		{"the same, in another election", []Notification{
			says(3, Leading, 3, myZxid, 1, 2)}, false},
		{"the same, with a later epoch, which may be the new one", []Notification{
			says(3, Leading, 3, myZxid, 2, 1)}, false},
		{"the same, from one that follows", []Notification{
			says(2, Following, 3, myZxid, 1, 1)}, false},
		{"the leader follows itself", []Notification{
			says(2, Following, 3, myZxid, 1, 1), says(3, Following, 3, myZxid, 1, 1)}, false},
		{"the leader leads another way", []Notification{
			says(3, Leading, 2, myZxid-1, 1, 1), says(2, Following, 3, myZxid, 1, 1)}, false},
	} {
		e := look(patient())
		for _, n := range c.msgs {
			e.Step(ms, n)
		}
		r, ok := e.Elected()
		if ok != c.joins || ok && (r.Leader != 3 || e.State() != Following) {
			t.Errorf("%s: elected %v (%v)", c.name, r, ok)
		}
	}
}

// What is joined is the leader's own vote: it is the first to know its epoch.
func TestJoinTakesTheLeadersWord(t *testing.T) {
	e := look(patient())
	e.Step(ms, says(3, Leading, 3, myZxid, 2, 1))
	e.Step(ms, says(2, Following, 3, myZxid, 1, 1))
	wantElected(t, e, Following, Vote{3, myZxid, 2, 1})
}

// Rule 12.4.5 a: "or is me". The others ended the election sooner. Votes of an
// earlier reign of mine do not count: their grounds are not mine.
func TestOthersFollowMe(t *testing.T) {
	e := look(patient())
	e.Step(ms, says(2, Following, 1, myZxid, 1, 1))
	wantElected(t, e, Leading, Vote{1, myZxid, 1, 1})

	e = look(patient())
	e.Step(ms, says(2, Following, 1, myZxid-3, 1, 1))
	e.Step(ms, says(3, Following, 1, myZxid-3, 1, 1))
	e.Tick(199 * ms)
	wantLooking(t, e)
	e.Step(ms, says(2, Following, 1, myZxid, 1, 9)) // another election's
	e.Step(ms, says(3, Following, 1, myZxid, 1, 9))
	wantLooking(t, e)

	// One of them does not cut the wait short that looking voters began.
	e = look(patient(voters(quorum.Majority(1, 2, 3, 4, 5))))
	e.Step(ms, says(2, Looking, 1, myZxid, 1, 1))
	e.Step(ms, says(3, Looking, 1, myZxid, 1, 1))
	e.Step(ms, says(4, Following, 1, myZxid-3, 1, 1))
	wantLooking(t, e)
}

// A settled vote that equals the proposal helps it, if the leader was not heard.
func TestFollowerHelpsTheQuorum(t *testing.T) {
	e := look(patient())
	e.Step(ms, says(2, Looking, 3, myZxid, 1, 1))
	e.Step(ms, says(2, Following, 3, myZxid, 1, 1))
	e.Tick(201 * ms)
	wantElected(t, e, Following, Vote{3, myZxid, 1, 1})
}

// Rule 12.4.5 b: settled votes of any election epoch; the leader's is adopted.
func TestJoinAnEstablishedEnsemble(t *testing.T) {
	e := look(patient())
	e.Step(ms, says(3, Leading, 3, myZxid+7, 4, 9))
	wantLooking(t, e)
	e.Step(ms, says(2, Following, 3, myZxid, 4, 6))
	wantElected(t, e, Following, Vote{3, myZxid + 7, 4, 9})
	if e.ElectionEpoch() != 9 {
		t.Errorf("the clock is %d", e.ElectionEpoch())
	}
}

// Rule 12.4.5 b: without the leader's own word nobody is joined.
func TestDeadLeaderIsNotJoined(t *testing.T) {
	five := quorum.Majority(1, 2, 3, 4, 5)
	e := look(patient(voters(five)))
	for _, id := range []int64{2, 3, 4} {
		e.Step(ms, says(id, Following, 5, myZxid, 4, 6))
	}
	wantLooking(t, e)
	e.Step(ms, says(5, Looking, 5, myZxid, 4, 1)) // it is back, and looks
	wantLooking(t, e)
}

// A third server's old vote is not enough, and neither is that of one which has
// since begun to look.
func TestOldSettledVotes(t *testing.T) {
	e := patient()
	e.Look(0, myZxid, 1)
	e.Look(0, myZxid, 1)
	look(e) // election 3
	e.Step(ms, says(3, Leading, 3, myZxid, 2, 2))
	wantLooking(t, e)
	e.Step(ms, says(2, Looking, 2, myZxid-1, 2, 3))
	e.Step(ms, says(3, Following, 2, myZxid-1, 2, 2))
	wantLooking(t, e)
	e.Step(ms, says(3, Leading, 3, myZxid, 2, 2))
	e.Step(ms, says(3, Looking, 3, myZxid-2, 1, 3)) // it has stopped to lead
	e.Step(ms, says(2, Following, 3, myZxid, 2, 2)) // this one has not noticed
	wantLooking(t, e)
}

// What was said of settling before an election does not count in it; an old
// looking vote does not take back a younger settled one.
func TestSettledVotesOfOneElection(t *testing.T) {
	for _, electionEpoch := range []int64{1, 9} { // as the first election, or not
		e := look(patient())
		e.Step(ms, says(3, Leading, 3, myZxid, 2, electionEpoch))
		e.Step(ms, says(2, Following, 3, myZxid, 2, electionEpoch))
		wantElected(t, e, Following, Vote{3, myZxid, 2, electionEpoch})
		look(e)
		e.Step(ms, says(2, Following, 3, myZxid, 2, electionEpoch+1))
		wantLooking(t, e)
	}
	e := look(patient())
	e.Step(ms, says(2, Following, 3, myZxid, 2, 9))
	e.Step(ms, says(2, Looking, 2, 3, 1, 7))
	e.Step(ms, says(3, Leading, 3, myZxid, 2, 9))
	wantElected(t, e, Following, Vote{3, myZxid, 2, 9})
}

// Rule 12.4.6: an observer's message is ignored, even from a voter.
func TestObservingIsIgnored(t *testing.T) {
	e := look(patient())
	e.Step(0, says(2, Observing, 3, myZxid+9, 9, 9))
	e.Step(0, says(3, Observing, 3, myZxid+9, 9, 1))
	wantVote(t, e, 1, myZxid, 1, 1)
	wantSent(t, e)
}

// Rule 12.4: who has settled answers who looks, with the elected vote and its
// election epoch, and is silent to others. With the new epoch once it is known.
func TestSettledAnswers(t *testing.T) {
	e := look(patient())
	e.Step(ms, says(3, Leading, 3, myZxid+7, 4, 9))
	e.Step(ms, says(2, Following, 3, myZxid, 4, 6))
	wantElected(t, e, Following, Vote{3, myZxid + 7, 4, 9})
	e.Step(ms, says(2, Looking, 2, myZxid, 1, 44)) // before Settle already
	wantSent(t, e, "->2 FOLLOWING 3 (epoch 4, zxid 0x10000000c, election 9)")
	e.Settle(Following, 3, 4)
	e.Messages()
	for _, s := range []State{Following, Leading, Observing} {
		e.Step(ms, says(3, s, 3, myZxid, 4, 9))
	}
	wantSent(t, e)
	wantVote(t, e, 3, myZxid+7, 4, 9)
	e.Settle(Following, 3, 5)
	e.Messages()
	e.Step(ms, says(3, Looking, 3, myZxid, 1, 1))
	wantSent(t, e, "->3 FOLLOWING 3 (epoch 5, zxid 0x10000000c, election 9)")
}

// A server that has left its role, and cannot vote yet, tells nobody of a leader;
// the votes that come meanwhile count when it looks.
func TestWithdrawnSaysNothing(t *testing.T) {
	for _, settled := range []bool{false, true} {
		e := look(patient(quick))
		if settled {
			e.Settle(Leading, 1, 2)
		}
		e.Withdraw(false)
		e.Step(0, says(2, Looking, 2, myZxid, 1, 2))
		e.Step(0, says(9, Looking, 9, myZxid, 1, 2)) // no voter
		e.Tick(time.Hour)
		e.Reachable(3)
		if m := e.Messages(); len(m) != 0 {
			t.Errorf("it says %v", m)
		}
		if _, ok := e.Deadline(); ok {
			t.Error("it waits for something")
		}
		if _, ok := e.Elected(); ok || e.State() != Looking {
			t.Errorf("it is %v", e.State())
		}
		e.Look(0, myZxid, 1)
		if got := e.Vote().Leader; got != 2 {
			t.Errorf("it votes for %d, not for the server that has voted for itself meanwhile", got)
		}
	}
}

// A round that nobody can have counted to is taken over like any other, since a
// server that has just started cannot know better. The elections after it end all
// the same, whatever a stranger says and however often.
func TestNoRoundEndsAllElections(t *testing.T) {
	for _, round := range []int64{1 << 62, 1<<62 - 1, 1<<62 + 1, math.MaxInt64 - 1, math.MaxInt64} {
		a, b := patient(quick), patient(quick, func(c *Config) { c.ID = 2 })
		a.Unreachable(3)
		b.Unreachable(3)
		exchange := func() {
			for range 8 {
				for _, m := range a.Messages() {
					if m.To == 2 {
						b.Step(0, m.Notification)
					}
				}
				for _, m := range b.Messages() {
					if m.To == 1 {
						a.Step(0, m.Notification)
					}
				}
			}
		}
		for i := range 5 {
			a.Look(0, myZxid, 1)
			if i%2 == 0 {
				a.Step(0, says(3, Looking, 1, myZxid-1, 1, round))
			}
			b.Look(0, myZxid, 1)
			exchange()
			for _, e := range []*Election{a, b} {
				if r, ok := e.Elected(); !ok || r.Leader != 2 {
					t.Fatalf("round %d: election %d has not ended: %v and %v", round, i, a, b)
				}
			}
		}
		// One that has just started takes part.
		a = patient(quick)
		a.Unreachable(3)
		a.Look(0, myZxid, 1)
		b.Look(0, myZxid, 1)
		exchange()
		if _, ok := a.Elected(); !ok {
			t.Fatalf("round %d: a server that has just started is not let in: %v and %v", round, a, b)
		}
	}
}

// A vote for this server on grounds that are not its own is not adopted: it is stale
// or invented. Servers that believe it are told better by nobody else.
func TestVotesOnFalseGroundsAreNotAdopted(t *testing.T) {
	for _, v := range []Notification{
		says(2, Looking, 1, myZxid+1, 1, 1), says(2, Looking, 1, myZxid, 2, 1), says(2, Looking, 1, myZxid, math.MaxInt64, 7),
	} {
		e := look(patient())
		e.Step(0, v)
		wantVote(t, e, 1, myZxid, 1, v.ElectionEpoch)
	}
	// The candidate itself says otherwise: its vote is the best that it knows.
	e := look(patient())
	e.Step(0, says(2, Looking, 3, myZxid, 9, 1)) // believed for now
	wantVote(t, e, 3, myZxid, 9, 1)
	e.Step(0, says(3, Looking, 3, myZxid+1, 1, 1))
	wantVote(t, e, 3, myZxid+1, 1, 1)
	e.Step(0, says(2, Looking, 3, myZxid, 9, 1)) // not once more
	wantVote(t, e, 3, myZxid+1, 1, 1)
	e.Step(0, says(2, Looking, 3, myZxid+1, 1, 1))
	e.Tick(200 * ms)
	wantElected(t, e, Following, Vote{3, myZxid + 1, 1, 1})
}
