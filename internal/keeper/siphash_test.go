package keeper

import "testing"

// The example of the paper that defines SipHash, and the first vectors of its reference.
func TestSipHash(t *testing.T) {
	in := []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}
	for n, want := range map[int]uint64{0: 0x726fdb47dd0e0e31, 1: 0x74f839c593dc67fd, 8: 0x93f5f5799a932462, 15: 0xa129ca6149be45e5} {
		if got := sipHash(0x0706050403020100, 0x0f0e0d0c0b0a0908, in[:n]); got != want {
			t.Errorf("%d bytes: %#x, want %#x", n, got, want)
		}
	}
}
