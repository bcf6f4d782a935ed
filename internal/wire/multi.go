package wire

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/zk"
)

// MultiHeader precedes every operation of a multi and every result; a last one
// with Done ends the list.
type MultiHeader struct {
	Type OpCode
	Done bool
	Err  zk.Code
}

// MultiHeaderLen is the encoded length of a MultiHeader in bytes.
const MultiHeaderLen = 9

// multiEnd closes a list of operations or results.
var multiEnd = MultiHeader{Type: OpError, Done: true, Err: -1}

// Decode reads the record.
func (h *MultiHeader) Decode(d *jute.Decoder) {
	h.Type = OpCode(d.Int())
	h.Done = d.Bool()
	h.Err = zk.Code(d.Int())
}

// Append writes the record.
func (h MultiHeader) Append(b []byte) []byte {
	b = jute.AppendInt(b, int32(h.Type))
	b = jute.AppendBool(b, h.Done)
	return jute.AppendInt(b, int32(h.Err))
}

// AppendMultiEnd writes the header that ends a multi's operations or results.
func AppendMultiEnd(b []byte) []byte { return multiEnd.Append(b) }

// MultiOp is one operation of a multi or multiRead. Type says which of the
// fields count: a create kind has all of CreateRequest; setData Path, Data and
// Version; delete and check Path and Version; getData and getChildren Path.
type MultiOp struct {
	Type OpCode
	CreateRequest
	Version int32
}

// ErrMultiOp is an error of MultiOp.Next. The server answers it with ErrMarshalling.
var ErrMultiOp = errors.New("wire: operation not allowed in a multi")

// CountMulti returns the number of operations of a multi or multiRead, and most if there are more: as many as
// DecodeMulti returns, or a few more if the body cannot be decoded. It allocates nothing.
func CountMulti(body []byte, most int) (n int) {
	for d := jute.NewDecoder(body); n < most; n++ {
		var h MultiHeader
		if h.Decode(&d); d.Err() != nil || h.Done {
			break
		}
		switch h.Type {
		case OpCheck:
			skipWrite(&d, OpDelete) // the same record
		case OpGetData, OpGetChildren:
			_ = d.String()
			d.Bool()
		default:
			skipWrite(&d, h.Type)
		}
	}
	return n
}

// DecodeMulti appends the operations of a multi (op OpMulti) or multiRead
// (OpMultiRead) to ops. Its errors are those of Next.
func DecodeMulti(d *jute.Decoder, op OpCode, ops []MultiOp) []MultiOp {
	ops = slices.Grow(ops, CountMulti(d.Rest(), math.MaxInt))
	for acls := new(ACLs); ; {
		var m MultiOp
		if !m.Next(d, op, acls) {
			return ops
		}
		ops = append(ops, m)
	}
}

// Next decodes the next operation of a multi (op OpMulti) or multiRead (OpMultiRead) into m. It returns false after the
// last one and after an error of d, which is ErrMultiOp for an operation that has no place in that kind of multi.
// acls is for all operations of the multi.
func (m *MultiOp) Next(d *jute.Decoder, op OpCode, acls *ACLs) bool {
	var h MultiHeader
	h.Decode(d)
	if d.Err() != nil || h.Done {
		return false
	}
	if isRead := h.Type == OpGetData || h.Type == OpGetChildren; isRead != (op == OpMultiRead) {
		d.Fail(fmt.Errorf("%w: %v in %v", ErrMultiOp, h.Type, op))
		return false
	}
	*m = MultiOp{}
	m.decode(d, h.Type, acls)
	return d.Err() == nil
}

func (m *MultiOp) decode(d *jute.Decoder, op OpCode, acls *ACLs) {
	m.Type = op
	switch op {
	case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL:
		m.CreateRequest.decode(d, op, acls)
	case OpSetData:
		m.Path, m.Data, m.Version = d.Path(), d.Buffer(), d.Int()
	case OpDelete, OpCheck:
		m.Path, m.Version = d.Path(), d.Int()
	case OpGetData, OpGetChildren:
		m.Path = d.String()
		d.Bool() // the watch flag has no effect here
	default:
		d.Fail(fmt.Errorf("%w: %v", ErrMultiOp, op))
	}
}

// Append writes the operation with its header.
func (m *MultiOp) Append(b []byte) []byte {
	b = MultiHeader{Type: m.Type, Err: -1}.Append(b)
	switch m.Type {
	case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL:
		return m.CreateRequest.Append(b, m.Type)
	case OpSetData:
		r := SetDataRequest{m.Path, m.Data, m.Version}
		return r.Append(b)
	case OpDelete, OpCheck:
		r := PathVersion{m.Path, m.Version}
		return r.Append(b)
	default:
		r := PathWatch{Path: m.Path}
		return r.Append(b)
	}
}

// AppendMultiError writes the result of an operation of a failed multi.
func AppendMultiError(b []byte, code zk.Code) []byte {
	b = MultiHeader{Type: OpError, Err: code}.Append(b)
	return jute.AppendInt(b, int32(code))
}
