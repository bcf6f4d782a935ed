package znode

import (
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/pinfold-zk/pinfold/zk"
)

// TestDigest: Mode.Digest is the CRC-32 that goes on from the sum over the fields
// in their order.
func TestDigest(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var scratch Scratch
	for i := range 10000 {
		m := Mode{
			Czxid: zk.Zxid(r.Uint64()), Mzxid: zk.Zxid(r.Uint64()), Pzxid: zk.Zxid(r.Uint64()),
			Ctime: int64(r.Uint64()), Mtime: int64(r.Uint64()),
			Version: int32(r.Uint32()), Cversion: int32(r.Uint32()), Aversion: int32(r.Uint32()),
			Owner: int64(r.Uint64()),
		}
		sum := r.Uint32()
		switch i { // the ends, and no field set
		case 0:
			sum, m = 0, Mode{}
		case 1:
			sum, m = ^uint32(0), Mode{}
		}
		var b []byte
		for _, v := range []int64{int64(m.Czxid), int64(m.Mzxid), int64(m.Pzxid), m.Ctime, m.Mtime} {
			b = binary.BigEndian.AppendUint64(b, uint64(v))
		}
		for _, v := range []int32{m.Version, m.Cversion, m.Aversion} {
			b = binary.BigEndian.AppendUint32(b, uint32(v))
		}
		b = binary.BigEndian.AppendUint64(b, uint64(m.Owner))
		if got, want := m.Digest(sum, &scratch), crc32.Update(sum, crc32.IEEETable, b); got != want {
			t.Fatalf("digest of %+v behind %#x is %#x, want %#x", m, sum, got, want)
		}
	}
}

func BenchmarkDigest(b *testing.B) {
	m, scratch := Mode{Czxid: 1 << 40, Mtime: 1 << 41}, new(Scratch)
	sum := uint32(0)
	for b.Loop() {
		sum = m.Digest(sum, scratch)
	}
}
