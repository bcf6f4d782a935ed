package prep

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/session"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// TestScripts runs the golden scripts of testdata: requests in the order of
// their lines, and what each becomes. A line is an operation, its path and
// arguments:
//
//	create /a data=x flags=1 ttl=5 acl=open|read|none|auth|digest:u:x:31|...
//	delete /a version=0     (setData, setACL, check alike)
//
// The commands are
//
//	new [plain] [quota] [max=bytes]   a fresh tree; plain has no extended types
//	session                           creates one, which requests are by from then on
//	prepare [session=n] [moved] [server] [ids=u:x]   one request a line
//	multi                             the lines are the operations of one
//	close [expired] [moved]           closeSession
//	raw op=n                          a request whose body is in hex
//	apply [n]                         applies the first n, or all, that are pending
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &script{t: t}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.d = d
			return s.run()
		})
	})
}

type script struct {
	t       *testing.T
	d       *datadriven.TestData
	rig     *rig
	session zk.SessionID
}

func (s *script) run() string {
	lines := strings.Split(s.d.Input, "\n")
	switch s.d.Cmd {
	case "new":
		cfg := everything
		cfg.ExtendedTypes = !s.d.HasArg("plain")
		cfg.EnforceQuota = s.d.HasArg("quota")
		s.d.MaybeScanArgs(s.t, "max", &cfg.MaxTxnBytes)
		s.rig = newRig(s.t, cfg)
		return ""
	case "session":
		tx := s.rig.prepare(Request{Op: wire.OpCreateSession, Owner: owner, Body: jute.AppendInt(nil, 5000)})
		s.session = tx.Session
		return describe(tx)
	case "prepare":
		var out strings.Builder
		for _, line := range lines {
			m := s.parse(line)
			out.WriteString(describe(s.rig.prepare(s.request(m.Type, appendOp(&m)))))
		}
		return out.String()
	case "multi":
		var body []byte
		for _, line := range lines {
			if line != "" {
				m := s.parse(line)
				body = m.Append(body)
			}
		}
		return describe(s.rig.prepare(s.request(wire.OpMulti, wire.AppendMultiEnd(body))))
	case "close":
		req := s.request(wire.OpCloseSession, nil)
		if s.d.HasArg("expired") {
			req.Owner = session.NoOwner
		}
		return describe(s.rig.prepare(req))
	case "raw":
		var op int32
		s.d.ScanArgs(s.t, "op", &op)
		var body []byte
		if _, err := fmt.Sscanf(s.d.Input, "%x", &body); s.d.Input != "" && err != nil {
			s.d.Fatalf(s.t, "%q: %v", s.d.Input, err)
		}
		return describe(s.rig.prepare(s.request(wire.OpCode(op), body)))
	case "apply":
		n := len(s.rig.pending)
		if len(s.d.CmdArgs) > 0 {
			n, _ = strconv.Atoi(s.d.CmdArgs[0].Key)
		}
		s.rig.apply(n)
		s.rig.prep.Applied(s.rig.tree.LastZxid())
		return fmt.Sprintf("%d outstanding\n", s.rig.prep.Outstanding())
	}
	s.d.Fatalf(s.t, "unknown command %s", s.d.Cmd)
	return ""
}

// request is by the script's session unless the arguments say otherwise.
func (s *script) request(op wire.OpCode, body []byte) Request {
	req := Request{Session: s.session, Op: op, Body: body, Owner: owner, IDs: []zk.ID{{Scheme: "ip", ID: "127.0.0.1"}}}
	if s.d.HasArg("session") {
		var id int64
		s.d.ScanArgs(s.t, "session", &id)
		req.Session = zk.SessionID(id)
	}
	if s.d.HasArg("moved") {
		req.Owner++
	}
	if s.d.HasArg("server") {
		req.Session, req.Owner = 0, session.NoOwner
	}
	if s.d.HasArg("ids") {
		var id string
		s.d.ScanArgs(s.t, "ids", &id)
		req.IDs = append(req.IDs, zk.ID{Scheme: "digest", ID: id})
	}
	return req
}

var opByName = map[string]wire.OpCode{
	"create": wire.OpCreate, "create2": wire.OpCreate2, "createContainer": wire.OpCreateContainer,
	"createTTL": wire.OpCreateTTL, "delete": wire.OpDelete, "setData": wire.OpSetData, "setACL": wire.OpSetACL,
	"check": wire.OpCheck,
}

// parse reads a line. A path may be quoted, as Go does it.
func (s *script) parse(line string) wire.MultiOp {
	fields := strings.Fields(line)
	m := wire.MultiOp{Type: opByName[fields[0]], Version: -1}
	m.TTL, m.ACL, m.Path = -1, zk.OpenACLUnsafe(), fields[1]
	if p, err := strconv.Unquote(m.Path); err == nil {
		m.Path = p
	}
	for _, f := range fields[2:] {
		key, value, _ := strings.Cut(f, "=")
		n, _ := strconv.ParseInt(value, 10, 64)
		switch key {
		case "data":
			m.Data = []byte(value)
		case "flags":
			m.Flags = zk.CreateMode(n)
		case "ttl":
			m.TTL = n
		case "version":
			m.Version = int32(n)
		case "acl":
			m.ACL = s.acl(value)
		default:
			s.d.Fatalf(s.t, "unknown argument %q", f)
		}
	}
	return m
}

func (s *script) acl(name string) []zk.ACL {
	switch name {
	case "open":
		return zk.OpenACLUnsafe()
	case "read":
		return zk.ReadACLUnsafe()
	case "none":
		return nil
	case "auth":
		return zk.CreatorAllACL()
	}
	scheme, id, _ := strings.Cut(name, ":")
	i := strings.LastIndexByte(id, ':')
	perms, err := strconv.Atoi(id[i+1:])
	if err != nil {
		s.d.Fatalf(s.t, "ACL %q: %v", name, err)
	}
	return []zk.ACL{{Perms: zk.Perms(perms), ID: zk.ID{Scheme: scheme, ID: id[:i]}}}
}

// describe writes what a reviewer wants to know of a transaction.
func describe(tx *txn.Txn) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v ", tx.Zxid)
	if tx.Header.Type != wire.OpMulti {
		describeOp(&b, &tx.Op)
		return b.String()
	}
	fmt.Fprintf(&b, "multi of %d\n", len(tx.Multi))
	for i := range tx.Multi {
		b.WriteString("  ")
		describeOp(&b, &tx.Multi[i])
	}
	return b.String()
}

func describeOp(b *strings.Builder, op *txn.Op) {
	switch op.Type {
	case wire.OpError:
		fmt.Fprintf(b, "error %d %v\n", int32(op.Err), op.Err)
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		fmt.Fprintf(b, "create(%d) %s cversion=%d acl=%v", int32(op.Type), op.Path, op.ParentCversion, op.ACL)
		if op.Ephemeral {
			b.WriteString(" ephemeral")
		}
		if op.Type == wire.OpCreateTTL {
			fmt.Fprintf(b, " ttl=%d", op.TTL)
		}
		b.WriteByte('\n')
	case wire.OpDelete, wire.OpDeleteContainer:
		fmt.Fprintf(b, "delete(%d) %s\n", int32(op.Type), op.Path)
	case wire.OpSetData:
		fmt.Fprintf(b, "setData %s version=%d\n", op.Path, op.Version)
	case wire.OpSetACL:
		fmt.Fprintf(b, "setACL %s version=%d acl=%v\n", op.Path, op.Version, op.ACL)
	case wire.OpCheck:
		fmt.Fprintf(b, "check %s version=%d\n", op.Path, op.Version)
	case wire.OpCreateSession:
		fmt.Fprintf(b, "createSession timeout=%d\n", op.TimeoutMillis)
	case wire.OpCloseSession:
		fmt.Fprintf(b, "closeSession listed=%v %v\n", op.PathsListed, op.Paths)
	default:
		fmt.Fprintf(b, "type %d\n", int32(op.Type))
	}
}
