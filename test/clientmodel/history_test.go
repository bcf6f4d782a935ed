package clientmodel

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/inproc"
	"github.com/pinfold-zk/pinfold/zk"
)

// history is what the server's log says.
type history struct {
	znodes  map[string]*znode // at the end
	past    map[string][]version
	changes []change
	marked  map[int][]written // by the mark of the operation
	deleted []written
	closed  map[zk.SessionID]zk.Zxid
	claimed map[int]bool // of deleted, by position: an operation says that it was it
	newest  zk.Zxid
}

// version is what a path is from a transaction on; nil is nothing.
type version struct {
	from zk.Zxid
	node *znode
}

type znode struct {
	data     []byte
	stat     zk.Stat // but for Cversion
	creates  int32
	acl      []zk.ACL
	children map[string]bool
}

// names are those of the children, sorted.
func (n *znode) names() []string { return slices.Sorted(maps.Keys(n.children)) }

// change is an event that there is for who watches, in the order of events.
type change struct {
	zxid zk.Zxid
	kind zk.EventType
	path string
}

// written is a change as the log has it.
type written struct {
	zxid    zk.Zxid
	session zk.SessionID
	op      wire.OpCode
	path    string
	version int32
}

// readLog replays the log.
func (r *run) readLog() *history {
	h := &history{znodes: map[string]*znode{}, past: map[string][]version{}, marked: map[int][]written{},
		closed: map[zk.SessionID]zk.Zxid{}, claimed: map[int]bool{}}
	dir, err := storage.Open(r.fs, storage.Options{DataDir: inproc.DataDir})
	if err != nil {
		r.t.Fatal(err)
	}
	defer dir.Close()
	log, err := dir.ReadLog(0)
	if err != nil {
		r.t.Fatal(err)
	}
	defer log.Close()
	for {
		b, err := log.Next()
		if errors.Is(err, io.EOF) {
			return h
		}
		if err != nil {
			r.t.Fatal(err)
		}
		t, err := txn.Decode(bytes.Clone(b))
		if err != nil {
			r.t.Fatal(err)
		}
		h.newest = t.Zxid
		switch {
		case t.Failed():
		case t.Header.Type == wire.OpMulti:
			for i := range t.Multi {
				h.apply(&t.Header, &t.Multi[i])
			}
		default:
			h.apply(&t.Header, &t.Op)
		}
	}
}

func (h *history) apply(t *txn.Header, o *txn.Op) {
	w := written{zxid: t.Zxid, session: t.Session, op: o.Type, path: o.Path, version: o.Version}
	switch o.Type {
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		h.create(t, o)
		h.mark(o.Data, w)
	case wire.OpDelete, wire.OpDeleteContainer:
		h.delete(t.Zxid, o.Path)
		h.deleted = append(h.deleted, w)
	case wire.OpSetData:
		n := h.znodes[o.Path]
		n.data, n.stat.DataLength, n.stat.Version = o.Data, int32(len(o.Data)), o.Version
		n.stat.Mzxid, n.stat.Mtime = t.Zxid, t.Time
		h.snap(t.Zxid, o.Path)
		h.changes = append(h.changes, change{t.Zxid, zk.EventNodeDataChanged, o.Path})
		h.mark(o.Data, w)
	case wire.OpSetACL:
		n := h.znodes[o.Path]
		n.acl, n.stat.Aversion = o.ACL, o.Version
		h.snap(t.Zxid, o.Path)
		for _, a := range o.ACL {
			h.mark([]byte(a.ID.ID), w)
		}
	case wire.OpCloseSession:
		h.closed[t.Session] = t.Zxid
		for _, p := range o.Paths {
			h.delete(t.Zxid, p)
		}
	}
}

func (h *history) mark(b []byte, w written) {
	for _, id := range marks(b) {
		h.marked[id] = append(h.marked[id], w)
	}
}

func (h *history) create(t *txn.Header, o *txn.Op) {
	n := &znode{data: o.Data, acl: o.ACL, children: map[string]bool{}}
	n.stat = zk.Stat{Czxid: t.Zxid, Mzxid: t.Zxid, Pzxid: t.Zxid, Ctime: t.Time, Mtime: t.Time, DataLength: int32(len(o.Data))}
	if o.Ephemeral {
		n.stat.EphemeralOwner = int64(t.Session)
	}
	h.znodes[o.Path] = n
	parent, name := split(o.Path)
	if p := h.znodes[parent]; p != nil {
		p.children[name] = true
		p.stat.Pzxid, p.stat.NumChildren = t.Zxid, p.stat.NumChildren+1
		p.creates = max(p.creates+1, o.ParentCversion)
		h.snap(t.Zxid, parent)
	}
	h.snap(t.Zxid, o.Path)
	h.changes = append(h.changes, change{t.Zxid, zk.EventNodeCreated, o.Path}, change{t.Zxid, zk.EventNodeChildrenChanged, parent})
}

func (h *history) delete(z zk.Zxid, path string) {
	if h.znodes[path] == nil {
		return
	}
	delete(h.znodes, path)
	parent, name := split(path)
	if p := h.znodes[parent]; p != nil {
		delete(p.children, name)
		p.stat.Pzxid, p.stat.NumChildren = z, p.stat.NumChildren-1
		h.snap(z, parent)
	}
	h.snap(z, path)
	h.changes = append(h.changes, change{z, zk.EventNodeDeleted, path}, change{z, zk.EventNodeChildrenChanged, parent})
}

// snap notes what a path is now.
func (h *history) snap(z zk.Zxid, path string) {
	v := version{from: z}
	if n := h.znodes[path]; n != nil {
		c := *n
		c.children = maps.Clone(n.children)
		c.stat.Cversion = 2*n.creates - n.stat.NumChildren
		v.node = &c
	}
	list := h.past[path]
	if k := len(list) - 1; k >= 0 && list[k].from == z {
		list[k] = v
		return
	}
	h.past[path] = append(list, v)
}

func split(path string) (parent, name string) {
	i := strings.LastIndexByte(path, '/')
	return path[:max(i, 1)], path[i+1:]
}

// at is what a path was at a zxid.
func (h *history) at(path string, z zk.Zxid) *znode {
	var n *znode
	for _, v := range h.past[path] {
		if v.from > z {
			break
		}
		n = v.node
	}
	return n
}

// find is the first state from a zxid on in which what a path is satisfies fits.
func (h *history) find(path string, from zk.Zxid, fits func(n *znode) bool) (zk.Zxid, bool) {
	if fits(h.at(path, from)) {
		return from, true
	}
	for _, v := range h.past[path] {
		if v.from > from && fits(v.node) {
			return v.from, true
		}
	}
	return 0, false
}
