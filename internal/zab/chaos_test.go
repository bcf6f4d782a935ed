package zab

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/zk"
)

// defaultSeeds is how many seeds a test runs by default. Every known bug that is put back is
// found within fewer (test/mutants).
const defaultSeeds = 3000

// stalled is how slow a disk is that stalls: it does nothing until the faults end,
// or another fault makes it faster.
const stalled = 1 << 30

var (
	seedFlag  = flag.Uint64("seed", 0, "run the random schedules with this seed only")
	seedsFlag = flag.Uint64("seeds", defaultSeeds, "how many random schedules are run")
	traceFlag = flag.Bool("show", false, "print what happens")
)

// chaos drives a cluster at random: any server may do its next step, any link
// deliver its next packets, any disk be slow, and anything may break.
type chaos struct {
	*cluster
	rng     *rand.Rand
	steps   int
	healing bool
	// What a seed is like.
	faults, proposals, syncs, batch int    // of 1000 steps; packets at once
	slowDisk                        []int  // by server; [0]: all appliers
	wrongTrees                      int    // of 1000 steps, those that make a tree wrong
	changes                         int    // of the membership, of 1000 steps
	before                          func() // each step; nil: nothing
	todo                            []action
}

// action is something that can happen next.
type action struct {
	kind actionKind
	s    *server
	l    *wire
	end  int
	from int64
}

type actionKind int

const (
	doConnect actionKind = iota
	doDeliver
	doPersist
	doApply
	doTick
	doNote
	doLocate
)

func newChaos(seed uint64) *chaos {
	rng := rand.New(rand.NewPCG(seed, 7))
	voters := []int{1, 2, 3, 3, 3, 3, 3, 4, 5, 5}[rng.IntN(10)]
	observers := max(0, rng.IntN(4)-2)
	cfg := Config{
		Tick: 20 * ms, InitLimit: 5 + rng.IntN(10), SyncLimit: 1 + rng.IntN(5),
		Window: rng.IntN(6), SizeFactor: []float64{0.33, 0.33, -1}[rng.IntN(3)], ForceSnap: rng.IntN(6) == 0,
		FinalizeWait: 10 * ms, MinNotify: 10 * ms, MaxNotify: 100 * ms,
	}
	if rng.IntN(8) == 0 {
		cfg.LastCounter = 1 + uint32(rng.IntN(8))
	}
	if voters > 2 && rng.IntN(8) == 0 {
		members := membersOf(voters, observers).Members()
		for i := range voters {
			members[i].Weight, members[i].Group = int64(rng.IntN(3)), int64(rng.IntN(2))
		}
		if m, err := NewMembership(0, members, []byte("config")); err == nil {
			cfg.Members = m
		}
	}
	cfg.StallAfter, cfg.StallBytes = time.Duration(10+rng.IntN(400))*ms, []int64{DefaultStallBytes, 1 + rng.Int64N(400)}[rng.IntN(2)]
	return chaosOf(rng, voters, observers, cfg)
}

// chaosOf draws what is drawn after the ensemble and its settings.
func chaosOf(rng *rand.Rand, voters, observers int, cfg Config) *chaos {
	x := &chaos{
		cluster: newCluster(voters, observers, cfg), rng: rng, steps: 100 + rng.IntN(500),
		faults: rng.IntN(30), proposals: rng.IntN(100), syncs: rng.IntN(30), batch: 1 + rng.IntN(8),
		slowDisk: make([]int, voters+observers+1),
	}
	for i := range x.slowDisk {
		x.slowDisk[i] = rng.IntN(4)
	}
	return x
}

// run lets the seed's course happen: faults first, then peace, in which the
// ensemble must come to serve.
func (x *chaos) run() error {
	for _, s := range x.servers[1:] {
		if x.rng.IntN(8) > 0 {
			s.start()
		}
	}
	for range x.steps {
		if x.step(); x.violation != nil {
			return x.violation
		}
	}
	return x.heal()
}

// step lets one thing happen.
func (x *chaos) step() {
	x.now += time.Duration(x.rng.IntN(int(300 * time.Microsecond)))
	if x.before != nil {
		x.before()
	}
	if x.wrongTrees > 0 && !x.healing && x.rng.IntN(1000) < x.wrongTrees {
		x.diverge(x.servers[1+x.rng.IntN(len(x.servers)-1)])
		return
	}
	switch r := x.rng.IntN(1000); {
	case r < x.faults && !x.healing:
		x.fault()
		return
	case r < x.faults+x.proposals:
		if s := x.leader(); s != nil {
			s.propose(1 + x.rng.IntN(3))
		}
		return
	case r < x.faults+x.proposals+x.syncs:
		x.sync()
		return
	case r < x.faults+x.proposals+x.syncs+x.changes && !x.healing:
		x.change()
		return
	}
	if !x.act() {
		x.idle()
	}
}

// leader returns a server that thinks it leads and serves.
func (x *chaos) leader() *server {
	at := x.rng.IntN(len(x.servers))
	for i := range x.servers {
		if s := x.servers[(at+i)%len(x.servers)]; s != nil && s.core != nil && s.serving && s.role == Leading {
			return s
		}
	}
	return nil
}

// sync asks for one, of the leader's client or of a learner's.
func (x *chaos) sync() {
	s := x.leader()
	if s == nil {
		return
	}
	l := x.rng.IntN(len(x.links) + 1)
	if l == len(x.links) {
		s.sync()
	} else if k := x.links[l]; k.up && k.ends[1] == s {
		s.syncFor(k)
	}
}

// act does one of the things that can be done now; false means there are none.
func (x *chaos) act() bool {
	todo := x.todo[:0]
	for _, l := range x.links {
		if l.refused() {
			continue
		}
		if !l.up {
			todo = append(todo, action{kind: doConnect, l: l})
			continue
		}
		for e := range l.to {
			if len(l.to[e]) > 0 && !l.down[e] || l.down[1-e] {
				todo = append(todo, action{kind: doDeliver, l: l, end: e})
			}
		}
	}
	for _, s := range x.servers[1:] {
		if s.core == nil {
			continue
		}
		if len(s.writes) > 0 && x.rng.IntN(1+x.slowDisk[s.id]) == 0 {
			todo = append(todo, action{kind: doPersist, s: s})
		}
		if s.applied < s.commit && x.rng.IntN(1+x.slowDisk[0]) == 0 {
			todo = append(todo, action{kind: doApply, s: s})
		}
		if s.core.Deadline() <= x.now {
			todo = append(todo, action{kind: doTick, s: s})
		}
		if len(s.lookups) > 0 {
			todo = append(todo, action{kind: doLocate, s: s})
		}
		for from, n := range x.notes {
			if n[s.id] != nil {
				todo = append(todo, action{kind: doNote, s: s, from: int64(from)})
			}
		}
	}
	x.todo = todo
	if len(todo) == 0 {
		return false
	}
	x.take(&todo[x.rng.IntN(len(todo))])
	return true
}

func (x *chaos) take(a *action) {
	switch a.kind {
	case doConnect:
		a.l.connect()
	case doDeliver:
		a.l.next(a.end, 1+x.rng.IntN(x.batch))
	case doPersist:
		a.s.persist(1 + x.rng.IntN(len(a.s.writes)))
	case doApply:
		z := a.s.commit
		if i := index(a.s.history, a.s.applied) + x.rng.IntN(4); i < len(a.s.history) && x.rng.IntN(2) == 0 {
			z = a.s.history[i].Zxid
		}
		a.s.apply(z)
	case doTick:
		a.s.tick()
	case doLocate:
		a.s.locate()
	case doNote:
		switch r := x.rng.IntN(20); {
		case r == 0 && !x.healing:
			x.notes[a.from][a.s.id] = nil // lost
		default:
			x.note(a.from, a.s.id, r == 1)
		}
	}
}

// idle lets time pass until somebody has something to do.
func (x *chaos) idle() {
	next := x.now + time.Second
	for _, s := range x.servers[1:] {
		if s.core != nil {
			next = min(next, s.core.Deadline())
		}
	}
	x.now = max(x.now, next)
}

// fault breaks something.
func (x *chaos) fault() {
	s := x.servers[1+x.rng.IntN(len(x.servers)-1)]
	o := x.servers[1+x.rng.IntN(len(x.servers)-1)]
	switch x.rng.IntN(14) {
	case 0, 1, 2:
		if s.core == nil {
			x.say("%d: starts", s.id)
			s.start()
			return
		}
		x.say("%d: crashes", s.id)
		s.crash(x.rng.IntN(len(s.writes)+1), x.rng.IntN(3))
		x.gone(s)
	case 3, 4:
		if len(x.links) > 0 {
			l := x.links[x.rng.IntN(len(x.links))]
			x.say("the link of %d to %d breaks", l.ends[0].id, l.ends[1].id)
			for e := range l.to { // what was on its way may still arrive
				l.next(e, x.rng.IntN(1+len(l.to[e])))
			}
			l.cut()
		}
	case 5:
		x.block(s, o, x.rng.IntN(2) == 0)
	case 6:
		for i := range x.blocked {
			clear(x.blocked[i])
		}
	case 7:
		x.slowDisk[x.rng.IntN(len(x.slowDisk))] = []int{x.rng.IntN(50), stalled}[x.rng.IntN(2)]
	case 8:
		x.now += time.Duration(x.rng.IntN(int(10 * x.servers[1].cfg.Tick)))
	case 9:
		x.snapshot(s)
	case 10, 11:
		x.rejoin()
	default:
		x.strand()
	}
}

// rejoin lets one follower acknowledge what no other disk has yet, and breaks its
// link: it is synchronized anew with transactions on their way.
func (x *chaos) rejoin() {
	s := x.leader()
	f := x.servers[1+x.rng.IntN(len(x.servers)-1)]
	if s == nil || f == s || f.core == nil {
		return
	}
	s.propose(1 + x.rng.IntN(3))
	alone := x.rng.IntN(2) == 0 // or with the leader's own disk
	for i := range x.slowDisk {
		if int64(i) != f.id && (alone || int64(i) != s.id) {
			x.slowDisk[i] = 200
		}
	}
	for range 3 {
		for range 10 + x.rng.IntN(60) {
			x.now += time.Duration(x.rng.IntN(int(300 * time.Microsecond)))
			x.act()
		}
		for _, l := range slices.Clone(x.links) {
			if l.up && l.has(s) && l.has(f) {
				l.cut()
				break
			}
		}
	}
	if s.core != nil && len(s.writes) > 0 && x.rng.IntN(2) == 0 {
		s.persist(len(s.writes))
	}
	for i := range x.slowDisk {
		x.slowDisk[i] = x.rng.IntN(4)
	}
}

// strand leaves a leader alone with transactions that few others have, or nobody.
func (x *chaos) strand() {
	s := x.leader()
	if s == nil {
		return
	}
	s.propose(1 + x.rng.IntN(4))
	if len(s.writes) > 0 && x.rng.IntN(4) > 0 {
		s.persist(len(s.writes))
	}
	for _, l := range slices.Clone(x.links) {
		if l.up && l.has(s) && l.end(s) == 1 && x.rng.IntN(4) > 0 {
			l.cut()
		}
	}
	switch x.rng.IntN(3) {
	case 0:
		x.block(s, s, true)
	case 1:
		s.apply(s.commit)
		x.snapshot(s)
	case 2:
		s.crash(len(s.writes), 0)
		x.gone(s)
	}
}

// gone tells the others that a server's process has ended, or not.
func (x *chaos) gone(s *server) {
	for _, o := range x.servers[1:] {
		if o.core != nil && x.rng.IntN(2) == 0 {
			o.core.PeerDown(x.now, s.id)
			o.drive()
		}
	}
}

// block parts two servers, or one from all.
func (x *chaos) block(s, o *server, all bool) {
	for _, p := range x.servers[1:] {
		if p != s && (p == o || all) {
			x.blocked[s.id][p.id], x.blocked[p.id][s.id] = true, true
		}
	}
	x.say("%d and %d are parted, %v", s.id, o.id, all)
	for _, l := range slices.Clone(x.links) {
		if x.blocked[l.ends[0].id][l.ends[1].id] && l.up && x.rng.IntN(4) > 0 {
			l.cut()
		}
	}
}

// snapshot has a server write a snapshot and purge the log behind it: nothing
// before can be cut or sent from there.
func (x *chaos) snapshot(s *server) {
	if z := min(s.applied, s.disk.last()); s.core != nil && s.resets == 0 && z > s.disk.logStart {
		if i := index(s.disk.history, z); i > 0 {
			s.disk.logStart = s.disk.history[i-1].Zxid
		}
	}
}

// heal ends all faults and waits until every server serves the same history.
func (x *chaos) heal() error {
	x.healing, x.proposals, x.syncs = true, 0, 0
	for i := range x.blocked {
		clear(x.blocked[i])
	}
	clear(x.slowDisk)
	for _, s := range x.servers[1:] {
		if s.core == nil {
			s.start()
		}
		for _, o := range x.servers[1:] {
			s.core.PeerUp(x.now, o.id)
			s.drive()
		}
	}
	deadline := x.now + 3*time.Minute
	wanted := zk.Zxid(0)
	for n := 0; x.now < deadline; n++ {
		x.step()
		switch {
		case x.violation != nil:
			return x.violation
		case n%16 > 0 || !x.whole():
		case wanted == 0:
			if s := x.leader(); s != nil {
				if es := s.propose(1); es != nil {
					wanted = es[0].Zxid
					s.sync()
					for _, l := range x.links {
						if l.up && l.ends[1] == s {
							s.syncFor(l)
						}
					}
				}
			}
		case x.check.shown() >= wanted && !x.owesSync():
			return nil
		}
	}
	return fmt.Errorf("no progress: %s", x.state())
}

// owesSync reports whether a sync is not answered that somebody waits for.
func (x *chaos) owesSync() bool {
	for _, s := range x.servers[1:] {
		if len(s.syncs) > 0 {
			return true
		}
	}
	for _, l := range x.links {
		if l.up && len(l.asked) > 0 {
			return true
		}
	}
	return false
}

// whole reports whether all servers serve, and have the same.
func (x *chaos) whole() bool {
	for _, s := range x.servers[1:] {
		if !s.serving || s.commit != x.servers[1].commit {
			return false
		}
	}
	return true
}

func (x *chaos) state() (text string) {
	for _, s := range x.servers[1:] {
		text += fmt.Sprintf("\n\t%d: %v, phase %d, epochs %d and %d, log to %v, committed %v, %d writes under way, leader %d",
			s.id, s.core.role, s.core.phase, s.core.acceptedEpoch, s.core.currentEpoch, s.core.last, s.commit, len(s.writes), s.core.learner.leader)
	}
	return text
}

// showTrace prints what happens, with -show.
func (x *chaos) showTrace() {
	if *traceFlag {
		x.trace = func(format string, args ...any) {
			fmt.Printf("%10v  "+format+"\n", append([]any{x.now}, args...)...)
		}
	}
}

// runSafely is run; a panic is an error. It returns what has happened, too.
func (x *chaos) runSafely() (seen map[string]int, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v\n%s", p, debug.Stack())
		}
	}()
	x.showTrace()
	return x.check.seen, x.run()
}

// seedRange returns the first and the last seed of a test with n random schedules: the one of -seed, or 1 to n.
func seedRange(n uint64) (first, last uint64) {
	if *seedFlag != 0 {
		return *seedFlag, *seedFlag
	}
	return 1, n
}

// Agreement, TotalOrder, PrefixConsistency, Integrity, Leadership,
// PrimaryIntegrity and the package's invariants hold in random schedules, with
// crashes that lose what is not durable, partitions, slow disks and lost
// messages; and in peace the ensemble comes to serve.
func TestChaos(t *testing.T) {
	n := *seedsFlag
	if testing.Short() {
		n = 1000
	}
	first, last := seedRange(n)
	all := map[string]int{}
	for seed := first; seed <= last; seed++ {
		seen, err := newChaos(seed).runSafely()
		if err != nil {
			t.Fatalf("seed=%d: %v\n\tgo test ./internal/zab -run TestChaos -seed %d -show", seed, err, seed)
		}
		for what, n := range seen {
			all[what] += n
		}
	}
	for _, what := range slices.Sorted(maps.Keys(all)) {
		t.Logf("%8d %s", all[what], what)
	}
}
