package znode

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"unsafe"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// ErrSnapshot is wrapped by the errors of a Loader: the input is no snapshot's
// body.
var ErrSnapshot = errors.New("znode: bad snapshot")

// A Loader reads a snapshot's body into a fresh tree. The input comes in pieces
// of any size; Load keeps nothing of it.
//
// Most of the time of loading would be spent waiting for memory, at the places of
// the index that the hashes of paths name. So znodes are entered into the index
// some at a time, their places fetched together, and the index is not asked for
// parents: a snapshot is written depth first, which puts a znode's parent among
// the ancestors of the znode before it, or makes it that znode itself.
type Loader struct {
	tree    *Tree
	acls    map[int64]aclID
	step    func(*Loader, *jute.Decoder) bool
	left    int32 // sessions or ACLs still to come
	root    bool  // the root was read
	done    bool
	lastACL loadedACL // of the znode before

	path   []byte  // of the znode before
	levels []level // its ancestors and itself, from the root down

	waiting  [indexBatch]indexed // to be entered into the index
	nWaiting int
	fetched  uint32 // what fetching their places has read: nothing that matters

	// Unlisted counts znodes whose ACL id is not in the list, which Apache's
	// fuzzy snapshots can have (ZOOKEEPER-4689). They are readable and writable
	// by everybody until the log sets their ACL.
	Unlisted int
}

// indexBatch is how many znodes are entered into the index together: more than
// a processor can fetch at once.
const indexBatch = 64

// indexed is an entry of the index, with all bits of the hash.
type indexed struct {
	hash uint64
	id   ID
}

// level is a znode that is an ancestor of the one read last, or that one. Where
// a znode was not below the one before, not all ancestors are known.
type level struct {
	pathLen int // its path is that much of Loader.path
	id      ID
	sum     uint32 // CRC-32 of its path
}

// loadedACL is what a file's ACL id stands for.
type loadedACL struct {
	fileID int64
	id     aclID
	entry  *aclEntry // nil for the open ACL
	listed bool
}

// NewLoader returns a loader for a tree with opts.
func NewLoader(opts Options) *Loader {
	t := newEmpty(opts)
	return &Loader{
		tree: t, acls: map[int64]aclID{openID: 0}, step: (*Loader).sessionCount,
		lastACL: loadedACL{fileID: openID, listed: true}, levels: []level{{id: rootID}},
	}
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

// fixedBytes is the length of what follows a znode's path and data.
const fixedBytes = 68

func (l *Loader) node(d *jute.Decoder) bool {
	path := d.String()
	if d.Err() != nil {
		return false
	}
	if path == "/" {
		if err := l.end(); err != nil {
			d.Fail(err)
		}
		return l.done
	}
	data := d.Buffer()
	b := d.Rest()
	if d.Err() != nil || len(b) < fixedBytes {
		d.Fail(jute.ErrShort)
		return false
	}
	long := func(i int) int64 { return int64(binary.BigEndian.Uint64(b[i:])) }
	num := func(i int) int32 { return int32(binary.BigEndian.Uint32(b[i:])) }
	m := Mode{
		Czxid: zk.Zxid(long(8)), Mzxid: zk.Zxid(long(16)), Ctime: long(24), Mtime: long(32),
		Version: num(40), Cversion: num(44), Aversion: num(48), Owner: long(52), Pzxid: zk.Zxid(long(60)),
	}
	if err := l.put(path, data, l.aclOf(long(0)), &m); err != nil {
		d.Fail(err)
		return false
	}
	*d = jute.NewDecoder(b[fixedBytes:])
	return true
}

// end is called at the end mark.
func (l *Loader) end() error {
	if !l.root {
		return errors.New("it has no root")
	}
	if err := l.enterWaiting(); err != nil {
		return err
	}
	l.done = true
	return nil
}

// aclOf finds an ACL by its id in the file, and counts a znode that has it.
func (l *Loader) aclOf(fileID int64) aclID {
	if fileID != l.lastACL.fileID {
		id, listed := l.acls[fileID]
		l.lastACL = loadedACL{fileID, id, l.tree.acls.byID[id], listed}
	}
	if !l.lastACL.listed {
		l.Unlisted++
	}
	if e := l.lastACL.entry; e != nil {
		e.uses++
	}
	return l.lastACL.id
}

// put adds one znode; a path that is there already or has no parent means that
// this is no snapshot. One that is there already is told with some delay.
func (l *Loader) put(path string, data []byte, acl aclID, m *Mode) error {
	t := l.tree
	t.newest = max(t.newest, m.Czxid)
	if path == "" {
		return l.putRoot(data, acl, m)
	}
	parentPath, name, ok := split(path)
	if !ok {
		return fmt.Errorf("znode %q", path)
	}
	if !l.root || !l.descend(parentPath) {
		if err := l.enterWaiting(); err != nil {
			return err
		}
		if !l.root || !l.jump(parentPath) {
			return fmt.Errorf("znode %q comes before its parent", path)
		}
	}
	parent := l.levels[len(l.levels)-1]
	own := path[len(parentPath):]
	sum := crc32.Update(parent.sum, crc32.IEEETable, unsafe.Slice(unsafe.StringData(own), len(own)))
	id := t.link(parent.id, name, data, acl, m)
	t.account(id, path, crc32.Update(sum, crc32.IEEETable, data))
	l.path = append(l.path, own...)
	l.levels = append(l.levels, level{len(l.path), id, sum})
	l.waiting[l.nWaiting] = indexed{t.index.hash(path), id}
	if l.nWaiting++; l.nWaiting == len(l.waiting) {
		return l.enterWaiting()
	}
	return nil
}

func (l *Loader) putRoot(data []byte, acl aclID, m *Mode) error {
	if l.root {
		return errors.New("the root is there twice")
	}
	if m.Owner != 0 {
		return fmt.Errorf("the root has the owner %#x", uint64(m.Owner))
	}
	l.root = true
	l.tree.setRoot(data, acl, m)
	return nil
}

// descend makes path, if it is the path of a level, the last level's.
func (l *Loader) descend(path string) bool {
	i := len(l.levels) - 1
	for l.levels[i].pathLen > len(path) {
		i--
	}
	if l.levels[i].pathLen != len(path) || string(l.path[:len(path)]) != path {
		return false
	}
	l.levels, l.path = l.levels[:i+1], l.path[:len(path)]
	return true
}

// jump makes the znode at path the last level, wherever it is, and the only one
// but the root. All znodes must be in the index. It reports false if there is
// none.
func (l *Loader) jump(path string) bool {
	id := l.tree.Lookup(path)
	if id == 0 {
		return false
	}
	l.path = append(l.path[:0], path...)
	l.levels = append(l.levels[:1], level{len(path), id, Sum(path, nil)})
	return true
}

// enterWaiting enters into the index what waits for that.
func (l *Loader) enterWaiting() error {
	t, batch := l.tree, l.waiting[:l.nWaiting]
	for _, w := range batch {
		l.fetched += t.index.peek(w.hash) // one does not wait for the other
	}
	l.nWaiting = 0
	for _, w := range batch {
		if !t.enter(w.hash, w.id) {
			return fmt.Errorf("znode %q is there twice", t.Path(w.id))
		}
	}
	return nil
}

// setRoot gives the root, which every tree has from the start, its loaded data.
func (t *Tree) setRoot(data []byte, acl aclID, m *Mode) {
	n := t.nodes.at(rootID)
	t.subDigest("/", n)
	old := n.blob
	t.size += int64(len(data)) - int64(max(n.dataLen, 0))
	t.fill(n, "", data)
	t.arena.release(old)
	n.sum = Sum("", data)
	n.acl = acl
	n.czxid, n.mzxid, n.pzxid, n.ctime, n.mtime = m.Czxid, m.Mzxid, m.Pzxid, m.Ctime, m.Mtime
	n.version, n.cversion, n.aversion, n.owner = m.Version, m.Cversion, m.Aversion, m.Owner
	t.addDigest("/", n)
}
