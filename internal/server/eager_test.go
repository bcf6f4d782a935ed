package server

import (
	"testing"

	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

func eagerACLCheck(_ int64, s *rigSetup) { s.cfg.Auth.EagerACLCheck = true }

func aclBody(path string, acl []zk.ACL) []byte {
	r := wire.SetACLRequest{Path: path, ACL: acl, Version: -1}
	return r.Append(nil)
}

// readOnlyACL lets everybody read, and nobody do anything else.
var readOnlyACL = []zk.ACL{{Perms: zk.PermRead, ID: zk.AnyoneUnsafe}}

// lock makes znodes that nobody may change.
func (c *wireClient) lock(paths ...string) {
	c.t.Helper()
	for _, path := range paths {
		c.create(path, "", zk.Persistent)
		c.mustCall(wire.OpSetACL, aclBody(path, readOnlyACL))
	}
}

// With enableEagerACLCheck the server that has the connection refuses a write that
// the ACLs of its tree refuse: the leader, the other servers and the log hear
// nothing of it. Without, the refusal is a transaction.
func TestEagerACLCheck(t *testing.T) {
	badACL := []zk.ACL{{Perms: zk.PermAll, ID: zk.ID{Scheme: "nobody", ID: "x"}}}
	withACL := func(path string, acl []zk.ACL) []byte {
		r := wire.CreateRequest{Path: path, ACL: acl}
		return r.Append(nil, wire.OpCreate)
	}
	check := func(e *ensemble, eager bool) {
		e.begin()
		first := e.leader().open()
		first.lock("/locked")
		first.create("/open", "", zk.Persistent)
		pass(rigTick)
		e.each(func(m replica.Mode, r, other *rig) {
			c := r.open()
			for _, tt := range []struct {
				name string
				op   wire.OpCode
				body []byte
				code zk.Code
			}{
				{"create", wire.OpCreate, createBody("/locked/a", nil, zk.Persistent), zk.ErrNoAuth},
				{"create2", wire.OpCreate2, createBody("/locked/a", nil, zk.Persistent), zk.ErrNoAuth},
				{"delete", wire.OpDelete, deleteBody("/locked/a"), zk.ErrNoAuth},
				{"setData", wire.OpSetData, setBody("/locked", nil), zk.ErrNoAuth},
				{"setACL", wire.OpSetACL, aclBody("/locked", zk.OpenACLUnsafe()), zk.ErrNoAuth},
				{"create with a bad ACL", wire.OpCreate, withACL("/open/a", badACL), zk.ErrInvalidACL},
				{"setACL to a bad one", wire.OpSetACL, aclBody("/open", badACL), zk.ErrInvalidACL},
			} {
				before := e.leader().rep.LastApplied()
				got := c.call(tt.op, tt.body)
				silent := got.Zxid == 0 && e.leader().rep.LastApplied() == before
				if got.Err != tt.code || silent != eager {
					t.Errorf("%v, %s: %v at %v, the leader had %v and has %v; eager %v",
						m, tt.name, got.Err, got.Zxid, before, e.leader().rep.LastApplied(), eager)
				}
			}
			// What is not known here the leader decides, and what is allowed passes.
			if got := c.call(wire.OpSetData, setBody("/missing", nil)); got.Err != zk.ErrNoNode || got.Zxid == 0 {
				t.Errorf("%v: a missing znode: %v at %v", m, got.Err, got.Zxid)
			}
			c.mustCall(wire.OpSetData, setBody("/open", []byte("x")))
		})
	}
	inEnsemble(t, 3, 1, func(e *ensemble) { check(e, true) }, eagerACLCheck)
	inEnsemble(t, 3, 1, func(e *ensemble) { check(e, false) })
}

// A write behind a setACL of its own session is judged by what that makes of it.
func TestEagerACLCheckKeepsTheOrder(t *testing.T) {
	inEnsemble(t, 3, 0, func(e *ensemble) {
		e.begin()
		c := e.in(replica.Follower)[0].open()
		c.create("/a", "", zk.Persistent)
		admin := []zk.ACL{{Perms: zk.PermRead | zk.PermAdmin, ID: zk.AnyoneUnsafe}}
		c.mustCall(wire.OpSetACL, aclBody("/a", admin))
		var xids []int32
		for _, q := range []struct {
			op   wire.OpCode
			body []byte
		}{
			{wire.OpSetACL, aclBody("/a", zk.OpenACLUnsafe())}, {wire.OpSetData, setBody("/a", nil)},
		} {
			xid, err := c.send(q.op, q.body)
			if err != nil {
				t.Fatal(err)
			}
			xids = append(xids, xid)
		}
		for _, xid := range xids {
			if r, err := c.nextReply(); err != nil || r.Xid != xid || r.Err != zk.OK {
				t.Errorf("reply %+v, %v; want %d and no error", r, err, xid)
			}
		}
	}, eagerACLCheck)
}

// A standalone server does not check early, as Apache's does not.
func TestNoEagerACLCheckAlone(t *testing.T) {
	s := newRig(t, func(setup *rigSetup) { eagerACLCheck(1, setup) })
	c := s.open()
	c.lock("/locked")
	if r := c.call(wire.OpSetData, setBody("/locked", nil)); r.Err != zk.ErrNoAuth || r.Zxid == 0 {
		t.Errorf("%v at %v", r.Err, r.Zxid)
	}
}
