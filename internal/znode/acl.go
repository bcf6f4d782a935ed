package znode

import (
	"maps"
	"slices"
	"strings"

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
	open  []zk.ACL
}

type aclEntry struct {
	acl  []zk.ACL
	uses int
}

func newACLCache() aclCache {
	return aclCache{
		byID: map[aclID]*aclEntry{}, byKey: map[string]aclID{}, next: 1, open: zk.OpenACLUnsafe(),
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
	k := aclKey(buf[:0], acl)
	if id, ok := c.byKey[string(k)]; ok {
		c.byID[id].uses++
		return id
	}
	id := c.next
	c.next++
	c.put(id, acl)
	c.byID[id].uses = 1
	return id
}

// put adds a copy of acl without counting a znode.
func (c *aclCache) put(id aclID, acl []zk.ACL) {
	own := slices.Clone(acl)
	for i, a := range own {
		own[i].ID = zk.ID{Scheme: strings.Clone(a.ID.Scheme), ID: strings.Clone(a.ID.ID)}
	}
	c.byID[id] = &aclEntry{acl: own}
	c.byKey[string(aclKey(nil, own))] = id
}

// release counts one znode less.
func (c *aclCache) release(id aclID) {
	e := c.byID[id]
	if e == nil {
		return
	}
	if e.uses--; e.uses <= 0 {
		delete(c.byID, id)
		delete(c.byKey, string(aclKey(nil, e.acl)))
	}
}

// list returns the ACL of id. A caller must not change it. It remains valid after the
// entry is removed.
func (c *aclCache) list(id aclID) []zk.ACL {
	if e := c.byID[id]; e != nil {
		return e.acl
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
