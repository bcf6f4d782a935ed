package storage

import "golang.org/x/sys/cpu"

// adlerSums returns the sum of the bytes of p, the sum of the sums before each block of
// adlerWide bytes, and the sum of all bytes, each multiplied by the number of bytes from it to
// the end of its block. It needs AVX2.
//
// REQUIRES: p is one to adlerChunk bytes long, in whole blocks.
//
//go:noescape
func adlerSums(p []byte) (sum, before, weighted uint32)

const (
	adlerWide  = 32
	adlerChunk = 4096 // sums of more could overflow
)

var hasAVX2 = cpu.X86.HasAVX2

// adlerFast adds p up, as far as it can, and returns the rest. s1 and s2 are the halves of the
// sum; s1 is below adlerMod.
func adlerFast(s1, s2 uint64, p []byte) (uint64, uint64, []byte) {
	for hasAVX2 && len(p) >= adlerWide {
		n := min(len(p), adlerChunk) &^ (adlerWide - 1)
		sum, before, weighted := adlerSums(p[:n])
		s2 += uint64(n)*s1 + adlerWide*uint64(before) + uint64(weighted)
		s1 = (s1 + uint64(sum)) % adlerMod
		p = p[n:]
	}
	return s1, s2, p
}
