package election

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/zab/quorum"
	"github.com/pinfold-zk/pinfold/zk"
)

// EarlyFinish: with every voter's vote in there is nothing to wait for.
func TestEarlyFinishWithAllVotes(t *testing.T) {
	e := look(patient(quick))
	e.Step(ms, says(2, Looking, 1, myZxid, 1, 1))
	wantLooking(t, e)
	e.Step(ms, says(3, Looking, 3, myZxid-1, 1, 1)) // in, but not the same
	wantLooking(t, e)
	e.Step(2*ms, says(3, Looking, 1, myZxid, 1, 1))
	wantElected(t, e, Leading, Vote{1, myZxid, 1, 1})
}

// EarlyFinish: without one of them Apache's wait is kept.
func TestEarlyFinishWaitsForTheReachable(t *testing.T) {
	e := look(patient(quick))
	e.Step(ms, says(2, Looking, 1, myZxid, 1, 1))
	e.Tick(200 * ms)
	wantLooking(t, e)
	e.Tick(201 * ms)
	wantElected(t, e, Leading, Vote{1, myZxid, 1, 1})
}

// Unreachable: a dead voter is not waited for, whether that is known before the
// quorum or after.
func TestUnreachableIsNotWaitedFor(t *testing.T) {
	e := look(patient(quick))
	e.Unreachable(3)
	wantLooking(t, e)
	e.Step(ms, says(2, Looking, 1, myZxid, 1, 1))
	wantElected(t, e, Leading, Vote{1, myZxid, 1, 1})

	e = look(patient(quick))
	e.Step(ms, says(2, Looking, 2, myZxid, 1, 1))
	wantLooking(t, e)
	e.Unreachable(3)
	wantElected(t, e, Following, Vote{2, myZxid, 1, 1})

	// Known before the election began.
	e = patient(quick)
	e.Unreachable(3)
	look(e)
	e.Step(ms, says(2, Looking, 1, myZxid, 1, 1))
	wantElected(t, e, Leading, Vote{1, myZxid, 1, 1})

	// Without EarlyFinish it changes nothing.
	e = look(patient())
	e.Unreachable(3)
	e.Step(ms, says(2, Looking, 1, myZxid, 1, 1))
	wantLooking(t, e)
}

// Nobody is elected without a quorum, whoever is unreachable.
func TestUnreachableMakesNoQuorum(t *testing.T) {
	e := look(patient(quick))
	for _, id := range []int64{1, 2, 3, 4} {
		e.Unreachable(id)
	}
	e.Tick(time.Hour)
	wantLooking(t, e)
}

// Reachable: it is waited for again, and told the vote.
func TestReachable(t *testing.T) {
	e := patient(quick)
	e.Unreachable(3)
	e.Reachable(3)
	wantSent(t, e)
	look(e)
	e.Reachable(3)
	e.Reachable(1) // myself
	e.Reachable(9) // a stranger
	wantSent(t, e, "->3 LOOKING 1 (epoch 1, zxid 0x100000005, election 1)")
	e.Step(ms, says(2, Looking, 1, myZxid, 1, 1))
	wantLooking(t, e)
	e.Settle(Leading, 1, 1)
	e.Reachable(3)
	wantSent(t, e)
}

// What a dead server said of leading is not believed, nor of following.
func TestUnreachableLeaderIsNotJoined(t *testing.T) {
	for _, electionEpoch := range []int64{1, 9} {
		e := look(patient())
		e.Step(ms, says(3, Leading, 3, myZxid-1, 1, electionEpoch))
		e.Unreachable(3)
		e.Step(ms, says(2, Following, 3, myZxid-1, 1, electionEpoch))
		wantLooking(t, e)
	}
	e := look(patient())
	e.Step(ms, says(2, Following, 1, myZxid-1, 1, 1))
	e.Unreachable(2)
	if e.received[1].cast {
		t.Error("a follower's vote outlives it")
	}
	// A looking voter's vote is judged by its election epoch alone.
	e.Step(ms, says(3, Looking, 1, myZxid, 1, 1))
	e.Unreachable(3)
	e.Tick(201 * ms)
	wantElected(t, e, Leading, Vote{1, myZxid, 1, 1})
}

// A worse vote of the same election is answered: its sender may have missed ours.
func TestWorseVoteIsAnswered(t *testing.T) {
	e := look(patient())
	e.Step(ms, says(2, Looking, 2, myZxid-1, 1, 1))
	wantSent(t, e, "->2 LOOKING 1 (epoch 1, zxid 0x100000005, election 1)")
	e.Step(ms, says(2, Looking, 1, myZxid, 1, 1))
	e.Step(ms, says(3, Looking, 1, myZxid, 1, 1))
	wantSent(t, e)
}

// A vote that came just before Look counts as if it came just after.
func TestEarlyVotes(t *testing.T) {
	for _, c := range []struct {
		name    string
		came    time.Duration
		looked  time.Duration
		elected bool
	}{
		{"just before", 900 * ms, 901 * ms, true},
		{"at the edge", 900 * ms, 1100 * ms, true},
		{"too long ago", 900 * ms, 1101 * ms, false},
	} {
		e := look(patient(quick))
		e.Step(ms, says(3, Leading, 3, myZxid+7, 4, 1))
		e.Step(ms, says(2, Following, 3, myZxid, 4, 1))
		e.Elected()
		e.Settle(Following, 3, 5)
		e.Messages()
		vote := says(2, Looking, 2, myZxid+9, 5, 2)
		vote.Config = []byte("the receiver's buffer")
		e.Step(c.came, vote)
		if got := e.earlyVotes[1].n.Config; got != nil {
			t.Errorf("%q is kept", got)
		}
		wantSent(t, e, "->2 FOLLOWING 3 (epoch 5, zxid 0x10000000c, election 1)")
		e.Unreachable(3)
		e.Look(c.looked, myZxid+8, 5)
		if _, ok := e.Elected(); ok != c.elected {
			t.Errorf("%s: %v", c.name, e)
		}
		if !c.elected {
			continue
		}
		wantVote(t, e, 2, myZxid+9, 5, 2)
		wantSent(t, e,
			"->2 LOOKING 2 (epoch 5, zxid 0x10000000e, election 2)",
			"->3 LOOKING 2 (epoch 5, zxid 0x10000000e, election 2)")
		e.Look(c.looked, myZxid+8, 5) // it counts for one election
		wantLooking(t, e)
	}
	// Also before the first Look, when there is nothing to answer; not the
	// word of one who has settled.
	e := patient(quick)
	e.Step(0, says(2, Looking, 2, myZxid+1, 1, 1))
	e.Step(0, says(3, Looking, 2, myZxid+1, 1, 1))
	wantSent(t, e)
	e.Look(0, myZxid, 1)
	wantElected(t, e, Following, Vote{2, myZxid + 1, 1, 1})
	e = patient()
	e.Step(0, says(3, Leading, 3, myZxid, 1, 1))
	look(e)
	e.Step(0, says(2, Following, 3, myZxid, 1, 1))
	wantLooking(t, e)
}

// Who was answered with a vote that has changed since is told the new one.
func TestAskersAreToldAgain(t *testing.T) {
	e := look(patient())
	e.Step(ms, says(9, Looking, NoCandidate, math.MinInt64, math.MinInt64, 1)) // an observer
	e.Step(ms, says(2, Looking, 1, myZxid, 1, 1))
	e.Tick(201 * ms)
	e.Messages()
	e.Step(201*ms, says(3, Looking, 3, 2, 1, 1)) // a late voter
	wantSent(t, e, "->3 LEADING 1 (epoch 1, zxid 0x100000005, election 1)")
	e.Settle(Leading, 1, 1)
	wantSent(t, e,
		"->3 LEADING 1 (epoch 1, zxid 0x100000005, election 1)",
		"->9 LEADING 1 (epoch 1, zxid 0x100000005, election 1)")
	e.Settle(Leading, 1, 2)
	wantSent(t, e,
		"->3 LEADING 1 (epoch 2, zxid 0x100000005, election 1)",
		"->9 LEADING 1 (epoch 2, zxid 0x100000005, election 1)")
	look(e)
	e.Settle(Following, 3, 3)
	wantSent(t, e)
}

// Memory is bounded, whatever ids ask.
func TestAskersAreBounded(t *testing.T) {
	e := look(patient())
	for id := range int64(2 * maxAsked) {
		e.Step(0, says(100+id, Looking, 2, myZxid, 1, 1))
		if got := len(e.Messages()); got != 1 {
			t.Fatalf("server %d gets %d messages", 100+id, got)
		}
	}
	e.Settle(Following, 2, 1)
	if got := len(e.Messages()); got != maxAsked {
		t.Errorf("%d are told again", got)
	}
}

// P5: servers that know different voters may be strangers to each other. If both look,
// one question makes one answer of each, until it is asked again.
func TestStrangersDoNotKeepEachOtherBusy(t *testing.T) {
	as := func(id int64, observer bool, members ...int64) *Election {
		return look(patient(voters(quorum.Majority(members...)), func(c *Config) {
			c.ID, c.Observer, c.Changes = id, observer, true
		}))
	}
	for _, tt := range []struct {
		name string
		a, b *Election
	}{
		{"a server that has lost its vote, and an observer", as(3, false, 1, 2, 4), as(5, true, 1, 2, 4)},
		{"two servers that have lost their votes", as(3, false, 1, 2), as(5, false, 1, 2)},
		{"voters of different ensembles", as(3, false, 1, 3), as(5, false, 4, 5)},
		{"a voter, of which only the other one knows", as(3, false, 3, 5), as(5, false, 1, 2, 4)},
	} {
		ids := map[int64]*Election{3: tt.a, 5: tt.b}
		exchange := func(first Notification) (messages int) {
			under := []Message{{To: 3, Notification: first}}
			for ; len(under) > 0 && messages < 10; messages++ {
				m := under[0]
				under = under[1:]
				ids[m.To].Step(ms, m.Notification)
				for _, answer := range ids[m.To].Messages() {
					if ids[answer.To] != nil {
						under = append(under, answer)
					}
				}
			}
			return messages
		}
		question := says(5, Looking, NoCandidate, myZxid, 1, 3)
		if n := exchange(question); n > 4 {
			t.Errorf("%s: %d messages", tt.name, n)
		}
		exchange(question) // the last answer may be lost: it is given after a broadcast, or over another link
		tt.a.Reachable(5)
		tt.a.Messages()
		if n := exchange(question); n < 2 {
			t.Errorf("%s: not answered over another link", tt.name)
		}
		tt.a.Tick(time.Second)
		tt.a.Messages()
		if n := exchange(question); n < 2 {
			t.Errorf("%s: not answered after a broadcast", tt.name)
		}
	}
}

// Who has no vote only joins: it counts no looking votes and answers nobody.
func TestObserverJoinsOnly(t *testing.T) {
	e := look(patient(watcher, quick))
	for _, id := range []int64{1, 2, 3} {
		e.Step(ms, says(id, Looking, 3, myZxid, 1, 1))
	}
	e.Step(ms, says(1, Looking, 3, myZxid, 1, 0))
	e.Step(ms, says(8, Looking, NoCandidate, 0, 0, 1))
	e.Tick(100 * ms)
	wantLooking(t, e)
	wantSent(t, e)
	wantDeadline(t, e, 200*ms)
	e.Unreachable(1)
	e.Step(ms, says(3, Leading, 3, myZxid, 2, 7))
	e.Step(ms, says(2, Following, 3, myZxid, 2, 7))
	wantElected(t, e, Observing, Vote{3, myZxid, 2, 7})
	e.Step(ms, says(2, Looking, 2, myZxid, 2, 8))
	e.Step(ms, says(8, Looking, NoCandidate, 0, 0, 1))
	wantSent(t, e)

	// A server that is to become a voter follows.
	e = look(patient(func(c *Config) { c.ID = 9 }))
	e.Step(ms, says(3, Leading, 3, myZxid, 2, 7))
	e.Step(ms, says(2, Following, 3, myZxid, 2, 7))
	wantElected(t, e, Following, Vote{3, myZxid, 2, 7})
}

// A voter alone elects itself, as does one whose weight is enough.
func TestAloneIsQuorum(t *testing.T) {
	e := look(patient(voters(quorum.Majority(1)), quick))
	wantElected(t, e, Leading, Vote{1, myZxid, 1, 1})

	s, err := quorum.Weighted(map[int64]int64{1: 9}, map[int64]int64{1: 1, 2: 1, 3: 1})
	if err != nil {
		t.Fatal(err)
	}
	e = look(patient(voters(s), quick))
	wantLooking(t, e)
	e.Tick(200 * ms)
	wantElected(t, e, Leading, Vote{1, myZxid, 1, 1})
}

// A message of a server with this one's id is ignored. The clock never overflows.
func TestImpossibleMessages(t *testing.T) {
	e := look(patient())
	e.Step(0, says(1, Looking, 2, myZxid+1, 9, 5))
	wantVote(t, e, 1, myZxid, 1, 1)
	wantSent(t, e)
	e.Step(0, says(2, Looking, 2, myZxid+1, 9, math.MaxInt64))
	if e.ElectionEpoch() != math.MaxInt64 {
		t.Errorf("the clock is %d", e.ElectionEpoch())
	}
	look(e)
	if e.ElectionEpoch() != 1 {
		t.Errorf("the clock is %d", e.ElectionEpoch())
	}
	// A settled vote may be of no election: -1 (12.1).
	e.Step(0, says(2, Leading, 2, myZxid, 3, -1))
	e.Step(0, says(3, Following, 2, myZxid, 3, -1))
	wantElected(t, e, Following, Vote{2, myZxid, 3, -1})
}

// Invariant 1: joining an older election does not turn the clock back.
func TestClockNeverGoesBack(t *testing.T) {
	e := patient()
	for range 6 {
		e.Look(0, myZxid, 1)
	}
	look(e) // election 7
	e.Step(0, says(3, Leading, 3, myZxid, 2, 4))
	e.Step(0, says(2, Following, 3, myZxid, 2, 4))
	wantElected(t, e, Following, Vote{3, myZxid, 2, 4})
	if e.ElectionEpoch() != 7 {
		t.Errorf("the clock is %d", e.ElectionEpoch())
	}
	e.Look(0, myZxid, 2)
	wantVote(t, e, 1, myZxid, 2, 8)
}

// Messages to one server are one: the last, as the queue of a link holds.
func TestLastMessageCounts(t *testing.T) {
	e := patient()
	e.Look(0, myZxid, 1)
	e.Step(0, says(2, Looking, 2, myZxid+1, 1, 1))
	e.Settle(Following, 2, 3)
	e.Step(0, says(3, Looking, 3, 1, 1, 1))
	wantSent(t, e,
		"->2 LOOKING 2 (epoch 1, zxid 0x100000006, election 1)",
		"->3 FOLLOWING 2 (epoch 3, zxid 0x100000006, election 1)")
	wantSent(t, e)
}

// Settle by itself: another leader than the elected one, or no election at all.
func TestSettleOnAnother(t *testing.T) {
	e := patient()
	e.Settle(Leading, 1, 4)
	wantVote(t, e, 1, 0, 4, 0)
	look(e)
	look(e)
	look(e) // election 3
	e.Step(0, says(3, Leading, 3, myZxid, 2, 1))
	e.Step(0, says(2, Following, 3, myZxid, 2, 1))
	e.Settle(Following, 3, 5)
	wantVote(t, e, 3, myZxid, 5, 1)
	e.Settle(Following, 2, 6)
	wantVote(t, e, 2, myZxid, 6, 3)
	if r, ok := e.Elected(); ok {
		t.Errorf("elected %v after Settle", r)
	}
	e.Tick(time.Hour)
	wantSent(t, e)
}

// Leaving the role during an election that ended unseen forgets its result.
func TestLookForgetsTheResult(t *testing.T) {
	e := look(patient())
	e.Step(0, says(2, Following, 1, myZxid, 1, 1))
	look(e)
	wantLooking(t, e)
}

func TestMistakesPanic(t *testing.T) {
	for name, f := range map[string]func(){
		"no system":      func() { New(Config{ID: 1}) },
		"settle LOOKING": func() { patient().Settle(Looking, 1, 1) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}

// A server that cannot lead votes, but not for itself if there is any other candidate.
func TestAnUnfitServerIsNotElected(t *testing.T) {
	e := patient(quick)
	e.SetUnfit(true)
	look(e)
	if v := e.Vote(); v != (Vote{1, 0, -1, 1}) {
		t.Fatalf("its vote is %v", v)
	}
	e.Step(ms, says(2, Looking, 2, 0, 0, 1)) // an empty server of an earlier epoch
	e.Step(ms, says(3, Looking, 2, 0, 0, 1))
	wantElected(t, e, Following, Vote{2, 0, 0, 1})

	// A vote for it on the grounds of its log is not believed.
	look(e)
	e.Step(ms, says(2, Looking, 1, myZxid, 1, 2))
	if v := e.Vote(); v != (Vote{1, 0, -1, 2}) {
		t.Fatalf("its vote is %v", v)
	}

	// Fit again.
	e.SetUnfit(false)
	look(e)
	if v := e.Vote(); v != (Vote{1, myZxid, 1, 3}) {
		t.Fatalf("its vote is %v", v)
	}
}

// A server that cannot vote for long endorses a vote that a quorum of the others has
// cast: to those that have cast it, and to no one before it is a quorum's.
func TestAServerThatCannotVoteEndorses(t *testing.T) {
	e := look(patient(quick))
	e.Settle(Leading, 1, 1)
	e.Withdraw(true)
	e.Step(ms, says(2, Looking, 2, myZxid, 1, 7))
	e.Step(ms, says(3, Looking, 3, myZxid, 1, 7))
	e.Step(ms, says(9, Looking, 3, myZxid, 1, 7))   // no voter
	e.Step(ms, says(2, Following, 3, myZxid, 1, 7)) // does not look
	wantSent(t, e)
	e.Step(ms, says(2, Looking, 3, myZxid, 1, 6)) // another election
	wantSent(t, e)
	e.Step(ms, says(2, Looking, 3, myZxid, 1, 7))
	wantSent(t, e,
		"->2 LOOKING 3 (epoch 1, zxid 0x100000005, election 7)",
		"->3 LOOKING 3 (epoch 1, zxid 0x100000005, election 7)")
	e.Step(ms, says(2, Looking, 1, myZxid+1, 1, 7)) // for this server, which cannot lead
	wantSent(t, e, "->2 LOOKING nobody (election 7)")
	if e.State() != Looking || e.ElectionEpoch() != 7 {
		t.Errorf("it is in %v", e)
	}
	// Its own vote is not of the election in which it has endorsed another.
	e.Look(2*ms, myZxid, 1)
	wantSent(t, e,
		"->2 LOOKING 1 (epoch 1, zxid 0x100000005, election 8)",
		"->3 LOOKING 1 (epoch 1, zxid 0x100000005, election 8)")

	// An observer is not waited for.
	o := look(patient(watcher))
	o.Withdraw(true)
	o.Step(ms, says(2, Looking, 2, myZxid, 1, 7))
	o.Step(ms, says(3, Looking, 2, myZxid, 1, 7))
	wantSent(t, o)
}

// With that, the others need no timer, and one exchange of messages more than if it
// were unreachable.
func TestAnEndorsedElectionNeedsNoTimer(t *testing.T) {
	es := map[int64]*Election{}
	for id := int64(1); id <= 3; id++ {
		e := New(Config{ID: id, Electorate: Electorate{System: three}, EarlyFinish: true})
		e.Look(0, 5, 1)
		e.Messages()
		if id == 3 {
			e.Settle(Leading, 3, 1)
			e.Withdraw(true)
		} else {
			e.Settle(Following, 3, 1)
		}
		es[id] = e
	}
	var flight []Message
	for id := int64(1); id <= 2; id++ {
		es[id].Look(ms, 5, 1)
		flight = append(flight, slices.Clone(es[id].Messages())...)
	}
	for hops := 0; len(flight) > 0; hops++ {
		if hops == 4 {
			t.Fatalf("messages after %d hops: %v", hops, flight)
		}
		var next []Message
		for _, m := range flight {
			es[m.To].Step(ms, m.Notification)
			next = append(next, slices.Clone(es[m.To].Messages())...)
		}
		flight = next
	}
	wantElected(t, es[1], Following, Vote{2, 5, 1, 2})
	wantElected(t, es[2], Leading, Vote{2, 5, 1, 2})
	wantLooking(t, es[3])
}

// A server that defers to the others follows the best of them as soon as that one votes for itself,
// and says so to all, before the others have agreed.
func TestAServerThatDefersFollowsTheBestAtOnce(t *testing.T) {
	defers := func() *Election {
		e := look(patient(quick)) // server 1 of 3
		e.Settle(Leading, 1, 1)
		e.Withdraw(true)
		e.Defer(ms, myZxid, 1)
		return e
	}
	followed := []string{
		"->2 FOLLOWING 3 (epoch 1, zxid 0x100000005, election 7)",
		"->3 FOLLOWING 3 (epoch 1, zxid 0x100000005, election 7)",
	}
	e := defers()
	e.Step(ms, says(2, Looking, 2, myZxid, 1, 7)) // 3 may outrank it
	e.Step(ms, says(2, Looking, 3, myZxid, 1, 7)) // 3 has not voted so
	wantSent(t, e)
	e.Step(ms, says(3, Looking, 3, myZxid, 1, 7))
	wantSent(t, e, followed...)
	wantElected(t, e, Following, Vote{3, myZxid, 1, 7})

	// A vote that came before counts, if it is recent.
	e = look(patient(quick))
	e.Settle(Leading, 1, 1)
	e.Withdraw(true)
	e.Step(ms, says(3, Looking, 3, myZxid, 1, 7))
	wantSent(t, e)
	e.Defer(2*ms, myZxid, 1)
	wantSent(t, e, followed...)
	e = look(patient(quick))
	e.Settle(Leading, 1, 1)
	e.Withdraw(true)
	e.Step(ms, says(3, Looking, 3, myZxid, 1, 7))
	e.Defer(ms+e.cfg.FinalizeWait+1, myZxid, 1)
	wantSent(t, e)

	// Not one whose history is another, whatever the reason; the others elect by themselves then.
	for _, more := range []int{-1, 1} {
		e = defers()
		e.Step(ms, says(3, Looking, 3, myZxid+zk.Zxid(more), 1, 7))
		wantSent(t, e)
	}
	e = defers()
	e.Step(ms, says(3, Looking, 3, myZxid, 0, 7))
	wantSent(t, e)

	// The best that is reachable.
	e = defers()
	e.Unreachable(3)
	e.Step(ms, says(2, Looking, 2, myZxid, 1, 7))
	wantElected(t, e, Following, Vote{2, myZxid, 1, 7})

	// No fewer than a quorum.
	e = look(patient(quick, voters(quorum.Majority(1, 2, 3, 4, 5))))
	e.Settle(Leading, 1, 1)
	e.Withdraw(true)
	e.Defer(ms, myZxid, 1)
	e.Step(ms, says(5, Looking, 5, myZxid, 1, 7))
	wantSent(t, e)
	e.Step(ms, says(2, Looking, 5, myZxid, 1, 7))
	wantElected(t, e, Following, Vote{5, myZxid, 1, 7})

	// It does so once, and not when it has its own vote again.
	e = defers()
	e.Look(2*ms, myZxid, 1)
	e.Messages()
	e.Step(3*ms, says(3, Looking, 3, myZxid, 1, 7))
	wantLooking(t, e)
}

// Votes on false grounds whose candidate has gone may part the servers: those that know what
// the candidate has said do not adopt them. When the votes have been exchanged, the election
// starts again, without them.
func TestADisputedElectionStartsAgain(t *testing.T) {
	e := look(patient(voters(quorum.Majority(1, 2, 3, 4, 5))))
	ghost := func(from int64) Notification { return says(from, Looking, 5, myZxid+9, 9, 1) }
	fours := func(from, election int64) Notification { return says(from, Looking, 4, myZxid, 1, election) }
	e.Step(0, ghost(2))
	e.Step(0, fours(3, 1))
	e.Step(0, fours(4, 1))
	now := time.Duration(0)
	for e.ElectionEpoch() == 1 && now < 2*time.Second {
		at, ok := e.Deadline()
		if !ok {
			t.Fatal("the election has ended")
		}
		e.Messages()
		now = at
		e.Tick(now)
		e.Step(now, fours(4, 1)) // it is sent again
	}
	const own = "LOOKING 1 (epoch 1, zxid 0x100000005, election 2)"
	wantSent(t, e, "->2 "+own, "->3 "+own, "->4 "+own, "->5 "+own)
	for id := int64(2); id <= 4; id++ {
		e.Step(now, fours(id, 2))
	}
	at, _ := e.Deadline()
	e.Tick(at)
	if r, ok := e.Elected(); !ok || r.Leader != 4 {
		t.Errorf("elected %+v, %v", r, ok)
	}
}

// Servers of which none may be elected, for want of weight or because they abstain, do not
// answer each other's votes: there is nothing better to propose, and each answer would
// cause another.
func TestServersWithoutCandidateAreQuiet(t *testing.T) {
	weightless, err := quorum.Weighted(map[int64]int64{1: 0, 2: 0}, map[int64]int64{1: 1, 2: 1, 3: 1})
	if err != nil {
		t.Fatal(err)
	}
	abstains := func(c *Config) { c.Abstains, c.Changes = true, true }
	for _, tt := range []struct {
		name  string
		e     *Election
		other Notification
	}{
		{"weightless", patient(voters(weightless)), says(2, Looking, 2, myZxid+1, 1, 1)},
		{"abstaining", patient(abstains), says(2, Looking, NoCandidate, myZxid+1, 1, 1)},
	} {
		look(tt.e)
		for range 3 {
			tt.e.Step(ms, tt.other)
		}
		if got := tt.e.Messages(); len(got) != 0 {
			t.Errorf("%s: answered by %v", tt.name, got)
		}
		tt.e.Step(2*ms, says(3, Looking, 3, 7, 0, 1))
		wantVote(t, tt.e, 3, 7, 0, 1)
	}
}

// A voter that is set aside gets no vote of this server, which does not join it either, and
// answers no vote for it: its owner would answer in turn, without end. Once the time is over it is
// a candidate like any other.
func TestSetAside(t *testing.T) {
	e := patient(quick)
	e.SetAside(3, time.Second)
	e.SetAside(1, time.Second) // not possible: this server is 1
	look(e)
	e.Step(ms, says(3, Looking, 3, myZxid, 1, 1))
	wantVote(t, e, 1, myZxid, 1, 1)
	wantSent(t, e)
	e.Step(2*ms, says(2, Looking, 2, myZxid, 1, 1))
	wantVote(t, e, 2, myZxid, 1, 1)
	e.Messages()
	e.Step(3*ms, says(3, Leading, 3, myZxid, 1, 1))
	e.Step(3*ms, says(2, Following, 3, myZxid, 1, 1))
	wantLooking(t, e)
	e.Step(time.Second, says(2, Following, 3, myZxid, 1, 1))
	if r, ok := e.Elected(); !ok || r.Leader != 3 {
		t.Errorf("elected %v, %v", r, ok)
	}
}

// A quorum without a voter is of this server and of others that can be reached and are not set aside.
func TestQuorumWithout(t *testing.T) {
	e := New(Config{ID: 1, Electorate: Electorate{System: three}})
	is := func(what string, now time.Duration, there bool) {
		t.Helper()
		if got := e.QuorumWithout(3, now); got != there {
			t.Errorf("%s: %v", what, got)
		}
	}
	is("all are there", 0, true)
	e.Unreachable(2)
	is("another one is unreachable", 0, false)
	e.Reachable(2)
	is("it is reachable", 0, true)
	e.SetAside(2, time.Second)
	is("it is set aside", time.Second-1, false)
	is("it is no more", time.Second, true)
	if !e.Aside(2, time.Second-1) || e.Aside(2, time.Second) || e.Aside(3, 0) || e.Aside(9, 0) {
		t.Error("others are set aside")
	}
}

// Three servers, of which two have set the best one aside, elect another, which it joins; and
// the election is no endless exchange. Later the best one is elected.
func TestTwoOfThreeSetTheBestAside(t *testing.T) {
	c := newCluster(three)
	for id := int64(1); id <= 3; id++ {
		c.servers[id] = &server{cfg: Config{ID: id, Electorate: Electorate{System: three}, EarlyFinish: true}, last: myZxid, epoch: 1}
	}
	for _, id := range c.ids() {
		s := c.servers[id]
		s.e = New(s.cfg)
		s.e.SetAside(3, 4*time.Second)
		c.look(s)
	}
	c.run(2 * time.Second)
	for _, s := range c.living() {
		if s.e.Vote().Leader != 2 || s.e.State() == Looking {
			t.Errorf("%d: %v", s.cfg.ID, s.e)
		}
	}
	if c.sent > 30 {
		t.Errorf("%d messages", c.sent)
	}
	c.run(5 * time.Second)
	for _, s := range c.living() {
		c.look(s)
	}
	c.run(7 * time.Second)
	for _, s := range c.living() {
		if s.e.Vote().Leader != 3 {
			t.Errorf("later %d: %v", s.cfg.ID, s.e)
		}
	}
	if len(c.broken) > 0 {
		t.Error(c.broken)
	}
}

// A voter that has no vote at present says so to those that vote for it, in their election
// epoch or in its own later one, and they take their votes back.
func TestAVoterWithoutVoteIsNoCandidate(t *testing.T) {
	heals := patient(func(c *Config) { c.ID, c.Observer = 3, true })
	look(heals)
	heals.Step(ms, says(1, Looking, 3, myZxid, 1, 4))
	heals.Step(ms, says(2, Looking, 3, myZxid, 1, 2))
	heals.Step(ms, says(2, Looking, 2, myZxid, 1, 2)) // not for it
	heals.Step(ms, says(9, Looking, 3, myZxid, 1, 2)) // no voter
	answers := slices.Clone(heals.Messages())
	if len(answers) != 2 || answers[0].String() != "->1 LOOKING nobody (election 4)" || answers[1].String() != "->2 LOOKING nobody (election 4)" {
		t.Fatalf("sent %v", answers)
	}
	for epoch := int64(3); epoch <= 4; epoch++ {
		e := look(patient())
		e.Step(0, says(2, Looking, 3, myZxid, 1, epoch))
		wantVote(t, e, 3, myZxid, 1, epoch)
		e.Messages()
		e.Step(ms, answers[0].Notification)
		wantVote(t, e, 1, myZxid, 1, 4)
		e.Step(ms, says(2, Looking, 3, myZxid, 1, 4)) // 2 has not heard it
		wantVote(t, e, 1, myZxid, 1, 4)
	}
}

// A server that was elected while a better candidate could not be reached is deserted when so many of its voters hear
// of that one that the rest is no quorum.
func TestDeserted(t *testing.T) {
	five := quorum.Majority(1, 2, 3, 4, 5)
	elected := func() *Election {
		e := patient(quick, voters(five))
		e.Unreachable(5)
		look(e)
		for _, id := range []int64{2, 3, 4} {
			e.Step(ms, says(id, Looking, 1, myZxid, 1, 1))
		}
		wantElected(t, e, Leading, Vote{1, myZxid, 1, 1})
		e.Settle(Leading, 1, 1)
		return e
	}
	for _, c := range []struct {
		name string
		says []Notification
		want bool
	}{
		{"one of four votes for another", []Notification{says(2, Looking, 5, myZxid, 1, 1)}, false},
		{"two of four", []Notification{says(2, Looking, 5, myZxid, 1, 1), says(3, Looking, 5, myZxid, 1, 1)}, true},
		{"in other elections", []Notification{says(2, Looking, 5, myZxid, 1, 2), says(3, Looking, 5, myZxid, 1, 0)}, false},
		{"the candidate, who has not elected it", []Notification{says(2, Looking, 5, myZxid, 1, 1), says(5, Looking, 5, myZxid, 1, 1)}, false},
		{"for worse", []Notification{says(2, Looking, 3, myZxid-1, 1, 1), says(3, Looking, 3, myZxid-1, 1, 1)}, false},
		{"once more for it", []Notification{says(2, Looking, 1, myZxid, 1, 1), says(3, Looking, 1, myZxid, 1, 1)}, false},
	} {
		e := elected()
		for _, n := range c.says {
			e.Step(2*ms, n)
		}
		if got := e.Deserted(); got != c.want {
			t.Errorf("%s: deserted %v, want %v", c.name, got, c.want)
		}
		if look(e); e.Deserted() {
			t.Errorf("%s: deserted while it looks", c.name)
		}
	}
}
