package keeper

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"runtime"
	"testing"
	"testing/fstest"

	"github.com/pinfold-zk/pinfold/internal/jute"
)

// within runs f, and reports if it takes more than 1 MiB and n bytes of memory.
func within(t *testing.T, n int, f func()) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20+uint64(n) {
		t.Errorf("it took %d bytes of memory, and may take %d", got, n)
	}
}

// whole checks what must always hold of a state.
func whole(t *testing.T, s *State) {
	sum, names, owned := uint64(0), 0, 0
	for path, z := range s.znodes {
		sum += z.digest(path)
		names += len(z.names)
		if z.Owner != 0 {
			owned++
		}
		if dir, name, _ := split(path); path != "/" {
			if _, ok := s.znodes[dir].names[name]; !ok {
				t.Errorf("%q is not a child of its parent", path)
			}
		}
	}
	for _, x := range s.sessions {
		owned -= len(x.ephemerals)
	}
	if sum != s.digest.value || names != len(s.znodes)-1 || owned != 0 {
		t.Errorf("%d znodes, %d names, %d ephemerals too many, digests %#x and %#x", len(s.znodes), names, owned, sum, s.digest.value)
	}
}

// smallSnapshot is one of version 6: a root, an ephemeral of session 4 below it, an empty ACL, no digest.
func smallSnapshot() []byte {
	b := append([]byte{6, 25, 1, 40}, make([]byte, 23)...)
	b = append(append(b, make([]byte, 8+1+8)...), 1, 0, 0, 0, 0, 0, 0, 0, 1)
	b = append(b, make([]byte, 7+8+8)...)
	znode := func(path string, owner byte) {
		b = append(append(append(b, byte(len(path))), path...), 1, 'x')
		b = append(append(b, make([]byte, 8+32+12)...), owner)
		b = append(b, make([]byte, 7+4+8+4)...)
	}
	binary.LittleEndian.PutUint64(b[len(b)-8:], 2)
	znode("/", 0)
	znode("/e", 4)
	return append(append(b, 1, 0, 0, 0, 0, 0, 0, 0, 4), make([]byte, 7+8+8)...)
}

// FuzzSnapshot: whatever a snapshot holds, reading it ends, with a whole state or with an error, and takes no more memory
// than it has data for.
func FuzzSnapshot(f *testing.F) {
	if s, err := readSnapshot(&reader{in: bufio.NewReader(bytes.NewReader(smallSnapshot()))}); err != nil || len(s.znodes) != 3 {
		f.Fatal(err)
	}
	f.Add(smallSnapshot())
	f.Fuzz(func(t *testing.T, b []byte) {
		within(t, 1000*len(b), func() {
			if s, err := readSnapshot(&reader{in: bufio.NewReader(bytes.NewReader(b))}); err == nil {
				whole(t, s)
			}
		})
	})
}

// FuzzChangelog: whatever a changelog holds, reading it ends; what is replayed was found.
func FuzzChangelog(f *testing.F) {
	rec := binary.LittleEndian.AppendUint64([]byte{2}, 1)
	rec = append(rec, make([]byte, 8+4)...)
	rec = append(binary.LittleEndian.AppendUint64(rec, 3), "abc"...)
	f.Add(append(binary.LittleEndian.AppendUint64(nil, Checksum(rec)), rec...), false)
	f.Fuzz(func(t *testing.T, b []byte, compressed bool) {
		name, budget := "changelog_1_9.bin", 100*len(b)
		if compressed { // three bytes may stand for 128 KiB
			name, budget = name+".zstd", 4*maxWindow+len(b)<<18
		}
		within(t, budget, func() {
			c, err := openChangelogs(fstest.MapFS{name: {Data: b}})
			if err == nil {
				err = c.find(0)
			}
			if err != nil {
				return
			}
			replayed := 0
			err = c.replay(uint64(len(c.owner)), func(record) error { replayed++; return nil })
			if err != nil || replayed > len(c.owner) {
				t.Errorf("%d replayed of %d: %v", replayed, len(c.owner), err)
			}
		})
	})
}

// FuzzRequests: whatever the entries hold, the state is whole after each, and as before if the entry is refused. The
// input is a row of requests, each with its length in two bytes.
func FuzzRequests(f *testing.F) {
	add := func(b []byte, op int32, body []byte) []byte {
		request := append(jute.AppendInt(jute.AppendInt(nil, 1), op), body...)
		return append(binary.BigEndian.AppendUint16(b, uint16(len(request))), request...)
	}
	create := func(path string, flags int32) []byte {
		return jute.AppendInt(jute.AppendInt(jute.AppendBuffer(jute.AppendString(nil, path), nil), 0), flags)
	}
	multi := func(ops ...[]byte) (b []byte) {
		for _, body := range ops {
			b = append(jute.AppendInt(append(jute.AppendInt(b, 1), 0), -1), body...)
		}
		return jute.AppendInt(append(jute.AppendInt(b, -1), 1), -1)
	}
	seed := add(add(add(nil, 1, create("/a", 0)), 1, create("/a/e", 3)), 14, multi(create("/b", 1), create("/b", 0)))
	seed = add(add(seed, 503, jute.AppendInt(jute.AppendString(nil, "/a"), 9)), 14, multi(create("/c", 1), create("/d", 1)))
	f.Add(add(add(seed, 5, jute.AppendInt(jute.AppendBuffer(jute.AppendString(nil, "/c"), []byte("x")), -1)), -11, nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := emptyState()
		for index := uint64(1); len(b) >= 2; index++ {
			n := min(int(binary.BigEndian.Uint16(b)), len(b)-2)
			entry := jute.AppendBuffer(binary.LittleEndian.AppendUint64(nil, 1), b[2:2+n])
			b = b[2+n:]
			before, znodes := s.digest, len(s.znodes)
			within(t, 1000*(len(entry)+1000*znodes), func() {
				if err := s.apply(binary.LittleEndian.AppendUint64(entry, 99), index, 1); err != nil && (s.digest != before || len(s.znodes) != znodes) {
					t.Errorf("entry %d was refused (%v), and has changed the state", index, err)
				} else if errors.Is(err, errNoTime) {
					t.Error(err)
				}
			})
		}
		whole(t, s)
	})
}
