package znode

import (
	"maps"
	"slices"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/access"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// Result is the result of a transaction. The caller reuses one Result for many calls of
// Apply.
type Result struct {
	Outcome           // of the transaction; its Err is 0 for a multi, failed or not
	Multi   []Outcome // of each operation of a multi
	Events  []Change  // in the order in which to fire watches
}

// Outcome is the result of one change: an error, or, for the kinds of change that
// report them, the path of the znode and its Stat after the change. Of a deletion, the Stat
// has the version and the size of the znode that was deleted, and the zxid.
type Outcome struct {
	Type wire.OpCode
	Err  zk.Code
	Path string // of a create
	Stat zk.Stat
}

// Change is an event for watches. ACL is that of the znode at Path: a client that may
// not read the znode must not get the event. Path aliases the transaction.
type Change struct {
	Type zk.EventType
	Path string
	ACL  *access.List
}

func (r *Result) reset(t wire.OpCode) {
	*r = Result{Outcome: Outcome{Type: t}, Multi: r.Multi[:0], Events: r.Events[:0]}
}

// Apply applies tx and fills r. It keeps no reference to tx. Errors such as a missing
// parent occur only while a log is replayed over a fuzzy snapshot that already has
// later effects; they are results, not failures (protocol page, section 8.3). Applying
// transactions again that the tree already has, from any one on, gives the same tree.
func (t *Tree) Apply(tx *txn.Txn, r *Result) {
	r.reset(tx.Header.Type)
	t.state++
	t.recounts.work = PieceUnits
	if tx.Header.Type == wire.OpMulti {
		t.applyMulti(tx, r)
	} else {
		r.Outcome = t.applyOp(&tx.Header, &tx.Op, r)
	}
	if tx.Zxid > t.lastZxid {
		t.lastZxid = tx.Zxid
	}
}

// Prepare copies the long ACLs of the transactions that Apply is called with next, and
// calls index for each; BeginMulti does so for long multis. It makes memory for children. It needs no lock: others may read the tree at the same time.
// REQUIRES: the caller is the caller of Apply.
func (t *Tree) Prepare(txs []txn.Txn, index func(*access.List)) {
	t.acls.prepared = nil
	t.readyKids()
	for i := range txs {
		if IsLong(&txs[i]) {
			continue
		}
		t.acls.prepare(txs[i].ACL, index)
		for k := range txs[i].Multi {
			t.acls.prepare(txs[i].Multi[k].ACL, index)
		}
	}
}

// applyMulti applies the operations of a multi.
func (t *Tree) applyMulti(tx *txn.Txn, r *Result) {
	if tx.Failed() {
		appendUndone(tx.Multi, r)
		return
	}
	r.Multi = slices.Grow(r.Multi, len(tx.Multi))
	for i := range tx.Multi {
		r.Multi = append(r.Multi, t.applyOp(&tx.Header, &tx.Multi[i], r))
	}
}

// appendUndone reports the operations of a multi of which one failed in preparation:
// those before it as undone (0), the failed one with its code, those after it as
// inconsistent.
func appendUndone(ops []txn.Op, r *Result) {
	r.Multi = slices.Grow(r.Multi, len(ops))
	for i := range ops {
		o := Outcome{Type: wire.OpError}
		if op := &ops[i]; op.Type == wire.OpError {
			o.Err = op.Err
		}
		r.Multi = append(r.Multi, o)
	}
}

func (t *Tree) applyOp(h *txn.Header, op *txn.Op, r *Result) Outcome {
	o := Outcome{Type: op.Type}
	switch op.Type {
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		o.Path = op.Path
		o.Err = t.applyCreate(h, op, r, &o.Stat)
	case wire.OpDelete, wire.OpDeleteContainer:
		o.Err = t.applyDelete(h.Zxid, op.Path, r, &o.Stat)
	case wire.OpSetData, wire.OpReconfig:
		o.Err = t.applySetData(h, op, r, &o.Stat)
	case wire.OpSetACL:
		o.Err = t.applySetACL(op, &o.Stat)
	case wire.OpCreateSession:
		t.sessions[h.Session] = op.TimeoutMillis
	case wire.OpCloseSession:
		t.applyCloseSession(h, op, r)
	case wire.OpError:
		o.Err = op.Err
	}
	return o
}

func (t *Tree) applyCreate(h *txn.Header, op *txn.Op, r *Result, s *zk.Stat) zk.Code {
	if op.Type == wire.OpCreateTTL && (op.TTL <= 0 || op.TTL > MaxTTL) {
		return zk.ErrBadArguments // Apache logs this one, and crashes on it (protocol page, section 7)
	}
	parentPath, name, ok := split(op.Path)
	if !ok {
		return zk.ErrNoNode
	}
	parent := t.Lookup(parentPath)
	if parent == 0 {
		return zk.ErrNoNode
	}
	hash := t.index.hash(op.Path)
	if id := t.lookupHash(hash, op.Path); id != 0 {
		t.adopt(h.Zxid, op, id, parent, parentPath)
		return zk.ErrNodeExists
	}
	t.countChild(parent, parentPath, op.ParentCversion, h.Zxid)
	m := Mode{
		Czxid: h.Zxid, Mzxid: h.Zxid, Pzxid: h.Zxid, Ctime: h.Time, Mtime: h.Time, Owner: t.owner(h, op),
	}
	id := t.insertUnder(parent, hash, op.Path, name, op.Data, sumOf(op), t.acls.use(op.ACL), m)
	t.noteUsage(id, int64(len(op.Data)), 1)
	t.Stat(id, s)
	if strings.HasPrefix(op.Path, quotaPrefix) {
		t.quotaNodeCreated(op.Path)
	}
	t.chargeQuota(op.Path, int64(len(op.Data)), 1)
	r.Events = append(r.Events,
		Change{zk.EventNodeCreated, op.Path, t.ACL(id)},
		Change{zk.EventNodeChildrenChanged, rooted(parentPath), t.ACL(parent)})
	return zk.OK
}

// owner returns the ephemeralOwner that a create stores.
func (t *Tree) owner(h *txn.Header, op *txn.Op) int64 {
	switch {
	case op.Type == wire.OpCreateContainer:
		return containerOwner
	case op.Type == wire.OpCreateTTL:
		return t.opts.ttlOwner(op.TTL)
	case op.Ephemeral:
		return int64(h.Session)
	}
	return 0
}

// adopt gives a znode that a fuzzy snapshot already has what the create intended: its
// ACL, and the parent's counters. Apache raises these only for its first kind of
// create; after the others they are stale.
func (t *Tree) adopt(z zk.Zxid, op *txn.Op, id, parent ID, parentPath string) {
	n := t.nodes.at(id)
	old := n.acl
	n.acl = t.acls.use(op.ACL)
	t.acls.release(old)
	t.countChild(parent, parentPath, op.ParentCversion, z)
}

// countChild sets the parent's count of creates to cversion (-1: one more) and its
// pzxid to z. It never lowers them, so that a replay changes nothing.
func (t *Tree) countChild(parent ID, path string, cversion int32, z zk.Zxid) {
	n := t.nodes.at(parent)
	if cversion == -1 {
		cversion = n.cversion + 1
	}
	if cversion <= n.cversion {
		return
	}
	t.subDigest(path, n)
	n.cversion, n.pzxid = cversion, z
	t.addDigest(path, n)
}

// applyDelete deletes a znode. It sets version, size and last zxid of s, unless s is nil.
func (t *Tree) applyDelete(z zk.Zxid, path string, r *Result, s *zk.Stat) zk.Code {
	parentPath, _, ok := split(path)
	if !ok {
		return zk.ErrNoNode
	}
	if IsSystem(path) {
		return zk.ErrBadArguments // no preparation allows this
	}
	id := t.Lookup(path)
	if id == 0 {
		// A fuzzy snapshot no longer has the znode, but its parent may be older
		// (ZOOKEEPER-3145).
		if parent := t.Lookup(parentPath); parent != 0 {
			t.touch(parent, parentPath, z)
		}
		return zk.ErrNoNode
	}
	if s != nil {
		n := t.nodes.at(id)
		s.Version, s.DataLength, s.Mzxid = n.version, max(n.dataLen, 0), z
	}
	return t.deleteNode(z, id, path, parentPath, r)
}

// deleteNode deletes id, the znode at path, below parentPath.
func (t *Tree) deleteNode(z zk.Zxid, id ID, path, parentPath string, r *Result) zk.Code {
	if !t.createdSince(z, id) {
		return zk.ErrNotEmpty
	}
	t.dropChildren(id, path)
	parent, acl := t.nodes.at(id).parent, t.ACL(id)
	t.touch(parent, parentPath, z)
	t.drop(id, path, parentPath)
	r.Events = append(r.Events,
		Change{zk.EventNodeDeleted, path, acl},
		Change{zk.EventNodeChildrenChanged, rooted(parentPath), t.ACL(parent)})
	return zk.OK
}

// createdSince reports whether every znode below id was created at z or later. There is
// normally none when a deletion is applied for the first time. In a fuzzy snapshot
// there may be children of a later znode with the same path, which the log is going to
// create again.
func (t *Tree) createdSince(z zk.Zxid, id ID) bool {
	for _, k := range t.kids[t.nodes.at(id).kids] {
		if t.nodes.at(k).czxid < z || !t.createdSince(z, k) {
			return false
		}
	}
	return true
}

// dropChildren removes all znodes below id, the znode at path.
func (t *Tree) dropChildren(id ID, path string) {
	n := t.nodes.at(id)
	for len(t.kids[n.kids]) > 0 {
		last := t.kids[n.kids][len(t.kids[n.kids])-1]
		lastPath := path + "/" + t.name(t.nodes.at(last))
		t.dropChildren(last, lastPath)
		t.drop(last, lastPath, path)
	}
}

// drop removes id, the znode at path, and discharges its quota.
func (t *Tree) drop(id ID, path, parentPath string) {
	size := int64(t.DataLen(id))
	t.noteUsage(id, -size, -1)
	t.dropTarget(id)
	t.removeNode(id, path)
	if strings.HasPrefix(path, quotaPrefix) && strings.HasSuffix(path, limitsSuffix) {
		delete(t.quotas, parentPath[len(quotaPath):])
	}
	t.chargeQuota(path, -size, -1)
}

func (t *Tree) touch(id ID, path string, z zk.Zxid) {
	n := t.nodes.at(id)
	if z <= n.pzxid {
		return
	}
	t.subDigest(path, n)
	n.pzxid = z
	t.addDigest(path, n)
}

func (t *Tree) applySetData(h *txn.Header, op *txn.Op, r *Result, s *zk.Stat) zk.Code {
	id := t.Lookup(op.Path)
	if id == 0 {
		return zk.ErrNoNode
	}
	n := t.nodes.at(id)
	grown := int64(len(op.Data)) - int64(max(n.dataLen, 0))
	t.replaceData(op, n, h)
	t.Stat(id, s)
	t.noteUsage(id, grown, 0)
	t.chargeQuota(op.Path, grown, 0)
	r.Events = append(r.Events, Change{zk.EventNodeDataChanged, rooted(op.Path), t.ACL(id)})
	return zk.OK
}

// replaceData sets the data and the related fields of the Stat. It copies the data last: the
// digest is computed from bytes that were just stored, and the processor may have to wait until
// all stores before those have reached the memory.
func (t *Tree) replaceData(op *txn.Op, n *node, h *txn.Header) {
	t.subDigest(op.Path, n)
	n.sum = sumOf(op)
	n.version, n.mzxid, n.mtime = op.Version, h.Zxid, h.Time
	t.addDigest(op.Path, n)
	t.storeData(n, op.Data)
}

// sumOf is the Sum of the path and the data of op.
func sumOf(op *txn.Op) uint32 {
	if op.HasSum {
		return op.Sum
	}
	return Sum(op.Path, op.Data)
}

func (t *Tree) applySetACL(op *txn.Op, s *zk.Stat) zk.Code {
	id := t.Lookup(op.Path)
	if id == 0 {
		return zk.ErrNoNode
	}
	n := t.nodes.at(id)
	t.subDigest(op.Path, n)
	old := n.acl
	n.acl = t.acls.use(op.ACL)
	t.acls.release(old)
	n.aversion = op.Version
	t.addDigest(op.Path, n)
	t.Stat(id, s)
	return zk.OK
}

// applyCloseSession deletes the listed ephemerals and then, in the order of paths, any
// others that the tree still has of the session, all with this zxid.
func (t *Tree) applyCloseSession(h *txn.Header, op *txn.Op, r *Result) {
	for _, path := range op.Paths {
		t.applyDelete(h.Zxid, path, r, nil)
	}
	for _, path := range t.ephemeralsOf(h.Session) {
		if id := t.Lookup(path); id != 0 {
			parent, _, _ := split(path)
			t.endEphemeral(h, id, path, parent, r)
		}
	}
	delete(t.sessions, h.Session)
}

// endEphemeral deletes an ephemeral of the session of h, which ends, and then each znode above it that
// is one too and has no children left: so the same remain in whatever order it is called for them. It
// returns their number. A system znode remains. No preparation makes an ephemeral with children, or of a
// system znode; a program that was elected leader in a member's name can.
func (t *Tree) endEphemeral(h *txn.Header, id ID, path, parentPath string, r *Result) (n int) {
	for {
		parent := t.nodes.at(id).parent
		if IsSystem(path) || t.deleteNode(h.Zxid, id, path, parentPath, r) != zk.OK {
			return n
		}
		n++
		if !t.IsEphemeralOf(parent, h.Session) {
			return n
		}
		id, path = parent, parentPath
		parentPath, _, _ = split(path)
	}
}

// ephemeralsOf returns the paths of the session's ephemerals, sorted.
func (t *Tree) ephemeralsOf(session zk.SessionID) []string {
	if t.EphemeralsOf(session) == 0 {
		return nil
	}
	paths := make([]string, 0, t.EphemeralsOf(session))
	t.Ephemerals(session, func(path string) { paths = append(paths, path) })
	slices.Sort(paths)
	return paths
}

// DropOrphans deletes the ephemerals of sessions that do not exist, without a
// transaction. A leader or standalone server calls it once after recovery. It returns
// their paths, by session.
func (t *Tree) DropOrphans() (dropped []string) {
	for _, s := range slices.Sorted(maps.Keys(t.ephemerals)) {
		if t.HasSession(s) {
			continue
		}
		var r Result
		for _, path := range t.ephemeralsOf(s) {
			if t.applyDelete(t.lastZxid, path, &r, nil) == zk.OK {
				dropped = append(dropped, path)
			}
		}
	}
	return dropped
}

// rooted returns path as clients know it: the root is "/".
func rooted(path string) string {
	if path == "" {
		return "/"
	}
	return path
}
