package replica

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// stream sends a range of the log, or the tree.
func (o *orderer) stream(s *zab.Send) {
	o.follow(s.Link)
	if s.Kind == zab.SendSnapshot {
		o.net.Stream(s.Link, o.streamTree)
		return
	}
	after, upto := s.After, s.Upto // s is the core's again before the stream begins
	o.net.Stream(s.Link, func(w io.Writer) error { return o.streamLog(w, after, upto) })
}

// follow makes noteProgress look at a link.
func (o *orderer) follow(l zab.LinkID) {
	if o.progress == nil {
		o.progress = map[zab.LinkID]uint64{}
	}
	o.progress[l] = 0
}

// streamPiece is how much of the log is written to a link at once.
const streamPiece = 64 << 10

// streamLog writes the transactions after one zxid up to another, which are
// committed, as PROPOSAL and COMMIT.
func (r *Replica) streamLog(w io.Writer, after, upto zk.Zxid) error {
	entries, err := r.o.Dir.ReadRange(after, upto)
	if err != nil {
		return err
	}
	defer entries.Close() // it was read only
	var b []byte
	for {
		z, payload, err := entries.Next()
		if err != nil && err != io.EOF {
			return err
		}
		if err == io.EOF || len(b) >= streamPiece {
			if _, err := w.Write(b); err != nil {
				return err
			}
			b = b[:0]
		}
		if err == io.EOF {
			return nil
		}
		b = r.net.AppendPacket(b, zab.Packet{Type: zab.Proposal, Zxid: z, Data: payload})
		b = r.net.AppendPacket(b, zab.Packet{Type: zab.Commit, Zxid: z})
	}
}

// streamEnd follows a snapshot on a link: a string, as Apache writes it.
const streamEnd = "\x00\x00\x00\x0aBenWasHere"

// streamTree writes the tree to a link while transactions are applied to it. A tree that is known to be wrong, or that
// another one replaces meanwhile, is not sent to its end.
func (r *Replica) streamTree(w io.Writer) error {
	since := r.lockRead()
	tree := r.tree
	walk, b := tree.Walk(), []byte(nil)
	r.unlockRead(since)
	for done := false; !done; b = b[:0] {
		since := r.lockRead()
		b, done = walk.Next(b, snapshotPiece)
		r.unlockRead(since)
		if _, err := w.Write(b); err != nil {
			return err
		}
		switch {
		case r.Stopping():
			return errStopping
		case !r.trusts(tree):
			return fmt.Errorf("replica: no learner gets this tree: %w", ErrDiverged)
		}
	}
	_, err := io.WriteString(w, streamEnd)
	return err
}

// trusts reports whether tree is still this server's, and not known to be wrong. One that was wrong and has been replaced
// is neither.
func (r *Replica) trusts(tree *znode.Tree) bool {
	since := r.lockRead()
	defer r.unlockRead(since)
	return r.tree == tree && !r.diverged.Load()
}

// Snapshot reads the body of the leader's snapshot, which is at zxid z, and not
// a byte more. It is called before the packet SNAP is told by Packets. The
// second one of a link is an error.
func (r *Replica) Snapshot(l zab.LinkID, z zk.Zxid, src SnapshotSource) error {
	if !r.incomingTrees.expect(l) {
		return fmt.Errorf("replica: the leader's snapshot at %v: it has sent one before: is it a leader?", z)
	}
	loader := znode.NewLoader(r.o.Tree)
	if r.o.MemoryLeft != nil {
		src = &measuredTree{SnapshotSource: src, left: r.o.MemoryLeft}
	}
	if err := loadBody(loader, src, r.o.MaxRecordBytes); err != nil {
		return fmt.Errorf("replica: the leader's snapshot at %v: %w", z, err)
	}
	r.incomingTrees.put(l, loader.Tree(z))
	return nil
}

// measuredTree is a tree that arrives, while the memory has room for it. Its length is not told
// before its end, so a leader that is none could send one without an end.
type measuredTree struct {
	SnapshotSource
	left           func() int64
	received, next int64 // bytes; those after which the memory is looked at again
}

// lookAtMemory is how many bytes of a tree arrive between two looks at the memory. They become
// several times as much in the tree, if the znodes are small.
const lookAtMemory = 4 << 20

// errNoMemory tells that a leader's tree does not fit.
var errNoMemory = errors.New("it does not fit into this machine's memory, or that of the process's control group")

func (m *measuredTree) Discard(n int) {
	m.received += int64(n)
	m.SnapshotSource.Discard(n)
}

func (m *measuredTree) Fill(n int) ([]byte, error) {
	if m.received >= m.next {
		m.next = m.received + lookAtMemory
		if left := m.left(); left <= 0 {
			return nil, fmt.Errorf("%w: %d MiB of it have arrived", errNoMemory, m.received>>20)
		}
	}
	return m.SnapshotSource.Fill(n)
}

// incomingTrees holds the trees that were received over links and are not installed yet.
type incomingTrees struct {
	mu struct {
		sync.Mutex
		trees map[zab.LinkID]*znode.Tree // of links that are there; nil: it is being received, or was taken
	}
}

// expect notes that a tree arrives on a link. It reports false if it is not the link's first one: that
// may not be installed yet, and is the only one that the core asks for.
func (t *incomingTrees) expect(l zab.LinkID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, before := t.mu.trees[l]; before {
		return false
	}
	if t.mu.trees == nil {
		t.mu.trees = map[zab.LinkID]*znode.Tree{}
	}
	t.mu.trees[l] = nil
	return true
}

// put stores the tree of a link, after expect.
func (t *incomingTrees) put(l zab.LinkID, tree *znode.Tree) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.trees[l] = tree
}

// take takes the tree of a link, nil if there is none.
func (t *incomingTrees) take(l zab.LinkID) *znode.Tree {
	t.mu.Lock()
	defer t.mu.Unlock()
	tree := t.mu.trees[l]
	if tree != nil {
		t.mu.trees[l] = nil
	}
	return tree
}

// peek returns the tree of a link, nil if there is none. The link's goroutine, which has put it, may read it until
// it has told Order of SNAP.
func (t *incomingTrees) peek(l zab.LinkID) *znode.Tree {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.trees[l]
}

// remove forgets a link that is lost.
func (t *incomingTrees) remove(l zab.LinkID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.mu.trees, l)
}
