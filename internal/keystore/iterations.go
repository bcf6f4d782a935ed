package keystore

import (
	"encoding/asn1"
	"fmt"
)

// maxIterations is how often a store may have its password hashed. keytool and openssl
// write 2,000 to 600,000; ten million take some seconds.
const maxIterations = 10_000_000

// maxDepth bounds the nesting of a PKCS #12 file.
const maxDepth = 30

// checkIterations refuses a PKCS #12 file, or an encrypted key, that would take minutes to open: one that has, as
// far as that can be seen without its password, a salt followed by a number of iterations
// beyond maxIterations. What cannot be parsed is left to the library.
func checkIterations(der []byte) error { return checkNested(der, 0) }

func checkNested(der []byte, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("it is nested more than %d times", maxDepth)
	}
	salt := false // the value before this one is an OCTET STRING
	for len(der) > 0 {
		var v asn1.RawValue
		rest, err := asn1.Unmarshal(der, &v)
		if err != nil {
			return nil
		}
		octets := v.Class == asn1.ClassUniversal && v.Tag == asn1.TagOctetString
		if salt && v.Class == asn1.ClassUniversal && v.Tag == asn1.TagInteger {
			var n int64
			if _, err := asn1.Unmarshal(v.FullBytes, &n); err != nil || n > maxIterations {
				return fmt.Errorf("its password would be hashed more than %d times", maxIterations)
			}
		}
		if v.IsCompound || octets { // an OCTET STRING may hold more of the file
			if err := checkNested(v.Bytes, depth+1); err != nil {
				return err
			}
		}
		salt, der = octets, rest
	}
	return nil
}
