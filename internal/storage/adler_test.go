package storage

import (
	"bytes"
	"hash/adler32"
	"math/rand/v2"
	"strconv"
	"testing"
)

// sumAdler is the Adler-32 of the standard library, for every short length, for
// the bytes that overflow soonest, and when continued at any place.
func TestAdler(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	check := func(p []byte) {
		t.Helper()
		want := adler32.Checksum(p)
		if got := sumAdler(adlerInit, p); got != want {
			t.Fatalf("%d bytes: %#x, want %#x", len(p), got, want)
		}
		if got := adlerLanes(adlerInit, 0, p); got != want {
			t.Fatalf("%d bytes by lanes: %#x, want %#x", len(p), got, want)
		}
		cut := rng.IntN(len(p) + 1)
		if got := sumAdler(sumAdler(adlerInit, p[:cut]), p[cut:]); got != want {
			t.Fatalf("%d bytes in two parts, cut at %d: %#x, want %#x", len(p), cut, got, want)
		}
	}
	random := make([]byte, 1<<20)
	for i := range random {
		random[i] = byte(rng.Uint32())
	}
	ones := bytes.Repeat([]byte{0xff}, 1<<20)
	for n := range 1100 {
		check(random[n : 2*n])
		check(ones[:n])
		check(make([]byte, n))
	}
	check(random)
	check(ones)
}

// TestCutAdler: the sum of a front part is that of the whole with the rest undone.
func TestCutAdler(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	for n := range 300 {
		p := make([]byte, 7*n)
		for i := range p {
			p[i] = byte(rng.Uint32()) | byte(n%2*0xff)
		}
		k := rng.IntN(len(p) + 1)
		if got, want := cutAdler(sumAdler(adlerInit, p), p[k:]), adler32.Checksum(p[:k]); got != want {
			t.Fatalf("%d bytes cut at %d: %#x, want %#x", len(p), k, got, want)
		}
	}
}

func BenchmarkAdler(b *testing.B) {
	for _, n := range []int{64, 1100, 64 << 10} {
		p := testPayload(1, n)
		b.Run("ours/"+strconv.Itoa(n), func(b *testing.B) {
			b.SetBytes(int64(n))
			for b.Loop() {
				sumAdler(adlerInit, p)
			}
		})
		b.Run("hash/"+strconv.Itoa(n), func(b *testing.B) {
			b.SetBytes(int64(n))
			for b.Loop() {
				adler32.Checksum(p)
			}
		})
	}
}
