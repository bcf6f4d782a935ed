package session

import (
	"encoding/hex"
	"testing"

	"github.com/pinfold-zk/pinfold/zk"
)

// The vectors of the protocol page, sections 3.4 and 19, made by the JDK.
func TestPassword(t *testing.T) {
	for _, c := range []struct {
		id   zk.SessionID
		want string
	}{
		{1, "054cc74a37327db215e702e20c73f005"},
		{0x0100000000000001, "054cc74a37327db215e702e20c73f005"},
		{0x10000abcdef0000, "6392a56db477dd0a797bc8b31d917902"},
		{-1, "20f62cb5648dc2d771471c8a2486a9ee"},
	} {
		p := Password(c.id)
		if got := hex.EncodeToString(p[:]); got != c.want {
			t.Errorf("%v: %s, want %s", c.id, got, c.want)
		}
	}
}

func TestInitialID(t *testing.T) {
	for _, c := range []struct {
		server uint8
		now    int64
		want   zk.SessionID
	}{
		{1, 0x0cf31d, 0x100000cf31d0000}, // as observed on Apache ZooKeeper 3.8.0
		{1, 0, 1 << 56},
		{0, 0, 1},
		{255, 1, -0x100000000000000 + 1<<16},
		{128, 0, -1<<63 + 1},
		{128, 1 << 40, -1<<63 + 1},
		{2, 0x123_4567_89AB_CDEF, 0x2_67_89AB_CDEF_0000},
	} {
		if got := InitialID(c.server, c.now); got != c.want {
			t.Errorf("server %d at %#x: %v, want %v", c.server, c.now, got, c.want)
		}
	}
}

// Invariant 6.
func TestNextID(t *testing.T) {
	tr := NewTracker(Config{TickMillis: 1000, FirstID: 5})
	tr.Add(6, 1000, 0)
	tr.Add(7, 1000, 0)
	for _, want := range []zk.SessionID{5, 8, 9} {
		if got := tr.NextID(); got != want {
			t.Errorf("id %v, want %v", got, want)
		}
	}
	for id := zk.SessionID(3); id < 12; id++ {
		if got, want := tr.Assigned(id), id >= 5 && id <= 9; got != want {
			t.Errorf("id %v is assigned: %v", id, got)
		}
	}
	for _, c := range []struct{ first, second zk.SessionID }{
		{0x01FFFFFFFFFFFFFF, 0x0100000000000000},          // stays below its server's byte
		{0x00FFFFFFFFFFFFFF, 1},                           // never 0
		{-1<<63 + 0x00FFFFFFFFFFFFFF, -1<<63 + 1},         // never the mark of containers
		{-1, -0x0100000000000000},                         // server 255
		{0x7FFFFFFFFFFFFFFF, 0x7F00000000000000},          // no sign change
		{0x0100000000000000 + 0xFFFF, 0x0100000000010000}, // runs on into the time
	} {
		tr := NewTracker(Config{TickMillis: 1000, FirstID: c.first})
		if a, b := tr.NextID(), tr.NextID(); a != c.first || b != c.second {
			t.Errorf("ids %v, %v, want %v, %v", a, b, c.first, c.second)
		}
	}
	for _, bad := range []zk.SessionID{0, -1 << 63} {
		tr := NewTracker(Config{TickMillis: 1000, FirstID: bad})
		if got := tr.NextID(); got != bad+1 {
			t.Errorf("after %v: %v", bad, got)
		}
	}
}

func TestClamp(t *testing.T) {
	for _, c := range []struct{ req, min, max, want int32 }{
		{30000, 4000, 40000, 30000},
		{1, 4000, 40000, 4000},
		{-1, 4000, 40000, 4000},
		{-1 << 31, 4000, 40000, 4000},
		{1<<31 - 1, 4000, 40000, 40000},
		{4000, 4000, 40000, 4000},
		{40000, 4000, 40000, 40000},
		{5, 10, 3, 3},
	} {
		if got := Clamp(c.req, c.min, c.max); got != c.want {
			t.Errorf("%d in [%d, %d]: %d, want %d", c.req, c.min, c.max, got, c.want)
		}
	}
}
