package history

import (
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/zk"
)

// at makes an operation that lasts from call to end.
func at(call, end int, o Op) Op {
	o.Key, o.Call, o.Return = "/r", time.Duration(call), time.Duration(end)
	return o
}

func create(data string, z zk.Zxid) Op { return Op{Kind: Create, Data: data, Zxid: z} }

func set(data string, want, version int32, z zk.Zxid) Op {
	return Op{Kind: Set, Data: data, Want: want, Version: version, Zxid: z}
}

func del(want int32, z zk.Zxid) Op { return Op{Kind: Delete, Want: want, Zxid: z} }

func read(data string, version int32, m, z zk.Zxid) Op {
	return Op{Kind: Read, Data: data, Version: version, Mzxid: m, Zxid: z, Synced: true}
}

func coded(o Op, c zk.Code) Op {
	o.Code = c
	return o
}

func lostAnswer(o Op) Op {
	o.Outcome = Unknown
	return o
}

// expect compares findings with a part of the only one, or with none for "".
func expect(t *testing.T, name string, got []string, want string) {
	t.Helper()
	switch {
	case want == "" && len(got) > 0:
		t.Errorf("%s: found %q, want nothing", name, got)
	case want != "" && (len(got) != 1 || !strings.Contains(got[0], want)):
		t.Errorf("%s: found %q, want one finding with %q", name, got, want)
	}
}

func TestLinearizable(t *testing.T) {
	for _, c := range []struct {
		name string
		ops  []Op
		bad  bool
	}{
		{"in turn", []Op{at(0, 1, create("a", 1)), at(2, 3, set("b", 0, 1, 2)), at(4, 5, read("b", 1, 2, 2))}, false},
		{"stale read", []Op{at(0, 1, create("a", 1)), at(2, 3, set("b", 0, 1, 2)), at(4, 5, read("a", 0, 1, 2))}, true},
		{"read beside the write", []Op{at(0, 1, create("a", 1)), at(2, 9, set("b", 0, 1, 2)), at(4, 5, read("a", 0, 1, 1))}, false},
		{"two sets of one version", []Op{at(0, 1, create("a", 1)), at(2, 5, set("b", 0, 1, 2)), at(3, 6, set("c", 0, 1, 3))}, true},
		{"version not counted", []Op{at(0, 1, create("a", 1)), at(2, 5, set("b", AnyVersion, 2, 2))}, true},
		{"bad version told", []Op{at(0, 1, create("a", 1)), at(2, 3, coded(set("b", 4, 0, 2), zk.ErrBadVersion))}, false},
		{"good version refused", []Op{at(0, 1, create("a", 1)), at(2, 3, coded(set("b", 0, 0, 2), zk.ErrBadVersion))}, true},
		{"created twice", []Op{at(0, 1, create("a", 1)), at(2, 3, create("b", 2))}, true},
		{"created, deleted, created", []Op{at(0, 1, create("a", 1)), at(2, 3, del(0, 2)), at(4, 5, create("b", 3))}, false},
		{"no node where one is", []Op{at(0, 1, create("a", 1)), at(2, 3, coded(del(0, 2), zk.ErrNoNode))}, true},
		{"lost write", []Op{at(0, 1, create("a", 1)), at(2, 3, coded(read("", 0, 0, 2), zk.ErrNoNode))}, true},
		{"unknown that happened", []Op{at(0, 1, lostAnswer(create("a", 0))), at(4, 5, read("a", 0, 1, 1))}, false},
		{"unknown that did not", []Op{at(0, 1, lostAnswer(create("a", 0))), at(4, 5, create("b", 2))}, false},
		{"unknown came and went", []Op{
			at(0, 1, create("a", 1)), at(2, 3, lostAnswer(set("b", 0, 0, 0))),
			at(4, 5, read("b", 1, 2, 2)), at(6, 7, read("a", 0, 1, 3)),
		}, true},
		{"refused unseen", []Op{at(0, 1, coded(create("a", 1), zk.ErrSessionMoved)), at(2, 3, create("b", 2))}, false},
	} {
		got := CheckLinearizable(c.ops, true, time.Minute)
		want := ""
		if c.bad {
			want = "not linearizable"
		}
		expect(t, c.name, got, want)
	}
	stale := []Op{at(0, 1, create("a", 1)), at(2, 3, coded(read("", 0, 0, 0), zk.ErrNoNode))}
	expect(t, "stale read, and reads do not count", CheckLinearizable(stale, false, time.Minute), "")
}

func TestReads(t *testing.T) {
	written := []Op{at(0, 1, create("a", 10)), at(2, 3, set("b", 0, 1, 20)), at(4, 5, lostAnswer(set("c", 1, 0, 0)))}
	for _, c := range []struct {
		name string
		read Op
		want string
	}{
		{"before", coded(read("", 0, 0, 9), zk.ErrNoNode), ""},
		{"at the create", read("a", 0, 10, 10), ""},
		{"between", read("a", 0, 10, 19), ""},
		{"at the set", read("b", 1, 20, 20), ""},
		{"of the unknown", read("c", 2, 25, 30), ""},
		{"too old", read("a", 0, 10, 20), "the one at 0x14 was acknowledged"},
		{"too new", read("b", 1, 20, 19), "shows a write at 0x14"},
		{"gone", coded(read("", 0, 0, 30), zk.ErrNoNode), "does not show the znode"},
		{"other data", read("x", 1, 20, 20), `shows "x"`},
		{"from nowhere", read("x", 2, 25, 30), "nobody has written"},
		{"failed", coded(read("", 0, 0, 30), zk.ErrSystem), "failed"},
	} {
		expect(t, c.name, CheckReads(append(written, at(6, 7, c.read))), c.want)
	}
	deleted := append(written, at(6, 7, lostAnswer(del(-1, 0))), at(8, 9, coded(read("", 0, 0, 30), zk.ErrNoNode)))
	expect(t, "perhaps deleted", CheckReads(deleted), "")
}

func TestOrder(t *testing.T) {
	w := func(z zk.Zxid, call, end int) Write {
		return Write{Zxid: z, Call: time.Duration(call), Return: time.Duration(end)}
	}
	expect(t, "in turn", CheckOrder([]Write{w(1, 0, 1), w(2, 2, 3)}), "")
	expect(t, "at the same time", CheckOrder([]Write{w(2, 0, 5), w(1, 2, 3)}), "")
	expect(t, "turned", CheckOrder([]Write{w(2, 0, 1), w(1, 2, 3)}), "one that had returned at 1ns has 0x2")
	expect(t, "the same", CheckOrder([]Write{w(2, 0, 5), w(2, 2, 3)}), "two writes")
}

func TestLives(t *testing.T) {
	life := Life{ID: 7, Timeout: 10, End: Lost, From: 100, To: 109}
	expect(t, "too early", CheckLives([]Life{life}, 0), "lost after 9ns")
	expect(t, "within the slack", CheckLives([]Life{life}, 1), "")
	life.End = Closed
	expect(t, "closed", CheckLives([]Life{life}, 0), "")
}

func TestBeacons(t *testing.T) {
	alive := Life{Session: 1, ID: 7}
	closed := Life{Session: 1, ID: 7, End: Closed, From: 50, To: 60, Zxid: 20}
	lost := Life{Session: 1, ID: 7, End: Lost, From: 50, To: 60}
	b := Beacon{Path: "/e", Session: 1, Call: 0, Return: 5, Zxid: 10}
	look := func(exists bool, z zk.Zxid, call, end int) Look {
		return Look{Path: "/e", Synced: true, Zxid: z, Exists: exists, Owner: 7, Call: time.Duration(call), Return: time.Duration(end)}
	}
	foreign := look(true, 10, 6, 7)
	foreign.Owner = 8
	unsynced := look(true, 19, 61, 62)
	unsynced.Synced = false
	for _, c := range []struct {
		name string
		life Life
		look Look
		want string
	}{
		{"there", alive, look(true, 10, 6, 7), ""},
		{"not yet", alive, look(false, 9, 1, 4), ""},
		{"too early", alive, look(true, 9, 1, 2), "before it was created"},
		{"not there", alive, look(false, 10, 1, 2), "its session lives"},
		{"not there after a sync", alive, look(false, 9, 6, 7), "its session lives"},
		{"another's", alive, foreign, "its owner is 0x8"},
		{"gone with its session", closed, look(false, 20, 55, 56), ""},
		{"gone before its session", closed, look(false, 19, 55, 56), "its session lives"},
		{"left over", closed, look(true, 20, 55, 56), "after its session was closed"},
		{"left over after a sync", closed, look(true, 19, 61, 62), "although its session was closed"},
		{"left over without a sync", closed, unsynced, ""},
		{"gone with its lost session", lost, look(false, 20, 55, 56), ""},
		{"gone before the loss", lost, look(false, 20, 40, 45), "its session lives"},
		{"within the slack", lost, look(true, 20, 62, 63), ""},
		{"beyond the slack", lost, look(true, 20, 64, 65), "was lost"},
	} {
		expect(t, c.name, CheckBeacons([]Life{c.life}, []Beacon{b}, []Look{c.look}, true, 3), c.want)
	}
	perhaps := b
	perhaps.Outcome = Unknown
	expect(t, "perhaps created", CheckBeacons([]Life{alive}, []Beacon{perhaps}, []Look{look(false, 30, 6, 7)}, true, 3), "")
}

func TestSequentials(t *testing.T) {
	s := func(z zk.Zxid, n int64) Sequential { return Sequential{Parent: "/q", Zxid: z, Number: n} }
	expect(t, "growing", CheckSequentials([]Sequential{s(2, 1), s(1, 0), s(5, 7)}), "")
	expect(t, "twice", CheckSequentials([]Sequential{s(1, 3), s(2, 3)}), "number 3")
	expect(t, "falling", CheckSequentials([]Sequential{s(1, 3), s(2, 2)}), "number 2")
	other := s(3, 0)
	other.Parent = "/p"
	expect(t, "of two parents", CheckSequentials([]Sequential{s(1, 3), other}), "")
}
