package hostile

import (
	"encoding/binary"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/transport"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/internal/zab/election"
	"github.com/pinfold-zk/pinfold/test/ensemble/client"
	"github.com/pinfold-zk/pinfold/zk"
)

const opMulti = wire.OpMulti

// megabyte is a length of data or of a name with which a request is just not too long.
const megabyte = 1_000_000

// maxFrame is the longest request that servers accept by default.
const maxFrame = 1<<20 - 1

// authenticate proves an identity of scheme digest, or of any other.
func authenticate(scheme, auth string) client.Request {
	p := wire.AuthPacket{Scheme: scheme, Auth: []byte(auth)}
	return client.Request{Op: wire.OpAuth, Body: p.Append(nil)}
}

// createWith makes a znode with an ACL.
func createWith(path string, data []byte, acl []zk.ACL) client.Request {
	r := wire.CreateRequest{Path: path, Data: data, ACL: acl, TTL: -1}
	return client.Request{Op: wire.OpCreate, Body: r.Append(nil, wire.OpCreate)}
}

// watchOf reads a znode, which need not exist, and leaves a watch.
func watchOf(path string) client.Request {
	r := wire.PathWatch{Path: path, Watch: true}
	return client.Request{Op: wire.OpExists, Body: r.Append(nil)}
}

// The modes of addWatch.
const (
	persistent          = 0
	persistentRecursive = 1
)

// addWatch leaves a persistent watch.
func addWatch(path string, mode int32) client.Request {
	r := wire.PathInt{Path: path, Value: mode}
	return client.Request{Op: wire.OpAddWatch, Body: r.Append(nil)}
}

// onPath is a request whose body is a path.
func onPath(op wire.OpCode, path string) client.Request {
	return client.Request{Op: op, Body: jute.AppendString(nil, path)}
}

// getChildren lists the names of a znode's children.
func getChildren(path string) client.Request {
	r := wire.PathWatch{Path: path}
	return client.Request{Op: wire.OpGetChildren, Body: r.Append(nil)}
}

// repeat is a request n times.
func repeat(n int, r client.Request) []client.Request {
	list := make([]client.Request, n)
	for i := range list {
		list[i] = r
	}
	return list
}

// long is a name of n bytes that differs by i.
func long(n, i int) string {
	tail := fmt.Sprint(i)
	return strings.Repeat("x", n-len(tail)) + tail
}

// addresses is an ACL of n entries that match no client of a test.
func addresses(n int) []zk.ACL {
	acl := make([]zk.ACL, n)
	for i := range acl {
		acl[i] = zk.ACL{Perms: zk.PermAll, ID: zk.ID{Scheme: "ip", ID: fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&0xFF, i&0xFF)}}
	}
	return acl
}

// users is an ACL of n identities that nobody has.
func users(n int) []zk.ACL {
	acl := make([]zk.ACL, n)
	for i := range acl {
		acl[i] = zk.ACL{Perms: zk.PermAll, ID: zk.ID{Scheme: "digest", ID: fmt.Sprintf("u%d:00000000000000000000", i)}}
	}
	return acl
}

// fill creates n children of a znode, which it creates, by multis.
func (x *scene) fill(s *client.Session, parent string, n int, mode zk.CreateMode) {
	x.t.Helper()
	const perMulti = 5000
	x.do(s, client.Create(parent, nil, zk.Persistent))
	for done := 0; done < n; {
		var ops []wire.MultiOp
		for ; done < n && len(ops) < perMulti; done++ {
			ops = append(ops, client.CreateOp(fmt.Sprintf("%s/%d", parent, done), nil, mode))
		}
		x.do(s, client.Multi(ops...))
	}
}

// The first bytes of a connection to the election port: version, server id, address.
const helloVersion = -65536

// electionConn connects to a member's election port as the server with the id. Nil if
// the connection is refused.
func (x *scene) electionConn(addr string, id int64) net.Conn {
	c := x.dial(addr)
	if c == nil {
		return nil
	}
	if _, err := c.Write(greeting(id)); err != nil {
		return nil
	}
	return c
}

// greeting is the first message on an election port.
func greeting(id int64) []byte {
	return jute.AppendString(jute.AppendLong(jute.AppendLong(nil, helloVersion), id), "127.0.0.1:1")
}

// notify sends a notification and reports whether the connection took it.
func notify(c net.Conn, n election.Notification) bool {
	if c == nil || c.SetWriteDeadline(time.Now().Add(time.Second)) != nil {
		return false
	}
	payload := n.Append(nil)
	_, err := c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(payload))), payload...))
	return err == nil
}

// packet sends a packet on a connection to a quorum port and reports whether the
// connection took it.
func packet(c net.Conn, p zab.Packet) bool {
	if c == nil || c.SetWriteDeadline(time.Now().Add(time.Second)) != nil {
		return false
	}
	_, err := c.Write(transport.AppendPacket(nil, p))
	return err == nil
}

// info is FOLLOWERINFO or OBSERVERINFO of the server with the id.
func info(kind zab.PacketType, id int64, epoch uint32) zab.Packet {
	data := jute.AppendLong(nil, id)
	data = jute.AppendInt(data, zab.ProtocolVersion)
	data = jute.AppendLong(data, 0) // version of the configuration
	return zab.Packet{Type: kind, Zxid: zk.MakeZxid(epoch, 0), Data: data}
}

// answer reads one packet of the leader; the type is 0 if none comes within a second.
func answer(c net.Conn) zab.Packet {
	var b []byte
	buf := make([]byte, 64<<10)
	for {
		p, n, err := transport.DecodePacket(b, maxFrame)
		if err != nil {
			return zab.Packet{}
		}
		if n <= len(b) {
			return p
		}
		if c.SetReadDeadline(time.Now().Add(time.Second)) != nil {
			return zab.Packet{}
		}
		got, err := c.Read(buf)
		if err != nil {
			return zab.Packet{}
		}
		b = append(b, buf[:got]...)
	}
}

// learner connects to a member's quorum port and goes through discovery as the server
// with the id, with an empty history. Nil if it is refused.
func (x *scene) learner(addr string, kind zab.PacketType, id int64) net.Conn {
	c := x.dial(addr)
	if !packet(c, info(kind, id, 0)) {
		return nil
	}
	p := answer(c)
	if p.Type != zab.LeaderInfo {
		return nil
	}
	if !packet(c, zab.Packet{Type: zab.AckEpoch, Zxid: 0, Data: jute.AppendInt(nil, 0)}) {
		return nil
	}
	return c
}
