// Package fuzzy writes, for tests, snapshots as an Apache server writes them while it applies
// transactions.
package fuzzy

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/zk"
)

// Write writes a snapshot into a data directory that has an older one and the log after it. The
// snapshot has the name of from, and its digest block names z, which is later. The root in it is as
// it was at from, and the other znodes have the transaction after z too: Apache's server reads the
// zxid of the block while its other thread may have applied the next transaction, and has not noted
// that yet.
func Write(dataDir string, from, z zk.Zxid) (storage.Snapshot, error) {
	return write(dataDir, from, z+1, z)
}

// WriteLeaders writes a snapshot as a learner writes one that its leader has sent: the digest block names
// nothing. The snapshot has the name of from. The root in it is as it was at from, and the other znodes
// as they were at z.
func WriteLeaders(dataDir string, from, z zk.Zxid) (storage.Snapshot, error) {
	return write(dataDir, from, z, 0)
}

// write writes a snapshot with effects up to z, whose digest block names a zxid before it, or nothing.
func write(dataDir string, from, z, named zk.Zxid) (s storage.Snapshot, err error) {
	d, err := storage.Open(vfs.OS{}, storage.Options{DataDir: dataDir})
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	list, err := d.Snapshots()
	if err != nil {
		return s, err
	}
	at := slices.IndexFunc(list, func(s storage.Snapshot) bool { return s.Zxid <= from })
	if at < 0 {
		return s, fmt.Errorf("fuzzy: no snapshot before %v", from)
	}
	sr, err := d.OpenSnapshot(list[at])
	if err != nil {
		return s, err
	}
	state, err := replica.ReadState(sr, list[at].Zxid, storage.DefaultMaxEntryBytes)
	if err != nil {
		return s, err
	}
	log, err := d.ReadLog(list[at].Zxid)
	if err != nil {
		return s, err
	}
	defer log.Close() // read only
	tree := state.Tree()
	if err := applyTo(state, log, from); err != nil {
		return s, err
	}
	walk := tree.Walk()
	var body []byte
	for walk.Nodes() == 0 {
		body, _ = walk.Next(body, len(body)+1)
	}
	var digest uint64
	if named > 0 {
		if err := applyTo(state, log, named); err != nil {
			return s, err
		}
		digest = tree.Digest()
	}
	block := jute.AppendLong(jute.AppendInt(jute.AppendLong(nil, int64(named)), txn.DigestVersion), int64(digest))
	if err := applyTo(state, log, z); err != nil {
		return s, err
	}
	body, _ = walk.Next(body, math.MaxInt)
	w, err := d.CreateSnapshot(from)
	if err != nil {
		return s, err
	}
	for _, part := range [][]byte{body, block} {
		if _, err := w.Write(part); err != nil {
			return s, errors.Join(err, w.Abort())
		}
		if err := w.Seal(); err != nil {
			return s, errors.Join(err, w.Abort())
		}
	}
	return w.Snapshot(), w.Commit()
}

// applyTo applies the log up to a transaction, which it must have.
func applyTo(state *replica.State, log *storage.LogReader, z zk.Zxid) error {
	for state.Tree().LastZxid() < z {
		payload, err := log.Next()
		if err != nil {
			return err
		}
		tx, err := txn.Decode(payload)
		if err != nil {
			return err
		}
		state.Apply(&tx)
	}
	if last := state.Tree().LastZxid(); last != z {
		return fmt.Errorf("fuzzy: the log has %v after %v", last, z)
	}
	return nil
}
