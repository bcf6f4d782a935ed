package sim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pinfold-zk/pinfold/internal/auth"
	"github.com/pinfold-zk/pinfold/internal/prep"
	"github.com/pinfold-zk/pinfold/internal/session"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/internal/zab/election"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// peers are the other servers of an explored server's ensemble: Zab cores that do at once
// all that they are asked for. What they send to the explored server is delivered by a
// hand for each, when the explorer says so.
type peers struct {
	s     *explored
	list  []*peer
	links [][2]int64          // the numbers of the server that dialled and of the server that it dialled
	queue []func()            // messages between peers
	lost  map[zab.LinkID]bool // these carry nothing any more
	cut   bool                // nobody hears of the explored server, nor it of others
	ahead time.Duration       // of the peers' clocks, of the explored server's
}

// now is the time of the peers.
func (ps *peers) now() time.Duration { return ps.s.now + ps.ahead }

// peer is one of them.
type peer struct {
	all     *peers
	id      int64
	core    *zab.Core
	durable zk.Zxid
	serving bool
	inbox   []func() // for the explored server

	// Of the leader.
	snap    zab.Packet   // SNAP, which is delivered after the tree
	session zk.SessionID // that was created last
	prep    *prep.Preparer
	tree    *znode.Tree
	tracker *session.Tracker
	log     []zab.Entry
	applied int
}

// explorers is the membership of three voters.
func explorers() *zab.Membership {
	m, err := zab.NewMembership(0, []zab.Member{{ID: 1, Weight: 1}, {ID: 2, Weight: 1}, {ID: 3, Weight: 1}}, nil)
	if err != nil {
		panic(err)
	}
	return m
}

func (ps *peers) start(s *explored) {
	ps.s = s
	ps.links, ps.lost = make([][2]int64, 1), map[zab.LinkID]bool{}
	for id := int64(1); id <= 3; id++ {
		if id == s.id {
			continue
		}
		p := &peer{all: ps, id: id}
		cfg := zab.Config{ID: id, Members: explorers(), Tick: exploredTick, InitLimit: 10, SyncLimit: 10, Window: 500}
		if s.k.kind.sentTree {
			cfg.Window, cfg.SizeFactor = 1, -1
		}
		p.core = zab.New(cfg, zab.State{}, 0)
		ps.list = append(ps.list, p)
		s.rep.PeerUp(id)
	}
	for _, p := range ps.list {
		for id := int64(1); id <= 3; id++ {
			if id != p.id {
				p.core.PeerUp(0, id)
			}
		}
		s.x.add(fmt.Sprintf("link of server %d", p.id), func() { p.deliver() })
	}
	for _, p := range ps.list {
		p.do()
	}
	ps.pump()
}

// leader returns the peer that leads.
func (ps *peers) leader() *peer {
	i := slices.IndexFunc(ps.list, func(p *peer) bool { return p.core.Status().Role == zab.Leading })
	return ps.list[i]
}

// loseLeader ends the explored server's link to its leader. The leader goes on with the
// other peer, and takes the server back. If it is to send its tree, it commits more in
// between than its window keeps.
func (ps *peers) loseLeader() {
	l := zab.LinkID(len(ps.links) - 1)
	for ps.links[l][0] != ps.s.id {
		l--
	}
	ps.lost[l] = true
	err := errors.New("the link is lost")
	leader := ps.find(ps.links[l][1])
	leader.core.LinkDown(ps.now(), l, err)
	leader.do()
	ps.pump()
	for i := 0; i < 2 && ps.s.k.kind.sentTree; i++ {
		body := (&wire.SetDataRequest{Path: "/a", Data: fmt.Append(nil, "meanwhile ", i), Version: -1}).Append(nil)
		leader.propose(&prep.Request{Session: leader.session, Op: wire.OpSetData, Body: body, Owner: 1})
		leader.do()
		ps.pump()
	}
	ps.s.rep.LinkDown(l, err)
}

// depose cuts the explored server, which leads, off from the others, until these have elected
// one of themselves. Then it learns that it has lost them.
func (ps *peers) depose() {
	err := errors.New("the link is lost")
	ps.cut = true
	own := zab.LinkID(len(ps.links)) // those before it are the explored server's
	for l := zab.LinkID(1); l < own; l++ {
		ps.lost[l] = true
		p := ps.find(ps.links[l][0])
		p.core.LinkDown(ps.now(), l, err)
		p.do()
	}
	ps.pump()
	for range maxMoves {
		if ps.serve() {
			break
		}
		next := min(ps.list[0].core.Deadline(), ps.list[1].core.Deadline())
		ps.ahead += max(next-ps.now(), 0)
		for _, p := range ps.list {
			p.core.Tick(ps.now())
			p.do()
			ps.pump()
		}
	}
	ps.cut = false
	for l := zab.LinkID(1); l < own; l++ {
		ps.s.rep.LinkDown(l, err)
	}
}

// deliver is the goroutine of the explored server that reads the links of a peer.
func (p *peer) deliver() {
	for {
		p.all.s.x.await(func() bool { return len(p.inbox) > 0 }, false)
		f := p.inbox[0]
		p.inbox = p.inbox[1:]
		f()
	}
}

// serve reports whether all peers serve.
func (ps *peers) serve() bool {
	return !slices.ContainsFunc(ps.list, func(p *peer) bool { return !p.serving })
}

func (ps *peers) find(id int64) *peer {
	i := slices.IndexFunc(ps.list, func(p *peer) bool { return p.id == id })
	if i < 0 {
		return nil
	}
	return ps.list[i]
}

// post queues something that a server is to handle: a peer in pump, the explored server
// when the hand of from delivers it.
func (ps *peers) post(from, to int64, peers func(p *peer), explored func()) {
	if to == ps.s.id {
		p := ps.find(from)
		p.inbox = append(p.inbox, explored)
		return
	}
	ps.queue = append(ps.queue, func() {
		p := ps.find(to)
		peers(p)
		p.do()
	})
}

// pump has the peers handle what has been posted.
func (ps *peers) pump() {
	for len(ps.queue) > 0 {
		f := ps.queue[0]
		ps.queue = ps.queue[1:]
		f()
	}
}

// connect makes a link.
func (ps *peers) connect(from, to int64) zab.LinkID {
	l := zab.LinkID(len(ps.links))
	ps.links = append(ps.links, [2]int64{from, to})
	rep := ps.s.rep
	ps.post(from, to, func(p *peer) { p.core.LinkUp(ps.now(), l) }, func() { rep.LinkUp(l, "", false) })
	ps.post(to, from, func(p *peer) { p.core.LinkUp(ps.now(), l) }, func() { rep.LinkUp(l, "", true) })
	return l
}

// link is what a goroutine reads that brings packets (replica.Reader). workers.work replaces it.
type link struct{}

func (link) StandIn() { panic("a link is read by two") }

func (ps *peers) send(from int64, l zab.LinkID, packets []zab.Packet) {
	to := ps.links[l][0]
	if to == from {
		to = ps.links[l][1]
	}
	if ps.lost[l] {
		return
	}
	packets = slices.Clone(packets)
	ps.post(from, to, func(p *peer) { p.core.Step(ps.now(), l, packets) }, func() {
		if !ps.lost[l] {
			ps.s.rep.Packets(l, packets, nil)
			ps.s.rep.Work(link{})
		}
	})
}

func (ps *peers) notify(from, to int64, payload []byte) {
	if ps.cut && (from == ps.s.id || to == ps.s.id) {
		return
	}
	ps.post(from, to, func(p *peer) {
		n, err := election.Parse(from, payload)
		must(err)
		p.core.Notification(ps.now(), n)
	}, func() { ps.s.rep.Notification(from, payload) })
}

// do carries out what the core wants.
func (p *peer) do() {
	for {
		rd := p.core.Ready()
		for i := range rd.Sends {
			switch s := &rd.Sends[i]; s.Kind {
			case zab.SendPackets:
				ps := s.Packets
				if n := len(ps) - 1; n >= 0 && ps[n].Type == zab.Snap {
					p.snap, ps = ps[n], ps[:n]
				}
				p.all.send(p.id, s.Link, ps)
			case zab.SendSnapshot:
				p.sendTree(s.Link)
			default:
				panic("a peer sends its log")
			}
		}
		for i := range rd.Notify {
			p.all.notify(p.id, rd.Notify[i].To, rd.Notify[i].Append(nil))
		}
		if rd.Dial != 0 {
			to := rd.Dial
			l := zab.LinkID(len(p.all.links))
			p.core.Dialing(l)
			p.all.connect(p.id, to)
		}
		for _, c := range rd.Close {
			if !p.all.lost[c.Link] {
				panic(fmt.Sprintf("peer %d closes link %d: %v", p.id, c.Link, c.Reason))
			}
		}
		p.serving = rd.Serving
		delivered := slices.Clone(rd.Deliver)
		seq := p.write(rd.Writes)
		p.apply(rd.Commit)
		idle := len(rd.Writes) == 0 && len(delivered) == 0
		if seq > 0 {
			p.core.Persisted(p.all.now(), seq)
		}
		p.core.Applied(rd.Commit)
		for i := range delivered {
			p.take(&delivered[i])
		}
		if idle {
			return
		}
	}
}

// sendTree sends the leader's tree to the explored server.
func (p *peer) sendTree(l zab.LinkID) {
	var b []byte
	for walk, done := p.tree.Walk(), false; !done; {
		b, done = walk.Next(b, 1<<20)
	}
	s, snap := p.all.s, p.snap
	s.trees++
	p.all.post(p.id, p.all.links[l][0], func(*peer) { panic("a peer is sent a tree") }, func() {
		if p.all.lost[l] {
			return
		}
		must(s.rep.Snapshot(l, snap.Zxid, &bytesSource{b}))
		s.x.pause()
		s.rep.Packets(l, []zab.Packet{snap}, nil)
		s.rep.Work(link{})
	})
}

// write makes writes durable, and returns the number of the last.
func (p *peer) write(ws []zab.Write) (seq uint64) {
	for i := range ws {
		seq = ws[i].Seq
		for _, e := range ws[i].Entries {
			p.durable = e.Zxid
			p.log = append(p.log, e)
		}
	}
	return seq
}

// apply applies what is committed to the leader's tree.
func (p *peer) apply(commit zk.Zxid) {
	if p.prep == nil {
		return
	}
	var result znode.Result
	for ; p.applied < len(p.log) && p.log[p.applied].Zxid <= commit; p.applied++ {
		tx, err := txn.Decode(p.log[p.applied].Data)
		must(err)
		p.tree.Apply(&tx, &result)
		p.prep.Applied(tx.Zxid)
	}
}

// take handles a packet that the core leaves to its owner.
func (p *peer) take(d *zab.Delivery) {
	switch {
	case p.all.links[d.Link][0] == p.id: // a learner's
		if d.Packet.Type == zab.Ping {
			p.all.send(p.id, d.Link, []zab.Packet{{Type: zab.Ping, Zxid: d.Packet.Zxid, Data: []byte{}}})
		}
	case d.Packet.Type == zab.Request:
		p.request(d)
	}
}

// request proposes a learner's request.
func (p *peer) request(d *zab.Delivery) {
	b := d.Packet.Data
	req := prep.Request{
		Session: zk.SessionID(binary.BigEndian.Uint64(b)), Xid: int32(binary.BigEndian.Uint32(b[8:])),
		Op: wire.OpCode(binary.BigEndian.Uint32(b[12:])), Body: b[16:], IDs: d.Packet.Auth, Owner: 1,
	}
	if req.Op == wire.OpSync {
		must(p.core.Sync(d.Link))
		return
	}
	p.propose(&req)
}

// propose proposes a request.
func (p *peer) propose(req *prep.Request) {
	if p.prep == nil {
		authority, err := auth.New(auth.Config{})
		must(err)
		p.tree = znode.New(znode.Options{ExtendedTypes: true})
		p.tracker = session.NewTracker(session.Config{TickMillis: 1 << 20, FirstID: 1})
		p.prep = prep.New(prep.Config{ExtendedTypes: true, ListClosedPaths: true, DigestEnabled: true}, p.tree, authority, p.tracker)
	}
	if req.Op == wire.OpCreateSession {
		p.session = req.Session
		p.tracker.Add(req.Session, 1<<30, 0)
	}
	z, _ := p.core.NextZxid()
	var tx txn.Txn
	p.prep.Prepare(req, z, p.all.s.UnixMilli(), &tx)
	must(p.core.Propose([]zab.Entry{{Zxid: z, Data: tx.Append(nil)}}))
}
