package replica

import (
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/pinfold-zk/pinfold/internal/rawio"
	"github.com/pinfold-zk/pinfold/internal/spare"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/zk"
)

// batch is a run of requests on its way through the stages. Order makes it; from
// then on Log reads the encodings, Apply reads the transactions and answers the
// requests, and neither changes anything that the other reads. The stage that
// finishes last puts it back into the pool.
type batch struct {
	reqs   []Request
	bodies []byte // what the requests' bodies lie in
	txns   []txn.Txn
	enc    []byte // the transactions' encodings, one after the other
	ends   []int  // where in enc each ends
	own    int    // requests that were submitted to this server
	lent   bool   // a link keeps what lies in enc

	trimmed zk.Zxid // of the last transaction, after trim

	// A learner's batch is made of what the leader sent; then enc is empty.
	entries  []zab.Entry
	released int // transactions that were handed to Apply; owned by Order

	owed atomic.Int32 // stages that are not done with it, see owners
}

// owners is the number of stages that have to be done with a batch: Log and Apply, and in
// an ensemble also Order (lending).
func owners(ensemble bool) int32 {
	if ensemble {
		return 3
	}
	return 2
}

// last is the zxid of the last transaction.
func (b *batch) last() zk.Zxid {
	if len(b.txns) == 0 {
		return b.trimmed
	}
	return b.txns[len(b.txns)-1].Zxid
}

// trim clears all but the encodings, which the Zab core keeps for longer than Log and
// Apply: the operations of a multi take many times as much as its encoding.
func (b *batch) trim() {
	b.trimmed = b.last()
	clear(b.reqs)
	clear(b.txns)
	clear(b.entries)
	b.reqs, b.txns, b.entries = b.reqs[:0], b.txns[:0], b.entries[:0]
}

func (b *batch) reset() {
	clear(b.reqs)
	clear(b.txns)
	clear(b.entries)
	if b.lent {
		b.enc = nil
	}
	b.reqs, b.txns = b.reqs[:0], b.txns[:0]
	b.enc, b.ends, b.entries = b.enc[:0], b.ends[:0], b.entries[:0]
	b.own, b.lent, b.released, b.trimmed = 0, false, 0, 0
}

// memory is the number of bytes that the batch keeps in the pool, without bodies and large encodings.
func (b *batch) memory() int {
	return cap(b.enc) + cap(b.ends)*int(unsafe.Sizeof(int(0))) +
		cap(b.reqs)*int(unsafe.Sizeof(Request{})) + cap(b.txns)*int(unsafe.Sizeof(txn.Txn{})) +
		cap(b.entries)*int(unsafe.Sizeof(zab.Entry{}))
}

// batchPool keeps batches for reuse. Unlike a sync.Pool it is not emptied by the
// garbage collector: batches are large, and always needed again. The batch that was put
// last is used first, as the processor's caches still have it. Use newBatchPool.
type batchPool struct {
	mu     sync.Mutex
	free   []*batch   // without bodies and large encodings
	bodies [][]byte   // of other batches: only those of a server's own requests need them
	multis [][]txn.Op // of long multis: empty, of zero values
	bytes  int        // of the buffers in free, bodies and multis
	scrub  bool       // Options.Scrub

	// encs are the large buffers for encodings. A batch that kept its own would hold megabytes for a few
	// transactions, until the Zab core drops them: and as each batch has many transactions once, all buffers would
	// become as large as the largest has to be.
	encs spare.Buffers
}

func newBatchPool(scrub bool) *batchPool {
	return &batchPool{scrub: scrub, encs: spare.Buffers{Most: pooledBytes / 2}}
}

// The pool holds at most pooledBytes of buffers, none of more than maxPooledBytes, and besides at most half of pooledBytes
// of large buffers for encodings.
const (
	pooledBytes    = 20 << 20
	maxPooledBytes = 8 << 20
)

// longMulti is from how many operations of a multi the pool keeps their slice. A multi in a frame of
// 1 MiB has up to 47,000 operations, which take 6 MB.
const longMulti = 256

func (p *batchPool) get() *batch {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.free) - 1
	if last < 0 {
		return new(batch)
	}
	b := p.free[last]
	p.free[last] = nil
	p.free = p.free[:last]
	p.bytes -= b.memory()
	return b
}

// room returns an empty buffer for the bodies of requests.
func (p *batchPool) room() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.bodies) - 1
	if last < 0 {
		return nil
	}
	b := p.bodies[last]
	p.bodies[last] = nil
	p.bodies = p.bodies[:last]
	p.bytes -= cap(b)
	return b
}

// ops returns an empty slice, of zero values, with room for the n operations of a multi.
func (p *batchPool) ops(n int) []txn.Op {
	if n < longMulti {
		return make([]txn.Op, 0, n)
	}
	ops := p.pooledOps(n)
	if ops == nil {
		ops = make([]txn.Op, 0, n)
		rawio.Populate(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(ops))), opsBytes(ops)))
	}
	return ops
}

// pooledOps returns a slice of the pool for n operations, or nil if it has none.
func (p *batchPool) pooledOps(n int) []txn.Op {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.multis) - 1; i >= 0; i-- {
		if ops := p.multis[i]; cap(ops) >= n {
			p.multis = slices.Delete(p.multis, i, i+1)
			p.bytes -= opsBytes(ops)
			return ops
		}
	}
	return nil
}

// putOps takes the operations of the long multis of a batch to whose transactions nothing
// refers any more.
func (p *batchPool) putOps(b *batch) {
	for i := range b.txns {
		ops := b.txns[i].Multi
		if cap(ops) < longMulti {
			continue
		}
		b.txns[i].Multi = nil
		if clear(ops[:cap(ops)]); p.scrub {
			scrubOps(ops[:cap(ops)])
			continue // whatever refers to them still sees what they are
		}
		p.mu.Lock()
		if n := opsBytes(ops); n <= maxPooledBytes && p.bytes+n <= pooledBytes {
			p.multis = append(p.multis, ops[:0])
			p.bytes += n
		}
		p.mu.Unlock()
	}
}

func scrubOps(ops []txn.Op) {
	for i := range ops {
		ops[i] = txn.Op{Type: -0xdb, Path: "scrubbed"}
	}
}

func opsBytes(ops []txn.Op) int { return cap(ops) * int(unsafe.Sizeof(txn.Op{})) }

// done is called by a stage that is done with a batch. The last stage puts it back.
func (p *batchPool) done(b *batch) {
	if b.owed.Add(-1) == 0 {
		p.put(b)
	}
}

// put takes a batch to which nothing refers any more.
func (p *batchPool) put(b *batch) {
	p.putBodies(b)
	p.putOps(b)
	b.reset()
	if p.scrub {
		scrub(b.enc[:cap(b.enc)])
	}
	if cap(b.enc) >= spare.Least {
		p.encs.Put(b.enc)
		b.enc = nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if size := b.memory(); p.bytes+size <= pooledBytes {
		p.free = append(p.free, b)
		p.bytes += size
	}
}

// putBodies takes the bodies of a batch to whose requests nothing refers any more.
func (p *batchPool) putBodies(b *batch) {
	bodies := b.bodies
	if b.bodies = nil; bodies == nil {
		return
	}
	if p.scrub {
		scrub(bodies[:cap(bodies)])
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := cap(bodies); n <= maxPooledBytes && p.bytes+n <= pooledBytes {
		p.bodies = append(p.bodies, bodies[:0])
		p.bytes += n
	}
}

func scrub(b []byte) {
	for i := range b {
		b[i] = 0xdb
	}
}

// clear drops all batches.
func (p *batchPool) clear() {
	p.encs.Release()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free, p.bodies, p.multis, p.bytes = nil, nil, nil, 0
}

// ReleaseSpare releases the buffers that are kept for the next requests, up to 30 MiB
// with small ones. A server that is idle calls it. Any goroutine may call it at any time;
// buffers in use stay.
func (r *Replica) ReleaseSpare() {
	r.pool.clear()
	r.tip.spare.Store(nil)
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

// size is the number of bytes that the transactions of a prepared batch take.
func (b *batch) size() (bytes int) {
	if n := len(b.ends); n > 0 {
		return b.ends[n-1]
	}
	for i := range b.entries {
		bytes += len(b.entries[i].Data)
	}
	return bytes
}

// encode encodes the transactions, which prepare has made. A large buffer for that is of p.
func (b *batch) encode(p *batchPool) {
	const head = 128 // about: header, digest, ACL, counters
	size := 0
	for i := range b.reqs {
		if len(b.txns[i].Multi) > 0 {
			size += b.txns[i].Len() // of many short operations much longer than the request
		} else {
			size += head + len(b.reqs[i].Body)
		}
	}
	if cap(b.enc) < size {
		if b.enc = p.encs.Get(size); b.enc == nil {
			b.enc = rawio.Populated(size + size/8) // the next ones may be a little longer
		}
	}
	for i := range b.txns {
		b.enc = b.txns[i].Append(b.enc)
		b.ends = append(b.ends, len(b.enc))
	}
}
