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
		return zk.OK
	}
	if p.cfg.ListClosedPaths {
		tx.Op.Paths = paths
	}
	p.endEphemerals(&tx.Header, paths)
	return zk.OK
}

// endEphemerals projects the deletion of ephemerals, whose paths are sorted, as the tree is going to
// do it: the lowest first. One that has other children remains, and so does a system znode. No
// preparation makes such an ephemeral; a program that was elected leader in a member's name can.
func (p *Preparer) endEphemerals(h *txn.Header, paths []string) {
	for _, path := range slices.Backward(paths) {
		p.did(opWork)
		if c, ok := p.get(path); ok && c.kids == 0 && !znode.IsSystem(path) {
			p.removeChange(h, path, c)
		}
	}
}

// ephemerals returns the paths of the projected ephemerals of session, sorted. If a
// transaction cannot list them all, fits is false and there are no paths.
func (p *Preparer) ephemerals(session zk.SessionID) (paths []string, fits bool) {
	const shortest = 4 + 2 // a length, and "/a"
	bytes := p.overhead() + 4
	if p.exceeds(bytes + shortest*p.tree.EphemeralsOf(session)) {
		return nil, false
	}
	for id := range p.tree.EphemeralIDs(session) {
		p.did(1)
		path := p.tree.Path(id)
		if !p.endsWith(session, path) {
			continue
		}
		if bytes += 4 + len(path); p.exceeds(bytes) {
			return nil, false
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
	changed := p.changedOf(session)
	counts := map[znode.ID]*children{}
	last, in := znode.ID(0), (*children)(nil)
	for id := range p.tree.EphemeralIDs(session) {
		p.did(1)
		if changed.ids[id] || !p.tree.IsEphemeralOf(id, session) || p.tree.Czxid(id) > changed.at {
			continue
		}
		if p.tree.NumChildren(id) > 0 {
			p.closeEach(session, h)
			return
		}
		if parent := p.tree.Parent(id); parent != last {
			last, in = parent, p.childrenOf(counts, parent)
		}
		in.gone++
	}
	slices.Sort(changed.ephemerals)
	p.endEphemerals(h, changed.ephemerals)
	p.digest -= changed.others
	for _, in := range counts { // the parents exist: the ephemerals are their children
		p.did(opWork)
		if parent, ok := p.get(in.path); ok {
			c := parent
			c.kids -= in.gone
			c.mode.Pzxid = max(c.mode.Pzxid, h.Zxid)
			p.put(h, in.path, &parent, c)
		}
	}
	p.out.closing[session] = h.Zxid
}

// changed is what the tree has, at one state, of the znodes with outstanding changes, for
// the end of a session.
type changed struct {
	at         zk.Zxid           // what is created after it is outstanding
	ids        map[znode.ID]bool // the znodes
	ephemerals []string          // paths of those that will be the session's ephemerals before it ends
	others     uint64            // sum of the digests of the session's ephemerals that have no outstanding change
}

// changedOf returns what the tree has of the znodes with outstanding changes. If transactions are applied
// between its pieces it begins again: what is outstanding becomes less thereby.
func (p *Preparer) changedOf(session zk.SessionID) changed {
	for {
		state := p.tree.State()
		c := changed{at: p.tree.LastZxid(), ids: map[znode.ID]bool{}, others: p.tree.EphemeralDigest(session)}
		for path, ch := range p.out.changes {
			p.did(1)
			if ch.isEphemeralOf(session) {
				c.ephemerals = append(c.ephemerals, path)
			}
			id := p.tree.Lookup(path)
			if id == 0 {
				continue
			}
			c.ids[id] = true
			if p.tree.IsEphemeralOf(id, session) && znode.InDigest(path) {
				mode := p.tree.Mode(id)
				c.others -= uint64(mode.Digest(p.tree.Sum(id), &p.scratch))
			}
		}
		if p.tree.State() == state {
			return c
		}
	}
}

// closeEach is closeAll with a change for each ephemeral, if some have children: endEphemerals alone
// knows which of these remain.
func (p *Preparer) closeEach(session zk.SessionID, h *txn.Header) {
	var paths []string
	for id := range p.tree.EphemeralIDs(session) {
		p.did(1)
		if path := p.tree.Path(id); p.tree.IsEphemeralOf(id, session) && p.endsWith(session, path) {
			paths = append(paths, path)
		}
	}
	paths = p.creations(session, paths)
	p.away(func() { slices.Sort(paths) })
	p.endEphemerals(h, slices.Compact(paths))
}

// children are the ephemerals of one parent that closeAll deletes.
type children struct {
	path string // of the parent
	gone int
}

func (p *Preparer) childrenOf(counts map[znode.ID]*children, parent znode.ID) *children {
	c := counts[parent]
	if c == nil {
		c = &children{path: p.tree.Path(parent)}
		counts[parent] = c
	}
	return c
}

// endsWith reports whether path, which the tree has of an ephemeral of session, will still be one of it.
func (p *Preparer) endsWith(session zk.SessionID, path string) bool {
	c, changed := p.out.changes[path]
	return !changed || c.isEphemeralOf(session)
}

// isEphemeralOf reports whether the znode will be an ephemeral of session.
func (c *change) isEphemeralOf(session zk.SessionID) bool {
	return !c.gone && c.mode.Owner == int64(session)
}
