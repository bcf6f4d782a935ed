package client

import (
	"context"
	"time"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// Create makes a znode and returns its path, which for a sequential mode ends
// with the number that the server chose. A nil ACL is world:anyone:cdrwa. Modes
// with a time to live need CreateTTL. Servers know containers (zk.Container) from
// 3.5 on.
func (c *Client) Create(ctx context.Context, path string, data []byte, mode zk.CreateMode, acl []zk.ACL) (string, error) {
	k, body := c.create(wire.OpCreate, path, data, mode, acl, 0)
	r := c.do(ctx, k, body.append)
	return r.text, r.err
}

// CreateAsync is Create with a callback.
func (c *Client) CreateAsync(ctx context.Context, path string, data []byte, mode zk.CreateMode, acl []zk.ACL, done func(path string, err error)) {
	k, body := c.create(wire.OpCreate, path, data, mode, acl, 0)
	c.begin(ctx, k, body.append, pathDone(done))
}

// Create2 is Create, and returns the Stat of the new znode too, whose Czxid is a
// fencing token. Servers know it from 3.5 on.
func (c *Client) Create2(ctx context.Context, path string, data []byte, mode zk.CreateMode, acl []zk.ACL) (string, zk.Stat, error) {
	k, body := c.create(wire.OpCreate2, path, data, mode, acl, 0)
	r := c.do(ctx, k, body.append)
	return r.text, r.stat, r.err
}

// Create2Async is Create2 with a callback.
func (c *Client) Create2Async(ctx context.Context, path string, data []byte, mode zk.CreateMode, acl []zk.ACL, done func(path string, stat zk.Stat, err error)) {
	k, body := c.create(wire.OpCreate2, path, data, mode, acl, 0)
	c.begin(ctx, k, body.append, pathStatDone(done))
}

// CreateTTL makes a znode that the servers delete when it has had no children and
// no change for ttl, in milliseconds. The mode is zk.PersistentWithTTL or
// zk.PersistentSequentialWithTTL. Servers know it from 3.5 on, and only if they
// are configured to (extendedTypesEnabled); otherwise the error is zk.ErrUnimplemented.
func (c *Client) CreateTTL(ctx context.Context, path string, data []byte, mode zk.CreateMode, acl []zk.ACL, ttl time.Duration) (string, zk.Stat, error) {
	k, body := c.create(wire.OpCreateTTL, path, data, mode, acl, ttl)
	r := c.do(ctx, k, body.append)
	return r.text, r.stat, r.err
}

// CreateTTLAsync is CreateTTL with a callback.
func (c *Client) CreateTTLAsync(ctx context.Context, path string, data []byte, mode zk.CreateMode, acl []zk.ACL, ttl time.Duration, done func(path string, stat zk.Stat, err error)) {
	k, body := c.create(wire.OpCreateTTL, path, data, mode, acl, ttl)
	c.begin(ctx, k, body.append, pathStatDone(done))
}

// Delete deletes a znode that has no children. version is that of the data which
// the caller has seen, -1 for any. "/" is never deleted, with a chroot neither: the
// server is asked for its own, and answers zk.ErrBadArguments, as to Apache's client.
func (c *Client) Delete(ctx context.Context, path string, version int32) error {
	k, body := c.delete(path, version)
	return c.do(ctx, k, body.Append).err
}

// DeleteAsync is Delete with a callback.
func (c *Client) DeleteAsync(ctx context.Context, path string, version int32, done func(err error)) {
	k, body := c.delete(path, version)
	c.begin(ctx, k, body.Append, errDone(done))
}

// Set replaces the data of a znode. It fails unless version is the znode's,
// or -1; the Stat has the new one.
func (c *Client) Set(ctx context.Context, path string, data []byte, version int32) (zk.Stat, error) {
	k, body := c.set(path, data, version)
	r := c.do(ctx, k, body.Append)
	return r.stat, r.err
}

// SetAsync is Set with a callback. The data may be reused when SetAsync returns.
func (c *Client) SetAsync(ctx context.Context, path string, data []byte, version int32, done func(stat zk.Stat, err error)) {
	k, body := c.set(path, data, version)
	c.begin(ctx, k, body.Append, statDone(done))
}

// SetACL replaces the ACL of a znode. version is that of the ACL which the caller
// has seen (Stat.Aversion), -1 for any.
func (c *Client) SetACL(ctx context.Context, path string, acl []zk.ACL, version int32) (zk.Stat, error) {
	k, body := c.setACL(path, acl, version)
	r := c.do(ctx, k, body.Append)
	return r.stat, r.err
}

// SetACLAsync is SetACL with a callback.
func (c *Client) SetACLAsync(ctx context.Context, path string, acl []zk.ACL, version int32, done func(stat zk.Stat, err error)) {
	k, body := c.setACL(path, acl, version)
	c.begin(ctx, k, body.Append, statDone(done))
}

// Reconfig is a change of the ensemble's membership, as zoo.cfg's server lines
// have it: members that join (or change) and ids that leave, or a new list of members.
type Reconfig struct {
	Joining string // "server.4=host:2888:3888;2181,…"
	Leaving string // "3,5"
	Members string // replaces the other two

	// From is the version of the configuration that the change is made to, as
	// Config's text has it; -1 for any.
	From int64
}

// Reconfig changes the membership and returns it as Config does. It needs
// reconfigEnabled on the servers, and rights on /zookeeper/config. Servers know it
// from 3.5 on.
func (c *Client) Reconfig(ctx context.Context, change Reconfig) ([]byte, zk.Stat, error) {
	k, body := change.call()
	r := c.do(ctx, k, body.Append)
	return r.data, r.stat, r.err
}

// ReconfigAsync is Reconfig with a callback.
func (c *Client) ReconfigAsync(ctx context.Context, change Reconfig, done func(text []byte, stat zk.Stat, err error)) {
	k, body := change.call()
	c.begin(ctx, k, body.Append, dataDone(done))
}

func (r Reconfig) call() (call, wire.ReconfigRequest) {
	body := wire.ReconfigRequest{JoiningServers: r.Joining, LeavingServers: r.Leaving, CurConfigID: r.From}
	if r.Members != "" {
		body.NewMembers = &r.Members
	}
	return call{op: wire.OpReconfig, name: "reconfig", decode: decodeData}, body
}

// createBody is a create request with its kind.
type createBody struct {
	wire.CreateRequest
	op wire.OpCode
}

func (b *createBody) append(out []byte) []byte { return b.Append(out, b.op) }

func (c *Client) create(op wire.OpCode, path string, data []byte, mode zk.CreateMode, acl []zk.ACL, ttl time.Duration) (call, createBody) {
	if mode == zk.Container {
		op = wire.OpCreateContainer
	}
	k := call{op: op, name: "create", path: path, decode: decodePathStat, invalid: checkCreate(path, mode, op, ttl)}
	if op == wire.OpCreate {
		k.decode = decodePath
	}
	if acl == nil {
		acl = openACL
	}
	body := createBody{op: op}
	body.CreateRequest = wire.CreateRequest{Path: c.outer(path), Data: data, ACL: acl, Flags: mode, TTL: ttl.Milliseconds()}
	return k, body
}

var openACL = zk.OpenACLUnsafe()

func (c *Client) delete(path string, version int32) (call, wire.PathVersion) {
	outer := path
	if path != "/" {
		outer = c.outer(path)
	}
	return call{op: wire.OpDelete, name: "delete", path: path, invalid: CheckPath(path)},
		wire.PathVersion{Path: outer, Version: version}
}

func (c *Client) set(path string, data []byte, version int32) (call, wire.SetDataRequest) {
	return call{op: wire.OpSetData, name: "set", path: path, decode: decodeStat, invalid: CheckPath(path)},
		wire.SetDataRequest{Path: c.outer(path), Data: data, Version: version}
}

func (c *Client) setACL(path string, acl []zk.ACL, version int32) (call, wire.SetACLRequest) {
	return call{op: wire.OpSetACL, name: "setacl", path: path, decode: decodeStat, invalid: CheckPath(path)},
		wire.SetACLRequest{Path: c.outer(path), ACL: acl, Version: version}
}
