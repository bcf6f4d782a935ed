package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/frames"
	"github.com/pinfold-zk/pinfold/zk"
)

// kind says what a step does.
type kind string

const (
	kindOpen    kind = "open"    // a new session
	kindRequest kind = "request" // one request, or several sent without waiting
	kindDrop    kind = "drop"    // close the socket and leave the session
	kindAttach  kind = "attach"  // a new socket for a session that exists, or existed
	kindShake   kind = "shake"   // a handshake of any bytes; a session it makes is closed at once
	kindRaw     kind = "raw"     // bytes on an open connection that are no request
	kindExpire  kind = "expire"  // a short session that does its requests, is dropped, and waited out
)

// A step is one thing done to both servers in the same way. It names no value
// that only one of them knows: sessions go by the client's name, and a zxid is
// the distance from where the run began. So a list of steps can be stored,
// shortened, and run again.
type step struct {
	Kind    kind
	Client  string    `json:",omitempty"`
	Reqs    []request `json:",omitempty"`
	Timeout int32     `json:",omitempty"` // asked for, in milliseconds
	NoByte  bool      `json:",omitempty"` // the handshake leaves readOnly out
	Seen    int64     `json:",omitempty"` // attach: lastZxidSeen, relative to the server's last
	Pass    string    `json:",omitempty"` // attach: "right", "wrong", "empty" or "long"
	Bytes   []byte    `json:",omitempty"` // shake: the body; raw: everything
}

// A request is a header and body.
type request struct {
	Xid  int32
	Op   wire.OpCode
	Body []byte
	// RelZxid tells that the body starts with a zxid to be taken as relative
	// to the start of the run, as setWatches has it.
	RelZxid bool `json:",omitempty"`
	Junk    bool `json:",omitempty"` // the body was damaged on purpose
}

// closesSession reports whether the step ends a session on purpose.
func (s *step) closesSession() bool {
	if s.Kind == kindExpire {
		return true
	}
	return len(s.Reqs) > 0 && s.Reqs[len(s.Reqs)-1].Op == wire.OpCloseSession
}

// frame appends the request as it goes to a server whose run began at base.
func (r *request) frame(b []byte, base int64) []byte {
	body := wire.RequestHeader{Xid: r.Xid, Op: r.Op}.Append(nil)
	at := len(body)
	body = append(body, r.Body...)
	if r.RelZxid && len(r.Body) >= 8 {
		d := jute.NewDecoder(r.Body)
		jute.AppendLong(body[:at], base+d.Long())
	}
	return frames.Append(b, body)
}

func (s step) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", s.Kind, s.Client)
	if s.Timeout != 0 {
		fmt.Fprintf(&b, " timeout=%d", s.Timeout)
	}
	if s.NoByte {
		b.WriteString(" without the readOnly byte")
	}
	if s.Kind == kindAttach {
		fmt.Fprintf(&b, " password=%s lastZxidSeen=last%+d", s.Pass, s.Seen)
	}
	if len(s.Bytes) > 0 {
		fmt.Fprintf(&b, " %s", hexShort(s.Bytes))
	}
	if len(s.Reqs) > 1 {
		fmt.Fprintf(&b, " pipelined:")
	}
	for _, r := range s.Reqs {
		if len(s.Reqs) > 1 {
			b.WriteString("\n         ")
		}
		b.WriteString(" " + r.String())
	}
	return b.String()
}

func hexShort(b []byte) string {
	if len(b) > 80 {
		return fmt.Sprintf("%x… (%d bytes)", b[:80], len(b))
	}
	return fmt.Sprintf("%x", b)
}

// names tells apart what the four letters of wire.OpCode do not.
var names = map[wire.OpCode]string{
	wire.OpCreate: "create", wire.OpCreate2: "create2", wire.OpCreateContainer: "createContainer",
	wire.OpCreateTTL: "createTTL", wire.OpDelete: "delete", wire.OpExists: "exists",
	wire.OpGetData: "getData", wire.OpSetData: "setData", wire.OpGetACL: "getACL", wire.OpSetACL: "setACL",
	wire.OpGetChildren: "getChildren", wire.OpGetChildren2: "getChildren2", wire.OpSync: "sync",
	wire.OpPing: "ping", wire.OpCheck: "check", wire.OpMulti: "multi", wire.OpMultiRead: "multiRead",
	wire.OpReconfig: "reconfig", wire.OpCheckWatches: "checkWatches", wire.OpRemoveWatches: "removeWatches",
	wire.OpDeleteContainer: "deleteContainer", wire.OpAuth: "auth", wire.OpSASL: "sasl",
	wire.OpSetWatches: "setWatches", wire.OpSetWatches2: "setWatches2", wire.OpGetEphemerals: "getEphemerals",
	wire.OpGetAllChildrenNumber: "getAllChildrenNumber", wire.OpAddWatch: "addWatch",
	wire.OpWhoAmI: "whoAmI", wire.OpCloseSession: "closeSession",
}

func opName(o wire.OpCode) string {
	if n, ok := names[o]; ok {
		return n
	}
	return fmt.Sprintf("op%d", int32(o))
}

// String shows the request decoded, or in hex if its body was damaged or
// cannot be decoded.
func (r request) String() string {
	s := fmt.Sprintf("%s(xid=%d", opName(r.Op), r.Xid)
	text, ok := describe(r.Op, r.Body)
	if !ok || r.Junk {
		text = "body=" + hexShort(r.Body)
	}
	if text != "" {
		s += " " + text
	}
	return s + ")"
}

func describe(op wire.OpCode, body []byte) (text string, ok bool) {
	d := jute.NewDecoder(body)
	switch op {
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		var r wire.CreateRequest
		r.Decode(&d, op)
		text = describeCreate(&r, op)
	case wire.OpDelete, wire.OpCheck:
		var r wire.PathVersion
		r.Decode(&d)
		text = fmt.Sprintf("%q version=%d", r.Path, r.Version)
	case wire.OpExists, wire.OpGetData, wire.OpGetChildren, wire.OpGetChildren2:
		var r wire.PathWatch
		r.Decode(&d)
		text = fmt.Sprintf("%q watch=%v", r.Path, r.Watch)
	case wire.OpSetData:
		var r wire.SetDataRequest
		r.Decode(&d)
		text = fmt.Sprintf("%q data=%s version=%d", r.Path, dataText(r.Data), r.Version)
	case wire.OpSetACL:
		var r wire.SetACLRequest
		r.Decode(&d)
		text = fmt.Sprintf("%q acl=%v version=%d", r.Path, r.ACL, r.Version)
	case wire.OpAddWatch, wire.OpCheckWatches, wire.OpRemoveWatches:
		var r wire.PathInt
		r.Decode(&d)
		text = fmt.Sprintf("%q %d", r.Path, r.Value)
	case wire.OpSetWatches, wire.OpSetWatches2:
		var r wire.SetWatches
		r.Decode(&d, op)
		text = fmt.Sprintf("relative=start%+d data=%q exist=%q child=%q persistent=%q recursive=%q",
			int64(r.RelativeZxid), r.Data, r.Exist, r.Child, r.Persistent, r.PersistentRecursive)
	case wire.OpMulti, wire.OpMultiRead:
		text = describeMulti(&d, op)
	case wire.OpAuth:
		var r wire.AuthPacket
		r.Decode(&d)
		text = fmt.Sprintf("%s %q", r.Scheme, r.Auth)
	case wire.OpGetACL, wire.OpSync, wire.OpGetEphemerals, wire.OpGetAllChildrenNumber:
		text = fmt.Sprintf("%q", d.String())
	case wire.OpReconfig:
		var r wire.ReconfigRequest
		r.Decode(&d)
		members := "none"
		if r.NewMembers != nil {
			members = strconv.Quote(*r.NewMembers)
		}
		text = fmt.Sprintf("join=%q leave=%q new=%s from=%d", r.JoiningServers, r.LeavingServers, members, r.CurConfigID)
	default:
		if len(body) > 0 {
			return "", false
		}
	}
	return text, d.Err() == nil
}

func describeCreate(r *wire.CreateRequest, op wire.OpCode) string {
	s := fmt.Sprintf("%q data=%s acl=%v flags=%d", r.Path, dataText(r.Data), r.ACL, int32(r.Flags))
	if op == wire.OpCreateTTL {
		s += fmt.Sprintf(" ttl=%d", r.TTL)
	}
	return s
}

func describeMulti(d *jute.Decoder, op wire.OpCode) string {
	var parts []string
	for _, m := range wire.DecodeMulti(d, op, nil) {
		p := opName(m.Type) + " "
		switch m.Type {
		case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
			p += describeCreate(&m.CreateRequest, m.Type)
		case wire.OpSetData:
			p += fmt.Sprintf("%q data=%s version=%d", m.Path, dataText(m.Data), m.Version)
		default:
			p += fmt.Sprintf("%q version=%d", m.Path, m.Version)
		}
		parts = append(parts, p)
	}
	return "{" + strings.Join(parts, "; ") + "}"
}

func dataText(b []byte) string {
	if b == nil {
		return "null"
	}
	if len(b) > 60 {
		return fmt.Sprintf("%q… (%d bytes)", b[:60], len(b))
	}
	return fmt.Sprintf("%q", b)
}

// requestPath returns the path that the request starts with, "" if it has none.
func (r *request) requestPath() string {
	switch r.Op {
	case wire.OpMulti, wire.OpMultiRead, wire.OpAuth, wire.OpSetWatches, wire.OpSetWatches2, wire.OpReconfig,
		wire.OpSASL, wire.OpPing, wire.OpWhoAmI, wire.OpCloseSession:
		return ""
	}
	d := jute.NewDecoder(r.Body)
	return d.String()
}

// pathBody is the body that is only a path.
func pathBody(p string) []byte { return jute.AppendString(nil, p) }

// codeText names an error code with its number.
func codeText(e zk.Code) string {
	if e == zk.OK {
		return "ok"
	}
	return fmt.Sprintf("%d %s", int32(e), strings.TrimPrefix(e.Error(), "zookeeper: "))
}
