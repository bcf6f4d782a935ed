package sim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/pinfold-zk/pinfold/internal/auth"
	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/node/options"
	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/server"
	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/transport"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/test/faultfs"
	"github.com/pinfold-zk/pinfold/zk"
)

// serverKind is what is explored.
type serverKind struct {
	role   zab.Role // Looking: a standalone server
	prompt bool     // workers need not wait for the disk, which ends each write at any time
	stuck  bool     // the disk finishes no write
	snaps  bool     // a snapshot is written after one or two transactions
	loses  bool     // a follower loses its link to the leader at some moment
	falls  bool     // a leader loses its followers at some moment, which elect another leader
	closes bool     // the server is closed at some moment, while its clients send requests

	sentTree bool // with loses: the leader sends its tree (SNAP)
}

// action is something that a client's connection does.
type action struct {
	ops   []askKind // requests, sent at once
	wait  bool      // until everything is answered
	ahead bool      // a new client connects that has seen the first write of the schedule
}

// askKind is a request of a client of an explored server, on the znode /a.
type askKind int

const (
	askSet askKind = iota
	askGet
	askWatch // getData with a watch
	askSync
)

// handOverCases are the kinds of servers, with a handful of requests each.
func handOverCases() []handOvers {
	pipelined := []action{{ops: []askKind{askSet, askGet}}, {ops: []askKind{askSet}}}
	reader := []action{{ops: []askKind{askWatch}, wait: true}, {ops: []askKind{askSet, askGet}}}
	ahead := []action{{ahead: true, wait: true}, {ops: []askKind{askGet}}}
	synced := []action{{ops: []askKind{askSync, askGet}}}
	writer := []action{{ops: []askKind{askSet}, wait: true}}
	return []handOvers{
		{"standalone", serverKind{}, [][]action{pipelined, reader}, 3},
		{"standalone, prompt disk", serverKind{prompt: true}, [][]action{pipelined, writer}, 2},
		{"leader", serverKind{role: zab.Leading}, [][]action{writer, reader}, 2},
		{"leader, three writes", serverKind{role: zab.Leading}, [][]action{pipelined, writer}, 1},
		{"leader, prompt disk", serverKind{role: zab.Leading, prompt: true}, [][]action{writer, synced}, 1},
		{"leader, disk stalls", serverKind{role: zab.Leading, stuck: true}, [][]action{writer, ahead}, 2},
		{"follower", serverKind{role: zab.Following}, [][]action{writer, reader}, 2},
		{"follower, three writes", serverKind{role: zab.Following}, [][]action{pipelined, writer}, 1},
		{"follower, prompt disk", serverKind{role: zab.Following, prompt: true}, [][]action{writer, synced}, 1},
		{"follower, disk stalls", serverKind{role: zab.Following, stuck: true}, [][]action{writer, ahead}, 2},
		{"standalone, snapshots", serverKind{snaps: true}, [][]action{pipelined, writer}, 2},
		{"follower, snapshots", serverKind{role: zab.Following, snaps: true}, [][]action{writer, writer}, 1},
		{"follower, leader lost", serverKind{role: zab.Following, loses: true}, [][]action{pipelined, reader}, 1},
		{"follower, sent a tree", serverKind{role: zab.Following, loses: true, sentTree: true}, [][]action{pipelined, reader}, 1},
		{"follower, sent a tree, snapshots", serverKind{role: zab.Following, loses: true, sentTree: true, snaps: true}, [][]action{pipelined, writer}, 1},
		{"leader, followers lost", serverKind{role: zab.Leading, falls: true}, [][]action{pipelined, reader}, 1},
		{"leader, followers lost, prompt disk", serverKind{role: zab.Leading, falls: true, prompt: true}, [][]action{pipelined, writer}, 1},
		{"leader, followers lost, snapshots", serverKind{role: zab.Leading, falls: true, snaps: true}, [][]action{pipelined, writer}, 1},
		{"standalone, closed", serverKind{closes: true}, [][]action{pipelined, writer}, 2},
		{"standalone, prompt disk, closed", serverKind{prompt: true, closes: true}, [][]action{pipelined, writer}, 1},
		{"standalone, snapshots, closed", serverKind{snaps: true, closes: true}, [][]action{pipelined, writer}, 1},
		{"leader, closed", serverKind{role: zab.Leading, closes: true}, [][]action{pipelined, writer}, 1},
		{"follower, closed", serverKind{role: zab.Following, closes: true}, [][]action{pipelined, writer}, 1},
		{"follower, leader lost, snapshots", serverKind{role: zab.Following, loses: true, snaps: true}, [][]action{pipelined, writer}, 1},
	}
}

// explored is the server in one schedule, with its disk, clients and peers.
type explored struct {
	x    *explorer
	k    *handOvers
	id   int64
	now  time.Duration
	disk *vfs.Mem
	srv  *server.Server
	rep  *replica.Replica
	drv  *workers

	clients []*exploredClient
	peers   peers

	base    zk.Zxid // of the last transaction before the schedule
	made    int     // transactions that the clients ask for
	trees   int     // that the leader has sent
	closed  bool    // the replica's Close has returned
	durable zk.Zxid // known to be on the server's disk
	writes  map[zk.Zxid]string
}

// Now and UnixMilli are the server's clock (replica.Clock).
func (s *explored) Now() time.Duration { return s.now }
func (s *explored) UnixMilli() int64   { return epoch + s.now.Milliseconds() }

// pausingClients lets others go on before the applier sends its replies.
type pausingClients struct {
	*server.Server
	x *explorer
}

func (c pausingClients) Flush() {
	c.x.pause()
	c.Server.Flush()
}

// exploredTick is so long that nothing happens by the clock but the end of a wait for a
// round, at most shortWait: a lost wake-up is not made good by a timer.
const (
	exploredTick = time.Hour
	shortWait    = 10 * time.Millisecond
)

func newExplored(x *explorer, k *handOvers) *explored {
	s := &explored{x: x, k: k, id: 1, disk: vfs.NewMem(), writes: map[zk.Zxid]string{}}
	if k.kind.role == zab.Leading {
		s.id = 3
	}
	fault := faultfs.New(s.disk, 0, faultfs.None, nil)
	cfg := exploredConfig(s.id, k.kind.role != zab.Looking)
	authority, err := auth.New(options.Auth(cfg))
	must(err)
	disk := options.Storage(cfg)
	disk.SnapshotBuffer = 4 << 10
	dir, err := storage.Open(fault, disk)
	must(err)
	o, err := options.Replica(cfg)
	must(err)
	s.srv = server.New(server.Options{Config: cfg, Auth: authority})
	s.drv = &workers{x: x, prompt: k.kind.prompt, stuck: k.kind.stuck}
	o.Dir, o.Auth, o.Clients = dir, authority, pausingClients{s.srv, x}
	o.Clock, o.Driver, o.Prefetch, o.PurgeInterval = s, s.drv, false, 0
	o.Saw = func(*zab.Ready) { x.pause() }
	if k.kind.snaps {
		o.SnapCount = 2
	}
	s.rep, _, err = replica.Start(o, s.UnixMilli())
	must(err)
	s.srv.Attach(s.rep)
	return s
}

// exploredConfig is the configuration of a server alone, or of one of three.
func exploredConfig(id int64, ensemble bool) *config.Config {
	c := config.Default()
	c.Data.Dir, c.Data.LogDir = "/data", "/data"
	c.Session = config.Session{Tick: exploredTick, MinTimeout: exploredTick, MaxTimeout: 20 * exploredTick}
	c.Requests.MaxOutstanding, c.Requests.MaxInPipeline = 0, 0
	c.Log.PreAllocBytes, c.Log.FsyncWarnAfter = 64<<10, 0
	if ensemble {
		members, err := config.ParseMembers([]byte("server.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2\n"))
		must(err)
		q := &c.Quorum
		q.MyID, q.HasMyID, q.Members = id, true, *members
		q.InitLimit, q.ConnectLimit, q.SyncLimit = 10, 10, 10
	}
	return c
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// bringUp brings the server to where the schedule begins: it serves, the clients have
// their sessions, and /a is there.
func (s *explored) bringUp() {
	if s.k.kind.role != zab.Looking {
		s.peers.start(s)
		s.rep.Join(&exploredNet{s})
	}
	s.settle(func() bool { return s.rep.Serving() && (s.k.kind.role == zab.Looking || s.peers.serve()) })
	for i, script := range s.k.clients {
		c := &exploredClient{s: s, n: i, script: script}
		s.clients = append(s.clients, c)
		if !script[0].ahead {
			c.connect(0)
			s.settle(func() bool { return c.joined })
		}
	}
	c := s.clients[0]
	r := wire.CreateRequest{Path: "/a", Data: []byte("first"), ACL: zk.OpenACLUnsafe(), TTL: -1}
	c.send(wire.OpCreate, r.Append(nil, wire.OpCreate))
	s.settle(func() bool { return len(c.pending) == 0 })
	for s.x.step() {
		s.poll()
	}
	s.base = s.rep.LastApplied()
	s.writes[s.base] = "first"
}

// settle runs the server, without choices, until done.
func (s *explored) settle(done func() bool) {
	for range maxMoves {
		s.poll()
		if done() {
			return
		}
		if !s.x.step() {
			if s.now = s.drv.due; s.now > exploredTick {
				break
			}
		}
	}
	panic("the server does not come up")
}

// begin adds the clients' hands.
func (s *explored) begin() {
	for _, c := range s.clients {
		s.x.add(fmt.Sprintf("client %d", c.n), c.run)
		for _, a := range c.script {
			for _, op := range a.ops {
				if op == askSet {
					s.made++
				}
			}
			if a.ahead {
				s.made++ // its session
			}
		}
	}
	if s.k.kind.loses {
		s.x.add("loss of the leader", s.peers.loseLeader)
	}
	if s.k.kind.falls {
		s.x.add("loss of the followers", s.peers.depose)
	}
	if s.k.kind.closes {
		s.x.add("close", s.close)
	}
}

// close closes the server's replica. What a standalone server was sent by then is answered.
func (s *explored) close() {
	for _, c := range s.clients {
		c.owed = c.fed
	}
	if err := s.rep.Close(); err != nil {
		panic(fmt.Sprintf("the server is closed: %v", err))
	}
	s.closed = true
}

// live lets something happen. It reports false if nothing can.
func (s *explored) live() bool {
	if s.x.step() {
		s.poll()
		return true
	}
	due := s.drv.due
	if due <= s.now || due > s.now+shortWait {
		return false
	}
	s.now = due
	return true
}

// poll moves the output of the connections.
func (s *explored) poll() {
	select {
	case <-s.rep.Failed():
		if errors.Is(s.rep.Failure(), replica.ErrClosed) {
			break
		}
		panic(fmt.Sprintf("the server has failed: %v", s.rep.Failure()))
	default:
	}
	for _, c := range s.clients {
		if c.sc != nil {
			c.poll()
		}
	}
}

// finished checks a schedule after which nothing can go on.
func (s *explored) finished() error {
	if s.k.kind.loses || s.k.kind.falls {
		if err := s.rejoined(); err != nil {
			return err
		}
	}
	if s.k.kind.closes {
		return s.finishedClose()
	}
	for _, c := range s.clients {
		if len(c.pending) > 0 && !c.closed || !c.done {
			return fmt.Errorf("nothing can go on, and %d requests of client %d are not answered", len(c.pending), c.n)
		}
		if err := c.judge(); err != nil {
			return fmt.Errorf("client %d: %w", c.n, err)
		}
	}
	if n := s.rep.Outstanding(); n != 0 {
		return fmt.Errorf("P6: %d requests are counted that wait for nothing", n)
	}
	if logged := s.rep.LastLogged(); !s.k.kind.stuck && logged != s.rep.LastApplied() {
		return fmt.Errorf("nothing can go on, and the log is written up to %v alone", logged)
	}
	if got, want := s.rep.LastApplied(), s.base+zk.Zxid(s.made); got != want {
		return fmt.Errorf("P3: the last transaction is %v, must be %v", got, want)
	}
	if s.k.kind.sentTree && s.trees == 0 {
		return errors.New("the leader has sent no tree")
	}
	if s.k.kind.snaps || s.k.kind.sentTree {
		return s.restarted()
	}
	return nil
}

// finishedClose checks a schedule in which the server was closed: all that was begun is finished.
func (s *explored) finishedClose() error {
	if !s.closed {
		return errors.New("nothing can go on, and the server is not closed")
	}
	for _, c := range s.clients {
		if s.k.kind.role == zab.Looking && len(c.pending) > 0 && c.pending[0].xid <= c.owed {
			return fmt.Errorf("request %d of client %d came before the close, and is not answered", c.pending[0].xid, c.n)
		}
	}
	if s.k.kind.role != zab.Looking {
		return nil
	}
	for _, c := range s.clients {
		if err := c.judge(); err != nil {
			return fmt.Errorf("client %d: %w", c.n, err)
		}
	}
	return s.restarted()
}

// rejoined checks a server that has lost its leader, or its followers: it serves again, as a
// follower, and has what the leader has. That has all that clients were told of; the writes
// that they were not told of are known from there.
func (s *explored) rejoined() error {
	log := s.peers.leader().log
	if s.rep.Mode() != replica.Follower || s.rep.LastApplied() != log[len(log)-1].Zxid {
		return fmt.Errorf("nothing can go on, and the server, which is at %v, is %v; the leader is at %v",
			s.rep.LastApplied(), s.rep.Mode(), log[len(log)-1].Zxid)
	}
	for z, told := range s.writes {
		if !slices.ContainsFunc(log, func(e zab.Entry) bool { return e.Zxid == z }) {
			return fmt.Errorf("P2: %v is answered, as %q, and is lost", z, told)
		}
	}
	for _, e := range log {
		tx, err := txn.Decode(e.Data)
		must(err)
		if tx.Header.Type != wire.OpSetData {
			continue
		}
		if told, ok := s.writes[e.Zxid]; ok && told != string(tx.Data) {
			return fmt.Errorf("P3: %v is answered as %q, and is %q", e.Zxid, told, tx.Data)
		}
		s.writes[e.Zxid] = string(tx.Data)
	}
	s.made = int(log[len(log)-1].Zxid - s.base)
	if s.k.kind.sentTree {
		var digest uint64
		s.rep.View(func(v replica.View) { digest = v.Digest() })
		if want := s.peers.leader().tree.Digest(); digest != want {
			return fmt.Errorf("P3: the tree has the digest %d, the leader's %d", digest, want)
		}
	}
	return nil
}

// restarted checks that the disk leads to the tree, and that a snapshot was written unless the
// server was closed.
func (s *explored) restarted() error {
	for _, h := range s.x.hands {
		if h.name == taskName && !h.done {
			return errors.New("nothing can go on, and a snapshot is not written")
		}
	}
	clone := s.disk.CrashClone(rand.New(syncedOnly{}))
	dir, err := storage.Open(clone, storage.Options{DataDir: "/data"})
	must(err)
	found, err := dir.Snapshots()
	must(err)
	if len(found) == 0 && !s.k.kind.closes {
		return errors.New("no snapshot was written")
	}
	o, err := options.Replica(exploredConfig(s.id, false))
	must(err)
	o.Dir, o.Clients, o.Clock, o.Driver, o.PurgeInterval = dir, s.srv, s, &workers{x: &explorer{}}, 0
	if o.Auth, err = auth.New(auth.Config{}); err != nil {
		return err
	}
	again, _, err := replica.Start(o, s.UnixMilli())
	if err != nil {
		return fmt.Errorf("a restart fails: %w", err)
	}
	var before, after uint64
	s.rep.View(func(v replica.View) { before = v.Digest() })
	again.View(func(v replica.View) { after = v.Digest() })
	if again.LastApplied() != s.rep.LastApplied() || before != after {
		return fmt.Errorf("the tree is at %v with digest %d, the disk leads to %v with digest %d", s.rep.LastApplied(), before, again.LastApplied(), after)
	}
	return nil
}

// onDisks checks P2: z is on the server's disk, or on those of a quorum.
func (s *explored) onDisks(z zk.Zxid) {
	n := 0
	if s.durable < z {
		s.durable = s.readBack()
	}
	if s.durable >= z {
		n++
	}
	for _, p := range s.peers.list {
		if p.durable >= z {
			n++
		}
	}
	if need := 1 + min(len(s.peers.list), 1); n < need {
		panic(fmt.Sprintf("P2: %v is answered and on %d disks", z, n))
	}
}

// syncedOnly makes CrashClone keep what was synced, and nothing else.
type syncedOnly struct{}

func (syncedOnly) Uint64() uint64 { return 0x55555555 << 32 }

// readBack returns the last transaction that is durable on the server's disk.
func (s *explored) readBack() (last zk.Zxid) {
	dir, err := storage.Open(s.disk.CrashClone(rand.New(syncedOnly{})), storage.Options{DataDir: "/data"})
	must(err)
	r, err := dir.ReadLog(0)
	for err == nil {
		var payload []byte
		if payload, err = r.Next(); err == nil {
			last = zk.Zxid(binary.BigEndian.Uint64(payload[12:]))
		}
	}
	if !errors.Is(err, io.EOF) {
		panic(err)
	}
	return last
}

// exploredClient is a client with one connection.
type exploredClient struct {
	s      *explored
	n      int
	script []action
	sc     *server.SteppedConn
	joined bool
	closed bool
	done   bool
	fed    int32 // the last request that the connection has read
	owed   int32 // the last one that it had read when the server was closed

	in      []byte
	xid     int32
	last    zk.Zxid
	pending []exploredAsk
	told    []exploredTold
}

type exploredAsk struct {
	xid   int32
	op    wire.OpCode
	watch bool
	value string
}

// exploredTold is a reply, or an event.
type exploredTold struct {
	exploredAsk
	z     zk.Zxid
	event bool
}

// run is the goroutine of the connection.
func (c *exploredClient) run() {
	x := c.s.x
	for i, a := range c.script {
		if i > 0 {
			x.pause()
		}
		if c.closed {
			break
		}
		if a.ahead {
			c.connect(c.s.base + 1)
			x.await(func() bool { return c.joined || c.closed }, false)
		}
		var b []byte
		for _, op := range a.ops {
			b = append(b, c.frame(op)...)
		}
		if len(b) > 0 {
			c.sc.Feed(b)
			c.fed = c.xid
		}
		if a.wait {
			x.await(func() bool { return len(c.pending) == 0 || c.closed }, false)
		}
	}
	c.done = true
}

func (c *exploredClient) connect(seen zk.Zxid) {
	sc, ok := c.s.srv.Connect(netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(c.n + 1)}), 4000))
	if !ok {
		panic("the server refuses a connection")
	}
	c.sc = sc
	req := wire.ConnectRequest{LastZxidSeen: seen, TimeoutMillis: 1 << 30, Password: make([]byte, wire.PasswordLen), HasReadOnly: true}
	c.last = seen
	sc.Feed(frame(req.Append(nil)))
}

// frame makes a request of the schedule.
func (c *exploredClient) frame(k askKind) []byte {
	q := exploredAsk{op: wire.OpGetData, watch: k == askWatch}
	var body []byte
	switch k {
	case askSet:
		q.op, q.value = wire.OpSetData, fmt.Sprintf("%d.%d", c.n, c.xid+1)
		body = (&wire.SetDataRequest{Path: "/a", Data: []byte(q.value), Version: -1}).Append(nil)
	case askSync:
		q.op = wire.OpSync
		body = jute.AppendString(nil, "/a")
	default:
		body = (&wire.PathWatch{Path: "/a", Watch: q.watch}).Append(nil)
	}
	return c.encode(q, body)
}

func (c *exploredClient) encode(q exploredAsk, body []byte) []byte {
	c.xid++
	q.xid = c.xid
	c.pending = append(c.pending, q)
	return frame(append(wire.RequestHeader{Xid: q.xid, Op: q.op}.Append(nil), body...))
}

func (c *exploredClient) send(op wire.OpCode, body []byte) {
	c.sc.Feed(c.encode(exploredAsk{op: op}, body))
}

// poll takes what the server has sent.
func (c *exploredClient) poll() {
	if !c.joined {
		c.sc.Step() // afterwards run alone feeds the connection
	}
	c.in = append(c.in, c.sc.Output()...)
	for len(c.in) >= 4 {
		n := 4 + int(binary.BigEndian.Uint32(c.in))
		if len(c.in) < n {
			break
		}
		c.take(c.in[4:n])
		c.in = c.in[n:]
	}
	if c.sc.Closed() && !c.closed {
		c.closed = true
		if kind := &c.s.k.kind; !kind.loses && !kind.falls {
			panic(fmt.Sprintf("the connection of client %d is closed", c.n))
		}
	}
}

func (c *exploredClient) take(b []byte) {
	d := jute.NewDecoder(b)
	if !c.joined {
		var r wire.ConnectResponse
		if r.Decode(&d); d.Err() != nil || r.SessionID == 0 {
			panic(fmt.Sprintf("client %d has no session: %v", c.n, d.Err()))
		}
		c.joined = true
		return
	}
	var h wire.ReplyHeader
	h.Decode(&d)
	if h.Xid == wire.XidNotification {
		c.told = append(c.told, exploredTold{z: h.Zxid, event: true})
		return
	}
	if len(c.pending) == 0 || c.pending[0].xid != h.Xid || h.Err != zk.OK {
		panic(fmt.Sprintf("P1: client %d is answered request %d (%v), due is %v", c.n, h.Xid, h.Err, c.pending))
	}
	t := exploredTold{exploredAsk: c.pending[0], z: h.Zxid}
	c.pending = c.pending[1:]
	if t.z < c.last {
		panic(fmt.Sprintf("P7: client %d has seen %v and is shown %v", c.n, c.last, t.z))
	}
	c.last = t.z
	switch t.op {
	case wire.OpSetData:
		if _, twice := c.s.writes[t.z]; twice {
			panic(fmt.Sprintf("two writes are %v", t.z))
		}
		c.s.writes[t.z] = t.value
		c.s.onDisks(t.z)
	case wire.OpGetData:
		t.value = string(d.Buffer())
	}
	c.told = append(c.told, t)
}

// judge checks what a client was told, once all writes are known.
func (c *exploredClient) judge() error {
	zs := slices.Sorted(maps.Keys(c.s.writes))
	for i, t := range c.told {
		if t.event || t.op != wire.OpGetData {
			continue
		}
		n, exact := slices.BinarySearch(zs, t.z)
		if exact {
			n++
		}
		if want := c.s.writes[zs[n-1]]; t.value != want {
			return fmt.Errorf("P5: a read at %v shows %q, must be %q", t.z, t.value, want)
		}
		if t.watch && n < len(zs) {
			if err := c.judgeWatch(c.told[i+1:], zs[n]); err != nil {
				return err
			}
		}
	}
	return nil
}

// judgeWatch checks P4: the event of z comes before any reply that shows z.
func (c *exploredClient) judgeWatch(told []exploredTold, z zk.Zxid) error {
	for _, t := range told {
		switch {
		case t.event && t.z == z:
			return nil
		case t.z >= z:
			return fmt.Errorf("P4: %v is shown before the event of %v", t.z, z)
		}
	}
	if c.closed {
		return nil
	}
	return fmt.Errorf("P4: no event of %v", z)
}

// exploredNet is the network of the explored server (replica.Network).
type exploredNet struct{ s *explored }

func (n *exploredNet) Dial(peer int64, _ bool) zab.LinkID {
	defer n.s.peers.pump()
	return n.s.peers.connect(n.s.id, peer)
}

func (n *exploredNet) Send(l zab.LinkID, ps []zab.Packet) (keeps bool) {
	n.s.x.pause()
	n.s.peers.send(n.s.id, l, ps)
	n.s.peers.pump()
	return true
}

func (n *exploredNet) Stream(zab.LinkID, func(io.Writer) error) { panic("a snapshot is sent") }

func (n *exploredNet) CloseLink(l zab.LinkID, reason error) {
	if !n.s.peers.lost[l] {
		panic(fmt.Sprintf("link %d is closed: %v", l, reason))
	}
}

func (n *exploredNet) Progress(zab.LinkID) uint64 { return 0 }

func (n *exploredNet) AppendPacket(b []byte, p zab.Packet) []byte {
	return transport.AppendPacket(b, p)
}

func (n *exploredNet) SetMembers([]zab.Member) { panic("the membership has changed") }

func (n *exploredNet) Notify(peer int64, payload []byte) {
	n.s.peers.notify(n.s.id, peer, slices.Clone(payload))
	n.s.peers.pump()
}
