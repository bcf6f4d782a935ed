package replica

import (
	"fmt"
	"time"

	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/zk"
)

// member is what the loop of a server of an ensemble keeps.
type member struct {
	core       *zab.Core // nil on a standalone server, and before Join
	disk       zab.State // what core begins with
	recent     []zab.Entry
	nextExpiry time.Duration

	role zab.Role
	term uint64
	up   bool // the core says that clients may be served

	entries  []zab.Entry // of the batch that is being proposed
	made     []*batch    // proposed; the core has not asked yet to write them
	proposed []*batch    // on their way to the disk, or there; not yet applied whole
	released zk.Zxid     // handed to the applier

	deliveries []zab.Delivery // wait until this server serves
	incoming   []Request      // of learners, to be proposed
	syncs      []Request      // asked of the core, or of the leader, in this order
	waits      []syncWait     // answered, but for what is to be applied before
	undecided  []question     // of a leader, about sessions that are ending

	nextRefusal time.Duration // when a refused peer is worth a line again
	refusals    int           // that were worth none since the last

	gathering gathering

	learning
	standing
	locals
}

// syncWait is a sync that is done once everything up to at is applied.
type syncWait struct {
	at  zk.Zxid
	req Request
}

// found reads what the Zab core needs to know of the disk.
func (r *Replica) found(rep *Report) error {
	last := r.tree.LastZxid()
	accepted, current, adopted, err := r.o.Dir.LoadEpochs(last)
	if err != nil {
		return err
	}
	if adopted {
		r.log.Warn("a crash has interrupted a synchronization: the current epoch is raised to the log's", "epoch", current, "zxid", last)
	}
	if lost := rep.Lost; lost > last && current >= lost.Epoch() {
		return fmt.Errorf("replica: the newest snapshot, at %v, cannot be read, and without it the history ends at %v, though this server has told others that it has more (currentEpoch is %d): restore the snapshot, or empty the data directory, and the leader will send everything", lost, last, current)
	}
	r.disk = zab.State{AcceptedEpoch: accepted, CurrentEpoch: current, Last: last, Recent: r.recent}
	r.recent = nil
	if n := len(r.disk.Recent); n > 0 && r.disk.Recent[n-1].Zxid != last {
		r.disk.Recent = nil
	}
	r.released = last
	r.inbox.mu.early = true
	return nil
}

// window is how many transactions recovery keeps for learners.
func (r *Replica) window() int {
	if r.o.Ensemble == nil {
		return 0
	}
	return r.o.Ensemble.Window
}

// Join takes part in the ensemble, over n: the first election begins. It is
// called once. What the network tells before waits for it.
func (r *Replica) Join(n Network) {
	r.inbox.join(n)
}

// stepCore tells the Zab core what has happened, and does what it wants.
func (r *Replica) stepCore(m *mail) bool {
	now := r.Now()
	for i := range m.events {
		r.tell(now, &m.events[i], m.packets)
	}
	if r.core == nil {
		return true
	}
	if len(r.resetSeqs) == 0 {
		r.core.Applied(r.LastApplied())
	}
	if now >= r.core.Deadline() {
		r.noteProgress(now)
		r.core.Tick(now)
		r.publishStatus()
	}
	ok := r.drive()
	for i := range m.events {
		if m.events[i].kind == linkDown {
			r.incomingTrees.take(m.events[i].link) // nobody wants it
		}
	}
	return ok
}

func (r *Replica) tell(now time.Duration, e *event, packets []zab.Packet) {
	switch e.kind {
	case joined:
		r.net = e.net
		r.core = zab.New(*r.o.Ensemble, r.disk, now)
		r.planReadOnly(zab.Looking)
		r.disk = zab.State{}
	case linkUp:
		r.core.LinkUp(now, e.link)
	case linkDown:
		delete(r.progress, e.link)
		r.core.LinkDown(now, e.link, e.err)
	case packetsCame:
		r.core.Step(now, e.link, packets[e.first:e.last])
	case noteCame:
		r.core.Notification(now, r.ballots.take(e.peer))
	case peerUp:
		r.core.PeerUp(now, e.peer)
	case peerDown:
		r.core.PeerDown(now, e.peer)
	case writesDone:
		r.core.Persisted(now, e.seq)
		for len(r.resetSeqs) > 0 && r.resetSeqs[0] <= e.seq {
			r.resetSeqs = r.resetSeqs[1:]
		}
	case cutFailed:
		r.log.Warn("the log cannot be cut to what the leader has", "err", e.err)
		r.core.TruncateFailed(now, e.zxid)
		r.proposed = nil // none of it is on the disk
		r.released = e.zxid
	case located:
		r.core.Located(now, e.link, e.at, e.err)
	}
}

// noteProgress tells the core of links on which a snapshot goes.
func (r *Replica) noteProgress(now time.Duration) {
	for l, before := range r.progress {
		if n := r.net.Progress(l); n != before {
			r.progress[l] = n
			r.core.Alive(now, l)
		}
	}
}

// drive does what the core wants until it wants nothing more. False means that
// the disk has failed.
func (r *Replica) drive() bool {
	for {
		rd := r.core.Ready()
		idle := len(rd.Writes) == 0
		if !r.do(rd) {
			return false
		}
		if idle {
			break
		}
	}
	r.serve()
	return true
}

// do carries out one Ready. Messages go first: followers log while this server
// does.
func (r *Replica) do(rd *zab.Ready) bool {
	if r.o.Saw != nil {
		r.o.Saw(rd)
	}
	for i := range rd.Events {
		r.logEvent(&rd.Events[i])
		r.countEvent(&rd.Events[i])
	}
	if len(rd.Events) > 0 {
		r.publishStatus()
	}
	r.changeRole(rd)
	for i := range rd.Sends {
		r.send(&rd.Sends[i])
	}
	for i := range rd.Notify {
		r.net.Notify(rd.Notify[i].To, rd.Notify[i].Append(nil))
	}
	if rd.Dial != 0 {
		l := r.net.Dial(rd.Dial)
		r.leaderLink = l
		r.follow(l)
		r.core.Dialing(l)
	}
	for _, c := range rd.Close {
		r.net.CloseLink(c.Link, c.Reason)
	}
	for _, l := range rd.Lookups {
		r.locate(l)
	}
	for i := range rd.Deliver {
		r.deliver(&rd.Deliver[i])
	}
	r.release(min(rd.Commit, rd.Durable)) // the writer must have a batch before the applier may
	r.answerSyncs(rd.Synced, rd.SyncedAt)
	for i := range rd.Writes {
		if !r.begin(&rd.Writes[i]) {
			return false
		}
	}
	return true
}

// changeRole notes the role, and stops serving when it is another.
func (r *Replica) changeRole(rd *zab.Ready) {
	if rd.Term != r.term || r.up && !rd.Serving {
		r.suspend()
	}
	if rd.Term != r.term || rd.Role != r.role {
		r.snap.cancel()
		r.planReadOnly(rd.Role)
	}
	r.role, r.term, r.up = rd.Role, rd.Term, rd.Serving
}

// suspend stops serving: all connections end, and nobody is told of what is
// under way.
func (r *Replica) suspend() {
	for _, bs := range [][]*batch{r.made, r.proposed} {
		for _, b := range bs {
			r.abandon(b)
		}
	}
	r.dropSyncs()
	r.dropQuestions()
	r.incoming, r.deliveries = nil, nil
	r.gathering = gathering{}
	r.inbox.signal() // what was held
	r.stopLearning()
	if r.Mode() == Idle {
		return
	}
	r.setMode(Idle)
	r.owners = map[zk.SessionID]owner{}
	r.o.Clients.Suspend()
	r.publishStatus()
}

// abandon makes sure that nobody is told of a batch's transactions: whether they
// stay is for the next leader to say.
func (r *Replica) abandon(b *batch) {
	for i := b.released; i < len(b.reqs); i++ {
		if o := b.reqs[i].Origin; o != nil {
			o.Dropped(&b.reqs[i])
		}
		b.reqs[i].Origin = nil
	}
}

// dropSyncs forgets the syncs that are not answered.
func (r *Replica) dropSyncs() {
	for _, w := range r.waits {
		r.syncs = append(r.syncs, w.req)
	}
	r.waits = nil
	for i := range r.syncs {
		if o := r.syncs[i].Origin; o != nil {
			o.Dropped(&r.syncs[i])
			r.inProcess.Add(-1)
		}
	}
	r.syncs = nil
}

// serve begins to serve, once the core says so and everything is applied that
// was committed then.
func (r *Replica) serve() {
	if !r.up || r.serving.Load() {
		r.awaiting.Store(false)
		return
	}
	if r.awaiting.Store(true); r.unapplied.Load() > 0 || r.LastApplied() < r.released {
		return // the applier will wake the loop
	}
	r.awaiting.Store(false)
	r.snap.allow()
	r.fuzzy.Store(false)
	r.startServing()
	r.decides.Store(r.role == zab.Leading)
	r.setMode(modeOf(r.role))
	r.publishStatus()
	waiting := r.deliveries
	r.deliveries = nil
	for i := range waiting {
		r.deliver(&waiting[i])
	}
	if r.role == zab.Leading {
		r.inbox.signal() // incoming
	}
}

// locate looks up in the log, beside the loop, where a learner is.
func (r *Replica) locate(l zab.Lookup) {
	r.spawn(func() bool {
		at, err := r.o.Dir.Locate(l.Zxid)
		r.inbox.putEvent(event{kind: located, link: l.Link, err: err, at: zab.Location{
			Exact: at.Present, Before: at.Before, After: at.After, LogBytes: at.LogBytes, SnapshotBytes: at.SnapshotBytes,
		}})
		return false
	})
}

// deliver takes a packet that the core leaves to this server.
func (r *Replica) deliver(d *zab.Delivery) {
	switch {
	case d.Packet.Type == zab.Ping && r.role != zab.Leading:
		r.answerPing(d)
	case !r.serving.Load():
		r.deliveries = append(r.deliveries, *d)
	case r.role == zab.Leading:
		r.fromLearner(d)
	default:
		r.fromLeader(d)
	}
}

// begin has a write done. Its transactions wait in proposed until they are
// committed.
func (r *Replica) begin(w *zab.Write) bool {
	j := job{write: *w, term: r.term}
	switch w.Kind {
	case zab.WriteEntries:
		var err error
		if j.b, err = r.batchOf(w); err != nil {
			r.fail(err)
			return false
		}
		j.write.Entries = nil
		r.proposed = append(r.proposed, j.b)
	case zab.WriteTruncate, zab.WriteInstall:
		r.resetSeqs = append(r.resetSeqs, w.Seq)
		r.fuzzy.Store(w.Kind == zab.WriteInstall)
		r.released = w.Zxid
		if w.Kind == zab.WriteInstall {
			j.tree = r.incomingTrees.take(w.Link)
		}
	}
	return r.toWriter(j)
}

// batchOf returns the batch whose transactions a write has: one that was
// prepared here, or one made of what the leader sent.
func (r *Replica) batchOf(w *zab.Write) (*batch, error) {
	if len(r.made) > 0 {
		b := r.made[0]
		r.made = r.made[1:]
		check(len(b.txns) == len(w.Entries) && b.txns[0].Zxid == w.Entries[0].Zxid,
			"the core writes %d transactions from %v, %d from %v were proposed", len(w.Entries), w.Entries[0].Zxid, len(b.txns), b.txns[0].Zxid)
		return b, nil
	}
	b := r.pool.get()
	b.entries = append(b.entries, w.Entries...)
	for i := range b.entries {
		tx, err := txn.Decode(b.entries[i].Data)
		if err != nil {
			return nil, fmt.Errorf("replica: the leader sent a transaction that cannot be read, %v: %w", b.entries[i].Zxid, err)
		}
		if tx.Zxid != b.entries[i].Zxid {
			return nil, fmt.Errorf("replica: the leader sent transaction %v as %v", tx.Zxid, b.entries[i].Zxid)
		}
		b.txns = append(b.txns, tx)
		b.reqs = append(b.reqs, r.match(&b.txns[i]))
		if b.reqs[i].Origin != nil && b.reqs[i].Owner != 0 {
			b.own++
		}
	}
	r.countProposed(b.txns)
	return b, nil
}

// release hands everything up to commit to the applier.
func (r *Replica) release(commit zk.Zxid) {
	for len(r.proposed) > 0 {
		b := r.proposed[0]
		s := step{b: b, start: b.released, end: b.released}
		for s.end < len(b.txns) && b.txns[s.end].Zxid <= commit {
			s.end++
		}
		if s.end == s.start {
			break
		}
		r.released = b.txns[s.end-1].Zxid
		r.countCommitted(b.txns[s.start:s.end])
		r.gathering.committed(s.end-s.start, r.Now())
		b.released = s.end
		if s.end == len(b.txns) {
			r.proposed[0] = nil
			r.proposed = r.proposed[1:]
		}
		r.toApplier(s)
	}
	r.flushWaits()
}

// answerSyncs answers the n oldest syncs, when all up to at is applied.
func (r *Replica) answerSyncs(n int, at zk.Zxid) {
	for _, req := range r.syncs[:n] {
		r.waits = append(r.waits, syncWait{at, req})
	}
	if r.syncs = r.syncs[n:]; len(r.syncs) == 0 {
		r.syncs = nil
	}
	r.flushWaits()
}

// flushWaits has the applier answer the syncs behind whose zxid it has
// everything.
func (r *Replica) flushWaits() {
	n := 0
	for n < len(r.waits) && r.waits[n].at <= r.released {
		n++
	}
	if n == 0 {
		return
	}
	reqs := make([]Request, n)
	for i := range reqs {
		reqs[i] = r.waits[i].req
	}
	if r.waits = r.waits[n:]; len(r.waits) == 0 {
		r.waits = nil
	}
	r.toApplier(step{synced: reqs})
}

// logEvent tells the operator.
func (r *Replica) logEvent(e *zab.Event) {
	switch e.Kind {
	case zab.EventLooking:
		r.log.Info("looking for a leader", "zxid", r.released)
	case zab.EventElected:
		r.log.Info("a leader is elected", "leader", e.Peer)
	case zab.EventLeft:
		r.log.Warn("the role is given up", "reason", e.Reason)
	case zab.EventEpoch:
		r.log.Info("a quorum is there", "epoch", e.Epoch)
	case zab.EventServing:
		r.log.Info("the ensemble is there", "leader", e.Peer, "epoch", e.Epoch)
	case zab.EventSyncing:
		r.log.Info("a learner is being synchronized", "server", e.Peer, "it has", e.Zxid, "it is sent", e.Reason)
	case zab.EventJoined:
		r.log.Info("a learner is up to date", "server", e.Peer)
	case zab.EventGone:
		r.log.Warn("a learner has gone", "server", e.Peer, "reason", e.Reason)
	case zab.EventRefused:
		r.logRefused(e)
	case zab.EventResync:
		r.log.Warn("a snapshot will be asked for", "reason", e.Reason)
	case zab.EventDesignation:
		r.log.Warn("the leader has changed the configuration of the ensemble; this server keeps its own", "zxid", e.Zxid)
	}
}

// refusalPeriod is how often a refused peer is worth a line: one that is of
// another ensemble comes back at once, for ever.
const refusalPeriod = time.Second

// logRefused writes a line, or counts it for the next.
func (r *Replica) logRefused(e *zab.Event) {
	now := r.Now()
	if now < r.nextRefusal {
		r.refusals++
		return
	}
	attrs := []any{"server", e.Peer, "link", e.Link, "reason", e.Reason}
	if r.refusals > 0 {
		attrs = append(attrs, "omitted", r.refusals)
	}
	r.nextRefusal, r.refusals = now+refusalPeriod, 0
	r.log.Warn("a peer was refused", attrs...)
}

// Status is what the core said of the ensemble when it changed last, nil on a
// standalone server.
func (r *Replica) Status() *zab.Status { return r.status.Load() }

func (r *Replica) publishStatus() {
	if r.core != nil {
		s := r.core.Status()
		r.status.Store(&s)
	}
}
