package server

import (
	"encoding/binary"
	"math"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/choices"
	"github.com/pinfold-zk/pinfold/zk"
)

// portScript is the input of FuzzClientPort as a source of choices.
type portScript struct{ *choices.Input }

// of returns one of the values.
func of[T any](s *portScript, values ...T) T { return choices.Of(s.Input, values...) }

// path returns a path: most often a good one that others use too.
func (s *portScript) path() string {
	good := []string{"/a", "/a/b", "/a/b/c", "/a/d", "/e", "/"}
	if !s.Rarely() {
		return of(s, good...)
	}
	return of(s, "", "a", "/a/", "//a", "/a/../b", "/\x00", "/\xff", innocentRoot, innocentRoot+"/a", "/zookeeper", "/zookeeper/quota",
		"/zookeeper/config", "/zookeeper/quota/a", "/zookeeper/quota/a/zookeeper_limits", "/zookeeper/quota/a/zookeeper_stats",
		strings.Repeat("/a", 2000), "/"+strings.Repeat("n", 4<<10), "/a/b\u0001", "/.", "/...")
}

func (s *portScript) paths() (list []string) {
	for range s.N(5) {
		list = append(list, s.path())
	}
	return list
}

// data returns data of lengths on both sides of the limits of buffers.
func (s *portScript) data() []byte {
	if s.Rarely() {
		return nil
	}
	n := of(s, 1, 0, 10, 100, 1000, 10, 100, smallRequest+1, 20<<10, portMaxFrame-200)
	return make([]byte, n)
}

func (s *portScript) acl() []zk.ACL {
	if !s.Rarely() {
		return zk.OpenACLUnsafe()
	}
	return of[[]zk.ACL](s, nil, []zk.ACL{},
		[]zk.ACL{{Perms: zk.PermRead, ID: zk.ID{Scheme: "world", ID: "anyone"}}},
		[]zk.ACL{{Perms: zk.PermAll, ID: zk.ID{Scheme: "auth"}}},
		[]zk.ACL{{Perms: -1, ID: zk.ID{Scheme: "ip", ID: "10.0.1.0/24"}}},
		[]zk.ACL{{Perms: zk.PermAll, ID: zk.ID{Scheme: "digest", ID: "x"}}},
		[]zk.ACL{{Perms: 0, ID: zk.ID{Scheme: "nonsense", ID: "x"}}})
}

// portOps are the operations that a script sends, the usual ones more than once.
var portOps = []wire.OpCode{
	wire.OpCreate, wire.OpCreate, wire.OpCreate, wire.OpCreate2, wire.OpSetData, wire.OpSetData, wire.OpDelete, wire.OpGetData, wire.OpGetData,
	wire.OpExists, wire.OpGetChildren, wire.OpGetChildren2, wire.OpMulti, wire.OpMulti, wire.OpMultiRead, wire.OpSync,
	wire.OpPing, wire.OpGetACL, wire.OpSetACL, wire.OpAuth, wire.OpSetWatches, wire.OpSetWatches2, wire.OpAddWatch, wire.OpRemoveWatches,
	wire.OpCheckWatches, wire.OpGetEphemerals, wire.OpGetAllChildrenNumber, wire.OpWhoAmI, wire.OpCreateContainer, wire.OpCreateTTL,
	wire.OpSASL, wire.OpReconfig, wire.OpDeleteContainer,
}

// portLastOps are operations after which the server closes the connection.
var portLastOps = []wire.OpCode{
	wire.OpCloseSession, wire.OpCloseSession, wire.OpCheck, wire.OpCreateSession, wire.OpError, wire.OpNotification, 10, 99, 108, math.MaxInt32, math.MinInt32,
}

// request returns the frame of a request. Most requests are well-formed.
func (s *portScript) request(next int32) []byte {
	op, xid := of(s, portOps...), next
	switch s.N(64) {
	case 63:
		op = of(s, portLastOps...)
	case 62, 61:
		xid = s.Int()
	}
	body := s.body(op)
	if s.Rarely() && s.N(2) == 0 {
		body = s.spoil(body)
	}
	frame := encode(nil, xid, op, body)
	if s.N(256) == 255 {
		binary.BigEndian.PutUint32(frame, uint32(of(s, -1, 0, 7, 8, portMaxFrame, portMaxFrame+1, math.MaxInt32, math.MinInt32)))
	}
	return frame
}

// spoil makes a body wrong: too short, too long, or with another number in it.
func (s *portScript) spoil(body []byte) []byte {
	switch at := s.N(64); {
	case at >= len(body):
		return append(body, make([]byte, at)...)
	case s.N(2) == 0:
		return body[:at]
	default:
		return append(jute.AppendInt(body[:at:at], s.Int()), body[min(at+4, len(body)):]...)
	}
}

// body returns a body as the operation has it.
func (s *portScript) body(op wire.OpCode) []byte {
	switch op {
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		r := s.create()
		return r.Append(nil, op)
	case wire.OpDelete, wire.OpCheck:
		r := wire.PathVersion{Path: s.path(), Version: s.version()}
		return r.Append(nil)
	case wire.OpSetData:
		r := wire.SetDataRequest{Path: s.path(), Data: s.data(), Version: s.version()}
		return r.Append(nil)
	case wire.OpSetACL:
		r := wire.SetACLRequest{Path: s.path(), ACL: s.acl(), Version: s.version()}
		return r.Append(nil)
	case wire.OpExists, wire.OpGetData, wire.OpGetChildren, wire.OpGetChildren2:
		return readBody(s.path(), s.N(2) == 1)
	case wire.OpMulti, wire.OpMultiRead:
		return s.multi(op)
	case wire.OpSetWatches, wire.OpSetWatches2:
		r := wire.SetWatches{RelativeZxid: zk.Zxid(s.Long()), Data: s.paths(), Exist: s.paths(), Child: s.paths(), Persistent: s.paths(), PersistentRecursive: s.paths()}
		return r.Append(nil, op)
	case wire.OpAddWatch, wire.OpRemoveWatches, wire.OpCheckWatches:
		r := wire.PathInt{Path: s.path(), Value: of[int32](s, 0, 1, 2, 3, 4, 5, 6, -1, math.MaxInt32)}
		return r.Append(nil)
	case wire.OpAuth:
		r := wire.AuthPacket{Type: s.Int(), Scheme: of(s, "digest", "digest", "ip", "world", "auth", "x509", "super", ""), Auth: []byte(of(s, "a:b", "", ":", "a"))}
		return r.Append(nil)
	case wire.OpReconfig:
		r := wire.ReconfigRequest{JoiningServers: of(s, "", "server.9=10.0.0.9:1:2"), LeavingServers: of(s, "", "1"), CurConfigID: s.Long()}
		return r.Append(nil)
	case wire.OpCreateSession:
		return jute.AppendInt(nil, s.Int())
	case wire.OpSASL:
		return jute.AppendBuffer(nil, s.data())
	case wire.OpPing, wire.OpWhoAmI, wire.OpCloseSession:
		return nil
	}
	return jute.AppendString(nil, s.path())
}

func (s *portScript) version() int32 { return of(s, -1, -1, -1, 0, 1, s.Int()) }

func (s *portScript) create() wire.CreateRequest {
	flags := of(s, 0, 0, 1, 2, 3, 4, 5, 6, 7, -1, math.MaxInt32)
	return wire.CreateRequest{Path: s.path(), Data: s.data(), ACL: s.acl(), Flags: zk.CreateMode(flags), TTL: s.Long()}
}

func (s *portScript) multi(op wire.OpCode) (b []byte) {
	ops := []wire.OpCode{wire.OpCreate, wire.OpSetData, wire.OpDelete, wire.OpCheck, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL, wire.OpGetData}
	if op == wire.OpMultiRead {
		ops = []wire.OpCode{wire.OpGetData, wire.OpGetChildren, wire.OpGetData, wire.OpGetChildren, wire.OpSetData}
	}
	for range s.N(6) {
		m := wire.MultiOp{Type: of(s, ops[:len(ops)-1]...), Version: s.version()}
		if s.Rarely() {
			m.Type = of(s, ops[len(ops)-1], wire.OpPing, wire.OpError, wire.OpMulti)
		}
		m.CreateRequest = s.create()
		b = m.Append(b)
	}
	if s.Rarely() {
		return b // without its end
	}
	return wire.AppendMultiEnd(b)
}
