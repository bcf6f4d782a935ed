package sim

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// ask is a request that a client has sent.
type ask struct {
	xid     int32
	op      wire.OpCode
	path    string
	ids     []zk.ID        // whose request it is
	ops     []wire.MultiOp // of a write: one, or those of a multi
	reads   []wire.MultiOp // of a multiRead
	watch   bool
	mode    zk.AddWatchMode
	restore *wire.SetWatches

	session  zk.SessionID
	onReader bool // it was sent to a server that only reads

	floor  zk.Zxid // of writes: answered before it was sent; of reads: what they must show
	synced bool    // a read that a sync precedes
	access *Access
	what   string
	probe  bool
	change *rosterChange // of a reconfig
	body   []byte
}

// ask sends a request.
func (c *client) ask(q *ask) {
	k := c.conn
	if k == nil || k.dead || !k.joined {
		return
	}
	switch {
	case q.op == wire.OpPing:
		q.xid = wire.XidPing
	case q.xid == 0:
		c.xid++
		q.xid = c.xid
	}
	q.ids, q.session, q.onReader = c.ids, c.session, k.reads
	if slices.ContainsFunc(q.ops, func(op wire.MultiOp) bool { return op.Flags.IsEphemeral() }) {
		c.home.asked = cmp.Or(c.home.asked, c.s.now)
	}
	if q.onReader {
		q.access = nil
	}
	if q.op.IsWrite() {
		c.s.history.sent[request{c.session, q.xid}] = q
	}
	if q.access != nil {
		q.access.session, q.access.xid = c.session, q.xid
	}
	if q.op == wire.OpSetWatches2 {
		q.body = q.restore.Append(nil, q.op)
	}
	switch {
	case q.onReader:
	case q.op == wire.OpSync:
		c.syncFloor = max(c.syncFloor, c.s.answered)
	case q.op.IsWrite():
		q.floor = c.s.answered
	default:
		q.floor, q.synced = c.syncFloor, c.syncFloor > 0
	}
	if c.s.trace.on {
		c.s.say(c.who, "asks %d: %v %s %s", q.xid, q.op, q.path, q.what)
	}
	c.s.cover.Requests++
	c.pending = append(c.pending, q)
	b := wire.RequestHeader{Xid: q.xid, Op: q.op}.Append(nil)
	k.send(frame(append(b, q.body...)))
}

// The znodes that clients use. All but the first list may be missing.
var (
	basePaths   = [...]string{"/k0", "/k1", "/k2", "/k3", "/d", "/e", "/seq", "/c", "/p"}
	keys        = basePaths[:4]
	childPaths  = [...]string{"/d/a", "/d/b", "/d/c", "/d/d", "/p/a"}
	watchPaths  = [...]string{"/k0", "/k1", "/k2", "/d", "/d/a", "/d/b", "/e", "/e/0", "/seq", "/p", "/p/a"}
	parentPaths = [...]string{"/d", "/e", "/seq", "/"}
)

// value returns data that no other request writes.
func (c *client) value() []byte {
	c.values++
	return fmt.Appendf(nil, "%d.%d", c.n, c.values)
}

// askProbe writes once, for mustProgress.
func (c *client) askProbe() {
	if c.to != nil {
		c.sendReconfig(c.to)
		return
	}
	r := wire.CreateRequest{Path: "/probe", Data: c.value(), ACL: zk.OpenACLUnsafe(), TTL: -1}
	c.askWrite(&ask{probe: true}, wire.MultiOp{Type: wire.OpCreate, CreateRequest: r})
}

// askSomething draws a request.
func (c *client) askSomething() {
	rng := c.s.rng
	if !c.base && !c.conn.reads {
		c.base = true
		c.askBase()
		return
	}
	switch n := rng.IntN(100); {
	case n < 20:
		c.askSet(rng.IntN(len(keys)))
	case n < 32:
		c.askRead(keys[rng.IntN(len(keys))])
	case n < 40: // a read that must show the latest
		key := rng.IntN(len(keys))
		c.askSync()
		c.askGet(key)
	case n < 49:
		c.askChildren(parentPaths[rng.IntN(len(parentPaths))])
	case n < 59:
		c.askChild(childPaths[rng.IntN(len(childPaths))])
	case n < 65:
		c.askEphemeral()
	case n < 70:
		c.askSequential()
	case n < 78:
		c.askMulti()
	case n < 81:
		c.askMultiRead()
	case n < 84:
		c.askSetACL(keys[2+rng.IntN(2)])
	case n < 89:
		c.askAddWatch(watchPaths[rng.IntN(len(watchPaths))])
	case n < 91:
		c.askRemoveWatch()
	case n < 93:
		c.askContainer()
	case n < 96:
		c.askOther()
	case n < 97:
		c.askOdd()
	case n < 98:
		c.over = true
		c.ask(&ask{op: wire.OpCloseSession})
	default:
		c.askExists(watchPaths[rng.IntN(len(watchPaths))])
	}
}

// askBase makes the znodes that all clients use. Most clients find that another
// one has made them.
func (c *client) askBase() {
	for _, path := range basePaths {
		acl := zk.OpenACLUnsafe()
		if path == "/p" {
			acl = []zk.ACL{{Perms: zk.PermAll, ID: identity(users[0], users[0])}, {Perms: zk.PermRead, ID: zk.AnyoneUnsafe}}
		}
		c.askCreate(wire.OpCreate, path, zk.Persistent, acl)
	}
	if q := c.s.profile.quota; q != (quota{}) {
		for path, text := range quotaPaths(q) {
			op := wire.MultiOp{Type: wire.OpCreate, CreateRequest: wire.CreateRequest{Path: path, Data: []byte(text), ACL: zk.OpenACLUnsafe(), TTL: -1}}
			c.askWrite(&ask{}, op)
		}
	}
}

// quotaPaths are the znodes that put /d under a quota.
func quotaPaths(q quota) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		_ = yield(quotaRoot+"/d", "") &&
			yield(quotaRoot+"/d"+limitsName, q.limitsText()) &&
			yield(quotaRoot+"/d"+statsName, quota{}.text())
	}
}

// askWrite sends a write of one operation.
func (c *client) askWrite(q *ask, op wire.MultiOp) {
	q.op, q.path, q.what, q.ops = op.Type, op.Path, string(op.Data), []wire.MultiOp{op}
	switch op.Type {
	case wire.OpDelete:
		q.body = (&wire.PathVersion{Path: op.Path, Version: op.Version}).Append(nil)
	case wire.OpSetData:
		q.body = (&wire.SetDataRequest{Path: op.Path, Data: op.Data, Version: op.Version}).Append(nil)
	case wire.OpSetACL:
		q.body = (&wire.SetACLRequest{Path: op.Path, ACL: op.ACL, Version: op.Version}).Append(nil)
	default:
		q.body = op.CreateRequest.Append(nil, op.Type)
	}
	c.ask(q)
}

func (c *client) askCreate(op wire.OpCode, path string, mode zk.CreateMode, acl []zk.ACL) {
	r := wire.CreateRequest{Path: path, Data: c.value(), ACL: acl, Flags: mode, TTL: -1}
	if op == wire.OpCreateTTL {
		r.TTL = 300 // milliseconds
	}
	c.askWrite(&ask{}, wire.MultiOp{Type: op, CreateRequest: r})
}

func (c *client) askDelete(path string, version int32) {
	c.askWrite(&ask{}, wire.MultiOp{Type: wire.OpDelete, CreateRequest: wire.CreateRequest{Path: path}, Version: version})
}

func (c *client) askSet(key int) {
	op := wire.MultiOp{Type: wire.OpSetData, CreateRequest: wire.CreateRequest{Path: keys[key], Data: c.value()}, Version: -1}
	q := &ask{}
	if key >= registerCount && c.s.chance(0.4) {
		op.Version = c.version(op.Path)
	} else {
		q.access = c.s.registers.begin(key, c.n, Write, string(op.Data), c.s.now)
	}
	c.askWrite(q, op)
}

// version is the condition of a write: the version that the client has seen last,
// or some other.
func (c *client) version(path string) int32 {
	if v, seen := c.versions[path]; seen && c.s.chance(0.8) {
		return v
	}
	return int32(c.s.rng.IntN(4)) - 1
}

func (c *client) askGet(key int) {
	r := wire.PathWatch{Path: keys[key]}
	c.ask(&ask{
		op: wire.OpGetData, path: r.Path, body: r.Append(nil), access: c.s.registers.begin(key, c.n, Read, "", c.s.now),
	})
}

func (c *client) askRead(path string) {
	r := wire.PathWatch{Path: path, Watch: c.s.chance(0.4)}
	c.ask(&ask{op: wire.OpGetData, path: path, watch: r.Watch, body: r.Append(nil)})
}

func (c *client) askExists(path string) {
	r := wire.PathWatch{Path: path, Watch: c.s.chance(0.6)}
	c.ask(&ask{op: wire.OpExists, path: path, watch: r.Watch, body: r.Append(nil)})
}

func (c *client) askChildren(path string) {
	r := wire.PathWatch{Path: path, Watch: c.s.chance(0.4)}
	op := [...]wire.OpCode{wire.OpGetChildren, wire.OpGetChildren2}[c.s.rng.IntN(2)]
	c.ask(&ask{op: op, path: path, watch: r.Watch, body: r.Append(nil)})
}

func (c *client) askChild(path string) {
	if c.s.chance(0.5) {
		version := int32(-1)
		if c.s.chance(0.3) {
			version = c.version(path)
		}
		c.askDelete(path, version)
		return
	}
	op := [...]wire.OpCode{wire.OpCreate, wire.OpCreate2}[c.s.rng.IntN(2)]
	c.askCreate(op, path, zk.Persistent, c.acl())
}

func (c *client) askEphemeral() {
	c.askCreate(wire.OpCreate2, fmt.Sprintf("/e/%d", c.s.rng.IntN(4)), zk.Ephemeral, zk.OpenACLUnsafe())
}

// maxSequential is how many sequential znodes are made in a run.
const maxSequential = 200

func (c *client) askSequential() {
	if v := c.s.history.model.get("/seq"); v.creates > maxSequential {
		return
	}
	mode := [...]zk.CreateMode{zk.PersistentSequential, zk.EphemeralSequential}[c.s.rng.IntN(2)]
	c.askCreate(wire.OpCreate, "/seq/n-", mode, zk.OpenACLUnsafe())
}

func (c *client) askContainer() {
	if c.s.chance(0.5) {
		c.askCreate(wire.OpCreateTTL, fmt.Sprintf("/c/t%d", c.s.rng.IntN(3)), zk.PersistentWithTTL, zk.OpenACLUnsafe())
		return
	}
	path := fmt.Sprintf("/c/c%d", c.s.rng.IntN(3))
	switch c.s.rng.IntN(3) {
	case 0:
		c.askCreate(wire.OpCreateContainer, path, zk.Container, zk.OpenACLUnsafe())
	case 1:
		c.askCreate(wire.OpCreate, path+"/x", zk.Persistent, zk.OpenACLUnsafe())
	default: // then it is empty, and goes
		c.askDelete(path+"/x", -1)
	}
}

func (c *client) askSync() {
	c.ask(&ask{op: wire.OpSync, path: "/", body: jute.AppendString(nil, "/")})
}

func (c *client) askSetACL(path string) {
	op := wire.MultiOp{Type: wire.OpSetACL, CreateRequest: wire.CreateRequest{Path: path, ACL: c.acl()}, Version: -1}
	if c.s.chance(0.4) {
		op.Version = int32(c.s.rng.IntN(4))
	}
	c.askWrite(&ask{}, op)
}

// acl draws an ACL: mostly open, sometimes one that keeps others out, rarely one
// that no server accepts.
func (c *client) acl() []zk.ACL {
	rng := c.s.rng
	all := func(id zk.ID) zk.ACL { return zk.ACL{Perms: zk.PermAll, ID: id} }
	world := func(perms zk.Perms) zk.ACL { return zk.ACL{Perms: perms, ID: zk.AnyoneUnsafe} }
	user := users[rng.IntN(len(users))]
	switch rng.IntN(16) {
	case 0:
		return []zk.ACL{all(identity(user, user)), world(zk.PermRead)}
	case 1:
		return []zk.ACL{all(zk.ID{Scheme: "auth"}), world(zk.PermRead)}
	case 2:
		return []zk.ACL{all(c.ids[0]), world(zk.PermRead), world(zk.PermRead)}
	case 3:
		return []zk.ACL{all(identity(user, user)), world(zk.PermAll &^ zk.PermRead)}
	case 4:
		return []zk.ACL{world(zk.PermAll &^ zk.PermWrite)}
	case 5:
		return [...][]zk.ACL{{}, {all(zk.ID{Scheme: "none", ID: "x"})}, {all(zk.ID{Scheme: "digest", ID: "x"})}, {all(zk.ID{Scheme: "auth"})}}[rng.IntN(4)]
	}
	return zk.OpenACLUnsafe()
}

// askMulti changes several znodes at once, or none.
func (c *client) askMulti() {
	rng := c.s.rng
	var ops []wire.MultiOp
	add := func(op wire.OpCode, version int32, r wire.CreateRequest) {
		r.TTL = -1
		ops = append(ops, wire.MultiOp{Type: op, CreateRequest: r, Version: version})
	}
	for range 2 + rng.IntN(3) {
		child, key := childPaths[rng.IntN(len(childPaths))], keys[2+rng.IntN(2)]
		switch rng.IntN(6) {
		case 0:
			op := [...]wire.OpCode{wire.OpCreate, wire.OpCreate2}[rng.IntN(2)]
			add(op, 0, wire.CreateRequest{Path: child, Data: c.value(), ACL: c.acl()})
		case 1:
			add(wire.OpDelete, -1, wire.CreateRequest{Path: child})
		case 2:
			add(wire.OpCheck, -1, wire.CreateRequest{Path: keys[rng.IntN(len(keys))]})
		case 3:
			add(wire.OpCheck, c.version(key), wire.CreateRequest{Path: key})
		case 4:
			add(wire.OpCreate, 0, wire.CreateRequest{Path: "/seq/m-", Data: c.value(), ACL: zk.OpenACLUnsafe(), Flags: zk.EphemeralSequential})
		default:
			add(wire.OpSetData, -1, wire.CreateRequest{Path: key, Data: c.value()})
		}
	}
	c.ask(&ask{op: wire.OpMulti, ops: ops, body: appendMulti(ops)})
}

func (c *client) askMultiRead() {
	var reads []wire.MultiOp
	for i, path := range keys {
		op := [...]wire.OpCode{wire.OpGetData, wire.OpGetChildren}[i%2]
		reads = append(reads, wire.MultiOp{Type: op, CreateRequest: wire.CreateRequest{Path: path}})
	}
	c.ask(&ask{op: wire.OpMultiRead, reads: reads, body: appendMulti(reads)})
}

func appendMulti(ops []wire.MultiOp) []byte {
	var b []byte
	for i := range ops {
		b = ops[i].Append(b)
	}
	return wire.AppendMultiEnd(b)
}

func (c *client) askAddWatch(path string) {
	mode := zk.AddWatchMode(c.s.rng.IntN(2))
	r := wire.PathInt{Path: path, Value: int32(mode)}
	c.ask(&ask{op: wire.OpAddWatch, path: path, mode: mode, body: r.Append(nil)})
}

func (c *client) askRemoveWatch() {
	if len(c.watches.list) == 0 {
		return
	}
	w := c.watches.list[c.s.rng.IntN(len(c.watches.list))]
	r := wire.PathInt{Path: w.path, Value: int32(zk.WatcherAny)}
	c.ask(&ask{op: wire.OpRemoveWatches, path: w.path, body: r.Append(nil)})
}

// askOther asks for what is asked for rarely.
func (c *client) askOther() {
	path := keys[c.s.rng.IntN(len(keys))]
	onPath := func(op wire.OpCode, path string) {
		c.ask(&ask{op: op, path: path, body: jute.AppendString(nil, path)})
	}
	switch c.s.rng.IntN(5) {
	case 0, 1:
		onPath(wire.OpGetACL, path)
	case 2:
		onPath(wire.OpGetEphemerals, "/e")
	case 3:
		onPath(wire.OpGetAllChildrenNumber, [...]string{"/d", "/seq", "/zookeeper"}[c.s.rng.IntN(3)])
	default:
		c.ask(&ask{op: wire.OpWhoAmI})
	}
	if c.s.profile.quota != (quota{}) {
		c.askRead(quotaRoot + "/d" + statsName)
	}
}

// askOdd asks for what is refused in most states, or in all.
func (c *client) askOdd() {
	open := zk.OpenACLUnsafe()
	switch c.s.rng.IntN(8) {
	case 0:
		c.askCreate(wire.OpCreate, "/d/../x", zk.Persistent, open)
	case 1:
		c.askCreate(wire.OpCreate, "/d/y", 9, open)
	case 2:
		c.askCreate(wire.OpCreate2, fmt.Sprintf("/e/%d/x", c.s.rng.IntN(4)), zk.Persistent, open)
	case 3:
		c.askDelete([...]string{"/", "/zookeeper", "d"}[c.s.rng.IntN(3)], -1)
	case 4:
		c.askDelete("/d", -1)
	case 5:
		c.askCreate(wire.OpCreateTTL, "/c/t", zk.Persistent, open)
	default:
		c.askCreate(wire.OpCreate, "/d", zk.Persistent, open)
	}
}

func (c *client) oldest() string {
	if len(c.pending) == 0 {
		return "none"
	}
	return fmt.Sprint(c.pending[0].xid)
}
