package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/zk"
)

// Coverage counts what a run came by.
type Coverage struct {
	Transactions, Elections, Served, Rollovers    int
	EmptyDiffs, Diffs, Truncs, LogSyncs, Snaps    int
	Installs, Resyncs, Refused, DiskFailures      int
	CallersWrites                                 int // of the log
	Requests, Replies, Lost, Events, MissedEvents int
	Sessions, Reattached, Moved, Refusals, Denied int
	SessionsEnded, Synced, Purged, Swept          int
	HiddenEvents, MovedWrites, Expiries           int
	Weighted, Stalls, DamageFound, Healed         int
	LockedOut, Released, WriteHeals               int // runs, voters, runs
	Locals, LocalsResumed, LocalsOver, Upgrades   int // sessions
	ReadOnly, ReadOnlyReads, Uncommitted          int // sessions, answers, answers of what was not committed yet
	Divergences                                   int
	HandOversAsked, HandOvers                     int
	ReconfigsAsked, ReconfigsProposed, Reconfigs  int
	ReconfigsHarmed, LeadersRemoved, Joiners      int
	ConfigsRead, AbleJudged, ReconfigsCut         int
	StrangePackets, StrangeVotes, StrangersServed int
	StrangersCut                                  int                  // links
	Codes                                         [len(knownCodes)]int // of writes and reads
	Faults                                        [faultKinds]int
	Packets                                       [32]int
	Recovery, Convergence                         Span
}

// Span is how long something took.
type Span struct {
	Count    int
	Sum, Max time.Duration
}

func (s *Span) add(d time.Duration) {
	s.Count++
	s.Sum += d
	s.Max = max(s.Max, d)
}

func (s *Span) merge(o Span) {
	s.Count += o.Count
	s.Sum += o.Sum
	s.Max = max(s.Max, o.Max)
}

// String prints the mean and the longest.
func (s Span) String() string {
	if s.Count == 0 {
		return "never"
	}
	return fmt.Sprintf("mean %v, longest %v", (s.Sum / time.Duration(s.Count)).Round(time.Millisecond), s.Max.Round(time.Millisecond))
}

func (c *Coverage) packet(t zab.PacketType) {
	if t.Known() {
		c.Packets[t]++
	}
}

// knownCodes are the codes that the model answers.
var knownCodes = [...]zk.Code{
	zk.OK, zk.ErrRuntimeInconsistency, zk.ErrBadArguments, zk.ErrNoNode, zk.ErrNoAuth, zk.ErrBadVersion,
	zk.ErrNoChildrenForEphemerals, zk.ErrNodeExists, zk.ErrNotEmpty, zk.ErrSessionExpired, zk.ErrInvalidACL,
	zk.ErrSessionMoved, zk.ErrNoWatcher, zk.ErrQuotaExceeded, zk.ErrEphemeralOnLocalSession, zk.ErrNotReadOnly,
	zk.ErrReconfigInProgress, zk.ErrNewConfigNoQuorum, zk.ErrMarshalling,
}

// code counts an operation by its code.
func (c *Coverage) code(code zk.Code) {
	if i := slices.Index(knownCodes[:], code); i >= 0 {
		c.Codes[i]++
	}
}

// counters are the numbers with their names.
func (c *Coverage) counters() []counter {
	return []counter{
		{"transactions", &c.Transactions}, {"elections", &c.Elections}, {"began to serve", &c.Served}, {"epochs used up", &c.Rollovers},
		{"empty DIFF", &c.EmptyDiffs}, {"DIFF", &c.Diffs}, {"TRUNC", &c.Truncs}, {"DIFF or TRUNC from the log", &c.LogSyncs}, {"SNAP", &c.Snaps},
		{"log writes of callers", &c.CallersWrites},
		{"snapshots installed", &c.Installs}, {"snapshots asked for", &c.Resyncs}, {"peers refused", &c.Refused}, {"disks failed", &c.DiskFailures},
		{"requests", &c.Requests}, {"replies", &c.Replies}, {"unknown outcomes", &c.Lost}, {"events", &c.Events}, {"events after a reconnect", &c.MissedEvents},
		{"sessions", &c.Sessions}, {"sessions reattached", &c.Reattached}, {"to another member", &c.Moved},
		{"connections without an answer", &c.Refusals}, {"refused: session over", &c.Denied},
		{"sessions ended", &c.SessionsEnded}, {"reads behind a sync", &c.Synced}, {"files purged", &c.Purged}, {"containers and TTL znodes swept", &c.Swept},
		{"events that an ACL hides", &c.HiddenEvents}, {"writes refused: session moved", &c.MovedWrites},
		{"expiries judged", &c.Expiries}, {"elections by weights or groups", &c.Weighted},
		{"local sessions", &c.Locals}, {"local sessions resumed", &c.LocalsResumed}, {"local sessions over", &c.LocalsOver}, {"local sessions upgraded", &c.Upgrades},
		{"connections to members that only read", &c.ReadOnly}, {"answers of members that only read", &c.ReadOnlyReads}, {"of these, of what was not committed yet", &c.Uncommitted},
		{"voters readmitted by a restart of the leader", &c.LockedOut}, {"voters released from a promise", &c.Released}, {"runs in which a write ended the healing", &c.WriteHeals}, {"damaged disks found", &c.DamageFound}, {"wrong trees found", &c.Divergences}, {"damaged members healed", &c.Healed}, {"disks that hand a leadership over", &c.Stalls},
		{"leaders asked to hand over", &c.HandOversAsked}, {"leaders that have handed over", &c.HandOvers},
		{"reconfigurations asked for", &c.ReconfigsAsked}, {"proposed", &c.ReconfigsProposed}, {"committed", &c.Reconfigs}, {"cut off", &c.ReconfigsCut},
		{"faults within a reconfiguration", &c.ReconfigsHarmed}, {"leaders removed", &c.LeadersRemoved}, {"members that nobody lists", &c.Joiners},
		{"configurations read", &c.ConfigsRead}, {"steps in which members go by different configurations", &c.AbleJudged},
		{"packets of strangers", &c.StrangePackets}, {"votes of strangers", &c.StrangeVotes}, {"strangers that have become observers", &c.StrangersServed},
		{"strangers whose history was cut", &c.StrangersCut},
	}
}

type counter struct {
	name string
	n    *int
}

// Add adds what another run came by.
func (c *Coverage) Add(o *Coverage) {
	theirs := o.counters()
	for i, k := range c.counters() {
		*k.n += *theirs[i].n
	}
	for i := range c.Codes {
		c.Codes[i] += o.Codes[i]
	}
	for i := range c.Faults {
		c.Faults[i] += o.Faults[i]
	}
	for i := range c.Packets {
		c.Packets[i] += o.Packets[i]
	}
	c.Recovery.merge(o.Recovery)
	c.Convergence.merge(o.Convergence)
}

// faults is how many faults of any kind were done.
func (c *Coverage) faults() (n int) {
	for _, k := range c.Faults {
		n += k
	}
	return n
}

// missing names what never happened of what every long soak must come by.
func (c *Coverage) missing() (names []string) {
	for _, k := range c.counters() {
		if rare := k.n == &c.Resyncs || k.n == &c.LockedOut || k.n == &c.Released || k.n == &c.WriteHeals; *k.n == 0 && !rare { // which one seed in thousands has
			names = append(names, k.name)
		}
	}
	for i, n := range c.Codes {
		if n == 0 && knownCodes[i] != zk.ErrSessionExpired { // which needs a write that is late by chance
			names = append(names, fmt.Sprintf("the answer %v", knownCodes[i]))
		}
	}
	for i, n := range c.Faults {
		if n == 0 {
			names = append(names, faultKind(i).String())
		}
	}
	return names
}

// String lists everything, a line each.
func (c *Coverage) String() string {
	var b strings.Builder
	for _, k := range c.counters() {
		fmt.Fprintf(&b, "%12d %s\n", *k.n, k.name)
	}
	for i, n := range c.Codes {
		fmt.Fprintf(&b, "%12d operations answered %v\n", n, knownCodes[i])
	}
	fmt.Fprintf(&b, "%12d faults\n", c.faults())
	for i, n := range c.Faults {
		fmt.Fprintf(&b, "%12d fault: %v\n", n, faultKind(i))
	}
	for i, n := range c.Packets {
		if t := zab.PacketType(i); t.Known() {
			fmt.Fprintf(&b, "%12d %v\n", n, t)
		}
	}
	fmt.Fprintf(&b, "             a write after healing: %v\n", c.Recovery)
	fmt.Fprintf(&b, "             all members equal: %v\n", c.Convergence)
	return b.String()
}
