package auth

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha3"
	"crypto/sha512"
	"hash"
	"strings"
)

// hashByName returns the constructor of the hash with a Java name, or nil.
func hashByName(name string) func() hash.Hash {
	switch strings.ToUpper(name) {
	case "", "SHA", "SHA1", "SHA-1":
		return sha1.New
	case "SHA-224", "SHA224":
		return sha256.New224
	case "SHA-256", "SHA256":
		return sha256.New
	case "SHA-384", "SHA384":
		return sha512.New384
	case "SHA-512", "SHA512":
		return sha512.New
	case "SHA-512/224", "SHA512/224":
		return sha512.New512_224
	case "SHA-512/256", "SHA512/256":
		return sha512.New512_256
	case "SHA3-224":
		return func() hash.Hash { return sha3.New224() }
	case "SHA3-256":
		return func() hash.Hash { return sha3.New256() }
	case "SHA3-384":
		return func() hash.Hash { return sha3.New384() }
	case "SHA3-512":
		return func() hash.Hash { return sha3.New512() }
	case "MD5":
		return md5.New
	}
	return nil
}
