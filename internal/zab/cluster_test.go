package zab

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/pinfold-zk/pinfold/internal/zab/election"
	"github.com/pinfold-zk/pinfold/zk"
)

const ms = time.Millisecond

// membersOf is a membership of voters with the ids from 1, and observers with the
// next ones.
func membersOf(voters, observers int) *Membership {
	members := make([]Member, voters+observers)
	for i := range members {
		members[i] = Member{ID: int64(i + 1), Weight: 1, Observer: i >= voters}
	}
	return must(NewMembership(0, members, []byte("config")))
}

// observing is a membership of voters with the ids from 1, and of an observer, which
// may be one of these.
func observing(voters int, id int64) *Membership {
	members := []Member{{ID: id, Observer: true}}
	for i := range int64(voters) {
		if i+1 != id {
			members = append(members, Member{ID: i + 1, Weight: 1})
		}
	}
	return must(NewMembership(0, members, []byte("config")))
}

// cluster is servers with disks and the network between them, in memory. It
// decides nothing: whoever drives it says what happens next.
type cluster struct {
	now      time.Duration
	servers  []*server // by id, from 1; [0] is nil
	links    []*wire   // that are up, or being made
	lastLink LinkID
	notes    [][]*election.Notification // [from][to]: the last one that was sent, nil if none waits
	blocked  [][]bool                   // [a][b], both ways
	refuses  map[[2]int64]bool          // [a, b]: the quorum port of b is out of a's reach

	values uint64 // of transactions
	check  checks
	trace  func(format string, args ...any) // nil: nobody looks
	// violation is the first broken promise.
	violation error
}

func newCluster(voters, observers int, cfg Config) *cluster {
	c := &cluster{}
	if cfg.Members == nil {
		cfg.Members = membersOf(voters, observers)
	}
	n := voters + observers + 1
	c.servers, c.notes, c.blocked = make([]*server, n), make([][]*election.Notification, n), make([][]bool, n)
	for i := range n {
		c.notes[i], c.blocked[i] = make([]*election.Notification, n), make([]bool, n)
	}
	for i := 1; i < n; i++ {
		s := &server{cluster: c, id: int64(i), cfg: cfg}
		s.cfg.ID = s.id
		c.servers[i] = s
	}
	c.check.init()
	return c
}

func (c *cluster) fail(format string, args ...any) {
	if c.violation == nil && !c.check.off {
		c.violation = fmt.Errorf(format, args...)
	}
}

func (c *cluster) say(format string, args ...any) {
	if c.trace != nil {
		c.trace(format, args...)
	}
}

// entry makes a transaction that is like no other.
func (c *cluster) entry(z zk.Zxid) Entry {
	c.values++
	return Entry{z, binary.BigEndian.AppendUint64(nil, c.values)}
}

// disk is what survives a crash. A snapshot is the history up to logStart; what
// is later is in the log.
type disk struct {
	accepted, current uint32
	history           []Entry // durable, all of it
	logStart          zk.Zxid
	wrong             bool // a start makes a wrong tree of it, and finds out
	members           Memberships
}

func (d *disk) last() zk.Zxid {
	if n := len(d.history); n > 0 {
		return d.history[n-1].Zxid
	}
	return d.logStart
}

// index returns how many entries of es are not later than z.
func index(es []Entry, z zk.Zxid) int {
	return sort.Search(len(es), func(i int) bool { return es[i].Zxid > z })
}

// ends reports whether the history can be cut to z.
func (d *disk) ends(z zk.Zxid) bool {
	if z == d.logStart {
		return true
	}
	i := index(d.history, z)
	return z > d.logStart && i > 0 && d.history[i-1].Zxid == z
}

// server is a core, its disk, and what its owner does.
type server struct {
	*cluster
	id   int64
	cfg  Config
	core *Core // nil: it is down
	disk disk

	writes    []begun // not durable
	failedCut uint64  // the term in which a truncation failed
	wrong     bool    // the tree is not what the log leads to, and the core was told

	role    Role
	term    uint64
	serving bool
	epoch   uint32
	commit  zk.Zxid

	history  []Entry // appended: on the disk or on the way there
	applied  zk.Zxid // in the tree
	fuzzy    zk.Zxid // the tree shows something up to here
	verified int     // entries that were compared with what is committed
	resets   int     // truncations and installations that are not durable

	trees   map[LinkID]tree
	lookups []Lookup
	syncs   []syncMark
	drives  int
}

// begun is a write on its way to the disk.
type begun struct {
	Write
	term uint64
	tree tree // of WriteInstall
}

// syncMark is a sync that was asked for.
type syncMark struct{ sees zk.Zxid }

// tree is what a snapshot's stream carries: the history up to a zxid.
type tree struct {
	history []Entry
	upto    zk.Zxid
}

// start lets the server begin, or begin again, with what is on its disk.
func (s *server) start() {
	d := &s.disk
	if e := d.last().Epoch(); e > d.current {
		d.current = e // storage adopts it
	}
	recent := d.history[index(d.history, d.logStart):]
	recent = recent[max(0, len(recent)-s.cfg.Window):]
	if len(recent) > 0 && recent[len(recent)-1].Zxid != d.last() {
		recent = nil
	}
	*s = server{cluster: s.cluster, id: s.id, cfg: s.cfg, disk: *d}
	s.history = slices.Clone(d.history)
	s.commit, s.applied, s.fuzzy = d.last(), d.last(), d.last()
	s.trees, s.wrong = map[LinkID]tree{}, d.wrong
	s.core = New(s.cfg, State{AcceptedEpoch: d.accepted, CurrentEpoch: d.current, Last: d.last(), Recent: recent, Diverged: d.wrong, Members: d.members, MembersShown: s.showsMembers(d.history)}, s.now)
	s.drive()
}

// showsMembers is what a tree with this history shows of the membership.
func (s *server) showsMembers(history []Entry) []byte {
	if s.cfg.Reader == nil {
		return nil
	}
	all := countsFor(s, history, 1<<62)
	return all[len(all)-1].Text()
}

// crash ends the server. Of the writes that were begun, durable ones and so many
// entries of the next are on the disk.
func (s *server) crash(durable, entries int) {
	for range durable {
		s.store(&s.writes[0])
		s.writes = s.writes[1:]
	}
	if len(s.writes) > 0 && s.writes[0].Kind == WriteEntries {
		w := s.writes[0]
		w.Entries = w.Entries[:min(entries, len(w.Entries))]
		s.store(&w)
	}
	s.core = nil
	s.serving = false
	s.check.stopped(s)
	for _, l := range slices.Clone(s.links) {
		if l.has(s) {
			l.cut()
		}
	}
	for to := range s.notes[s.id] {
		s.notes[s.id][to] = nil
	}
	for from := range s.notes {
		s.notes[from][s.id] = nil
	}
}

// drive does what the core wants until it wants nothing more.
func (s *server) drive() {
	for s.core != nil {
		rd := s.core.Ready()
		s.do(rd)
		if s.core == nil {
			return
		}
		if quiet(&s.core.ready) {
			break
		}
	}
	s.check.commits(s)
	s.check.commitsMembers(s)
	if s.drives++; s.drives%16 == 0 {
		if err := verify(s.core); err != nil {
			s.fail("server %d: %v", s.id, err)
		}
	}
}

// quiet reports whether nothing new is to be done.
func quiet(r *Ready) bool {
	return len(r.Events)+len(r.Writes)+len(r.Sends)+len(r.Close)+len(r.Deliver)+len(r.Lookups)+r.Synced == 0 && r.Dial == 0
}

// do carries out one Ready, as the owner in package replica does.
func (s *server) do(rd *Ready) {
	for i := range rd.Events {
		e := &rd.Events[i]
		if s.trace != nil {
			s.say("%d: %v", s.id, describeEvent(e))
		}
		s.check.event(s, e)
	}
	if rd.Term != s.term || s.serving && !rd.Serving {
		s.syncs = nil
	}
	began := rd.Serving && (!s.serving || rd.Term != s.term)
	s.role, s.term, s.epoch = rd.Role, rd.Term, rd.Epoch
	s.serving = rd.Serving
	for i := range rd.Sends {
		s.send(&rd.Sends[i])
	}
	for i := range rd.Notify {
		s.notify(&rd.Notify[i])
	}
	if rd.Dial != 0 {
		s.core.Dialing(s.dial(rd.Dial))
	}
	for _, cl := range rd.Close {
		if l := s.wire(cl.Link); l != nil {
			l.close(s, cl.Reason)
		}
	}
	s.lookups = append(s.lookups, rd.Lookups...)
	for i := range rd.Deliver {
		s.deliver(&rd.Deliver[i])
	}
	for i := range rd.Writes {
		s.begin(&rd.Writes[i])
	}
	s.commit = rd.Commit
	if began {
		s.check.serves(s)
	}
	if s.serving {
		s.check.shows(s)
	}
	for range rd.Synced {
		if len(s.syncs) == 0 {
			s.fail("server %d is told of %d syncs that nobody asked for", s.id, rd.Synced)
			break
		}
		s.say("%d: a sync is answered, at %v", s.id, rd.SyncedAt)
		s.check.synced(s, s.syncs[0], rd.SyncedAt)
		s.syncs = s.syncs[1:]
	}
}

// begin takes a write on.
func (s *server) begin(w *Write) {
	if s.trace != nil {
		s.say("%d: writes %v", s.id, describeWrite(w))
	}
	k := begun{Write: *w, term: s.term}
	k.Entries = slices.Clone(w.Entries)
	switch w.Kind {
	case WriteEntries:
		s.history = append(s.history, k.Entries...)
	case WriteTruncate, WriteInstall:
		s.resets++
		s.verified = 0
		if w.Kind == WriteTruncate {
			s.history = slices.Clone(s.history[:index(s.history, w.Zxid)])
			s.applied, s.fuzzy = w.Zxid, w.Zxid
			s.wrong = s.disk.wrong && w.Zxid != 0 // the tree is read again
			break
		}
		t, ok := s.trees[w.Link]
		if !ok {
			s.fail("server %d installs a tree that did not come", s.id)
		}
		delete(s.trees, w.Link)
		s.history = slices.Clone(t.history[:index(t.history, w.Zxid)])
		s.applied, s.fuzzy = w.Zxid, t.upto
		k.tree, s.wrong = t, false
	}
	s.writes = append(s.writes, k)
}

// store puts a write on the disk.
func (s *server) store(w *begun) {
	if w.term == s.failedCut && s.failedCut != 0 {
		return // it builds on a truncation that could not be
	}
	d := &s.disk
	switch w.Kind {
	case WriteEntries:
		for _, e := range w.Entries {
			if e.Zxid.Epoch() > d.current {
				s.fail("invariant 4: the log of server %d gets %v, its current epoch is %d", s.id, e.Zxid, d.current)
			}
		}
		d.history = append(d.history, w.Entries...)
	case WriteAcceptedEpoch:
		d.accepted = w.Epoch
	case WriteCurrentEpoch:
		if w.Epoch > d.accepted {
			s.fail("invariant 4: the current epoch of server %d becomes %d, accepted is %d", s.id, w.Epoch, d.accepted)
		}
		d.current = w.Epoch
		s.check.claims(s, w.Epoch, "written")
	case WriteMembers:
		d.members = w.Members
	case WriteTruncate:
		if !d.ends(w.Zxid) {
			s.failedCut = w.term
			return
		}
		gone := d.history[index(d.history, w.Zxid):]
		d.history = slices.Clone(d.history[:index(d.history, w.Zxid)])
		s.check.givesUp(s, gone)
	case WriteInstall:
		gone := d.history[index(d.history, w.Zxid):]
		d.history = slices.Clone(w.tree.history[:index(w.tree.history, w.Zxid)])
		d.logStart, d.wrong = w.Zxid, false
		s.check.givesUp(s, gone)
	}
}

// persist makes the n oldest writes durable.
func (s *server) persist(n int) {
	for range n {
		w := s.writes[0]
		failed := s.failedCut
		s.store(&w)
		s.writes = s.writes[1:]
		if w.Kind == WriteTruncate || w.Kind == WriteInstall {
			s.resets--
		}
		if s.failedCut != failed {
			s.say("%d: the log cannot be cut to %v", s.id, w.Zxid)
			s.core.TruncateFailed(s.now, s.disk.last())
			s.history = slices.Clone(s.disk.history)
			s.commit, s.applied, s.fuzzy = s.disk.last(), s.disk.last(), s.disk.last()
		}
		s.core.Persisted(s.now, w.Seq)
		if w.Kind == WriteTruncate && s.wrong {
			s.core.TreeDiverged(s.now, w.Zxid)
		}
		if s.resets == 0 {
			s.core.Applied(s.applied)
		}
		s.drive()
	}
}

// apply applies what is committed, up to z.
func (s *server) apply(z zk.Zxid) {
	z = min(z, s.commit)
	if z <= s.applied {
		return
	}
	s.applied, s.fuzzy = z, max(s.fuzzy, z)
	if s.resets == 0 {
		s.core.Applied(z)
	}
}

// tick tells the core what time it is.
func (s *server) tick() {
	s.core.Tick(s.now)
	s.drive()
	if next := s.core.Deadline(); next <= s.now {
		s.fail("server %d: at %v, after Tick, the deadline is %v", s.id, s.now, next)
	}
}

// propose proposes n transactions.
func (s *server) propose(n int) []Entry {
	z, left := s.core.NextZxid()
	if left < n {
		s.core.StepDown(s.now, "no zxid is left")
		s.drive()
		return nil
	}
	es := make([]Entry, n)
	for i := range es {
		es[i] = s.entry(z + zk.Zxid(i))
		s.check.proposes(s, es[i])
	}
	if err := s.core.Propose(es); err != nil {
		s.fail("server %d: %v", s.id, err)
	}
	s.drive()
	return es
}

// sync asks for a sync.
func (s *server) sync() {
	s.syncs = append(s.syncs, syncMark{s.check.shown()})
	if err := s.core.Sync(0); err != nil {
		s.fail("server %d: %v", s.id, err)
	}
	s.drive()
}

// syncFor asks for a sync of a learner's client, whose request has come.
func (s *server) syncFor(l *wire) {
	k := s.core.leader.links[l.ids[1]]
	if k == nil || k.state != upToDate || !l.ends[0].serving || l.down[0] {
		return
	}
	l.asked = append(l.asked, syncMark{s.check.shown()})
	if err := s.core.Sync(l.ids[1]); err != nil {
		s.fail("server %d: %v", s.id, err)
	}
	s.drive()
}

// deliver does what the owner of a core does with packets that are not Zab's.
func (s *server) deliver(d *Delivery) {
	switch {
	case s.role == Looking:
		s.fail("server %d has no role, and is delivered %v", s.id, d.Packet)
	case d.Packet.Type == Ping && s.role != Leading:
		if l := s.wire(d.Link); l != nil {
			l.put(s, item{Packet: Packet{Type: Ping, Zxid: d.Packet.Zxid}})
		}
	case d.Packet.Type == Sync:
		l := s.wire(d.Link)
		if l == nil || len(l.asked) == 0 {
			break // a played leader
		}
		s.say("%d: a sync is answered, at %v", s.id, d.At)
		s.check.synced(s, l.asked[0], d.At)
		l.asked = l.asked[1:]
	default:
		s.say("%d: is delivered %v", s.id, describe(&d.Packet))
	}
}

// locate answers the oldest lookup.
func (s *server) locate() {
	l := s.lookups[0]
	s.lookups = s.lookups[1:]
	log := s.disk.history[index(s.disk.history, s.disk.logStart):]
	i := index(log, l.Zxid)
	var at Location
	if i > 0 {
		at.Before, at.Exact = log[i-1].Zxid, log[i-1].Zxid == l.Zxid
	}
	if i < len(log) {
		at.After = log[i].Zxid
	}
	if i == 0 && l.Zxid < s.disk.logStart {
		at = Location{} // the log does not reach so far back
	}
	s.core.Located(s.now, l.Link, at, nil)
	s.drive()
}

// item is something on a link.
type item struct {
	Packet
	kind        SendKind
	after, upto zk.Zxid
}

// wire is a link between two servers. The dialler is end 0.
type wire struct {
	*cluster
	ids  [2]LinkID
	ends [2]*server
	up   bool
	down [2]bool   // the end has been told, or has closed it
	to   [2][]item // on their way to the end

	asked []syncMark // by the learner's client
}

func (c *cluster) newLinkID() LinkID {
	c.lastLink++
	return c.lastLink
}

// dial begins to connect to a server. What comes of it is connect's.
func (s *server) dial(peer int64) LinkID {
	l := &wire{cluster: s.cluster, ends: [2]*server{s, s.servers[peer]}, ids: [2]LinkID{s.newLinkID(), s.newLinkID()}}
	s.links = append(s.links, l)
	s.say("%d: dials %d", s.id, peer)
	return l.ids[0]
}

// connect makes the link, or tells that it could not be made.
func (l *wire) connect() {
	a, b := l.ends[0], l.ends[1]
	if b.core == nil || l.blocked[a.id][b.id] {
		l.cut()
		return
	}
	l.up = true
	b.core.LinkUp(l.now, l.ids[1])
	b.drive()
	if l.down[0] || a.core == nil {
		return
	}
	a.core.LinkUp(l.now, l.ids[0])
	a.drive()
}

func (s *server) wire(id LinkID) *wire {
	for _, l := range s.links {
		if l.ends[0] == s && l.ids[0] == id || l.ends[1] == s && l.ids[1] == id {
			return l
		}
	}
	return nil
}

// refused reports whether a link is being made for as long as its dialler has patience.
func (l *wire) refused() bool { return l.refuses[[2]int64{l.ends[0].id, l.ends[1].id}] }

func (l *wire) has(s *server) bool { return l.ends[0] == s || l.ends[1] == s }

func (l *wire) end(s *server) int {
	if l.ends[1] == s {
		return 1
	}
	return 0
}

// put sends something from s.
func (l *wire) put(s *server, it item) {
	if to := 1 - l.end(s); l.up && !l.down[1-to] {
		l.check.sends(s, &it.Packet)
		if it.kind == SendPackets && l.trace != nil {
			l.say("%d -> %d: %v", s.id, l.ends[to].id, describe(&it.Packet))
		}
		l.to[to] = append(l.to[to], it)
	}
}

// close is s ending the link: the other end notices later.
func (l *wire) close(s *server, reason error) {
	e := l.end(s)
	if !l.up {
		l.down[e] = true // it is not told at once: its core is being driven
		l.cut()
		return
	}
	l.say("%d: closes the link to %d", s.id, l.ends[1-e].id)
	l.down[e] = true
	l.to[e] = nil
}

// cut ends the link on both sides at once.
func (l *wire) cut() {
	i := slices.Index(l.links, l)
	if i < 0 {
		return
	}
	l.links = slices.Delete(l.links, i, i+1)
	for e, s := range l.ends {
		if told := l.down[e]; !told && s.core != nil && (l.up || e == 0) {
			l.down[e] = true
			delete(s.trees, l.ids[e])
			s.core.LinkDown(l.now, l.ids[e], errLink)
			s.drive()
		}
	}
}

var errLink = errors.New("the link is broken")

// next delivers the next n items to an end, or that the other end has closed it.
func (l *wire) next(e, n int) {
	s := l.ends[e]
	if len(l.to[e]) == 0 {
		if l.down[1-e] {
			l.cut()
		}
		return
	}
	var ps []Packet
	for ; n > 0 && len(l.to[e]) > 0; n-- {
		it := l.to[e][0]
		l.to[e] = l.to[e][1:]
		switch {
		case it.kind == SendRange:
			more, ok := l.rangeOf(l.ends[1-e], &it)
			if !ok || l.down[1-e] {
				l.cut()
				return
			}
			ps = append(ps, more...)
		case it.Type == Snap && len(l.to[e]) > 0 && l.to[e][0].kind == SendSnapshot:
			l.to[e] = l.to[e][1:]
			src := l.ends[1-e]
			if src.core == nil || src.wrong || l.down[1-e] {
				l.cut() // the stream has ended with it
				return
			}
			s.trees[l.ids[e]] = tree{slices.Clone(src.history[:index(src.history, src.applied)]), src.fuzzy}
			it.Data = src.showsMembers(src.history[:index(src.history, max(src.applied, src.fuzzy))])
			ps = append(ps, it.Packet)
		case it.kind == SendSnapshot:
			// A server in a trace has taken the packet before.
		default:
			ps = append(ps, it.Packet)
		}
	}
	if s.core == nil || l.down[e] {
		return
	}
	s.core.Step(l.now, l.ids[e], ps)
	s.drive()
}

// rangeOf reads a part of a server's log.
func (l *wire) rangeOf(s *server, it *item) (ps []Packet, ok bool) {
	if it.after < s.disk.logStart {
		return nil, false // purged since
	}
	h := s.disk.history
	es := h[index(h, it.after):index(h, it.upto)]
	if len(es) == 0 || es[len(es)-1].Zxid != it.upto {
		l.fail("server %d streams its log up to %v, which it does not have", s.id, it.upto)
		return nil, false
	}
	for _, e := range es {
		ps = append(ps, Packet{Type: Proposal, Zxid: e.Zxid, Data: e.Data}, Packet{Type: Commit, Zxid: e.Zxid})
	}
	return ps, true
}

// send puts what the core sends on its link.
func (s *server) send(sd *Send) {
	l := s.wire(sd.Link)
	if l == nil {
		return
	}
	switch sd.Kind {
	case SendPackets:
		for _, p := range sd.Packets {
			l.put(s, item{Packet: p})
		}
	case SendRange:
		s.say("%d -> %d: the log after %v up to %v", s.id, l.ends[1-l.end(s)].id, sd.After, sd.Upto)
		l.put(s, item{kind: sd.Kind, after: sd.After, upto: sd.Upto})
	case SendSnapshot:
		s.say("%d -> %d: the tree", s.id, l.ends[1-l.end(s)].id)
		l.put(s, item{kind: sd.Kind, upto: sd.Upto})
	}
}

// notify puts a message of the election into its slot.
func (s *server) notify(m *election.Message) {
	if m.To <= 0 || int(m.To) >= len(s.servers) {
		return
	}
	s.check.votes(s, &m.Notification)
	n := m.Notification
	s.notes[s.id][m.To] = &n
}

// note delivers a message of the election; it may be delivered again.
func (c *cluster) note(from, to int64, again bool) {
	n := c.notes[from][to]
	if !again {
		c.notes[from][to] = nil
	}
	if s := c.servers[to]; s.core != nil && !c.blocked[from][to] {
		s.core.Notification(c.now, *n)
		s.drive()
	}
}
