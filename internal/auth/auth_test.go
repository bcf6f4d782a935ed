package auth

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/pinfold-zk/pinfold/internal/access"
	"github.com/pinfold-zk/pinfold/zk"
)

var peer = zk.ID{Scheme: "ip", ID: "127.0.0.1"}

func mustNew(t testing.TB, c Config) *Authority {
	t.Helper()
	a, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func digest(id string) zk.ID { return zk.ID{Scheme: "digest", ID: id} }

// The digests were given by Apache ZooKeeper 3.8.0 for the same packets.
func TestAuthenticateDigest(t *testing.T) {
	a := mustNew(t, Config{})
	for _, c := range []struct{ data, want string }{
		{"u:p", "u:Jq7wMyA/w2Vd5WIDAKdu4OIIFEQ="},
		{"nocolon", "nocolon:Ra+cHr2ZoHvBjtNArFGNGlVie4g="},
		{"", ":2jmj7l5rSw0yVb/vlWAYkK/YBwk="},
		{"a:b:c", "a:cLzgnoJ6mP5qz3w+mwvPE2vDgu0="},
		{":x", ":57b19mLA2vMhI/edHul/TytWqWE="},
		{"é:ü", "é:Ztqg8TrMmzkSFpOaDBO87lu10+c="},
		{"l\xe9:p", "l\ufffd:fGqLDjfgGB3a4v4SPbBxrUlIzlc="},
		{"m\xe2\x82:p", "m\ufffd:XMyKCjyRLy1G2JjkV9UsA6lw96o="},
		{"m\xed\xa0\x80:p", "m\ufffd:XMyKCjyRLy1G2JjkV9UsA6lw96o="},
		{"\xf0\x9f\x98:\xc0\x80", "\ufffd:VNPZ5MF9GzVmeLHy1ULRZDVWWCs="},
	} {
		ids, v := a.Authenticate("digest", []byte(c.data), []zk.ID{peer})
		if want := []zk.ID{peer, digest(c.want)}; v != Accepted || !slices.Equal(ids, want) {
			t.Errorf("digest %q: %v, verdict %d, want %v", c.data, ids, v, want)
		}
	}
}

func TestAuthenticateVerdicts(t *testing.T) {
	plain := Config{}
	named := Config{Ensemble: true, EnsembleNames: []string{"foo", " two "}}
	for _, c := range []struct {
		cfg    Config
		scheme string
		data   []byte
		want   Verdict
	}{
		{plain, "ip", nil, Accepted},
		{plain, "ip", []byte("10.0.0.1"), Accepted},
		{plain, "digest", nil, Refused},
		{Config{DigestDisabled: true}, "digest", []byte("u:p"), Refused},
		{plain, "Digest", []byte("u:p"), Refused},
		{plain, "", []byte("x"), Refused},
		{plain, "world", []byte("anyone"), Refused},
		{plain, "auth", []byte{}, Refused},
		{plain, "super", []byte{}, Refused},
		{plain, "sasl", []byte("x"), Refused},
		{plain, "x509", []byte("x"), Refused},
		{plain, "ensemble", []byte("x"), Refused},
		{Config{Ensemble: true}, "ensemble", []byte("x"), Accepted},
		{named, "ensemble", []byte("foo"), Accepted},
		{named, "ensemble", []byte("two"), Accepted},
		{named, "ensemble", []byte(" two"), HangUp},
		{named, "ensemble", []byte("bar"), HangUp},
		{named, "ensemble", []byte{}, Accepted},
		{named, "ensemble", nil, Accepted},
	} {
		ids, v := mustNew(t, c.cfg).Authenticate(c.scheme, c.data, []zk.ID{peer})
		want := []zk.ID{peer}
		if c.want != Accepted {
			want = nil
		}
		if v != c.want || !slices.Equal(ids, want) {
			t.Errorf("%s %q: %v, verdict %d, want %v, %d", c.scheme, c.data, ids, v, want, c.want)
		}
	}
}

// Invariant 4.
func TestSuperOnlyByDigest(t *testing.T) {
	a := mustNew(t, Config{SuperDigest: "super:lK75jTNcA+U9vtVEw5vB51mj/w4="})
	ids, v := a.Authenticate("digest", []byte("super:secret"), []zk.ID{peer})
	want := []zk.ID{peer, {Scheme: "super"}, digest("super:lK75jTNcA+U9vtVEw5vB51mj/w4=")}
	if v != Accepted || !slices.Equal(ids, want) {
		t.Fatalf("super: %v, verdict %d, want %v", ids, v, want)
	}
	if ids, _ := a.Authenticate("digest", []byte("super:wrong"), nil); len(ids) != 1 {
		t.Errorf("wrong password gives %v", ids)
	}
	none := mustNew(t, Config{})
	if ids, _ := none.Authenticate("digest", []byte("super:secret"), nil); len(ids) != 1 {
		t.Errorf("without a configured superuser: %v", ids)
	}
	for _, id := range []string{"", "x"} {
		acl := []zk.ACL{{Perms: zk.PermAll, ID: zk.ID{Scheme: "super", ID: id}}}
		if _, code := a.FixUp(acl, ids); code != zk.ErrInvalidACL {
			t.Errorf("ACL super:%s: %v", id, code)
		}
	}
	// The superuser's auth entry is the digest alone.
	acl, code := a.FixUp(zk.CreatorAllACL(), ids)
	if code != zk.OK || !slices.Equal(acl, []zk.ACL{{Perms: zk.PermAll, ID: want[2]}}) {
		t.Errorf("auth of super: %v, %v", acl, code)
	}
}

func TestAlgorithms(t *testing.T) {
	a := mustNew(t, Config{DigestAlg: "SHA-256"})
	ids, _ := a.Authenticate("digest", []byte("u:p"), nil)
	// As given by Apache ZooKeeper 3.8.0.
	if want := digest("u:/Y8xRBngpX5duYn15uUqIRaIaCviy5TEwSk419hCwuA="); ids[0] != want {
		t.Errorf("SHA-256: %v, want %v", ids[0], want)
	}
	for alg, chars := range map[string]int{
		"": 28, "sha1": 28, "SHA": 28, "SHA-1": 28, "SHA-224": 40, "sha-384": 64, "SHA-512": 88,
		"SHA-512/224": 40, "SHA-512/256": 44, "SHA3-224": 40, "SHA3-256": 44, "SHA3-384": 64,
		"SHA3-512": 88, "MD5": 24,
	} {
		ids, _ := mustNew(t, Config{DigestAlg: alg}).Authenticate("digest", []byte(":"), nil)
		if len(ids) != 1 || len(ids[0].ID) != 1+chars {
			t.Errorf("%s: %v, want %d characters of hash", alg, ids, chars)
		}
	}
	if _, err := New(Config{DigestAlg: "CRC32"}); err == nil || !strings.Contains(err.Error(), "CRC32") {
		t.Errorf("CRC32: error %v", err)
	}
}

// Invariant 5: what the connection has is never written to, and its list grows by a few allocations.
func TestAuthenticateExtends(t *testing.T) {
	a := mustNew(t, Config{})
	lists := [][]zk.ID{{peer}}
	for i := range 100 {
		ids, v := a.Authenticate("digest", fmt.Appendf(nil, "u:%d", i), lists[i])
		if v != Accepted || len(ids) != i+2 || !slices.Equal(ids[:i+1], lists[i]) {
			t.Fatalf("%v of %d identities", v, len(ids))
		}
		lists = append(lists, ids)
	}
	last := lists[100]
	for i, ids := range lists {
		if !slices.Equal(ids, last[:i+1]) {
			t.Errorf("the list of %d identities was changed", i+1)
		}
	}
	if again, v := a.Authenticate("digest", []byte("u:1"), last); v != Accepted || !slices.Equal(again, last) {
		t.Errorf("second time: %v", again)
	}
	arrays := map[*zk.ID]bool{}
	for _, ids := range lists {
		arrays[&ids[0]] = true
	}
	if len(arrays) > 10 {
		t.Errorf("%d arrays for a list of %d", len(arrays), len(last))
	}
}

func TestIdentitiesAreBounded(t *testing.T) {
	a := mustNew(t, Config{})
	ids := make([]zk.ID, MaxIdentities)
	if _, v := a.Authenticate("digest", []byte("one:more"), ids); v != Refused {
		t.Errorf("verdict %d beyond the limit", v)
	}
	if got, v := a.Authenticate("digest", []byte("one:more"), ids[1:]); v != Accepted ||
		len(got) != MaxIdentities {
		t.Errorf("verdict %d, %d identities at the limit", v, len(got))
	}
	long := []byte(strings.Repeat("u", MaxIdentityBytes/2) + ":p")
	one, v := a.Authenticate("digest", long, nil)
	if v != Accepted {
		t.Errorf("verdict %d on a long name", v)
	}
	if _, v := a.Authenticate("digest", append([]byte("another"), long...), one); v != Refused {
		t.Errorf("verdict %d beyond the limit of bytes", v)
	}
}

func TestUserName(t *testing.T) {
	a := mustNew(t, Config{})
	for _, c := range []struct {
		id   zk.ID
		want string
	}{
		{peer, "127.0.0.1"},
		{digest("u:h"), "u"},
		{digest(":h"), ""},
		{zk.ID{Scheme: "super"}, ""},
		{zk.ID{Scheme: "sasl", ID: "u@R"}, ""},
	} {
		if got := a.UserName(c.id); got != c.want {
			t.Errorf("%v: %q, want %q", c.id, got, c.want)
		}
	}
	off := mustNew(t, Config{DigestDisabled: true})
	if got := off.UserName(digest("u:h")); got != "" {
		t.Errorf("digest off: %q", got)
	}
}

func TestIPIdentity(t *testing.T) {
	for _, c := range []struct{ addr, want string }{
		{"127.0.0.1", "127.0.0.1"},
		{"::ffff:10.1.2.3", "10.1.2.3"},
		{"::1", "0:0:0:0:0:0:0:1"},
		{"2001:DB8::00a0:0", "2001:db8:0:0:0:0:a0:0"},
		{"fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"},
	} {
		got := IPIdentity(netip.MustParseAddr(c.addr))
		if want := (zk.ID{Scheme: "ip", ID: c.want}); got != want {
			t.Errorf("%s: %v, want %v", c.addr, got, want)
		}
	}
}

func FuzzAuthenticate(f *testing.F) {
	f.Add("digest", []byte("u:p"))
	f.Add("digest", []byte("\xf0\x9f\x98:\xc0\x80"))
	f.Add("ensemble", []byte("foo"))
	a, err := New(Config{Ensemble: true, EnsembleNames: []string{"foo"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, scheme string, data []byte) {
		have := []zk.ID{peer}
		ids, v := a.Authenticate(scheme, data, have)
		if v != Accepted {
			if ids != nil {
				t.Fatalf("refused, and yet %v", ids)
			}
			return
		}
		if ids[0] != peer || len(ids) > 2 {
			t.Fatalf("identities %v", ids)
		}
		for _, id := range ids {
			if !utf8.ValidString(id.ID) || id.Scheme == schemeSuper {
				t.Fatalf("identity %q", id)
			}
		}
		acl, code := a.FixUp(zk.CreatorAllACL(), ids)
		if len(ids) == 2 && (code != zk.OK || !a.Allowed(access.New(acl), zk.PermAdmin, ids)) {
			t.Fatalf("the creator %v may not use its own znode: %v, %v", ids, acl, code)
		}
		if a.Allowed(access.New(acl), zk.PermAll, have) != (acl == nil) {
			t.Fatalf("others may use %v", acl)
		}
	})
}
