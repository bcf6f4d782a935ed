package kerberos

import (
	"encoding/binary"
	"errors"
)

// cacheReader walks through a ticket cache in MIT's file format, to check all its lengths
// and counts: gokrb5 allocates what a count says. Its first error sticks.
type cacheReader struct {
	rest []byte
	bad  bool
}

// skip passes n bytes.
func (r *cacheReader) skip(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.bad, r.rest = true, nil
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

// count reads a number of 32 bits that counts things of at least one byte.
func (r *cacheReader) count() int {
	b := r.skip(4)
	if b == nil {
		return 0
	}
	n := binary.BigEndian.Uint32(b)
	if uint64(n) > uint64(len(r.rest)) {
		r.bad, r.rest = true, nil
		return 0
	}
	return int(n)
}

func (r *cacheReader) data() { r.skip(r.count()) }

func (r *cacheReader) principal() {
	r.skip(4)
	parts := r.count()
	r.data()
	for range parts {
		r.data()
	}
}

func (r *cacheReader) credential() {
	r.principal()
	r.principal()
	r.skip(2)
	r.data()            // key
	r.skip(4*4 + 1 + 4) // times, is_skey, flags
	for range 2 {       // addresses, authorization data
		for range r.count() {
			r.skip(2)
			r.data()
		}
	}
	r.data() // ticket
	r.data() // second ticket
}

// checkCache checks the form of a ticket cache of version 4, which all libraries of the last
// twenty years write.
func checkCache(b []byte) error {
	r := cacheReader{rest: b}
	version := r.skip(2)
	if version == nil || version[0] != 5 || version[1] != 4 {
		return errors.New("its first two bytes are not those of a ticket cache of version 4")
	}
	if n := r.skip(2); n != nil {
		r.skip(int(binary.BigEndian.Uint16(n)))
	}
	r.principal()
	for !r.bad && len(r.rest) > 0 {
		r.credential()
	}
	if r.bad {
		return errors.New("it is damaged")
	}
	return nil
}
