package replica

import "testing"

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
