package replica

import (
	"fmt"
	"slices"
	"time"

	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/zk"
)

// member is what Order keeps on a server of an ensemble.
type member struct {
	core      *zab.Core // nil on a standalone server, and before Join
	recovered zab.State // what core begins with
	recent    []zab.Entry
	shown     []byte // of the membership, by the tree that recovery has read; see shownMembers

	role   zab.Role
	term   uint64
	up     bool    // the core says that clients may be served
	commit zk.Zxid // the core says that everything up to it may be applied

	entries  []zab.Entry // of the batch that is being proposed
	accepted []txn.Txn   // of the leader's, decoded; the core has not emitted their writes yet
	made     []*batch    // proposed; the core has not emitted their writes yet
	proposed []*batch    // handed to Log; not all of their transactions are handed to Apply
	released zk.Zxid     // last zxid that was handed to Apply

	deliveries []zab.Delivery // wait until this server serves
	incoming   []Request      // of learners, to be proposed
	asker      zab.LinkID     // of the learner that sent the first request of the last round; 0: it was this server's client
	forwarded  forwarded      // of learners, not committed
	reconfig   zk.Zxid        // the latest that was prepared here
	handing    *handing       // nil: the leadership is not being handed over, and nothing restored
	restored   *restoring     // nil: no role was left for a restore
	syncs      syncs

	nextRefusal time.Duration // when the next refusal is logged
	refusals    int           // refusals that were not logged since the last one

	learning
	relaying
	lending
	modeTimes
}

// loadEpochs reads what the Zab core needs to know of the disk.
func (o *orderer) loadEpochs(rep *Report) error {
	last := o.tree.LastZxid()
	accepted, current, adopted, err := o.o.Dir.LoadEpochs(last)
	if err != nil {
		return err
	}
	if adopted {
		o.log.Warn("a crash has interrupted a synchronization: the current epoch is raised to the log's", "epoch", current, "zxid", last)
	}
	if lost := rep.Lost; lost > last && current >= lost.Epoch() {
		return fmt.Errorf("replica: %w: the newest snapshot, at %v, cannot be read, and without it the history ends at %v, though this server has told others that it has more (currentEpoch is %d): restore the snapshot; do not empty the data directory, for the member would vote without what it has acknowledged: docs/ops/troubleshooting.md says how it gets the leader's state", errDamaged, lost, last, current)
	}
	o.recovered = zab.State{AcceptedEpoch: accepted, CurrentEpoch: current, Last: last, Recent: o.recent, Diverged: rep.Diverged}
	if o.recovered.Members, err = o.loadMembers(); err != nil {
		return err
	}
	if !rep.Diverged {
		o.recovered.MembersShown = o.shown
	}
	o.recent, o.shown = nil, nil
	if n := len(o.recovered.Recent); n > 0 && o.recovered.Recent[n-1].Zxid != last {
		o.recovered.Recent = nil
	}
	o.released = last
	o.pipe.unjoined = true
	return nil
}

// window is how many transactions recovery keeps for learners.
func (r *Replica) window() int {
	if r.o.Ensemble == nil {
		return 0
	}
	return r.o.Ensemble.Window
}

// Join starts the first election, over the network n. It is called once. Events that the
// network reports before are queued until then.
func (r *Replica) Join(n Network) {
	r.notify(func(p *pipe) {
		p.events = slices.Insert(p.events, 0, event{kind: joined, net: n})
		p.unjoined = false
		p.machine.Arrived(len(p.events))
	})
}

// stepCore passes the events to the Zab core, and carries out its output.
func (o *orderer) stepCore(m *mail) {
	now := o.turn.began
	o.expect(m.packets)
	for i := range m.events {
		o.tell(now, &m.events[i], m.packets)
	}
	if o.core == nil {
		return
	}
	if len(o.resetSeqs) == 0 {
		o.core.Applied(o.LastApplied())
	}
	o.core.Await(len(o.waiting) > 0 || len(o.asked) > 0 || len(o.syncs.asked) > 0)
	if now >= o.core.Deadline() {
		o.noteProgress(now)
		o.core.Tick(now)
		o.publishStatus()
	}
	o.drive()
	o.countForObservers(now, m)
	o.noteUnsynced()
	for i := range m.events {
		if m.events[i].kind == linkDown {
			o.incomingTrees.remove(m.events[i].link) // its link is closed
			o.dropForwarded(m.events[i].link)
			o.undecided.forget(m.events[i].link)
		}
	}
}

func (o *orderer) tell(now time.Duration, e *event, packets []zab.Packet) {
	switch e.kind {
	case joined:
		o.net = e.net
		cfg := *o.o.Ensemble
		cfg.Accept, cfg.Weigh = o.accept, weigh
		o.core = zab.New(cfg, o.recovered, now)
		o.planReadOnly(zab.Looking)
		o.recovered = zab.State{}
	case linkUp:
		o.core.LinkUp(now, e.link)
	case linkDown:
		delete(o.progress, e.link)
		o.core.LinkDown(now, e.link, e.err)
	case packetsCame:
		o.lend(e, packets[e.first:e.last])
		o.core.Step(now, e.link, packets[e.first:e.last])
	case noteCame:
		o.core.Notification(now, o.ballots.remove(e.peer))
	case peerUp:
		o.core.PeerUp(now, e.peer)
	case peerDown:
		o.core.PeerDown(now, e.peer)
	case writesDone:
		o.core.Persisted(now, e.seq)
		for len(o.resetSeqs) > 0 && o.resetSeqs[0] <= e.seq {
			o.resetSeqs = o.resetSeqs[1:]
		}
	case cutFailed:
		o.log.Warn("the log cannot be cut to what the leader has", "err", e.err)
		o.core.TruncateFailed(now, e.zxid)
		o.proposed, o.accepted = nil, nil // none of it is on the disk
		o.released = e.zxid
	case treeDiverged:
		o.core.TreeDiverged(now, e.zxid)
	case consulted:
		o.core.ConsultOracle(now, e.permits)
	case located:
		o.core.Located(now, e.link, e.at, e.err)
	}
}

// noteProgress tells the core on which links bytes of a snapshot or of the log move.
func (o *orderer) noteProgress(now time.Duration) {
	for l, before := range o.progress {
		if n := o.net.Progress(l); n != before {
			o.progress[l] = n
			o.core.Alive(now, l)
		}
	}
}

// drive carries out the core's output until there is none.
func (o *orderer) drive() {
	for {
		rd := o.core.Ready()
		idle := len(rd.Writes) == 0
		o.do(rd)
		if idle {
			break
		}
	}
	o.serve()
}

// do carries out one Ready. Messages are sent first, so that followers write their logs
// at the same time as this server.
func (o *orderer) do(rd *zab.Ready) {
	if o.o.Saw != nil {
		o.o.Saw(rd)
	}
	for i := range rd.Events {
		o.logEvent(&rd.Events[i])
		o.countEvent(&rd.Events[i])
	}
	if len(rd.Events) > 0 {
		o.publishStatus()
	}
	o.changeRole(rd)
	if rd.Members != nil {
		o.net.SetMembers(rd.Members)
	}
	o.send(rd.Sends)
	for i := range rd.Notify {
		o.net.Notify(rd.Notify[i].To, rd.Notify[i].Append(nil))
	}
	if rd.Dial != 0 {
		l := o.net.Dial(rd.Dial, rd.DialMaster)
		o.leaderLink = l
		o.follow(l)
		o.core.Dialing(l)
	}
	for _, c := range rd.Close {
		o.net.CloseLink(c.Link, c.Reason)
	}
	for _, l := range rd.Lookups {
		o.locate(l)
	}
	for i := range rd.Deliver {
		o.deliver(&rd.Deliver[i])
	}
	for _, c := range rd.Close {
		o.dropForwarded(c.Link)
	}
	o.commit = rd.Commit
	o.applyCommitted()
	o.syncs.answered(rd.Synced, rd.SyncedAt)
	if reqs := o.syncs.reached(o.released); len(reqs) > 0 {
		o.toApply(step{synced: reqs})
	}
	for i := range rd.Writes {
		o.startWrite(&rd.Writes[i])
	}
}

// send sends what the core has for other servers, first to the learner whose client has asked for the last round. A lone
// client waits for that learner: to write its log, and then for the commit, and not for the others.
func (o *orderer) send(all []zab.Send) {
	for _, first := range [...]bool{true, false} {
		for i := range all {
			switch s := &all[i]; {
			case (s.Link == o.asker) != first:
			case s.Kind == zab.SendPackets:
				o.sendPackets(s.Link, s.Packets)
			default:
				o.stream(s)
			}
		}
	}
}

// changeRole records the role, and stops serving if it has changed.
func (o *orderer) changeRole(rd *zab.Ready) {
	if rd.Term != o.term || o.up && !rd.Serving {
		o.suspend()
	}
	if rd.Term != o.term || rd.Role != o.role {
		o.snap.cancel()
		o.planReadOnly(rd.Role)
	}
	o.role, o.term, o.up = rd.Role, rd.Term, rd.Serving
}

// suspend stops serving: all connections end, and requests in flight are not answered.
func (o *orderer) suspend() {
	for _, bs := range [][]*batch{o.made, o.proposed} {
		for _, b := range bs {
			o.abandon(b)
		}
	}
	o.dropRequests(o.syncs.take())
	o.dropQuestions()
	o.incoming, o.deliveries = nil, nil
	o.forwarded.forget()
	o.lending = lending{} // the garbage collector frees it
	o.gather(false)
	o.stopLearning()
	if o.Mode() == Idle {
		return
	}
	o.setMode(Idle)
	o.owners = map[zk.SessionID]owner{}
	o.o.Clients.Suspend()
	o.publishStatus()
	if h := o.handing; h != nil {
		o.handing = nil
		o.endHandOver(h, ErrNotLeader)
		if h.restore != nil {
			h.restore.done(ErrNotLeader)
		}
	}
}

// abandon drops the requests of a batch's transactions that were not handed to the
// applier: the next leader decides whether they stay in the history.
func (o *orderer) abandon(b *batch) {
	for i := b.released; i < len(b.reqs); i++ {
		if by := b.reqs[i].Origin; by != nil {
			by.Dropped(&b.reqs[i])
		}
		b.reqs[i].Origin = nil
	}
}

// serve begins to serve when the core has said so and all transactions that were
// committed by then are applied.
func (o *orderer) serve() {
	if wait := o.up && !o.serving.Load(); !wait || !o.allApplied(wait) || o.diverged.Load() || !o.verifyTree() {
		return
	}
	o.snap.allow()
	o.fuzzy.Store(false)
	o.freshenConfig()
	o.startServing()
	o.decides.Store(o.role == zab.Leading)
	o.setMode(modeOf(o.role))
	o.publishStatus()
	waiting := o.deliveries
	o.deliveries = nil
	for i := range waiting {
		o.deliver(&waiting[i])
	}
	o.gather(o.role == zab.Leading)
	o.endRestore()
}

// allApplied reports whether all transactions that were handed to Apply are in the tree.
// If not, and await is true, Order is woken when they are.
func (o *orderer) allApplied(await bool) bool {
	p := &o.pipe
	p.Lock()
	defer p.Unlock()
	done := p.machine.Unapplied() == 0 && len(o.turn.steps) == 0 && o.LastApplied() >= o.released
	p.machine.Await(await && !done)
	return done
}

// gather tells the machine whether this server collects requests into rounds.
func (o *orderer) gather(yes bool) {
	o.pipe.Lock()
	defer o.pipe.Unlock()
	o.pipe.machine.Gather(yes)
}

// locate looks up the position of a learner in the log, in a task of its own.
func (o *orderer) locate(l zab.Lookup) {
	o.driver.Spawn(func() bool {
		at, err := o.o.Dir.Locate(l.Zxid)
		o.putEvent(event{kind: located, link: l.Link, err: err, at: zab.Location{
			Exact: at.Present, Before: at.Before, After: at.After, LogBytes: at.LogBytes, SnapshotBytes: at.SnapshotBytes,
		}})
		return false
	})
}

// deliver handles a packet that the core does not handle itself.
func (o *orderer) deliver(d *zab.Delivery) {
	switch {
	case d.Packet.Type == zab.Ping && o.role != zab.Leading && d.Link == o.leaderLink:
		o.answerPing(d)
	case !o.serving.Load():
		o.deliveries = append(o.deliveries, *d)
	case o.role == zab.Leading:
		o.fromLearner(d)
	case d.Link != o.leaderLink:
		o.fromObserver(d)
	default:
		o.fromLeader(d)
	}
}

// startWrite queues a write for Log. Its transactions wait in proposed until they are
// committed.
func (o *orderer) startWrite(w *zab.Write) {
	j := job{write: *w, term: o.term}
	switch w.Kind {
	case zab.WriteEntries:
		j.b, j.write.Entries = o.batchOf(w), nil
		o.proposed = append(o.proposed, j.b)
		o.keep(j.b)
	case zab.WriteTruncate, zab.WriteInstall:
		o.resetSeqs = append(o.resetSeqs, w.Seq)
		o.replaceEnds(w.Kind, w.Zxid)
		o.fuzzy.Store(w.Kind == zab.WriteInstall && w.Link != 0)
		o.released = w.Zxid
		switch {
		case w.Kind == zab.WriteInstall && w.Link == 0:
			j.restore = o.restored
		case w.Kind == zab.WriteInstall:
			j.tree = o.incomingTrees.take(w.Link)
		}
	}
	o.toLog(j)
}

// accept decodes a transaction that the leader has sent. An error says why it cannot be in the
// history. The leader may be a program that is no member, so nothing is logged that cannot be read
// back.
func (o *orderer) accept(e zab.Entry) error {
	if most := o.o.Dir.MaxEntryBytes(); len(e.Data) > most {
		return fmt.Errorf("%d bytes, a transaction has at most %d", len(e.Data), most)
	}
	tx, err := txn.DecodeIn(e.Data, o.pool.ops)
	if err != nil {
		return err
	}
	if tx.Zxid != e.Zxid {
		return fmt.Errorf("in it is transaction %v", tx.Zxid)
	}
	o.accepted = append(o.accepted, tx)
	return nil
}

// batchOf returns the batch of a write's transactions: one that was prepared here, or one
// of those that were accepted from the leader.
func (o *orderer) batchOf(w *zab.Write) *batch {
	n := len(w.Entries)
	if len(o.made) > 0 {
		b := o.made[0]
		o.made = o.made[1:]
		check(len(b.txns) == n && b.txns[0].Zxid == w.Entries[0].Zxid,
			"the core writes %d transactions from %v, %d from %v were proposed", n, w.Entries[0].Zxid, len(b.txns), b.txns[0].Zxid)
		return b
	}
	check(len(o.accepted) >= n && o.accepted[0].Zxid == w.Entries[0].Zxid,
		"the core writes %d transactions from %v, %d were accepted", n, w.Entries[0].Zxid, len(o.accepted))
	b := o.pool.get()
	b.entries, b.reqs = append(b.entries, w.Entries...), slices.Grow(b.reqs, n)
	if n == len(o.accepted) {
		b.txns, o.accepted = o.accepted, b.txns[:0]
	} else {
		b.txns, o.accepted = append(b.txns, o.accepted[:n]...), o.accepted[n:]
	}
	for i := range b.txns {
		b.reqs = append(b.reqs, o.match(&b.txns[i]))
		if b.reqs[i].Origin != nil && b.reqs[i].Owner != 0 {
			b.own++
		}
	}
	o.countProposed(b.txns)
	return b
}

// applyCommitted hands the committed transactions to Apply. On a server that serves they
// may not be durable here yet, see docs/zab.md. While a replacement of the tree is pending
// the core commits no transaction after it.
func (o *orderer) applyCommitted() {
	for len(o.proposed) > 0 {
		b := o.proposed[0]
		s := step{b: b, start: b.released, end: b.released}
		for s.end < len(b.txns) && b.txns[s.end].Zxid <= o.commit {
			s.end++
		}
		if s.end == s.start {
			break
		}
		o.released = b.txns[s.end-1].Zxid
		o.noteEnds(b.txns[s.start:s.end])
		o.countCommitted(b.txns[s.start:s.end])
		o.committed(s.end - s.start)
		b.released = s.end
		if s.end == len(b.txns) {
			o.forwarded.countOut(b.reqs[b.own:])
			o.proposed[0] = nil
			o.proposed = o.proposed[1:]
		}
		o.toApply(s)
	}
}

// committed tells the machine that n transactions were committed: their clients will be
// answered.
func (o *orderer) committed(n int) {
	o.pipe.Lock()
	defer o.pipe.Unlock()
	o.pipe.machine.Committed(n, o.turn.began)
}

// logEvent logs an event of the core.
func (o *orderer) logEvent(e *zab.Event) {
	switch e.Kind {
	case zab.EventLooking:
		o.log.Info("looking for a leader", "zxid", o.released)
	case zab.EventElected:
		o.log.Info("a leader is elected", "leader", e.Peer)
	case zab.EventLeft:
		o.log.Warn("the role is given up", "reason", e.Reason)
	case zab.EventEpoch:
		o.log.Info("a quorum is there", "epoch", e.Epoch)
	case zab.EventServing:
		o.log.Info("the ensemble is there", "leader", e.Peer, "epoch", e.Epoch)
	case zab.EventSyncing:
		o.log.Info("a learner is being synchronized", "server", e.Peer, "learner_zxid", e.Zxid, "sent", e.Reason)
	case zab.EventJoined:
		o.log.Info("a learner is up to date", "server", e.Peer)
	case zab.EventGone:
		o.log.Warn("a learner has gone", "server", e.Peer, "reason", e.Reason)
	case zab.EventRefused:
		o.logRefused(e)
	case zab.EventResync:
		o.log.Warn("a snapshot will be asked for", "reason", e.Reason)
	case zab.EventDeclined:
		o.log.Error("this server is elected and does not lead, for its tree is not what its log leads to: a quorum of voters is in this state, and none has a tree for the others; it looks again in a tick",
			"zxid", o.LastApplied())
	case zab.EventDesignation:
		o.log.Warn("the leader has changed the membership of the ensemble; this server keeps that of its configuration, because reconfigEnabled is false", "zxid", e.Zxid)
	case zab.EventHealing:
		o.tellHealing(e)
	case zab.EventHealed:
		o.log.Info("the member has healed: it has everything that was lost, and its vote", "from", e.Peer, "zxid", e.Zxid)
	case zab.EventMembers:
		o.log.Info("the membership of the ensemble has changed", "version", e.Zxid)
	}
}

// refusalPeriod is the shortest time between two logged refusals: a peer of another
// ensemble connects again at once, each time that it is refused.
const refusalPeriod = time.Second

// logRefused logs a refusal, or counts it for the next line.
func (o *orderer) logRefused(e *zab.Event) {
	now := o.Now()
	if now < o.nextRefusal {
		o.refusals++
		return
	}
	attrs := []any{"server", e.Peer, "link", e.Link, "reason", e.Reason}
	if o.refusals > 0 {
		attrs = append(attrs, "omitted", o.refusals)
	}
	o.nextRefusal, o.refusals = now+refusalPeriod, 0
	o.log.Warn("a peer was refused", attrs...)
}

// Status is the core's status after its last event, nil on a standalone server.
func (r *Replica) Status() *zab.Status { return r.status.Load() }

func (o *orderer) publishStatus() {
	if o.core != nil {
		s := o.core.Status()
		o.status.Store(&s)
	}
}
