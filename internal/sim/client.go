package sim

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/server"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// client is a client of the ensemble, with one session after the other. It
// speaks the client protocol and believes nothing.
type client struct {
	s    *Sim
	n    int
	who  string
	conn *clientConn // nil while it has none

	session   zk.SessionID
	password  []byte
	timeout   time.Duration
	last      zk.Zxid // the latest state that it has seen in this session
	over      bool    // the session's end was asked for
	member    int     // that it was connected with last
	xid       int32
	values    int
	pending   []*ask
	sentAt    time.Duration // when it last sent anything
	syncFloor zk.Zxid       // what a read must show: the latest write that was answered before the sync in front of it
	retired   bool          // it asks for nothing more

	mayRead bool      // it accepts a server that only reads
	home    localHome // the server that knows its session, if that is local

	user     string  // whose password it gives, "" for none
	ids      []zk.ID // its identities, once it has
	versions map[string]int32
	watches  clientWatches

	probe, probed bool          // it writes once
	operator      bool          // it is the superuser, and changes the configuration of the ensemble
	to            *rosterChange // that it probes with; nil: it creates a znode
	base          bool          // it has made the znodes that all use
}

// clientConn is a connection of a client with a member.
type clientConn struct {
	c      *client
	m      *member
	life   int
	sc     *server.SteppedConn
	joined bool   // the session is there
	reads  bool   // the server has no quorum, and only reads
	config []byte // member.configured of the process that it is connected to
	began  time.Duration
	asked  time.Duration // when m has read the first bytes; 0: not yet
	heard  time.Duration
	dead   bool // as the client knows
	gone   bool // as the server knows

	up, down     [][]byte // on their way, in order; nil in down is the end
	upAt, downAt time.Duration
	in           []byte
}

func newClient(s *Sim, n int) *client {
	p := &s.profile
	c := &client{s: s, n: n, who: fmt.Sprintf("c%d", n), timeout: s.between(p.minSession, p.maxSession), versions: map[string]int32{}}
	c.watches.c = c
	c.ids = []zk.ID{{Scheme: "ip", ID: c.address().String()}}
	if i := s.rng.IntN(2 * len(users)); i < len(users) {
		c.user = users[i]
		c.ids = append(c.ids, identity(c.user, c.user))
	}
	c.mayRead = p.readOnly && n%2 == 0
	if n == 0 && p.reconfigs.on {
		c.becomeOperator()
	}
	return c
}

// users are the names in ACLs; each is its own password.
var users = [...]string{"ann", "bob"}

func (c *client) address() netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(c.n + 1)}) }

func (c *client) begin() { c.connect() }

// connect tries some member.
func (c *client) connect() {
	s := c.s
	if c.conn != nil || c.retired || s.finished {
		return
	}
	m := s.members[1+s.rng.IntN(len(s.members)-1)]
	if h := c.home.m; h != nil && s.chance(0.7) {
		m = h
	}
	if !m.up || m.paused > s.now {
		s.after(s.between(time.Millisecond, 100*time.Millisecond), c.connect)
		return
	}
	sc, ok := m.srv.Connect(netip.AddrPortFrom(c.address(), 4000))
	if !ok {
		s.fail("Service", "member %d refuses a connection", m.id)
	}
	c.conn = &clientConn{c: c, m: m, life: m.life, config: m.configured, sc: sc, began: s.now, heard: s.now}
	m.conns = append(m.conns, c.conn)
	req := wire.ConnectRequest{
		LastZxidSeen: c.last, TimeoutMillis: int32(c.timeout.Milliseconds()), SessionID: c.session,
		Password: c.password, HasReadOnly: true, ReadOnly: c.mayRead && !c.probe,
	}
	if req.Password == nil {
		req.Password = make([]byte, wire.PasswordLen)
	}
	if life := s.history.sessions[c.session]; life != nil {
		life.connects++
	}
	s.say(c.who, "connects to %d, session %v, last zxid %v", m.id, c.session, c.last)
	c.conn.send(frame(req.Append(nil)))
	c.guard(c.conn)
}

// guard gives a connection up that is silent.
func (c *client) guard(k *clientConn) {
	c.s.after(c.timeout/3, func() {
		if c.conn != k || c.retired {
			return
		}
		switch now := c.s.now; {
		case now-k.heard > c.timeout*2/3:
			c.disconnect("silence")
		case k.joined && now-c.sentAt >= c.timeout/3:
			c.ask(&ask{op: wire.OpPing})
		}
		c.guard(k)
	})
}

func frame(b []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
}

// clientDelay is how long bytes are on their way.
func (k *clientConn) clientDelay() time.Duration { return k.c.s.net.delay() }

// send puts bytes on their way to the member.
func (k *clientConn) send(b []byte) {
	if k.dead {
		return
	}
	s := k.c.s
	k.c.sentAt = s.now
	k.up = append(k.up, b)
	k.upAt = max(k.upAt, s.now+k.clientDelay())
	s.after(k.upAt-s.now, k.feed)
}

// feed hands the member what has come, once it goes on.
func (k *clientConn) feed() {
	s := k.c.s
	if k.gone || k.m.life != k.life {
		return
	}
	if k.m.paused > s.now {
		s.after(k.m.paused-s.now, k.feed)
		return
	}
	if len(k.up) == 0 {
		return
	}
	b := k.up[0]
	k.up = k.up[1:]
	if b == nil {
		k.gone = true
		k.sc.Hangup()
	} else {
		if k.asked == 0 {
			k.asked = s.now
		}
		k.sc.Feed(b)
		k.c.heard(k)
	}
	k.m.poll()
}

// pollServer takes what the member sends. It reports whether the connection
// lives.
func (k *clientConn) pollServer() bool {
	if k.gone {
		return false
	}
	k.sc.Step()
	if b := k.sc.Output(); len(b) > 0 {
		k.checkOutput(b)
		k.deliver(b)
	}
	if k.sc.Closed() {
		k.gone = true
		k.deliver(nil)
		return false
	}
	return true
}

// serverGone tells that the member has died.
func (k *clientConn) serverGone() {
	if !k.gone {
		k.gone = true
		k.deliver(nil)
	}
}

// deliver puts bytes on their way to the client, nil is the end.
func (k *clientConn) deliver(b []byte) {
	s := k.c.s
	k.down = append(k.down, b)
	k.downAt = max(k.downAt, s.now+k.clientDelay())
	s.after(k.downAt-s.now, func() {
		b := k.down[0]
		k.down = k.down[1:]
		if !k.dead {
			k.receive(b)
		}
	})
}

// receive takes what has come.
func (k *clientConn) receive(b []byte) {
	c := k.c
	c.s.trace.note(uint64(c.n), 9, uint64(c.s.now))
	c.s.trace.noteBytes(b)
	if b == nil {
		c.disconnect("closed by the server")
		return
	}
	k.heard = c.s.now
	k.in = append(k.in, b...)
	for !k.dead && len(k.in) >= 4 {
		n := int(binary.BigEndian.Uint32(k.in))
		if len(k.in) < 4+n {
			break
		}
		f := k.in[4 : 4+n]
		k.in = k.in[4+n:]
		if !k.joined {
			c.welcomed(k, f)
			continue
		}
		c.answered(f)
	}
}

// disconnect ends the connection. What was not answered may have taken effect or
// not.
func (c *client) disconnect(reason string) {
	k := c.conn
	if k == nil {
		return
	}
	c.s.say(c.who, "is disconnected from %d: %s", k.m.id, reason)
	k.dead = true
	k.up = append(k.up, nil)
	k.upAt = max(k.upAt, c.s.now+k.clientDelay())
	c.s.after(k.upAt-c.s.now, k.feed)
	c.conn = nil
	c.syncFloor = 0
	if k.reads {
		c.watches.forget() // it has set none that count, and nothing changes on such a server
	}
	c.s.cover.Lost += len(c.pending)
	if !k.joined && c.last > 0 {
		c.s.cover.Refusals++
	}
	for _, q := range c.pending {
		if q.op == wire.OpCloseSession {
			c.over = true
		}
	}
	c.pending = nil
	c.watches.disconnected()
	if c.over {
		c.newSession()
	}
	away := c.s.between(0, c.s.profile.away)
	if c.s.faulting && c.s.chance(c.s.profile.sleeps) {
		away = c.s.between(c.timeout, c.timeout*3/2+2*c.s.profile.tick)
	}
	c.s.after(away, c.connect)
}

// newSession forgets the present session.
func (c *client) newSession() {
	c.session, c.password, c.last, c.xid, c.over = 0, nil, 0, 0, false
	c.home = localHome{}
	c.watches.forget()
}

// cut loses the connection as the network does: the member learns of it later,
// or never.
func (c *client) cut() bool {
	k := c.conn
	if k == nil {
		return false
	}
	c.disconnect("cut")
	if c.s.chance(0.5) {
		k.up = nil
	}
	return true
}

// retire ends a client's work; its session is left alone.
func (c *client) retire() {
	if c.retired {
		return
	}
	c.disconnect("retired")
	c.retired = true
}

// welcomed takes the answer to the handshake.
func (c *client) welcomed(k *clientConn, f []byte) {
	var r wire.ConnectResponse
	d := jute.NewDecoder(f)
	if r.Decode(&d); d.Err() != nil {
		c.s.fail("ClientProtocol", "%s: the answer to the handshake cannot be read: %v", c.who, d.Err())
	}
	if r.SessionID == 0 {
		c.s.say(c.who, "is told that session %v is over", c.session)
		if c.session == 0 {
			c.s.fail("ClientProtocol", "%s is refused a new session", c.who)
		}
		c.s.cover.Denied++
		c.judgeDenied()
		c.newSession()
		return // the server closes
	}
	if c.session != 0 && r.SessionID != c.session {
		c.s.fail("ClientProtocol", "%s asked for session %v and was given %v", c.who, c.session, r.SessionID)
	}
	if k.reads = r.ReadOnly; k.reads {
		c.readOnlyWelcome()
	} else if c.session != 0 && c.s.history.endedBefore(c.session, k.began) {
		c.s.fail("SessionExpiry", "%s is given session %v, which had ended", c.who, c.session)
	}
	if c.session == 0 {
		c.s.cover.Sessions++
	} else {
		c.s.cover.Reattached++
		if c.member != k.m.id {
			c.s.cover.Moved++
		}
	}
	k.joined = true
	c.member = k.m.id
	c.session, c.password = r.SessionID, append([]byte(nil), r.Password...)
	c.timeout = time.Duration(r.TimeoutMillis) * time.Millisecond
	c.settle(k)
	c.s.say(c.who, "has session %v with member %d, local %v, read-only %v", c.session, k.m.id, c.home.m != nil, k.reads)
	c.authenticate()
	c.watches.restore()
	c.work()
}

// authenticate gives the client's password, before anything else on a connection.
func (c *client) authenticate() {
	if c.user == "" {
		return
	}
	p := wire.AuthPacket{Scheme: "digest", Auth: []byte(c.user + ":" + c.user)}
	c.conn.send(frame(p.Append(wire.RequestHeader{Xid: wire.XidAuth, Op: wire.OpAuth}.Append(nil))))
}

// judgeDenied checks that a session is over whose client is told so: its end is
// committed. A server that has not applied its creation does not know the session, but it refuses a
// client that has seen a later state.
func (c *client) judgeDenied() {
	c.judgeLocalDenied()
	life := c.s.history.sessions[c.session]
	if life != nil && life.ended < 0 && c.last >= life.created {
		c.s.fail("SessionExpiry", "%s is told by member %d that session %v is over, and no end of it is committed", c.who, c.conn.m.id, c.session)
	}
}

// busyRequests is how many requests a run has before its clients are in no hurry
// any more: with fast ones a run would be long.
const busyRequests = 600

// work asks for something, now and then.
func (c *client) work() {
	k := c.conn
	if k == nil || !k.joined || c.retired {
		return
	}
	if c.probe {
		if !c.probed {
			c.askProbe()
		}
		return
	}
	switch {
	case c.s.faulting && c.s.chance(c.s.profile.moves):
		c.disconnect("moves")
		return
	case k.reads && c.s.chance(0.1):
		c.disconnect("looks for a server that writes")
		return
	case len(c.pending) < c.s.profile.pipeline && !c.over:
		if !c.operates() {
			c.askSomething()
		}
	}
	think := c.s.profile.think
	if c.operator {
		think = 2 * c.s.profile.reconfigs.every
	}
	if c.s.cover.Requests > busyRequests {
		think = max(think, 300*time.Millisecond)
	}
	c.s.after(c.s.between(0, think), func() {
		if c.conn == k {
			c.work()
		}
	})
}
