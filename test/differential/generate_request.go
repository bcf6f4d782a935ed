package main

import (
	"crypto/sha1"
	"encoding/base64"
	"maps"
	"slices"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// superPassword authenticates the super user in every configuration.
const superPassword = "super:secret"

// digestID is the identity of user:password under scheme digest.
func digestID(userPassword string) string {
	user, _, _ := strings.Cut(userPassword, ":")
	sum := sha1.Sum([]byte(userPassword))
	return user + ":" + base64.StdEncoding.EncodeToString(sum[:])
}

// make numbers a request, now and then oddly: a server echoes any xid. -1 is
// left out, because its reply would look like an event.
func (g *generator) make(c *modelClient, op wire.OpCode, body []byte) request {
	q := request{Xid: c.nextXid(), Op: op, Body: body}
	switch {
	case op == wire.OpAuth:
		q.Xid = wire.XidAuth
	case op == wire.OpSetWatches || op == wire.OpSetWatches2:
		q.Xid = wire.XidSetWatches
		q.RelZxid = true
	case op == wire.OpPing:
		q.Xid = wire.XidPing
	}
	if g.chance(2) {
		q.Xid = pick(g, []int32{0, -2, -3, -4, -8, 5, 1<<31 - 1, -1 << 31})
	}
	return q
}

// weights of the operations; the rest of the thousand is multi.
var weights = []struct {
	op     wire.OpCode
	weight int
}{
	{wire.OpCreate, 130}, {wire.OpCreate2, 70}, {wire.OpCreateContainer, 25}, {wire.OpCreateTTL, 25},
	{wire.OpDelete, 110}, {wire.OpExists, 60}, {wire.OpGetData, 60}, {wire.OpSetData, 90},
	{wire.OpGetACL, 25}, {wire.OpSetACL, 35}, {wire.OpGetChildren, 45}, {wire.OpGetChildren2, 45},
	{wire.OpSync, 10}, {wire.OpPing, 8}, {wire.OpMultiRead, 20}, {wire.OpReconfig, 4},
	{wire.OpCheckWatches, 22}, {wire.OpRemoveWatches, 16}, {wire.OpAuth, 12}, {wire.OpSetWatches, 10},
	{wire.OpSetWatches2, 10}, {wire.OpGetEphemerals, 12}, {wire.OpGetAllChildrenNumber, 16},
	{wire.OpAddWatch, 24}, {wire.OpWhoAmI, 6}, {wire.OpSASL, 1}, {wire.OpDeleteContainer, 3},
}

// request makes one request. In a batch it leaves out what is answered out of
// order (auth, sasl) and what would need a repair behind it.
func (g *generator) request(c *modelClient, batched bool) request {
	n, op := g.r.IntN(1000), wire.OpMulti
	for _, w := range weights {
		if n < w.weight {
			op = w.op
			break
		}
		n -= w.weight
	}
	switch {
	case (op == wire.OpAuth || op == wire.OpSASL) && batched:
		op = wire.OpWhoAmI
	case batched && (g.pairing == against38 && op == wire.OpCheckWatches || g.pairing != alike && (op == wire.OpSetWatches || op == wire.OpSetWatches2)):
		op = wire.OpExists // to judge their differences B is asked more, which needs the state of just then
	case op == wire.OpDeleteContainer && g.pairing == against39:
		op = wire.OpDelete // 3.9.3 lets every client delete with it
	}
	q := g.make(c, op, g.body(c, op, batched))
	if g.chance(3) && !(batched && g.pairing == against38 && op.IsWrite()) { // it shifts the zxids of what follows
		g.damage(&q)
	}
	return q
}

func (g *generator) body(c *modelClient, op wire.OpCode, batched bool) []byte {
	p := g.path()
	switch op {
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		r := g.create(op, false)
		if batched {
			r.Flags = tameContainer(op, r.Flags)
		}
		return r.Append(nil, op)
	case wire.OpDelete:
		r := wire.PathVersion{Path: p, Version: g.version(p, false)}
		return r.Append(nil)
	case wire.OpExists:
		r := wire.PathWatch{Path: p, Watch: !(batched && !g.pairing.oneRelease()) && g.chance(45) && g.watchable(c, p, watchStandard)}
		return r.Append(nil)
	case wire.OpGetData, wire.OpGetChildren, wire.OpGetChildren2:
		r := wire.PathWatch{Path: p, Watch: g.chance(45) && g.watchable(c, p, watchStandard)}
		return r.Append(nil)
	case wire.OpSetData:
		r := wire.SetDataRequest{Path: p, Data: g.dataFor(p), Version: g.version(p, false)}
		return r.Append(nil)
	case wire.OpSetACL:
		r := wire.SetACLRequest{Path: p, ACL: g.acl(), Version: g.version(p, true)}
		return r.Append(nil)
	case wire.OpGetACL, wire.OpSync, wire.OpGetAllChildrenNumber:
		return pathBody(p)
	case wire.OpGetEphemerals:
		return pathBody(pick(g, []string{"", "/", " ", "/a", "/a/", "/b/c", p, "x"}))
	case wire.OpDeleteContainer:
		if p != "" && g.chance(50) { // 3.8.0 closes the connection over an empty body
			return []byte(p) // as before 3.9
		}
		return jute.AppendBuffer(nil, []byte(p))
	case wire.OpMulti:
		return g.multi()
	case wire.OpMultiRead:
		return g.multiRead()
	case wire.OpReconfig:
		r := wire.ReconfigRequest{JoiningServers: pick(g, []string{"", "server.2=127.0.0.1:2:3;4", "x"}), LeavingServers: pick(g, []string{"", "1"}), CurConfigID: int64(g.r.IntN(3) - 1)}
		return r.Append(nil)
	case wire.OpAddWatch:
		return g.addWatch(c, p)
	case wire.OpCheckWatches, wire.OpRemoveWatches:
		return g.watcherType(c, p)
	case wire.OpSetWatches, wire.OpSetWatches2:
		return g.setWatches(c, op)
	case wire.OpAuth:
		return g.authPacket()
	case wire.OpSASL:
		return jute.AppendBuffer(nil, []byte("token"))
	}
	return nil
}

// authPacket returns an addauth, most often of a known user.
func (g *generator) authPacket() []byte {
	a := wire.AuthPacket{Type: int32(g.r.IntN(2)), Scheme: "digest", Auth: []byte(pick(g, g.users))}
	switch g.r.IntN(12) {
	case 0:
		a.Auth = []byte(superPassword)
	case 1:
		a.Auth = []byte(pick(g, []string{"", "u", "a:b:c", ":", ":x", "super:wrong"}))
	case 2:
		a.Scheme = "ip"
	}
	return a.Append(nil)
}

// watchable reports whether the client may watch path in this way. Over
// different releases one path keeps to one kind of watch for the connection's
// life: before 3.9 a watch of another kind replaces, since 3.9 it adds.
func (g *generator) watchable(c *modelClient, path string, k watchKind) bool {
	if c.watches[path] == watchNone {
		c.watches[path] = k
	}
	return g.pairing.oneRelease() || c.watches[path] == k
}

func (g *generator) addWatch(c *modelClient, p string) []byte {
	mode := int32(g.r.IntN(2))
	if g.chance(5) {
		mode = pick(g, []int32{2, -1, 7})
	} else if !g.watchable(c, p, watchPersistent+watchKind(mode)) {
		mode = 2
	}
	r := wire.PathInt{Path: p, Value: mode}
	return r.Append(nil)
}

// watcherType is the body of checkWatches and removeWatches. Over different
// releases the types Children and Data are not asked of persistent watches
// (before 3.9 they match them), nor 4 and 5 of a path with a watch.
func (g *generator) watcherType(c *modelClient, p string) []byte {
	if len(c.watches) > 0 && g.chance(60) {
		p = pick(g, slices.Sorted(maps.Keys(c.watches)))
	}
	t := int32(1 + g.r.IntN(3))
	if g.chance(15) {
		t = pick(g, []int32{0, -1, 4, 5, 6, 1 << 20})
	}
	if !g.pairing.oneRelease() {
		if !strings.HasPrefix(p, "/") {
			p = "/" // 3.8.0 finds no watch on "", and stumbles over "a" if any watch is recursive
		}
		switch k := c.watches[p]; {
		case (t == 4 || t == 5) && k != watchNone:
			t = 3
		case (t == 1 || t == 2) && k > watchStandard:
			t = 3
		}
	}
	r := wire.PathInt{Path: p, Value: t}
	return r.Append(nil)
}

func (g *generator) setWatches(c *modelClient, op wire.OpCode) []byte {
	list := func(k watchKind) []string {
		v := []string{}
		for range g.r.IntN(4) {
			if p := g.path(); g.watchable(c, p, k) {
				v = append(v, p)
			}
		}
		return v
	}
	r := wire.SetWatches{RelativeZxid: zk.Zxid(g.zxid - int64(g.r.IntN(20)))}
	if g.chance(10) {
		r.RelativeZxid = pick(g, []zk.Zxid{1 << 40, -1 << 40, 0, 5})
	}
	r.Data, r.Exist, r.Child = list(watchStandard), list(watchStandard), list(watchStandard)
	if op == wire.OpSetWatches2 {
		r.Persistent, r.PersistentRecursive = list(watchPersistent), list(watchRecursive)
	}
	if g.chance(3) {
		// Null is refused, by Apache after the lists before it have been done.
		r.Data, r.Exist, r.Child = []string{}, []string{}, nil
	}
	return r.Append(nil, op)
}

func (g *generator) multi() []byte {
	var b []byte
	tame := g.chance(40) // likely to succeed as a whole
	for range g.r.IntN(7) {
		m := wire.MultiOp{Type: pick(g, []wire.OpCode{wire.OpCreate, wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL,
			wire.OpDelete, wire.OpDelete, wire.OpSetData, wire.OpSetData, wire.OpCheck, wire.OpCheck})}
		switch m.Type {
		case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
			m.CreateRequest = g.create(m.Type, true)
			m.Flags = tameContainer(m.Type, m.Flags)
			if m.Type == wire.OpCreateContainer && !g.pairing.oneRelease() {
				m.Flags = zk.Container // 3.8.0 goes by the flag, 3.9 by the operation
			}
			if m.ACL == nil && g.pairing == against39 {
				m.ACL = []zk.ACL{} // 3.9.3 stumbles over null, and logs that under the zxid before
			}
			if tame {
				m.ACL, m.Path = zk.OpenACLUnsafe(), pick(g, g.paths)+pick(g, []string{"", "", "/x", "/y", "/z", "/z1", "/z2"})
			}
			switch {
			case m.Type == wire.OpCreateTTL && g.chance(5):
				m.Flags, m.TTL = pick(g, []zk.CreateMode{0, 1, 2, 3, 4, 5, 6, 9, -1}), pick(g, []int64{0, 1, 1 << 40})
			case m.Type == wire.OpCreateTTL && m.Flags.IsTTL() && g.chance(5):
				m.TTL = pick(g, []int64{-1, -1 << 62})
			case m.Type != wire.OpCreateTTL && g.pairing.oneRelease() && g.chance(3):
				m.Flags = pick(g, []zk.CreateMode{-1, 9}) // refused by 3.8.0 alone, by 3.9 with the whole multi
			}
		default:
			m.Path = g.path()
			m.Data, m.Version = g.dataFor(m.Path), g.version(m.Path, false)
			if tame || g.chance(50) {
				m.Version = -1
			}
			if tame && m.Type == wire.OpDelete {
				m.Path = pick(g, g.paths) + pick(g, []string{"/x", "/y", "/z", "/z1", "/z2"})
			}
		}
		b = m.Append(b)
	}
	switch {
	case g.chance(2): // no end
		return b
	case g.chance(2):
		b = wire.MultiHeader{Type: pick(g, []wire.OpCode{7, 14, -1, 99, 4, 8}), Err: -1}.Append(b)
		b = jute.AppendString(b, "/a")
		b = append(b, make([]byte, 12)...)
	case g.chance(2):
		b = append(wire.AppendMultiEnd(b), "behind the end"...)
		return b
	}
	return wire.AppendMultiEnd(b)
}

// tameContainer is the flags of a create that something else may meet before it is
// applied: Apache takes a container with an ephemeral flag for an ephemeral until then.
func tameContainer(op wire.OpCode, flags zk.CreateMode) zk.CreateMode {
	if op == wire.OpCreateContainer && flags.IsEphemeral() {
		return flags &^ zk.Ephemeral
	}
	return flags
}

func (g *generator) multiRead() []byte {
	var b []byte
	for range g.r.IntN(5) {
		m := wire.MultiOp{Type: pick(g, []wire.OpCode{wire.OpGetData, wire.OpGetChildren})}
		if g.chance(3) {
			m.Type = wire.OpDelete
			m.Version = -1
		}
		m.Path = g.path()
		b = m.Append(b)
	}
	if g.chance(3) {
		return b
	}
	return wire.AppendMultiEnd(b)
}

// damage spoils a body: cut, lengthened, or with an impossible length or null
// for its path. It must never make the two requests that break Apache: a
// createTTL that is not one, and a multi with a null path.
func (g *generator) damage(q *request) {
	q.Junk = true
	const pathLength = 4
	how := g.r.IntN(4)
	if len(q.Body) < pathLength {
		how = 1
	}
	switch q.Op {
	case wire.OpMulti, wire.OpMultiRead, wire.OpCreateTTL, wire.OpAuth, wire.OpSetWatches, wire.OpSetWatches2, wire.OpSASL, wire.OpReconfig:
		how %= 2
	}
	if (q.Op == wire.OpAuth || q.Op == wire.OpSASL || q.Op == wire.OpDeleteContainer) && how == 0 {
		how = 1 // a cut one closes the connection: closing makes those
	}
	switch how {
	case 0:
		q.Body = q.Body[:g.r.IntN(len(q.Body))]
	case 1:
		if q.Op == wire.OpDeleteContainer {
			return
		}
		q.Body = append(q.Body, "behind the record"...)
	case 2:
		length := pick(g, []int32{1<<31 - 1, -2, -1 << 31, 0xFFFFF, 0x1FFFFF, int32(len(q.Body))})
		q.Body = append(jute.AppendInt(nil, length), q.Body[pathLength:]...)
	case 3:
		d := jute.NewDecoder(q.Body)
		_ = d.String()
		if q.Op == wire.OpAddWatch || d.Err() != nil {
			return
		}
		switch q.Op {
		case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer:
			var r wire.CreateRequest
			whole := jute.NewDecoder(q.Body)
			if r.Decode(&whole, q.Op); !r.Flags.Valid() || r.Flags.IsTTL() {
				return // Apache looks at the flags before it stumbles over the null
			}
		}
		q.Body = append(jute.AppendInt(nil, -1), d.Rest()...)
	}
}
