package prep

import (
	"slices"

	"github.com/pinfold-zk/pinfold/internal/access"
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
	acl     *access.List // never aliases a request
}

// outstanding holds the newest change of each path that has any.
//
// Invariants: changes[path].zxid is the zxid of the last entry of order with
// that path. creating counts the entries of order that have a creator.
type outstanding struct {
	changes  map[string]change
	order    []changeRef // ascending by zxid
	creating map[zk.SessionID]int
	closing  map[zk.SessionID]zk.Zxid // sessions whose ephemerals in the tree will be deleted, by zxid
	undo     []undo                   // of the multi that is being prepared
	inMulti  bool
}

type changeRef struct {
	zxid    zk.Zxid
	path    string
	creator zk.SessionID // of a new ephemeral, otherwise 0
}

// undo remembers what a path had before a multi changed it.
type undo struct {
	path string
	old  change
	had  bool
}

func newOutstanding() outstanding {
	return outstanding{changes: map[string]change{}, creating: map[zk.SessionID]int{}, closing: map[zk.SessionID]zk.Zxid{}}
}

// set makes c the newest change of path, which it keeps. creator is the session
// of an ephemeral that is new with this change, otherwise 0.
func (o *outstanding) set(path string, c change, creator zk.SessionID) {
	if o.inMulti {
		old, had := o.changes[path]
		o.undo = append(o.undo, undo{path, old, had})
	}
	o.changes[path] = c
	o.order = append(o.order, changeRef{c.zxid, path, creator})
	if creator != 0 {
		o.creating[creator]++
	}
}

// applied forgets what is in the tree now.
func (o *outstanding) applied(z zk.Zxid) {
	for session, closed := range o.closing {
		if closed <= z {
			delete(o.closing, session)
		}
	}
	n := 0
	for ; n < len(o.order) && o.order[n].zxid <= z; n++ {
		ref := &o.order[n]
		if c, ok := o.changes[ref.path]; ok && c.zxid == ref.zxid {
			delete(o.changes, ref.path)
		}
		o.created(ref.creator)
	}
	if n < len(o.order)/2 {
		clear(o.order[:n])
		o.order = o.order[n:] // to move the rest would cost more than what is gone
		return
	}
	o.order = slices.Delete(o.order, 0, n)
}

// created counts one outstanding creation of an ephemeral less.
func (o *outstanding) created(creator zk.SessionID) {
	if creator == 0 {
		return
	}
	if o.creating[creator]--; o.creating[creator] == 0 {
		delete(o.creating, creator)
	}
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
	kept := len(o.order) - len(o.undo)
	for i := range o.order[kept:] {
		o.created(o.order[kept+i].creator)
	}
	o.order = o.order[:kept]
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
	mode := p.tree.Mode(id)
	if len(p.out.closing) > 0 && p.tree.IsEphemeral(mode.Owner) {
		if _, gone := p.out.closing[zk.SessionID(mode.Owner)]; gone {
			return change{}, false
		}
	}
	return change{
		mode: mode, sum: p.tree.Sum(id), kids: p.tree.NumChildren(id),
		dataLen: p.tree.DataLen(id), acl: p.tree.ACL(id),
	}, true
}

// put replaces the projected znode at path, which was old, by c. A znode that
// is new has no old. It keeps path.
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
	creator := zk.SessionID(0)
	if old == nil && p.tree.IsEphemeral(c.mode.Owner) {
		creator = zk.SessionID(c.mode.Owner)
	}
	p.out.set(path, c, creator)
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
