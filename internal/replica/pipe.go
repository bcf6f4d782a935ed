package replica

import (
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/pinfold-zk/pinfold/internal/fifo"
	"github.com/pinfold-zk/pinfold/internal/pipeline"
	"github.com/pinfold-zk/pinfold/internal/session"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// pipe connects the stages: it holds the machine that decides which goroutine runs which
// stage, and the queues between them. Its lock is held for a few instructions.
type pipe struct {
	sync.Mutex
	room    sync.Cond // crowded may have become false, or the replica has failed
	pool    *batchPool
	machine *pipeline.Machine

	mail                        // for Order
	packetBytes int             // memory of the packets in mail
	backlog     int             // transactions in steps that are not applied
	overfull    bool            // too much waits for the disk of a server that does not serve; Order changes it
	unjoined    bool            // events wait: Join was not called yet
	spare       []zab.Packet    // memory for the next packets
	spareEvents []event         // and events
	jobs        fifo.Queue[job] // for Log
	steps       []step          // for Apply
}

// mail is the input of a turn of Order.
type mail struct {
	batch   *batch // requests of this server's clients; nil if there are none
	resumes []resume
	calls   []call
	events  []event

	handOvers []func(error) // see HandOver
	restores  []*restoring  // see Restore
	packets   []zab.Packet  // of the events
}

// job is something that must become durable. On a server of an ensemble the Zab
// core has given it a number, and is told when it is done; on a standalone server a
// batch goes on to be applied.
type job struct {
	b     *batch // of WriteEntries
	write zab.Write
	term  uint64      // of the role that wants it
	tree  *znode.Tree // of WriteInstall, from a link

	restore *restoring // of WriteInstall, from no link

	// synced are syncs of a standalone server, which are answered when what was
	// asked for before them is applied. Nothing is written for them.
	synced []Request
}

// step is what is applied: transactions of a batch, start up to end; or syncs that
// are to be answered; or a tree that replaces the present one.
type step struct {
	b          *batch
	start, end int
	synced     []Request
	tree       *znode.Tree
	diverged   bool // tree is not what the log leads to
}

// load is how many transactions the step counts as for the machine. A long multi is applied in pieces, and takes as long as
// thousands of them: it counts as too many for a worker other than the Applier, which could not do what it is there for meanwhile
// (read a link, or write the log).
func (s *step) load() int {
	n := s.end - s.start
	if n > pipeline.SmallBatch {
		return n
	}
	for i := s.start; i < s.end; i++ {
		if znode.IsLong(&s.b.txns[i]) {
			return pipeline.SmallBatch + 1
		}
	}
	return n
}

// resume is a session that has come back on another connection.
type resume struct {
	id            zk.SessionID
	owner         session.Owner
	timeoutMillis int32
	origin        Origin
}

type call = func(*session.Tracker, func(zk.SessionID) (int64, bool))

// maxPacketBytes bounds the memory of the packets that wait for Order (P6), and maxPackets their number: a link whose
// packets do not fit is not read from until they do. All that waits is one turn of Order, and what a client
// sends meanwhile waits for that turn. The bytes that wait for the disk are
// bounded by the Zab core, which gives its role up (zab.Config, StallBytes), and on a
// standalone server by what clients may have outstanding. A server of an ensemble that does
// not serve reads no links while more of them wait: a log that a learner is sent may come
// faster than its disk takes it.
//
// maxBacklog bounds the number of committed transactions on a learner that are not
// applied: while there are more, links are not read from. A small transaction takes several
// times as much memory as its bytes, and a learner that was paused gets them faster than it
// can apply them. Transactions that wait for their commit do not count, since commits come
// over the link; nor do those that wait for the disk alone: a learner whose disk stalls
// applies what the others commit, and answers pings.
// A leader keeps reading: the backlog there is what clients have outstanding, and
// acknowledgements must arrive.
const (
	maxPacketBytes = 32 << 20
	maxPackets     = 4096
	maxBacklog     = 1 << 17
)

// packetBytes is the memory of a packet that waits. One with a transaction counts with what
// Order makes of it: a turn of Order decodes all packets that wait, and a small transaction
// becomes ten times as long.
func packetBytes(p *zab.Packet) int {
	n := int(unsafe.Sizeof(*p)) + len(p.Data)
	if hasTransaction(p) {
		n = int(unsafe.Sizeof(*p)) + int(weigh(p.Data))
	}
	for _, id := range p.Auth {
		n += int(unsafe.Sizeof(id)) + len(id.Scheme) + len(id.ID)
	}
	return n
}

// hasTransaction reports whether the data of a packet is a transaction.
func hasTransaction(p *zab.Packet) bool { return p.Type == zab.Proposal || p.Type == zab.Inform }

// expect makes room for the transactions in packets that Order is about to accept. A list that
// grows with each of them would leave several times its memory to the collector.
func (o *orderer) expect(ps []zab.Packet) {
	n := 0
	for i := range ps {
		if hasTransaction(&ps[i]) {
			n++
		}
	}
	o.accepted = slices.Grow(o.accepted, n)
}

// crowded reports whether packets of links have to wait. REQUIRES: the lock.
func (r *Replica) crowded() bool {
	p := &r.pipe
	return p.packetBytes > maxPacketBytes || len(p.packets) >= maxPackets || p.backlog > maxBacklog && !r.decides.Load() || p.overfull
}

// weigh returns the memory that a transaction takes while it waits for the disk: its
// encoding, the decoded form, the entry and the request.
func weigh(data []byte) int64 {
	return int64(len(data)) + txn.DecodedBytes(data) + int64(unsafe.Sizeof(zab.Entry{})+unsafe.Sizeof(Request{}))
}

// noteUnsynced publishes what waits for the disk, and stops or continues the reading of links.
func (o *orderer) noteUnsynced() {
	bytes, overfull := o.core.Unsynced()
	overfull = overfull && !o.serving.Load()
	o.stats.Unsynced.Store(bytes)
	if overfull == o.pipe.overfull {
		return
	}
	o.pipe.Lock()
	defer o.pipe.Unlock()
	o.pipe.overfull = overfull
	o.pipe.room.Broadcast()
}

// maxGroup is how many transactions one write of the log has, unless a single job has
// more. A disk that was away for a minute leaves several hundred thousand. Were they one
// write, Order would acknowledge them in one turn, and requests would wait for it.
const maxGroup = 1 << 14

func (p *pipe) init(pool *batchPool, group func(int) int) {
	p.pool = pool
	p.machine = pipeline.New(func(int) int {
		if group != nil {
			return group(p.grouped())
		}
		return p.grouped()
	})
	p.room.L = &p.Mutex
}

// grouped is how many of the waiting jobs fit into one write: at least one.
// REQUIRES: the lock.
func (p *pipe) grouped() int {
	jobs := p.jobs.All()
	txns := 0
	for i := range jobs {
		if b := jobs[i].b; b != nil {
			txns += len(b.txns)
		}
		if txns > maxGroup && i > 0 {
			return i
		}
	}
	return len(jobs)
}

// put queues the output of a stage for the other stages.
// REQUIRES: the lock.
func (p *pipe) put(t *Turn) {
	p.shrink(t)
	if t.Stage == pipeline.Order {
		p.recycle(&t.mail)
		p.machine.Deadline(t.deadline)
		p.machine.Forwards(t.forwards)
	}
	if t.Stage == pipeline.Log {
		p.machine.Prompt(t.prompt)
	}
	if n := len(t.jobs); n > 0 {
		p.jobs.Push(t.jobs...)
		p.machine.Logging(n, t.lone)
		clear(t.jobs)
		t.jobs = t.jobs[:0]
	}
	if len(t.steps) > 0 {
		p.steps = append(p.steps, t.steps...)
		for i := range t.steps {
			p.machine.Applying(t.steps[i].load())
			p.backlog += t.steps[i].end - t.steps[i].start
		}
		clear(t.steps)
		t.steps = t.steps[:0]
	}
	for i := range t.events {
		p.tell(t.events[i])
	}
	t.events = t.events[:0]
}

// shrink takes what a stage has done out of the backlog.
// REQUIRES: the lock.
func (p *pipe) shrink(t *Turn) {
	full := p.backlog > maxBacklog
	if t.Stage == pipeline.Apply {
		for i := range t.due {
			p.backlog -= t.due[i].end - t.due[i].start
		}
	}
	if full && p.backlog <= maxBacklog {
		p.room.Broadcast()
	}
}

// take moves the queued input of a stage to its turn.
// REQUIRES: the lock.
func (p *pipe) take(t *Turn) {
	switch t.Stage {
	case pipeline.Order:
		p.takeMail(&t.mail)
	case pipeline.Log:
		clear(t.group)
		t.group = append(t.group[:0], p.jobs.All()[:t.Jobs]...)
		p.jobs.Drop(t.Jobs)
	case pipeline.Apply:
		clear(t.due)
		t.due, p.steps = p.steps, t.due[:0]
	}
}

// takeMail moves everything that is queued for Order to its turn, except the requests,
// which Order gets from takeRound.
func (p *pipe) takeMail(m *mail) {
	m.resumes, p.resumes = p.resumes, nil
	m.calls, p.calls = p.calls, nil
	m.handOvers, p.handOvers = p.handOvers, nil
	m.restores, p.restores = p.restores, nil
	if p.unjoined {
		return
	}
	m.events, p.events = p.events, p.spareEvents
	m.packets, p.packets = p.packets, p.spare
	p.spareEvents, p.spare = nil, nil
	if p.packetBytes > maxPacketBytes || len(m.packets) >= maxPackets {
		p.room.Broadcast()
	}
	p.packetBytes = 0
}

// recycle keeps the memory of the packets and events that Order was given.
func (p *pipe) recycle(m *mail) {
	const mostPackets, mostEvents = 1 << 16, 1 << 12
	if c := cap(m.packets); c > 0 && c <= mostPackets {
		clear(m.packets)
		p.spare = m.packets[:0]
	}
	if c := cap(m.events); c > 0 && c <= mostEvents {
		clear(m.events)
		p.spareEvents = m.events[:0]
	}
	*m = mail{}
}

// takeRound returns the requests of this server's clients if Order is to begin a round
// now, nil if not. The batch is empty if only learners have sent requests.
func (o *orderer) takeRound(forwarded int) *batch {
	p := &o.pipe
	p.Lock()
	defer p.Unlock()
	p.machine.Forwards(forwarded)
	if !p.machine.Round(o.turn.began) {
		return nil
	}
	b := p.batch
	if p.batch = nil; b == nil {
		b = p.pool.get()
	}
	return b
}

// tell appends an event. A writesDone event replaces one directly before it.
// REQUIRES: the lock.
func (p *pipe) tell(e event) {
	if n := len(p.events); e.kind == writesDone && n > 0 && p.events[n-1].kind == writesDone {
		p.events[n-1].seq = e.seq
		return
	}
	p.events = append(p.events, e)
	p.machine.Arrived(1)
}

// submit queues requests for Order. It copies their bodies.
// REQUIRES: the lock.
func (p *pipe) submit(reqs []Request) {
	if p.batch == nil {
		p.batch = p.pool.get()
	}
	b := p.batch
	if b.bodies == nil {
		b.bodies = p.pool.room()
	}
	for i := range reqs {
		at := len(b.bodies) // room for the head of a REQUEST, then the body
		b.bodies = append(append(b.bodies, make([]byte, requestHead)...), reqs[i].Body...)
		b.reqs = append(b.reqs, reqs[i])
		req := &b.reqs[len(b.reqs)-1]
		req.packet = b.bodies[at:len(b.bodies):len(b.bodies)]
		req.Body, req.Size = req.packet[requestHead:], len(reqs[i].Body)
	}
	b.own += len(reqs)
	p.machine.Submitted(len(reqs))
}

// notify calls f, which queues something, and wakes the workers that have to run.
func (r *Replica) notify(f func(p *pipe)) {
	r.pipe.Lock()
	f(&r.pipe)
	wake := r.pipe.machine.Wake(r.Now())
	r.pipe.Unlock()
	r.wake(wake)
}

// putEvent queues an event for Order.
func (r *Replica) putEvent(e event) { r.notify(func(p *pipe) { p.tell(e) }) }

// putCall queues a function that Order calls between two rounds.
func (r *Replica) putCall(f call) {
	r.notify(func(p *pipe) {
		p.calls = append(p.calls, f)
		p.machine.Arrived(1)
	})
}

// putPackets queues packets of a link. It blocks while too many wait, or too much is to be
// applied, unless the replica fails meanwhile.
func (r *Replica) putPackets(l zab.LinkID, ps []zab.Packet, mem Lease) {
	p, bytes := &r.pipe, 0
	for i := range ps {
		bytes += packetBytes(&ps[i])
	}
	p.Lock()
	defer p.Unlock()
	for r.crowded() && !r.hasFailed() {
		p.room.Wait()
	}
	first := len(p.packets)
	p.packets = append(p.packets, ps...)
	p.packetBytes += bytes
	p.events = append(p.events, event{kind: packetsCame, link: l, first: first, last: len(p.packets), mem: mem})
	p.machine.Arrived(len(ps))
}

// Submit hands requests over, in order. It copies their bodies and keeps
// nothing else but the Origins. The owner of a createSession is given its id by
// the transaction.
func (r *Replica) Submit(reqs []Request) {
	r.inProcess.Add(int64(len(reqs)))
	r.notify(func(p *pipe) { p.submit(reqs) })
}

// Bring is Submit for a caller that calls Work soon.
func (r *Replica) Bring(reqs []Request) {
	r.inProcess.Add(int64(len(reqs)))
	r.pipe.Lock()
	r.pipe.submit(reqs)
	r.pipe.Unlock()
}

// Work has the calling goroutine run stages of the pipeline as a Caller, if they are idle and
// have little to do, or wakes the workers that run them. It follows Bring and Packets.
//
// If reader is not nil the goroutine may wait for the disk. If that takes long, another goroutine
// calls reader.StandIn, and Work returns false in the end.
//
// REQUIRES: the caller holds no lock.
func (r *Replica) Work(reader Reader) (goOn bool) { return r.driver.Work(reader) }

// Reader is what a goroutine that calls Work reads: a client's connection, or a link.
type Reader = interface {
	// StandIn starts a goroutine that does what the one in Work would have done after it; that one
	// ends when Work returns. StandIn does not block.
	StandIn()
}

// Look has a Caller that waits for the disk for long replaced (Reader.StandIn): one whose write was being made at the call
// before as well. A replica looks itself, by a timer. One other goroutine of the process may look in its place while the log
// is written often. It calls Look with again true every LookEvery then, and once with false when it looks no more, and at the
// beginning: from then on writes are taken for seldom, and made aside (vfs.Aside). Look reports whether a write has ended since
// the last look.
func (r *Replica) Look(again bool) (wrote bool) {
	r.seldom.Store(!again)
	r.driver.Look(again)
	before := r.looked
	r.looked = r.flushes.Load()
	return r.looked != before
}

// Busy holds a token when the log was written four times without a pause of LookEvery while writes were taken for seldom: the
// goroutine that takes it is to look. The channel is never closed.
func (r *Replica) Busy() <-chan struct{} { return r.busy }

// busyFlushes is how many flushes without a pause of LookEvery make a token of Busy.
const busyFlushes = 4

// Resume makes origin the connection of a session from now on, with a new timeout.
// The caller has checked the password. Origin.Resumed answers.
func (r *Replica) Resume(id zk.SessionID, owner session.Owner, timeoutMillis int32, origin Origin) {
	r.notify(func(p *pipe) {
		p.resumes = append(p.resumes, resume{id, owner, timeoutMillis, origin})
		p.machine.Arrived(1)
	})
}

// Turn is a worker's place in the pipeline, with what its stage was given and what
// the stage makes. Its zero value is that of a Caller. The stage that runs owns it.
type Turn struct {
	pipeline.Turn
	began time.Duration // when Next gave the stage: what Order does in a turn it does at this time
	ended time.Duration // when Run was done with it

	mail  mail   // given to Order
	group []job  // given to Log
	due   []step // given to Apply

	jobs     []job         // made by Order, for Log
	lone     bool          // of Order: jobs is one small job, with little else under way
	prompt   bool          // of Log: the next small write will probably be quick
	steps    []step        // made by Order and Log, for Apply
	events   []event       // made by Log, for Order
	deadline time.Duration // of Order: when it has something to do by the clock
	forwards int           // of Order: learners' requests that wait for the next round
}

// reset makes t the Turn of a Caller that has not begun. It keeps the memory of t's lists, which a Caller would allocate
// for each request otherwise.
func (t *Turn) reset() {
	clear(t.group)
	clear(t.due)
	*t = Turn{group: t.group[:0], due: t.due[:0], jobs: t.jobs[:0], steps: t.steps[:0], events: t.events[:0]}
}

// Next hands over what t's stage has made, and gives t the next stage to run. False
// means that there is none: a Caller returns, any other worker sleeps until it is
// woken, or ends if t.Exit.
func (r *Replica) Next(t *Turn) bool {
	p, now := &r.pipe, t.ended
	if t.Stage == pipeline.None {
		now = r.Now()
	}
	p.Lock()
	p.put(t)
	wake, ok := p.machine.Next(&t.Turn, now)
	t.began = now
	if ok {
		p.take(t)
	}
	p.Unlock()
	r.wake(wake)
	return ok
}

// Run runs the stage that Next has given.
//
// The way of a write, in the order of the stages, with what each calls:
//
//  1. order   prepare the request, or forward it to the leader    orderer.step
//  2. order   propose it to the followers: the Zab core           orderer.propose
//  3. log     one write and one fsync for all jobs that wait      logger.write
//  4. order   the core counts acknowledgements and commits        orderer.tell
//  5. apply   change the tree, fire watches, answer, flush        applier.apply
//
// A standalone server has no core: what is logged is committed.
func (r *Replica) Run(t *Turn) {
	switch t.Stage {
	case pipeline.Order:
		r.order.step(t)
	case pipeline.Log:
		r.disk.write(t)
	case pipeline.Apply:
		for i := range t.due {
			r.tip.apply(t, &t.due[i])
		}
	}
	t.ended = r.Now()
	r.stats.turns[t.Stage].Add(1, t.ended-t.began)
}

// work runs stages until there is none for the worker.
func (r *Replica) work(t *Turn) {
	for r.Next(t) {
		r.Run(t)
	}
}

// wake wakes workers.
func (r *Replica) wake(ws pipeline.Wakes) {
	for w := pipeline.Orderer; ws != 0 && w <= pipeline.Applier; w++ {
		if ws.Has(w) {
			r.driver.Wake(w)
		}
	}
}
