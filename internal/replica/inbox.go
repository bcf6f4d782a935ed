package replica

import (
	"slices"
	"sync"

	"github.com/pinfold-zk/pinfold/internal/session"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/zk"
)

// batch is a run of requests on its way through the stages. Each stage owns it
// while it works on it; the applier puts it back into the pool.
type batch struct {
	reqs   []Request
	bodies []byte // what the requests' bodies lie in
	txns   []txn.Txn
	enc    []byte // the transactions' encodings, one behind the other
	ends   []int  // where in enc each ends
	own    int    // requests that were submitted to this server
	lent   bool   // others keep enc

	// A learner's batch is made of what the leader sent; then enc is empty.
	entries  []zab.Entry
	released int // transactions that were handed to the applier
}

func (b *batch) reset() {
	clear(b.reqs)
	clear(b.txns)
	clear(b.entries)
	if b.lent {
		b.enc = nil
	}
	*b = batch{
		reqs: b.reqs[:0], bodies: b.bodies[:0], txns: b.txns[:0], enc: b.enc[:0], ends: b.ends[:0],
		entries: b.entries[:0],
	}
}

// batchPool keeps batches for reuse. Unlike a sync.Pool it is not emptied by the
// garbage collector: batches are large, and always needed again.
type batchPool chan *batch

// The pool holds at most pooledBatches, each with buffers of at most
// maxPooledBytes.
const (
	pooledBatches  = 2*stageBatches + 2
	maxPooledBytes = 4 << 20
)

func (p batchPool) get() *batch {
	select {
	case b := <-p:
		return b
	default:
		return new(batch)
	}
}

// put takes a batch that nobody refers to any more.
func (p batchPool) put(b *batch) {
	b.reset()
	if cap(b.bodies) > maxPooledBytes || cap(b.enc) > maxPooledBytes {
		return
	}
	select {
	case p <- b:
	default:
	}
}

// ReleaseSpare gives up the buffers that are kept for the next requests, up to
// 16 MiB with small ones: for when the server is left alone. It may be called at
// any time by anybody; what is in use is not touched.
func (r *Replica) ReleaseSpare() {
	for {
		select {
		case <-r.pool:
		default:
			return
		}
	}
}

// encoded is the encoding of transaction i.
func (b *batch) encoded(i int) []byte {
	if len(b.entries) > 0 {
		return b.entries[i].Data
	}
	start := 0
	if i > 0 {
		start = b.ends[i-1]
	}
	return b.enc[start:b.ends[i]]
}

// encodedSize is about how long the transactions of the requests will be.
func (b *batch) encodedSize() int {
	const head = 128 // header, digest, ACL, counters
	size := 0
	for i := range b.reqs {
		size += head + len(b.reqs[i].Body)
	}
	return size
}

// add appends a request and copies its body.
func (b *batch) add(req *Request) {
	at := len(b.bodies)
	b.bodies = append(b.bodies, req.Body...)
	b.reqs = append(b.reqs, *req)
	b.reqs[len(b.reqs)-1].Body = b.bodies[at:len(b.bodies):len(b.bodies)]
}

// resume is a session that has come back on another connection.
type resume struct {
	id            zk.SessionID
	owner         session.Owner
	timeoutMillis int32
	origin        Origin
}

type call = func(*session.Tracker, func(zk.SessionID) (int64, bool))

// inbox is the mailbox of the loop. Whatever gathers while the loop is at work
// it takes at once.
type inbox struct {
	pool batchPool
	wake chan struct{} // holds one token if there may be something

	mu struct {
		sync.Mutex
		sync.Cond // packets were taken
		mail
		early       bool // events wait: there is no network yet
		packetBytes int
		spare       []zab.Packet
	}
}

// mail is what the loop takes out of its inbox.
type mail struct {
	batch   *batch // nil if there are no requests
	resumes []resume
	calls   []call
	events  []event
	packets []zab.Packet // of the events
	held    int          // requests that were left
}

// maxPacketBytes bounds the packets that wait for the loop (P6): who brings more
// has to wait, and by that the peer.
const maxPacketBytes = 32 << 20

func (x *inbox) init(pool batchPool) {
	x.pool = pool
	x.wake = make(chan struct{}, 1)
	x.mu.L = &x.mu.Mutex
}

func (x *inbox) put(reqs []Request) {
	x.mu.Lock()
	if x.mu.batch == nil {
		x.mu.batch = x.pool.get()
	}
	for i := range reqs {
		x.mu.batch.add(&reqs[i])
	}
	x.mu.batch.own += len(reqs)
	x.mu.Unlock()
}

func (x *inbox) putResume(r resume) {
	x.mu.Lock()
	x.mu.resumes = append(x.mu.resumes, r)
	x.mu.Unlock()
	x.signal()
}

func (x *inbox) putCall(f call) {
	x.mu.Lock()
	x.mu.calls = append(x.mu.calls, f)
	x.mu.Unlock()
	x.signal()
}

func (x *inbox) putEvent(e event) {
	x.mu.Lock()
	if n := len(x.mu.events); e.kind == writesDone && n > 0 && x.mu.events[n-1].kind == writesDone {
		x.mu.events[n-1].seq = e.seq
	} else {
		x.mu.events = append(x.mu.events, e)
	}
	x.mu.Unlock()
	if e.kind != writesDone {
		x.signal()
	}
}

// join puts the event that Join makes before all that the network has told
// already.
func (x *inbox) join(n Network) {
	x.mu.Lock()
	x.mu.events = slices.Insert(x.mu.events, 0, event{kind: joined, net: n})
	x.mu.early = false
	x.mu.Unlock()
	x.signal()
}

// putPackets blocks while the loop has enough to do, unless failed is closed
// meanwhile.
func (x *inbox) putPackets(l zab.LinkID, ps []zab.Packet, failed <-chan struct{}) {
	x.mu.Lock()
	for x.mu.packetBytes > maxPacketBytes {
		select {
		case <-failed:
			x.mu.Unlock()
			return
		default:
		}
		x.mu.Wait()
	}
	first := len(x.mu.packets)
	x.mu.packets = append(x.mu.packets, ps...)
	for i := range ps {
		x.mu.packetBytes += len(ps[i].Data)
	}
	x.mu.events = append(x.mu.events, event{kind: packetsCame, link: l, first: first, last: len(x.mu.packets)})
	x.mu.Unlock()
}

// release wakes those that wait in putPackets.
func (x *inbox) release() {
	x.mu.Lock()
	x.mu.Broadcast()
	x.mu.Unlock()
}

func (x *inbox) signal() {
	select {
	case x.wake <- struct{}{}:
	default:
	}
}

// take returns all that there is, but for the requests if they are hold at most.
// The packets are given back by done.
func (x *inbox) take(hold int) mail {
	x.mu.Lock()
	m := x.mu.mail
	var held *batch
	if m.batch != nil && len(m.batch.reqs) <= hold {
		held, m.batch = m.batch, nil
		m.held = len(held.reqs)
	}
	if x.mu.early {
		x.mu.mail = mail{batch: held, events: m.events, packets: m.packets}
		m.events, m.packets = nil, nil
		x.mu.Unlock()
		return m
	}
	x.mu.mail = mail{batch: held, packets: x.mu.spare}
	x.mu.spare = nil
	if x.mu.packetBytes > maxPacketBytes {
		x.mu.Broadcast()
	}
	x.mu.packetBytes = 0
	x.mu.Unlock()
	return m
}

// takeRequests returns the requests that take has held back, nil if there are none.
func (x *inbox) takeRequests() *batch {
	x.mu.Lock()
	defer x.mu.Unlock()
	b := x.mu.batch
	x.mu.batch = nil
	return b
}

// done gives a taken mail's memory back for reuse.
func (x *inbox) done(m *mail) {
	if cap(m.packets) == 0 || cap(m.packets) > 1<<16 {
		return
	}
	clear(m.packets)
	x.mu.Lock()
	x.mu.spare = m.packets[:0]
	x.mu.Unlock()
}
