package client

import (
	"bytes"
	"sync"
)

// lent owns the memory of data that is passed to callbacks. After the callback has
// returned, the reader reuses the memory for later data: collecting a KiB of garbage for
// each read would be most of the cost of the read. Free memory is bounded by twice
// keepLent.
type lent struct {
	mu    sync.Mutex // guards what follows
	free  [][]byte
	bytes int // of free

	stock [][]byte // the reader's; the Client's mu guards it
}

// How many bytes are kept, and those of the largest piece.
const (
	keepLent    = 1 << 20
	largestLent = 64 << 10
)

// giveBack takes the data of results whose callbacks have run.
func (m *lent) giveBack(list completions) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range list {
		b := list[i].result.data
		if spoilLent {
			spoil(b)
		}
		if n := cap(b); n > 0 && n <= largestLent && m.bytes+n <= keepLent {
			m.free = append(m.free, b[:0])
			m.bytes += n
		}
	}
}

// spoil overwrites b, so that a caller that still reads it notices.
func spoil(b []byte) {
	for i := range b {
		b[i] = 0xdb
	}
}

// restock gives the reader what has been given back, if it has nothing left. The
// Client's mu is held, as for clone and forget.
func (m *lent) restock() {
	if len(m.stock) > 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stock, m.free, m.bytes = m.free, m.stock, 0
}

// clone returns a copy of b in memory of its own, at most four times as large. Null
// stays nil.
func (m *lent) clone(b []byte) []byte {
	n := len(m.stock) - 1
	if n < 0 || len(b) == 0 {
		return bytes.Clone(b)
	}
	piece := m.stock[n]
	m.stock[n] = nil
	m.stock = m.stock[:n]
	if len(b) > cap(piece) || len(b) < cap(piece)/4 {
		return bytes.Clone(b)
	}
	return append(piece, b...)
}

// forget gives the memory back to the garbage collector.
func (m *lent) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.free, m.stock, m.bytes = nil, nil, 0
}
