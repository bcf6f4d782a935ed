package znode

import (
	"cmp"
	"slices"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// A Walk writes the tree as a snapshot's body (protocol page, section 11.5)
// while transactions go on being applied between its steps: the fuzzy snapshot
// of the paper's section 4.3. Replaying the log from the zxid at which the walk
// began makes the result exact.
//
// Znodes created after the walk began are left out: the log creates them. A
// znode that was given an ACL which is not in the list at the front is written
// as open: the log sets its ACL again, and Apache cannot replay a log over a
// znode with an ACL that it does not know (ZOOKEEPER-4846).
//
// Every method needs the tree's read lock; between the calls it may be given up.
type Walk struct {
	tree    *Tree
	since   zk.Zxid
	newest  zk.Zxid // znodes created after it are left out; at least since
	nextACL aclID   // the list at the front has no ids from here on
	stack   []walkFrame
	path    []byte
	nodes   int
}

// walkFrame is a znode whose children are being written. Its czxid tells it
// from a later znode of the same ID.
type walkFrame struct {
	id      ID
	czxid   zk.Zxid
	kids    []ID // as they were when the frame was pushed
	pathLen int  // of the znode's own path
}

// Walk begins a walk and writes sessions and ACLs, the front of the body.
func (t *Tree) Walk(b []byte) (*Walk, []byte) {
	b = t.appendSessions(b)
	ids := t.acls.ids()
	b = jute.AppendInt(b, int32(len(ids)))
	for _, id := range ids {
		b = jute.AppendLong(b, id.fileID())
		b = wire.AppendACL(b, t.acls.list(id))
	}
	w := &Walk{tree: t, since: t.lastZxid, newest: max(t.lastZxid, t.newest), nextACL: t.acls.next}
	b = w.visit(rootID, 0, b)
	return w, b
}

func (t *Tree) appendSessions(b []byte) []byte {
	type session struct {
		id      zk.SessionID
		timeout int32
	}
	all := make([]session, 0, len(t.sessions))
	for id, timeout := range t.sessions {
		all = append(all, session{id, timeout})
	}
	slices.SortFunc(all, func(a, b session) int { return cmp.Compare(a.id, b.id) })
	b = jute.AppendInt(b, int32(len(all)))
	for _, s := range all {
		b = jute.AppendInt(jute.AppendLong(b, int64(s.id)), s.timeout)
	}
	return b
}

// Zxid is the last transaction that the walk is sure to contain: the snapshot's
// name.
func (w *Walk) Zxid() zk.Zxid { return w.since }

// Nodes is the number of znodes written so far.
func (w *Walk) Nodes() int { return w.nodes }

// Next appends znodes to b, parents before children, until there are limit
// bytes; done means that the last one, and the end mark, are written.
func (w *Walk) Next(b []byte, limit int) (_ []byte, done bool) {
	for len(w.stack) > 0 {
		if len(b) >= limit {
			return b, false
		}
		f := &w.stack[len(w.stack)-1]
		if len(f.kids) == 0 || !w.tree.is(f.id, f.czxid) {
			w.stack = w.stack[:len(w.stack)-1]
			continue
		}
		kid := f.kids[len(f.kids)-1]
		f.kids = f.kids[:len(f.kids)-1]
		n := w.tree.nodes.at(kid)
		if n.slot == freeSlot || n.parent != f.id || n.czxid > w.newest {
			continue
		}
		b = w.visit(kid, f.pathLen, b)
	}
	return jute.AppendString(b, "/"), true
}

// is reports whether id is still the znode that was created at czxid.
func (t *Tree) is(id ID, czxid zk.Zxid) bool {
	n := t.nodes.at(id)
	return n.slot != freeSlot && n.czxid == czxid
}

// visit writes the znode id, whose parent's path are the first bytes of w.path,
// and pushes a frame if it has children.
func (w *Walk) visit(id ID, parentLen int, b []byte) []byte {
	t, n := w.tree, w.tree.nodes.at(id)
	if id != rootID {
		w.path = append(append(w.path[:parentLen], '/'), t.name(n)...)
	}
	b = jute.AppendBuffer(b, pathBytes(w.path))
	b = jute.AppendBuffer(b, t.data(n))
	acl := n.acl
	if acl >= w.nextACL {
		acl = 0
	}
	b = jute.AppendLong(b, acl.fileID())
	b = jute.AppendLong(b, int64(n.czxid))
	b = jute.AppendLong(b, int64(n.mzxid))
	b = jute.AppendLong(b, n.ctime)
	b = jute.AppendLong(b, n.mtime)
	b = jute.AppendInt(b, n.version)
	b = jute.AppendInt(b, n.cversion)
	b = jute.AppendInt(b, n.aversion)
	b = jute.AppendLong(b, n.owner)
	b = jute.AppendLong(b, int64(n.pzxid))
	if kids := t.kids[n.kids]; len(kids) > 0 {
		w.stack = append(w.stack, walkFrame{id, n.czxid, slices.Clone(kids), len(w.path)})
	}
	w.nodes++
	return b
}

// pathBytes is p, which for the root is empty and must not be null.
func pathBytes(p []byte) []byte {
	if p == nil {
		return []byte{}
	}
	return p
}
