package replica

import (
	"slices"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/pipeline"
	"github.com/pinfold-zk/pinfold/internal/prep"
	"github.com/pinfold-zk/pinfold/internal/spare"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// TestReleaseSpare: what was released is garbage, and what comes then works.
func TestReleaseSpare(t *testing.T) {
	r := &Replica{pool: newBatchPool(false)}
	const most = pooledBytes / maxPooledBytes
	for range most + 1 {
		r.pool.put(&batch{bodies: make([]byte, 0, maxPooledBytes), enc: make([]byte, 0, maxPooledBytes)})
	}
	r.pool.put(&batch{bodies: make([]byte, 0, maxPooledBytes+1), enc: make([]byte, 0, pooledBytes)})
	if n, bodies := r.pool.encs.Bytes(), len(r.pool.bodies); n == 0 || n > pooledBytes/2 || bodies != most {
		t.Fatalf("%d bytes of buffers for encodings and %d buffers of bodies are kept", n, bodies)
	}
	before := r.pool.bytes
	if b := r.pool.room(); cap(b) != maxPooledBytes || r.pool.bytes != before-maxPooledBytes {
		t.Errorf("a buffer of %d bytes, %d bytes are kept", cap(b), r.pool.bytes)
	}
	r.ReleaseSpare()
	if len(r.pool.free)+len(r.pool.bodies)+r.pool.encs.Bytes()+r.pool.bytes != 0 || r.pool.get() == nil || r.pool.room() != nil {
		t.Errorf("%d batches are kept after ReleaseSpare", len(r.pool.free))
	}
}

// A batch of which only the encodings are in use keeps nothing else: neither the
// operations of its multis nor its requests. It still knows its last zxid.
func TestTrimmedBatchKeepsTheEncodings(t *testing.T) {
	b := new(batch)
	for z := range zk.Zxid(3) {
		b.reqs = append(b.reqs, Request{Weight: 1})
		b.txns = append(b.txns, txn.Txn{Header: txn.Header{Zxid: 1 + z}, Multi: make([]txn.Op, 1000)})
		b.enc = append(b.enc, 'x')
	}
	b.trim()
	for i, tx := range b.txns[:3] {
		if tx.Multi != nil || b.reqs[:3][i].Weight != 0 {
			t.Errorf("transaction %d keeps %d operations", i, len(tx.Multi))
		}
	}
	if len(b.enc) != 3 || b.last() != 3 {
		t.Errorf("%d bytes of encodings, last zxid %v", len(b.enc), b.last())
	}
	if b.trim(); b.last() != 3 {
		t.Errorf("the last zxid is %v after a second trim", b.last())
	}
}

// A buffer for encodings is about as large as they are, of a multi of many short operations, too, and large ones are used
// again: what the Zab core keeps of a few transactions is not what many have needed.
func TestEncodingsHaveRoom(t *testing.T) {
	p := newBatchPool(false)
	encode := func(bytes int) *batch {
		b := p.get()
		b.reqs = append(b.reqs, Request{Request: prep.Request{Body: make([]byte, bytes)}}, Request{})
		b.txns = append(b.txns,
			txn.Txn{Header: txn.Header{Type: wire.OpSetData}, Op: txn.Op{Type: wire.OpSetData, Path: "/a", Data: b.reqs[0].Body}},
			txn.Txn{Header: txn.Header{Type: wire.OpMulti}})
		for range bytes / 20 {
			b.txns[1].Multi = append(b.txns[1].Multi, txn.Op{Type: wire.OpDelete, Path: "/a"})
		}
		b.encode(p)
		if n := len(b.enc); n < 3*bytes/2 || cap(b.enc) > 2*n+spare.Least || cap(b.enc) < n {
			t.Errorf("a buffer of %d bytes for %d", cap(b.enc), n)
		}
		return b
	}
	var batches []*batch
	for _, n := range []int{1 << 20, 200, spare.Least, 300 << 10} {
		batches = append(batches, encode(n))
	}
	for _, b := range batches {
		p.put(b)
	}
	kept := p.encs.Bytes()
	again := encode(300 << 10)
	if p.encs.Bytes() != kept-cap(again.enc) {
		t.Errorf("%d bytes are kept, %d before, and a buffer of %d was given", p.encs.Bytes(), kept, cap(again.enc))
	}
}

// The operations of a long multi are used again for another one that has no more of them, once no stage
// refers to the transaction. They are zero values then.
func TestOperationsOfLongMultisAreKept(t *testing.T) {
	p := newBatchPool(false)
	ops := append(p.ops(1000), txn.Op{Path: "/a"}, txn.Op{Path: "/b"})
	b := &batch{txns: []txn.Txn{{Multi: p.ops(longMulti - 1)}, {Multi: ops[:1]}}}
	p.put(b)
	if len(p.multis) != 1 || p.bytes != opsBytes(ops)+b.memory() {
		t.Fatalf("%d slices are kept, %d bytes", len(p.multis), p.bytes)
	}
	if larger := p.ops(cap(ops) + 1); len(p.multis) != 1 || cap(larger) <= cap(ops) {
		t.Errorf("a slice for %d operations was used for %d", cap(ops), cap(larger))
	}
	again := p.ops(longMulti)
	if len(again) != 0 || cap(again) != cap(ops) || again[:2][0].Path+again[:2][1].Path != "" {
		t.Errorf("%d of %d operations, %v", len(again), cap(again), again[:2])
	}
	if p.bytes != b.memory() {
		t.Errorf("%d bytes are kept", p.bytes)
	}
	p.put(&batch{txns: []txn.Txn{{Multi: make([]txn.Op, maxPooledBytes/100)}}})
	if len(p.multis) != 0 {
		t.Error("a slice of more than maxPooledBytes is kept")
	}
}

// A step with a long multi is left to the Applier, whatever else it has: another worker would read no link meanwhile.
func TestLongMultiIsLeftToTheApplier(t *testing.T) {
	small := txn.Txn{Header: txn.Header{Type: wire.OpMulti}, Multi: make([]txn.Op, 10)}
	long := txn.Txn{Header: txn.Header{Type: wire.OpMulti}, Multi: make([]txn.Op, znode.PieceUnits)}
	b := &batch{txns: append(slices.Repeat([]txn.Txn{small}, 2*pipeline.SmallBatch), long, small)}
	n := len(b.txns)
	for _, c := range []struct {
		start, end int
		others     bool // workers may apply it
	}{
		{0, 0, true}, {0, pipeline.SmallBatch, true}, {0, pipeline.SmallBatch + 1, false},
		{n - 3, n - 2, true}, {n - 3, n - 1, false}, {n - 2, n - 1, false}, {n - 2, n, false}, {n - 1, n, true}, {0, n, false},
	} {
		p := pipe{machine: pipeline.New(nil)}
		p.put(&Turn{steps: []step{{b: b, start: c.start, end: c.end}}})
		turn := pipeline.Turn{Worker: pipeline.Caller}
		p.machine.Next(&turn, 0)
		if got := turn.Stage == pipeline.Apply; got != c.others {
			t.Errorf("transactions %d to %d: a caller applies them is %v, want %v", c.start, c.end, got, c.others)
		}
	}
}
