package znode

import (
	"fmt"
	"slices"
	"strings"
)

// check verifies the invariants of the package's documentation and returns the
// first that does not hold.
func (t *Tree) check() error {
	c := newChecker(t)
	if err := c.visit(rootID, ""); err != nil {
		return err
	}
	indexed, ephemerals := 0, 0
	for i := range t.index.parts {
		indexed += t.index.parts[i].used
	}
	for s, ids := range t.ephemerals {
		if n := len(slices.Collect(ids.all())); n == 0 || n != ids.len() {
			return fmt.Errorf("session %v has a wrong set of ephemerals", s)
		}
		ephemerals += ids.len()
		if ids.digest != c.digests[int64(s)] && !t.opts.NoDigest {
			return fmt.Errorf("session %v has the digest %d, kept %d", s, c.digests[int64(s)], ids.digest)
		}
	}
	free := 0
	for id := t.nodes.free; id != 0; id = t.nodes.at(id).parent {
		free++
	}
	for id, e := range t.acls.byID {
		if c.uses[id] != e.uses || e.uses == 0 {
			return fmt.Errorf("ACL %d has %d uses, says %d", id, c.uses[id], e.uses)
		}
	}
	for _, count := range []struct {
		what      string
		got, want int64
	}{
		{"znodes", int64(t.count), int64(c.nodes)},
		{"IDs", int64(t.nodes.fresh - rootID), int64(c.nodes + free)},
		{"free nodes", int64(t.nodes.freed), int64(free)},
		{"entries of the index", int64(indexed), int64(c.nodes - 1)},
		{"ephemerals in sets", int64(ephemerals), int64(c.kinds[kindEphemeral])},
		{"ephemerals", int64(t.ephCount), int64(c.kinds[kindEphemeral])},
		{"containers", int64(len(t.containers)), int64(c.kinds[kindContainer])},
		{"TTL znodes", int64(len(t.ttls)), int64(c.kinds[kindTTL])},
		{"bytes", t.size, c.size},
		{"bytes of the arena", t.arena.inUse, c.slots},
		{"quotas", int64(len(t.quotas)), int64(c.quotas)},
		{"ACLs", int64(len(t.acls.byID)), int64(len(c.uses))},
		{"ACL keys", int64(len(t.acls.byKey)), int64(len(c.uses))},
		{"lists of children", int64(len(t.kids) - 1 - len(t.spare)), int64(c.lists)},
	} {
		if count.got != count.want {
			return fmt.Errorf("%d %s, want %d", count.got, count.what, count.want)
		}
	}
	if c.digest != t.digest && !t.opts.NoDigest {
		return fmt.Errorf("digest %d, kept %d", c.digest, t.digest)
	}
	return nil
}

// checker counts what is there while it visits every znode.
type checker struct {
	tree   *Tree
	nodes  int
	lists  int
	quotas int
	kinds  [kindTTL + 1]int
	uses   map[aclID]int
	digest uint64
	size   int64
	slots  int64

	digests map[int64]uint64 // by owner
}

func newChecker(t *Tree) *checker {
	return &checker{tree: t, uses: map[aclID]int{}, digests: map[int64]uint64{}}
}

func (c *checker) visit(id ID, path string) error {
	t, n := c.tree, c.tree.nodes.at(id)
	c.count(n, path)
	if n.sum != Sum(path, t.data(n)) {
		return fmt.Errorf("%q: sum is stale", path)
	}
	if got := t.Lookup(path); got != id {
		return fmt.Errorf("Lookup(%q) = %d, want %d", path, got, id)
	}
	if got := t.Path(id); path != "" && got != path {
		return fmt.Errorf("Path(%d) = %q, want %q", id, got, path)
	}
	if !c.inSet(id, n) {
		return fmt.Errorf("%q is not in the set of its kind", path)
	}
	if _, ok := t.quotas[strings.TrimSuffix(strings.TrimPrefix(path, quotaPath), limitsSuffix)]; !ok && isLimits(path) {
		return fmt.Errorf("%q has no quota", path)
	}
	for i, k := range t.kids[n.kids] {
		kid := t.nodes.at(k)
		if kid.parent != id || int(kid.slot) != i {
			return fmt.Errorf("%q: child %d has parent %d slot %d", path, k, kid.parent, kid.slot)
		}
		if err := c.visit(k, path+"/"+t.name(kid)); err != nil {
			return err
		}
	}
	return nil
}

func isLimits(path string) bool {
	return strings.HasPrefix(path, quotaPrefix) && strings.HasSuffix(path, limitsSuffix)
}

func (c *checker) count(n *node, path string) {
	m := n.mode()
	c.nodes++
	c.size += int64(len(path)) + int64(max(n.dataLen, 0))
	c.kinds[c.tree.opts.ownerKind(n.owner)]++
	if n.kids != 0 {
		c.lists++
	}
	if n.acl != 0 {
		c.uses[n.acl]++
	}
	if isLimits(path) {
		c.quotas++
	}
	if InDigest(path) {
		d := uint64(m.Digest(Sum(path, c.tree.data(n)), new(Scratch)))
		c.digest += d
		c.digests[n.owner] += d
	}
	switch size := int(n.nameLen) + int(max(n.dataLen, 0)); {
	case size > maxSlot:
		c.slots += int64(size)
	case size > 0:
		c.slots += int64(classSizes[classOf[(size+slotGrain-1)/slotGrain]])
	}
}

func (c *checker) inSet(id ID, n *node) (ok bool) {
	switch c.tree.opts.ownerKind(n.owner) {
	case kindEphemeral:
		for s, ids := range c.tree.ephemerals {
			if ids.words[id/wordBits]>>(id%wordBits)&1 == 1 && int64(s) == n.owner {
				return true
			}
		}
		return false
	case kindContainer:
		_, ok = c.tree.containers[id]
	case kindTTL:
		_, ok = c.tree.ttls[id]
	default:
		ok = true
	}
	return ok
}
