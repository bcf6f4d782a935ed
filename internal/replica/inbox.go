package replica

import (
	"sync"

	"github.com/pinfold-zk/pinfold/internal/session"
	"github.com/pinfold-zk/pinfold/internal/txn"
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
}

func (b *batch) reset() {
	clear(b.reqs)
	clear(b.txns)
	b.reqs, b.bodies, b.txns, b.enc, b.ends = b.reqs[:0], b.bodies[:0], b.txns[:0], b.enc[:0], b.ends[:0]
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

// encoded is the encoding of transaction i.
func (b *batch) encoded(i int) []byte {
	start := 0
	if i > 0 {
		start = b.ends[i-1]
	}
	return b.enc[start:b.ends[i]]
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
		batch   *batch
		resumes []resume
		calls   []call
	}
}

func (x *inbox) init(pool batchPool) {
	x.pool = pool
	x.wake = make(chan struct{}, 1)
}

func (x *inbox) put(reqs []Request) {
	x.mu.Lock()
	if x.mu.batch == nil {
		x.mu.batch = x.pool.get()
	}
	for i := range reqs {
		x.mu.batch.add(&reqs[i])
	}
	x.mu.Unlock()
	x.signal()
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

func (x *inbox) signal() {
	select {
	case x.wake <- struct{}{}:
	default:
	}
}

// take returns all that there is; the batch is nil if there are no requests.
func (x *inbox) take() (b *batch, resumes []resume, calls []call) {
	x.mu.Lock()
	b, resumes, calls = x.mu.batch, x.mu.resumes, x.mu.calls
	x.mu.batch, x.mu.resumes, x.mu.calls = nil, nil, nil
	x.mu.Unlock()
	return b, resumes, calls
}
