package transport

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/zk"
)

const testLimit = 1 << 20

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// samples are packets with their bytes (protocol page, section 13).
var samples = []struct {
	name   string
	packet zab.Packet
	bytes  string
}{
	{"ack", ack(0x100000002), "00000003 0000000100000002 ffffffff ffffffff"},
	{"commit", zab.Packet{Type: zab.Commit, Zxid: 0x100000002}, "00000004 0000000100000002 ffffffff ffffffff"},
	{"proposal", proposal(0x100000002, []byte("txn")), "00000002 0000000100000002 00000003 74786e ffffffff"},
	{"up to date", zab.Packet{Type: zab.UpToDate, Zxid: -1}, "0000000c ffffffffffffffff ffffffff ffffffff"},
	{"ping", zab.Packet{Type: zab.Ping, Data: []byte{}}, "00000005 0000000000000000 00000000 ffffffff"},
	{
		"follower info", zab.Packet{
			Type: zab.FollowerInfo, Zxid: 0x300000000,
			Data: []byte{0, 0, 0, 0, 0, 0, 0, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		},
		"0000000b 0000000300000000 00000014 0000000000000002 00010000 0000000000000000 ffffffff",
	},
	{
		"request", zab.Packet{Type: zab.Request, Zxid: -1, Data: []byte{7}, Auth: []zk.ID{{Scheme: "ip", ID: "10.0.0.1"}, {}}},
		"00000001 ffffffffffffffff 00000001 07 00000002 00000002 6970 00000008 31302e302e302e31 00000000 00000000",
	},
	{
		"request of nobody", zab.Packet{Type: zab.Request, Zxid: -1, Auth: []zk.ID{}},
		"00000001 ffffffffffffffff ffffffff 00000000",
	},
}

func TestPacketBytes(t *testing.T) {
	for _, s := range samples {
		t.Run(s.name, func(t *testing.T) {
			want := unhex(t, s.bytes)
			got := AppendPacket([]byte{9}, s.packet)
			if !bytes.Equal(got[1:], want) || got[0] != 9 {
				t.Fatalf("%x, want %x behind 09", got, want)
			}
			if n := packetSize(s.packet); n != len(want) {
				t.Errorf("%d bytes are reckoned with, not %d", n, len(want))
			}
			for cut := range want {
				p, n, err := DecodePacket(want[:cut], testLimit)
				if err != nil || n <= cut || n > len(want) || p.Data != nil || p.Auth != nil {
					t.Fatalf("%d bytes: %v, needs %d, %v", cut, p, n, err)
				}
			}
			p, n, err := DecodePacket(append(want, 0xAA), testLimit)
			if err != nil || n != len(want) {
				t.Fatalf("%d bytes of %d, %v", n, len(want), err)
			}
			if diff := cmp.Diff(s.packet, p); diff != "" {
				t.Error(diff)
			}
			if p.Data != nil && cap(p.Data) != len(p.Data) {
				t.Error("what is appended to the data overwrites what follows")
			}
		})
	}
}

// Null strings in an identity are read as empty ones.
func TestNullIdentity(t *testing.T) {
	b := unhex(t, "00000001 0000000000000000 ffffffff 00000001 ffffffff ffffffff")
	p, n, err := DecodePacket(b, testLimit)
	if err != nil || n != len(b) || len(p.Auth) != 1 || p.Auth[0] != (zk.ID{}) {
		t.Errorf("%v of %d bytes, %v", p.Auth, n, err)
	}
}

// Garbage is refused by the first bytes that show it.
func TestDecodeRefuses(t *testing.T) {
	for _, tt := range []struct{ name, bytes string }{
		{"type 0", "00000000"},
		{"type 20", "00000014"},
		{"negative type", "ffffffff"},
		{"HTTP", hex.EncodeToString([]byte("GET "))},
		{"TLS", "16030100"},
		{"data over the limit", "00000002 0000000000000001 00100001"},
		{"giant data", "00000002 0000000000000001 7fffffff"},
		{"negative data", "00000002 0000000000000001 fffffffe"},
		{"giant identities", "00000001 0000000000000001 ffffffff 7fffffff"},
		{"more identities than fit", "00000001 0000000000000001 ffffffff 00020001"},
		{"negative identities", "00000001 0000000000000001 ffffffff fffffffe"},
		{"giant scheme", "00000001 0000000000000001 ffffffff 00000001 7fffffff"},
		{"giant id", "00000001 0000000000000001 ffffffff 00000001 00000000 00100001"},
		{"a scheme that leaves no room for the lengths behind it", "00000001 0000000000000001 ffffffff 00006130 000fffff"},
		{"negative scheme", "00000001 0000000000000001 ffffffff 00000001 fffffffe"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := unhex(t, tt.bytes)
			if _, n, err := DecodePacket(b, testLimit); !errors.Is(err, ErrPacket) || n != 0 {
				t.Errorf("%d bytes, %v; want ErrPacket", n, err)
			}
			if _, n, err := DecodePacket(b[:len(b)-4], testLimit); err != nil || n <= len(b)-4 {
				t.Errorf("without the last four bytes it needs %d, %v", n, err)
			}
		})
	}
}

// The limit itself is not over the limit.
func TestDecodeAtTheLimit(t *testing.T) {
	b := AppendPacket(nil, proposal(1, make([]byte, 100)))
	if _, n, err := DecodePacket(b, 100); err != nil || n != len(b) {
		t.Errorf("100 bytes of 100: %d, %v", n, err)
	}
	if _, _, err := DecodePacket(b, 99); !errors.Is(err, ErrPacket) {
		t.Errorf("100 bytes of 99: %v", err)
	}
}

// Who sends identities byte by byte does not make the decoder look at all of
// them for each byte.
func TestDecodeAsksForMuch(t *testing.T) {
	ids := make([]zk.ID, 20000)
	for i := range ids {
		ids[i] = zk.ID{Scheme: "x", ID: "y"}
	}
	b := AppendPacket(nil, zab.Packet{Type: zab.Request, Auth: ids})
	looks := 0
	for n := 1; n < len(b); looks++ {
		_, need, err := DecodePacket(b[:n], testLimit)
		if err != nil || need <= n {
			t.Fatalf("at %d: needs %d, %v", n, need, err)
		}
		n = need
	}
	if looks > 100 {
		t.Errorf("%d looks at a packet of %d bytes", looks, len(b))
	}
}

func TestCodecDoesNotAllocate(t *testing.T) {
	data := make([]byte, 1000)
	out := make([]byte, 0, 4096)
	n := testing.AllocsPerRun(100, func() {
		out = AppendPacket(AppendPacket(out[:0], proposal(1, data)), ack(1))
		_, n, err := DecodePacket(out, testLimit)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := DecodePacket(out[n:], testLimit); err != nil {
			t.Fatal(err)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

// FuzzDecodePacket reads arbitrary bytes: what is a packet is written again as
// it was, what is not whole becomes no packet by less than it asks for, and
// nothing is allocated for what is not there.
func FuzzDecodePacket(f *testing.F) {
	for _, s := range samples {
		f.Add(unhex(f, s.bytes))
	}
	f.Add(unhex(f, "00000001 0000000000000001 ffffffff 00000002 ffffffff 00000000 00000000 ffffffff"))
	f.Add([]byte("GET / HTTP/1.1\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		const limit = 1 << 10
		p, n, err := DecodePacket(in, limit)
		if err != nil {
			if !errors.Is(err, ErrPacket) || n != 0 {
				t.Fatalf("%d, %v", n, err)
			}
			return
		}
		if n > len(in) {
			if p.Data != nil || p.Auth != nil || n > 24+limit+minAuthLimit {
				t.Fatalf("%v needs %d of %d", p, n, len(in))
			}
			return
		}
		if cap(p.Data) > len(in) || cap(p.Auth)*idBytes > len(in) {
			t.Fatalf("%d bytes and %d identities of %d bytes", cap(p.Data), cap(p.Auth), len(in))
		}
		again := AppendPacket(nil, p)
		if len(p.Auth) == 0 && !bytes.Equal(again, in[:n]) {
			t.Fatalf("%x was written again as %x", in[:n], again)
		}
		// The null strings of identities become empty ones.
		if q, m, err := DecodePacket(again, limit); err != nil || m != n || !cmp.Equal(p, q) {
			t.Fatalf("%v was written again as %v, %d bytes as %d, %v", p, q, n, m, err)
		}
		if _, short, err := DecodePacket(in[:n-1], limit); err != nil || short < n {
			t.Fatalf("a byte less: needs %d of %d, %v", short, n, err)
		}
	})
}

func BenchmarkAppendPacket(b *testing.B) {
	for _, bm := range []struct {
		name   string
		packet zab.Packet
	}{{"ack", ack(1)}, {"proposal1k", proposal(1, make([]byte, 1024))}} {
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			out := make([]byte, 0, 4096)
			for b.Loop() {
				out = AppendPacket(out[:0], bm.packet)
			}
			b.SetBytes(int64(len(out)))
		})
	}
}

func BenchmarkDecodePacket(b *testing.B) {
	for _, bm := range []struct {
		name   string
		packet zab.Packet
	}{
		{"ack", ack(1)},
		{"proposal1k", proposal(1, make([]byte, 1024))},
		{"request", zab.Packet{Type: zab.Request, Data: make([]byte, 100), Auth: []zk.ID{{Scheme: "ip", ID: "10.0.0.1"}}}},
	} {
		b.Run(bm.name, func(b *testing.B) {
			in := AppendPacket(nil, bm.packet)
			b.ReportAllocs()
			b.SetBytes(int64(len(in)))
			for b.Loop() {
				if _, n, err := DecodePacket(in, testLimit); err != nil || n != len(in) {
					b.Fatal(n, err)
				}
			}
		})
	}
}
