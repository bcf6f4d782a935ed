// Package jute reads and writes the primitives of ZooKeeper's serialization:
// big-endian integers, and strings, buffers and vectors with an int length in
// front, where -1 means null (protocol page, section 1).
//
// Writing is appending to a byte slice. Reading is a Decoder over a byte slice,
// whose first error sticks, so that a record is read without a check per field.
// Neither uses reflection; neither allocates, except for slices that the caller asks for.
// Every length is checked against the available bytes before it is used.
package jute

import (
	"encoding/binary"
	"errors"
	"unsafe"
)

// Errors of a Decoder. All mean that the input is not a record.
var (
	ErrShort  = errors.New("jute: input ends within a field")
	ErrLength = errors.New("jute: length is negative or larger than the input")
	ErrNull   = errors.New("jute: string is null")
)

// AppendBool appends one byte, 0 or 1.
func AppendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// AppendInt appends four bytes.
func AppendInt(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }

// AppendLong appends eight bytes.
func AppendLong(b []byte, v int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(v)) }

// AppendBuffer appends a buffer; a nil v is written as null, an empty one as empty.
func AppendBuffer(b, v []byte) []byte {
	if v == nil {
		return AppendInt(b, -1)
	}
	return append(AppendInt(b, int32(len(v))), v...)
}

// AppendString appends a string. It is never null.
func AppendString(b []byte, v string) []byte {
	return append(AppendInt(b, int32(len(v))), v...)
}

// AppendStrings appends a vector of strings; nil is written as null.
func AppendStrings(b []byte, v []string) []byte {
	if v == nil {
		return AppendInt(b, -1)
	}
	b = AppendInt(b, int32(len(v)))
	for _, s := range v {
		b = AppendString(b, s)
	}
	return b
}

// PutInt overwrites the four bytes at b[0:4].
func PutInt(b []byte, v int32) { binary.BigEndian.PutUint32(b, uint32(v)) }

// PutLong overwrites the eight bytes at b[0:8].
func PutLong(b []byte, v int64) { binary.BigEndian.PutUint64(b, uint64(v)) }

// A Decoder reads fields from the front of a byte slice. After its first error
// every read returns a zero value. Buffers and strings that it returns alias
// the input: they are valid as long as the input is neither changed nor reused,
// and must be cloned to be kept longer.
type Decoder struct {
	rest []byte
	err  error
}

// NewDecoder reads from b.
func NewDecoder(b []byte) Decoder { return Decoder{rest: b} }

// Err returns the first error.
func (d *Decoder) Err() error { return d.err }

// Rest returns the input that is not read yet; nil after an error.
func (d *Decoder) Rest() []byte { return d.rest }

// Len returns the number of bytes that are not read yet.
func (d *Decoder) Len() int { return len(d.rest) }

// Fail makes err stick if it is the first error. Readers of records use it for
// values that are well formed and still impossible.
func (d *Decoder) Fail(err error) {
	if d.err == nil {
		d.err = err
	}
	d.rest = nil
}

// Byte reads one byte.
func (d *Decoder) Byte() byte {
	if len(d.rest) < 1 {
		d.Fail(ErrShort)
		return 0
	}
	v := d.rest[0]
	d.rest = d.rest[1:]
	return v
}

// Bool reads one byte; any value but 0 is true.
func (d *Decoder) Bool() bool { return d.Byte() != 0 }

// Int reads four bytes.
func (d *Decoder) Int() int32 {
	if len(d.rest) < 4 {
		d.Fail(ErrShort)
		return 0
	}
	v := int32(binary.BigEndian.Uint32(d.rest))
	d.rest = d.rest[4:]
	return v
}

// Long reads eight bytes.
func (d *Decoder) Long() int64 {
	if len(d.rest) < 8 {
		d.Fail(ErrShort)
		return 0
	}
	v := int64(binary.BigEndian.Uint64(d.rest))
	d.rest = d.rest[8:]
	return v
}

// Fixed reads n bytes, of a record whose fields have no lengths of their own. The
// result is nil when fewer are left.
func (d *Decoder) Fixed(n int) []byte {
	if len(d.rest) < n {
		d.Fail(ErrShort)
		return nil
	}
	v := d.rest[:n:n]
	d.rest = d.rest[n:]
	return v
}

// Buffer reads a buffer; null is nil, empty is not. The result has no spare
// capacity, so that appending to it cannot overwrite the input.
func (d *Decoder) Buffer() []byte {
	n := d.Int()
	if d.err != nil || n == -1 {
		return nil
	}
	if n < 0 || int(n) > len(d.rest) {
		d.Fail(ErrLength)
		return nil
	}
	v := d.rest[:n:n]
	d.rest = d.rest[n:]
	return v
}

// String reads a string; null reads as "". The bytes are not checked to be
// UTF-8: they are kept as they came, so that digests and keys stay stable.
func (d *Decoder) String() string {
	b := d.Buffer()
	if len(b) == 0 {
		return ""
	}
	return unsafe.String(&b[0], len(b))
}

// Path reads a string that must not be null, as the path of most requests; null
// is ErrNull.
func (d *Decoder) Path() string {
	if len(d.rest) >= 4 && int32(binary.BigEndian.Uint32(d.rest)) == -1 {
		d.Fail(ErrNull)
		return ""
	}
	return d.String()
}

// Count reads the length of a vector whose elements take at least minBytes
// each; null reads as 0, and so does any other negative count, as in Apache. A
// count that the rest of the input cannot hold is ErrLength, so a caller may
// allocate by it.
func (d *Decoder) Count(minBytes int) int {
	n, _ := d.NullableCount(minBytes)
	return n
}

// NullableCount is Count, and tells null from empty.
func (d *Decoder) NullableCount(minBytes int) (n int, null bool) {
	c := d.Int()
	if d.err != nil {
		return 0, false
	}
	if c == -1 {
		return 0, true
	}
	if c < 0 {
		return 0, false
	}
	if int(c) > len(d.rest)/minBytes {
		d.Fail(ErrLength)
		return 0, false
	}
	return int(c), false
}

// Strings reads a vector of strings; null reads as nil. It allocates the slice,
// not the strings.
func (d *Decoder) Strings() []string {
	n, null := d.NullableCount(4)
	if null || d.err != nil {
		return nil
	}
	v := make([]string, n)
	for i := range v {
		v[i] = d.String()
	}
	if d.err != nil {
		return nil
	}
	return v
}
