package ratelimit

import (
	"net/netip"
	"testing"
	"time"
)

func TestArrivals(t *testing.T) {
	const burst = 128
	a := Arrivals{Burst: burst}
	flood, other := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("::ffff:10.0.0.2")
	admitted := func(from netip.Addr, at time.Duration, tries int) (n int) {
		for range tries {
			if a.Admit(from, at) {
				n++
			}
		}
		return n
	}
	const hour = time.Hour
	for _, c := range []struct {
		at   time.Duration
		want int
	}{
		{0, burst}, {0, 0}, {hour, burst}, {hour, 0}, {hour + time.Second/2, ArrivalsPerSecond / 2}, {hour + time.Second, ArrivalsPerSecond / 2},
		{2 * hour, burst}, {2*hour + 9*time.Millisecond, 0}, {2*hour + 10*time.Millisecond, 1},
	} {
		if n := admitted(flood, c.at, 1000); n != c.want {
			t.Errorf("after %v %d connections are admitted, want %d", c.at, n, c.want)
		}
	}
	if n := admitted(other, 2*hour, burst); n != burst {
		t.Errorf("another address has %d", n)
	}
	for i := range 3 * mostArriving {
		from := netip.AddrFrom4([4]byte{11, byte(i >> 16), byte(i >> 8), byte(i)})
		if !a.Admit(from, 3*hour) || len(a.next) > mostArriving {
			t.Fatalf("address %d: %d are remembered", i, len(a.next))
		}
	}
	prefix := 0
	for i := range 1000 {
		from := netip.AddrFrom16([16]byte{0: 0x20, 1: 1, 14: byte(i >> 8), 15: byte(i)})
		if a.Admit(from, 4*hour) {
			prefix++
		}
	}
	if prefix != burst {
		t.Errorf("a network of IPv6 has %d", prefix)
	}
}
