package sim

import (
	"fmt"
	"slices"
	"sort"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// ask is a request that a client has sent.
type ask struct {
	xid     int32
	op      wire.OpCode
	path    string
	watch   bool
	mode    zk.AddWatchMode
	multi   []wire.MultiOp
	restore *wire.SetWatches

	floor  zk.Zxid // of writes: answered before it was sent; of reads: what they must show
	synced bool    // a read behind a sync
	access *Access
	what   string
	probe  bool
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
	if q.access != nil {
		q.access.session, q.access.xid = c.session, q.xid
	}
	if q.op == wire.OpSetWatches2 {
		q.body = q.restore.Append(nil, q.op)
	}
	switch {
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
	basePaths   = [...]string{"/k0", "/k1", "/k2", "/k3", "/d", "/e", "/seq", "/c"}
	keys        = basePaths[:4]
	childPaths  = [...]string{"/d/a", "/d/b", "/d/c", "/d/d"}
	watchPaths  = [...]string{"/k0", "/k1", "/d", "/d/a", "/d/b", "/e", "/e/0", "/seq"}
	parentPaths = [...]string{"/d", "/e", "/seq", "/"}
)

// value returns data that nobody else writes.
func (c *client) value() []byte {
	c.values++
	return fmt.Appendf(nil, "%d.%d", c.n, c.values)
}

// askProbe writes once, for mustProgress.
func (c *client) askProbe() {
	r := wire.CreateRequest{Path: "/probe", Data: c.value(), ACL: zk.OpenACLUnsafe(), TTL: -1}
	c.ask(&ask{op: wire.OpCreate, path: r.Path, body: r.Append(nil, wire.OpCreate), probe: true})
}

// askSomething draws a request.
func (c *client) askSomething() {
	rng := c.s.rng
	if !c.base {
		c.base = true
		for _, path := range basePaths {
			c.askCreate(wire.OpCreate, path, zk.Persistent)
		}
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
	case n < 50:
		c.askChildren(parentPaths[rng.IntN(len(parentPaths)-1)])
	case n < 60:
		c.askChild(childPaths[rng.IntN(len(childPaths))])
	case n < 66:
		c.askEphemeral()
	case n < 71 && c.s.history.suffix < 200:
		c.askSequential()
	case n < 80:
		c.askMulti()
	case n < 83:
		c.askMultiRead()
	case n < 86:
		c.askSetACL(keys[2+rng.IntN(2)])
	case n < 91:
		c.askAddWatch(watchPaths[rng.IntN(len(watchPaths))])
	case n < 93:
		c.askRemoveWatch()
	case n < 95:
		c.askContainer()
	case n < 97:
		c.askOther()
	case n < 98:
		c.over = true
		c.ask(&ask{op: wire.OpCloseSession})
	default:
		c.askExists(watchPaths[rng.IntN(len(watchPaths))])
	}
}

func (c *client) askCreate(op wire.OpCode, path string, mode zk.CreateMode) {
	r := wire.CreateRequest{Path: path, Data: c.value(), ACL: zk.OpenACLUnsafe(), Flags: mode, TTL: -1}
	if op == wire.OpCreateTTL {
		r.TTL = 300 // milliseconds
	}
	c.ask(&ask{op: op, path: path, body: r.Append(nil, op), what: string(r.Data)})
}

func (c *client) askSet(key int) {
	r := wire.SetDataRequest{Path: keys[key], Data: c.value(), Version: -1}
	q := &ask{op: wire.OpSetData, path: r.Path, body: r.Append(nil), what: string(r.Data)}
	if key >= registerCount && c.s.chance(0.2) {
		r.Version = int32(c.s.rng.IntN(20))
		q.body = r.Append(nil)
	} else {
		q.access = c.s.registers.begin(key, c.n, Write, string(r.Data), c.s.now)
	}
	c.ask(q)
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
		r := wire.PathVersion{Path: path, Version: -1}
		c.ask(&ask{op: wire.OpDelete, path: path, body: r.Append(nil)})
		return
	}
	op := [...]wire.OpCode{wire.OpCreate, wire.OpCreate2}[c.s.rng.IntN(2)]
	c.askCreate(op, path, zk.Persistent)
}

func (c *client) askEphemeral() {
	c.askCreate(wire.OpCreate2, fmt.Sprintf("/e/%d", c.s.rng.IntN(4)), zk.Ephemeral)
}

func (c *client) askSequential() {
	mode := [...]zk.CreateMode{zk.PersistentSequential, zk.EphemeralSequential}[c.s.rng.IntN(2)]
	c.askCreate(wire.OpCreate, "/seq/n-", mode)
}

func (c *client) askContainer() {
	if c.s.chance(0.5) {
		c.askCreate(wire.OpCreateTTL, fmt.Sprintf("/c/t%d", c.s.rng.IntN(3)), zk.PersistentWithTTL)
		return
	}
	path := fmt.Sprintf("/c/c%d", c.s.rng.IntN(3))
	switch c.s.rng.IntN(3) {
	case 0:
		c.askCreate(wire.OpCreateContainer, path, zk.Container)
	case 1:
		c.askCreate(wire.OpCreate, path+"/x", zk.Persistent)
	default: // then it is empty, and goes
		r := wire.PathVersion{Path: path + "/x", Version: -1}
		c.ask(&ask{op: wire.OpDelete, path: r.Path, body: r.Append(nil)})
	}
}

func (c *client) askSync() {
	c.ask(&ask{op: wire.OpSync, path: "/", body: jute.AppendString(nil, "/")})
}

func (c *client) askSetACL(path string) {
	r := wire.SetACLRequest{Path: path, ACL: zk.OpenACLUnsafe(), Version: -1}
	c.ask(&ask{op: wire.OpSetACL, path: path, body: r.Append(nil)})
}

// askMulti changes several znodes at once, or none.
func (c *client) askMulti() {
	rng := c.s.rng
	var ops []wire.MultiOp
	op := func(m wire.MultiOp) { ops = append(ops, m) }
	for range 2 + rng.IntN(3) {
		child := childPaths[rng.IntN(len(childPaths))]
		switch rng.IntN(5) {
		case 0:
			op(wire.MultiOp{Type: wire.OpCreate, CreateRequest: wire.CreateRequest{Path: child, Data: c.value(), ACL: zk.OpenACLUnsafe(), TTL: -1}})
		case 1:
			op(wire.MultiOp{Type: wire.OpDelete, CreateRequest: wire.CreateRequest{Path: child}, Version: -1})
		case 2:
			op(wire.MultiOp{Type: wire.OpCheck, CreateRequest: wire.CreateRequest{Path: keys[rng.IntN(4)]}, Version: -1})
		case 3:
			op(wire.MultiOp{Type: wire.OpCreate, CreateRequest: wire.CreateRequest{
				Path: "/seq/m-", Data: c.value(), ACL: zk.OpenACLUnsafe(), Flags: zk.EphemeralSequential, TTL: -1,
			}})
		default:
			op(wire.MultiOp{Type: wire.OpSetData, CreateRequest: wire.CreateRequest{Path: keys[2+rng.IntN(2)], Data: c.value()}, Version: -1})
		}
	}
	c.ask(&ask{op: wire.OpMulti, multi: ops, body: appendMulti(ops)})
}

func (c *client) askMultiRead() {
	var ops []wire.MultiOp
	for _, path := range keys {
		ops = append(ops, wire.MultiOp{Type: wire.OpGetData, CreateRequest: wire.CreateRequest{Path: path}})
	}
	c.ask(&ask{op: wire.OpMultiRead, multi: ops, body: appendMulti(ops)})
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
	switch c.s.rng.IntN(4) {
	case 0:
		c.ask(&ask{op: wire.OpGetACL, path: path, body: jute.AppendString(nil, path)})
	case 1:
		c.ask(&ask{op: wire.OpGetEphemerals, path: "/e", body: jute.AppendString(nil, "/e")})
	case 2:
		c.ask(&ask{op: wire.OpGetAllChildrenNumber, path: "/d", body: jute.AppendString(nil, "/d")})
	default:
		c.ask(&ask{op: wire.OpWhoAmI})
	}
}

// answered takes a reply or an event.
func (c *client) answered(f []byte) {
	var h wire.ReplyHeader
	d := jute.NewDecoder(f)
	h.Decode(&d)
	s := c.s
	if h.Xid == wire.XidNotification {
		var e wire.WatcherEvent
		if e.Decode(&d); d.Err() != nil {
			s.fail("ClientProtocol", "%s: an event cannot be read: %v", c.who, d.Err())
		}
		s.say(c.who, "is told of %v %s at %v", e.Type, e.Path, h.Zxid)
		c.watches.event(h.Zxid, e)
		c.sees(h.Zxid)
		return
	}
	if len(c.pending) == 0 || c.pending[0].xid != h.Xid {
		s.fail("SessionFIFO", "%s is answered request %d, the oldest is %s", c.who, h.Xid, c.oldest())
	}
	q := c.pending[0]
	c.pending = c.pending[1:]
	s.cover.Replies++
	if s.trace.on {
		s.say(c.who, "is answered %d at %v: %v", h.Xid, h.Zxid, h.Err)
	}
	c.sees(h.Zxid)
	if h.Zxid > 0 && q.op != wire.OpSetWatches2 {
		c.watches.showed(h.Zxid)
	}
	if q.op.IsWrite() {
		c.wrote(q, &h, &d)
	} else {
		c.read(q, &h, &d)
	}
	if a := q.access; a != nil {
		a.Return, a.Code, a.Unknown = s.now, h.Err, false
	}
}

func (c *client) oldest() string {
	if len(c.pending) == 0 {
		return "none"
	}
	return fmt.Sprint(c.pending[0].xid)
}

// sees notes the state that the client is shown: never an older one than before.
func (c *client) sees(z zk.Zxid) {
	if z <= 0 {
		return
	}
	if z < c.last {
		c.s.fail("SessionMonotonic", "%s has seen %v and is shown %v by member %d", c.who, c.last, z, c.member)
	}
	c.last = z
}

// wrote checks the answer to a write.
func (c *client) wrote(q *ask, h *wire.ReplyHeader, d *jute.Decoder) {
	s, hist := c.s, c.s.history
	if q.op == wire.OpCloseSession {
		if hist.sessions[c.session] < 0 {
			s.fail("Durability", "%s is told that session %v is closed, and the history has it", c.who, c.session)
		}
		c.newSession()
		return
	}
	if z := hist.asked[request{c.session, q.xid}]; z != h.Zxid {
		s.fail("Durability", "%s is told that request %d is %v, the history has it as %v", c.who, q.xid, h.Zxid, z)
	}
	if h.Zxid <= q.floor {
		s.fail("Linearizability", "%s: %v became %v, but %v had been answered before it was asked", c.who, q.op, h.Zxid, q.floor)
	}
	s.answered = max(s.answered, h.Zxid)
	if q.probe {
		c.probed = true
	}
	if h.Err != zk.OK {
		return
	}
	c.checkResult(q, h.Zxid, d)
}

// checkResult compares what a successful write is told with the history.
func (c *client) checkResult(q *ask, z zk.Zxid, d *jute.Decoder) {
	s, hist := c.s, c.s.history
	path := q.path
	switch q.op {
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		path = d.String()
		if q.op == wire.OpCreate {
			break
		}
		fallthrough
	case wire.OpSetData, wire.OpSetACL:
		if got, want := wire.DecodeStat(d), hist.at(path, z).stat; got != want {
			s.fail("ReadsTheState", "%s: %v %s at %v answers %+v, the history has %+v", c.who, q.op, path, z, got, want)
		}
	case wire.OpMulti:
		c.checkMulti(q, z)
		return
	}
	if exists := hist.at(path, z).exists; exists == (q.op == wire.OpDelete) {
		s.fail("ReadsTheState", "%s: after %v at %v %s exists: %v", c.who, q.op, z, path, exists)
	}
	if d.Err() != nil {
		s.fail("ClientProtocol", "%s: the answer to %v cannot be read: %v", c.who, q.op, d.Err())
	}
}

// checkMulti looks for every change of a multi in one state.
func (c *client) checkMulti(q *ask, z zk.Zxid) {
	hist := c.s.history
	if d := &hist.details[hist.upto(z)-1]; d.tx.Failed() {
		if len(d.events) > 0 {
			c.s.fail("MultiAtomic", "%s: the multi %d at %v has failed and changed %s", c.who, q.xid, z, d.events[0].path)
		}
		return
	}
	last := map[string]*wire.MultiOp{}
	var paths []string
	for i := range q.multi {
		op := &q.multi[i]
		if op.Type == wire.OpCheck || op.Flags.IsSequential() {
			continue
		}
		if last[op.Path] == nil {
			paths = append(paths, op.Path)
		}
		last[op.Path] = op
	}
	for _, path := range paths {
		op, v := last[path], c.s.history.at(path, z)
		if v.exists == (op.Type == wire.OpDelete) || v.exists && v.data != string(op.Data) {
			c.s.fail("MultiAtomic", "%s: after the multi %d at %v %s has not become what %v makes it", c.who, q.xid, z, path, op.Type)
		}
	}
}

// read checks the answer to a read against the state that it says it shows.
func (c *client) read(q *ask, h *wire.ReplyHeader, d *jute.Decoder) {
	s, z := c.s, h.Zxid
	if z > 0 && z < q.floor {
		s.fail("SyncedRead", "%s: %v %s behind a sync shows %v, %v had been answered before the sync", c.who, q.op, q.path, z, q.floor)
	}
	if q.synced {
		s.cover.Synced++
	}
	if h.Err != zk.OK && h.Err != zk.ErrNoNode && h.Err != zk.ErrNoWatcher {
		s.fail("ClientProtocol", "%s: %v %s is answered %v", c.who, q.op, q.path, h.Err)
	}
	v := s.history.at(q.path, z)
	missing := h.Err == zk.ErrNoNode
	switch q.op {
	case wire.OpGetData:
		if q.access != nil && !missing {
			c.checkNode(q, z, !missing, d, &v)
			q.access.Value = v.data
		} else {
			c.checkNode(q, z, !missing, d, &v)
		}
		if q.watch && !missing {
			c.watches.set(q.path, byData)
		}
	case wire.OpExists:
		c.checkNode(q, z, !missing, d, &v)
		if q.watch {
			c.watches.set(q.path, [...]watchHow{byData, byExist}[btoi(missing)])
		}
	case wire.OpGetChildren, wire.OpGetChildren2:
		c.checkChildren(q, z, !missing, d, &v)
		if q.watch && !missing {
			c.watches.set(q.path, byChildren)
		}
	case wire.OpMultiRead:
		c.checkMultiRead(q, z, d)
	case wire.OpAddWatch:
		c.watches.set(q.path, [...]watchHow{byPersistent, byRecursive}[q.mode])
	case wire.OpRemoveWatches:
		c.watches.tables.Remove(me, q.path, zk.WatcherAny)
		c.watches.list = slices.DeleteFunc(c.watches.list, func(w watched) bool { return w.path == q.path })
	case wire.OpSetWatches2:
		c.watches.restored(q.restore, z)
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// checkNode compares data and Stat with the history.
func (c *client) checkNode(q *ask, z zk.Zxid, exists bool, d *jute.Decoder, v *version) {
	if exists != v.exists {
		c.s.fail("ReadsTheState", "%s: %v %s at %v says that it exists: %v; the history: %v", c.who, q.op, q.path, z, exists, v.exists)
	}
	if !exists {
		return
	}
	if q.op == wire.OpGetData {
		if got := string(d.Buffer()); got != v.data {
			c.s.fail("ReadsTheState", "%s reads %q from %s at %v, the history has %q of %v", c.who, got, q.path, z, v.data, v.z)
		}
	}
	if got := wire.DecodeStat(d); got != v.stat {
		c.s.fail("ReadsTheState", "%s: %s at %v has %+v, the history %+v", c.who, q.path, z, got, v.stat)
	}
}

func (c *client) checkChildren(q *ask, z zk.Zxid, exists bool, d *jute.Decoder, v *version) {
	if exists != v.exists {
		c.s.fail("ReadsTheState", "%s: %v %s at %v says that it exists: %v; the history: %v", c.who, q.op, q.path, z, exists, v.exists)
	}
	if !exists {
		return
	}
	n := int(d.Int())
	names := make([]string, 0, max(n, 0))
	for range n {
		names = append(names, d.String())
	}
	sort.Strings(names)
	if !slices.Equal(names, v.children) {
		c.s.fail("ReadsTheState", "%s: %s at %v has the children %v, the history %v", c.who, q.path, z, names, v.children)
	}
	if q.op == wire.OpGetChildren2 {
		if got := wire.DecodeStat(d); got != v.stat {
			c.s.fail("ReadsTheState", "%s: %s at %v has %+v, the history %+v", c.who, q.path, z, got, v.stat)
		}
	}
}

// checkMultiRead: all of it is of one state.
func (c *client) checkMultiRead(q *ask, z zk.Zxid, d *jute.Decoder) {
	for i := range q.multi {
		var h wire.MultiHeader
		h.Decode(d)
		v := c.s.history.at(q.multi[i].Path, z)
		if h.Type == wire.OpError {
			d.Int()
		}
		c.checkNode(&ask{op: wire.OpGetData, path: q.multi[i].Path}, z, h.Type != wire.OpError, d, &v)
	}
}
