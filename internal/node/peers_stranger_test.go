package node

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"sync"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/transport"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/internal/zab/election"
	"github.com/pinfold-zk/pinfold/test/choices"
	"github.com/pinfold-zk/pinfold/zk"
)

// peersStranger speaks to both peer ports of every server, in the name of any server,
// with numbers that are near to what is true, or as large as they can be.
type peersStranger struct {
	net   *peersNet
	in    *choices.Input
	last  func() zk.Zxid // of a live server
	mu    sync.Mutex     // guards what follows
	conns []*strangeConn
	ports []net.Listener
	left  bool // what is accepted now is closed at once
}

// strangeConn is a connection of the stranger. One of its goroutines writes what it sends, the other
// one reads.
type strangeConn struct {
	nc       net.Conn
	election bool
	outbox   chan []byte
	closed   bool // guarded by the stranger's mu
}

// maxStrangeSends is more than a script sends on one connection.
const maxStrangeSends = 4096

func (x *peersStranger) add(nc net.Conn, election bool) *strangeConn {
	return x.addReading(nc, election, func(r io.Reader) { _, _ = io.Copy(io.Discard, r) }) // it ends with the connection
}

// addReading adds a connection whose input read reads to its end.
func (x *peersStranger) addReading(nc net.Conn, election bool, read func(io.Reader)) *strangeConn {
	c := &strangeConn{nc: nc, election: election, outbox: make(chan []byte, maxStrangeSends)}
	go func() {
		for b := range c.outbox {
			_, _ = nc.Write(b) // fails if either side has closed the connection
		}
	}()
	go read(nc)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.conns = append(x.conns, c)
	if x.left {
		c.closeLocked()
	}
	return c
}

// closeLocked closes the connection. REQUIRES: the stranger's mu.
func (c *strangeConn) closeLocked() {
	if !c.closed {
		c.closed = true
		c.nc.Close()
		close(c.outbox)
	}
}

// listen accepts connections at the address of a server that is not there.
func (x *peersStranger) listen(address string, election bool) {
	x.listenWith(address, func(nc net.Conn) { x.add(nc, election) })
}

func (x *peersStranger) listenWith(address string, accept func(net.Conn)) {
	l, err := x.net.listen(address)
	if err != nil {
		panic(err)
	}
	x.ports = append(x.ports, l)
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			accept(nc)
		}
	}()
}

// dial connects to a port of a server; nil if the server is down.
func (x *peersStranger) dial(id int64, election bool) *strangeConn {
	address := quorumAddress(id)
	if election {
		address = electionAddress(id)
	}
	nc, err := x.net.dial(context.Background(), address)
	if err != nil {
		return nil
	}
	return x.add(nc, election)
}

// leave closes everything.
func (x *peersStranger) leave() {
	for _, l := range x.ports {
		l.Close()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.left = true
	for _, c := range x.conns {
		c.closeLocked()
	}
}

// conn returns one of the latest connections of a kind; a new one if there is none.
func (x *peersStranger) conn(election bool) *strangeConn {
	x.mu.Lock()
	var of []*strangeConn
	for _, c := range slices.Backward(x.conns) {
		if c.election == election && len(of) < 6 {
			of = append(of, c)
		}
	}
	x.mu.Unlock()
	if at := x.in.N(8); at < len(of) {
		return of[at]
	}
	c := x.dial(int64(1+x.in.N(3)), election)
	if c != nil && election {
		x.send(c, x.hello())
	}
	return c
}

func (x *peersStranger) send(c *strangeConn, b []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !c.closed && len(c.outbox) < cap(c.outbox) {
		c.outbox <- b
	}
}

// id returns that of a server, most often.
func (x *peersStranger) id() int64 {
	if x.in.N(8) == 7 {
		return choices.Of[int64](x.in, 0, -1, math.MinInt64, math.MaxInt64, 77, 4)
	}
	return int64(1 + x.in.N(3))
}

func (x *peersStranger) epoch() uint32 {
	e := x.last().Epoch()
	return choices.Of[uint32](x.in, e, e+1, e, e+1, e+2, e-1, e+(1<<20), 0, 1<<31-1, 1<<31-2, 1<<31, math.MaxUint32, 1<<20)
}

func (x *peersStranger) zxid() zk.Zxid {
	z := x.last()
	return choices.Of[zk.Zxid](x.in, z, z+1, z, z+1, z+2, z-1, zk.MakeZxid(z.Epoch(), 0), zk.MakeZxid(x.epoch(), 0), zk.MakeZxid(x.epoch(), math.MaxUint32),
		0, -1, math.MaxInt64, math.MinInt64, 1)
}

// hello returns the first message on an election connection.
func (x *peersStranger) hello() []byte {
	id := x.id()
	switch x.in.N(8) {
	case 7:
		return jute.AppendLong(nil, id) // of very old servers
	case 6:
		return jute.AppendLong(jute.AppendLong(nil, x.in.Long()), id)
	}
	version := choices.Of[int64](x.in, -65536, -65535)
	b := jute.AppendLong(jute.AppendLong(nil, version), id)
	return jute.AppendString(b, choices.Of(x.in, strangeElection, electionAddress(1), electionAddress(3), strangeElection+"|"+electionAddress(2), "", "0.0.0.0:1", "nonsense"))
}

// notification returns a frame of the election.
func (x *peersStranger) notification() []byte {
	n := election.Notification{
		State: election.State(x.in.N(4)), Leader: x.id(), Zxid: x.zxid(),
		ElectionEpoch: choices.Of[int64](x.in, 1, 2, 3, 4, 0, -1, 1<<62, 1<<62-1, math.MaxInt64, math.MinInt64),
		PeerEpoch:     choices.Of(x.in, int64(x.epoch()), int64(x.epoch()), int64(x.epoch()), math.MaxInt64, math.MinInt64, -1),
		Config:        make([]byte, choices.Of(x.in, 0, 0, 0, 10, 1000)),
	}
	if x.in.Rarely() {
		n.Config = []byte("server.1=10.0.0.1:2888:3888:participant\nversion=ffffffffffff")
		n.Seen = x.zxid()
	}
	b := n.Append(nil)
	switch x.in.N(32) {
	case 31:
		b = b[:28]
	case 30:
		b = b[:40]
	case 29:
		b = b[:x.in.N(len(b))]
	case 28:
		binary.BigEndian.PutUint32(b, uint32(x.in.Int()))
	}
	frame := binary.BigEndian.AppendUint32(nil, uint32(len(b)))
	if x.in.N(256) == 255 {
		binary.BigEndian.PutUint32(frame, uint32(choices.Of[int32](x.in, -1, 0, transport.MaxNotificationBytes, transport.MaxNotificationBytes+1, math.MaxInt32)))
	}
	return append(frame, b...)
}

// packet returns the bytes of a packet.
func (x *peersStranger) packet() []byte {
	p := zab.Packet{Type: zab.PacketType(1 + x.in.N(19)), Zxid: x.zxid()}
	switch {
	case p.Type == zab.FollowerInfo || p.Type == zab.ObserverInfo || x.in.Rarely():
		p.Data, p.Zxid = x.info(), zk.MakeZxid(x.epoch(), 0)
	case p.Type == zab.AckEpoch || p.Type == zab.LeaderInfo:
		p.Data = binary.BigEndian.AppendUint32(nil, choices.Of[uint32](x.in, x.epoch(), zab.ProtocolVersion))
	case p.Type == zab.Request:
		p.Data = jute.AppendInt(jute.AppendInt(jute.AppendLong(nil, x.in.Long()), x.in.Int()), choices.Of[int32](x.in, 1, 2, 5, 14, 9, -10, -11, 20, 99))
		p.Data = append(p.Data, x.in.Bytes(x.in.N(64))...)
		if x.in.Rarely() {
			p.Auth = []zk.ID{{Scheme: "super", ID: ""}, {Scheme: "ip", ID: "1.1.1.1"}}
		}
	case p.Type == zab.Revalidate || p.Type == zab.Ping:
		for range x.in.N(4) {
			p.Data = jute.AppendInt(jute.AppendLong(p.Data, x.in.Long()), x.in.Int())
		}
	default:
		p.Data = slices.Clone(x.in.Bytes(x.in.N(64)))
	}
	b := transport.AppendPacket(nil, p)
	if x.in.N(256) == 255 {
		binary.BigEndian.PutUint32(b[choices.Of(x.in, 0, 12, 4):], uint32(x.in.Int()))
	}
	return b
}

func (x *peersStranger) info() []byte {
	b := jute.AppendInt(jute.AppendLong(nil, x.id()), choices.Of[int32](x.in, zab.ProtocolVersion, zab.ProtocolVersion, 0, -1))
	return jute.AppendLong(b, choices.Of[int64](x.in, 0, x.in.Long()))
}

// learner returns the packets of a learner up to one that serves.
func (x *peersStranger) learner() (b []byte) {
	e := x.last().Epoch()
	info := zab.Packet{Type: choices.Of(x.in, zab.FollowerInfo, zab.ObserverInfo), Zxid: zk.MakeZxid(choices.Of(x.in, e, x.epoch()), 0)}
	info.Data = x.info()
	ack := zab.Packet{Type: zab.AckEpoch, Zxid: x.zxid(), Data: binary.BigEndian.AppendUint32(nil, choices.Of(x.in, e, x.epoch()))}
	for _, p := range []zab.Packet{info, ack, {Type: zab.Ack, Zxid: zk.MakeZxid(e, 0)}, {Type: zab.Ack, Zxid: x.zxid()}}[:1+x.in.N(4)] {
		b = transport.AppendPacket(b, p)
	}
	return b
}

// leader returns the packets of a leader up to one that serves.
func (x *peersStranger) leader() (b []byte) {
	e := x.epoch()
	version := binary.BigEndian.AppendUint32(nil, zab.ProtocolVersion)
	for _, p := range []zab.Packet{
		{Type: zab.LeaderInfo, Zxid: zk.MakeZxid(e, 0), Data: version},
		{Type: choices.Of(x.in, zab.Diff, zab.Trunc, zab.Snap), Zxid: x.zxid()},
		{Type: zab.NewLeader, Zxid: zk.MakeZxid(e, 0)}, {Type: zab.UpToDate, Zxid: x.zxid()},
	}[:1+x.in.N(4)] {
		b = transport.AppendPacket(b, p)
	}
	return b
}

// act says one thing, and returns what.
func (x *peersStranger) act() string {
	kind := x.in.N(16)
	isElection := kind < 5
	c := x.conn(isElection)
	if c == nil {
		return "the stranger finds a port closed"
	}
	var b []byte
	switch {
	case isElection:
		b = x.notification()
	case kind < 10:
		b = x.packet()
	case kind == 10:
		b = x.learner()
	case kind == 11:
		b = x.leader()
	case kind == 12:
		b = x.in.Bytes(x.in.N(64))
	case kind == 13:
		x.mu.Lock()
		defer x.mu.Unlock()
		c.closeLocked()
		return "the stranger closes a connection"
	case kind == 14:
		one := x.packet()
		for range 1 + x.in.N(200) {
			b = append(b, one...)
		}
	default:
		b = append(x.packet(), x.packet()...)
		b = b[:x.in.N(min(len(b), 255))+1]
	}
	x.send(c, b)
	return fmt.Sprintf("the stranger sends %.80x of %d bytes, election port: %v", b, len(b), isElection)
}
