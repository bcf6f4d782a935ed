package zab

import (
	"math/rand/v2"
	"testing"

	"github.com/pinfold-zk/pinfold/zk"
)

// A queue against a slice; and it keeps nothing of what was taken out, which
// would hold transactions for ever.
func TestQueue(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var q queue[*int]
	var model []*int
	grow := 3
	for range 20000 {
		switch rng.IntN(40) {
		case 0:
			n := rng.IntN(len(model) + 1)
			q.cut(n)
			model = model[:n]
		case 1:
			grow = rng.IntN(8)
		}
		for range rng.IntN(grow + 1) {
			v := new(int)
			q.push(v)
			model = append(model, v)
		}
		n := min(rng.IntN(8), len(model))
		q.drop(n)
		model = model[n:]
		want(t, "length", q.len(), len(model))
		for i, v := range model {
			if *q.at(i) != v || q.all()[i] != v {
				t.Fatalf("place %d is not what was put there", i)
			}
		}
		live := 0
		for _, v := range q.list[:cap(q.list)] {
			if v != nil {
				live++
			}
		}
		want(t, "kept", live, len(model))
		if q.head > queueSlack && 2*q.head > len(q.list)+2*queueSlack {
			t.Fatalf("%d places in front of %d", q.head, len(q.list))
		}
	}
	for range 2 * queueSpare {
		q.push(new(int))
	}
	q.drop(q.len())
	want(t, "memory of an empty queue", cap(q.list), 0)
}

// The window keeps so many transactions, and so many bytes, but never less than
// what is not applied.
func TestWindowIsBounded(t *testing.T) {
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
	w.trim(4, zk.MakeZxid(1, 3))
	want(t, "left with 3 applied", w.len(), 7)
	w.trim(4, z)
	want(t, "left", w.len(), 4)
	want(t, "before it", w.base, zk.MakeZxid(1, 6))
	add(3, maxWindowBytes/2)
	w.trim(100, z)
	want(t, "left of large ones", w.len(), 2)
	add(1, 2*maxWindowBytes)
	w.trim(100, z-1)
	want(t, "left, one is not applied", w.len(), 1)
	w.trim(100, z)
	want(t, "the last one stays", w.len(), 1)
	w.truncate(z - 1)
	want(t, "left", w.len(), 0)
	want(t, "bytes", w.bytes, 0)
}
