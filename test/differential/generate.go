package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// Session timeouts in milliseconds. The long one outlives every run, so that no
// session ends but by a step.
const (
	longTimeout  = 300_000
	shortTimeout = 1000
)

const (
	maxClients   = 5  // sessions with a connection, or that may get one again
	maxSequenced = 24 // names made by the servers that are kept for later requests
)

// watchKind is what a client's watches on one path are. Releases before 3.9
// keep only the last kind, so in a comparison over releases a path gets one.
type watchKind int

const (
	watchNone watchKind = iota
	watchStandard
	watchPersistent
	watchRecursive
)

// A live session of the generator's model.
type modelClient struct {
	name     string
	attached bool
	closed   bool // ended; its id is only good for a refusal
	xid      int32
	watches  map[string]watchKind
}

// A generator makes steps from a seed and from what the oracle answered. It
// does not know what is right; it keeps just enough to ask good questions.
type generator struct {
	r        *rand.Rand
	pairing  pair // decides what is left unasked
	quota    bool // limits are enforced: ask more below /q
	clients  []*modelClient
	made     int // clients so far
	versions map[string]zk.Stat
	seq      []string // names that the servers made
	zxid     int64    // last, relative to the start
	paths    []string
	users    []string
}

func newGenerator(seed uint64, p pair) *generator {
	g := &generator{
		r:        rand.New(rand.NewPCG(seed, 0x70696e666f6c64)),
		pairing:  p,
		versions: map[string]zk.Stat{},
		users:    []string{"ann:a", "ben:b"},
	}
	for _, a := range []string{"/a", "/b", "/q"} {
		g.paths = append(g.paths, a)
		for _, b := range []string{"/a", "/b", "/c"} {
			g.paths = append(g.paths, a+b)
			for _, c := range []string{"/x", "/y"} {
				g.paths = append(g.paths, a+b+c)
			}
		}
	}
	return g
}

// quotaPaths are the znodes that hold limits for /q and /q/a.
func quotaPaths() []string {
	return []string{
		"/zookeeper/quota/q", "/zookeeper/quota/q/zookeeper_limits", "/zookeeper/quota/q/zookeeper_stats",
		"/zookeeper/quota/q/a", "/zookeeper/quota/q/a/zookeeper_limits", "/zookeeper/quota/q/a/zookeeper_stats",
	}
}

// oddPaths are paths that some check refuses, or that should be refused.
func oddPaths() []string {
	return []string{
		"", "/", "a", "/a/", "//", "/a//b", "/a/./b", "/a/../b", "/a/.", "/a/..", "/.", "/...", "/a\x00", "/a/b\x00c",
		"/a/\x01", "/a/\x1f", "/a/ ", "/a/\x7f", "/a/\u009f", "/a/\u00a0", "/a/\u0416", "/a/\ud7ff", "/a/\ue000", "/a/\uf8ff", "/a/\uf900",
		"/a/\uffef", "/a/\ufff0", "/a/\uffff", "/zookeeper", "/zookeeper/config", "/zookeeper/quota",
		"/zookeeper/x", "/zookeeper/config/x", "/zookeeper/quota/q/zookeeper_limits/x", "/a/b/c/d/e", "/a/x-", "/b/.x",
		"/" + strings.Repeat("n", 300), strings.Repeat("/a", 40), "/a/b/", "/q/",
	}
}

func (g *generator) chance(percent int) bool { return g.r.IntN(100) < percent }

func pick[T any](g *generator, v []T) T { return v[g.r.IntN(len(v))] }

// path picks a path, often one that exists.
func (g *generator) path() string {
	switch n := g.r.IntN(100); {
	case n < 5:
		return pick(g, oddPaths())
	case n < 8:
		return pick(g, quotaPaths())
	case n < 18 && len(g.seq) > 0:
		return pick(g, g.seq)
	case n < 20:
		return "/"
	}
	if g.quota && g.chance(50) {
		return pick(g, g.paths[slices.Index(g.paths, "/q"):])
	}
	return pick(g, g.paths)
}

func (g *generator) version(path string, aversion bool) int32 {
	st := g.versions[path]
	v := st.Version
	if aversion {
		v = st.Aversion
	}
	switch n := g.r.IntN(20); {
	case n < 11:
		return -1
	case n < 16:
		return v
	case n < 18:
		return v + 1
	case n < 19:
		return v - 1
	}
	return pick(g, []int32{-2, 0, 1, 7, 1 << 30, -1 << 31})
}

func (g *generator) data() []byte {
	switch n := g.r.IntN(40); {
	case n < 3:
		return nil
	case n < 6:
		return []byte{}
	case n < 7:
		return make([]byte, 1+g.r.IntN(30_000))
	case n < 9:
		return make([]byte, g.r.IntN(1500))
	}
	b := make([]byte, 1+g.r.IntN(20))
	for i := range b {
		b[i] = byte('a' + g.r.IntN(26))
	}
	return b
}

// dataFor is data for path. Limits and statistics of quotas are always texts
// that parse: others end Apache 3.8.0 at the next change below the path.
func (g *generator) dataFor(path string) []byte {
	if isQuotaText(path) {
		return g.limits()
	}
	return g.data()
}

func isQuotaText(path string) bool {
	return strings.HasSuffix(path, "zookeeper_limits") || strings.HasSuffix(path, "zookeeper_stats")
}

// limits is the text of a quota node as zkCli writes it.
func (g *generator) limits() []byte {
	n, b := g.r.IntN(8)-1, g.r.IntN(60)-1
	switch g.r.IntN(5) {
	case 0:
		return []byte(fmt.Sprintf("count=%d,bytes=%d", n, b))
	case 1:
		return []byte(fmt.Sprintf("count=-1,bytes=-1=;byteHardLimit=%d;countHardLimit=-1", b))
	case 2:
		return []byte(fmt.Sprintf("count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=%d", n))
	}
	return []byte(fmt.Sprintf("count=%d,bytes=%d=;byteHardLimit=%d;countHardLimit=%d", n+3, b, b+20, n+6))
}

func world31() zk.ACL { return zk.ACL{Perms: zk.PermAll, ID: zk.AnyoneUnsafe} }

func (g *generator) acl() []zk.ACL {
	if g.chance(72) {
		return zk.OpenACLUnsafe()
	}
	one := func(p zk.Perms, scheme, id string) []zk.ACL {
		return []zk.ACL{{Perms: p, ID: zk.ID{Scheme: scheme, ID: id}}}
	}
	if g.chance(25) {
		acl := pick(g, badACLs())
		if len(acl) == 1 && acl[0].ID.ID == ipv6 && g.pairing != alike {
			return nil
		}
		return acl
	}
	switch g.r.IntN(9) {
	case 0:
		return zk.CreatorAllACL()
	case 1:
		return zk.ReadACLUnsafe()
	case 2:
		return one(zk.Perms(g.r.IntN(32)), "world", "anyone")
	case 3:
		return one(zk.PermAll, "digest", digestID(pick(g, g.users)))
	case 4:
		return append(one(zk.PermAll, "digest", digestID(pick(g, g.users))), one(zk.PermRead, "world", "anyone")...)
	case 5:
		return one(zk.PermAll, "ip", pick(g, []string{"127.0.0.1", "127.0.0.0/8", "10.0.0.0/8", "1.2.3.4/0", "127.0.0.1/32"}))
	case 6:
		return []zk.ACL{world31(), world31()}
	case 7:
		return append(one(zk.Perms(g.r.IntN(32)), "auth", "ignored"), one(zk.PermRead|zk.PermAdmin, "world", "anyone")...)
	}
	return one(pick(g, []zk.Perms{0, 64, -1, 30, 15}), "world", "anyone")
}

// ipv6 is an identity of scheme ip that is valid since 3.9.4 only.
const ipv6 = "::1"

// badACLs are lists that the server must refuse, or is at least tempted to.
func badACLs() [][]zk.ACL {
	one := func(scheme, id string) []zk.ACL {
		return []zk.ACL{{Perms: zk.PermAll, ID: zk.ID{Scheme: scheme, ID: id}}}
	}
	return [][]zk.ACL{
		nil, {}, one("world", "x"), one("world", ""), one("WORLD", "anyone"), one("foo", "x"), one("", ""),
		one("digest", "nocolon"), one("digest", "a:b:c"), one("digest", ""), one("digest", ":"), one("digest", "a:"), one("digest", ":b"), one("digest", "a:b"),
		one("ip", "1.2.3"), one("ip", "1.2.3.256"), one("ip", ""), one("ip", "1.2.3.4/33"), one("ip", "1.2.3.4/-1"), one("ip", "1.2.3.4/x"),
		one("ip", "1.2.3.4/"), one("ip", "1.2.3.4/8/9"), one("ip", ipv6), one("ip", "01.2.3.4"), one("super", ""), one("x509", "cn=a"), one("sasl", "u"),
		append(one("world", "anyone"), one("foo", "x")...),
	}
}

// create makes the record for op, which may be changed to fit.
func (g *generator) create(op wire.OpCode, inMulti bool) wire.CreateRequest {
	r := wire.CreateRequest{Path: g.path(), ACL: g.acl(), TTL: -1}
	if g.chance(1) {
		r.Path = "/a/\U0001f600" // refused; echoed elsewhere, Java writes it as two surrogates
	}
	r.Data = g.dataFor(r.Path)
	r.Flags = pick(g, []zk.CreateMode{0, 0, 0, 0, 0, 1, 1, 2, 2, 3, 4})
	switch op {
	case wire.OpCreateContainer:
		r.Flags = pick(g, []zk.CreateMode{4, 4, 4, 4, 0, 1, 2, 3})
	case wire.OpCreateTTL:
		r.Flags = pick(g, []zk.CreateMode{5, 5, 6})
		r.TTL = pick(g, []int64{86_400_000, 1<<40 - 1})
	}
	if !inMulti && g.chance(4) {
		r.Flags = pick(g, []zk.CreateMode{-1, 5, 6, 7, 255, 1 << 30})
	}
	if isQuotaText(r.Path) && r.Flags.IsEphemeral() {
		// When a session ends, whether its ephemerals count would hang on their order.
		r.Flags &^= zk.Ephemeral
	}
	if !inMulti && op == wire.OpCreateTTL && g.chance(20) {
		r.TTL = pick(g, []int64{0, -1, 1 << 40, -1 << 62, 1<<62 + 5})
		if !r.Flags.IsTTL() && r.TTL < 0 {
			r.TTL = 5 // the request that kills Apache: never sent
		}
	} else if op == wire.OpCreateTTL && !r.Flags.IsTTL() {
		r.TTL = 5
	}
	if r.Flags.IsSequential() && g.chance(25) {
		r.Path = pick(g, []string{"/", "/a/", "/b/", "/a/.", "/a/..", "/a//", "/a/b/", "/none/", "/q/s-"})
	}
	return r
}

// next returns the next step.
func (g *generator) next() step {
	live := g.attached()
	if len(live) == 0 || len(live) < 3 && g.chance(30) {
		return g.open()
	}
	c := pick(g, live)
	switch n := g.r.IntN(1000); {
	case n >= 120 && n < 128:
		return g.setQuota(c)
	case n < 6 && len(g.clients) < maxClients:
		return g.open()
	case n < 10:
		c.attached, c.watches = false, map[string]watchKind{}
		return step{Kind: kindDrop, Client: c.name}
	case n < 26:
		return g.attach()
	case n < 30:
		return step{Kind: kindShake, Client: "stranger", Bytes: g.handshake()}
	case n < 33:
		return step{Kind: kindRaw, Client: c.name, Bytes: pick(g, [][]byte{
			{0, 0, 0, 0}, {0, 0, 0, 4, 0, 0, 0, 1}, {0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0}, {255, 255, 255, 255}, {127, 255, 255, 255}, {0, 16, 0, 0}, {128, 0, 0, 0},
		})}
	case n < 35:
		return g.expire()
	case n < 47:
		return g.last(c, g.closing(c))
	case n < 120:
		return g.batch(c)
	}
	q := g.request(c, false)
	return step{Kind: kindRequest, Client: c.name, Reqs: []request{q}}
}

// setQuota is what zkCli's setquota sends: the quota's znodes, its limits and
// statistics. Limits are low, so that they are met.
func (g *generator) setQuota(c *modelClient) step {
	s := step{Kind: kindRequest, Client: c.name}
	path := pick(g, []string{"/q", "/q/a"})
	for _, n := range []struct {
		path string
		data []byte
	}{
		{path, nil},
		{"/zookeeper/quota/q", []byte{}},
		{"/zookeeper/quota" + path, []byte{}},
		{"/zookeeper/quota" + path + "/zookeeper_limits", g.limits()},
		{"/zookeeper/quota" + path + "/zookeeper_stats", []byte("count=0,bytes=0")},
	} {
		r := wire.CreateRequest{Path: n.path, Data: n.data, ACL: zk.OpenACLUnsafe(), TTL: -1}
		s.Reqs = append(s.Reqs, g.make(c, wire.OpCreate, r.Append(nil, wire.OpCreate)))
		if strings.HasSuffix(n.path, "zookeeper_limits") {
			w := wire.SetDataRequest{Path: n.path, Data: n.data, Version: -1}
			s.Reqs = append(s.Reqs, g.make(c, wire.OpSetData, w.Append(nil)))
		}
	}
	return s
}

// closing is a request that ends the session or at least the connection.
func (g *generator) closing(c *modelClient) request {
	if g.chance(55) {
		q := g.make(c, wire.OpCloseSession, nil)
		if g.chance(10) {
			q.Body = []byte("ignored")
		}
		return q
	}
	if g.chance(50) {
		unknown := []wire.OpCode{0, 10, 23, 24, 99, 108, -1, -2, -12, 1000, -1 << 31}
		if g.pairing == against39 {
			unknown = append(unknown, wire.OpCheck) // one that only a multi may have
		}
		return g.make(c, pick(g, unknown), g.data())
	}
	return g.make(c, wire.OpAuth, g.badAuth())
}

func (g *generator) badAuth() []byte {
	a := wire.AuthPacket{Scheme: pick(g, []string{"foo", "world", "auth", "super", "", "x509", "sasl", "ensemble"}), Auth: []byte("x:y")}
	b := a.Append(nil)
	if g.chance(30) {
		b = b[:g.r.IntN(len(b))]
	}
	return b
}

// last is a step whose last request is q. Before closeSession some may go in
// one batch; a failing auth and an unknown operation overtake what is pending.
func (g *generator) last(c *modelClient, q request) step {
	s := step{Kind: kindRequest, Client: c.name}
	if q.Op == wire.OpCloseSession && g.chance(40) {
		for range 1 + g.r.IntN(5) {
			// A container made with an ephemeral flag may go with the session in
			// Apache, if it is not applied yet.
			if q := g.request(c, true); q.Op != wire.OpSetACL && q.Op != wire.OpCreateContainer && !(g.quota && q.Op.IsWrite()) {
				s.Reqs = append(s.Reqs, q)
			}
		}
		q.Xid = c.nextXid()
	}
	s.Reqs = append(s.Reqs, q)
	return s
}

// batch is requests sent without waiting. Nothing that closes is in it but at
// the end: what a server does with requests behind is not promised.
func (g *generator) batch(c *modelClient) step {
	s := step{Kind: kindRequest, Client: c.name}
	for range 2 + g.r.IntN(30) {
		q := g.request(c, true)
		s.Reqs = append(s.Reqs, q)
		if q.Op == wire.OpSetACL || g.quota && q.Op.IsWrite() {
			break // Apache checks what is behind with the old ACL, or the old usage, or the new, as it happens
		}
	}
	return s
}

func (g *generator) attached() []*modelClient {
	var v []*modelClient
	for _, c := range g.clients {
		if c.attached {
			v = append(v, c)
		}
	}
	return v
}

func (g *generator) newClient() *modelClient {
	g.made++
	return &modelClient{name: fmt.Sprintf("c%d", g.made), watches: map[string]watchKind{}}
}

func (g *generator) open() step {
	c := g.newClient()
	c.attached = true
	// Sessions that ended make room first.
	if i := slices.IndexFunc(g.clients, func(c *modelClient) bool { return c.closed }); i >= 0 && len(g.clients) >= maxClients {
		g.clients = slices.Delete(g.clients, i, i+1)
	}
	g.clients = append(g.clients, c)
	return step{Kind: kindOpen, Client: c.name, Timeout: longTimeout, NoByte: g.chance(30)}
}

func (g *generator) attach() step {
	c := pick(g, g.clients)
	if d := slices.IndexFunc(g.clients, func(c *modelClient) bool { return !c.attached && !c.closed }); d >= 0 && g.chance(60) {
		c = g.clients[d]
	}
	s := step{Kind: kindAttach, Client: c.name, Timeout: longTimeout, Pass: "right", NoByte: g.chance(20)}
	if g.chance(30) {
		s.Pass = pick(g, []string{"wrong", "empty", "long"})
	}
	if g.chance(12) {
		s.Seen = pick(g, []int64{1, 1000, 1 << 40, -1, -1000})
	}
	return s
}

func (g *generator) handshake() []byte {
	r := wire.ConnectRequest{TimeoutMillis: longTimeout, Password: make([]byte, wire.PasswordLen), HasReadOnly: true}
	switch g.r.IntN(9) {
	case 0:
		r.TimeoutMillis = pick(g, []int32{0, -5, 1, 1 << 30, -1 << 31})
	case 1:
		r.SessionID = pick(g, []zk.SessionID{1, -1, 0x1234, -1 << 63, 1<<63 - 1})
	case 2:
		r.Password = pick(g, [][]byte{nil, {}, []byte("abc"), make([]byte, 40)})
	case 3:
		r.LastZxidSeen = pick(g, []zk.Zxid{1 << 60, -5, 1 << 40})
	case 4:
		r.ProtocolVersion = 7
	case 5:
		r.ReadOnly = true
	case 6:
		b := r.Append(nil)
		return b[:g.r.IntN(len(b)-1)]
	case 7:
		return append(r.Append(nil), g.data()...)
	}
	return r.Append(nil)
}

// expire is a short session with some ephemerals, waited out.
func (g *generator) expire() step {
	c := g.newClient()
	s := step{Kind: kindExpire, Client: c.name, Timeout: shortTimeout}
	n := 1 + g.r.IntN(4)
	if g.quota {
		n = 1 // as in a batch
	}
	for range n {
		r := wire.CreateRequest{Path: g.path(), ACL: zk.OpenACLUnsafe(), Flags: pick(g, []zk.CreateMode{1, 1, 3}), TTL: -1}
		if isQuotaText(r.Path) {
			r.Path = "/a/b"
		}
		r.Data = g.dataFor(r.Path)
		s.Reqs = append(s.Reqs, g.make(c, wire.OpCreate, r.Append(nil, wire.OpCreate)))
	}
	c.closed = true
	g.clients = append(g.clients, c)
	return s
}

// learn takes in what the oracle answered.
func (g *generator) learn(s *step, got map[string][]item, last int64) {
	g.zxid = last
	for name, items := range got {
		i := slices.IndexFunc(g.clients, func(c *modelClient) bool { return c.name == name })
		for _, it := range items {
			if i >= 0 {
				g.clients[i].see(s, &it)
			}
			for _, p := range it.Stats {
				if p.path == "" {
					continue
				}
				if p.stat.Ctime != 0 {
					g.versions[p.path] = p.stat
				}
				if it.Req != nil && it.Req.requestPath() != p.path && len(g.seq) < maxSequenced {
					g.seq = append(g.seq, p.path)
				}
			}
		}
	}
	if len(g.seq) == maxSequenced {
		g.seq = g.seq[maxSequenced/2:]
	}
}

// see follows whether the client has a connection.
func (c *modelClient) see(s *step, it *item) {
	switch it.Kind {
	case itemSession:
		c.attached = s.Kind != kindExpire
		if s.Kind == kindAttach {
			c.watches = map[string]watchKind{}
		}
	case itemReply:
		if it.Req.Op == wire.OpCloseSession {
			c.closed = true
		}
	case itemClosed, itemSilent:
		c.attached = false
		c.watches = map[string]watchKind{}
	}
}

func (c *modelClient) nextXid() int32 {
	c.xid++
	return c.xid
}
