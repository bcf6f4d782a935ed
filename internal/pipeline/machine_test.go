package pipeline

import (
	"testing"
	"time"
)

// asleep returns a machine all of whose workers sleep, and their turns.
func asleep(t *testing.T) (m *Machine, turns [workers]*Turn) {
	t.Helper()
	m = New(nil)
	m.Deadline(time.Hour)
	for w := Caller; w < workers; w++ {
		turns[w] = &Turn{Worker: w}
		if w == Caller {
			continue
		}
		if wake, ok := m.Next(turns[w], 0); ok || wake != 0 {
			t.Fatalf("the %v runs %v, wakes %b", w, turns[w].Stage, wake)
		}
	}
	return m, turns
}

// expect calls Next and compares what it says.
func expect(t *testing.T, m *Machine, turn *Turn, want Stage, wakes ...Worker) {
	t.Helper()
	wake, ok := m.Next(turn, 0)
	var wanted Wakes
	for _, w := range wakes {
		wanted |= 1 << w
	}
	if turn.Stage != want || ok != (want != None) || wake != wanted {
		t.Fatalf("the %v runs %v and wakes %b, want %v and %b", turn.Worker, turn.Stage, wake, want, wanted)
	}
}

// A lone request on a standalone server: its Caller orders it, the Writer makes it
// durable and applies it. One worker is woken.
func TestLoneRequest(t *testing.T) {
	m, turns := asleep(t)
	caller, writer := turns[Caller], turns[Writer]
	m.Submitted(1)
	expect(t, m, caller, Order)
	m.Round(0)
	m.Logging(1, true)
	expect(t, m, caller, None, Writer)
	expect(t, m, writer, Log)
	if writer.Jobs != 1 || m.Unlogged() != 1 {
		t.Errorf("%d jobs of %d", writer.Jobs, m.Unlogged())
	}
	m.Applying(1)
	expect(t, m, writer, Apply)
	if m.Unapplied() != 1 {
		t.Errorf("%d steps are not applied", m.Unapplied())
	}
	expect(t, m, writer, None)
	if m.Unlogged() != 0 || m.Unapplied() != 0 {
		t.Errorf("%d and %d are left", m.Unlogged(), m.Unapplied())
	}
}

// M1: what another worker runs is not given out again; it wakes its own worker when
// it is done, if there is more.
func TestM1OneOwner(t *testing.T) {
	m, turns := asleep(t)
	m.Submitted(1)
	expect(t, m, turns[Caller], Order)
	m.Arrived(1)
	other := &Turn{}
	expect(t, m, other, None)
	if wake := m.Wake(0); wake != 0 {
		t.Errorf("%b are woken for a stage that has an owner", wake)
	}
	m.Round(0)
	expect(t, m, turns[Caller], Order) // what has come meanwhile
	m.Arrived(SmallBatch + 1)
	expect(t, m, turns[Caller], None, Orderer)
	expect(t, m, turns[Orderer], Order)
}

// M3: only the Writer waits for the disk, and a Caller that can be replaced, if the disk is quick.
func TestM3TheWriterWaitsForTheDisk(t *testing.T) {
	for _, prompt := range []bool{false, true} {
		for w := Caller; w < workers; w++ {
			for _, replaceable := range []bool{false, true} {
				m := New(nil)
				m.Deadline(time.Hour)
				m.Prompt(prompt)
				m.Logging(1, true)
				turn := &Turn{Worker: w, Replaceable: replaceable && w == Caller}
				m.Next(turn, 0)
				want := None
				if w == Writer || prompt && turn.Replaceable {
					want = Log
				}
				if turn.Stage != want {
					t.Errorf("prompt %v: the %v, replaceable %v, runs %v", prompt, w, turn.Replaceable, turn.Stage)
				}
			}
		}
	}
}

// More than a lone job is worth the Writer's goroutine.
func TestManyJobsAreTheWriters(t *testing.T) {
	m, turns := asleep(t)
	m.Prompt(true)
	m.Logging(1, true)
	m.Logging(1, true)
	expect(t, m, turns[Caller], None, Writer)
}

// M4: a Caller has its own business.
func TestM4CallersAreReleased(t *testing.T) {
	m, turns := asleep(t)
	for range MaxTurns {
		m.Arrived(1)
		expect(t, m, turns[Caller], Order)
	}
	m.Arrived(1)
	expect(t, m, turns[Caller], None, Orderer)
	expect(t, m, turns[Orderer], Order)
	expect(t, m, turns[Orderer], None)
	m.Arrived(1)
	expect(t, m, turns[Caller], Order)
}

// Many requests are left to the Orderer, many transactions to the Applier.
func TestLargeBatches(t *testing.T) {
	m, turns := asleep(t)
	m.Submitted(SmallBatch + 1)
	expect(t, m, turns[Caller], None, Orderer)
	expect(t, m, turns[Orderer], Order)
	m.Round(0)
	m.Logging(1, true)
	expect(t, m, turns[Orderer], None, Writer)
	expect(t, m, turns[Writer], Log)
	m.Applying(SmallBatch + 1)
	expect(t, m, turns[Writer], None, Applier)
	expect(t, m, turns[Applier], Apply)
	expect(t, m, turns[Applier], None)
}

// The Orderer is called when nothing is left to apply, if it awaits that.
func TestAwait(t *testing.T) {
	m, turns := asleep(t)
	m.Applying(1)
	expect(t, m, turns[Caller], Apply)
	m.Await(true)
	m.Applying(1)
	expect(t, m, turns[Caller], Apply)
	expect(t, m, turns[Caller], Order)
	m.Await(false)
	m.Applying(1)
	expect(t, m, turns[Caller], Apply)
	expect(t, m, turns[Caller], None)
}

// A deadline that comes earlier wakes the Orderer, which sets its timer anew.
func TestDeadline(t *testing.T) {
	m, turns := asleep(t)
	m.Arrived(1)
	expect(t, m, turns[Caller], Order)
	m.Deadline(time.Minute)
	expect(t, m, turns[Caller], None, Orderer)
	expect(t, m, turns[Orderer], None)
	if due := turns[Orderer].Due; due != time.Minute {
		t.Errorf("due at %v", due)
	}
	if _, ok := m.Next(turns[Orderer], time.Minute); !ok {
		t.Error("the deadline is met by nothing")
	}
}

// The Orderer has nothing to run, and before it sleeps a Caller runs Order. Its timer is that of
// its own turn: the machine does not wake it for a deadline that is later.
func TestDeadlineBelongsToTheTurn(t *testing.T) {
	m, turns := asleep(t)
	for _, next := range []time.Duration{2 * time.Hour, time.Minute} {
		due := turns[Orderer].Due
		m.Arrived(1)
		expect(t, m, turns[Caller], Order)
		if turns[Orderer].Due != due || due == Never {
			t.Errorf("the Orderer sleeps until %v", turns[Orderer].Due)
		}
		m.Deadline(next)
		if next > due {
			expect(t, m, turns[Caller], None)
		} else {
			expect(t, m, turns[Caller], None, Orderer)
		}
	}
}

// An Orderer that goes to sleep while a Caller runs Order has no timer, and is woken after it.
func TestDeadlineWhileOrderRuns(t *testing.T) {
	m, turns := asleep(t)
	m.Arrived(1)
	expect(t, m, turns[Caller], Order)
	expect(t, m, turns[Orderer], None)
	if due := turns[Orderer].Due; due != Never {
		t.Errorf("the Orderer sleeps until %v", due)
	}
	m.Deadline(time.Minute)
	expect(t, m, turns[Caller], None, Orderer)
}

// Close finishes what waits, stage by stage, and then all workers exit.
func TestClose(t *testing.T) {
	m, turns := asleep(t)
	m.Submitted(1)
	m.Close()
	if wake := m.Wake(0); wake != 1<<Orderer {
		t.Fatalf("wakes %b", wake)
	}
	expect(t, m, turns[Orderer], Order)
	if !turns[Orderer].Closing || !m.Round(0) {
		t.Error("the last turn of Order leaves requests")
	}
	m.Logging(1, true)
	expect(t, m, turns[Orderer], None, Writer)
	expect(t, m, turns[Writer], Log)
	m.Applying(1)
	expect(t, m, turns[Writer], Log, Applier)
	expect(t, m, turns[Applier], Apply)
	if !turns[Writer].Closing || turns[Applier].Closing {
		t.Errorf("Log closes: %v, Apply: %v", turns[Writer].Closing, turns[Applier].Closing)
	}
	expect(t, m, turns[Writer], None)
	expect(t, m, turns[Applier], Apply)
	if !turns[Applier].Closing {
		t.Error("Apply does not close")
	}
	expect(t, m, turns[Applier], None)
	for w := Orderer; w < workers; w++ {
		if !turns[w].Exit {
			t.Errorf("the %v does not exit", w)
		}
	}
	m.Submitted(1)
	expect(t, m, turns[Caller], None)
}

// A failure gives out nothing more and ends all workers.
func TestFail(t *testing.T) {
	m, turns := asleep(t)
	m.Logging(1, true)
	m.Wake(0)
	expect(t, m, turns[Writer], Log)
	m.Applying(1)
	m.Fail()
	expect(t, m, turns[Writer], None, Orderer, Applier)
	expect(t, m, turns[Orderer], None)
	expect(t, m, turns[Applier], None)
	for w := Orderer; w < workers; w++ {
		if !turns[w].Exit {
			t.Errorf("the %v does not exit", w)
		}
	}
}
