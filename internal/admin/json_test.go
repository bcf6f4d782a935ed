package admin

import (
	"errors"
	"strings"
	"testing"
)

// The layout is that of Apache's answers; see testdata of test/admin.
func TestLayout(t *testing.T) {
	var got strings.Builder
	j := jsonWriter{send: func(b []byte) error { got.Write(b); return nil }}
	j.object("")
	j.text("text", "a\"\\\b\f\n\r\t\x00\x1f\x7f/é\u2028\xff")
	j.int("whole", -9223372036854775808)
	j.literal("decimal", "0.5")
	j.bool("bool", true)
	j.literal("null", "null")
	j.object("empty")
	j.end()
	j.array("none")
	j.end()
	j.array("numbers")
	j.int("", 1)
	j.int("", 2)
	j.end()
	j.array("objects")
	for range 2 {
		j.object("")
		j.int("x", 1)
		j.array("y")
		j.object("")
		j.int("z", 2)
		j.end()
		j.end()
		j.end()
	}
	j.end()
	j.end()
	j.flush()
	const want = `{
  "text" : "a\"\\\b\f\n\r\t\u0000\u001F` + "\x7f/é\u2028\ufffd" + `",
  "whole" : -9223372036854775808,
  "decimal" : 0.5,
  "bool" : true,
  "null" : null,
  "empty" : { },
  "none" : [ ],
  "numbers" : [ 1, 2 ],
  "objects" : [ {
    "x" : 1,
    "y" : [ {
      "z" : 2
    } ]
  }, {
    "x" : 1,
    "y" : [ {
      "z" : 2
    } ]
  } ]
}`
	if got.String() != want {
		t.Errorf("%s\nwant\n%s", got.String(), want)
	}
}

// At most a piece is kept, and nothing is sent after a failure.
func TestPieces(t *testing.T) {
	gone := errors.New("gone")
	sent, most, calls := 0, 0, 0
	j := jsonWriter{send: func(b []byte) error {
		if calls++; calls == 4 {
			return gone
		}
		sent, most = sent+len(b), max(most, len(b))
		return nil
	}}
	j.object("")
	j.array("list")
	for range 100000 {
		j.text("", "0123456789")
	}
	j.end()
	j.end()
	j.flush()
	if calls != 4 || most >= pieceBytes+64 || !errors.Is(j.err, gone) || j.ok() {
		t.Errorf("%d calls, at most %d bytes, %v", calls, most, j.err)
	}
	if cap(j.b) > 2*pieceBytes {
		t.Errorf("it keeps %d bytes", cap(j.b))
	}
}
