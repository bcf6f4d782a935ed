package wire

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/zk"
)

// equal compares records with all their fields, null and empty apart.
var equal = cmp.Exporter(func(reflect.Type) bool { return true })

func text(r *rand.Rand) string {
	b := make([]byte, r.IntN(12))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return string(b)
}

func data(r *rand.Rand) []byte {
	if r.IntN(4) == 0 {
		return nil
	}
	return []byte(text(r))
}

func texts(r *rand.Rand) []string {
	v := make([]string, r.IntN(4))
	for i := range v {
		v[i] = text(r)
	}
	return v
}

func acl(r *rand.Rand) []zk.ACL {
	if r.IntN(4) == 0 {
		return nil
	}
	v := make([]zk.ACL, r.IntN(4))
	for i := range v {
		v[i] = zk.ACL{Perms: zk.Perms(r.Uint32()), ID: zk.ID{Scheme: text(r), ID: text(r)}}
	}
	return v
}

// fill makes a random record of every field that the operation has.
func fill(r *rand.Rand, op OpCode) record {
	rec := requestOf(op)
	switch v := rec.value.(type) {
	case *createBody:
		v.Path, v.Data, v.ACL, v.Flags, v.TTL = text(r), data(r), acl(r), zk.CreateMode(r.Uint32()), -1
		if op == OpCreateTTL {
			v.TTL = int64(r.Uint64())
		}
	case *PathVersion:
		*v = PathVersion{text(r), int32(r.Uint32())}
	case *PathWatch:
		*v = PathWatch{text(r), r.IntN(2) == 0}
	case *PathInt:
		*v = PathInt{text(r), int32(r.Uint32())}
	case *pathOnly:
		v.Path = text(r)
	case *SetDataRequest:
		*v = SetDataRequest{text(r), data(r), int32(r.Uint32())}
	case *SetACLRequest:
		*v = SetACLRequest{text(r), acl(r), int32(r.Uint32())}
	case *ReconfigRequest:
		*v = ReconfigRequest{text(r), text(r), nil, int64(r.Uint64())}
		if r.IntN(2) == 0 {
			members := text(r)
			v.NewMembers = &members
		}
	case *AuthPacket:
		*v = AuthPacket{int32(r.Uint32()), text(r), data(r)}
	case *setWatchesBody:
		v.SetWatches = SetWatches{RelativeZxid: zk.Zxid(r.Uint64()), Data: texts(r), Exist: texts(r), Child: texts(r)}
		if op == OpSetWatches2 {
			v.Persistent, v.PersistentRecursive = texts(r), texts(r)
		}
	case *multiBody:
		for range r.IntN(5) {
			v.Ops = append(v.Ops, multiOp(r, op))
		}
	default:
		panic(fmt.Sprintf("no fill for %T", v))
	}
	return rec
}

func multiOp(r *rand.Rand, op OpCode) MultiOp {
	kinds := []OpCode{OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL, OpSetData, OpDelete, OpCheck}
	if op == OpMultiRead {
		kinds = []OpCode{OpGetData, OpGetChildren}
	}
	m := MultiOp{Type: kinds[r.IntN(len(kinds))]}
	m.Path = text(r)
	switch m.Type {
	case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL:
		m.Data, m.ACL, m.Flags, m.TTL = data(r), acl(r), zk.CreateMode(r.Uint32()), -1
		if m.Type == OpCreateTTL {
			m.TTL = int64(r.Uint64())
		}
	case OpSetData:
		m.Data, m.Version = data(r), int32(r.Uint32())
	case OpDelete, OpCheck:
		m.Version = int32(r.Uint32())
	}
	return m
}

// Random records of every kind come back as they were, from exactly their bytes.
func TestRoundTrip(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed=%d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for _, op := range bodies() {
		for range 300 {
			want := fill(r, op)
			b := want.append([]byte("before"))[len("before"):]
			d := jute.NewDecoder(b)
			got := requestOf(op)
			got.decode(&d)
			if d.Err() != nil || d.Len() != 0 {
				t.Fatalf("%v %+v: error %v, %d bytes left", op, want.value, d.Err(), d.Len())
			}
			if diff := cmp.Diff(want.value, got.value, equal); diff != "" {
				t.Fatalf("%v (-want +got):\n%s", op, diff)
			}
			cutAnywhere(t, op, b)
		}
	}
}

// cutAnywhere expects an error of every true prefix of a body.
func cutAnywhere(t *testing.T, op OpCode, b []byte) {
	t.Helper()
	for n := range b {
		d := jute.NewDecoder(b[:n])
		requestOf(op).decode(&d)
		if d.Err() == nil {
			t.Fatalf("%v: the first %d bytes of %x are a body of their own", op, n, b)
		}
	}
}

func TestHeadersRoundTrip(t *testing.T) {
	stat := &result{op: OpExists, Stat: zk.Stat{Czxid: 1, Mzxid: 2, Ctime: 3, Mtime: 4, Version: 5, Cversion: 6, Aversion: 7,
		EphemeralOwner: -8, DataLength: 9, NumChildren: 10, Pzxid: 11}}
	header, reply, multi := RequestHeader{-2, OpPing}, ReplyHeader{7, -8, zk.ErrNoNode}, MultiHeader{OpCreate, true, -5}
	tests := []struct {
		name  string
		bytes []byte
		len   int
		again func(d *jute.Decoder) []byte
	}{
		{"Stat", stat.Append(nil), StatLen, func(d *jute.Decoder) []byte { s := DecodeStat(d); return AppendStat(nil, &s) }},
		{"RequestHeader", header.Append(nil), 8, func(d *jute.Decoder) []byte { var h RequestHeader; h.Decode(d); return h.Append(nil) }},
		{"ReplyHeader", reply.Append(nil), ReplyHeaderLen, func(d *jute.Decoder) []byte { var h ReplyHeader; h.Decode(d); return h.Append(nil) }},
		{"MultiHeader", multi.Append(nil), 9, func(d *jute.Decoder) []byte { var h MultiHeader; h.Decode(d); return h.Append(nil) }},
	}
	for _, tt := range tests {
		d := jute.NewDecoder(tt.bytes)
		if again := tt.again(&d); !bytes.Equal(again, tt.bytes) || len(tt.bytes) != tt.len || d.Len() != 0 || d.Err() != nil {
			t.Errorf("%s: %x of %d bytes, again %x, %d left, error %v", tt.name, tt.bytes, tt.len, again, d.Len(), d.Err())
		}
	}
}

// Protocol page, section 3.2: clients before 3.4 send no readOnly byte.
func TestConnectWithoutReadOnly(t *testing.T) {
	with := ConnectRequest{TimeoutMillis: 30000, Password: make([]byte, PasswordLen), HasReadOnly: true}
	without := with
	without.HasReadOnly = false
	if a, b := with.Append(nil), without.Append(nil); len(a) != 45 || !bytes.Equal(a[:44], b) || a[44] != 0 {
		t.Errorf("with %x, without %x", a, b)
	}
	for _, want := range []ConnectRequest{with, without} {
		var got ConnectRequest
		d := jute.NewDecoder(want.Append(nil))
		got.Decode(&d)
		if diff := cmp.Diff(want, got); diff != "" || d.Err() != nil {
			t.Errorf("error %v, -want +got:\n%s", d.Err(), diff)
		}
	}
	answer := ConnectResponse{TimeoutMillis: 1, SessionID: 2, Password: make([]byte, PasswordLen), ReadOnly: true, HasReadOnly: true}
	short := answer
	short.ReadOnly, short.HasReadOnly = false, false
	for _, tt := range []struct {
		r   ConnectResponse
		len int
	}{{answer, 37}, {short, 36}} {
		b := tt.r.Append(nil)
		var got ConnectResponse
		d := jute.NewDecoder(b)
		got.Decode(&d)
		if diff := cmp.Diff(tt.r, got); diff != "" || len(b) != tt.len {
			t.Errorf("%d bytes, want %d; -want +got:\n%s", len(b), tt.len, diff)
		}
	}
}

func TestMultiRefuses(t *testing.T) {
	op := func(kind OpCode) MultiOp { return MultiOp{Type: kind, CreateRequest: CreateRequest{Path: "/a"}} }
	body := func(ops ...MultiOp) []byte {
		return (&multiBody{Ops: ops}).Append(nil)
	}
	tests := []struct {
		name string
		op   OpCode
		body []byte
		want error
	}{
		{"read in a multi", OpMulti, body(op(OpCreate), op(OpGetData)), ErrMultiOp},
		{"write in a multiRead", OpMultiRead, body(op(OpGetData), op(OpDelete)), ErrMultiOp},
		{"ping", OpMulti, MultiHeader{Type: OpPing, Err: -1}.Append(nil), ErrMultiOp},
		{"multi in a multi", OpMulti, MultiHeader{Type: OpMulti, Err: -1}.Append(nil), ErrMultiOp},
		{"no end", OpMulti, op2bytes(op(OpDelete)), jute.ErrShort},
		{"empty", OpMulti, nil, jute.ErrShort},
		{"null path", OpMulti, jute.AppendInt(jute.AppendInt(MultiHeader{Type: OpDelete}.Append(nil), -1), 0), jute.ErrNull},
	}
	for _, tt := range tests {
		d := jute.NewDecoder(tt.body)
		DecodeMulti(&d, tt.op, nil)
		if !errors.Is(d.Err(), tt.want) {
			t.Errorf("%s: error %v, want %v", tt.name, d.Err(), tt.want)
		}
	}
}

func op2bytes(m MultiOp) []byte { return m.Append(nil) }

// A multi's operations go behind those that the caller has.
func TestMultiAppends(t *testing.T) {
	d := jute.NewDecoder((&multiBody{Ops: []MultiOp{{Type: OpDelete, CreateRequest: CreateRequest{Path: "/b"}}}}).Append(nil))
	ops := DecodeMulti(&d, OpMulti, []MultiOp{{Type: OpCheck}})
	if len(ops) != 2 || ops[0].Type != OpCheck || ops[1].Path != "/b" {
		t.Errorf("got %+v", ops)
	}
}

// Lengths and counts that the frame does not hold cost no memory.
func TestGiantLengths(t *testing.T) {
	path := jute.AppendString(nil, "/a")
	giant := func(b []byte, n int32) []byte { return jute.AppendInt(bytes.Clone(b), n) }
	zxid := jute.AppendLong(nil, 1)
	multi := MultiHeader{Type: OpCreate, Err: -1}.Append(nil)
	tests := []struct {
		name string
		op   OpCode
		head []byte
	}{
		{"path", OpCreate, nil},
		{"data", OpCreate, path},
		{"acl", OpCreate, jute.AppendInt(bytes.Clone(path), 0)},
		{"acl of setACL", OpSetACL, path},
		{"scheme", OpSetACL, jute.AppendInt(jute.AppendInt(bytes.Clone(path), 1), 31)},
		{"first watches", OpSetWatches, zxid},
		{"last watches", OpSetWatches2, append(bytes.Clone(zxid), make([]byte, 16)...)},
		{"watch", OpSetWatches, jute.AppendInt(bytes.Clone(zxid), 1)},
		{"path in a multi", OpMulti, multi},
		{"acl in a multi", OpMulti, jute.AppendInt(append(bytes.Clone(multi), path...), 0)},
		{"path in a multiRead", OpMultiRead, MultiHeader{Type: OpGetData}.Append(nil)},
		{"auth", OpAuth, jute.AppendString(make([]byte, 4), "digest")},
		{"reconfig", OpReconfig, nil},
	}
	for _, tt := range tests {
		for _, n := range []int32{math.MaxInt32, math.MaxInt32 / 12, 1 << 20, 65} {
			b := append(giant(tt.head, n), make([]byte, 64)...)
			used := allocated(func() {
				d := jute.NewDecoder(b)
				requestOf(tt.op).decode(&d)
				if d.Err() == nil {
					t.Errorf("%s of %d: accepted", tt.name, n)
				}
			})
			if used > 4096 {
				t.Errorf("%s of %d: %d bytes allocated for a frame of %d", tt.name, n, used, len(b))
			}
		}
	}
}

// Negative lengths are errors; negative counts are empty, as in Apache.
func TestNegativeLengths(t *testing.T) {
	path := jute.AppendString(nil, "/a")
	for _, n := range []int32{-2, -1000, math.MinInt32} {
		d := jute.NewDecoder(jute.AppendInt(bytes.Clone(path), n))
		requestOf(OpSetData).decode(&d)
		if !errors.Is(d.Err(), jute.ErrLength) {
			t.Errorf("data of %d: error %v", n, d.Err())
		}
		d = jute.NewDecoder(jute.AppendInt(nil, n))
		if acl := DecodeACL(&d); d.Err() != nil || acl == nil || len(acl) != 0 {
			t.Errorf("ACL of %d: %#v, error %v", n, acl, d.Err())
		}
		b := append(jute.AppendLong(nil, 5), make([]byte, 8)...)
		d = jute.NewDecoder(jute.AppendInt(b, n))
		var w SetWatches
		if w.Decode(&d, OpSetWatches); d.Err() != nil || len(w.Child) != 0 {
			t.Errorf("watches of %d: %q, error %v", n, w.Child, d.Err())
		}
	}
}

// allocated returns the bytes that f allocates: the least of three runs, because the runtime counts those of all goroutines,
// its own among them.
func allocated(f func()) uint64 {
	least := uint64(math.MaxUint64)
	for range 3 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	return least
}

// perByte bounds what decoding a frame allocates, in bytes for a byte: a null
// string of four bytes becomes a header of 16, and a slice that grows by
// appending is copied a few times over. An operation in a multi takes 13 bytes
// and becomes about 150.
const perByte = 64

// FuzzRequest decodes arbitrary bodies: within bounded memory, and what is
// accepted comes back the same when it is written and read again.
func FuzzRequest(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, op := range bodies() {
		for range 3 {
			f.Add(int32(op), fill(r, op).append(nil))
		}
	}
	f.Add(int32(OpSetACL), []byte("\x00\x00\x00\x01/\x7f\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, number int32, body []byte) {
		op := OpCode(number)
		first := requestOf(op)
		var err error
		used := allocated(func() {
			d := jute.NewDecoder(body)
			first.decode(&d)
			err = d.Err()
		})
		if most := uint64(perByte*len(body) + 64<<10); used > most {
			t.Fatalf("%v: %d bytes allocated for a body of %d", op, used, len(body))
		}
		if err != nil {
			return
		}
		once := first.append(nil)
		second := requestOf(op)
		d := jute.NewDecoder(once)
		second.decode(&d)
		if d.Err() != nil || d.Len() != 0 {
			t.Fatalf("%v %x, written as %x: error %v, %d bytes left", op, body, once, d.Err(), d.Len())
		}
		if twice := second.append(nil); !bytes.Equal(once, twice) {
			t.Errorf("%v %x, written as %x and then as %x", op, body, once, twice)
		}
	})
}

// FuzzConnect does the same with the handshake and the headers.
func FuzzConnect(f *testing.F) {
	f.Add((&ConnectRequest{TimeoutMillis: 30000, Password: make([]byte, PasswordLen), HasReadOnly: true}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, rec := range []func() record{
			func() record { return plain(&ConnectRequest{}) }, func() record { return plain(&ConnectResponse{}) },
			func() record { return plain(&AuthPacket{}) }, func() record { return plain(&WatcherEvent{}) },
		} {
			first, second := rec(), rec()
			d := jute.NewDecoder(b)
			if first.decode(&d); d.Err() != nil {
				continue
			}
			once := first.append(nil)
			d = jute.NewDecoder(once)
			if second.decode(&d); d.Err() != nil || !bytes.Equal(once, second.append(nil)) {
				t.Errorf("%T %x, written as %x: error %v, again %x", first.value, b, once, d.Err(), second.append(nil))
			}
		}
	})
}

func TestOpNames(t *testing.T) {
	if got := OpCreate2.String() + OpCode(4711).String(); got != "CREA4711" {
		t.Errorf("got %s", got)
	}
	writes := 0
	for op := OpCode(-20); op < 120; op++ {
		if op.IsWrite() {
			writes++
		}
	}
	if writes != 12 || OpSync.IsWrite() || OpCheck.IsWrite() || OpMultiRead.IsWrite() {
		t.Errorf("%d operations write", writes)
	}
}

func BenchmarkDecodeCreate(b *testing.B) {
	r := CreateRequest{Path: "/some/path/of/a/znode", Data: make([]byte, 1024), ACL: zk.OpenACLUnsafe()}
	in := r.Append(nil, OpCreate)
	b.ReportAllocs()
	for b.Loop() {
		d := jute.NewDecoder(in)
		if r.Decode(&d, OpCreate); d.Err() != nil {
			b.Fatal(d.Err())
		}
	}
}

func BenchmarkDecodeGetData(b *testing.B) {
	r := PathWatch{Path: "/some/path/of/a/znode"}
	in := r.Append(RequestHeader{1, OpGetData}.Append(nil))
	b.ReportAllocs()
	for b.Loop() {
		var h RequestHeader
		d := jute.NewDecoder(in)
		h.Decode(&d)
		if r.Decode(&d); d.Err() != nil {
			b.Fatal(d.Err())
		}
	}
}

func BenchmarkDecodeMulti(b *testing.B) {
	body := multiBody{op: OpMulti}
	for i := range 10 {
		body.Ops = append(body.Ops, MultiOp{Type: OpSetData, CreateRequest: CreateRequest{Path: strings.Repeat("/a", i+1), Data: make([]byte, 64)}})
	}
	in := body.Append(nil)
	var ops []MultiOp
	b.ReportAllocs()
	for b.Loop() {
		d := jute.NewDecoder(in)
		if ops = DecodeMulti(&d, OpMulti, ops[:0]); d.Err() != nil {
			b.Fatal(d.Err())
		}
	}
}

func BenchmarkAppendReply(b *testing.B) {
	stat, data := zk.Stat{Czxid: 1}, make([]byte, 1024)
	var out []byte
	b.ReportAllocs()
	for b.Loop() {
		out = ReplyHeader{1, 2, zk.OK}.Append(out[:0])
		out = AppendStat(jute.AppendBuffer(out, data), &stat)
	}
}

// ACLs reads what DecodeACL reads, in any order of vectors, and gives equal ones that follow each other as one slice.
func TestACLsAreShared(t *testing.T) {
	open := zk.OpenACLUnsafe()
	digest := []zk.ACL{{Perms: zk.PermRead, ID: zk.ID{Scheme: "digest", ID: "a:b"}}}
	both := append(slices.Clone(open), digest...)
	var b []byte
	order := [][]zk.ACL{nil, open, open, both, open, digest, digest, {}, {}, nil, nil, digest}
	for _, acl := range order {
		b = AppendACL(b, acl)
	}
	d, plain := jute.NewDecoder(b), jute.NewDecoder(b)
	var acls ACLs
	var last []zk.ACL
	for i, want := range order {
		got := acls.Decode(&d)
		if plain := DecodeACL(&plain); !slices.Equal(got, want) || (got == nil) != (plain == nil) || !slices.Equal(got, plain) {
			t.Errorf("vector %d: %v, want %v", i, got, want)
		}
		if i > 0 && len(want) > 0 && slices.Equal(want, order[i-1]) != (len(last) > 0 && &got[0] == &last[0]) {
			t.Errorf("vector %d: shared with the one before it only if it is equal", i)
		}
		last = got
	}
	if d.Err() != nil || d.Len() != 0 {
		t.Errorf("%v, %d bytes are left", d.Err(), d.Len())
	}
	cut := jute.NewDecoder(AppendACL(nil, digest)[:10])
	if got := acls.Decode(&cut); got != nil || cut.Err() == nil {
		t.Errorf("of a vector that is cut off: %v, %v", got, cut.Err())
	}
	whole := jute.NewDecoder(AppendACL(nil, digest))
	if got := acls.Decode(&whole); !slices.Equal(got, digest) {
		t.Errorf("after an error: %v", got)
	}
}
