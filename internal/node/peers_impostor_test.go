package node

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net"
	"slices"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/transport"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/internal/zab/election"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/test/choices"
	"github.com/pinfold-zk/pinfold/zk"
)

// impostor is a stranger that speaks for server 3, and answers: so it leads or follows through
// discovery and synchronization into broadcast, and is wrong only now and then.
type impostor struct {
	*peersStranger
	votes   *strangeConn // to server 1, for the election
	round   int64        // the latest that server 1 told
	looking bool         // server 1 is
	leads   bool         // it wants to be elected, else that server 1 is
	talks   []*talk
}

// talk is a link between the impostor and server 1.
type talk struct {
	*strangeConn
	dialled bool // by the impostor, which follows
	heard   []zab.Packet
	epoch   uint32
	last    zk.Zxid // of what was sent
	open    []zk.Zxid
	stage   int // of a leader: how far it has got
}

// impersonate listens as server 3.
func (x *peersStranger) impersonate() *impostor {
	i := &impostor{peersStranger: x}
	x.listenWith(quorumAddress(3), func(nc net.Conn) { i.talk(nc, false) })
	x.listenWith(electionAddress(3), func(nc net.Conn) { nc.Close() }) // the server with the larger id dials
	return i
}

// talk begins to note the packets that arrive.
func (i *impostor) talk(nc net.Conn, dialled bool) *talk {
	k := &talk{dialled: dialled}
	k.strangeConn = i.addNoting(nc, false, func(b []byte) []byte { return i.note(k, b) })
	i.mu.Lock()
	i.talks = append(i.talks, k)
	i.mu.Unlock()
	return k
}

// addNoting adds a connection whose input note takes, with i.mu; what it returns comes again with
// what follows.
func (i *impostor) addNoting(nc net.Conn, election bool, note func([]byte) []byte) *strangeConn {
	own := make(chan *strangeConn, 1)
	c := i.addReading(nc, election, func(r io.Reader) {
		var rest []byte
		for b := make([]byte, 32<<10); ; {
			n, err := r.Read(b)
			var ended *strangeConn
			if err != nil {
				ended = <-own // without i.mu: addReading takes it before c is known
			}
			i.mu.Lock()
			rest = note(append(rest, b[:n]...))
			if ended != nil {
				ended.closeLocked()
				i.mu.Unlock()
				return
			}
			i.mu.Unlock()
		}
	})
	own <- c
	return c
}

// note takes complete packets from the front of b, and returns the rest.
func (i *impostor) note(k *talk, b []byte) []byte {
	for len(b) > 0 {
		if n := len(k.heard); n > 0 && k.heard[n-1].Type == zab.Snap && k.heard[n-1].Data == nil {
			end := bytes.Index(b, []byte("BenWasHere"))
			if end < 0 {
				return b
			}
			k.heard[n-1].Data = []byte{} // its body has arrived
			b = b[end+len("BenWasHere"):]
			continue
		}
		p, n, err := transport.DecodePacket(b, 4<<20)
		if err != nil || n > len(b) {
			return b
		}
		if len(k.heard) < 1000 {
			k.heard = append(k.heard, zab.Packet{Type: p.Type, Zxid: p.Zxid})
			if p.Type == zab.FollowerInfo || p.Type == zab.ObserverInfo || p.Type == zab.AckEpoch {
				k.heard[len(k.heard)-1].Data = slices.Clone(p.Data)
			}
		}
		b = b[n:]
	}
	return nil
}

// heardNote notes what server 1 says in the election.
func (i *impostor) heardNote(b []byte) []byte {
	for len(b) >= 4 {
		n := int(binary.BigEndian.Uint32(b))
		if n < 0 || len(b) < 4+n {
			return b
		}
		if v, err := election.Parse(1, b[4:4+n]); err == nil {
			i.round, i.looking = v.ElectionEpoch, v.State == election.Looking
		}
		b = b[4+n:]
	}
	return b
}

// vote takes part in the election of server 1.
func (i *impostor) vote() string {
	if i.votes == nil || i.votes.closed {
		nc, err := i.net.dial(context.Background(), electionAddress(1))
		if err != nil {
			return "server 1 is down"
		}
		i.votes = i.addNoting(nc, true, i.heardNote)
		hello := jute.AppendLong(jute.AppendLong(nil, -65536), 3)
		i.send(i.votes, jute.AppendString(hello, electionAddress(3)))
	}
	i.mu.Lock()
	n := election.Notification{State: election.Looking, Leader: 1, ElectionEpoch: i.round, Zxid: i.last(), PeerEpoch: int64(i.last().Epoch())}
	i.mu.Unlock()
	if i.leads {
		n.Leader, n.Zxid, n.PeerEpoch = 3, n.Zxid+1, n.PeerEpoch+choices.Of(i.in, int64(1), 0, 5, 1<<20)
	}
	if i.in.Rarely() {
		n.State = election.State(i.in.N(4))
	}
	if i.in.Rarely() {
		n.ElectionEpoch = choices.Of(i.in, n.ElectionEpoch+1, 1<<62, 0)
	}
	b := n.Append(nil)
	i.send(i.votes, append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...))
	return fmt.Sprintf("it votes: %+v", n)
}

// act does the next thing, and returns what.
func (i *impostor) act() string {
	switch kind := i.in.N(16); {
	case kind == 15:
		i.leads = !i.leads
		return fmt.Sprintf("it wants to lead: %v", i.leads)
	case kind == 14:
		return i.peersStranger.act()
	case kind > 10:
		return i.vote()
	}
	k := i.current()
	if k == nil {
		return i.vote()
	}
	ps := i.next(k)
	var b []byte
	for _, p := range ps {
		b = transport.AppendPacket(b, p)
		if p.Type == zab.Snap {
			b = append(b, i.tree()...)
		}
	}
	i.send(k.strangeConn, b)
	return fmt.Sprintf("it says %.300v", ps)
}

// current is the newest link that is open; it dials server 1 if it does not want to lead and there
// is none.
func (i *impostor) current() *talk {
	i.mu.Lock()
	for _, k := range slices.Backward(i.talks) {
		if !k.closed && k.dialled != i.leads {
			i.mu.Unlock()
			return k
		}
	}
	i.mu.Unlock()
	if i.leads {
		return nil
	}
	nc, err := i.net.dial(context.Background(), quorumAddress(1))
	if err != nil {
		return nil
	}
	k := i.talk(nc, true)
	b := jute.AppendInt(jute.AppendLong(nil, 3), zab.ProtocolVersion)
	info := zab.Packet{Type: choices.Of(i.in, zab.FollowerInfo, zab.FollowerInfo, zab.ObserverInfo), Zxid: zk.MakeZxid(i.last().Epoch(), 0), Data: jute.AppendLong(b, 0)}
	i.send(k.strangeConn, transport.AppendPacket(nil, info))
	return k
}

// next returns what comes next on a link: what is right, or now and then something else.
func (i *impostor) next(k *talk) (ps []zab.Packet) {
	i.mu.Lock()
	var p zab.Packet
	if len(k.heard) > 0 && (k.heard[0].Type != zab.Snap || k.heard[0].Data != nil) {
		p = k.heard[0]
		k.heard = k.heard[1:]
	}
	i.mu.Unlock()
	if k.dialled {
		ps = i.follow(k, p)
	} else {
		ps = i.lead(k, p)
	}
	if i.in.N(8) == 7 {
		ps = i.spoil(k, ps)
	}
	for at := range ps {
		ps[at].Data = withoutDigest(ps[at].Data)
	}
	return ps
}

// withoutDigest cuts the digest off a transaction that has one. Some have, though none was meant: a
// closeSession of two paths of which the first is none looks like one without paths, and with a digest.
// A wrong digest on which a quorum has agreed makes every member take its tree for wrong, so that none
// leads: only an operator can say that the trees are right (docs/ops/digests.md).
func withoutDigest(data []byte) []byte {
	const length = 4 + 8 // version, digest
	if t, err := txn.Decode(data); err == nil && t.HasDigest {
		return data[:len(data)-length]
	}
	return data
}

// spoil changes packets, leaves them out, repeats them or adds others.
func (i *impostor) spoil(k *talk, ps []zab.Packet) []zab.Packet {
	z := choices.Of(i.in, k.last, k.last+1, k.last-1, zk.MakeZxid(k.epoch, 0), zk.MakeZxid(k.epoch, 1), zk.MakeZxid(k.epoch+1, 1), zk.MakeZxid(k.epoch, math.MaxUint32), 0, -1, math.MaxInt64, math.MinInt64, 1)
	other := zab.Packet{Type: zab.PacketType(1 + i.in.N(19)), Zxid: z, Data: slices.Clone(i.in.Bytes(i.in.N(24)))}
	if other.Type == zab.Snap || i.in.N(4) == 3 {
		other.Type, other.Data = choices.Of(i.in, zab.Proposal, zab.Inform, zab.Snap, zab.Commit, zab.Trunc), i.transaction(z)
	}
	switch at := i.in.N(max(len(ps), 1)); i.in.N(5) {
	case 0:
		return append(ps, other)
	case 1:
		return append([]zab.Packet{other}, ps...)
	case 2:
		return ps[:min(at, len(ps))]
	case 3:
		return append(ps, ps...)
	default:
		if len(ps) > 0 && len(ps[at].Data) > 0 {
			ps[at].Data[i.in.N(min(len(ps[at].Data), 255))] ^= byte(1 + i.in.N(255))
		} else if len(ps) > 0 {
			ps[at].Zxid = z
		}
		return ps
	}
}

// lead is what a leader says after p; of nothing, a transaction, a commit or a ping.
func (i *impostor) lead(k *talk, p zab.Packet) []zab.Packet {
	switch p.Type {
	case zab.FollowerInfo, zab.ObserverInfo:
		accepted := p.Zxid.Epoch()
		k.epoch = choices.Of(i.in, accepted+1, accepted+1, accepted+1, accepted, accepted+2, accepted+1024, accepted+(1<<20), 1<<30)
		return []zab.Packet{{Type: zab.LeaderInfo, Zxid: zk.MakeZxid(k.epoch, 0), Data: jute.AppendInt(nil, zab.ProtocolVersion)}}
	case zab.AckEpoch:
		k.last, k.stage = p.Zxid, 1
		first := zab.Packet{Type: zab.Diff, Zxid: p.Zxid}
		switch i.in.N(6) {
		case 4:
			first.Type = zab.Trunc
			first.Zxid = choices.Of(i.in, p.Zxid-1, p.Zxid, p.Zxid-3, 0, zk.MakeZxid(p.Zxid.Epoch(), 1))
		case 5:
			first.Type = zab.Snap
			first.Zxid = choices.Of(i.in, p.Zxid, zk.MakeZxid(k.epoch, 0), zk.MakeZxid(k.epoch, uint32(i.in.N(20))), 0, 1, p.Zxid-1)
		}
		k.last = first.Zxid
		ps := []zab.Packet{first}
		for range i.in.N(4) {
			ps = append(ps, i.propose(k)...)
		}
		if i.in.N(4) > 0 {
			ps = append(ps, zab.Packet{Type: zab.NewLeader, Zxid: zk.MakeZxid(k.epoch, 0)})
		}
		return ps
	case zab.Ack:
		if p.Zxid.Counter() == 0 && k.stage == 1 {
			k.stage = 2
			return []zab.Packet{{Type: zab.UpToDate, Zxid: -1}}
		}
	}
	switch i.in.N(6) {
	case 0, 1, 2:
		return i.propose(k)
	case 3:
		return []zab.Packet{{Type: zab.Ping, Zxid: k.last}}
	case 4:
		return []zab.Packet{{Type: zab.NewLeader, Zxid: zk.MakeZxid(k.epoch, 0)}}
	}
	if len(k.open) == 0 {
		return []zab.Packet{{Type: zab.Sync}}
	}
	z := k.open[0]
	k.open = k.open[1:]
	return []zab.Packet{{Type: zab.Commit, Zxid: z}}
}

// propose returns the next transaction, mostly with its commit.
func (i *impostor) propose(k *talk) []zab.Packet {
	z := k.last + 1
	if z.Epoch() < k.epoch {
		z = zk.MakeZxid(k.epoch, 1)
	}
	k.last = z
	k.open = append(k.open, z)
	ps := []zab.Packet{{Type: zab.Proposal, Zxid: z, Data: i.transaction(z)}}
	if i.in.N(3) > 0 {
		ps = append(ps, zab.Packet{Type: zab.Commit, Zxid: k.open[0]})
		k.open = k.open[1:]
	}
	return ps
}

// transaction returns one that can be read: of any kind, sense or not. It names no digest:
// whether that is right does not show before the transaction is agreed on.
func (i *impostor) transaction(z zk.Zxid) []byte {
	t := txn.Txn{Header: txn.Header{Session: zk.SessionID(choices.Of[int64](i.in, 1, 2, 0, -1, math.MaxInt64)), Cxid: i.in.Int(), Zxid: z, Time: i.in.Long()}}
	op := func() txn.Op {
		path := choices.Of(i.in, "/a", "/a", "/b", "/a/b", "/a/b/c", "", "/", "//", "a", "/a/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota", "/zookeeper/quota/a", "/zookeeper/quota/a/zookeeper_limits", "/zookeeper/quota/a/zookeeper_stats", "/\x00")
		return txn.Op{
			Type: choices.Of(i.in, wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL, wire.OpDelete, wire.OpDeleteContainer, wire.OpSetData,
				wire.OpSetACL, wire.OpCheck, wire.OpError, wire.OpCreateSession, wire.OpCloseSession, wire.OpReconfig),
			Path: path, Data: choices.Of(i.in, nil, []byte("x"), []byte{}, []byte("count=1,bytes=-1"), []byte("count=99999999999999999999")),
			ACL: choices.Of(i.in, zk.OpenACLUnsafe(), nil, []zk.ACL{{Perms: -1, ID: zk.ID{Scheme: "x", ID: "\x00"}}}), Ephemeral: i.in.N(3) == 0,
			ParentCversion: i.in.Int(), TTL: i.in.Long(), Version: i.in.Int(), TimeoutMillis: i.in.Int(), Err: zk.Code(i.in.Int()),
			Paths: []string{path, "/a"}, PathsListed: i.in.N(2) == 0,
		}
	}
	t.Op = op()
	t.Header.Type = t.Op.Type
	if i.in.N(3) == 0 {
		t.Header.Type, t.Op = wire.OpMulti, txn.Op{Type: wire.OpMulti}
		for range i.in.N(4) {
			t.Multi = append(t.Multi, op())
		}
		if i.in.Rarely() && len(t.Multi) > 0 {
			for range 1500 { // long enough to be applied in pieces
				t.Multi = append(t.Multi, t.Multi[0])
			}
		}
	}
	return t.Append(nil)
}

// tree returns a tree after some transactions, as a leader streams it.
func (i *impostor) tree() []byte {
	tree, r := znode.New(znode.Options{ExtendedTypes: true}), znode.Result{}
	for z := range zk.Zxid(i.in.N(8)) {
		t, err := txn.Decode(i.transaction(z + 1))
		if err != nil {
			panic(err)
		}
		tree.Apply(&t, &r)
	}
	walk, b := tree.Walk(), []byte(nil)
	for done := false; !done; {
		b, done = walk.Next(b, 64<<10)
	}
	if i.in.Rarely() {
		b[i.in.N(min(len(b), 255))] ^= byte(1 + i.in.N(255))
	}
	return jute.AppendString(b, "BenWasHere")
}

// follow is what a learner says after p; of nothing, a request of a client.
func (i *impostor) follow(k *talk, p zab.Packet) []zab.Packet {
	switch p.Type {
	case zab.LeaderInfo:
		k.epoch = p.Zxid.Epoch()
		last := choices.Of(i.in, i.last(), i.last(), 0, zk.MakeZxid(k.epoch-1, math.MaxUint32), i.last()-1, zk.MakeZxid(k.epoch-1, 3))
		current := choices.Of(i.in, i.last().Epoch(), i.last().Epoch(), 0, math.MaxUint32, k.epoch-1)
		return []zab.Packet{{Type: zab.AckEpoch, Zxid: last, Data: binary.BigEndian.AppendUint32(nil, current)}}
	case zab.NewLeader, zab.UpToDate, zab.Proposal:
		k.last = p.Zxid
		return []zab.Packet{{Type: zab.Ack, Zxid: max(p.Zxid, zk.MakeZxid(k.epoch, 0))}}
	case zab.Ping:
		return []zab.Packet{{Type: zab.Ping, Zxid: p.Zxid, Data: jute.AppendInt(jute.AppendLong([]byte{}, i.in.Long()), i.in.Int())}}
	case 0:
		session := choices.Of[int64](i.in, 1, 0, -1, math.MaxInt64)
		if i.in.N(4) == 0 {
			return []zab.Packet{{Type: zab.Revalidate, Data: jute.AppendInt(jute.AppendLong(nil, session), i.in.Int())}}
		}
		kind := choices.Of(i.in, wire.OpCreateSession, wire.OpCreate, wire.OpSync, wire.OpMulti, wire.OpCloseSession, wire.OpReconfig, wire.OpDelete)
		data := jute.AppendInt(jute.AppendInt(jute.AppendLong(nil, session), i.in.Int()), int32(kind))
		switch kind {
		case wire.OpCreateSession:
			data = jute.AppendInt(data, i.in.Int())
		case wire.OpCreate:
			r := wire.CreateRequest{Path: choices.Of(i.in, "/f", "/f/", "", "/zookeeper"), ACL: zk.OpenACLUnsafe(), Flags: zk.CreateMode(i.in.N(8))}
			data = r.Append(data, kind)
		default:
			data = append(data, i.in.Bytes(i.in.N(32))...)
		}
		return []zab.Packet{{Type: zab.Request, Zxid: -1, Data: data}}
	}
	return nil
}
