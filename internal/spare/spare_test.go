package spare

import "testing"

func buffer(n int) []byte { return make([]byte, 0, n) }

// The smallest buffer with enough room is used again, and none that is more than twice as large.
func TestGetFits(t *testing.T) {
	b := Buffers{Most: 32 << 20}
	for _, n := range []int{1 << 20, 4 << 20, 2 << 20, Least, Least - 1} {
		b.Put(append(buffer(n), "old"...))
	}
	kept := 7<<20 + Least
	for _, c := range []struct{ ask, get int }{
		{1, 0}, {Least / 4, 0}, {Least - 1, Least}, {Least, 0}, // the only one was taken
		{512<<10 - 1, 0}, {600 << 10, 1 << 20}, {1<<20 + 1, 2 << 20}, {4 << 20, 4 << 20}, {4 << 20, 0},
	} {
		got := b.Get(c.ask)
		if cap(got) != c.get || len(got) != 0 {
			t.Errorf("for %d bytes: a buffer of %d with %d in it, want one of %d", c.ask, cap(got), len(got), c.get)
		}
		if kept -= c.get; b.Bytes() != kept {
			t.Errorf("%d bytes are kept, want %d", b.Bytes(), kept)
		}
	}
}

// The buffers that were put first are dropped when there are too many bytes.
func TestOldBuffersAreDropped(t *testing.T) {
	const mb = 1 << 20
	b := Buffers{Most: 4 * mb}
	b.Put(buffer(5 * mb))
	for _, n := range []int{2 * mb, mb, 3 * mb / 2} {
		b.Put(buffer(n))
	}
	if b.Bytes() != 5*mb/2 || b.Get(2*mb) != nil {
		t.Errorf("%d bytes are kept", b.Bytes())
	}
	b.Put(buffer(4 * mb))
	if b.Bytes() != 4*mb || b.Get(4*mb) == nil || b.Bytes() != 0 {
		t.Errorf("%d bytes are kept after the largest buffer", b.Bytes())
	}
	b.Put(buffer(mb))
	if b.Release(); b.Bytes() != 0 || b.Get(mb) != nil {
		t.Errorf("%d bytes are kept after Release", b.Bytes())
	}
	var none Buffers
	if none.Put(buffer(mb)); none.Bytes() != 0 {
		t.Error("the zero value keeps a buffer")
	}
}
