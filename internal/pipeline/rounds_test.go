package pipeline

import (
	"testing"
	"time"
)

// leading returns the machine of a leader that has made a round of ten requests at
// time now, which was committed, and took so long.
func leading(now, took time.Duration) *Machine {
	m := New(nil)
	m.Gather(true)
	m.Submitted(10)
	if !m.Round(now) {
		panic("nothing is remembered, and yet requests wait")
	}
	m.Committed(7, now+took)
	m.Committed(3, now+took)
	return m
}

// A leader waits for as many requests as it has answered, as long as the last round
// took.
func TestRoundsWaitForTheAnswered(t *testing.T) {
	const took = 400 * time.Microsecond
	now := time.Second
	m := leading(now, took)
	m.Deadline(time.Minute)
	now += took
	m.Submitted(6)
	m.Forwards(3)
	if m.Round(now) {
		t.Fatal("nine of ten are a round")
	}
	if at := m.due(); at != now+took {
		t.Fatalf("waits until %v, want %v", at, now+took)
	}
	if m.Round(now + took/2) {
		t.Fatal("nine of ten are a round after half of the time")
	}
	m.Submitted(1)
	if !m.Round(now + took/2) {
		t.Fatal("ten of ten are no round")
	}
	if m.requests != 0 || m.forwards != 0 {
		t.Errorf("%d and %d requests are left", m.requests, m.forwards)
	}
}

// After a wait in vain some rounds begin at once, twice as many each time; a wait
// that was worth it is the end of that.
func TestRoundsAfterAWaitInVain(t *testing.T) {
	const took = 400 * time.Microsecond
	now := time.Second
	m := leading(now, took)
	// next has one request come when the last round is committed, and reports whether
	// it waits.
	next := func() bool {
		now += took
		m.Committed(10, now)
		m.Submitted(1)
		return !m.Round(now)
	}
	for misses := 1; misses <= maxMisses+1; misses++ {
		if !next() {
			t.Fatalf("not waited after %d waits in vain", misses-1)
		}
		if now += took; !m.Round(now) {
			t.Fatal("the wait does not end")
		}
		for skipped := range 1<<min(misses, maxMisses) - 1 {
			if next() {
				t.Fatalf("after %d waits in vain, and %d rounds without, there is another", misses, skipped)
			}
		}
	}
	if !next() {
		t.Fatal("not waited")
	}
	if m.Submitted(10); !m.Round(now) || m.rounds.misses != 0 {
		t.Errorf("a wait that was worth it leaves %d misses", m.rounds.misses)
	}
}

// A long round is not waited for as long, nor are more requests than maxGathered.
func TestRoundsHaveBounds(t *testing.T) {
	m := leading(time.Second, time.Minute)
	now := time.Second + time.Minute
	m.Submitted(1)
	if m.Round(now) || m.rounds.until != now+maxGather {
		t.Errorf("waits until %v, want %v", m.rounds.until, now+maxGather)
	}
	m.Committed(100_000, now)
	if m.Submitted(maxGathered - 1); m.Round(now) {
		t.Errorf("%d requests are a round", maxGathered)
	}
	if m.Submitted(1); !m.Round(now) {
		t.Errorf("%d requests are no round", maxGathered+1)
	}
}

// While its log is written a leader gathers, but not for longer than maxGather, and
// not once the last round is committed by the disks of others.
func TestRoundsDoNotWaitForASlowDisk(t *testing.T) {
	now := time.Second
	m := New(nil)
	m.Gather(true)
	m.Submitted(1)
	m.Round(now)
	m.Logging(1, false) // and it is not done
	m.Submitted(1)
	if m.Round(now) {
		t.Error("a request does not wait for the log")
	}
	if m.Submitted(SmallBatch); !m.Round(now) {
		t.Error("many requests wait for the log")
	}
	m.Submitted(1)
	if m.Round(now) {
		t.Error("a request does not wait for the second job")
	}
	if !m.Round(now + maxGather) {
		t.Error("a request waits for longer than maxGather")
	}
	m.Committed(1+SmallBatch+1+1, now+maxGather)
	m.rounds.skip = 1 // whether it waits for others is not the question
	if m.Submitted(1); !m.Round(now + maxGather) {
		t.Error("a request waits for the log though the last round is committed")
	}
}

// On a server without an ensemble what comes while Log writes gathers, and the end of the write makes the next round
// due. More than SmallBatch requests do not wait for that, but one batch waits for Log at most.
func TestAloneRoundsWaitForTheWrite(t *testing.T) {
	m, now := New(nil), time.Second
	m.Deadline(Never)
	m.Alone()
	var writer, orderer Turn
	writer.Worker, orderer.Worker = Writer, Orderer
	m.Next(&writer, now)
	m.Next(&orderer, now)
	m.Submitted(1)
	if !m.Round(now) {
		t.Fatal("the first request waits")
	}
	m.Logging(1, false)
	m.Submitted(1)
	if m.Round(now) {
		t.Error("a second batch is made while one waits for Log")
	}
	if m.Wake(now).Has(Orderer) {
		t.Error("the Orderer is woken for a round that is not due")
	}
	if wake, ok := m.Next(&writer, now); !ok || writer.Stage != Log || wake.Has(Orderer) || m.Round(now) {
		t.Error("Log is not run, or a round begins while it writes")
	}
	wake, ok := m.Next(&writer, now)
	if !(ok && writer.Stage == Order) && !wake.Has(Orderer) || !m.Round(now) {
		t.Error("no round begins when Log has ended")
	}
	m.Logging(1, false)
	for ok && writer.Stage != Log {
		_, ok = m.Next(&writer, now)
	}
	if m.Submitted(SmallBatch + 1); !ok || !m.Wake(now).Has(Orderer) || !m.Round(now) {
		t.Error("many requests wait for the write")
	}
	m.Logging(1, false)
	if m.Submitted(SmallBatch + 1); m.Round(now) {
		t.Error("a third batch is made while one waits for Log")
	}
}

// Who does not lead passes requests on at once.
func TestOthersMakeNoRounds(t *testing.T) {
	m := leading(time.Second, time.Millisecond)
	m.Gather(false)
	m.Logging(1, false)
	if m.Submitted(1); !m.Round(time.Second) {
		t.Error("a request waits")
	}
	if m.Round(time.Second) {
		t.Error("a round of nothing")
	}
}
