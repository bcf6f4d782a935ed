// Package txn holds the transactions: the idempotent changes that the leader
// makes of requests, that Zab replicates and that the log stores (protocol page,
// sections 2, 7 and 11.4).
//
// A transaction's encoding is TxnHeader, record, and unless it is an error the
// digest of the tree after it:
//
//	+----------+------+------+------+------+ +--------+ +---------+------------+
//	| clientId | cxid | zxid | time | type | | record | | version | treeDigest |
//	|    8     |  4   |  8   |  8   |  4   | |  ...   | |    4    |     8      |
//	+----------+------+------+------+------+ +--------+ +---------+------------+
//
// A server stores and forwards the bytes that it received, never a second
// encoding of them.
package txn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// Header identifies a transaction and the request that it came from.
type Header struct {
	Session zk.SessionID // whose request it was; 0 for the server's own
	Cxid    int32        // the xid of that request
	Zxid    zk.Zxid
	Time    int64 // milliseconds since 1970 by the leader's clock
	Type    wire.OpCode
}

// Encoded lengths in bytes.
const (
	HeaderLen = 32 // of a Header
	DigestLen = 12 // of the digest: its version and its value
	MultiLen  = 4  // of a multi's count of operations
	SubLen    = 8  // of what precedes the record of each operation of a multi
)

// DigestVersion is the only version of the tree digest that is written.
const DigestVersion = 2

// Op is one change. It is flat, so that a batch of transactions is one
// allocation; which fields count depends on Type:
//
//	OpCreate, OpCreate2, OpCreateContainer   Path Data ACL Ephemeral ParentCversion
//	OpCreateTTL                              the same, and TTL
//	OpDelete, OpDeleteContainer              Path
//	OpSetData, OpReconfig                    Path Data Version (the new one)
//	OpSetACL                                 Path ACL Version (the new one)
//	OpCheck                                  Path Version; only inside a multi, no change
//	OpCreateSession                          TimeoutMillis
//	OpCloseSession                           Paths, if PathsListed
//	OpError                                  Err
type Op struct {
	Type           wire.OpCode
	Path           string
	Data           []byte // nil is null
	ACL            []zk.ACL
	Ephemeral      bool  // of the header's session
	ParentCversion int32 // the parent's counter of creates after this one; -1: count up
	TTL            int64 // milliseconds
	Version        int32
	TimeoutMillis  int32
	Err            zk.Code
	Paths          []string // the ephemerals that the session's end deletes
	PathsListed    bool     // false before 3.6: delete what the tree knows of the session

	// Sum is the sum of Path and Data for the digest (znode.Sum), if HasSum is set. The server that
	// has prepared the transaction knows it; it is not encoded.
	HasSum bool
	Sum    uint32
}

// Txn is a transaction. Its strings and slices alias the bytes it was decoded
// from.
type Txn struct {
	Header
	Op               // the change, unless Type is OpMulti
	Multi     []Op   // the changes of a multi, applied together or, if one is an error, not at all
	Digest    uint64 // of the tree after this transaction
	HasDigest bool
}

// ErrInvalid is returned for a type or record that is no transaction.
var ErrInvalid = errors.New("txn: not a transaction")

// Failed reports whether applying t changes nothing because preparing failed:
// an error, or a multi with an error among its operations.
func (t *Txn) Failed() bool {
	if t.Header.Type == wire.OpError {
		return true
	}
	for i := range t.Multi {
		if t.Multi[i].Type == wire.OpError {
			return true
		}
	}
	return false
}

// Append writes the header.
func (h *Header) Append(b []byte) []byte {
	b = jute.AppendLong(b, int64(h.Session))
	b = jute.AppendInt(b, h.Cxid)
	b = jute.AppendLong(b, int64(h.Zxid))
	b = jute.AppendLong(b, h.Time)
	return jute.AppendInt(b, int32(h.Type))
}

// Decode reads the header.
func (h *Header) Decode(d *jute.Decoder) {
	h.Session = zk.SessionID(d.Long())
	h.Cxid = d.Int()
	h.Zxid = zk.Zxid(d.Long())
	h.Time = d.Long()
	h.Type = wire.OpCode(d.Int())
}

// Append writes header, record and, if HasDigest, the digest.
func (t *Txn) Append(b []byte) []byte {
	b = t.Header.Append(b)
	if t.Header.Type == wire.OpMulti {
		b = appendMulti(b, t.Multi)
	} else {
		b = t.Op.AppendRecord(b)
	}
	if t.HasDigest {
		b = jute.AppendInt(b, DigestVersion)
		b = jute.AppendLong(b, int64(t.Digest))
	}
	return b
}

func appendMulti(b []byte, ops []Op) []byte {
	b = jute.AppendInt(b, int32(len(ops)))
	for i := range ops {
		b = jute.AppendInt(b, int32(ops[i].Type))
		at := len(b)
		b = jute.AppendInt(b, 0)
		b = ops[i].AppendRecord(b)
		jute.PutInt(b[at:], int32(len(b)-at-4))
	}
	return b
}

// Len returns the length in bytes of what Append appends.
func (t *Txn) Len() int {
	n := HeaderLen
	if t.Header.Type == wire.OpMulti {
		n += MultiLen
		for i := range t.Multi {
			n += SubLen + t.Multi[i].RecordLen()
		}
	} else {
		n += t.Op.RecordLen()
	}
	if t.HasDigest {
		n += DigestLen
	}
	return n
}

// DecodedBytes returns the memory that an encoded transaction takes once it is decoded, in
// addition to the encoding, which it aliases. It reads only the header and the count of
// operations, or of paths, and does not count the entries of ACLs.
func DecodedBytes(b []byte) int64 {
	n := int64(unsafe.Sizeof(Txn{}))
	d := jute.NewDecoder(b)
	var h Header
	h.Decode(&d)
	count := min(int64(d.Int()), int64(len(b)/4)) // no element is shorter
	switch {
	case d.Err() != nil || count < 0:
	case h.Type == wire.OpMulti:
		n += count * int64(unsafe.Sizeof(Op{}))
	case h.Type == wire.OpCloseSession:
		n += count * int64(unsafe.Sizeof(""))
	}
	return n
}

// RecordLen returns the length in bytes of the record of o. It panics for a type
// that has no record, as Txn.Append does.
func (o *Op) RecordLen() int {
	const str, num, long, flag = 4, 4, 8, 1 // the length of a string or buffer; an int, a long, a bool
	switch o.Type {
	case wire.OpCreate, wire.OpCreate2:
		return o.createLen() + flag + num
	case wire.OpCreateContainer:
		return o.createLen() + num
	case wire.OpCreateTTL:
		return o.createLen() + num + long
	case wire.OpDelete, wire.OpDeleteContainer:
		return str + len(o.Path)
	case wire.OpSetData, wire.OpReconfig:
		return str + len(o.Path) + str + len(o.Data) + num
	case wire.OpSetACL:
		return str + len(o.Path) + wire.ACLLen(o.ACL) + num
	case wire.OpCheck:
		return str + len(o.Path) + num
	case wire.OpCreateSession, wire.OpError:
		return num
	case wire.OpCloseSession:
		if !o.PathsListed {
			return 0
		}
		n := num
		for _, path := range o.Paths {
			n += str + len(path)
		}
		return n
	}
	panic(fmt.Sprintf("txn: no record for type %d", int32(o.Type)))
}

// createLen is the length of what appendCreate appends.
func (o *Op) createLen() int { return 4 + len(o.Path) + 4 + len(o.Data) + wire.ACLLen(o.ACL) }

// AppendRecord writes the record of o, without its type.
func (o *Op) AppendRecord(b []byte) []byte {
	switch o.Type {
	case wire.OpCreate, wire.OpCreate2:
		b = o.appendCreate(b)
		b = jute.AppendBool(b, o.Ephemeral)
		return jute.AppendInt(b, o.ParentCversion)
	case wire.OpCreateContainer:
		return jute.AppendInt(o.appendCreate(b), o.ParentCversion)
	case wire.OpCreateTTL:
		return jute.AppendLong(jute.AppendInt(o.appendCreate(b), o.ParentCversion), o.TTL)
	case wire.OpDelete, wire.OpDeleteContainer:
		return jute.AppendString(b, o.Path)
	case wire.OpSetData, wire.OpReconfig:
		b = jute.AppendString(b, o.Path)
		b = jute.AppendBuffer(b, o.Data)
		return jute.AppendInt(b, o.Version)
	case wire.OpSetACL:
		b = jute.AppendString(b, o.Path)
		b = wire.AppendACL(b, o.ACL)
		return jute.AppendInt(b, o.Version)
	case wire.OpCheck:
		return jute.AppendInt(jute.AppendString(b, o.Path), o.Version)
	case wire.OpCreateSession:
		return jute.AppendInt(b, o.TimeoutMillis)
	case wire.OpCloseSession:
		if !o.PathsListed {
			return b
		}
		if o.Paths == nil {
			return jute.AppendInt(b, 0)
		}
		return jute.AppendStrings(b, o.Paths)
	case wire.OpError:
		return jute.AppendInt(b, int32(o.Err))
	}
	panic(fmt.Sprintf("txn: no record for type %d", int32(o.Type)))
}

func (o *Op) appendCreate(b []byte) []byte {
	b = jute.AppendString(b, o.Path)
	b = jute.AppendBuffer(b, o.Data)
	return wire.AppendACL(b, o.ACL)
}

// IsReconfig reports whether an encoded transaction is of type OpReconfig.
func IsReconfig(b []byte) bool {
	return len(b) >= HeaderLen && binary.BigEndian.Uint32(b[HeaderLen-4:]) == uint32(wire.OpReconfig)
}

// Decode reads a transaction from its whole encoding. It returns ErrInvalid, wrapped
// with the reason, for anything else.
func Decode(b []byte) (Txn, error) { return DecodeIn(b, makeOps) }

func makeOps(n int) []Op { return make([]Op, 0, n) }

// DecodeIn is Decode, with room for the operations of a multi from the caller: room returns an
// empty slice, of zero values, with a capacity of at least n.
func DecodeIn(b []byte, room func(n int) []Op) (Txn, error) {
	var t Txn
	d := jute.NewDecoder(b)
	t.Header.Decode(&d)
	if t.Header.Type == wire.OpMulti {
		t.Op.Type = wire.OpMulti
		t.Multi = decodeMulti(&d, room)
	} else {
		t.Op.decode(&d, t.Header.Type, new(wire.ACLs))
	}
	if t.Header.Type != wire.OpError && d.Err() == nil && d.Len() >= 12 {
		t.HasDigest = d.Int() == DigestVersion
		t.Digest = uint64(d.Long())
	}
	if err := d.Err(); err != nil {
		return Txn{}, fmt.Errorf("%w: zxid %v type %d: %w", ErrInvalid, t.Zxid, int32(t.Header.Type), err)
	}
	return t, nil
}

// minSubBytes is the least that one operation of a multi takes: type and an
// empty buffer.
const minSubBytes = 8

func decodeMulti(d *jute.Decoder, room func(n int) []Op) []Op {
	n := d.Count(minSubBytes)
	if d.Err() != nil {
		return nil
	}
	ops, acls := room(n)[:n], wire.ACLs{}
	for i := range ops {
		kind := wire.OpCode(d.Int())
		sub := jute.NewDecoder(d.Buffer())
		ops[i].decode(&sub, kind, &acls)
		if err := sub.Err(); err != nil {
			d.Fail(err)
			return nil
		}
	}
	return ops
}

// decode reads the record of a change of the given type. Its ACL may be that of another operation that acls has
// decoded.
func (o *Op) decode(d *jute.Decoder, kind wire.OpCode, acls *wire.ACLs) {
	o.Type = kind
	switch kind {
	case wire.OpCreate, wire.OpCreate2:
		o.decodeCreate(d, acls)
		o.Ephemeral = d.Bool()
		o.ParentCversion = -1 // CreateTxnV0, before 3.4, ends here
		if d.Err() == nil && d.Len() > 0 {
			o.ParentCversion = d.Int()
		}
	case wire.OpCreateContainer:
		o.decodeCreate(d, acls)
		o.ParentCversion = d.Int()
	case wire.OpCreateTTL:
		o.decodeCreate(d, acls)
		o.ParentCversion = d.Int()
		o.TTL = d.Long()
	case wire.OpDelete, wire.OpDeleteContainer:
		o.Path = d.String()
	case wire.OpSetData, wire.OpReconfig:
		o.Path, o.Data, o.Version = d.String(), d.Buffer(), d.Int()
	case wire.OpSetACL:
		o.Path = d.String()
		o.ACL = acls.Decode(d)
		o.Version = d.Int()
	case wire.OpCheck:
		o.Path, o.Version = d.String(), d.Int()
	case wire.OpCreateSession:
		o.TimeoutMillis = d.Int()
	case wire.OpCloseSession:
		o.decodeCloseSession(d)
	case wire.OpError:
		o.Err = zk.Code(d.Int())
	default:
		d.Fail(fmt.Errorf("unknown type %d", int32(kind)))
	}
}

func (o *Op) decodeCreate(d *jute.Decoder, acls *wire.ACLs) {
	o.Path = d.String()
	o.Data = d.Buffer()
	o.ACL = acls.Decode(d)
}

// decodeCloseSession reads the list of paths, which servers before 3.6, and
// later ones with closeSessionTxn.enabled=false, do not write. What follows the
// header is then nothing or a digest, and a digest never reads as a list: its
// first path would not begin with a slash.
func (o *Op) decodeCloseSession(d *jute.Decoder) {
	if d.Err() != nil || d.Len() == 0 {
		return
	}
	try := jute.NewDecoder(d.Rest())
	paths := try.Strings()
	if try.Err() != nil || len(paths) > 0 && (paths[0] == "" || paths[0][0] != '/') {
		return
	}
	o.Paths, o.PathsListed = paths, true
	*d = try
}
