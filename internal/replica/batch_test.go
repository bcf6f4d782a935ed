package replica

import (
	"testing"

	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/zk"
)

// TestReleaseSpare: what was released is garbage, and what comes then works.
func TestReleaseSpare(t *testing.T) {
	r := &Replica{pool: new(batchPool)}
	for range pooledBytes/maxPooledBytes + 1 {
		r.pool.put(&batch{bodies: make([]byte, 0, maxPooledBytes)})
	}
	r.pool.put(&batch{bodies: make([]byte, 0, maxPooledBytes+1)})
	if n := len(r.pool.free); n != pooledBytes/maxPooledBytes {
		t.Fatalf("%d batches are kept", n)
	}
	if r.pool.get(); r.pool.bytes != pooledBytes-maxPooledBytes {
		t.Errorf("%d bytes are kept", r.pool.bytes)
	}
	r.ReleaseSpare()
	if len(r.pool.free) != 0 || r.pool.bytes != 0 || r.pool.get() == nil {
		t.Errorf("%d batches are kept after ReleaseSpare", len(r.pool.free))
	}
}

// A batch of which only the encodings are in use keeps nothing else: neither the
// operations of its multis nor large bodies of requests. It still knows its last zxid.
func TestTrimmedBatchKeepsTheEncodings(t *testing.T) {
	b := &batch{bodies: make([]byte, keptBodies+1)}
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
	if len(b.enc) != 3 || b.bodies != nil || b.last() != 3 {
		t.Errorf("%d bytes of encodings, %d of bodies, last zxid %v", len(b.enc), cap(b.bodies), b.last())
	}
	if b.trim(); b.last() != 3 {
		t.Errorf("the last zxid is %v after a second trim", b.last())
	}
}
