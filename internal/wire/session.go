package wire

import (
	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/zk"
)

// PasswordLen is the length of a session's password in bytes.
const PasswordLen = 16

// ConnectRequest is the first frame of every connection.
type ConnectRequest struct {
	ProtocolVersion int32
	LastZxidSeen    zk.Zxid
	TimeoutMillis   int32
	SessionID       zk.SessionID // 0 asks for a new session
	Password        []byte
	ReadOnly        bool // the client accepts a read-only server
	HasReadOnly     bool // the byte is on the wire; clients before 3.4 do not send it
}

// Decode reads the record; the readOnly byte may be missing.
func (r *ConnectRequest) Decode(d *jute.Decoder) {
	r.ProtocolVersion = d.Int()
	r.LastZxidSeen = zk.Zxid(d.Long())
	r.TimeoutMillis = d.Int()
	r.SessionID = zk.SessionID(d.Long())
	r.Password = d.Buffer()
	r.HasReadOnly = d.Err() == nil && d.Len() > 0
	r.ReadOnly = r.HasReadOnly && d.Bool()
}

// Append writes the record, the readOnly byte only if HasReadOnly.
func (r *ConnectRequest) Append(b []byte) []byte {
	b = jute.AppendInt(b, r.ProtocolVersion)
	b = jute.AppendLong(b, int64(r.LastZxidSeen))
	b = jute.AppendInt(b, r.TimeoutMillis)
	b = jute.AppendLong(b, int64(r.SessionID))
	b = jute.AppendBuffer(b, r.Password)
	if r.HasReadOnly {
		b = jute.AppendBool(b, r.ReadOnly)
	}
	return b
}

// ConnectResponse answers a ConnectRequest. A refused session (expired, or the
// wrong password) has timeout 0, id 0 and a password of zeros.
type ConnectResponse struct {
	ProtocolVersion int32
	TimeoutMillis   int32
	SessionID       zk.SessionID
	Password        []byte
	ReadOnly        bool // the server is read-only
	HasReadOnly     bool // as the request had it
}

// Decode reads the record; the readOnly byte may be missing.
func (r *ConnectResponse) Decode(d *jute.Decoder) {
	r.ProtocolVersion = d.Int()
	r.TimeoutMillis = d.Int()
	r.SessionID = zk.SessionID(d.Long())
	r.Password = d.Buffer()
	r.HasReadOnly = d.Err() == nil && d.Len() > 0
	r.ReadOnly = r.HasReadOnly && d.Bool()
}

// Append writes the record, the readOnly byte only if HasReadOnly.
func (r *ConnectResponse) Append(b []byte) []byte {
	b = jute.AppendInt(b, r.ProtocolVersion)
	b = jute.AppendInt(b, r.TimeoutMillis)
	b = jute.AppendLong(b, int64(r.SessionID))
	b = jute.AppendBuffer(b, r.Password)
	if r.HasReadOnly {
		b = jute.AppendBool(b, r.ReadOnly)
	}
	return b
}

// RequestHeader precedes every request.
type RequestHeader struct {
	Xid int32
	Op  OpCode
}

// Decode reads the record.
func (r *RequestHeader) Decode(d *jute.Decoder) {
	r.Xid = d.Int()
	r.Op = OpCode(d.Int())
}

// Append writes the record.
func (r RequestHeader) Append(b []byte) []byte {
	return jute.AppendInt(jute.AppendInt(b, r.Xid), int32(r.Op))
}

// ReplyHeader precedes every reply and event. A record follows when Err is OK
// and the operation has one.
type ReplyHeader struct {
	Xid  int32
	Zxid zk.Zxid // last transaction that the answering server has applied
	Err  zk.Code
}

// ReplyHeaderLen is the encoded length of a ReplyHeader in bytes.
const ReplyHeaderLen = 16

// Decode reads the record.
func (r *ReplyHeader) Decode(d *jute.Decoder) {
	r.Xid = d.Int()
	r.Zxid = zk.Zxid(d.Long())
	r.Err = zk.Code(d.Int())
}

// Append writes the record.
func (r ReplyHeader) Append(b []byte) []byte {
	b = jute.AppendInt(b, r.Xid)
	b = jute.AppendLong(b, int64(r.Zxid))
	return jute.AppendInt(b, int32(r.Err))
}

// SetReplyZxid changes the zxid of the header that b begins with.
func SetReplyZxid(b []byte, z zk.Zxid) { jute.PutLong(b[4:], int64(z)) }

// AuthPacket is the body of an auth request. Type is always 0 and ignored.
type AuthPacket struct {
	Type   int32
	Scheme string
	Auth   []byte
}

// Decode reads the record.
func (r *AuthPacket) Decode(d *jute.Decoder) {
	r.Type = d.Int()
	r.Scheme = d.String()
	r.Auth = d.Buffer()
}

// Append writes the record.
func (r *AuthPacket) Append(b []byte) []byte {
	b = jute.AppendInt(b, r.Type)
	b = jute.AppendString(b, r.Scheme)
	return jute.AppendBuffer(b, r.Auth)
}

// WatcherEvent is the body of a notification.
type WatcherEvent struct {
	Type  zk.EventType
	State zk.KeeperState
	Path  string
}

// Decode reads the record.
func (r *WatcherEvent) Decode(d *jute.Decoder) {
	r.Type = zk.EventType(d.Int())
	r.State = zk.KeeperState(d.Int())
	r.Path = d.String()
}

// Append writes the record.
func (r *WatcherEvent) Append(b []byte) []byte {
	b = jute.AppendInt(b, int32(r.Type))
	b = jute.AppendInt(b, int32(r.State))
	return jute.AppendString(b, r.Path)
}
