package znode

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

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

// ErrSnapshot is wrapped by the errors of a Loader: the input is no snapshot's
// body.
var ErrSnapshot = errors.New("znode: bad snapshot")

// A Loader reads a snapshot's body into a fresh tree. The input comes in pieces
// of any size; Load keeps nothing of it.
type Loader struct {
	tree *Tree
	acls map[int64]aclID
	step func(*Loader, *jute.Decoder) bool
	left int32 // sessions or ACLs still to come
	root bool  // the root was read
	done bool
	last lastParent
	// Unlisted counts znodes whose ACL id is not in the list, which Apache's
	// fuzzy snapshots can have (ZOOKEEPER-4689). They are readable and writable
	// by everybody until the log sets their ACL.
	Unlisted int
}

// lastParent remembers where the last znode was put: siblings follow each other.
type lastParent struct {
	path string
	id   ID
}

// NewLoader returns a loader for a tree with opts.
func NewLoader(opts Options) *Loader {
	t := newEmpty(opts)
	return &Loader{tree: t, acls: map[int64]aclID{openID: 0}, step: (*Loader).sessionCount}
}

// Load reads as many whole records as b has and returns how many bytes they
// took. done means that the end mark was among them; what follows it is not
// the body's. When neither is a byte taken nor done, the caller must come with
// more bytes. An error wraps ErrSnapshot.
func (l *Loader) Load(b []byte) (n int, done bool, err error) {
	d := jute.NewDecoder(b)
	for !l.done {
		before := d
		if !l.step(l, &d) {
			if err := d.Err(); errors.Is(err, jute.ErrShort) || errors.Is(err, jute.ErrLength) {
				d = before
				break
			}
			return 0, false, fmt.Errorf("%w: %w", ErrSnapshot, d.Err())
		}
	}
	return len(b) - d.Len(), l.done, nil
}

// Tree returns the loaded tree, once Load has said done. zxid is the snapshot's
// name.
func (l *Loader) Tree(zxid zk.Zxid) *Tree {
	t := l.tree
	for _, id := range t.acls.ids() {
		if t.acls.byID[id].uses == 0 {
			t.acls.release(id)
		}
	}
	t.lastZxid = zxid
	t.ensureSystemNodes()
	t.setupQuotas()
	return t
}

// ensureSystemNodes adds what snapshots of old servers do not have.
func (t *Tree) ensureSystemNodes() {
	for _, path := range []string{systemPath, quotaPath} {
		if t.Lookup(path) == 0 {
			t.insert(path, []byte{}, 0, Mode{})
		}
	}
	if t.Lookup(ConfigPath) == 0 {
		t.insertConfig()
	}
}

// The steps read one record each. They report false, and change nothing but d,
// for one that is not whole or not right.

func (l *Loader) sessionCount(d *jute.Decoder) bool { return l.count(d, (*Loader).session) }

func (l *Loader) aclCount(d *jute.Decoder) bool { return l.count(d, (*Loader).acl) }

// count reads how many records there are for next.
func (l *Loader) count(d *jute.Decoder, next func(*Loader, *jute.Decoder) bool) bool {
	n := d.Int()
	if n < 0 {
		d.Fail(fmt.Errorf("count %d", n))
	}
	if d.Err() != nil {
		return false
	}
	l.left, l.step = n, next
	return true
}

func (l *Loader) session(d *jute.Decoder) bool {
	if l.left == 0 {
		l.step = (*Loader).aclCount
		return true
	}
	id, timeout := zk.SessionID(d.Long()), d.Int()
	if d.Err() != nil {
		return false
	}
	l.left--
	l.tree.sessions[id] = timeout
	return true
}

func (l *Loader) acl(d *jute.Decoder) bool {
	if l.left == 0 {
		l.step = (*Loader).node
		return true
	}
	fileID, list := d.Long(), wire.DecodeACL(d)
	if d.Err() != nil {
		return false
	}
	l.left--
	if _, twice := l.acls[fileID]; twice {
		d.Fail(fmt.Errorf("ACL %d is listed twice", fileID))
		return false
	}
	c := &l.tree.acls
	id := c.use(list)
	if e := c.byID[id]; e != nil {
		e.uses-- // its znodes will count themselves
	}
	l.acls[fileID] = id
	return true
}

func (l *Loader) node(d *jute.Decoder) bool {
	path := d.String()
	if d.Err() != nil {
		return false
	}
	if path == "/" {
		if l.done = l.root; !l.done {
			d.Fail(errors.New("it has no root"))
		}
		return l.done
	}
	data, fileACL := d.Buffer(), d.Long()
	m := Mode{
		Czxid: zk.Zxid(d.Long()), Mzxid: zk.Zxid(d.Long()), Ctime: d.Long(), Mtime: d.Long(),
		Version: d.Int(), Cversion: d.Int(), Aversion: d.Int(), Owner: d.Long(), Pzxid: zk.Zxid(d.Long()),
	}
	if d.Err() != nil {
		return false
	}
	acl, ok := l.acls[fileACL]
	if !ok {
		l.Unlisted++
	}
	if err := l.put(path, data, acl, m); err != nil {
		d.Fail(err)
		return false
	}
	return true
}

// put adds one znode; a path that is there already or has no parent means that
// this is no snapshot.
func (l *Loader) put(path string, data []byte, acl aclID, m Mode) error {
	t := l.tree
	t.newest = max(t.newest, m.Czxid)
	if path == "" {
		if l.root {
			return errors.New("the root is there twice")
		}
		if m.Owner != 0 {
			return fmt.Errorf("the root has the owner %#x", uint64(m.Owner))
		}
		l.root = true
		t.setRoot(data, acl, m)
		return nil
	}
	parentPath, name, ok := split(path)
	if !ok {
		return fmt.Errorf("znode %q", path)
	}
	parent := l.parentOf(parentPath)
	if parent == 0 || !l.root {
		return fmt.Errorf("znode %q comes before its parent", path)
	}
	hash := t.index.hash(path)
	if t.lookupHash(hash, path) != 0 {
		return fmt.Errorf("znode %q is there twice", path)
	}
	if e := t.acls.byID[acl]; e != nil {
		e.uses++
	}
	t.insertUnder(parent, hash, path, name, data, acl, m)
	return nil
}

func (l *Loader) parentOf(path string) ID {
	if l.last.id == 0 || path != l.last.path {
		l.last = lastParent{strings.Clone(path), l.tree.Lookup(path)}
	}
	return l.last.id
}

// setRoot gives the root, which every tree has from the start, its loaded data.
func (t *Tree) setRoot(data []byte, acl aclID, m Mode) {
	n := t.nodes.at(rootID)
	t.subDigest("/", n)
	old := n.blob
	t.size += int64(len(data)) - int64(max(n.dataLen, 0))
	t.fill(n, "", data)
	t.arena.release(old)
	n.sum = Sum("", data)
	if e := t.acls.byID[acl]; e != nil {
		e.uses++
	}
	n.acl = acl
	n.czxid, n.mzxid, n.pzxid, n.ctime, n.mtime = m.Czxid, m.Mzxid, m.Pzxid, m.Ctime, m.Mtime
	n.version, n.cversion, n.aversion, n.owner = m.Version, m.Cversion, m.Aversion, m.Owner
	t.addDigest("/", n)
}
