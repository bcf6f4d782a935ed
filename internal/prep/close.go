package prep

import (
	"slices"

	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// closeSession deletes the session's ephemerals, including those whose creation is
// outstanding. The transaction lists them if the list fits into a transaction. Without the
// list (and without a digest, which a server could take for it) every server deletes all
// ephemerals that its tree has of the session: the same znodes.
func (p *Preparer) closeSession(req *Request, tx *txn.Txn) zk.Code {
	if code := p.closeCheck(req); code != zk.OK {
		return code
	}
	p.sessions.MarkClosing(req.Session)
	tx.Op = txn.Op{Type: wire.OpCloseSession, PathsListed: p.cfg.ListClosedPaths}
	paths, fits := p.ephemerals(req.Session)
	if !fits {
		tx.Op.PathsListed, tx.HasDigest = false, false
		p.closeAll(req.Session, &tx.Header)
	}
	if p.cfg.ListClosedPaths && fits {
		tx.Op.Paths = paths
	}
	for _, path := range paths {
		p.did(opWork)
		if c, ok := p.get(path); ok {
			p.removeChange(&tx.Header, path, c)
		}
	}
	return zk.OK
}

// ephemerals returns the paths of the projected ephemerals of session, sorted. If a
// transaction cannot list them all, fits is false and paths need only contain those whose
// creation is outstanding.
func (p *Preparer) ephemerals(session zk.SessionID) (paths []string, fits bool) {
	bytes := p.overhead() + 4
	for id := range p.tree.EphemeralIDs(session) {
		p.did(1)
		path := p.tree.Path(id)
		if c, changed := p.out.changes[path]; changed && !c.isEphemeralOf(session) {
			continue
		}
		if bytes += 4 + len(path); p.exceeds(bytes) {
			return p.creations(session, nil), false
		}
		paths = append(paths, path)
	}
	paths = p.creations(session, paths)
	if len(paths) >= longACL {
		p.away(func() { slices.Sort(paths) })
	}
	slices.Sort(paths)
	paths = slices.Compact(paths) // one may be in the tree and be created again
	op := txn.Op{Type: wire.OpCloseSession, PathsListed: p.cfg.ListClosedPaths, Paths: paths}
	return paths, !p.tooLarge(&op)
}

// creations appends the paths of the ephemerals of session whose creation is outstanding.
// It walks the outstanding changes only if the session has such ephemerals: when many
// sessions expire at once there are many changes, and none of theirs.
func (p *Preparer) creations(session zk.SessionID, paths []string) []string {
	if p.out.creating[session] == 0 {
		return paths
	}
	for i := range p.out.order {
		ref := &p.out.order[i]
		if c := p.out.changes[ref.path]; ref.creator == session && c.isEphemeralOf(session) {
			paths = append(paths, ref.path)
		}
	}
	return paths
}

// closeAll projects the deletion of all ephemerals that the tree has of session, without
// a change for each of them: there can be a million. Until the transaction is applied get
// does not find them.
func (p *Preparer) closeAll(session zk.SessionID, h *txn.Header) {
	parents := map[znode.ID]int{}
	var buf []byte
	for id := range p.tree.EphemeralIDs(session) {
		p.did(2)
		buf = p.tree.AppendPath(buf[:0], id)
		if c, changed := p.out.changes[string(buf)]; changed {
			if path := string(buf); c.isEphemeralOf(session) {
				p.removeChange(h, path, c)
			}
			continue
		}
		if p.cfg.DigestEnabled && znode.InDigest(string(buf)) {
			mode := p.tree.Mode(id)
			p.digest -= uint64(mode.Digest(p.tree.Sum(id), &p.scratch))
		}
		parents[p.tree.Parent(id)]++
	}
	for id, gone := range parents { // they exist: the ephemerals are their children
		p.did(opWork)
		path := p.tree.Path(id)
		if parent, ok := p.get(path); ok {
			changed := parent
			changed.kids -= gone
			changed.mode.Pzxid = max(changed.mode.Pzxid, h.Zxid)
			p.put(h, path, &parent, changed)
		}
	}
	p.out.closing[session] = h.Zxid
}

// isEphemeralOf reports whether the znode will be an ephemeral of session.
func (c *change) isEphemeralOf(session zk.SessionID) bool {
	return !c.gone && c.mode.Owner == int64(session)
}
