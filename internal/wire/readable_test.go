package wire

import (
	"testing"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/zk"
)

// Readable says of every part of a record what decoding says of it, but that it
// does not mind a null path.
func TestReadable(t *testing.T) {
	r := CreateRequest{Path: "/a", Data: []byte("data"), ACL: []zk.ACL{{Perms: 1, ID: zk.ID{Scheme: "ip", ID: "1.2.3.4"}}, {}}, TTL: 5}
	set, acl, del := SetDataRequest{Path: "/a"}, SetACLRequest{Path: "/a", ACL: r.ACL}, PathVersion{Path: "/a"}
	reconfig := ReconfigRequest{JoiningServers: "x"}
	decode := map[OpCode]func(d *jute.Decoder){
		OpDelete:   func(d *jute.Decoder) { (&PathVersion{}).Decode(d) },
		OpSetData:  func(d *jute.Decoder) { (&SetDataRequest{}).Decode(d) },
		OpSetACL:   func(d *jute.Decoder) { (&SetACLRequest{}).Decode(d) },
		OpReconfig: func(d *jute.Decoder) { (&ReconfigRequest{}).Decode(d) },
	}
	records := map[OpCode][]byte{OpDelete: del.Append(nil), OpSetData: set.Append(nil), OpSetACL: acl.Append(nil), OpReconfig: reconfig.Append(nil)}
	for _, op := range []OpCode{OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL} {
		records[op] = r.Append(nil, op)
		decode[op] = func(d *jute.Decoder) { (&CreateRequest{}).Decode(d, op) }
	}
	for op, whole := range records {
		for n := range len(whole) + 2 {
			body := append([]byte{}, whole[:min(n, len(whole))]...)
			body = append(body, make([]byte, max(0, n-len(whole)))...) // trailing bytes are nobody's
			for at := -4; at+4 <= len(body); at += 4 {
				b := append([]byte{}, body...)
				if at >= 0 {
					copy(b[at:], []byte{0x40, 0, 0, 0}) // a length that is too great, or data
				}
				d := jute.NewDecoder(b)
				decode[op](&d)
				if got := Readable(op, b); got != (d.Err() == nil) {
					t.Fatalf("operation %d, %x: readable %v, decoding says %v", op, b, got, d.Err())
				}
			}
		}
		null := append([]byte{0xFF, 0xFF, 0xFF, 0xFF}, whole[6:]...)
		if op != OpReconfig && !Readable(op, null) {
			t.Errorf("operation %d with a null path cannot be read", op)
		}
	}
	if !Readable(OpMulti, nil) || !Readable(OpGetData, nil) {
		t.Error("a multi or a read cannot be read")
	}
}

func BenchmarkReadable(b *testing.B) {
	r := CreateRequest{Path: "/bench/create", Data: make([]byte, 1024), ACL: zk.OpenACLUnsafe()}
	body := r.Append(nil, OpCreate)
	b.ReportAllocs()
	for b.Loop() {
		if !Readable(OpCreate, body) {
			b.Fatal("it can be read")
		}
	}
}
