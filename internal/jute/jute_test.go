package jute

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"strings"
	"testing"
)

// The encodings are those of protocol page, section 1.
func TestEncoding(t *testing.T) {
	tests := []struct {
		name string
		got  []byte
		want string
	}{
		{"false", AppendBool(nil, false), "00"},
		{"true", AppendBool(nil, true), "01"},
		{"int", AppendInt(nil, 0x01020304), "01020304"},
		{"int -1", AppendInt(nil, -1), "ffffffff"},
		{"least int", AppendInt(nil, math.MinInt32), "80000000"},
		{"long", AppendLong(nil, 0x0102030405060708), "0102030405060708"},
		{"least long", AppendLong(nil, math.MinInt64), "8000000000000000"},
		{"null buffer", AppendBuffer(nil, nil), "ffffffff"},
		{"empty buffer", AppendBuffer(nil, []byte{}), "00000000"},
		{"buffer", AppendBuffer(nil, []byte{0xAB, 0}), "00000002ab00"},
		{"empty string", AppendString(nil, ""), "00000000"},
		{"string", AppendString(nil, "é"), "00000002c3a9"},
		{"null vector", AppendStrings(nil, nil), "ffffffff"},
		{"empty vector", AppendStrings(nil, []string{}), "00000000"},
		{"vector", AppendStrings(nil, []string{"a", ""}), "00000002" + "0000000161" + "00000000"},
		{"appended", AppendInt([]byte{9}, 1), "0900000001"},
	}
	for _, tt := range tests {
		if got := hex.EncodeToString(tt.got); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	b := []byte{1, 2, 3, 4, 5}
	PutInt(b, -2)
	if want := []byte{0xFF, 0xFF, 0xFF, 0xFE, 5}; !bytes.Equal(b, want) {
		t.Errorf("PutInt: %x, want %x", b, want)
	}
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestDecoding(t *testing.T) {
	d := NewDecoder(unhex(t, "02 fffffffe 8000000000000001 00000002 ab00 ffffffff 00000000 00000001 61 ffffffff"+
		"00000002 00000001 62 00000000 ffffffff 00000000 00000001 63 0809 77"))
	if v := d.Bool(); !v {
		t.Error("Bool: a byte other than 0 is false")
	}
	if v := d.Int(); v != -2 {
		t.Errorf("Int = %d", v)
	}
	if v := d.Long(); v != math.MinInt64+1 {
		t.Errorf("Long = %d", v)
	}
	if v := d.Buffer(); !bytes.Equal(v, []byte{0xAB, 0}) || cap(v) != 2 {
		t.Errorf("Buffer = %x of capacity %d", v, cap(v))
	}
	if v := d.Buffer(); v != nil {
		t.Errorf("null Buffer = %#v", v)
	}
	if v := d.Buffer(); v == nil || len(v) != 0 {
		t.Errorf("empty Buffer = %#v", v)
	}
	if v := d.String(); v != "a" {
		t.Errorf("String = %q", v)
	}
	if v := d.String(); v != "" {
		t.Errorf("null String = %q", v)
	}
	if v := d.Strings(); len(v) != 2 || v[0] != "b" || v[1] != "" {
		t.Errorf("Strings = %q", v)
	}
	if v := d.Strings(); v != nil {
		t.Errorf("null Strings = %#v", v)
	}
	if v := d.Strings(); v == nil || len(v) != 0 {
		t.Errorf("empty Strings = %#v", v)
	}
	if v := d.Path(); v != "c" {
		t.Errorf("Path = %q", v)
	}
	if v := d.Fixed(2); !bytes.Equal(v, []byte{8, 9}) || cap(v) != 2 {
		t.Errorf("Fixed = %x of capacity %d", v, cap(v))
	}
	if d.Len() != 1 || !bytes.Equal(d.Rest(), []byte{0x77}) || d.Err() != nil {
		t.Errorf("rest %x, error %v", d.Rest(), d.Err())
	}
}

// Every read fails in its own way, and everything that is read behind it is zero.
func TestErrorsStick(t *testing.T) {
	tests := []struct {
		name  string
		input string
		read  func(*Decoder) bool // reports whether the result is zero
		want  error
	}{
		{"no byte", "", func(d *Decoder) bool { return d.Byte() == 0 }, ErrShort},
		{"no bool", "", func(d *Decoder) bool { return !d.Bool() }, ErrShort},
		{"short int", "010203", func(d *Decoder) bool { return d.Int() == 0 }, ErrShort},
		{"short long", "01020304050607", func(d *Decoder) bool { return d.Long() == 0 }, ErrShort},
		{"short record", "0102", func(d *Decoder) bool { return d.Fixed(3) == nil }, ErrShort},
		{"short length", "0000", func(d *Decoder) bool { return d.Buffer() == nil }, ErrShort},
		{"short buffer", "00000002 01", func(d *Decoder) bool { return d.Buffer() == nil }, ErrLength},
		{"giant buffer", "7fffffff 01", func(d *Decoder) bool { return d.Buffer() == nil }, ErrLength},
		{"negative buffer", "fffffffe 01", func(d *Decoder) bool { return d.Buffer() == nil }, ErrLength},
		{"least buffer", "80000000 01", func(d *Decoder) bool { return d.Buffer() == nil }, ErrLength},
		{"giant string", "7fffffff 01", func(d *Decoder) bool { return d.String() == "" }, ErrLength},
		{"null path", "ffffffff 01", func(d *Decoder) bool { return d.Path() == "" }, ErrNull},
		{"short path", "0000", func(d *Decoder) bool { return d.Path() == "" }, ErrShort},
		{"giant vector", "7fffffff 00000000", func(d *Decoder) bool { return d.Strings() == nil }, ErrLength},
		{"vector one too long", "00000002 00000000", func(d *Decoder) bool { return d.Strings() == nil }, ErrLength},
		{"vector with a giant string", "00000002 00000000 7fffffff", func(d *Decoder) bool { return d.Strings() == nil }, ErrLength},
		{"giant count", "00000002 00000000000000", func(d *Decoder) bool { return d.Count(4) == 0 }, ErrLength},
		{"short count", "00", func(d *Decoder) bool { n, null := d.NullableCount(4); return n == 0 && !null }, ErrShort},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := NewDecoder(unhex(t, tt.input))
			if !tt.read(&d) {
				t.Error("the result is not zero")
			}
			if !errors.Is(d.Err(), tt.want) {
				t.Errorf("error %v, want %v", d.Err(), tt.want)
			}
			if d.Len() != 0 || d.Rest() != nil {
				t.Errorf("%d bytes are left", d.Len())
			}
			if d.Int() != 0 || d.Long() != 0 || d.Byte() != 0 || d.Buffer() != nil || d.String() != "" || d.Path() != "" ||
				d.Strings() != nil || d.Count(1) != 0 {
				t.Error("a read after the error is not zero")
			}
			if !errors.Is(d.Err(), tt.want) {
				t.Errorf("the error became %v", d.Err())
			}
		})
	}
}

func TestFailKeepsTheFirstError(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	d := NewDecoder([]byte{1, 2, 3})
	d.Fail(first)
	d.Fail(second)
	if d.Err() != first || d.Len() != 0 {
		t.Errorf("error %v, %d bytes left", d.Err(), d.Len())
	}
}

func TestCount(t *testing.T) {
	for _, tt := range []struct {
		input string
		min   int
		n     int
		null  bool
	}{
		{"ffffffff", 4, 0, true},
		{"fffffffe", 4, 0, false}, // Apache reads any other negative count as an empty vector
		{"80000000 00000000", 4, 0, false},
		{"00000000", 4, 0, false},
		{"00000002 0000000000000000", 4, 2, false},
		{"00000002 0000000000000000", 3, 2, false},
	} {
		d := NewDecoder(unhex(t, tt.input))
		if n, null := d.NullableCount(tt.min); n != tt.n || null != tt.null || d.Err() != nil {
			t.Errorf("%s by %d: %d, %v, %v; want %d, %v", tt.input, tt.min, n, null, d.Err(), tt.n, tt.null)
		}
	}
}

// A buffer aliases the input, and appending to it leaves the input alone.
func TestBufferAliases(t *testing.T) {
	in := unhex(t, "00000001 aa bb")
	d := NewDecoder(in)
	v := d.Buffer()
	_ = append(v, 0xCC)
	if in[5] != 0xBB {
		t.Errorf("appending wrote %#x behind the buffer", in[5])
	}
	in[4] = 0xDD
	if v[0] != 0xDD {
		t.Error("the buffer is a copy")
	}
}

func TestDecodingDoesNotAllocate(t *testing.T) {
	in := unhex(t, "01 00000001 0000000000000001 00000001 aa 00000001 61 00000001 62")
	n := testing.AllocsPerRun(100, func() {
		d := NewDecoder(in)
		d.Bool()
		d.Int()
		d.Long()
		d.Buffer()
		_ = d.String()
		d.Path()
		if d.Err() != nil || d.Len() != 0 {
			t.Fatal(d.Err())
		}
	})
	if n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

// FuzzDecoder reads an arbitrary sequence of fields: what is read and written
// again is the input, and a refused vector has not been allocated.
func FuzzDecoder(f *testing.F) {
	f.Add([]byte("bilps"), []byte("\x01\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x01x"))
	f.Add([]byte("vv"), []byte("\x00\x00\x00\x02\x00\x00\x00\x01a\x00\x00\x00\x00\xff\xff\xff\xff"))
	f.Add([]byte("v"), []byte("\x7f\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, fields, in []byte) {
		var out []byte
		d := NewDecoder(in)
		for _, kind := range fields {
			before := d.Len()
			switch kind % 6 {
			case 0:
				if v := d.Byte(); d.Err() == nil {
					out = append(out, v)
				}
			case 1:
				out = AppendInt(out, d.Int())
			case 2:
				out = AppendLong(out, d.Long())
			case 3:
				out = AppendBuffer(out, d.Buffer())
			case 4:
				out = AppendString(out, d.Path())
			case 5:
				v := d.Strings()
				if len(v)*4 > before {
					t.Fatalf("%d strings of %d bytes", len(v), before)
				}
				if d.Err() == nil && canonical(v, in[len(out):]) {
					out = AppendStrings(out, v)
				} else {
					return // null strings are not written again
				}
			}
			if d.Err() != nil {
				if d.Len() != 0 {
					t.Fatalf("%d bytes left after %v", d.Len(), d.Err())
				}
				return
			}
		}
		if !bytes.Equal(out, in[:len(in)-d.Len()]) {
			t.Errorf("%x was written again as %x", in[:len(in)-d.Len()], out)
		}
	})
}

// canonical reports whether b begins with v as it would be written.
func canonical(v []string, b []byte) bool { return bytes.HasPrefix(b, AppendStrings(nil, v)) }

func BenchmarkDecode(b *testing.B) {
	in := AppendString(nil, "/some/path/of/a/znode")
	in = AppendBuffer(in, make([]byte, 1024))
	in = AppendLong(AppendInt(in, 7), 9)
	b.ReportAllocs()
	b.SetBytes(int64(len(in)))
	for b.Loop() {
		d := NewDecoder(in)
		_ = d.Path()
		d.Buffer()
		d.Int()
		d.Long()
		if d.Err() != nil {
			b.Fatal(d.Err())
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	data := make([]byte, 1024)
	var out []byte
	b.ReportAllocs()
	for b.Loop() {
		out = AppendString(out[:0], "/some/path/of/a/znode")
		out = AppendBuffer(out, data)
		out = AppendLong(AppendInt(out, 7), 9)
	}
	b.SetBytes(int64(len(out)))
}
