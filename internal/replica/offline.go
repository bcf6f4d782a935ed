package replica

import (
	"errors"

	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// A State is that of a server which does not run: the tree of a snapshot, to which the
// caller applies the log after it.
type State struct {
	l        loadedSnapshot
	result   znode.Result
	compared int
}

// ReadState reads a snapshot to its end, and closes sr. What is wrong with the file is a
// *storage.Error of storage.ErrCorrupt.
func ReadState(sr *storage.SnapshotReader, zxid zk.Zxid, maxRecord int) (*State, error) {
	sr.ReadAhead()
	l, err := readSnapshot(sr, zxid, znode.Options{ExtendedTypes: true}, maxRecord)
	if err = errors.Join(err, sr.Close()); err != nil {
		return nil, err
	}
	return &State{l: l}, nil
}

// Tree returns the tree. It changes with Apply.
func (s *State) Tree() *znode.Tree { return s.l.tree }

// Digest returns what the snapshot says of the tree: its digest once the log is applied up
// to the zxid. ok is false if it says nothing.
func (s *State) Digest() (zxid zk.Zxid, digest uint64, ok bool) {
	return s.l.digestZxid, s.l.digest, s.l.hasDigest
}

// AheadUpTo returns the last transaction of which the snapshot may have effects: it is
// written while transactions are applied. While the tree is Undecided, it may have effects of
// later ones.
func (s *State) AheadUpTo() zk.Zxid { return max(s.l.zxid, s.l.newest, s.l.digestZxid) }

// Apply applies the next transaction of the log. agrees is false if the tree then has
// another digest than the log or the snapshot names.
func (s *State) Apply(tx *txn.Txn) (agrees bool) {
	s.l.tree.Apply(tx, &s.result)
	_, wrong := s.l.compareDigest(tx)
	if tx.HasDigest && (s.l.agreed || wrong) {
		s.compared++
	}
	return !wrong
}

// Undecided reports whether the tree had another digest than the log or the snapshot names when it
// was compared last, and may have effects of transactions that were not applied yet: no digest after
// its end has been compared. So it is the state of no zxid, or wrong.
func (s *State) Undecided() bool { return s.l.undecided }

// Compared returns how many digests were compared.
func (s *State) Compared() int { return s.compared }
