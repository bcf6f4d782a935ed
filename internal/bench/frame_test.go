package bench

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

func TestFrameBytes(t *testing.T) {
	for _, test := range []struct {
		name  string
		frame frame
		want  string // length; xid, type; body
	}{
		{"getData", readFrame(wire.OpGetData, path{prefix: "/a"}, true),
			"0000000f 00000000 00000004 00000002 2f61 01"},
		{"setData", setDataFrame(path{prefix: "/a"}, []byte("xyz")),
			"00000019 00000000 00000005 00000002 2f61 00000003 78797a ffffffff"},
		{"create", createFrame(path{prefix: "/a"}, []byte{}),
			"00000031 00000000 00000001 00000002 2f61 00000000 00000001 0000001f " +
				"00000005 776f726c64 00000006 616e796f6e65 00000000"},
		{"delete", deleteFrame(path{prefix: "/a"}),
			"00000012 00000000 00000002 00000002 2f61 ffffffff"},
		{"addWatch", addWatchFrame(path{prefix: "/a"}, zk.AddWatchPersistentRecursive),
			"00000012 00000000 0000006a 00000002 2f61 00000001"},
		{"ping", bareFrame(wire.OpPing, xidPing), "00000008 fffffffe 0000000b"},
	} {
		if got := hex.EncodeToString(test.frame.b); got != strings.ReplaceAll(test.want, " ", "") {
			t.Errorf("%s is\n%s, want\n%s", test.name, got, test.want)
		}
	}
}

// The number is overwritten within the path, and nothing else changes.
func TestFrameNumber(t *testing.T) {
	p := path{prefix: "/some/where/k", numbered: true}
	f := setDataFrame(p, []byte("value"))
	for _, n := range []uint64{7, 123456789, 0, 999999999, 42} {
		f.number(n)
		d := jute.NewDecoder(f.b[requestHead:])
		var r wire.SetDataRequest
		r.Decode(&d)
		if d.Err() != nil || d.Len() != 0 || r.Path != p.at(n) || string(r.Data) != "value" {
			t.Errorf("after number(%d): path %q (want %q), data %q, %v, %d bytes left",
				n, r.Path, p.at(n), r.Data, d.Err(), d.Len())
		}
	}
	if got, want := p.at(42), "/some/where/k000000042"; got != want {
		t.Errorf("at(42) is %q, want %q", got, want)
	}
}

func TestFixedValueIsTheSameAndVaries(t *testing.T) {
	a, b := fixedValue(1000), fixedValue(1000)
	if string(a) != string(b) {
		t.Error("two values differ")
	}
	seen := map[byte]bool{}
	for _, c := range a {
		seen[c] = true
	}
	if len(seen) < 200 {
		t.Errorf("1000 bytes have only %d different values", len(seen))
	}
}

func TestRngBelowCoversItsRange(t *testing.T) {
	r := rng(1)
	var count [10]int
	for range 10000 {
		count[r.below(10)]++
	}
	for i, n := range count {
		if n < 800 || n > 1200 {
			t.Errorf("%d was chosen %d times of 10000", i, n)
		}
	}
}
