package server

import (
	"math"
	"slices"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/auth"
	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/watch"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// answer appends the reply to a request that only reads. An operation that clients must
// not send ends the connection. REQUIRES: c.mu and the tree's lock.
func (c *conn) answer(t replica.View, q *request) {
	xid := q.Xid
	switch q.Op {
	case wire.OpSetWatches, wire.OpSetWatches2:
		c.setWatches(t, q) // sends events before its reply
		return
	case wire.OpPing:
		xid = wire.XidPing
	}
	c.mu.begin = c.beginReplyLocked(xid, t.LastZxid())
	d := jute.NewDecoder(q.body)
	code := c.read(t, q, &d)
	if c.mu.closed || c.mu.short > 0 || c.mu.long { // it is answered never, or later: see room and answerLong
		c.dropReply()
		return
	}
	c.mu.insist = false
	c.mu.stats.reads.endReply(c.s.stats.readsBy, len(c.mu.out.Buf))
	at := c.mu.begin
	if c.mu.apart { // it shows the state of its last piece
		wire.SetReplyZxid(c.mu.out.Buf[4:], t.LastZxid())
		at = c.rejoin()
	}
	if d.Err() != nil {
		code = zk.ErrMarshalling
	}
	if code == zk.ErrUnimplemented {
		wire.SetReplyZxid(c.mu.out.Buf[at+4:], -1)
		c.closeLocked()
	}
	c.endReplyLocked(at, code)
	if q.Op == wire.OpCloseSession {
		c.closeLocked()
	}
}

// read appends the body of a reply to c.mu.out. If it returns an error, or the decoder
// has one, the caller drops what was appended. The methods that it calls have no
// lasting effect before they know that the request could be decoded.
func (c *conn) read(t replica.View, q *request, d *jute.Decoder) zk.Code {
	switch q.Op { // calls by name, not through a table: so q and d stay on the stack
	case wire.OpGetData:
		return c.getData(t, q, d)
	case wire.OpExists:
		return c.exists(t, q, d)
	case wire.OpGetChildren, wire.OpGetChildren2:
		return c.getChildren(t, q, d)
	case wire.OpPing:
		return zk.OK
	case wire.OpSync:
		return c.sync(d)
	case wire.OpGetACL:
		return c.getACL(t, q, d)
	case wire.OpMultiRead:
		return c.multiRead(t, q, d)
	case wire.OpAddWatch:
		return c.addWatch(t, d)
	case wire.OpCheckWatches, wire.OpRemoveWatches:
		return c.checkOrRemoveWatches(q, d)
	case wire.OpGetEphemerals:
		return c.getEphemerals(t, d)
	case wire.OpGetAllChildrenNumber:
		return c.getAllChildrenNumber(t, q, d)
	case wire.OpWhoAmI:
		return c.whoAmI(q)
	case wire.OpCloseSession: // of a local session; others are submitted
		c.s.replica.EndLocal(c.mu.session)
		return zk.OK
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL, wire.OpDelete, wire.OpSetData,
		wire.OpSetACL, wire.OpReconfig:
		return zk.ErrMarshalling // a request that can be decoded is submitted
	}
	return zk.ErrUnimplemented
}

// find returns the znode at path if the request may read it.
func (c *conn) find(t replica.View, q *request, path string) (znode.ID, zk.Code) {
	if !c.whole(t, path) {
		return 0, zk.ErrNoNode
	}
	id := t.Lookup(path)
	c.mu.work += checkWork(path, q.ids)
	if id == 0 {
		return 0, zk.ErrNoNode
	}
	acl := t.ACL(id)
	for acl.Len() > auth.FewEntries && c.index(t, acl) {
		if id = t.Lookup(path); id == 0 || c.mu.closed { // the lock was released
			return 0, zk.ErrNoNode
		}
		acl = t.ACL(id)
	}
	if !c.s.auth.Allowed(acl, zk.PermRead, q.ids) {
		return 0, zk.ErrNoAuth
	}
	c.mu.stats.reads.beginReply(c.s.stats.readsBy, path, len(c.mu.out.Buf))
	return id, zk.OK
}

// preparesWatch gives r a path that a watch may keep, if it asks for one: see ownPath.
func (c *conn) preparesWatch(t replica.View, r *wire.PathWatch) (ok bool) {
	if !r.Watch {
		return true
	}
	r.Path, ok = c.ownPath(t, r.Path)
	return ok
}

func (c *conn) getData(t replica.View, q *request, d *jute.Decoder) zk.Code {
	var r wire.PathWatch
	if r.Decode(d); d.Err() != nil {
		return zk.ErrMarshalling
	}
	if !c.preparesWatch(t, &r) {
		return zk.OK
	}
	id, code := c.find(t, q, r.Path)
	for code == zk.OK && t.DataLen(id) > largeReply/2 && c.outgrows(t, id, q.Op) {
		if !c.enlargeBy(t, c.foresee(t, id, q.Op)) {
			return zk.OK // without a watch: the request is repeated, or has ended
		}
		id, code = c.find(t, q, r.Path) // the lock was released
	}
	if code != zk.OK {
		return code
	}
	if c.appendData(t, id); c.mu.short > 0 {
		return zk.OK // without a watch: the request is repeated
	}
	if r.Watch {
		return c.watch(t, r.Path, watch.Data)
	}
	return zk.OK
}

// appendData appends data and Stat if there is room for them.
func (c *conn) appendData(t replica.View, id znode.ID) {
	if n := t.DataLen(id); n > largeReply/2 && !c.room(n+largeReply/2) {
		return
	}
	var s zk.Stat
	t.Stat(id, &s)
	c.mu.work += znode.BytesUnits(t.DataLen(id))
	if c.lacks(4 + t.DataLen(id) + wire.StatLen) {
		c.mu.work += znode.BytesUnits(len(c.mu.out.Buf)) // it is copied
	}
	c.mu.out.Buf = jute.AppendBuffer(c.mu.out.Buf, t.Data(id))
	c.mu.out.Buf = wire.AppendStat(c.mu.out.Buf, &s)
}

// exists registers its watch on a missing znode too: it fires on creation.
func (c *conn) exists(t replica.View, q *request, d *jute.Decoder) zk.Code {
	var r wire.PathWatch
	if r.Decode(d); d.Err() != nil {
		return zk.ErrMarshalling
	}
	if strings.IndexByte(r.Path, 0) >= 0 {
		return zk.ErrBadArguments
	}
	if !c.preparesWatch(t, &r) {
		return zk.OK
	}
	id, code := c.find(t, q, r.Path)
	if code == zk.ErrNoAuth {
		return code
	}
	if r.Watch {
		if refused := c.watch(t, r.Path, watch.Data); refused != zk.OK {
			return refused
		}
	}
	if code != zk.OK {
		return code
	}
	var s zk.Stat
	t.Stat(id, &s)
	c.mu.out.Buf = wire.AppendStat(c.mu.out.Buf, &s)
	return zk.OK
}

func (c *conn) getChildren(t replica.View, q *request, d *jute.Decoder) zk.Code {
	var r wire.PathWatch
	if r.Decode(d); d.Err() != nil {
		return zk.ErrMarshalling
	}
	if !c.preparesWatch(t, &r) {
		return zk.OK
	}
	id, size, code := c.findList(t, q, r.Path)
	if code != zk.OK || id == 0 {
		return code
	}
	if c.appendChildren(t, id, size); c.mu.short > 0 {
		return zk.OK // without a watch: the request is repeated
	}
	if q.Op == wire.OpGetChildren2 {
		var s zk.Stat
		t.Stat(id, &s)
		c.mu.out.Buf = wire.AppendStat(c.mu.out.Buf, &s)
	}
	if r.Watch {
		return c.watch(t, r.Path, watch.Child)
	}
	return zk.OK
}

// findList finds the znode at path, and gives the reply place for the list of its children with a Stat, which has size
// bytes. id is 0 if the request must not be answered now: there is no room, it has ended, or the reply is long.
func (c *conn) findList(t replica.View, q *request, path string) (id znode.ID, size int, code zk.Code) {
	id, code = c.find(t, q, path)
	if code == zk.OK && !c.fitsPiece(t.NumChildren(id)) {
		if !c.rest(t, nil) {
			return 0, 0, zk.OK
		}
		id, code = c.find(t, q, path) // the lock was released
	}
	for code == zk.OK {
		size, long := c.listBytes(t, id)
		switch {
		case long && c.mu.forced:
			c.mu.short = hardOutBytes
			return 0, 0, zk.OK
		case long:
			c.mu.long = true
			return 0, 0, zk.OK
		case len(c.mu.out.Buf)+size <= largeReply || !c.lacks(size):
			return id, size, zk.OK
		case !c.enlargeBy(t, size):
			return 0, 0, zk.OK
		}
		id, code = c.find(t, q, path) // the lock was released
	}
	return 0, 0, code
}

// listBytes returns how many bytes the list of a znode's children has, with a Stat. If it is long, that is to be built in
// pieces, size tells nothing.
func (c *conn) listBytes(t replica.View, id znode.ID) (size int, long bool) {
	bytes, count := longReply, longCount
	switch {
	case c.mu.forced:
		bytes, count = hardOutBytes, math.MaxInt
	case c.mu.insist:
		bytes, count = math.MaxInt, math.MaxInt
	}
	if t.NumChildren(id) > count {
		return 0, true
	}
	c.mu.work += t.ChildrenFrom(id, 0, func(name string) bool {
		size += 4 + len(name)
		return size <= bytes
	})
	return 4 + size + wire.StatLen, size > bytes
}

// appendChildren appends the list of a znode's children, which has size bytes, if there is room for it.
func (c *conn) appendChildren(t replica.View, id znode.ID, size int) {
	if size > largeReply/2 && !c.room(size+largeReply/2) {
		return
	}
	if c.lacks(size) {
		c.mu.work += znode.BytesUnits(len(c.mu.out.Buf)) // it is copied
	}
	c.mu.out.Buf = jute.AppendInt(c.mu.out.Buf, int32(t.NumChildren(id)))
	t.Children(id, func(name string) { c.mu.out.Buf = jute.AppendString(c.mu.out.Buf, name) })
	c.mu.work += znode.BytesUnits(size) // each name was looked at before
}

// sync is answered at once on a standalone server: every answered change is already
// applied. It returns the path as the client sent it, even null. On a member of an
// ensemble a sync is submitted; see Synced.
func (c *conn) sync(d *jute.Decoder) zk.Code {
	c.mu.out.Buf = jute.AppendBuffer(c.mu.out.Buf, d.Buffer())
	return zk.OK
}

func (c *conn) getACL(t replica.View, q *request, d *jute.Decoder) zk.Code {
	path := d.Path()
	if d.Err() != nil {
		return zk.ErrMarshalling
	}
	if !c.whole(t, path) {
		return zk.ErrNoNode
	}
	id := t.Lookup(path)
	if id == 0 {
		return zk.ErrNoNode
	}
	acl := t.ACL(id)
	c.mu.work += checkWork(path, q.ids) + acl.Len()/4
	if !c.s.auth.Allowed(acl, zk.PermRead|zk.PermAdmin, q.ids) {
		return zk.ErrNoAuth
	}
	var s zk.Stat
	t.Stat(id, &s)
	c.mu.out.Buf = wire.AppendACL(c.mu.out.Buf, c.s.auth.Mask(acl, q.ids))
	c.mu.out.Buf = wire.AppendStat(c.mu.out.Buf, &s)
	return zk.OK
}

// multiRead answers each operation by itself: one that fails hinders no other. If it
// pauses, later operations may show a later state than earlier ones.
func (c *conn) multiRead(t replica.View, q *request, d *jute.Decoder) zk.Code {
	ops := wire.DecodeMulti(d, wire.OpMultiRead, nil)
	if d.Err() != nil {
		return zk.ErrMarshalling
	}
	fits := true
	for i := range ops {
		if !c.pause(t) {
			return zk.OK
		}
		id, code := c.find(t, q, ops[i].Path)
		for code == zk.OK && c.outgrows(t, id, ops[i].Type) {
			if !c.enlarge(t, ops[i:], id) {
				return zk.OK
			}
			id, code = c.find(t, q, ops[i].Path) // the lock was released
		}
		switch {
		case code == zk.OK && ops[i].Type == wire.OpGetData:
			c.mu.out.Buf = wire.MultiHeader{Type: ops[i].Type}.Append(c.mu.out.Buf)
			c.appendData(t, id)
		case code == zk.OK:
			if fits, code = c.appendNames(t, q, ops[i].Path, id); c.mu.closed {
				return zk.OK
			}
		}
		if code != zk.OK {
			c.mu.out.Buf = wire.AppendMultiError(c.mu.out.Buf, code)
			continue
		}
		if !fits || len(c.mu.out.Buf)-c.mu.begin > hardOutBytes {
			c.s.refused.Warn("connection closed: the reply to a multiRead is too large", "client", c.remote, "operations", len(ops))
			c.mu.short = 0
			c.closeLocked()
			return zk.ErrMarshalling
		}
		if c.mu.short > 0 {
			// More operations follow: request more room, so that few attempts are
			// enough.
			c.mu.short = max(c.mu.short, min(2*c.mu.short, hardOutBytes+hardOutBytes/4, c.s.budget.Most()))
			return zk.OK
		}
	}
	c.mu.out.Buf = wire.AppendMultiEnd(c.mu.out.Buf)
	return zk.OK
}

func (c *conn) addWatch(t replica.View, d *jute.Decoder) zk.Code {
	var r wire.PathInt
	r.Decode(d)
	kind, known := watchKind(zk.AddWatchMode(r.Value))
	if d.Err() != nil || !known {
		return zk.ErrMarshalling
	}
	path, ok := c.ownPath(t, r.Path)
	if !ok {
		return zk.OK
	}
	if code := c.watch(t, path, kind); code != zk.OK {
		return code
	}
	c.mu.out.Buf = jute.AppendInt(c.mu.out.Buf, int32(zk.OK))
	return zk.OK
}

func watchKind(m zk.AddWatchMode) (watch.Kind, bool) {
	switch m {
	case zk.AddWatchPersistent:
		return watch.Persistent, true
	case zk.AddWatchPersistentRecursive:
		return watch.Recursive, true
	}
	return 0, false
}

func (c *conn) checkOrRemoveWatches(q *request, d *jute.Decoder) zk.Code {
	path := *d
	var r wire.PathInt
	r.Decode(d)
	kind := zk.WatcherType(r.Value)
	if d.Err() != nil || kind < zk.WatcherChildren || kind > zk.WatcherPersistentRecursive {
		return zk.ErrMarshalling
	}
	if _ = path.Path(); path.Err() != nil {
		return zk.ErrNoWatcher // null is never the path of a watch
	}
	remove, found := q.Op == wire.OpRemoveWatches, false // so that q, which every read has, does not escape
	c.s.replica.Watches(func(t *watch.Tables) {
		if remove {
			found = t.Remove(c.id, r.Path, kind)
		} else {
			found = t.Contains(c.id, r.Path, kind)
		}
	})
	if !found {
		return zk.ErrNoWatcher
	}
	return zk.OK
}

// getEphemerals lists the session's own ephemerals whose path begins with the prefix; a
// blank prefix or "/" means all.
func (c *conn) getEphemerals(t replica.View, d *jute.Decoder) zk.Code {
	prefix := d.String()
	if d.Err() != nil {
		return zk.ErrMarshalling
	}
	if !c.awaitWhole(t, t.AnyChanging) {
		return zk.OK
	}
	all := strings.TrimSpace(prefix) == "" || prefix == "/"
	paths, buf := []string{}, []byte(nil)
	for id := range t.EphemeralIDs(c.mu.session) {
		buf = t.AppendPath(buf[:0], id)
		if all || strings.HasPrefix(string(buf), prefix) {
			paths = append(paths, string(buf))
		}
		if c.mu.work += 1 + len(buf)/pathUnit; !c.pause(t) {
			return zk.OK
		}
	}
	list := func(reply []byte) []byte {
		slices.Sort(paths)
		return jute.AppendStrings(reply, paths)
	}
	if len(paths) < znode.PieceUnits/8 {
		c.mu.out.Buf = list(c.mu.out.Buf)
	} else {
		c.rest(t, list)
	}
	return zk.OK
}

// getAllChildrenNumber counts the descendants.
func (c *conn) getAllChildrenNumber(t replica.View, q *request, d *jute.Decoder) zk.Code {
	path := d.Path()
	if d.Err() != nil {
		return zk.ErrMarshalling
	}
	if !c.awaitWhole(t, t.AnyChanging) {
		return zk.OK
	}
	id, code := c.find(t, q, path)
	if code != zk.OK {
		return code
	}
	below := t.CountBelow(id)
	n, work, done := below.Next(znode.PieceUnits - c.mu.work)
	for c.mu.work += work; !done; c.mu.work += work {
		if !c.rest(t, nil) {
			return zk.OK
		}
		n, work, done = below.Next(znode.PieceUnits)
	}
	if path == "" {
		n++ // the root under the name "/" counts itself
	}
	c.mu.out.Buf = jute.AppendInt(c.mu.out.Buf, int32(n))
	return zk.OK
}

func (c *conn) whoAmI(q *request) zk.Code {
	c.mu.out.Buf = jute.AppendInt(c.mu.out.Buf, int32(len(q.ids)))
	for _, id := range q.ids {
		c.mu.out.Buf = jute.AppendString(c.mu.out.Buf, id.Scheme)
		c.mu.out.Buf = jute.AppendString(c.mu.out.Buf, c.s.auth.UserName(id))
	}
	return zk.OK
}
