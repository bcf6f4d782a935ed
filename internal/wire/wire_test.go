package wire

import (
	"fmt"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/zk"
)

// A record is what the tests know of any record: how to read and write it.
type record struct {
	value  any // what Decode fills in
	decode func(d *jute.Decoder)
	append func(b []byte) []byte
}

// plain is a record whose encoding is the same for every operation.
func plain[R interface {
	Decode(*jute.Decoder)
	Append([]byte) []byte
}](r R) record {
	return record{r, r.Decode, r.Append}
}

// A pathOnly is the body of the requests that are a path and nothing else.
type pathOnly struct{ Path string }

func (r *pathOnly) Decode(d *jute.Decoder) { r.Path = d.String() }
func (r *pathOnly) Append(b []byte) []byte { return jute.AppendString(b, r.Path) }
func (r *nothing) Decode(*jute.Decoder)    {}
func (r *nothing) Append(b []byte) []byte  { return b }

func (r *multiBody) Decode(d *jute.Decoder) {
	rest := d.Rest()
	n := CountMulti(rest, len(rest))
	if r.Ops = DecodeMulti(d, r.op, nil); n < len(r.Ops) || n > len(r.Ops) && d.Err() == nil {
		panic(fmt.Sprintf("CountMulti counts %d of %d operations", n, len(r.Ops)))
	}
	if most := n / 2; CountMulti(rest, most) != most {
		panic(fmt.Sprintf("CountMulti counts more than %d", most))
	}
}
func (r *setWatchesBody) Decode(d *jute.Decoder) { r.SetWatches.Decode(d, r.op) }
func (r *createBody) Decode(d *jute.Decoder)     { r.CreateRequest.Decode(d, r.op) }

type nothing struct{}

type multiBody struct {
	op  OpCode
	Ops []MultiOp
}

func (r *multiBody) Append(b []byte) []byte {
	for i := range r.Ops {
		b = r.Ops[i].Append(b)
	}
	return AppendMultiEnd(b)
}

type setWatchesBody struct {
	op OpCode
	SetWatches
}

func (r *setWatchesBody) Append(b []byte) []byte { return r.SetWatches.Append(b, r.op) }

type createBody struct {
	op OpCode
	CreateRequest
}

func (r *createBody) Append(b []byte) []byte { return r.CreateRequest.Append(b, r.op) }

// requestOf returns the body of a request.
func requestOf(op OpCode) record {
	switch op {
	case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL:
		return plain(&createBody{op: op})
	case OpDelete, OpCheck:
		return plain(&PathVersion{})
	case OpExists, OpGetData, OpGetChildren, OpGetChildren2:
		return plain(&PathWatch{})
	case OpSetData:
		return plain(&SetDataRequest{})
	case OpSetACL:
		return plain(&SetACLRequest{})
	case OpMulti, OpMultiRead:
		return plain(&multiBody{op: op})
	case OpReconfig:
		return plain(&ReconfigRequest{})
	case OpAddWatch, OpCheckWatches, OpRemoveWatches:
		return plain(&PathInt{})
	case OpSetWatches, OpSetWatches2:
		return plain(&setWatchesBody{op: op})
	case OpAuth:
		return plain(&AuthPacket{})
	case OpGetACL, OpSync, OpGetEphemerals, OpGetAllChildrenNumber, OpDeleteContainer:
		return plain(&pathOnly{})
	}
	return plain(&nothing{})
}

// bodies lists the operations whose requests have a body.
func bodies() []OpCode {
	return []OpCode{OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL, OpDelete, OpCheck, OpExists, OpGetData,
		OpGetChildren, OpGetChildren2, OpSetData, OpSetACL, OpMulti, OpMultiRead, OpReconfig, OpAddWatch,
		OpCheckWatches, OpRemoveWatches, OpSetWatches, OpSetWatches2, OpAuth, OpGetACL, OpSync, OpGetEphemerals,
		OpGetAllChildrenNumber}
}

// A result is the body of a reply; which fields count depends on the operation.
type result struct {
	op       OpCode
	Path     string
	Data     []byte
	Children []string
	ACL      []zk.ACL
	Number   int32
	IDs      []zk.ID
	Stat     zk.Stat
	Results  []result
	Err      zk.Code
}

// parts says which fields a result has, in the order of the wire.
func (r *result) parts() string {
	switch r.op {
	case OpCreate, OpSync:
		return "path"
	case OpCreate2, OpCreateContainer, OpCreateTTL:
		return "path stat"
	case OpExists, OpSetData, OpSetACL:
		return "stat"
	case OpGetData, OpReconfig:
		return "data stat"
	case OpGetChildren, OpGetEphemerals:
		return "children"
	case OpGetChildren2:
		return "children stat"
	case OpGetACL:
		return "acl stat"
	case OpGetAllChildrenNumber:
		return "number"
	case OpWhoAmI:
		return "ids"
	case OpMulti, OpMultiRead:
		return "results"
	case OpError, OpAddWatch:
		return "err"
	}
	return ""
}

func (r *result) Decode(d *jute.Decoder) {
	for _, part := range strings.Fields(r.parts()) {
		switch part {
		case "path":
			r.Path = d.String()
		case "data":
			r.Data = d.Buffer()
		case "children":
			r.Children = d.Strings()
		case "acl":
			r.ACL = DecodeACL(d)
		case "number":
			r.Number = d.Int()
		case "stat":
			r.Stat = DecodeStat(d)
		case "err":
			r.Err = zk.Code(d.Int())
		case "ids":
			for range d.Count(8) {
				r.IDs = append(r.IDs, zk.ID{Scheme: d.String(), ID: d.String()})
			}
		case "results":
			r.decodeResults(d)
		}
	}
}

func (r *result) decodeResults(d *jute.Decoder) {
	for d.Err() == nil {
		var h MultiHeader
		h.Decode(d)
		if h.Done {
			return
		}
		sub := result{op: h.Type}
		sub.Decode(d)
		if h.Err != sub.Err {
			d.Fail(fmt.Errorf("header has code %d, body %d", h.Err, sub.Err))
		}
		r.Results = append(r.Results, sub)
	}
}

func (r *result) Append(b []byte) []byte {
	for _, part := range strings.Fields(r.parts()) {
		switch part {
		case "path":
			b = jute.AppendString(b, r.Path)
		case "data":
			b = jute.AppendBuffer(b, r.Data)
		case "children":
			b = jute.AppendStrings(b, r.Children)
		case "acl":
			b = AppendACL(b, r.ACL)
		case "number":
			b = jute.AppendInt(b, r.Number)
		case "stat":
			b = AppendStat(b, &r.Stat)
		case "err":
			b = jute.AppendInt(b, int32(r.Err))
		case "ids":
			b = jute.AppendInt(b, int32(len(r.IDs)))
			for _, id := range r.IDs {
				b = jute.AppendString(jute.AppendString(b, id.Scheme), id.ID)
			}
		case "results":
			for i := range r.Results {
				b = r.Results[i].appendResult(b)
			}
			b = AppendMultiEnd(b)
		}
	}
	return b
}

func (r *result) appendResult(b []byte) []byte {
	if r.op == OpError {
		return AppendMultiError(b, r.Err)
	}
	return r.Append(MultiHeader{Type: r.op}.Append(b))
}

// describe prints the parts that count.
func (r *result) describe() string {
	var b strings.Builder
	for _, part := range strings.Fields(r.parts()) {
		switch part {
		case "path":
			fmt.Fprintf(&b, " %q", r.Path)
		case "data":
			fmt.Fprintf(&b, " %s", describeData(r.Data))
		case "children":
			fmt.Fprintf(&b, " %q", r.Children)
		case "acl":
			fmt.Fprintf(&b, " %v", r.ACL)
		case "number":
			fmt.Fprintf(&b, " %d", r.Number)
		case "stat":
			fmt.Fprintf(&b, " %+v", r.Stat)
		case "err":
			fmt.Fprintf(&b, " %d", int32(r.Err))
		case "ids":
			fmt.Fprintf(&b, " %v", r.IDs)
		case "results":
			for i := range r.Results {
				fmt.Fprintf(&b, " [%v%s]", r.Results[i].op, r.Results[i].describe())
			}
		}
	}
	return b.String()
}

// describeData tells null from empty.
func describeData(data []byte) string {
	if data == nil {
		return "null"
	}
	return fmt.Sprintf("%q", data)
}

// describe prints a request.
func describe(op OpCode, value any) string {
	switch r := value.(type) {
	case *createBody:
		return fmt.Sprintf("%q %s %v flags %d ttl %d", r.Path, describeData(r.Data), r.ACL, r.Flags, r.TTL)
	case *multiBody:
		var b strings.Builder
		for i := range r.Ops {
			m := &r.Ops[i]
			fmt.Fprintf(&b, "[%v %q %s %v flags %d version %d] ", m.Type, m.Path, describeData(m.Data), m.ACL, m.Flags, m.Version)
		}
		return b.String()
	case *setWatchesBody:
		return fmt.Sprintf("after %v data %q exist %q child %q persistent %q recursive %q", r.RelativeZxid,
			r.Data, r.Exist, r.Child, r.Persistent, r.PersistentRecursive)
	case *SetDataRequest:
		return fmt.Sprintf("%q %s version %d", r.Path, describeData(r.Data), r.Version)
	case *AuthPacket:
		return fmt.Sprintf("%d %q %q", r.Type, r.Scheme, r.Auth)
	}
	return fmt.Sprintf("%+v", value)
}
