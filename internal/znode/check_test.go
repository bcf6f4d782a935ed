package znode

import "fmt"

// check verifies the invariants of the package's documentation and returns the
// first that does not hold.
func (t *Tree) check() error {
	nodes, ephemerals, digest, size := 0, 0, uint64(0), int64(0)
	var visit func(id ID, path string) error
	visit = func(id ID, path string) error {
		nodes++
		n := t.nodes.at(id)
		size += int64(len(path)) + int64(max(n.dataLen, 0))
		m := n.mode()
		if InDigest(path) {
			digest += uint64(m.Digest(Sum(path, t.data(n)), new(Scratch)))
		}
		if n.sum != Sum(path, t.data(n)) {
			return fmt.Errorf("%q: sum is stale", path)
		}
		if got := t.Lookup(path); got != id {
			return fmt.Errorf("Lookup(%q) = %d, want %d", path, got, id)
		}
		if got := t.Path(id); path != "" && got != path {
			return fmt.Errorf("Path(%d) = %q, want %q", id, got, path)
		}
		if t.opts.ownerKind(n.owner) == kindEphemeral {
			ephemerals++
		}
		for i, k := range t.kids[n.kids] {
			c := t.nodes.at(k)
			if c.parent != id || int(c.slot) != i {
				return fmt.Errorf("%q: child %d has parent %d slot %d", path, k, c.parent, c.slot)
			}
			if err := visit(k, path+"/"+t.name(c)); err != nil {
				return err
			}
		}
		return nil
	}
	if err := visit(rootID, ""); err != nil {
		return err
	}
	indexed := 0
	for i := range t.index.parts {
		indexed += t.index.parts[i].used
	}
	switch {
	case nodes != t.count:
		return fmt.Errorf("%d znodes, count says %d", nodes, t.count)
	case indexed != nodes-1:
		return fmt.Errorf("%d znodes in the index, want %d", indexed, nodes-1)
	case ephemerals != t.ephCount:
		return fmt.Errorf("%d ephemerals, count says %d", ephemerals, t.ephCount)
	case size != t.size:
		return fmt.Errorf("%d bytes, size says %d", size, t.size)
	case digest != t.digest && !t.opts.NoDigest:
		return fmt.Errorf("digest %d, kept %d", digest, t.digest)
	}
	return nil
}
