package sim

import (
	"slices"
	"time"

	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/test/faultfs"
)

// faultKind is something that goes wrong.
type faultKind int

const (
	crashPower      faultKind = iota // a member's machine loses its power
	crashProcess                     // a member's process is killed
	crashInWrite                     // a member's machine loses its power within some operation of its disk
	crashAll                         // all of them do, at once
	diskFull                         // some operation finds the disk full
	diskError                        // some operation fails
	diskShort                        // some write is done by half
	diskSlow                         // a disk is slow for a while
	partition                        // the members are in two parts
	partitionOneWay                  // one member receives nothing, or nothing from it arrives
	partitionBridge                  // two parts that one member is in both of
	cutPair                          // two members do not hear each other
	cutLink                          // one connection between members is lost
	cutClient                        // one client's connection is lost
	pause                            // a member does nothing for a while
	clockJump                        // a member's wall clock is set
	wipeObserver                     // an observer comes back with an empty disk
	loseVoter                        // a voter never comes back
	leaderDown                       // the leader is killed
	leaderAlone                      // no member hears the leader
	killInWrite                      // a member's process is killed within an operation of its disk
	diskStall                        // a member's disk does not answer for seconds, or until all is healed
	leaderStall                      // the leader's disk does not
	lagging                          // a member lives, and is slow
	leaderLags                       // the leader lives, and is slow
	oneWayLink                       // a member hears another one, and is not heard
	wipeVoter                        // a voter's disk is emptied
	bitFlip                          // a bit of a member's log or snapshot is flipped while its process is down
	lostFile                         // a log or a snapshot is lost
	tornEpoch                        // an epoch file is damaged or lost
	faultKinds
)

var faultNames = [faultKinds]string{
	"power lost", "process killed", "power lost within an operation", "power lost everywhere", "disk full", "disk error", "short write",
	"slow disk", "partition", "one-way partition", "bridge", "pair cut", "link cut", "client cut", "pause",
	"clock set", "observer wiped", "voter lost", "leader killed", "leader alone",
	"process killed within an operation", "disk stalls", "leader's disk stalls", "slow process", "slow leader",
	"one-way link", "voter's disk emptied", "disk damaged", "file lost", "epoch file torn",
}

func (k faultKind) String() string { return faultNames[k] }

// faultWeights is how often a kind is drawn, before a profile changes it.
var faultWeights = [faultKinds]float64{
	crashPower: 10, crashProcess: 5, crashInWrite: 12, crashAll: 4, diskFull: 2, diskError: 2, diskShort: 2, diskSlow: 4,
	partition: 8, partitionOneWay: 4, partitionBridge: 3, cutPair: 6, cutLink: 10, cutClient: 6, pause: 6,
	clockJump: 2, wipeObserver: 6, loseVoter: 0.5, leaderDown: 8, leaderAlone: 12,
	killInWrite: 8, diskStall: 3, leaderStall: 4, lagging: 2, leaderLags: 4, oneWayLink: 4, wipeVoter: 3, bitFlip: 6, lostFile: 4, tornEpoch: 3,
}

// scheduleFault queues the next fault.
func (s *Sim) scheduleFault() {
	every := s.profile.faultEvery
	if every == 0 {
		return
	}
	s.after(s.between(every/10, 2*every), func() {
		if s.faulting {
			s.fault()
			s.scheduleFault()
		}
	})
}

// scheduleUpkeep queues what a server does by the clock: containers and znodes
// with a time to live are swept, old files purged.
func (s *Sim) scheduleUpkeep() {
	s.after(s.between(50*time.Millisecond, 400*time.Millisecond), func() {
		m := s.members[1+s.rng.IntN(len(s.members)-1)]
		if m.up && m.paused <= s.now {
			m.upkeep()
		}
		s.scheduleUpkeep()
	})
}

// fault draws a fault and does it.
func (s *Sim) fault() {
	var sum float64
	for _, w := range s.profile.faults {
		sum += w
	}
	if sum == 0 {
		return
	}
	x := s.rng.Float64() * sum
	k := faultKind(0)
	for x >= s.profile.faults[k] && k < faultKinds-1 {
		x -= s.profile.faults[k]
		k++
	}
	m := s.members[1+s.rng.IntN(len(s.members)-1)]
	if s.harm(k, m) {
		s.cover.Faults[k]++
		s.disturbed(max(s.now, m.paused, m.slow, m.lag))
		s.trace.note(8, uint64(k), uint64(m.id), uint64(s.now))
		s.say("sim", "fault: %v, member %d", k, m.id)
	}
}

// harm does a fault to a member, if that makes sense now.
func (s *Sim) harm(k faultKind, m *member) bool {
	if k == leaderStall || k == leaderLags {
		if m = s.leader(); m == nil {
			return false
		}
		s.disturbed(s.profile.length) // which of its kind this is, the caller does not know
	}
	switch k {
	case crashPower, crashProcess:
		return s.crash(m, k == crashPower)
	case crashAll:
		for _, o := range s.members[1:] {
			s.crash(o, true)
		}
	case leaderDown:
		l := s.leader()
		return l != nil && s.crash(l, s.chance(0.5))
	case leaderAlone:
		l := s.leader()
		if l == nil {
			return false
		}
		s.divide(k, l)
	case crashInWrite, killInWrite, diskFull, diskError, diskShort, diskSlow, diskStall, leaderStall:
		return s.harmDisk(k, m)
	case lagging, leaderLags:
		m.lag = s.now + s.between(100*time.Millisecond, 2*time.Second)
	case bitFlip, lostFile, tornEpoch:
		return s.damage(k, m)
	case wipeVoter:
		return s.wipeVoter(m)
	case pause:
		m.paused = s.now + s.between(10*time.Millisecond, 2*time.Second)
	case clockJump:
		m.wall += s.between(-time.Hour, time.Hour)
	case wipeObserver:
		if m.counted() || !m.up {
			return false
		}
		s.crash(m, false)
		m.disk, m.filled, m.damaged = vfs.NewMem(), false, false
		s.check.wiped(m)
	case loseVoter:
		return s.lose(m)
	case cutClient:
		return len(s.clients) > 0 && s.clients[s.rng.IntN(len(s.clients))].cut()
	case cutLink:
		return s.cutLink()
	default:
		s.divide(k, m)
	}
	return true
}

// cutLink loses a link between two members.
func (s *Sim) cutLink() bool {
	if len(s.net.list) == 0 {
		return false
	}
	e := s.net.list[s.rng.IntN(len(s.net.list))]
	if e.peer == nil {
		return false
	}
	e.reset()
	return true
}

// harmDisk makes a fault of a member's disk happen.
func (s *Sim) harmDisk(k faultKind, m *member) bool {
	switch k {
	case diskSlow:
		m.slow = s.now + s.between(100*time.Millisecond, 2*time.Second)
		return true
	case diskStall, leaderStall:
		m.stall = s.profile.length // then all is healed
		if s.chance(0.7) {
			m.stall = min(m.stall, s.now+s.between(500*time.Millisecond, 5*time.Second))
		}
		return true
	}
	if m.up {
		m.kill = m.kill || k == killInWrite
		m.fault.Arm(1+s.rng.IntN(40), map[faultKind]faultfs.Kind{
			crashInWrite: faultfs.Crash, killInWrite: faultfs.Kill,
			diskFull: faultfs.NoSpace, diskError: faultfs.IO, diskShort: faultfs.ShortWrite,
		}[k])
	}
	return m.up
}

// crash ends a member's process and has it started again later.
func (s *Sim) crash(m *member, power bool) bool {
	if !m.up {
		return false
	}
	m.stop(power)
	s.after(s.between(time.Millisecond, s.profile.down), m.start)
	return true
}

// spare reports whether a voter can be taken away for ever: the others that are
// left are a quorum, also by the latest configuration that they know to be committed. A voter that
// came back without what it had promised would make of a quorum less than one.
func (s *Sim) spare(m *member) bool {
	others := func(id int) bool {
		o := s.members[id]
		return o != m && o.healthy()
	}
	var known *zab.Membership
	for _, o := range s.members[1:] {
		if k := o.shadow.saved.Committed; others(o.id) && k != nil && (known == nil || k.Version() > known.Version()) {
			known = k
		}
	}
	all := s.pending()
	if known != nil {
		all = append(all, s.check.roster(known))
	}
	return m.isVoter() && !m.gone && !slices.ContainsFunc(all, func(r *roster) bool { return !r.votes.holds(others) })
}

// lose takes a voter away for ever, with its disk.
func (s *Sim) lose(m *member) bool {
	if !s.spare(m) {
		return false
	}
	m.stop(true)
	m.gone = true
	return true
}

// wipeVoter empties a voter's disk: it has forgotten what it has acknowledged and promised.
func (s *Sim) wipeVoter(m *member) bool {
	if !s.spare(m) || !m.filled {
		return false
	}
	m.stop(true)
	m.disk, m.damaged, m.heals = vfs.NewMem(), true, false
	m.shadow.saved, m.shadow.known = zab.Memberships{}, zab.Memberships{}
	s.after(s.between(time.Millisecond, s.profile.down), m.start)
	return true
}

// leader is a member that serves as the leader, nil if there is none.
func (s *Sim) leader() *member {
	for _, m := range s.members[1:] {
		if m.up && m.rep.Serving() && m.shadow.leads() {
			return m
		}
	}
	return nil
}

// divide makes a partition, for a while.
func (s *Sim) divide(k faultKind, m *member) {
	type pair struct{ from, to int }
	var pairs []pair
	n := len(s.members) - 1
	side := make([]bool, n+1)
	for i := range side {
		side[i] = s.chance(0.5)
	}
	other := 1 + s.rng.IntN(n)
	both := s.chance(0.5)
	for a := 1; a <= n; a++ {
		for b := 1; b <= n; b++ {
			cut := false
			switch k {
			case partition:
				cut = side[a] != side[b]
			case partitionBridge:
				cut = side[a] != side[b] && a != m.id && b != m.id
			case partitionOneWay:
				cut = both && a == m.id || !both && b == m.id
			case oneWayLink:
				cut = a == m.id && b == other
			case leaderAlone:
				cut = a == m.id || b == m.id
			case cutPair:
				cut = a == m.id && b == other || b == m.id && a == other
			}
			if cut && a != b {
				pairs = append(pairs, pair{a, b})
			}
		}
	}
	for _, p := range pairs {
		s.net.block(p.from, p.to, true)
	}
	lasts := s.between(20*time.Millisecond, 3*time.Second)
	s.disturbed(s.now + lasts)
	s.after(lasts, func() {
		for _, p := range pairs {
			s.net.block(p.from, p.to, false)
		}
	})
}

// heal ends all faults: every member that is not lost starts again.
func (s *Sim) heal() {
	s.profile.slowPacket = 0 // late ones can end a leadership again and again, and with it the wait for sessions
	s.say("sim", "all is healed")
	s.faulting = false
	s.stranger.stop()
	for a := range s.net.blocked {
		for b := range s.net.blocked[a] {
			s.net.block(a, b, false)
		}
	}
	for _, m := range s.members[1:] {
		m.paused, m.slow, m.stall, m.lag, m.corrupt = min(m.paused, s.now), 0, 0, 0, false
		if m.up {
			m.fault.Arm(0, faultfs.None)
		} else {
			s.after(0, m.start)
		}
	}
	s.profile.slowDisk = 0
}
