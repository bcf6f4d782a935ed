package auth

import (
	"slices"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/access"
	"github.com/pinfold-zk/pinfold/zk"
)

func sasl(user string) zk.ID { return zk.ID{Scheme: "sasl", ID: user} }

var superID = zk.ID{Scheme: "super"}

// The answers are those of Apache ZooKeeper 3.8.0 with its provider of sasl.
func TestFixUpSASLIdentities(t *testing.T) {
	a, off := mustNew(t, Config{SASL: true}), mustNew(t, Config{})
	for id, ok := range map[string]bool{
		"bob": true, "": true, "nobody": true, "a@R": true, "a@": true, "@R": true, "a/b": true, "a/b@R": true,
		"a@R@R": false, "/@": true, "@": true, "a/b/c": true, "a/b/c@R": false, "a b": true, ":": true, "é": true,
		"@@": false, "/": true, "a/@R": true, "x@R/y": false,
	} {
		in := []zk.ACL{{Perms: 31, ID: sasl(id)}}
		got, code := a.FixUp(in, nil)
		if (code == zk.OK) != ok || ok && !slices.Equal(got, in) || !ok && code != zk.ErrInvalidACL {
			t.Errorf("sasl %q: %v, %v; valid %v", id, got, code, ok)
		}
		if _, code := off.FixUp(in, nil); code != zk.ErrInvalidACL {
			t.Errorf("sasl %q without a provider: %v", id, code)
		}
	}
}

func TestLogIn(t *testing.T) {
	a := mustNew(t, Config{SASL: true, SuperUsers: []string{"root", ""}})
	have := []zk.ID{peer, digest("u:h")}
	for _, c := range []struct {
		user string
		want []zk.ID
	}{
		{"bob", []zk.ID{have[0], have[1], sasl("bob")}},
		{"root", []zk.ID{have[0], have[1], sasl("root"), superID}},
		{"super", []zk.ID{have[0], have[1], sasl("super")}}, // by its name alone it is not above digests
		{"", []zk.ID{have[0], have[1], sasl("")}},
		{"a@b@c", nil}, // Apache closes the connection
	} {
		got, ok := a.LogIn(c.user, slices.Clip(have))
		if !slices.Equal(got, c.want) || ok != (c.want != nil) {
			t.Errorf("%q: %v, %v; want %v", c.user, got, ok, c.want)
		}
	}
	once, _ := a.LogIn("root", have)
	if again, ok := a.LogIn("root", once); !ok || !slices.Equal(again, once) {
		t.Errorf("again: %v, %v", again, ok)
	}
	full := make([]zk.ID, MaxIdentities)
	if got, ok := a.LogIn("bob", full); ok || got != nil {
		t.Errorf("%d identities, %v, beyond the limit", len(got), ok)
	}
}

// New keeps no reference to the list of superusers.
func TestLogInKeepsACopy(t *testing.T) {
	supers := []string{"root"}
	a := mustNew(t, Config{SuperUsers: supers})
	supers[0] = "bob"
	if ids, _ := a.LogIn("bob", nil); slices.Contains(ids, superID) {
		t.Errorf("bob is %v", ids)
	}
}

func TestAllowedSASL(t *testing.T) {
	a := mustNew(t, Config{SASL: true, AnySASLUser: "any"})
	off := mustNew(t, Config{AnySASLUser: "any"})
	noAny := mustNew(t, Config{SASL: true})
	for _, c := range []struct {
		name string
		a    *Authority
		rule zk.ID
		id   zk.ID
		ok   bool
	}{
		{"equal", a, sasl("bob"), sasl("bob"), true},
		{"another", a, sasl("bob"), sasl("al"), false},
		{"user super", a, sasl("bob"), sasl("super"), true},
		{"user super, digest", a, digest("u:h"), sasl("super"), false},
		{"the rule super", a, sasl("super"), sasl("bob"), false},
		{"any user", a, sasl("any"), sasl("bob"), true},
		{"any user, of another scheme", a, sasl("any"), digest("any"), false},
		{"user any", a, sasl("bob"), sasl("any"), false},
		{"empty rule, nobody is any", noAny, sasl(""), sasl("bob"), false},
		{"no provider", off, sasl("bob"), sasl("bob"), false},
		{"no provider, super", off, sasl("bob"), sasl("super"), false},
		{"no provider, any user", off, sasl("any"), sasl("bob"), false},
		{"same name, other scheme", a, sasl("bob"), digest("bob"), false},
		{"superuser", a, sasl("bob"), superID, true},
	} {
		acl, ids := access.New([]zk.ACL{{Perms: zk.PermRead, ID: c.rule}}), []zk.ID{peer, c.id}
		if got := c.a.Allowed(acl, zk.PermRead, ids); got != c.ok {
			t.Errorf("%s: %v", c.name, got)
		}
		if n := testing.AllocsPerRun(10, func() { c.a.Allowed(acl, zk.PermRead, ids) }); n != 0 { // invariant 1
			t.Errorf("%s: %v allocations", c.name, n)
		}
	}
}

// An entry of scheme auth stands for the logged in user, too; not for super.
func TestFixUpExpandsSASL(t *testing.T) {
	a := mustNew(t, Config{SASL: true, SuperUsers: []string{"bob"}})
	ids, _ := a.LogIn("bob", []zk.ID{peer, digest("u:h")})
	in := []zk.ACL{entry(zk.PermAll, "auth", "")}
	want := []zk.ACL{{Perms: zk.PermAll, ID: digest("u:h")}, {Perms: zk.PermAll, ID: sasl("bob")}}
	if got, code := a.FixUp(in, ids); code != zk.OK || !slices.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, code, want)
	}
	if got, code := mustNew(t, Config{}).FixUp(in, []zk.ID{peer, sasl("bob")}); code != zk.ErrInvalidACL {
		t.Errorf("without a provider: %v, %v", got, code)
	}
}

func TestUserNameSASL(t *testing.T) {
	if got := mustNew(t, Config{SASL: true}).UserName(sasl("u@R")); got != "u@R" {
		t.Errorf("%q", got)
	}
	if got := mustNew(t, Config{}).UserName(sasl("u@R")); got != "" {
		t.Errorf("without a provider: %q", got)
	}
}
