package znode

import (
	"cmp"
	"slices"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// A Walk writes the tree as the body of a snapshot (protocol page, section 11.5).
// Transactions may be applied between its steps: this is the fuzzy snapshot of the
// paper, section 4.3. Replaying the log from the zxid at which the walk started makes
// the state exact.
//
// Znodes created after the start of the walk are skipped: the log creates them. A znode
// whose new ACL is not in the list at the front is written with the open ACL: the log
// sets its ACL again, and Apache cannot replay a log over a znode with an unknown ACL
// (ZOOKEEPER-4846).
//
// Every method needs the tree's read lock; the caller may release it between calls.
type Walk struct {
	tree    *Tree
	since   zk.Zxid
	newest  zk.Zxid                    // skip znodes created after it; at least since
	nextACL aclID                      // the list at the front has no ids from here on
	step    func(*Walk, []byte) []byte // writes the next record; nil at the end

	sessions []walkedSession // not written yet; the same holds for the ACLs
	acls     []walkedACL
	stack    []walkFrame
	path     []byte
	nodes    int
}

// walkFrame is a znode whose children are being written. Its czxid distinguishes it
// from a later znode with the same ID.
type walkFrame struct {
	id      ID
	czxid   zk.Zxid
	kids    []ID // at the time when the frame was pushed
	pathLen int  // of the znode's own path
}

// walkedSession and walkedACL are records at the front of the body.
type walkedSession struct {
	id            zk.SessionID
	timeoutMillis int32
}

type walkedACL struct {
	id  aclID
	acl []zk.ACL // shared with the tree, which does not change it
}

// Walk starts a walk. It records the present sessions and ACLs, which are written
// first. It does not copy the ACLs, which may have hundreds of megabytes.
func (t *Tree) Walk() *Walk {
	w := &Walk{tree: t, since: t.lastZxid, newest: max(t.lastZxid, t.newest), nextACL: t.acls.next}
	w.sessions = make([]walkedSession, 0, len(t.sessions))
	for id, timeout := range t.sessions {
		w.sessions = append(w.sessions, walkedSession{id, timeout})
	}
	slices.SortFunc(w.sessions, func(a, b walkedSession) int { return cmp.Compare(a.id, b.id) })
	w.acls = make([]walkedACL, 0, len(t.acls.byID))
	for id, e := range t.acls.byID {
		w.acls = append(w.acls, walkedACL{id, e.list.Entries})
	}
	slices.SortFunc(w.acls, func(a, b walkedACL) int { return cmp.Compare(a.id, b.id) })
	w.step = (*Walk).sessionCount
	return w
}

// The steps write one record each and set the next step. They need no lock, except root
// and node.

func (w *Walk) sessionCount(b []byte) []byte {
	w.step = (*Walk).session
	return jute.AppendInt(b, int32(len(w.sessions)))
}

func (w *Walk) session(b []byte) []byte {
	if len(w.sessions) == 0 {
		w.step = (*Walk).acl
		return jute.AppendInt(b, int32(len(w.acls)))
	}
	s := w.sessions[0]
	w.sessions = w.sessions[1:]
	return jute.AppendInt(jute.AppendLong(b, int64(s.id)), s.timeoutMillis)
}

func (w *Walk) acl(b []byte) []byte {
	if len(w.acls) == 0 {
		w.step = (*Walk).root
		return b
	}
	a := w.acls[0]
	w.acls[0] = walkedACL{}
	w.acls = w.acls[1:]
	return wire.AppendACL(jute.AppendLong(b, a.id.fileID()), a.acl)
}

func (w *Walk) root(b []byte) []byte {
	w.step = (*Walk).node
	return w.visit(rootID, 0, b)
}

// node writes the next znode, or pops a frame; after the last frame it writes the end
// mark.
func (w *Walk) node(b []byte) []byte {
	if len(w.stack) == 0 {
		w.step = nil
		return jute.AppendString(b, "/")
	}
	f := &w.stack[len(w.stack)-1]
	if len(f.kids) == 0 || !w.tree.is(f.id, f.czxid) {
		w.stack = w.stack[:len(w.stack)-1]
		return b
	}
	kid := f.kids[len(f.kids)-1]
	f.kids = f.kids[:len(f.kids)-1]
	n := w.tree.nodes.at(kid)
	if n.slot == freeSlot || n.parent != f.id || n.czxid > w.newest {
		return b
	}
	return w.visit(kid, f.pathLen, b)
}

// Zxid returns the last transaction that the walk is certain to contain: the zxid in
// the snapshot's name.
func (w *Walk) Zxid() zk.Zxid { return w.since }

// Nodes returns the number of znodes written so far.
func (w *Walk) Nodes() int { return w.nodes }

// Next appends sessions and ACLs, then znodes, parents before children, to b until it
// has limit bytes. done reports that everything is written, including the end mark. The
// last record may exceed limit.
func (w *Walk) Next(b []byte, limit int) (_ []byte, done bool) {
	for w.step != nil {
		if len(b) >= limit {
			return b, false
		}
		b = w.step(w, b)
	}
	return b, true
}

// is reports whether id is still the znode that was created at czxid.
func (t *Tree) is(id ID, czxid zk.Zxid) bool {
	n := t.nodes.at(id)
	return n.slot != freeSlot && n.czxid == czxid
}

// visit writes the znode id and pushes a frame if it has children. The first parentLen
// bytes of w.path are its parent's path.
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

// pathBytes returns p; for the root, an empty slice instead of nil, because it must not
// be written as null.
func pathBytes(p []byte) []byte {
	if p == nil {
		return []byte{}
	}
	return p
}
