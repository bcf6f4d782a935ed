package znode

import (
	"bytes"
	"maps"
	"slices"
	"unsafe"

	"github.com/pinfold-zk/pinfold/internal/access"
	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// aclID identifies an interned ACL. 0 is the open ACL, which files write as -1 and
// never list.
type aclID uint32

// openID is the id of the open ACL (aclID 0) in a snapshot.
const openID int64 = -1

// aclCache interns ACLs: the millions of znodes of a tree share a few. Each entry
// counts its znodes and is removed with the last one.
type aclCache struct {
	byID  map[aclID]*aclEntry
	byKey map[string]aclID
	next  aclID
	open  *access.List
	// prepared holds the copies of Prepare, by the first entry of the original.
	prepared map[*zk.ACL]preparedACL
}

type aclEntry struct {
	list *access.List
	key  []byte // never changed: the list's strings lie in it
	uses int
}

func newACLCache() aclCache {
	return aclCache{
		byID: map[aclID]*aclEntry{}, byKey: map[string]aclID{}, next: 1, open: access.New(zk.OpenACLUnsafe()),
	}
}

func isOpen(acl []zk.ACL) bool {
	return len(acl) == 1 && acl[0].Perms == zk.PermAll && acl[0].ID == zk.AnyoneUnsafe
}

// aclKey appends to b a key that is equal for two lists if and only if the lists are
// equal. Strings have length prefixes, because an identity may contain any byte.
func aclKey(b []byte, acl []zk.ACL) []byte { return wire.AppendACL(b, acl) }

// use returns the id of acl and counts one more znode. It keeps no reference to acl.
func (c *aclCache) use(acl []zk.ACL) aclID {
	if isOpen(acl) || acl == nil {
		return 0
	}
	var buf [256]byte
	k, list := buf[:0], (*access.List)(nil)
	if len(acl) >= longACL && c.prepared != nil {
		p := c.prepared[&acl[0]]
		k, list = p.key, p.list
	}
	if list == nil {
		k = aclKey(k, acl)
	}
	if id, ok := c.byKey[string(k)]; ok {
		c.byID[id].uses++
		return id
	}
	if list == nil {
		k, list = ownedACL(k)
	}
	id := c.next
	c.next++
	c.byID[id] = &aclEntry{list: list, key: k, uses: 1}
	c.byKey[unsafe.String(unsafe.SliceData(k), len(k))] = id
	return id
}

// ownedACL returns a copy of a key, and the list that it is the key of. The strings of
// the list are parts of the key: two allocations, however long it is.
func ownedACL(k []byte) (key []byte, list *access.List) {
	key = bytes.Clone(k)
	d := jute.NewDecoder(key)
	return key, access.New(wire.DecodeACL(&d))
}

// longACL is from how many entries an ACL is prepared.
const longACL = 64

// preparedACL is the copy of an ACL that use keeps if the ACL is new.
type preparedACL struct {
	key  []byte
	list *access.List
}

// prepare copies acl if it is long.
func (c *aclCache) prepare(acl []zk.ACL, index func(*access.List)) {
	if len(acl) < longACL {
		return
	}
	if _, done := c.prepared[&acl[0]]; done {
		return // operations of a multi share it
	}
	if c.prepared == nil {
		c.prepared = map[*zk.ACL]preparedACL{}
	}
	key, list := ownedACL(aclKey(nil, acl))
	index(list)
	c.prepared[&acl[0]] = preparedACL{key, list}
}

// release counts one znode less.
func (c *aclCache) release(id aclID) {
	if id == 0 {
		return
	}
	e := c.byID[id]
	if e == nil {
		return
	}
	if e.uses--; e.uses <= 0 {
		delete(c.byID, id)
		delete(c.byKey, string(e.key))
	}
}

// list returns the ACL of id. A caller must not change it. It remains valid after the
// entry is removed.
func (c *aclCache) list(id aclID) *access.List {
	if id == 0 {
		return c.open
	}
	if e := c.byID[id]; e != nil {
		return e.list
	}
	return c.open
}

// ids returns the ids in use in ascending order.
func (c *aclCache) ids() []aclID { return slices.Sorted(maps.Keys(c.byID)) }

// fileID returns the id of an ACL in a snapshot.
func (id aclID) fileID() int64 {
	if id == 0 {
		return openID
	}
	return int64(id)
}
