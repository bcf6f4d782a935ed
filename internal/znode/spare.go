package znode

// A client that has sent a long multi has probably another one. What that needs, pages of new memory above all, can be made before
// it comes, and without the tree: Needs tells what the last one needed, NewSpare makes it on any goroutine, and Accept gives it to
// the tree. BeginMulti makes what is not there when the multi comes.

// newMemory is for how many new znodes, with how many bytes of slots, makeReady was called last.
type newMemory struct{ nodes, bytes int }

// Needs is the memory for a long multi, as far as none is ready.
type Needs struct {
	nodes, slots int // blocks
	parts        []sparePart
}

// sparePart is the next size of a part of the index.
type sparePart struct {
	part, size int
	entries    []indexEntry // nil before NewSpare
}

// Needs returns what the next long multi will need if it is like the last one, and the next sizes of parts of the index that eight
// like it may fill: all parts grow at about the same time. REQUIRES: the caller is the caller of Apply.
func (t *Tree) Needs() Needs { return t.needs(8, 100*t.made.nodes) }

// needs returns what one multi like the last one needs, and parts of the index that so many like it may fill, of about most entries
// together. The parts must not grow at the same time under the tree's lock, which would take long.
func (t *Tree) needs(multis, most int) (n Needs) {
	n.nodes = (max(0, t.nodes.missing(t.made.nodes)) + nodesPerBlock - 1) / nodesPerBlock
	n.slots = (max(0, t.made.bytes-blockSize*len(t.arena.ready)) + blockSize - 1) / blockSize
	for i := 0; i < len(t.index.parts) && most > 0; i++ {
		if p := &t.index.parts[i]; p.growsWith(multis * t.index.share(t.made.nodes)) {
			n.parts = append(n.parts, sparePart{part: i, size: 2 * len(p.entries)})
			most -= 2 * len(p.entries)
		}
	}
	return n
}

// None reports whether nothing is needed.
func (n *Needs) None() bool { return n.nodes+n.slots+len(n.parts) == 0 }

// Spare is memory for a tree. Its maker owns it until Accept.
type Spare struct {
	nodes []*[nodesPerBlock]node
	slots [][]byte
	parts []sparePart
}

// NewSpare makes the memory, and calls populate for each piece of it, as a tree calls Options.Populate; nil: it does not.
func NewSpare(n Needs, populate func(b []byte)) *Spare {
	s, nodes, slots := new(Spare), nodeTable{populate: populate}, arena{populate: populate}
	for range n.nodes {
		s.nodes = append(s.nodes, nodes.newBlock(true))
	}
	for range n.slots {
		s.slots = append(s.slots, slots.newBlock(blockSize, true))
	}
	for _, p := range n.parts {
		p.entries = newEntries(p.size, populate)
		s.parts = append(s.parts, p)
	}
	return s
}

// Accept gives the tree memory for its next znodes. It needs no lock. REQUIRES: the caller is the caller of Apply.
func (t *Tree) Accept(s *Spare) {
	t.nodes.ready = append(t.nodes.ready, s.nodes...)
	t.arena.ready = append(t.arena.ready, s.slots...)
	for _, spare := range s.parts {
		if p := &t.index.parts[spare.part]; p.next == nil && 2*len(p.entries) == spare.size { // it may be another tree
			p.next = spare.entries
		}
	}
}
