package fifo

import (
	"math/rand/v2"
	"testing"
)

// A queue against a slice; and it keeps nothing of what was taken out, which
// would hold transactions for ever.
func TestQueue(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var q Queue[*int]
	var model []*int
	grow := 3
	for range 20000 {
		switch rng.IntN(40) {
		case 0:
			n := rng.IntN(len(model) + 1)
			q.Cut(n)
			model = model[:n]
		case 1:
			grow = rng.IntN(8)
		}
		for range rng.IntN(grow + 1) {
			v := new(int)
			q.Push(v)
			model = append(model, v)
		}
		n := min(rng.IntN(8), len(model))
		q.Drop(n)
		model = model[n:]
		if q.Len() != len(model) {
			t.Fatalf("%d values, want %d", q.Len(), len(model))
		}
		for i, v := range model {
			if *q.At(i) != v || q.All()[i] != v {
				t.Fatalf("place %d is not what was put there", i)
			}
		}
		live := 0
		for _, v := range q.list[:cap(q.list)] {
			if v != nil {
				live++
			}
		}
		if live != len(model) {
			t.Fatalf("%d values are kept, %d are there", live, len(model))
		}
		if q.head > slack && 2*q.head > len(q.list)+2*slack {
			t.Fatalf("%d places in front of %d", q.head, len(q.list))
		}
	}
	for range 2 * spare / 8 {
		q.Push(new(int))
	}
	q.Drop(q.Len())
	if q.Places() != 0 {
		t.Errorf("an empty queue keeps %d places", q.Places())
	}
}
