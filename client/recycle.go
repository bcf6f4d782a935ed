package client

import (
	"bytes"
	"sync"
)

// recycled is memory that the Client's users have given back, and that its reader
// puts data into. Its bytes are bounded by twice keepRecycled.
type recycled struct {
	mu    sync.Mutex // guards what follows
	free  [][]byte
	bytes int // of free

	stock [][]byte // the reader's; the Client's mu guards it
}

// How many bytes are kept, and those of the largest piece.
const (
	keepRecycled    = 1 << 20
	largestRecycled = 64 << 10
)

// Recycle gives back the data of a read, once, when nobody uses it any more: data of
// about the same size that comes later is put there. Whoever still has a part of it
// will see that change. Nothing has to be given back, and any memory may be. It is
// for programs that read so much that the garbage collector is most of what a read
// costs. The Client keeps at most 2 MiB, and nothing while it is idle.
func (c *Client) Recycle(data []byte) {
	n := cap(data)
	if n == 0 || n > largestRecycled {
		return
	}
	r := &c.recycled
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bytes+n <= keepRecycled {
		r.free = append(r.free, data[:0])
		r.bytes += n
	}
}

// restock gives the reader what has been given back, if it has nothing left. The
// Client's mu is held, as for clone and forget.
func (r *recycled) restock() {
	if len(r.stock) > 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stock, r.free, r.bytes = r.free, r.stock, 0
}

// clone returns a copy of b in memory of its own, at most four times as large. Null
// stays nil.
func (r *recycled) clone(b []byte) []byte {
	n := len(r.stock) - 1
	if n < 0 || len(b) == 0 {
		return bytes.Clone(b)
	}
	m := r.stock[n]
	r.stock[n] = nil
	r.stock = r.stock[:n]
	if len(b) > cap(m) || len(b) < cap(m)/4 {
		return bytes.Clone(b)
	}
	return append(m, b...)
}

// forget gives the memory back to the garbage collector.
func (r *recycled) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.free, r.stock, r.bytes = nil, nil, 0
}
