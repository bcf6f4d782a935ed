package election

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/pinfold-zk/pinfold/internal/zab/quorum"
	"github.com/pinfold-zk/pinfold/zk"
)

// cluster is servers and a network in virtual time. Messages go as bytes. It
// runs the elections only; what an owner does is its caller's.
type cluster struct {
	now     time.Duration
	system  *quorum.System
	servers map[int64]*server
	flight  []packet
	seq     int
	cut     map[[2]int64]bool // from, to: nothing goes that way

	// fate says when each copy of a message arrives, after how long; none if
	// it is lost.
	fate func(from, to int64) []time.Duration
	// on is told what happens, one line each.
	on func(line string)
	// elected is called when a server's election ends.
	elected func(s *server, r Result)
	// broken collects breaks of invariants.
	broken []string
	sent   int // messages, in all

	reigns  map[int64]int64 // epoch -> leader, of all discoveries that ended
	refused int             // leaders that a voter knew more than
}

// server is one process, alive while e is not nil.
type server struct {
	cfg  Config
	e    *Election
	last zk.Zxid
	// epoch is currentEpoch. Both are durable.
	epoch int64

	owner // what the process does with its elections
}

type packet struct {
	at       time.Duration
	seq      int
	from, to int64
	life     *Election // of from: what it said last may be said again while it lives
	payload  []byte
}

func newCluster(system *quorum.System) *cluster {
	return &cluster{
		system:  system,
		servers: map[int64]*server{},
		cut:     map[[2]int64]bool{},
		reigns:  map[int64]int64{},
		fate:    func(int64, int64) []time.Duration { return []time.Duration{ms} },
		on:      func(string) {},
		elected: func(s *server, r Result) { s.e.Settle(s.e.State(), r.Leader, r.PeerEpoch) },
	}
}

// ids returns all servers, ascending: what happens never depends on a map.
func (c *cluster) ids() []int64 { return slices.Sorted(maps.Keys(c.servers)) }

func (c *cluster) linked(a, b int64) bool {
	return c.servers[a].e != nil && c.servers[b].e != nil && !c.cut[[2]int64{a, b}] && !c.cut[[2]int64{b, a}]
}

// do calls f on a living server, and sees to what came of it.
func (c *cluster) do(s *server, f func(e *Election)) {
	e := s.e
	before := *e
	f(e)
	c.check(&before, e)
	c.post(s, e.Messages())
	if r, ok := e.Elected(); ok {
		c.on(fmt.Sprintf("%d %v %v", s.cfg.ID, e.State(), r))
		c.checkResult(s)
		c.elected(s, r)
		c.post(s, e.Messages())
	}
}

// check holds the invariants of every step.
func (c *cluster) check(before, after *Election) {
	if after.clock < before.clock {
		c.breaks("invariant 1: %v after %v", after, before)
	}
	same := before.phase == looking && after.phase == looking && after.clock == before.clock
	if same && after.beats(before.vote, after.vote) {
		c.breaks("invariant 2: %v after %v", after, before)
	}
}

func (c *cluster) breaks(format string, args ...any) {
	c.broken = append(c.broken, fmt.Sprintf("%v: ", c.now)+fmt.Sprintf(format, args...))
}

// checkResult holds the invariants of an election's end. The ballots that ended
// it are still there.
func (c *cluster) checkResult(s *server) {
	e := s.e
	if c.system.Weight(e.vote.Leader) == 0 {
		c.breaks("invariant 3: %v", e)
	}
	votes := e.backed()
	leader, _ := c.system.Index(e.vote.Leader)
	joined := false
	for _, ballots := range [][]ballot{e.received, e.settledOn} {
		of := e.agreed(ballots, func(b *ballot) bool { return b.Leader == e.vote.Leader })
		joined = joined || of && ballots[leader].state == Leading && ballots[leader].Vote == e.vote
	}
	if !votes && !joined {
		c.breaks("invariant 4: %v", e)
	}
}

// post puts messages on their way.
func (c *cluster) post(s *server, msgs []Message) {
	var lines []string
	for _, m := range msgs {
		c.sent++
		payload := m.Append(nil)
		text := m.Notification.text()
		fates := c.fate(s.cfg.ID, m.To)
		to := c.servers[m.To]
		if to == nil || to.e == nil || c.cut[[2]int64{s.cfg.ID, m.To}] || len(fates) == 0 {
			lines = append(lines, fmt.Sprintf("%d lost: %s", m.To, text))
		} else {
			lines = append(lines, fmt.Sprintf("%d: %s", m.To, text))
		}
		for _, after := range fates {
			c.inject(c.now+after, s.cfg.ID, m.To, s.e, payload)
		}
	}
	for _, line := range gather(lines) {
		c.on(fmt.Sprintf("%d -> %s", s.cfg.ID, line))
	}
}

// text is what a trace shows of a notification.
func (n Notification) text() string {
	return fmt.Sprintf("%v %v", n.State, Vote{n.Leader, n.Zxid, n.PeerEpoch, n.ElectionEpoch})
}

// gather joins the receivers of equal messages: "1,2: text".
func gather(lines []string) []string {
	var out []string
	for _, line := range lines {
		to, text, _ := strings.Cut(line, ": ")
		if n := len(out) - 1; n >= 0 && strings.HasSuffix(out[n], ": "+text) {
			out[n] = strings.TrimSuffix(out[n], ": "+text) + "," + to + ": " + text
			continue
		}
		out = append(out, line)
	}
	return out
}

func (c *cluster) inject(at time.Duration, from, to int64, life *Election, payload []byte) {
	c.seq++
	c.flight = append(c.flight, packet{at, c.seq, from, to, life, payload})
}

// deliver takes a packet off the network.
func (c *cluster) deliver(p packet) {
	s := c.servers[p.to]
	if s == nil || s.e == nil || c.cut[[2]int64{p.from, p.to}] {
		return
	}
	n, err := Parse(p.from, p.payload)
	if err != nil {
		c.breaks("payload %x: %v", p.payload, err)
		return
	}
	c.do(s, func(e *Election) { e.Step(c.now, n) })
}

// next returns what happens next: the arrival of a message, or else the
// deadline of a server. Messages go first, in the order in which they were sent.
func (c *cluster) next() (at time.Duration, p *packet, s *server) {
	if len(c.flight) > 0 {
		i := 0
		for j := range c.flight {
			if cmp.Or(cmp.Compare(c.flight[j].at, c.flight[i].at), cmp.Compare(c.flight[j].seq, c.flight[i].seq)) < 0 {
				i = j
			}
		}
		p = &c.flight[i]
		at = p.at
	}
	for _, id := range c.ids() {
		if e := c.servers[id].e; e != nil {
			if d, ok := e.Deadline(); ok && (p == nil && s == nil || d < at) {
				at, p, s = max(d, c.now), nil, c.servers[id]
			}
		}
	}
	return at, p, s
}

// run lets everything happen up to and at the time end.
func (c *cluster) run(end time.Duration) {
	for {
		at, p, s := c.next()
		if p == nil && s == nil || at > end {
			c.now = end
			return
		}
		c.now = max(c.now, at)
		if s != nil {
			c.do(s, func(e *Election) { e.Tick(c.now) })
			if d, ok := s.e.Deadline(); ok && d <= c.now {
				panic(fmt.Sprintf("Tick(%v) leaves the deadline at %v", c.now, d))
			}
			continue
		}
		taken := *p
		*p = c.flight[len(c.flight)-1]
		c.flight = c.flight[:len(c.flight)-1]
		c.deliver(taken)
	}
}

// look makes a server begin an election with what it has on disk.
func (c *cluster) look(s *server) {
	c.do(s, func(e *Election) { e.Look(c.now, s.last, s.epoch) })
}

// start begins the process of a server.
func (c *cluster) start(s *server) {
	s.e = New(s.cfg)
	c.look(s)
}

// kill ends it. What was on its way from it stays so.
func (c *cluster) kill(s *server) { s.e = nil }

// tellLinks tells every living server which voters it has a link to, as its
// transport would after a while.
func (c *cluster) tellLinks() {
	for _, a := range c.ids() {
		for _, b := range c.system.Voters() {
			s := c.servers[a]
			if s.e == nil || a == b {
				continue
			}
			if c.linked(a, b) {
				c.do(s, func(e *Election) { e.Reachable(b) })
			} else if c.servers[b].e == nil {
				c.do(s, func(e *Election) { e.Unreachable(b) })
			}
		}
	}
}

// living returns the servers that run.
func (c *cluster) living() []*server {
	var out []*server
	for _, id := range c.ids() {
		if s := c.servers[id]; s.e != nil {
			out = append(out, s)
		}
	}
	return out
}

// between returns a duration from lo to hi.
func between(rng *rand.Rand, lo, hi time.Duration) time.Duration {
	return lo + time.Duration(rng.Int64N(int64(hi-lo)+1))
}
