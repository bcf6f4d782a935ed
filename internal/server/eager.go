package server

import (
	"strings"

	"github.com/pinfold-zk/pinfold/internal/audit"
	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// refusedEarly checks a write against this server's own tree before the leader is asked
// (enableEagerACLCheck), and reports whether the request was answered. As in Apache,
// only members of an ensemble check, and only create, delete, setData and setACL
// outside of a multi. A znode that is missing here may exist at the leader: such a
// write passes.
//
// A write after pending writes of its own session passes too: they may change what it
// is allowed to do. (Apache checks it, and answers it out of order.)
//
// REQUIRES: c.mu and the tree's lock; checksEarly.
func (c *conn) refusedEarly(tree replica.View, q *request) bool {
	switch {
	case c.mu.closed:
		return true // the connection has ended meanwhile: no reply is sent
	case !c.mu.pending.empty():
		return false
	}
	code := c.judge(tree, q)
	if code == zk.OK {
		return false
	}
	if c.s.audit != nil {
		c.audit(q).writeFailure(q.Op, audit.Failure)
	}
	c.replyErrLocked(q.Xid, 0, code)
	return true
}

// checksEarly reports whether refusedEarly must check a request.
func (c *conn) checksEarly(q *request) bool {
	switch q.Op {
	case wire.OpCreate, wire.OpCreate2, wire.OpDelete, wire.OpSetData, wire.OpSetACL:
		return c.s.eagerACL
	}
	return false
}

// judge returns ErrInvalidACL or ErrNoAuth if the ACLs of the tree refuse a request
// that is checked early, otherwise OK.
func (c *conn) judge(t replica.View, q *request) zk.Code {
	d := jute.NewDecoder(q.body)
	var path string
	var want zk.Perms
	var acl []zk.ACL
	switch q.Op {
	case wire.OpCreate, wire.OpCreate2:
		var r wire.CreateRequest
		r.Decode(&d, q.Op)
		path, want, acl = parentPath(r.Path), zk.PermCreate, r.ACL
	case wire.OpSetACL:
		var r wire.SetACLRequest
		r.Decode(&d)
		path, want, acl = r.Path, zk.PermAdmin, r.ACL
	case wire.OpDelete:
		path, want = parentPath(d.String()), zk.PermDelete
	case wire.OpSetData:
		path, want = d.String(), zk.PermWrite
	}
	if q.Op != wire.OpDelete && q.Op != wire.OpSetData {
		if _, code := c.s.auth.FixUp(acl, q.ids); code != zk.OK {
			return code
		}
	}
	id := t.Lookup(path)
	if id != 0 && !c.s.auth.Allowed(t.ACL(id), want, q.ids) {
		return zk.ErrNoAuth
	}
	return zk.OK
}

// parentPath returns the path of the parent; "" if path has none.
func parentPath(path string) string {
	if strings.LastIndexByte(path, '/') == 0 {
		return "/"
	}
	return znode.Parent(path)
}
