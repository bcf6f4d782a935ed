package zab

import (
	"testing"

	"github.com/pinfold-zk/pinfold/zk"
)

// The window keeps so many transactions, and so many bytes, but never less than
// what is not applied.
func TestWindowIsBounded(t *testing.T) {
	const most = 1 << 20
	var w window
	w.reset(nil, zk.MakeZxid(1, 0))
	z := zk.MakeZxid(1, 0)
	add := func(n, bytes int) {
		for range n {
			z++
			w.add(Entry{z, make([]byte, bytes)})
		}
	}
	add(10, 1)
	w.trim(4, most, zk.MakeZxid(1, 3))
	want(t, "left with 3 applied", w.Len(), 7)
	w.trim(4, most, z)
	want(t, "left", w.Len(), 4)
	want(t, "before it", w.base, zk.MakeZxid(1, 6))
	add(3, most/2)
	w.trim(100, most, z)
	want(t, "left of large ones", w.Len(), 2)
	add(1, 2*most)
	w.trim(100, most, z-1)
	want(t, "left, one is not applied", w.Len(), 1)
	w.trim(100, most, z)
	want(t, "the last one stays", w.Len(), 1)
	w.truncate(z - 1)
	want(t, "left", w.Len(), 0)
	want(t, "bytes", w.bytes, 0)
}
