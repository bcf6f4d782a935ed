package sim

import (
	"slices"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// answered handles a reply or an event.
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
		if c.conn.reads {
			s.fail("ReadOnly", "%s is told of %v %s by member %d, which only reads", c.who, e.Type, e.Path, c.member)
		}
		c.watches.event(h.Zxid, e)
		c.sees(h.Zxid)
		return
	}
	if h.Xid == wire.XidAuth {
		if h.Err != zk.OK {
			s.fail("ClientProtocol", "%s gives its password and is answered %v", c.who, h.Err)
		}
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
	if q.onReader {
		c.answeredReadOnly(q, &h, d)
		return
	}
	if h.Zxid > 0 && q.op != wire.OpSetWatches2 {
		c.watches.showed(h.Zxid)
	}
	if q.op.IsWrite() {
		c.wrote(q, &h, &d)
	} else {
		c.noteWatch(q, h.Zxid, c.read(q, &h, &d))
	}
	c.whole(q, &d)
	if a := q.access; a != nil {
		a.Return, a.Code, a.Unknown = s.now, h.Err, false
	}
}

// whole checks that an answer was read to its end.
func (c *client) whole(q *ask, d *jute.Decoder) {
	if d.Err() != nil || len(d.Rest()) > 0 {
		c.s.fail("ClientProtocol", "%s: the answer to %v is cut or too long: %v, %d bytes left", c.who, q.op, d.Err(), len(d.Rest()))
	}
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

// wrote judges the answer to a write by its outcome in the history.
func (c *client) wrote(q *ask, h *wire.ReplyHeader, d *jute.Decoder) {
	s, hist := c.s, c.s.history
	if q.op == wire.OpCloseSession {
		if life := hist.sessions[c.session]; life != nil && life.ended < 0 {
			s.fail("Durability", "%s is told that session %v is closed, and the history has it", c.who, c.session)
		}
		c.newSession()
		return
	}
	o := hist.outcomes[request{c.session, q.xid}]
	if o.z != h.Zxid {
		s.fail("Durability", "%s is told that request %d is %v, the history has it as %v", c.who, q.xid, h.Zxid, o.z)
	}
	if h.Zxid <= q.floor {
		s.fail("Linearizability", "%s: %v became %v, but %v had been answered before it was asked", c.who, q.op, h.Zxid, q.floor)
	}
	s.answered = max(s.answered, h.Zxid)
	switch {
	case q.probe:
		c.probed = true
	case q.change != nil && q.change == c.to:
		c.reconfigured(h.Err)
	}
	if want := c.codeHere(q, o.code); h.Err != want {
		c.wrong(q, h.Zxid, h.Err, want)
	}
	if h.Err != zk.OK {
		return
	}
	if q.op != wire.OpMulti {
		c.compare(q, h.Zxid, c.readResult(q.op, d), o.results[0])
		return
	}
	for _, want := range o.results {
		var mh wire.MultiHeader
		mh.Decode(d)
		got := result{op: mh.Type, code: mh.Err}
		if mh.Type == wire.OpError {
			d.Int()
		} else {
			got = c.readResult(mh.Type, d)
		}
		c.compare(q, h.Zxid, got, want)
	}
	c.readEnd(q, d)
}

// readEnd reads the end of the answer to a multi.
func (c *client) readEnd(q *ask, d *jute.Decoder) {
	var end wire.MultiHeader
	if end.Decode(d); !end.Done {
		c.s.fail("ClientProtocol", "%s: the answer to %v has no end", c.who, q.op)
	}
}

// readResult reads what an operation is answered that has succeeded.
func (c *client) readResult(op wire.OpCode, d *jute.Decoder) result {
	r := result{op: op}
	switch op {
	case wire.OpCreate:
		r.path = d.String()
	case wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		r.path, r.stat = d.String(), wire.DecodeStat(d)
	case wire.OpSetData, wire.OpSetACL:
		r.stat = wire.DecodeStat(d)
	case wire.OpReconfig:
		r.data, r.stat = string(d.Buffer()), wire.DecodeStat(d)
	}
	return r
}

// compare judges the result of one operation.
func (c *client) compare(q *ask, z zk.Zxid, got, want result) {
	switch want.op {
	case wire.OpCreate:
		want.stat = zk.Stat{}
	case wire.OpSetData, wire.OpSetACL:
		want.path = ""
	}
	if got != want {
		c.wrong(q, z, got, want)
	}
	if want.op == wire.OpSetData && want.code == zk.OK {
		c.versions[q.path] = want.stat.Version
	}
}

// wrong fails the run: an answer is not the model's.
func (c *client) wrong(q *ask, z zk.Zxid, got, want any) {
	c.s.fail("ReadsTheState", "%s: %v %s at %v by %v is answered %+v, the model answers %+v", c.who, q.op, q.path, z, q.ids, got, want)
}

// read judges the answer to a read by the model's state at the zxid of the answer. It
// returns the code that was due.
func (c *client) read(q *ask, h *wire.ReplyHeader, d *jute.Decoder) zk.Code {
	s, z := c.s, h.Zxid
	if z > 0 && z < q.floor {
		s.fail("SyncedRead", "%s: %v %s behind a sync shows %v, %v had been answered before the sync", c.who, q.op, q.path, z, q.floor)
	}
	if q.synced {
		s.cover.Synced++
	}
	v := s.history.at(q.path, z)
	code := c.readCode(q, &v)
	if h.Err != code {
		c.wrong(q, z, h.Err, code)
	}
	s.cover.code(code)
	if code == zk.OK {
		c.readBody(q, z, &v, d)
	}
	return code
}

// readCode is the code with which a read of the znode must be answered.
func (c *client) readCode(q *ask, v *version) zk.Code {
	perm := zk.PermRead
	switch q.op {
	case wire.OpRemoveWatches:
		if !c.watches.watches(q.path) {
			return zk.ErrNoWatcher
		}
		return zk.OK
	case wire.OpGetACL:
		perm |= zk.PermAdmin
	case wire.OpGetData, wire.OpExists, wire.OpGetChildren, wire.OpGetChildren2, wire.OpGetAllChildrenNumber:
	default:
		return zk.OK
	}
	return readable(v, perm, q.ids)
}

// readable is the code with which a read is answered that needs a permission.
func readable(v *version, perm zk.Perms, ids []zk.ID) zk.Code {
	switch {
	case !v.exists:
		return zk.ErrNoNode
	case !allows(v.acl, perm, ids):
		return zk.ErrNoAuth
	}
	return zk.OK
}

// readBody compares what a read shows.
func (c *client) readBody(q *ask, z zk.Zxid, v *version, d *jute.Decoder) {
	m := c.s.history.model
	switch q.op {
	case wire.OpGetData:
		if q.path == configPath {
			c.readConfig(q, z, *v, d)
			return
		}
		c.equal(q, z, string(d.Buffer()), v.data)
		c.equal(q, z, wire.DecodeStat(d), v.stat())
		c.versions[q.path] = v.version
		if q.access != nil {
			q.access.Value = v.data
		}
	case wire.OpExists:
		c.equal(q, z, wire.DecodeStat(d), v.stat())
	case wire.OpGetChildren, wire.OpGetChildren2:
		c.equalList(q, z, readStrings(d), v.children)
		if q.op == wire.OpGetChildren2 {
			c.equal(q, z, wire.DecodeStat(d), v.stat())
		}
	case wire.OpGetACL:
		if got, want := wire.DecodeACL(d), shownACL(v.acl, q.ids); !slices.Equal(got, want) {
			c.wrong(q, z, got, want)
		}
		c.equal(q, z, wire.DecodeStat(d), v.stat())
	case wire.OpGetEphemerals:
		own := m.ephemerals(q.session, z)
		c.equalList(q, z, readStrings(d), slices.DeleteFunc(own, func(p string) bool { return !strings.HasPrefix(p, q.path) }))
	case wire.OpGetAllChildrenNumber:
		below := m.list(z, func(p string, _ *version) bool { return strings.HasPrefix(p, q.path+"/") })
		c.equal(q, z, d.Int(), int32(len(below)))
	case wire.OpWhoAmI:
		c.equal(q, z, d.Int(), int32(len(q.ids)))
		for _, id := range q.ids {
			name := id.ID
			if id.Scheme == "digest" {
				name, _, _ = strings.Cut(id.ID, ":")
			}
			c.equal(q, z, zk.ID{Scheme: d.String(), ID: d.String()}, zk.ID{Scheme: id.Scheme, ID: name})
		}
	case wire.OpMultiRead:
		c.checkMultiRead(q, z, d)
	case wire.OpSync:
		c.equal(q, z, d.String(), q.path)
	case wire.OpAddWatch:
		c.equal(q, z, d.Int(), int32(0))
	}
}

// equal compares a part of an answer.
func (c *client) equal(q *ask, z zk.Zxid, got, want any) {
	if got != want {
		c.wrong(q, z, got, want)
	}
}

// equalList compares a list of names, whose order is not promised.
func (c *client) equalList(q *ask, z zk.Zxid, got, want []string) {
	slices.Sort(got)
	if !slices.Equal(got, want) {
		c.wrong(q, z, got, want)
	}
}

func readStrings(d *jute.Decoder) []string {
	n := int(d.Int())
	names := make([]string, 0, max(n, 0))
	for range n {
		names = append(names, d.String())
	}
	return names
}

// checkMultiRead: all of it is of one state.
func (c *client) checkMultiRead(q *ask, z zk.Zxid, d *jute.Decoder) {
	for i := range q.reads {
		op := &q.reads[i]
		var h wire.MultiHeader
		h.Decode(d)
		v := c.s.history.at(op.Path, z)
		want := readable(&v, zk.PermRead, q.ids)
		c.equal(q, z, h.Err, want)
		one := &ask{op: op.Type, path: op.Path, ids: q.ids}
		if want != zk.OK {
			c.equal(one, z, zk.Code(d.Int()), want)
			continue
		}
		c.readBody(one, z, &v, d)
	}
	c.readEnd(q, d)
}

// noteWatch notes the watch that a read has set, or removed.
func (c *client) noteWatch(q *ask, z zk.Zxid, code zk.Code) {
	w := &c.watches
	switch q.op {
	case wire.OpGetData:
		if q.watch && code == zk.OK {
			w.set(q.path, byData)
		}
	case wire.OpExists:
		if q.watch && code != zk.ErrNoAuth {
			w.set(q.path, [...]watchHow{byData, byExist}[btoi(code == zk.ErrNoNode)])
		}
	case wire.OpGetChildren, wire.OpGetChildren2:
		if q.watch && code == zk.OK {
			w.set(q.path, byChildren)
		}
	case wire.OpAddWatch:
		w.set(q.path, [...]watchHow{byPersistent, byRecursive}[q.mode])
	case wire.OpRemoveWatches:
		w.remove(q.path)
	case wire.OpSetWatches2:
		w.restored(q.restore, z)
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
