package replica

import (
	"testing"

	"github.com/pinfold-zk/pinfold/internal/prep"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/zk"
)

// TestReleaseSpare: what was released is garbage, and what comes then works.
func TestReleaseSpare(t *testing.T) {
	r := &Replica{pool: new(batchPool)}
	for range pooledBytes/maxPooledBytes/2 + 1 {
		r.pool.put(&batch{bodies: make([]byte, 0, maxPooledBytes), enc: make([]byte, 0, maxPooledBytes)})
	}
	r.pool.put(&batch{bodies: make([]byte, 0, maxPooledBytes+1), enc: make([]byte, 0, maxPooledBytes+1)})
	if n, bodies := len(r.pool.encs), len(r.pool.bodies); n != pooledBytes/maxPooledBytes/2 || bodies != n {
		t.Fatalf("%d buffers of encodings and %d of bodies are kept", n, bodies)
	}
	if r.pool.enc(maxPooledBytes); r.pool.bytes != pooledBytes-maxPooledBytes {
		t.Errorf("%d bytes are kept", r.pool.bytes)
	}
	if b := r.pool.room(); cap(b) != maxPooledBytes || r.pool.bytes != pooledBytes-2*maxPooledBytes {
		t.Errorf("a buffer of %d bytes, %d bytes are kept", cap(b), r.pool.bytes)
	}
	r.ReleaseSpare()
	if len(r.pool.free)+len(r.pool.encs)+len(r.pool.bodies) != 0 || r.pool.bytes != 0 || r.pool.get() == nil || r.pool.room() != nil {
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

// A batch gets the smallest large buffer in which its encodings have room, and none that is twice as large: what the Zab
// core keeps of a few transactions is not what many have needed.
func TestLargeEncodingsFit(t *testing.T) {
	p := new(batchPool)
	encode := func(bytes int) *batch {
		b := p.get()
		b.reqs = append(b.reqs, Request{Request: prep.Request{Body: make([]byte, bytes)}})
		b.encode(p)
		if cap(b.enc) < bytes || cap(b.enc) > 2*bytes+largeEnc {
			t.Errorf("a buffer of %d bytes for %d", cap(b.enc), bytes)
		}
		return b
	}
	sizes := []int{4 << 20, 200, largeEnc, 1 << 20, 2 << 20}
	var batches []*batch
	for _, n := range sizes {
		batches = append(batches, encode(n))
	}
	for _, b := range batches {
		p.put(b)
	}
	if len(p.encs) != 4 || len(p.free) != len(sizes) {
		t.Fatalf("%d large buffers and %d batches are kept", len(p.encs), len(p.free))
	}
	kept := p.bytes
	for i, n := range sizes {
		batches[i] = encode(n)
	}
	if len(p.encs) != 0 {
		t.Errorf("%d large buffers were not used again", len(p.encs))
	}
	for _, b := range batches {
		p.put(b)
	}
	if p.bytes != kept {
		t.Errorf("%d bytes are kept, %d before", p.bytes, kept)
	}
}

// The operations of a long multi are used again for another one that has no more of them, once no stage
// refers to the transaction. They are zero values then.
func TestOperationsOfLongMultisAreKept(t *testing.T) {
	p := new(batchPool)
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
