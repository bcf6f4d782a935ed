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

// ErrSnapshot is wrapped by the errors of a Loader: the input is not the body of a
// snapshot.
var ErrSnapshot = errors.New("znode: bad snapshot")

// A Loader reads the body of a snapshot into a new tree. The input comes in pieces of
// any size; Load keeps none of it.
//
// Most of the time of loading would be spent on cache misses in the index. So the
// loader enters znodes into the index in batches, whose index entries are fetched
// together, and does not look up parents in the index: a snapshot is written depth
// first, so the parent of a znode is the previous znode or one of its ancestors.
type Loader struct {
	tree    *Tree
	acls    map[int64]aclID
	step    func(*Loader, *jute.Decoder) bool
	left    int32 // sessions or ACLs that remain to be read
	root    bool  // the root was read
	done    bool
	lastACL loadedACL // ACL of the previous znode

	path   []byte  // of the previous znode
	levels []level // its ancestors and itself, starting with the root

	waiting  [indexBatch]indexed // not entered into the index yet
	nWaiting int
	fetched  uint32 // what peek has read; its value does not matter

	// Unlisted counts znodes whose ACL id is not in the list, which Apache's fuzzy
	// snapshots may contain (ZOOKEEPER-4689). Every client may read and write them
	// until the log sets their ACL.
	Unlisted int
	// Newest is the greatest zxid of a Stat. A fuzzy snapshot has effects of transactions
	// up to it, at least.
	Newest zk.Zxid
}

// indexBatch is how many znodes are entered into the index together: more than a
// processor can fetch at once.
const indexBatch = 64

// indexed is an entry for the index, with all bits of the hash.
type indexed struct {
	hash uint64
	id   ID
}

// level is the last znode read, or one of its ancestors. If the last znode was not
// below the one before, not all of its ancestors are known.
type level struct {
	pathLen int // length of its path, a prefix of Loader.path
	id      ID
	sum     uint32 // CRC-32 of its path
}

// loadedACL is the ACL of an id in the file.
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

// Load reads all complete records of b and returns how many bytes they have. done
// reports that the end mark was read; the bytes after it are not part of the body. If n
// is 0 and done is false, the caller must call again with more bytes. An error wraps
// ErrSnapshot.
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

// Tree returns the loaded tree, once Load has returned done. zxid is the one in the
// snapshot's name.
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

// ensureSystemNodes adds the system znodes that snapshots of old servers lack.
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

// The steps read one record each. If the record is incomplete or wrong, they return
// false and change nothing but d.

func (l *Loader) sessionCount(d *jute.Decoder) bool { return l.count(d, (*Loader).session) }

func (l *Loader) aclCount(d *jute.Decoder) bool { return l.count(d, (*Loader).acl) }

// count reads the number of records for next.
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
		e.uses-- // its znodes are counted when they are read
	}
	l.acls[fileID] = id
	return true
}

// fixedBytes is the length of a znode's record after path and data.
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
	l.Newest = max(l.Newest, m.Mzxid, m.Pzxid)
	if err := l.put(path, data, l.aclOf(long(0)), &m); err != nil {
		d.Fail(err)
		return false
	}
	*d = jute.NewDecoder(b[fixedBytes:])
	return true
}

// end checks the tree at the end mark.
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

// aclOf returns the ACL with an id in the file, and counts a znode with it.
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

// put adds one znode. A path that already exists, or has no parent, is an error;
// enterWaiting reports one that already exists later.
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
		return errors.New("the root occurs twice")
	}
	if m.Owner != 0 {
		return fmt.Errorf("the root has the owner %#x", uint64(m.Owner))
	}
	l.root = true
	l.tree.setRoot(data, acl, m)
	return nil
}

// descend removes levels until path is the last one's path; it returns false if no
// level has this path.
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

// jump makes the znode at path the last level, with the root as the only other level.
// All znodes must be in the index. It returns false if there is no such znode.
func (l *Loader) jump(path string) bool {
	id := l.tree.Lookup(path)
	if id == 0 {
		return false
	}
	l.path = append(l.path[:0], path...)
	l.levels = append(l.levels[:1], level{len(path), id, Sum(path, nil)})
	return true
}

// enterWaiting enters the waiting znodes into the index.
func (l *Loader) enterWaiting() error {
	t, batch := l.tree, l.waiting[:l.nWaiting]
	for _, w := range batch {
		l.fetched += t.index.peek(w.hash) // the reads do not wait for each other
	}
	l.nWaiting = 0
	for _, w := range batch {
		if !t.enter(w.hash, w.id) {
			return fmt.Errorf("znode %q occurs twice", t.Path(w.id))
		}
	}
	return nil
}

// setRoot sets the loaded data of the root, which every tree has from the start.
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
