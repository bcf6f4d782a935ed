package wire

import (
	"bytes"
	"encoding/binary"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/zk"
)

// minACLBytes is the least that one ACL takes: perms and two empty strings.
const minACLBytes = 12

// DecodeACL reads a vector of ACLs; null reads as nil.
func DecodeACL(d *jute.Decoder) []zk.ACL {
	n, null := d.NullableCount(minACLBytes)
	if null || d.Err() != nil {
		return nil
	}
	acl := make([]zk.ACL, n)
	for i := range acl {
		acl[i] = zk.ACL{Perms: zk.Perms(d.Int()), ID: zk.ID{Scheme: d.String(), ID: d.String()}}
	}
	if d.Err() != nil {
		return nil
	}
	return acl
}

// ACLs decodes vectors of ACLs that mostly repeat, as those of a multi's creates do: equal ones that
// follow each other become one slice, which its users must not change. Its zero value is ready for the first.
type ACLs struct {
	raw []byte // the last one, as it was read
	acl []zk.ACL
}

// Decode is DecodeACL.
func (l *ACLs) Decode(d *jute.Decoder) []zk.ACL {
	b := d.Rest()
	if len(l.raw) > 0 && bytes.HasPrefix(b, l.raw) { // its length is within it
		d.Fixed(len(l.raw))
		return l.acl
	}
	acl := DecodeACL(d)
	if l.raw = nil; d.Err() == nil {
		l.raw, l.acl = b[:len(b)-d.Len()], acl
	}
	return acl
}

// Readable reports whether the body of a single write holds its record: every field
// is there, whatever is in it. What is no such write is readable.
func Readable(op OpCode, body []byte) bool {
	d := jute.NewDecoder(body)
	skipWrite(&d, op)
	return d.Err() == nil
}

// skipWrite reads over the record of a single write.
func skipWrite(d *jute.Decoder, op OpCode) {
	switch op {
	case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL:
		_, _ = d.String(), d.Buffer()
		skipACL(d)
		d.Int()
		if op == OpCreateTTL {
			d.Long()
		}
	case OpDelete:
		_ = d.String()
		d.Int()
	case OpSetData:
		_, _ = d.String(), d.Buffer()
		d.Int()
	case OpSetACL:
		_ = d.String()
		skipACL(d)
		d.Int()
	case OpReconfig:
		var r ReconfigRequest
		r.Decode(d)
	}
}

// skipACL reads over what DecodeACL reads.
func skipACL(d *jute.Decoder) {
	for range d.Count(minACLBytes) {
		d.Int()
		_, _ = d.String(), d.String()
	}
}

// AppendACL writes a vector of ACLs; nil is written as null.
func AppendACL(b []byte, acl []zk.ACL) []byte {
	if acl == nil {
		return jute.AppendInt(b, -1)
	}
	b = jute.AppendInt(b, int32(len(acl)))
	for _, a := range acl {
		b = jute.AppendInt(b, int32(a.Perms))
		b = jute.AppendString(b, a.ID.Scheme)
		b = jute.AppendString(b, a.ID.ID)
	}
	return b
}

// ACLLen returns the length in bytes of what AppendACL appends.
func ACLLen(acl []zk.ACL) int {
	n := 4
	for i := range acl {
		n += 12 + len(acl[i].ID.Scheme) + len(acl[i].ID.ID)
	}
	return n
}

// StatLen is the encoded length of a Stat in bytes.
const StatLen = 68

// DecodeStat reads a Stat.
func DecodeStat(d *jute.Decoder) zk.Stat {
	b := d.Fixed(StatLen)
	if b == nil {
		return zk.Stat{}
	}
	long := func(at int) int64 { return int64(binary.BigEndian.Uint64(b[at:])) }
	int := func(at int) int32 { return int32(binary.BigEndian.Uint32(b[at:])) }
	return zk.Stat{
		Czxid: zk.Zxid(long(0)), Mzxid: zk.Zxid(long(8)), Ctime: long(16), Mtime: long(24),
		Version: int(32), Cversion: int(36), Aversion: int(40), EphemeralOwner: long(44),
		DataLength: int(52), NumChildren: int(56), Pzxid: zk.Zxid(long(60)),
	}
}

// AppendStat writes a Stat.
func AppendStat(b []byte, s *zk.Stat) []byte {
	b = jute.AppendLong(b, int64(s.Czxid))
	b = jute.AppendLong(b, int64(s.Mzxid))
	b = jute.AppendLong(b, s.Ctime)
	b = jute.AppendLong(b, s.Mtime)
	b = jute.AppendInt(b, s.Version)
	b = jute.AppendInt(b, s.Cversion)
	b = jute.AppendInt(b, s.Aversion)
	b = jute.AppendLong(b, s.EphemeralOwner)
	b = jute.AppendInt(b, s.DataLength)
	b = jute.AppendInt(b, s.NumChildren)
	return jute.AppendLong(b, int64(s.Pzxid))
}

// CreateRequest is the body of create, create2 and createContainer, and with
// TTL of createTTL.
type CreateRequest struct {
	Path  string
	Data  []byte // nil is null, which is not the same as empty
	ACL   []zk.ACL
	Flags zk.CreateMode
	TTL   int64 // milliseconds; -1 except in createTTL
}

// Decode reads the record as op has it: createTTL carries the TTL.
func (r *CreateRequest) Decode(d *jute.Decoder, op OpCode) { r.decode(d, op, new(ACLs)) }

// decode is Decode for one of many records.
func (r *CreateRequest) decode(d *jute.Decoder, op OpCode, acls *ACLs) {
	r.Path = d.Path()
	r.Data = d.Buffer()
	r.ACL = acls.Decode(d)
	r.Flags = zk.CreateMode(d.Int())
	r.TTL = -1
	if op == OpCreateTTL {
		r.TTL = d.Long()
	}
}

// Append writes the record as op has it.
func (r *CreateRequest) Append(b []byte, op OpCode) []byte {
	b = jute.AppendString(b, r.Path)
	b = jute.AppendBuffer(b, r.Data)
	b = AppendACL(b, r.ACL)
	b = jute.AppendInt(b, int32(r.Flags))
	if op == OpCreateTTL {
		b = jute.AppendLong(b, r.TTL)
	}
	return b
}

// PathVersion is the body of delete and check: a path and the version that it
// must have, -1 for any.
type PathVersion struct {
	Path    string
	Version int32
}

// Decode reads the record.
func (r *PathVersion) Decode(d *jute.Decoder) {
	r.Path = d.Path()
	r.Version = d.Int()
}

// Append writes the record.
func (r *PathVersion) Append(b []byte) []byte {
	return jute.AppendInt(jute.AppendString(b, r.Path), r.Version)
}

// PathWatch is the body of exists, getData, getChildren and getChildren2.
type PathWatch struct {
	Path  string
	Watch bool
}

// Decode reads the record.
func (r *PathWatch) Decode(d *jute.Decoder) {
	r.Path = d.Path()
	r.Watch = d.Bool()
}

// Append writes the record.
func (r *PathWatch) Append(b []byte) []byte {
	return jute.AppendBool(jute.AppendString(b, r.Path), r.Watch)
}

// PathInt is the body of addWatch (the mode), and of checkWatches and
// removeWatches (the watcher type).
type PathInt struct {
	Path  string
	Value int32
}

// Decode reads the record.
func (r *PathInt) Decode(d *jute.Decoder) {
	r.Path = d.String()
	r.Value = d.Int()
}

// Append writes the record.
func (r *PathInt) Append(b []byte) []byte {
	return jute.AppendInt(jute.AppendString(b, r.Path), r.Value)
}

// SetDataRequest is the body of setData.
type SetDataRequest struct {
	Path    string
	Data    []byte // nil is null
	Version int32  // -1 for any
}

// Decode reads the record.
func (r *SetDataRequest) Decode(d *jute.Decoder) {
	r.Path = d.String()
	r.Data = d.Buffer()
	r.Version = d.Int()
}

// Append writes the record.
func (r *SetDataRequest) Append(b []byte) []byte {
	b = jute.AppendString(b, r.Path)
	b = jute.AppendBuffer(b, r.Data)
	return jute.AppendInt(b, r.Version)
}

// SetACLRequest is the body of setACL.
type SetACLRequest struct {
	Path    string
	ACL     []zk.ACL
	Version int32 // of the ACL, -1 for any
}

// Decode reads the record.
func (r *SetACLRequest) Decode(d *jute.Decoder) {
	r.Path = d.String()
	r.ACL = DecodeACL(d)
	r.Version = d.Int()
}

// Append writes the record.
func (r *SetACLRequest) Append(b []byte) []byte {
	b = jute.AppendString(b, r.Path)
	b = AppendACL(b, r.ACL)
	return jute.AppendInt(b, r.Version)
}

// SetWatches is the body of setWatches, and with the last two lists of
// setWatches2: the watches that a client held when its last connection broke.
type SetWatches struct {
	RelativeZxid        zk.Zxid // the last that the client has seen
	Data                []string
	Exist               []string
	Child               []string
	Persistent          []string
	PersistentRecursive []string
}

// Decode reads the record as op has it. A null list or path is an error.
func (r *SetWatches) Decode(d *jute.Decoder, op OpCode) {
	r.RelativeZxid = zk.Zxid(d.Long())
	r.Data = decodePaths(d)
	r.Exist = decodePaths(d)
	r.Child = decodePaths(d)
	r.Persistent, r.PersistentRecursive = nil, nil
	if op == OpSetWatches2 {
		r.Persistent = decodePaths(d)
		r.PersistentRecursive = decodePaths(d)
	}
}

func decodePaths(d *jute.Decoder) []string {
	n, null := d.NullableCount(4)
	if null {
		d.Fail(jute.ErrNull)
	}
	paths := make([]string, n)
	for i := range paths {
		paths[i] = d.Path()
	}
	return paths
}

// Append writes the record as op has it.
func (r *SetWatches) Append(b []byte, op OpCode) []byte {
	b = jute.AppendLong(b, int64(r.RelativeZxid))
	b = jute.AppendStrings(b, r.Data)
	b = jute.AppendStrings(b, r.Exist)
	b = jute.AppendStrings(b, r.Child)
	if op == OpSetWatches2 {
		b = jute.AppendStrings(b, r.Persistent)
		b = jute.AppendStrings(b, r.PersistentRecursive)
	}
	return b
}

// ReconfigRequest is the body of reconfig. NewMembers is nil if the change is incremental:
// an empty text is a configuration without members. The empty text of the other two is
// written as null.
type ReconfigRequest struct {
	JoiningServers string
	LeavingServers string
	NewMembers     *string
	CurConfigID    int64
}

// Decode reads the record.
func (r *ReconfigRequest) Decode(d *jute.Decoder) {
	r.JoiningServers = d.String()
	r.LeavingServers = d.String()
	r.NewMembers = nil
	if b := d.Buffer(); b != nil {
		text := string(b)
		r.NewMembers = &text
	}
	r.CurConfigID = d.Long()
}

// Append writes the record.
func (r *ReconfigRequest) Append(b []byte) []byte {
	for _, text := range []string{r.JoiningServers, r.LeavingServers} {
		if text == "" {
			b = jute.AppendInt(b, -1)
		} else {
			b = jute.AppendString(b, text)
		}
	}
	if r.NewMembers == nil {
		b = jute.AppendInt(b, -1)
	} else {
		b = jute.AppendString(b, *r.NewMembers)
	}
	return jute.AppendLong(b, r.CurConfigID)
}
