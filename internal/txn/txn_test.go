package txn

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

var update = flag.Bool("update", false, "write testdata/apache-3.8.0.golden anew; then read the difference")

// describe prints the fields of a change that count.
func describe(o *Op) string {
	data := "null"
	if o.Data != nil {
		data = fmt.Sprintf("%q", o.Data)
	}
	switch o.Type {
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		return fmt.Sprintf("create %q %s %v ephemeral %v parent %d ttl %d", o.Path, data, o.ACL, o.Ephemeral, o.ParentCversion, o.TTL)
	case wire.OpDelete, wire.OpDeleteContainer:
		return fmt.Sprintf("delete %q", o.Path)
	case wire.OpSetData:
		return fmt.Sprintf("setData %q %s version %d", o.Path, data, o.Version)
	case wire.OpSetACL:
		return fmt.Sprintf("setACL %q %v version %d", o.Path, o.ACL, o.Version)
	case wire.OpCheck:
		return fmt.Sprintf("check %q version %d", o.Path, o.Version)
	case wire.OpCreateSession:
		return fmt.Sprintf("createSession %d ms", o.TimeoutMillis)
	case wire.OpCloseSession:
		return fmt.Sprintf("closeSession listed %v %q", o.PathsListed, o.Paths)
	case wire.OpError:
		return fmt.Sprintf("error %d", int32(o.Err))
	}
	return fmt.Sprintf("type %d", int32(o.Type))
}

// The entries of a log that Apache wrote: each says what the golden file says
// and is written again byte by byte.
func TestApacheLog(t *testing.T) {
	text, err := os.ReadFile("testdata/apache-3.8.0.txt")
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/apache-3.8.0.golden"
	var got strings.Builder
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		b, err := hex.DecodeString(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		tx, err := Decode(b)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if again := tx.Append(nil); !bytes.Equal(again, b) {
			t.Errorf("zxid %v\n read %x\nwrote %x", tx.Zxid, b, again)
		}
		if tx.Len() != len(b) {
			t.Errorf("zxid %v: Len is %d, the encoding has %d bytes", tx.Zxid, tx.Len(), len(b))
		}
		fmt.Fprintf(&got, "%v %v cxid %d time %d type %d digest %v %#x failed %v\n", tx.Zxid, tx.Session, tx.Cxid, tx.Time,
			int32(tx.Header.Type), tx.HasDigest, tx.Digest, tx.Failed())
		if tx.Header.Type != wire.OpMulti {
			fmt.Fprintf(&got, "    %s\n", describe(&tx.Op))
		}
		for i := range tx.Multi {
			fmt.Fprintf(&got, "    %d: %s\n", int32(tx.Multi[i].Type), describe(&tx.Multi[i]))
		}
	}
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// kinds lists the types of changes; inner says which are allowed in a multi.
func kinds() []wire.OpCode {
	return []wire.OpCode{wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL, wire.OpDelete,
		wire.OpDeleteContainer, wire.OpSetData, wire.OpReconfig, wire.OpSetACL, wire.OpCheck, wire.OpCreateSession,
		wire.OpCloseSession, wire.OpError}
}

func randomText(r *rand.Rand) string {
	b := make([]byte, r.IntN(10))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return string(b)
}

// randomOp makes a change of a kind with every field that it has.
func randomOp(r *rand.Rand, kind wire.OpCode) Op {
	o := Op{Type: kind}
	data := []byte(nil)
	if r.IntN(3) > 0 {
		data = []byte(randomText(r))
	}
	acl := []zk.ACL(nil)
	if r.IntN(3) > 0 {
		acl = make([]zk.ACL, r.IntN(3))
		for i := range acl {
			acl[i] = zk.ACL{Perms: zk.Perms(r.Uint32()), ID: zk.ID{Scheme: randomText(r), ID: randomText(r)}}
		}
	}
	switch kind {
	case wire.OpCreate, wire.OpCreate2:
		o.Ephemeral = r.IntN(2) == 0
		fallthrough
	case wire.OpCreateContainer, wire.OpCreateTTL:
		o.Path, o.Data, o.ACL, o.ParentCversion = "/"+randomText(r), data, acl, int32(r.Uint32())
		if kind == wire.OpCreateTTL {
			o.TTL = int64(r.Uint64())
		}
	case wire.OpDelete, wire.OpDeleteContainer:
		o.Path = "/" + randomText(r)
	case wire.OpSetData, wire.OpReconfig:
		o.Path, o.Data, o.Version = "/"+randomText(r), data, int32(r.Uint32())
	case wire.OpSetACL:
		o.Path, o.ACL, o.Version = "/"+randomText(r), acl, int32(r.Uint32())
	case wire.OpCheck:
		o.Path, o.Version = "/"+randomText(r), int32(r.Uint32())
	case wire.OpCreateSession:
		o.TimeoutMillis = int32(r.Uint32())
	case wire.OpCloseSession:
		o.PathsListed, o.Paths = true, make([]string, r.IntN(3))
		for i := range o.Paths {
			o.Paths[i] = "/" + randomText(r)
		}
	case wire.OpError:
		o.Err = zk.Code(r.Uint32())
	}
	return o
}

func randomTxn(r *rand.Rand, kind wire.OpCode) Txn {
	t := Txn{Header: Header{Session: zk.SessionID(r.Uint64()), Cxid: int32(r.Uint32()), Zxid: zk.Zxid(r.Uint64()),
		Time: int64(r.Uint64()), Type: kind}}
	if kind == wire.OpMulti {
		t.Op.Type = kind
		t.Multi = make([]Op, r.IntN(4))
		for i := range t.Multi {
			t.Multi[i] = randomOp(r, kinds()[r.IntN(len(kinds()))])
		}
	} else {
		t.Op = randomOp(r, kind)
	}
	if kind != wire.OpError && r.IntN(2) == 0 {
		t.HasDigest, t.Digest = true, r.Uint64()
	}
	return t
}

// Random transactions of every kind come back as they were.
func TestRoundTrip(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed=%d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for _, kind := range append(kinds(), wire.OpMulti) {
		for range 300 {
			want := randomTxn(r, kind)
			b := want.Append([]byte("before"))[len("before"):]
			if want.Len() != len(b) {
				t.Fatalf("%+v: Len is %d, the encoding has %d bytes", want, want.Len(), len(b))
			}
			got, err := Decode(b)
			if err != nil {
				t.Fatalf("%+v: %v", want, err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("type %d (-want +got):\n%s", int32(kind), diff)
			}
		}
	}
}

// header is that of a transaction of the type, encoded.
func header(kind wire.OpCode) []byte {
	h := Header{Session: 1, Cxid: 2, Zxid: 3, Time: 4, Type: kind}
	return h.Append(nil)
}

// A closeSession lists its paths since 3.6, unless that is turned off; a digest
// may follow in both cases.
func TestCloseSession(t *testing.T) {
	digest := jute.AppendLong(jute.AppendInt(nil, DigestVersion), 0x1122334455667788)
	tests := []struct {
		name   string
		body   []byte
		listed bool
		paths  []string
		digest bool
	}{
		{"nothing", nil, false, nil, false},
		{"digest alone", digest, false, nil, true},
		{"digest that begins like lengths", jute.AppendLong(jute.AppendInt(nil, DigestVersion), 0), false, nil, true},
		{"no path", jute.AppendStrings(nil, []string{}), true, []string{}, false},
		{"no path and digest", append(jute.AppendStrings(nil, []string{}), digest...), true, []string{}, true},
		{"paths", jute.AppendStrings(nil, []string{"/a", "/b"}), true, []string{"/a", "/b"}, false},
		{"paths and digest", append(jute.AppendStrings(nil, []string{"/a"}), digest...), true, []string{"/a"}, true},
	}
	for _, tt := range tests {
		b := append(header(wire.OpCloseSession), tt.body...)
		got, err := Decode(b)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if got.PathsListed != tt.listed || cmp.Diff(tt.paths, got.Paths) != "" || got.HasDigest != tt.digest {
			t.Errorf("%s: listed %v, %q, digest %v", tt.name, got.PathsListed, got.Paths, got.HasDigest)
		}
		if again := got.Append(nil); !bytes.Equal(again, b) {
			t.Errorf("%s: %x, written again %x", tt.name, b, again)
		}
	}
}

// A create of a server before 3.4 ends before the parent's cversion. It is read
// in a log without digests, where nothing follows it.
func TestCreateBefore34(t *testing.T) {
	b := header(wire.OpCreate)
	b = jute.AppendString(b, "/a")
	b = jute.AppendBuffer(b, []byte("x"))
	b = wire.AppendACL(b, zk.OpenACLUnsafe())
	b = jute.AppendBool(b, true)
	got, err := Decode(b)
	if err != nil || got.ParentCversion != -1 || !got.Ephemeral || got.Path != "/a" || got.HasDigest {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestFailed(t *testing.T) {
	for _, tt := range []struct {
		name string
		txn  Txn
		want bool
	}{
		{"error", Txn{Header: Header{Type: wire.OpError}}, true},
		{"change", Txn{Header: Header{Type: wire.OpSetData}}, false},
		{"multi", Txn{Header: Header{Type: wire.OpMulti}, Multi: []Op{{Type: wire.OpCheck}, {Type: wire.OpDelete}}}, false},
		{"failed multi", Txn{Header: Header{Type: wire.OpMulti}, Multi: []Op{{Type: wire.OpCheck}, {Type: wire.OpError}}}, true},
	} {
		if got := tt.txn.Failed(); got != tt.want {
			t.Errorf("%s: Failed() = %v", tt.name, got)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	inner := func(kind wire.OpCode, body []byte) []byte {
		b := jute.AppendInt(header(wire.OpMulti), 1)
		return jute.AppendBuffer(jute.AppendInt(b, int32(kind)), body)
	}
	path := jute.AppendString(nil, "/a")
	tests := []struct {
		name string
		b    []byte
		why  string
	}{
		{"nothing", nil, "input ends"},
		{"half a header", header(wire.OpDelete)[:20], "input ends"},
		{"header alone", header(wire.OpDelete), "input ends"},
		{"unknown type", header(77), "unknown type 77"},
		{"a read", header(wire.OpGetData), "unknown type 4"},
		{"error without code", header(wire.OpError), "input ends"},
		{"unknown type in a multi", inner(77, nil), "unknown type 77"},
		{"multi in a multi", inner(wire.OpMulti, jute.AppendInt(nil, 0)), "unknown type 14"},
		{"short record in a multi", inner(wire.OpSetData, path), "input ends"},
		{"too few operations", jute.AppendInt(header(wire.OpMulti), 2), "larger than the input"},
	}
	for _, tt := range tests {
		got, err := Decode(tt.b)
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), tt.why) {
			t.Errorf("%s: %v, want ErrInvalid with %q", tt.name, err, tt.why)
		}
		if diff := cmp.Diff(Txn{}, got); diff != "" {
			t.Errorf("%s: the transaction is not zero:\n%s", tt.name, diff)
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

// Lengths and counts that the bytes do not hold cost no memory.
func TestGiantLengths(t *testing.T) {
	path := jute.AppendString(nil, "/a")
	tests := []struct {
		name string
		kind wire.OpCode
		head []byte
	}{
		{"path", wire.OpDelete, nil},
		{"data", wire.OpCreate, path},
		{"acl", wire.OpCreate, jute.AppendInt(bytes.Clone(path), 0)},
		{"acl of setACL", wire.OpSetACL, path},
		{"operations", wire.OpMulti, nil},
		{"record in a multi", wire.OpMulti, jute.AppendInt(jute.AppendInt(nil, 1), int32(wire.OpDelete))},
		{"paths", wire.OpCloseSession, nil},
	}
	for _, tt := range tests {
		for _, n := range []int32{math.MaxInt32, math.MaxInt32 / 8, 1 << 20, 65} {
			b := append(header(tt.kind), tt.head...)
			b = append(jute.AppendInt(b, n), make([]byte, 64)...)
			var err error
			used := allocated(func() { _, err = Decode(b) })
			if err == nil && tt.kind != wire.OpCloseSession { // whose list may be absent
				t.Errorf("%s of %d: accepted", tt.name, n)
			}
			if used > 8192 {
				t.Errorf("%s of %d: %d bytes allocated for %d", tt.name, n, used, len(b))
			}
		}
	}
}

// perByte bounds what decoding allocates, in bytes for a byte: an operation of a
// multi takes 8 bytes at least and becomes an Op.
const perByte = 64

// FuzzDecode reads arbitrary bytes: within bounded memory, and what is accepted
// comes back the same when it is written and read again.
func FuzzDecode(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, kind := range append(kinds(), wire.OpMulti) {
		for range 3 {
			t := randomTxn(r, kind)
			f.Add(t.Append(nil))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var first Txn
		var err error
		used := allocated(func() { first, err = Decode(b) })
		if most := uint64(perByte*len(b) + 64<<10); used > most {
			t.Fatalf("%d bytes allocated for %d", used, len(b))
		}
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Fatalf("%x: %v is not ErrInvalid", b, err)
			}
			return
		}
		once := first.Append(nil)
		second, err := Decode(once)
		if err != nil {
			t.Fatalf("%x, written as %x: %v", b, once, err)
		}
		if twice := second.Append(nil); !bytes.Equal(once, twice) {
			t.Errorf("%x, written as %x and then as %x", b, once, twice)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	for _, kind := range []wire.OpCode{wire.OpSetData, wire.OpCreate} {
		t := Txn{Header: Header{Type: kind}, HasDigest: true, Op: Op{Type: kind, Path: "/some/path/of/a/znode",
			Data: make([]byte, 1024), ACL: zk.OpenACLUnsafe()}}
		in := t.Append(nil)
		b.Run(kind.String(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Decode(in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAppend(b *testing.B) {
	t := Txn{Header: Header{Type: wire.OpSetData}, HasDigest: true,
		Op: Op{Type: wire.OpSetData, Path: "/some/path/of/a/znode", Data: make([]byte, 1024)}}
	var out []byte
	b.ReportAllocs()
	for b.Loop() {
		out = t.Append(out[:0])
	}
}
