package keeper

import (
	"encoding/binary"
	"math/bits"
)

// Checksum is the hash of Keeper's records and digests.
func Checksum(b []byte) uint64 { return sipHash(0, 0, b) }

// sipHash returns the SipHash-2-4 of b under the key (k0, k1).
func sipHash(k0, k1 uint64, b []byte) uint64 {
	v := sipState{k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261, k1 ^ 0x7465646279746573}
	last := uint64(len(b)) << 56
	for ; len(b) >= 8; b = b[8:] {
		v.block(binary.LittleEndian.Uint64(b))
	}
	for i, c := range b {
		last |= uint64(c) << (8 * i)
	}
	v.block(last)
	v[2] ^= 0xff
	for range 4 {
		v.round()
	}
	return v[0] ^ v[1] ^ v[2] ^ v[3]
}

type sipState [4]uint64

func (v *sipState) block(m uint64) {
	v[3] ^= m
	v.round()
	v.round()
	v[0] ^= m
}

func (v *sipState) round() {
	v[0] += v[1]
	v[1] = bits.RotateLeft64(v[1], 13) ^ v[0]
	v[0] = bits.RotateLeft64(v[0], 32)
	v[2] += v[3]
	v[3] = bits.RotateLeft64(v[3], 16) ^ v[2]
	v[0] += v[3]
	v[3] = bits.RotateLeft64(v[3], 21) ^ v[0]
	v[2] += v[1]
	v[1] = bits.RotateLeft64(v[1], 17) ^ v[2]
	v[2] = bits.RotateLeft64(v[2], 32)
}
