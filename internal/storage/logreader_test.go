package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/test/faultfs"
	"github.com/pinfold-zk/pinfold/zk"
)

const testLogDir = "/data/version-2/"

// logBytes returns a log file of the given entries.
func logBytes(entries ...entry) []byte {
	b := appendFileHeader(nil, logMagic, 0)
	for _, e := range entries {
		b = binary.BigEndian.AppendUint64(b, uint64(sumAdler(adlerInit, e.payload)))
		b = binary.BigEndian.AppendUint32(b, uint32(len(e.payload)))
		b = append(append(b, e.payload...), entryEnd)
	}
	return b
}

func testEntries(n int, zxids ...zk.Zxid) (es []entry) {
	for _, z := range zxids {
		es = append(es, entry{z, testPayload(z, n)})
	}
	return es
}

// failedEntry is what Apache 3.9 logs of a write that it cannot read.
func failedEntry(z zk.Zxid) entry {
	p := testPayload(z, 36)
	binary.BigEndian.PutUint32(p[txnTypeOffset:], 0xFFFFFFFF)
	return entry{z, p}
}

// putLogs makes a directory of log files and opens it.
func putLogs(t testing.TB, files map[string][]byte) *Dir {
	t.Helper()
	mem := vfs.NewMem()
	for name, b := range files {
		putFile(t, mem, testLogDir+name, b)
	}
	return openTest(t, mem, testOptions())
}

// checkDamage fails unless err is damage of a file at an offset.
func checkDamage(t *testing.T, err error, kind error, name string, offset int64) {
	t.Helper()
	e, ok := errors.AsType[*Error](err)
	if !ok || !errors.Is(err, kind) || e.Name != testLogDir+name || e.Offset != offset {
		t.Errorf("error %v, want %v in %s at byte %d", err, kind, name, offset)
	}
}

// Where a log ends, and what is cut.
func TestTail(t *testing.T) {
	es := testEntries(1000, 1, 2, 3)
	whole := logBytes(es...)
	two := int64(len(logBytes(es[:2]...)))
	zeros := make([]byte, 5000)
	zeroed := func(from, to int64) []byte {
		b := bytes.Clone(whole)
		clear(b[from:to])
		return append(b, zeros...)
	}
	sector := func(off int64) int64 { return off / 512 * 512 }
	tests := []struct {
		name  string
		file  []byte
		n     int   // entries
		bytes int64 // of the tail
		torn  bool
	}{
		{"ends with the entry", whole, 3, int64(len(whole)), false},
		{"zeros behind", append(bytes.Clone(whole), zeros...), 3, int64(len(whole)), false},
		{"a few zeros behind", append(bytes.Clone(whole), 0, 0, 0), 3, int64(len(whole)), false},
		{"cut in the payload", whole[:two+600], 2, two, true},
		{"cut in the length", whole[:two+10], 2, two, true},
		{"end byte missing", whole[:len(whole)-1], 2, two, true},
		{"last sectors never written", zeroed(sector(two+700), int64(len(whole))), 2, two, true},
		{"first sector never written", zeroed(two, sector(two)+512), 2, two, true},
		{"middle sector never written", zeroed(sector(two)+512, sector(two)+1024), 2, two, true},
		{"two entries of one write, the first torn", zeroed(1536, 2048), 1, int64(len(logBytes(es[0]))), true},
		{"empty", nil, 0, 0, true},
		{"part of a header", whole[:9], 0, 0, true},
		{"header only", whole[:16], 0, 0, false},
		{"header and zeros", append(bytes.Clone(whole[:16]), zeros...), 0, 0, false},
		{"header never written", zeroed(0, 512), 0, 0, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := putLogs(t, map[string][]byte{"log.1": tt.file})
			got, tail, err := readAll(d, 0)
			if err != nil {
				t.Fatal(err)
			}
			if !sameEntries(got, es[:tt.n]) || tail.Torn != tt.torn || tail.Bytes != tt.bytes ||
				tail.Size != int64(len(tt.file)) || tail.Torn != (tail.Reason != "") {
				t.Fatalf("%d entries, tail %+v", len(got), tail)
			}
			if err := d.CutTail(tail); err != nil {
				t.Fatal(err)
			}
			if has, _ := d.HasLog(); has != (tt.n > 0) {
				t.Fatalf("a log is there: %v", has)
			}
			if tt.n > 0 && !bytes.Equal(readFile(t, d.fs, tail.Name), whole[:tt.bytes]) {
				t.Fatal("the cut file is not what is valid of it")
			}
		})
	}
}

// What no crash explains is refused, by file and offset.
func TestDamage(t *testing.T) {
	es := testEntries(1000, zxids(1, 6)...)
	end := func(n int) int64 { return int64(len(logBytes(es[:n]...))) }
	change := func(f func(b []byte)) []byte {
		b := append(logBytes(es[:3]...), make([]byte, 2000)...)
		f(b)
		return b
	}
	next := logBytes(es[3:]...)
	tests := []struct {
		name   string
		first  []byte
		next   bool // there is a log.4
		offset int64
	}{
		{"garbage over an entry", change(func(b []byte) { copy(b[end(1)+100:], "garbage") }), false, end(1)},
		{"garbage over the last entry", change(func(b []byte) { copy(b[end(2)+100:], "garbage") }), false, end(2)},
		{"garbage for a length", change(func(b []byte) { copy(b[end(1)+8:], "garb") }), false, end(1)},
		{"negative length", change(func(b []byte) { b[end(1)+8] = 0xff }), false, end(1)},
		{"lower-case end byte", change(func(b []byte) { b[end(3)-1] = 'b' }), false, end(2)},
		{"lost sector in a log that goes on", change(func(b []byte) { clear(b[1024:1536]) }), true, 16},
		{"torn in a log that goes on", logBytes(es[:3]...)[:end(3)-100], true, end(2)},
		{"a bit behind a log that goes on", change(func(b []byte) { b[end(3)+900] = 1 }), true, end(3)},
		{"empty and goes on", nil, true, 0},
		{"wrong magic", change(func(b []byte) { b[3] = 'N' }), false, 0},
		{"wrong version", change(func(b []byte) { b[7] = 3 }), false, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			files := map[string][]byte{"log.1": tt.first}
			if tt.next {
				files["log.4"] = next
			}
			_, _, err := readAll(putLogs(t, files), 0)
			checkDamage(t, err, ErrCorrupt, "log.1", tt.offset)
		})
	}
}

// A hole with more data behind it than one write can have brought is damage.
func TestHoleFarFromTheEnd(t *testing.T) {
	es := testEntries(1<<20-100, zxids(1, 8)...)
	b := logBytes(es...)
	clear(b[1024:1536])
	_, _, err := readAll(putLogs(t, map[string][]byte{"log.1": b}), 0)
	checkDamage(t, err, ErrCorrupt, "log.1", 16)
}

// Invariant 3 for logs: for every bit of a log, the log is read exactly or
// refused; also where a payload is full of holes of its own, and at the end of a
// file with and without zeros behind.
func TestEveryFlippedBitOfLog(t *testing.T) {
	es := testEntries(40, 1, 2)
	hollow := testPayload(3, 1600)
	clear(hollow[txnHeadBytes:])
	es = append(es, entry{3, hollow}, entry{4, testPayload(4, 33)})
	for _, zeros := range []int{0, 600} {
		file := append(logBytes(es...), make([]byte, zeros)...)
		used := len(file) - zeros
		for bit := range len(file) * 8 {
			file[bit/8] ^= 1 << (bit % 8)
			d := putLogs(t, map[string][]byte{"log.1": file})
			got, _, err := readAll(d, 0)
			file[bit/8] ^= 1 << (bit % 8)
			switch {
			case err != nil:
				if e, ok := errors.AsType[*Error](err); !ok || e.Kind != ErrCorrupt || e.Offset > int64(bit/8) {
					t.Fatalf("bit %d: %v", bit, err)
				}
				if bit/8 >= headerBytes && bit/8 < used && !strings.Contains(err.Error(), fmt.Sprintf("at byte %d", bit/8)) {
					t.Fatalf("bit %d of byte %d is not named: %v", bit, bit/8, err)
				}
			case !sameEntries(got, es):
				t.Fatalf("bit %d of byte %d: read %d entries without an error", bit%8, bit/8, len(got))
			}
		}
	}
}

// Zxids follow one another; gaps between neighbours are counted; what is there
// again is skipped; the rest is refused.
func TestContiguity(t *testing.T) {
	e := func(z zk.Zxid) entry { return entry{z, testPayload(z, 50)} }
	other := entry{2, testPayload(2, 60)}
	multi := func(z zk.Zxid, cxid byte, n int) entry {
		p := testPayload(z, n)
		clear(p[:txnZxidOffset])
		p[txnCxidOffset] = cxid
		binary.BigEndian.PutUint32(p[txnTypeOffset:], 14)
		return entry{z, p}
	}
	e2 := zk.MakeZxid(2, 0)
	tests := []struct {
		name    string
		after   zk.Zxid
		entries []entry
		want    []zk.Zxid
		dups    int
		gap     int // index of the entry behind the first gap, 0 for none
		bad     int // index of the entry that is refused, -1 for none
	}{
		{"in order", 0, []entry{e(1), e(2), e(3)}, []zk.Zxid{1, 2, 3}, 0, 0, -1},
		{"from anywhere after 0", 0, []entry{e(5), e(6)}, []zk.Zxid{5, 6}, 0, 0, -1},
		{"new epoch", 0, []entry{e(1), e(e2 + 1), e(e2 + 2)}, []zk.Zxid{1, e2 + 1, e2 + 2}, 0, 0, -1},
		{"gap", 0, []entry{e(1), e(3), e(4), e(6)}, []zk.Zxid{1, 3, 4, 6}, 0, 1, -1},
		{"gap to a new epoch", 0, []entry{e(1), e(e2 + 2)}, []zk.Zxid{1, e2 + 2}, 0, 1, -1},
		{"gap to a new epoch's zero", 0, []entry{e(1), e(e2)}, []zk.Zxid{1, e2}, 0, 1, -1},
		{"snapshot within a gap", 3, []entry{e(1), e(2), e(5)}, nil, 0, 0, 2},
		{"snapshot at a gap", 2, []entry{e(1), e(2), e(5)}, []zk.Zxid{5}, 0, 2, -1},
		{"gap behind the snapshot", 3, []entry{e(5), e(6)}, nil, 0, 0, 0},
		{"gap that the snapshot covers", 6, []entry{e(1), e(5), e(6), e(7)}, []zk.Zxid{7}, 0, 0, -1},
		{"older epoch", 0, []entry{e(e2 + 1), e(7)}, []zk.Zxid{e2 + 1}, 0, 0, 1},
		{"again", 0, []entry{e(1), e(2), e(2), e(3)}, []zk.Zxid{1, 2, 3}, 1, 0, -1},
		{"again, then a gap", 0, []entry{e(1), e(2), e(2), e(4)}, []zk.Zxid{1, 2, 4}, 1, 3, -1},
		{"an older one again, then a gap", 0, []entry{e(1), e(2), e(1), e(4)}, []zk.Zxid{1, 2}, 1, 0, 3},
		{"two again", 0, []entry{e(1), e(2), e(1), e(2), e(3)}, []zk.Zxid{1, 2, 3}, 2, 0, -1},
		{"error under the zxid before", 0, []entry{e(1), failedEntry(1), e(2), failedEntry(2), failedEntry(2), e(3)}, []zk.Zxid{1, 2, 3}, 3, 0, -1},
		{"error first in the file", 1, []entry{failedEntry(1), failedEntry(1), e(2)}, []zk.Zxid{2}, 0, 0, -1},
		{"error under an older zxid", 0, []entry{e(1), e(2), failedEntry(1)}, []zk.Zxid{1, 2}, 0, 0, 2},
		{"error under a new epoch's zero", 0, []entry{e(1), failedEntry(e2), e(e2 + 1)}, []zk.Zxid{1, e2 + 1}, 1, 0, -1},
		{"error with a zxid of its own", 0, []entry{e(1), failedEntry(2), e(3)}, []zk.Zxid{1, 2, 3}, 0, 0, -1},
		{"error under a zxid, then a gap", 0, []entry{e(1), failedEntry(1), e(3)}, []zk.Zxid{1, 3}, 1, 2, -1},
		{"a multi again, with other errors", 0, []entry{e(1), multi(2, 7, 80), e(3), multi(2, 7, 60), e(3), e(4)}, []zk.Zxid{1, 2, 3, 4}, 2, 0, -1},
		{"another multi", 0, []entry{e(1), multi(2, 7, 80), multi(2, 8, 60)}, []zk.Zxid{1, 2}, 0, 0, 2},
		{"again but different", 0, []entry{e(1), e(2), other}, []zk.Zxid{1, 2}, 0, 0, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			name := "log." + tt.entries[0].zxid.Hex()
			d := putLogs(t, map[string][]byte{name: logBytes(tt.entries...)})
			r, err := d.ReadLog(tt.after)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			var got []zk.Zxid
			for {
				_, err = r.Next()
				if err != nil {
					break
				}
				got = append(got, r.LastZxid())
			}
			if fmt.Sprint(got) != fmt.Sprint(tt.want) || r.Duplicates() != tt.dups {
				t.Errorf("read %v and %d again, want %v and %d", got, r.Duplicates(), tt.want, tt.dups)
			}
			offset := func(i int) int64 { return int64(len(logBytes(tt.entries[:i]...))) }
			if tt.bad >= 0 {
				checkDamage(t, err, ErrGap, name, offset(tt.bad))
			} else if err != io.EOF {
				t.Error(err)
			}
			n, first := r.Gaps()
			if tt.gap == 0 && n == 0 {
				return
			}
			want := Gap{testLogDir + name, offset(tt.gap), tt.entries[tt.gap-1].zxid, tt.entries[tt.gap].zxid}
			if n == 0 || first != want {
				t.Errorf("%d gaps, the first %+v, want %+v", n, first, want)
			}
		})
	}
}

// A gap between two files is a lost file, and the error tells the operator which
// two and what to do.
func TestGapBetweenFiles(t *testing.T) {
	tests := []struct {
		name  string
		after zk.Zxid
		want  []string // in the reason, nil if there is no error
	}{
		{"the file before was read", 1, []string{testLogDir + "log.1", "begins with 0x7", "ends with 0x3", "snapshot of 0x6 or later"}},
		{"the snapshot is the last of the file before", 3, []string{"snapshot goes up to 0x3", "is 0x7", "snapshot of 0x6 or later"}},
		{"the snapshot covers what is missing", 6, nil},
		{"the snapshot is later", 7, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := putLogs(t, map[string][]byte{
				"log.1": logBytes(testEntries(50, 1, 2, 3)...),
				"log.7": logBytes(testEntries(50, 7, 8)...),
			})
			_, _, err := readAll(d, tt.after)
			if tt.want == nil {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			checkDamage(t, err, ErrGap, "log.7", headerBytes)
			for _, part := range tt.want {
				if !strings.Contains(fmt.Sprint(err), part) {
					t.Errorf("the error does not say %q: %v", part, err)
				}
			}
		})
	}
}

// The name of a file is the zxid of its first entry.
func TestMisnamedLog(t *testing.T) {
	d := putLogs(t, map[string][]byte{"log.2": logBytes(testEntries(50, 3)...)})
	_, _, err := readAll(d, 0)
	checkDamage(t, err, ErrCorrupt, "log.2", 16)
}

// A log that is not there is an empty one, with nothing to cut.
func TestNoLog(t *testing.T) {
	d := openTest(t, vfs.NewMem(), testOptions())
	got, tail, err := readAll(d, 7)
	if err != nil || len(got) != 0 || tail != (Tail{}) {
		t.Fatalf("%d entries, tail %+v, %v", len(got), tail, err)
	}
	if err := d.CutTail(tail); err != nil {
		t.Fatal(err)
	}
}

// A length is no reason to allocate: a file that claims a giant entry is refused
// by what it holds.
func TestGiantLength(t *testing.T) {
	mem := vfs.NewMem()
	b := logBytes(testEntries(50, 1)...)
	at := len(b)
	b = append(b, make([]byte, 8)...)
	b = append(b, 0x7f, 0xff, 0xff, 0xff)
	putFile(t, mem, testLogDir+"log.1", append(b, "data"...))
	o := testOptions()
	o.Log.MaxEntryBytes = 1 << 31
	d := openTest(t, mem, o)
	got, tail, err := readAll(d, 0)
	if err != nil || len(got) != 1 || !tail.Torn || tail.Bytes != int64(at) {
		t.Fatalf("%d entries, tail %+v, %v", len(got), tail, err)
	}
}

// Errors of the disk are neither an end nor damage.
func TestReadErrorAtEveryOperation(t *testing.T) {
	mem := vfs.NewMem()
	es := testEntries(300, zxids(1, 6)...)
	putFile(t, mem, testLogDir+"log.1", append(logBytes(es[:3]...), make([]byte, 1000)...))
	putFile(t, mem, testLogDir+"log.4", logBytes(es[3:]...)[:700])
	for at := 1; ; at++ {
		fault := faultfs.New(mem, at, faultfs.IO, nil)
		d, err := Open(fault, testOptions())
		if err == nil {
			_, _, err = readAll(d, 0)
			err = errors.Join(err, d.Close())
		}
		if err == nil {
			if at < 8 {
				t.Fatalf("only %d operations", at)
			}
			break
		}
		if errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "injected") {
			t.Fatalf("operation %d: %v", at, err)
		}
	}
}
