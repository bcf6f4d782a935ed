package auth

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/access"
	"github.com/pinfold-zk/pinfold/zk"
)

// randomEntry returns an entry of few different identities, so that lists repeat them.
func randomEntry(r *rand.Rand) zk.ACL {
	p := zk.Perms(r.IntN(32))
	switch r.IntN(8) {
	case 0:
		return entry(p, "world", []string{"anyone", "x"}[r.IntN(2)])
	case 1, 2:
		return entry(p, "digest", fmt.Sprintf("u%d:h", r.IntN(20)))
	case 3:
		return entry(p, "sasl", []string{"bob", "any", "super", ""}[r.IntN(4)])
	case 4:
		return entry(p, "ip", fmt.Sprintf("2001:db8::%x/%d", r.IntN(4), 96+r.IntN(33)))
	case 5:
		return entry(p, []string{"", "x509", "auth"}[r.IntN(3)], "u1:h")
	case 6:
		return entry(p, "ip", "10.0.0.0/")
	}
	return entry(p, "ip", fmt.Sprintf("10.0.%d.%d/%d", r.IntN(2), r.IntN(4), r.IntN(33)))
}

func randomID(r *rand.Rand) zk.ID {
	switch r.IntN(5) {
	case 0:
		return zk.ID{Scheme: "ip", ID: fmt.Sprintf("10.0.%d.%d", r.IntN(3), r.IntN(5))}
	case 1:
		return zk.ID{Scheme: "ip", ID: fmt.Sprintf("2001:db8:0:0:0:0:0:%x", r.IntN(5))}
	case 2:
		return sasl([]string{"bob", "al", "super", "any", ""}[r.IntN(5)])
	case 3:
		return zk.ID{Scheme: "x509", ID: "u1:h"}
	}
	return digest(fmt.Sprintf("u%d:h", r.IntN(25)))
}

// A list with an index decides as its entries do one by one.
func TestIndexDecidesAsTheEntries(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	configs := []Config{{}, {DigestDisabled: true}, {SASL: true}, {SASL: true, AnySASLUser: "any"}}
	granted := 0
	for range 20000 {
		a := mustNew(t, configs[r.IntN(len(configs))])
		acl := make([]zk.ACL, FewEntries+1+r.IntN(20))
		for i := range acl {
			acl[i] = randomEntry(r)
		}
		ids := make([]zk.ID, r.IntN(4))
		for i := range ids {
			ids[i] = randomID(r)
		}
		want := zk.Perms(1 << r.IntN(5))
		one := slices.ContainsFunc(acl, func(e zk.ACL) bool { return a.Allowed(access.New([]zk.ACL{e}), want, ids) })
		if got := a.Allowed(access.New(acl), want, ids); got != one {
			t.Fatalf("%v to %v of %v: %v", want, ids, acl, got)
		}
		if one {
			granted++
		}
	}
	if granted < 4000 || granted > 16000 {
		t.Errorf("%d of 20000 were granted", granted)
	}
}

// A list is looked through once, however many entries of one identity it has.
func TestIndexOfOneIdentity(t *testing.T) {
	a := mustNew(t, Config{})
	for _, id := range []zk.ID{digest("u:h"), {Scheme: "ip", ID: "10.0.0.0/8"}} {
		acl := make([]zk.ACL, 1<<16)
		for i := range acl {
			acl[i] = zk.ACL{Perms: zk.Perms(i) << 5, ID: id}
		}
		acl[len(acl)-1].Perms = zk.PermRead
		list := access.New(acl)
		used := 0
		for _, s := range a.Index(list).Slots {
			if s.Entry != 0 {
				used++
			}
		}
		ids := []zk.ID{digest("u:h"), {Scheme: "ip", ID: "10.1.2.3"}}
		if used != 1 || !a.Allowed(list, zk.PermRead, ids) || a.Allowed(list, zk.PermWrite, ids) {
			t.Errorf("%v: %d slots", id, used)
		}
	}
}

func BenchmarkLongACL(b *testing.B) {
	a := mustNew(b, Config{})
	acl := make([]zk.ACL, 35000)
	for i := range acl {
		acl[i] = entry(31, "ip", fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255))
	}
	ids := []zk.ID{peer, digest("u:h")}
	list := access.New(acl)
	b.Run("index", func(b *testing.B) {
		for b.Loop() {
			newIndex(acl)
		}
	})
	b.Run("check", func(b *testing.B) {
		for b.Loop() {
			a.Allowed(list, zk.PermRead, ids)
		}
	})
	many := make([]zk.ID, 1000)
	for i := range many {
		many[i] = digest(fmt.Sprintf("u%d:AAAAAAAAAAAAAAAAAAAAAAAAAAA=", i))
	}
	b.Run("check of 1000 identities", func(b *testing.B) {
		for b.Loop() {
			a.Allowed(list, zk.PermRead, many)
		}
	})
}
