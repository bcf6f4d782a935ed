package auth

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/access"
	"github.com/pinfold-zk/pinfold/zk"
)

// Invariant 3 for addresses. The IPv4 answers are those of Apache ZooKeeper
// 3.8.0 to a client at 127.0.0.1.
func TestAddressMatch(t *testing.T) {
	const v6 = "2001:db8:0:0:0:0:0:1"
	for _, c := range []struct {
		peer, rule string
		want       bool
	}{
		{"127.0.0.1", "127.0.0.1", true},
		{"127.0.0.1", "127.0.0.2", false},
		{"127.0.0.1", "127.0.0.2/8", true},
		{"127.0.0.1", "128.0.0.1/1", false},
		{"127.0.0.1", "0.0.0.0/0", true},
		{"127.0.0.1", "126.0.0.0/7", true},
		{"127.0.0.1", "124.0.0.0/7", false},
		{"127.0.0.1", "127.0.0.1/32", true},
		{"127.0.0.1", "127.0.0.1/", false},
		{"127.0.0.1", "0127.0.0.1", true},
		{"127.0.0.1", "::/0", false},
		{v6, "0.0.0.0/0", false},
		{v6, "2001:DB8::1", true},
		{v6, "2001:db8::/32", true},
		{v6, "2001:db9::/32", false},
		{v6, "2001:db9::/31", true},
		{v6, "::/0", true},
		{v6 + "%eth0", "::/0", false},
	} {
		a := mustNew(t, Config{})
		acl := []zk.ACL{entry(zk.PermRead, "ip", c.rule)}
		if got := a.Allowed(access.New(acl), zk.PermRead, []zk.ID{{Scheme: "ip", ID: c.peer}}); got != c.want {
			t.Errorf("%s to %s: %v", c.rule, c.peer, got)
		}
	}
}

// What the standard library can read too, both judge alike.
func TestAddressAgainstNetip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	covered := 0
	for range 20000 {
		rule, peer := randomAddr(r), randomAddr(r)
		p := netip.PrefixFrom(rule, r.IntN(rule.BitLen()+1))
		if r.IntN(2) == 0 && peer.BitLen() == rule.BitLen() {
			p = netip.PrefixFrom(peer, p.Bits()).Masked()
		}
		text := fmt.Sprint(p)
		got, ok := parsePrefix(text)
		if !ok {
			t.Fatalf("%s is refused", text)
		}
		want := p.Contains(peer)
		if want {
			covered++
		}
		if id := IPIdentity(peer).ID; got.covers(id) != want {
			t.Fatalf("%s covers %s: %v", text, id, !want)
		}
	}
	if covered < 1000 {
		t.Fatalf("only %d of the prefixes covered their address", covered)
	}
}

// randomAddr returns an address whose bytes are zero rather often, so that
// IPv6 is shortened in all ways.
func randomAddr(r *rand.Rand) netip.Addr {
	var b [16]byte
	for i := range b {
		if r.IntN(3) == 0 {
			b[i] = byte(r.Uint32())
		}
	}
	if r.IntN(2) == 0 {
		return netip.AddrFrom4([4]byte(b[:4]))
	}
	b[0] = 0x20 // not one of those that are written with an IPv4 tail
	return netip.AddrFrom16(b)
}
