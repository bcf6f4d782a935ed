package auth

import (
	"fmt"
	"slices"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/access"
	"github.com/pinfold-zk/pinfold/zk"
)

func entry(p zk.Perms, scheme, id string) zk.ACL {
	return zk.ACL{Perms: p, ID: zk.ID{Scheme: scheme, ID: id}}
}

var anyone = entry(zk.PermAll, "world", "anyone")

// The answers are those of Apache ZooKeeper 3.8.0, but for IPv6.
func TestFixUpIdentities(t *testing.T) {
	a := mustNew(t, Config{})
	for _, c := range []struct {
		scheme, id string
		ok         bool
	}{
		{"world", "anyone", true}, {"world", "other", false}, {"world", "", false},
		{"auth", "", false}, {"auth", "x", false},
		{"sasl", "u", false}, {"sasl", "u@R", false}, {"x509", "CN=a", false},
		{"super", "", false}, {"ensemble", "e", false}, {"key", "1", false},
		{"", "", false}, {"", "x", false}, {"Digest", "u:h", false},
		{"digest", "u:h", true}, {"digest", ":h", true}, {"digest", "u:h:", true},
		{"digest", "u:h::", true}, {"digest", "u:", false}, {"digest", "u", false},
		{"digest", "", false}, {"digest", ":", false}, {"digest", "a::b", false},
		{"digest", "a:b:c", false},
		{"ip", "1.2.3.4", true}, {"ip", "1.2.3.4/8", true}, {"ip", "1.2.3.4/0", true},
		{"ip", "1.2.3.4/32", true}, {"ip", "01.002.3.4", true}, {"ip", "+1.2.3.4", true},
		{"ip", "-0.2.3.4", true}, {"ip", "1.2.3.4/+8", true}, {"ip", "1.2.3.4/-0", true},
		{"ip", "00000000000001.2.3.4", true},
		{"ip", "1.2.3.4/33", false}, {"ip", "1.2.3.4/-1", false}, {"ip", "1.2.3.4/", false},
		{"ip", "1.2.3.4/8/9", false}, {"ip", "1.2.3", false}, {"ip", "1.2.3.4.", false},
		{"ip", "1.2.3.4.5", false}, {"ip", "256.1.1.1", false}, {"ip", "-1.1.1.1", false},
		{"ip", "", false}, {"ip", "/", false}, {"ip", "/8", false}, {"ip", "host", false},
		{"ip", "1.2.3.4 ", false}, {"ip", "99999999999.1.1.1", false}, {"ip", "1.2.3.a", false},
		{"ip", "4294967297.1.1.1", false}, {"ip", "99999999999999999999999.1.1.1", false},
		{"ip", "::1", true}, {"ip", "::", true}, {"ip", "1::", true}, {"ip", "::/0", true},
		{"ip", "1:2:3:4:5:6:7:8", true}, {"ip", "1:2:3:4:5:6:7::", true},
		{"ip", "FE80::abcd/10", true}, {"ip", "::/128", true},
		{"ip", "::/129", false}, {"ip", "1:2:3:4:5:6:7", false}, {"ip", ":::", false},
		{"ip", "1:2:3:4:5:6:7:8:9", false}, {"ip", "1:2:3:4:5:6:7:8::", false},
		{"ip", "1::2::3", false}, {"ip", "::::", false}, {"ip", ":", false}, {"ip", ":1", false},
		{"ip", "1:2:3:4:5:6:7:", false}, {"ip", "12345::", false}, {"ip", "g::", false},
		{"ip", "::ffff:1.2.3.4", false}, {"ip", "fe80::1%eth0", false},
		{"ip", "1:2:3:4::5:6:7:8", false},
	} {
		e := entry(zk.PermAll, c.scheme, c.id)
		want, wantCode := []zk.ACL{e, anyone}, zk.OK
		if !c.ok {
			want, wantCode = nil, zk.ErrInvalidACL
		} else if e == anyone {
			want = want[:1]
		}
		got, code := a.FixUp([]zk.ACL{e, anyone}, []zk.ID{peer})
		if code != wantCode || !slices.Equal(got, want) {
			t.Errorf("%s:%s: %v, %v, want %v", c.scheme, c.id, got, code, wantCode)
		}
	}
}

func TestFixUpLists(t *testing.T) {
	u, v := digest("u:h"), digest("v:h")
	ids := []zk.ID{peer, {Scheme: "super"}, u, v}
	auth := func(p zk.Perms, id string) zk.ACL { return entry(p, "auth", id) }
	a := mustNew(t, Config{})
	for _, c := range []struct {
		name     string
		in, want []zk.ACL
	}{
		{"null", nil, nil},
		{"empty", []zk.ACL{}, nil},
		{"any bits", []zk.ACL{{Perms: 0, ID: zk.AnyoneUnsafe}, {Perms: -1, ID: zk.AnyoneUnsafe}},
			[]zk.ACL{{Perms: 0, ID: zk.AnyoneUnsafe}, {Perms: -1, ID: zk.AnyoneUnsafe}}},
		{"duplicates",
			[]zk.ACL{anyone, {Perms: 1, ID: zk.AnyoneUnsafe}, anyone, {Perms: 31, ID: u}, anyone, {Perms: 31, ID: u}},
			[]zk.ACL{anyone, {Perms: 1, ID: zk.AnyoneUnsafe}, {Perms: 31, ID: u}}},
		{"auth", []zk.ACL{anyone, auth(3, "ignored"), {Perms: 1, ID: u}},
			[]zk.ACL{anyone, {Perms: 3, ID: u}, {Perms: 3, ID: v}, {Perms: 1, ID: u}}},
		{"auth beside its own result", []zk.ACL{{Perms: 31, ID: u}, auth(31, ""), auth(31, "x"), auth(31, "")},
			[]zk.ACL{{Perms: 31, ID: u}, {Perms: 31, ID: u}, {Perms: 31, ID: v}, {Perms: 31, ID: u}, {Perms: 31, ID: v}}},
		{"one bad entry", []zk.ACL{anyone, auth(31, ""), entry(31, "digest", "bad")}, nil},
	} {
		before := slices.Clone(c.in)
		got, code := a.FixUp(c.in, ids)
		if !slices.Equal(got, c.want) || (code == zk.OK) != (c.want != nil) {
			t.Errorf("%s: %v, %v, want %v", c.name, got, code, c.want)
		}
		if !slices.Equal(before, c.in) {
			t.Errorf("%s: the input was changed to %v", c.name, c.in)
		}
	}
	off := mustNew(t, Config{DigestDisabled: true})
	for _, acl := range [][]zk.ACL{zk.CreatorAllACL(), {{Perms: 31, ID: u}}} {
		if _, code := off.FixUp(acl, ids); code != zk.ErrInvalidACL {
			t.Errorf("digest off: %v gives %v", acl, code)
		}
	}
}

// A list is compared pairwise or by map; both leave the same.
func TestFixUpLongLists(t *testing.T) {
	a := mustNew(t, Config{})
	for _, n := range []int{1, 15, 16, 17, 100} {
		var in, want []zk.ACL
		for i := range n {
			e := entry(zk.Perms(i%4), "digest", fmt.Sprintf("u%d:h", i%7))
			if !slices.Contains(in, e) {
				want = append(want, e)
			}
			in = append(in, e)
		}
		if got, code := a.FixUp(in, nil); code != zk.OK || !slices.Equal(got, want) {
			t.Errorf("%d entries: %v, want %v", n, got, want)
		}
	}
}

// Invariant 2: no small request becomes a giant ACL.
func TestFixUpBoundsExpansion(t *testing.T) {
	a := mustNew(t, Config{})
	ids := make([]zk.ID, MaxIdentities)
	for i := range ids {
		ids[i] = digest(fmt.Sprintf("u%d:h", i))
	}
	acl := make([]zk.ACL, MaxExpanded/MaxIdentities)
	for i := range acl {
		acl[i] = entry(zk.Perms(i), "auth", "")
	}
	if got, code := a.FixUp(acl, ids); code != zk.OK || len(got) != MaxExpanded {
		t.Errorf("at the limit: %d entries, %v", len(got), code)
	}
	acl = append(acl, entry(-1, "auth", ""))
	if got, code := a.FixUp(acl, ids); code != zk.ErrInvalidACL || got != nil {
		t.Errorf("beyond the limit: %d entries, %v", len(got), code)
	}
}

func TestAllowed(t *testing.T) {
	u := digest("u:h")
	a := mustNew(t, Config{})
	off := mustNew(t, Config{DigestDisabled: true})
	skip := mustNew(t, Config{SkipACL: true})
	const r, w = zk.PermRead, zk.PermWrite
	for _, c := range []struct {
		name string
		a    *Authority
		acl  []zk.ACL
		want zk.Perms
		ids  []zk.ID
		ok   bool
	}{
		{"null", a, nil, w, nil, true},
		{"empty", a, []zk.ACL{}, w, nil, true},
		{"anyone", a, zk.ReadACLUnsafe(), r, nil, true},
		{"anyone, other bit", a, zk.ReadACLUnsafe(), w, nil, false},
		{"either of two bits", a, zk.ReadACLUnsafe(), r | zk.PermAdmin, nil, true},
		{"world but not anyone", a, []zk.ACL{entry(31, "world", "x")}, r, []zk.ID{{Scheme: "world", ID: "x"}}, false},
		{"no bits", a, []zk.ACL{entry(0, "world", "anyone")}, r, nil, false},
		{"digest", a, []zk.ACL{{Perms: w, ID: u}}, w, []zk.ID{peer, u}, true},
		{"digest, other bit", a, []zk.ACL{{Perms: w, ID: u}}, r, []zk.ID{peer, u}, false},
		{"digest of another", a, []zk.ACL{{Perms: w, ID: u}}, w, []zk.ID{peer, digest("u:g")}, false},
		{"digest off", off, []zk.ACL{{Perms: w, ID: u}}, w, []zk.ID{peer, u}, false},
		{"later entry", a, []zk.ACL{{Perms: r, ID: u}, {Perms: w, ID: u}}, w, []zk.ID{u}, true},
		{"super", a, []zk.ACL{{Perms: r, ID: u}}, w, []zk.ID{peer, {Scheme: "super"}}, true},
		{"skip", skip, []zk.ACL{{Perms: r, ID: u}}, w, nil, true},
		{"sasl", a, []zk.ACL{entry(31, "sasl", "u")}, r, []zk.ID{{Scheme: "sasl", ID: "u"}}, false},
		{"auth", a, []zk.ACL{entry(31, "auth", "")}, r, []zk.ID{u}, false},
		{"scheme differs", a, []zk.ACL{entry(31, "digest", "127.0.0.1")}, r, []zk.ID{peer}, false},
		{"malformed ip", a, []zk.ACL{entry(31, "ip", "127.0.0.1/")}, r, []zk.ID{peer}, false},
	} {
		if got := c.a.Allowed(access.New(c.acl), c.want, c.ids); got != c.ok {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// Invariant 1.
func TestAllowedDoesNotAllocate(t *testing.T) {
	a := mustNew(t, Config{})
	acl := []zk.ACL{
		entry(31, "ip", "10.0.0.0/8"), entry(31, "ip", "fe80::/10"),
		{Perms: 31, ID: digest("u:h")}, entry(31, "world", "anyone"),
	}
	ids := []zk.ID{peer, {Scheme: "ip", ID: "0:0:0:0:0:0:0:1"}, digest("v:h")}
	for n := 1; n <= len(acl); n++ {
		want, list := n == len(acl), access.New(acl[:n])
		allocs := testing.AllocsPerRun(100, func() {
			if a.Allowed(list, zk.PermRead, ids) != want {
				t.Fatalf("%v: %v", acl[:n], !want)
			}
		})
		if allocs != 0 {
			t.Errorf("%d entries: %v allocations", n, allocs)
		}
	}
}

func TestMask(t *testing.T) {
	a := mustNew(t, Config{})
	u := digest("u:h")
	list := []zk.ACL{
		entry(1, "world", "anyone"), {Perms: 31, ID: u}, entry(31, "digest", "v:h:"),
		entry(31, "digest", ":h"), entry(31, "ip", "9.9.9.9"), entry(31, "ip", "::1"),
	}
	masked := []zk.ACL{
		list[0], entry(31, "digest", "u:x"), entry(31, "digest", "v:x"),
		entry(31, "digest", ":x"), list[4], list[5],
	}
	before := slices.Clone(list)
	if got := a.Mask(access.New(list), []zk.ID{peer}); !slices.Equal(got, masked) {
		t.Errorf("to a stranger: %v, want %v", got, masked)
	}
	if !slices.Equal(list, before) {
		t.Errorf("the ACL itself was changed: %v", list)
	}
	if got := a.Mask(access.New(list), []zk.ID{u}); !slices.Equal(got, list) {
		t.Errorf("to an administrator: %v", got)
	}
	open := []zk.ACL{entry(zk.PermAdmin, "world", "anyone"), {Perms: 2, ID: u}}
	if got := a.Mask(access.New(open), nil); !slices.Equal(got, open) {
		t.Errorf("where everybody administers: %v", got)
	}
	if got := a.Mask(nil, nil); got != nil {
		t.Errorf("no ACL: %v", got)
	}
}

func FuzzFixUp(f *testing.F) {
	f.Add("digest", "u:h", "ip", "10.0.0.0/8")
	f.Add("auth", "", "ip", "::1/64")
	f.Add("world", "anyone", "auth", "x")
	a, err := New(Config{})
	if err != nil {
		f.Fatal(err)
	}
	ids := []zk.ID{peer, digest("u:h"), {Scheme: "super"}}
	f.Fuzz(func(t *testing.T, s1, id1, s2, id2 string) {
		in := []zk.ACL{entry(1, s1, id1), entry(2, s2, id2), entry(1, s1, id1)}
		got, code := a.FixUp(in, ids)
		if code != zk.OK {
			if got != nil || code != zk.ErrInvalidACL {
				t.Fatalf("%v, %v", got, code)
			}
			return
		}
		again, code := a.FixUp(got, nil)
		if code != zk.OK || len(got) > len(in) || len(again) > len(got) {
			t.Fatalf("%v, fixed up again %v, %v", got, again, code)
		}
		for _, e := range got {
			if e.ID.Scheme == schemeAuth || e.ID.Scheme == schemeSuper {
				t.Fatalf("%v was let through", e)
			}
		}
		a.Allowed(access.New(got), zk.PermAdmin, ids)
		a.Mask(access.New(got), nil)
	})
}

func BenchmarkAllowed(b *testing.B) {
	a := mustNew(b, Config{})
	ids := []zk.ID{peer, digest("u:Jq7wMyA/w2Vd5WIDAKdu4OIIFEQ=")}
	for _, c := range []struct {
		name string
		acl  []zk.ACL
	}{
		{"world", zk.OpenACLUnsafe()},
		{"digest", []zk.ACL{{Perms: 31, ID: ids[1]}}},
		{"ip", []zk.ACL{entry(31, "ip", "127.0.0.0/8")}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			list := access.New(c.acl)
			for b.Loop() {
				a.Allowed(list, zk.PermRead, ids)
			}
		})
	}
}
