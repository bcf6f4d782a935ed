// Package znode is the in-memory tree: the znodes with their data, ACLs and
// Stats, the sessions that ephemerals belong to, quotas and the digest
// (protocol page, sections 8 and 9; paper, section 4.3).
//
// The tree changes by Apply alone, one transaction at a time in zxid order;
// applying is idempotent, so that a log may be replayed over a fuzzy snapshot.
// It knows no clock and takes no locks: its owner lets either one writer or many
// readers in. Slices that a reading method returns are valid until the next
// Apply.
//
// Invariants, all checked by check in the tests:
//
//  1. A znode's parent exists; the root has none.
//  2. The list of a znode's children holds each child once, at child.slot.
//  3. The index finds exactly the znodes that exist.
//  4. Ephemerals, containers and TTL znodes are in the set of their kind.
//  5. The digest is the sum over all znodes outside /zookeeper/; a session has the sum over its ephemerals.
package znode

import (
	"iter"
	"slices"
	"unsafe"

	"github.com/pinfold-zk/pinfold/internal/access"
	"github.com/pinfold-zk/pinfold/zk"
)

// Options are the settings that must be the same on all servers of an ensemble.
type Options struct {
	ExtendedTypes bool // zookeeper.extendedTypesEnabled: TTL marks are understood
	Emulate353TTL bool // zookeeper.emulate353TTLNodes
	NoDigest      bool // digest.enabled=false

	// Populate, if there is one, has the system give the pages of b, new memory that will be used soon, without a
	// change to what lies there. The tree calls it for the blocks that it needs when it has some already, and for long
	// lists of children.
	Populate func(b []byte)
}

// Tree is the replicated state of a server. Make one with New.
type Tree struct {
	opts  Options
	nodes nodeTable
	arena arena
	index index
	kids  [][]ID
	spare []uint32 // unused entries of kids
	acls  aclCache

	scratch  Scratch
	lastZxid zk.Zxid
	newest   zk.Zxid // no znode that was loaded was created after it
	digest   uint64
	state    uint64 // how often transactions, or pieces of one, were applied
	count    int    // znodes
	size     int64  // bytes of all paths and data

	sessions   map[zk.SessionID]int32  // timeout in milliseconds
	ephemerals map[zk.SessionID]*idSet // the znodes of each session that has any
	ephCount   int
	containers map[ID]struct{}
	ttls       map[ID]struct{}
	quotas     map[string]struct{} // paths that have a limits node
	changes    pathSet             // memory for Multi.changed
	nextKids   []ID                // empty: memory for a long list of children, see readyKids
	wantKids   int                 // how many places it should have, if more than it has
	made       newMemory           // of the last long multi
	recounts   recounts
}

// New returns the tree of a fresh server: the root and the system znodes. The
// data of ConfigPath is empty until SetConfig, which a standalone server never
// calls.
func New(opts Options) *Tree {
	t := newEmpty(opts)
	for _, path := range []string{systemPath, quotaPath} {
		t.insert(path, []byte{}, 0, Mode{})
	}
	t.insertConfig()
	return t
}

// newEmpty returns a tree of the root alone.
func newEmpty(opts Options) *Tree {
	t := &Tree{
		opts: opts, index: newIndex(), acls: newACLCache(), kids: make([][]ID, 1),
		nodes: nodeTable{fresh: rootID, populate: opts.Populate}, arena: arena{populate: opts.Populate},
		sessions:   map[zk.SessionID]int32{},
		ephemerals: map[zk.SessionID]*idSet{},
		containers: map[ID]struct{}{}, ttls: map[ID]struct{}{}, quotas: map[string]struct{}{},
	}
	n := t.nodes.at(t.nodes.alloc())
	t.count = 1
	n.sum = Sum("", nil)
	t.addDigest("/", n)
	return t
}

// Lookup finds the znode at path; "" is the root, as for Apache. It returns 0
// if there is none. It does not allocate.
func (t *Tree) Lookup(path string) ID {
	if path == "" || path == "/" {
		return rootID
	}
	return t.lookupHash(t.index.hash(path), path)
}

// lookupHash is Lookup for a path that is not the root's and has the hash h.
func (t *Tree) lookupHash(h uint64, path string) ID {
	p := &t.index.parts[h>>56]
	if len(p.entries) == 0 {
		return 0
	}
	mask := uint32(len(p.entries) - 1)
	for i := uint32(h) & mask; ; i = (i + 1) & mask {
		e := p.entries[i]
		if e.id == 0 {
			return 0
		}
		if e.hash == uint32(h) && t.isAt(e.id, path) {
			return e.id
		}
	}
}

// enter adds id, whose path has the hash h, to the index. It reports false, and
// adds nothing, if there is a znode of the same parent and name.
func (t *Tree) enter(h uint64, id ID) bool {
	p := t.index.part(h)
	mask := uint32(len(p.entries) - 1)
	i := uint32(h) & mask
	for ; p.entries[i].id != 0; i = (i + 1) & mask {
		if e := p.entries[i]; e.hash == uint32(h) && t.sameName(e.id, id) {
			return false
		}
	}
	p.entries[i] = indexEntry{uint32(h), id}
	p.used++
	return true
}

// sameName reports whether two znodes have the same parent and name.
func (t *Tree) sameName(a, b ID) bool {
	x, y := t.nodes.at(a), t.nodes.at(b)
	return x.parent == y.parent && t.name(x) == t.name(y)
}

// isAt reports whether path is the path of id, which may have been released.
func (t *Tree) isAt(id ID, path string) bool {
	for id != rootID {
		n := t.nodes.at(id)
		k := len(path) - int(n.nameLen)
		if n.slot == freeSlot || k < 1 || path[k-1] != '/' || path[k:] != t.name(n) {
			return false
		}
		path, id = path[:k-1], n.parent
	}
	return path == ""
}

// name returns the last component of n's path. It aliases the arena.
func (t *Tree) name(n *node) string {
	return stringOf(t.arena.bytes(n.blob, int(n.nameLen)))
}

// stringOf returns a string that aliases b.
func stringOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// Parent returns the parent of id, 0 for the root.
func (t *Tree) Parent(id ID) ID { return t.nodes.at(id).parent }

// Path returns the path of id.
func (t *Tree) Path(id ID) string { return string(t.AppendPath(nil, id)) }

// AppendPath appends the path of id to b; the root's is "/".
func (t *Tree) AppendPath(b []byte, id ID) []byte {
	if id == rootID {
		return append(b, '/')
	}
	return t.appendPath(b, id)
}

func (t *Tree) appendPath(b []byte, id ID) []byte {
	if id == rootID {
		return b
	}
	n := t.nodes.at(id)
	b = t.appendPath(b, n.parent)
	return append(append(b, '/'), t.name(n)...)
}

// Data returns the data of id, nil if it is null.
func (t *Tree) Data(id ID) []byte { return t.data(t.nodes.at(id)) }

func (t *Tree) data(n *node) []byte {
	if n.dataLen == nullData {
		return nil
	}
	b := t.arena.bytes(n.blob, int(n.nameLen)+int(n.dataLen))[n.nameLen:]
	if b == nil {
		b = []byte{}
	}
	return b
}

// Stat fills s with what a client sees of id. It sets one field after the other: a composite
// literal is built elsewhere and copied by wider loads than it was stored by, for which the
// processor waits until all stores before, of the new data as well, have reached the cache.
func (t *Tree) Stat(id ID, s *zk.Stat) {
	n := t.nodes.at(id)
	kids := int32(len(t.kids[n.kids]))
	s.Czxid, s.Mzxid, s.Pzxid = n.czxid, n.mzxid, n.pzxid
	s.Ctime, s.Mtime = n.ctime, n.mtime
	s.Version, s.Cversion, s.Aversion = n.version, 2*n.cversion-kids, n.aversion
	s.DataLength, s.NumChildren = max(n.dataLen, 0), kids
	s.EphemeralOwner = 0
	if t.opts.ownerKind(n.owner) == kindEphemeral {
		s.EphemeralOwner = n.owner
	}
}

// Mode returns what the digest and the next transaction need of id. Unlike in
// Stat, cversion is the internal counter and the owner is as stored.
func (t *Tree) Mode(id ID) Mode { return t.nodes.at(id).mode() }

// Sum returns the CRC of id's path and data, for Mode.Digest.
func (t *Tree) Sum(id ID) uint32 { return t.nodes.at(id).sum }

// IsEphemeral reports whether owner, as Mode has it, is a session.
func (t *Tree) IsEphemeral(owner int64) bool { return t.opts.ownerKind(owner) == kindEphemeral }

// OwnerOf is the ephemeralOwner to be stored for a znode of the given kind.
func (t *Tree) OwnerOf(session zk.SessionID, container bool, ttl int64) int64 {
	switch {
	case container:
		return containerOwner
	case ttl > 0:
		return t.opts.ttlOwner(ttl)
	}
	return int64(session)
}

// Kind returns the mode with which a znode like id is created, without a sequence number,
// and its time to live in milliseconds, 0 unless it has one.
func (t *Tree) Kind(id ID) (mode zk.CreateMode, ttl int64) {
	switch owner := t.nodes.at(id).owner; t.opts.ownerKind(owner) {
	case kindEphemeral:
		return zk.Ephemeral, 0
	case kindContainer:
		return zk.Container, 0
	case kindTTL:
		return zk.PersistentWithTTL, t.opts.ownerTTL(owner)
	}
	return zk.Persistent, 0
}

// ACL returns the ACL of id. It stays valid after the next Apply, and belongs
// to the tree.
func (t *Tree) ACL(id ID) *access.List { return t.acls.list(t.nodes.at(id).acl) }

// NumChildren returns the number of id's children.
func (t *Tree) NumChildren(id ID) int { return len(t.kids[t.nodes.at(id).kids]) }

// DataLen returns the number of bytes of id's data.
func (t *Tree) DataLen(id ID) int { return int(max(t.nodes.at(id).dataLen, 0)) }

// Children calls f with the name of each child of id, in no particular order.
// The name aliases the tree.
func (t *Tree) Children(id ID, f func(name string)) {
	for _, k := range t.kids[t.nodes.at(id).kids] {
		f(t.name(t.nodes.at(k)))
	}
}

// ChildrenFrom calls f with the name of each child of id from the i-th on, in the order of
// Children, until f returns false. It returns the index of that child, or the number of
// children. The index means the same child as long as no child is created or deleted.
func (t *Tree) ChildrenFrom(id ID, i int, f func(name string) bool) int {
	kids := t.kids[t.nodes.at(id).kids]
	for ; i < len(kids); i++ {
		if !f(t.name(t.nodes.at(kids[i]))) {
			break
		}
	}
	return i
}

// Ephemerals calls f with the path of each ephemeral of session, in no
// particular order.
func (t *Tree) Ephemerals(session zk.SessionID, f func(path string)) {
	for id := range t.ephemerals[session].all() {
		f(t.Path(id))
	}
}

// EphemeralsOf returns the number of ephemerals of session.
func (t *Tree) EphemeralsOf(session zk.SessionID) int { return t.ephemerals[session].len() }

// EphemeralDigest returns the sum of the digests of the ephemerals of session, as far as they count in
// the digest of the tree.
func (t *Tree) EphemeralDigest(session zk.SessionID) uint64 {
	if set := t.ephemerals[session]; set != nil {
		return set.digest
	}
	return 0
}

// Czxid returns the transaction that created id.
func (t *Tree) Czxid(id ID) zk.Zxid { return t.nodes.at(id).czxid }

// IsEphemeralOf reports whether id, which may have been released, is an ephemeral of
// session.
func (t *Tree) IsEphemeralOf(id ID, session zk.SessionID) bool {
	n := t.nodes.at(id)
	return n.slot != freeSlot && n.owner == int64(session) && t.IsEphemeral(n.owner)
}

// EphemeralIDs iterates over the ephemerals of session, in no particular order. Transactions
// may be applied between two steps; znodes that they create or delete may be missed.
func (t *Tree) EphemeralIDs(session zk.SessionID) iter.Seq[ID] {
	return t.ephemerals[session].all()
}

// EphemeralSessions calls f with every session that has ephemerals.
func (t *Tree) EphemeralSessions(f func(zk.SessionID)) {
	for s := range t.ephemerals {
		f(s)
	}
}

// HasSession reports whether the session exists.
func (t *Tree) HasSession(s zk.SessionID) bool { _, ok := t.sessions[s]; return ok }

// SessionCount is the number of sessions that exist.
func (t *Tree) SessionCount() int { return len(t.sessions) }

// Sessions calls f with every session and its timeout in milliseconds.
func (t *Tree) Sessions(f func(s zk.SessionID, timeoutMillis int32)) {
	for s, timeout := range t.sessions {
		f(s, timeout)
	}
}

// LastZxid is the zxid of the last transaction applied.
func (t *Tree) LastZxid() zk.Zxid { return t.lastZxid }

// State is a number that is another one after a transaction, or a piece of one, was applied.
func (t *Tree) State() uint64 { return t.state }

// MoveTo makes the tree the state at another zxid.
func (t *Tree) MoveTo(z zk.Zxid) { t.lastZxid = z }

// Digest is the digest of the whole tree.
func (t *Tree) Digest() uint64 { return t.digest }

// Count is the number of znodes as Apache counts them, the root twice.
func (t *Tree) Count() int { return t.count + systemNodeCost }

// EphemeralCount is the number of ephemerals.
func (t *Tree) EphemeralCount() int { return t.ephCount }

// DataSize is the number of bytes of all paths and data.
func (t *Tree) DataSize() int64 { return t.size }

// Expired calls f with the path of each container that has lost its last child
// and then of each TTL znode without children that was not set for its time to
// live (features page, section 6); each kind in the order of its IDs, which is
// the same whenever the tree's history is. neverUsedMillis is how long a
// container that never had a child is kept; 0 keeps it for ever.
func (t *Tree) Expired(nowMillis, neverUsedMillis int64, f func(path string)) {
	t.expired(t.containers, f, func(n *node) bool {
		return n.cversion > 0 || neverUsedMillis > 0 && nowMillis-n.mtime > neverUsedMillis
	})
	t.expired(t.ttls, f, func(n *node) bool { return nowMillis-n.mtime > t.opts.ownerTTL(n.owner) })
}

// expired calls f for each of ids that has no children and is over.
func (t *Tree) expired(ids map[ID]struct{}, f func(path string), over func(*node) bool) {
	var found []ID
	for id := range ids {
		if n := t.nodes.at(id); len(t.kids[n.kids]) == 0 && over(n) {
			found = append(found, id)
		}
	}
	slices.Sort(found)
	for _, id := range found {
		f(t.Path(id))
	}
}

// SetConfig makes data the content of /zookeeper/config, outside any
// transaction: it is what the members of an ensemble know of themselves. Its
// version is -1 from then on, as in Apache.
func (t *Tree) SetConfig(data []byte, nowMillis int64) {
	n := t.nodes.at(t.Lookup(ConfigPath))
	n.sum = Sum(ConfigPath, data)
	t.storeData(n, data)
	n.version, n.mtime = -1, nowMillis
}

// insertConfig adds /zookeeper/config.
func (t *Tree) insertConfig() {
	t.insert(ConfigPath, []byte{}, t.acls.use(zk.ReadACLUnsafe()), Mode{Aversion: -1})
}

// insert adds the znode at path, whose parent exists and which does not, with
// one use of acl counted already. It does nothing if the parent is missing.
func (t *Tree) insert(path string, data []byte, acl aclID, m Mode) {
	parentPath, name, _ := split(path)
	if parent := t.Lookup(parentPath); parent != 0 {
		t.insertUnder(parent, t.index.hash(path), path, name, data, Sum(path, data), acl, m)
	}
}

// insertUnder is insert for a parent that is known, and a path that is cut and
// has the hash h. sum is the Sum of path and data.
func (t *Tree) insertUnder(parent ID, h uint64, path, name string, data []byte, sum uint32, acl aclID, m Mode) ID {
	id := t.link(parent, name, data, acl, &m)
	t.index.add(h, id)
	t.account(id, path, sum)
	return id
}

// link makes a znode and puts it among the children of parent.
func (t *Tree) link(parent ID, name string, data []byte, acl aclID, m *Mode) ID {
	id := t.nodes.alloc()
	n := t.nodes.at(id)
	*n = node{
		czxid: m.Czxid, mzxid: m.Mzxid, pzxid: m.Pzxid, ctime: m.Ctime, mtime: m.Mtime, owner: m.Owner,
		version: m.Version, cversion: m.Cversion, aversion: m.Aversion, acl: acl, parent: parent,
	}
	t.fill(n, name, data)
	kids := t.kidsOf(parent)
	n.slot = uint32(len(*kids))
	*kids = append(t.withRoom(*kids), id)
	return id
}

// account counts the new znode id, at path, in everything that sums znodes up.
// sum is its Sum.
func (t *Tree) account(id ID, path string, sum uint32) {
	n := t.nodes.at(id)
	n.sum = sum
	t.indexKind(id, n.owner)
	t.addDigest(path, n)
	t.count++
	t.size += int64(len(path)) + int64(max(n.dataLen, 0))
}

// fill gives n a new name and data; what it had must be released already.
func (t *Tree) fill(n *node, name string, data []byte) {
	n.blob = t.arena.alloc(len(name) + len(data))
	b := t.arena.bytes(n.blob, len(name)+len(data))
	copy(b[copy(b, name):], data)
	n.nameLen, n.dataLen = uint32(len(name)), int32(len(data))
	if data == nil {
		n.dataLen = nullData
	}
}

// storeData replaces the data of n. The caller sets n.sum, and maintains the digest.
func (t *Tree) storeData(n *node, data []byte) {
	t.size += int64(len(data)) - int64(max(n.dataLen, 0))
	if int(n.dataLen) == len(data) && data != nil {
		copy(t.arena.bytes(n.blob, int(n.nameLen)+len(data))[n.nameLen:], data)
	} else {
		old, name := n.blob, t.name(n)
		t.fill(n, name, data)
		t.arena.release(old)
	}
}

// removeNode takes out id, the znode at path, which has no children.
func (t *Tree) removeNode(id ID, path string) {
	n := t.nodes.at(id)
	t.subDigest(path, n)
	t.count--
	t.size -= int64(len(path)) + int64(max(n.dataLen, 0))
	t.unindexKind(id, n.owner)
	t.index.remove(t.index.hash(path), id)
	t.unlink(n)
	if n.kids != 0 {
		t.kids[n.kids] = nil
		t.spare = append(t.spare, n.kids)
	}
	t.arena.release(n.blob)
	t.acls.release(n.acl)
	t.nodes.release(id)
}

// kidsOf returns the list of parent's children, which it makes if there is none.
func (t *Tree) kidsOf(parent ID) *[]ID {
	p := t.nodes.at(parent)
	if p.kids == 0 {
		if k := len(t.spare); k > 0 {
			p.kids = t.spare[k-1]
			t.spare = t.spare[:k-1]
		} else {
			p.kids = uint32(len(t.kids))
			t.kids = append(t.kids, nil)
		}
	}
	return &t.kids[p.kids]
}

// unlink takes child out of its parent's children; the last one takes its place.
func (t *Tree) unlink(child *node) {
	list := &t.kids[t.nodes.at(child.parent).kids]
	last := len(*list) - 1
	moved := (*list)[last]
	(*list)[child.slot] = moved
	t.nodes.at(moved).slot = child.slot
	*list = (*list)[:last]
	if c := cap(*list); c > 64 && last < c/4 {
		*list = append(make([]ID, 0, c/2), *list...)
	}
}

// indexKind enters id into the set of its kind.
func (t *Tree) indexKind(id ID, owner int64) {
	switch t.opts.ownerKind(owner) {
	case kindEphemeral:
		s := zk.SessionID(owner)
		if t.ephemerals[s] == nil {
			t.ephemerals[s] = newIDSet()
		}
		t.ephemerals[s].add(id)
		t.ephCount++
	case kindContainer:
		t.containers[id] = struct{}{}
	case kindTTL:
		t.ttls[id] = struct{}{}
	}
}

func (t *Tree) unindexKind(id ID, owner int64) {
	switch t.opts.ownerKind(owner) {
	case kindEphemeral:
		s := zk.SessionID(owner)
		set := t.ephemerals[s]
		if set.remove(id); set.len() == 0 {
			delete(t.ephemerals, s)
		}
		t.ephCount--
	case kindContainer:
		delete(t.containers, id)
	case kindTTL:
		delete(t.ttls, id)
	}
}

func (t *Tree) addDigest(path string, n *node) {
	if !t.opts.NoDigest && InDigest(path) {
		m := n.mode()
		t.changeDigest(n.owner, uint64(m.Digest(n.sum, &t.scratch)))
	}
}

func (t *Tree) subDigest(path string, n *node) {
	if !t.opts.NoDigest && InDigest(path) {
		m := n.mode()
		t.changeDigest(n.owner, -uint64(m.Digest(n.sum, &t.scratch)))
	}
}

// changeDigest adds d to the digest of the tree, and to that of the set of a znode's owner.
func (t *Tree) changeDigest(owner int64, d uint64) {
	t.digest += d
	if owner != 0 && t.IsEphemeral(owner) {
		t.ephemerals[zk.SessionID(owner)].digest += d
	}
}
