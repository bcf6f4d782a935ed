package ratelimit

import (
	"net/netip"
	"testing"
	"time"
)

func TestPenalties(t *testing.T) {
	var p Penalties
	a, b := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("2001:db8::1")
	now := time.Hour
	for i, want := range []time.Duration{0, 0, 0, 100, 200, 400, 800, 1600, 3000, 3000} {
		if before, got := p.Wait(a, now), p.Failed(a, now); got != want*time.Millisecond || before != got {
			t.Errorf("failure %d: %v, %v before; want %v ms", i, got, before, want)
		}
	}
	if got := p.Wait(netip.MustParseAddr("::ffff:10.0.0.1"), now); got != longestPenalty {
		t.Errorf("the address as one of IPv6: %v", got)
	}
	for range FreeFailures + 1 {
		p.Failed(b, now)
	}
	if got := p.Failed(netip.MustParseAddr("2001:db8::2%eth0"), now); got != 2*FirstPenalty {
		t.Errorf("another address of the same network: %v", got)
	}
	for _, here := range []string{"127.0.0.1", "::1", "::ffff:127.0.0.1"} {
		for range 2 * FreeFailures {
			if got := p.Failed(netip.MustParseAddr(here), now); got != 0 || p.Wait(netip.MustParseAddr(here), now) != 0 {
				t.Errorf("this machine, %s: %v", here, got)
			}
		}
	}
	if p.Forgive(b); p.Wait(b, now) != 0 {
		t.Error("an address that was forgiven waits")
	}
	later := now + 2*forgiveAfter
	if before, got := p.Wait(a, later), p.Failed(a, later); got != 0 || before != 0 {
		t.Errorf("later: %v, %v", before, got)
	}
	for i := range 3 * mostOffenders {
		p.Failed(netip.AddrFrom4([4]byte{1, byte(i >> 16), byte(i >> 8), byte(i)}), now)
	}
	if n := len(p.offenders); n > mostOffenders {
		t.Errorf("%d addresses are remembered", n)
	}
}
