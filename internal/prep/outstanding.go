package prep

import (
	"slices"

	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// change is what a znode will be once the transaction zxid is applied.
type change struct {
	zxid    zk.Zxid
	gone    bool // it will not exist
	mode    znode.Mode
	sum     uint32 // of path and data, see znode.Sum
	kids    int    // number of children
	dataLen int
	acl     []zk.ACL // never aliases a request
}

// outstanding holds the newest change of each path that has any.
//
// Invariant: changes[path].zxid is the zxid of the last entry of order with
// that path.
type outstanding struct {
	changes map[string]change
	order   []changeRef // ascending by zxid
	undo    []undo      // of the multi that is being prepared
	inMulti bool
}

type changeRef struct {
	zxid zk.Zxid
	path string
}

// undo remembers what a path had before a multi changed it.
type undo struct {
	path string
	old  change
	had  bool
}

func newOutstanding() outstanding { return outstanding{changes: map[string]change{}} }

// set makes c the newest change of path.
func (o *outstanding) set(path string, c change) {
	if o.inMulti {
		old, had := o.changes[path]
		o.undo = append(o.undo, undo{path, old, had})
	}
	o.changes[path] = c
	o.order = append(o.order, changeRef{c.zxid, path})
}

// applied forgets what is in the tree now.
func (o *outstanding) applied(z zk.Zxid) {
	n := 0
	for ; n < len(o.order) && o.order[n].zxid <= z; n++ {
		path := o.order[n].path
		if c, ok := o.changes[path]; ok && c.zxid == o.order[n].zxid {
			delete(o.changes, path)
		}
	}
	o.order = slices.Delete(o.order, 0, n)
}

// begin and commit enclose the changes of a multi; rollback undoes them.
func (o *outstanding) begin() { o.inMulti, o.undo = true, o.undo[:0] }

func (o *outstanding) commit() { o.inMulti = false }

func (o *outstanding) rollback() {
	o.inMulti = false
	for _, u := range slices.Backward(o.undo) {
		if u.had {
			o.changes[u.path] = u.old
		} else {
			delete(o.changes, u.path)
		}
	}
	o.order = o.order[:len(o.order)-len(o.undo)]
}

// get returns the projected znode at path; ok is false if there is none.
func (p *Preparer) get(path string) (c change, ok bool) {
	if c, ok := p.out.changes[path]; ok {
		return c, !c.gone
	}
	id := p.tree.Lookup(path)
	if id == 0 {
		return change{}, false
	}
	return change{
		mode: p.tree.Mode(id), sum: p.tree.Sum(id), kids: p.tree.NumChildren(id),
		dataLen: p.tree.DataLen(id), acl: p.tree.ACL(id),
	}, true
}

// put replaces the projected znode at path, which was old, by c. A znode that
// is new has no old.
func (p *Preparer) put(h *txn.Header, path string, old *change, c change) {
	c.zxid = h.Zxid
	if znode.InDigest(path) && p.cfg.DigestEnabled {
		if old != nil {
			p.digest -= uint64(old.mode.Digest(old.sum, &p.scratch))
		}
		if !c.gone {
			p.digest += uint64(c.mode.Digest(c.sum, &p.scratch))
		}
	}
	p.out.set(path, c)
}

// removeChange projects the deletion of the znode c at path.
func (p *Preparer) removeChange(h *txn.Header, path string, c change) {
	parentPath := parentOf(path)
	if parent, ok := p.get(parentPath); ok {
		changed := parent
		changed.kids--
		changed.mode.Pzxid = max(changed.mode.Pzxid, h.Zxid)
		p.put(h, parentPath, &parent, changed)
	}
	p.put(h, path, &c, change{gone: true})
}

// ephemerals returns the paths of the projected ephemerals of session, sorted.
func (p *Preparer) ephemerals(session zk.SessionID) []string {
	var paths []string
	p.tree.Ephemerals(session, func(path string) {
		if _, changed := p.out.changes[path]; !changed {
			paths = append(paths, path)
		}
	})
	for path, c := range p.out.changes {
		if !c.gone && c.mode.Owner == int64(session) {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}
