package recipe

import (
	"slices"
	"testing"
)

func TestParsePlace(t *testing.T) {
	for _, test := range []struct {
		name string
		want place
		ok   bool
	}{
		{"_c_0b1f8a2e-1111-2222-3333-444455556666-lock-0000000007", place{seq: 7}, true},
		{"lock-0000000007", place{seq: 7}, true},
		{"0b1f8a2e11112222333344445555666a__lock__0000000007", place{seq: 7}, true},
		{"0b1f8a2e11112222333344445555666a__rlock__0000000007", place{seq: 7, shared: true}, true},
		{"_c_0b1f8a2e-1111-2222-3333-444455556666-__READ__0000000012", place{seq: 12, shared: true}, true},
		{"_c_0b1f8a2e-1111-2222-3333-444455556666-__WRIT__0000000012", place{seq: 12}, true},
		{"guid-read-2147483647", place{seq: 1<<31 - 1, shared: true}, true},
		{"write--2147483648", place{seq: -1 << 31}, true},
		{"write--000000001", place{seq: -1}, true},
		{"lock-lock-0000000001", place{seq: 1}, true},
		{"lock-00000000001", place{}, false},
		{"lock-2147483648", place{}, false},
		{"lock-000000001", place{}, false},
		{"lock-+000000001", place{}, false},
		{"lock-000000000x", place{}, false},
		{"guid-n_0000000007", place{seq: 7}, true},
		{"lease-0000000001", place{}, false},
		{"0000000001", place{}, false},
		{"lock-", place{}, false},
	} {
		if test.ok {
			test.want.name = test.name
		}
		got, ok := parsePlace(test.name)
		got.family = test.want.family // TestFamilies has them
		if got != test.want || ok != test.ok {
			t.Errorf("%s: %+v, %v, want %+v, %v", test.name, got, ok, test.want, test.ok)
		}
	}
}

// What we call our own is understood, and found by its GUID.
func TestNamesAreUnderstood(t *testing.T) {
	for _, n := range []NodeNames{CuratorNames, KazooNames, SelectorNames, ZooKeeperNames} {
		for _, kind := range []lockKind{mutexKind, writeKind, readKind, candidateKind} {
			name := n.name(kind, n.newGUID()) + "0000000003"
			if p, ok := parsePlace(name); !ok || p.seq != 3 || p.shared != (kind == readKind) {
				t.Errorf("%s: %+v, %v", name, p, ok)
			}
		}
	}
}

func TestBefore(t *testing.T) {
	line := lineOf([]string{
		"read--2147483648", "lock-2147483646", "x", "read-2147483647", "write--2147483647", "b__rlock__-2147483646", "c-__READ__-2147483645",
	})
	var names []string
	for _, p := range line {
		names = append(names, p.name)
	}
	order := []string{"lock-2147483646", "read-2147483647", "read--2147483648", "write--2147483647", "b__rlock__-2147483646", "c-__READ__-2147483645"}
	if !slices.Equal(names, order) {
		t.Fatalf("the line is %q", names)
	}
	for i, want := range []string{"", order[0], order[0], order[2], order[3], order[3]} {
		if got, ok := before(line, order[i], line[i].shared); got != want || !ok {
			t.Errorf("%s waits for %q, %v; want %q", order[i], got, ok, want)
		}
	}
	if got, ok := before(line, order[5], false); got != order[4] || !ok {
		t.Errorf("a writer waits for %q, %v", got, ok)
	}
	if _, ok := before(line, "lock-0000000001", false); ok {
		t.Error("who is not in the line is found")
	}
}

// Each library's names are of one family, which no other library has.
func TestFamilies(t *testing.T) {
	for _, test := range []struct {
		kind lockKind
		want map[NodeNames]family
	}{
		{mutexKind, map[NodeNames]family{CuratorNames: lockFamily, SelectorNames: lockFamily, ZooKeeperNames: lockFamily, KazooNames: kazooFamily}},
		{writeKind, map[NodeNames]family{CuratorNames: curatorRWFamily, SelectorNames: curatorRWFamily, ZooKeeperNames: pageRWFamily, KazooNames: kazooFamily}},
		{readKind, map[NodeNames]family{CuratorNames: curatorRWFamily, SelectorNames: curatorRWFamily, ZooKeeperNames: pageRWFamily, KazooNames: kazooFamily}},
		{candidateKind, map[NodeNames]family{CuratorNames: latchFamily, SelectorNames: lockFamily, ZooKeeperNames: pageLeaderFamily, KazooNames: kazooFamily}},
	} {
		for n, want := range test.want {
			if got := n.family(test.kind); got != want {
				t.Errorf("names %d of kind %d are of family %d, want %d", n, test.kind, got, want)
			}
		}
	}
}
