package admin

import (
	"strconv"
	"unicode/utf8"
)

// A jsonWriter writes one JSON object in the layout of Apache's answers: an indentation of
// two spaces for each object, " : " after a key, arrays on one line. It keeps at most one
// piece of the output: whenever pieceBytes are complete it calls send.
type jsonWriter struct {
	b    []byte
	open []container
	send func([]byte) error
	err  error // of the send that failed; nothing more is written
}

// A container is an object or an array that has begun and not ended.
type container struct {
	array bool
	n     int // values in it
}

// pieceBytes is the length from which output is sent.
const pieceBytes = 32 << 10

// ok reports whether the output is still wanted. A command that lists much returns when
// it is false.
func (j *jsonWriter) ok() bool { return j.err == nil }

// begin writes what precedes a value: a comma, the indentation, the key. The key is "" in
// an array and for the outermost object.
func (j *jsonWriter) begin(key string) {
	if len(j.b) >= pieceBytes {
		j.flush()
	}
	if len(j.open) == 0 {
		return
	}
	c := &j.open[len(j.open)-1]
	c.n++
	if c.array {
		if c.n > 1 {
			j.b = append(j.b, ',')
		}
		j.b = append(j.b, ' ')
		return
	}
	if c.n > 1 {
		j.b = append(j.b, ',')
	}
	j.indent()
	j.b = appendString(j.b, key)
	j.b = append(j.b, " : "...)
}

// indent begins a line within the present object. Arrays do not indent what is in them.
func (j *jsonWriter) indent() {
	j.b = append(j.b, '\n')
	for _, c := range j.open {
		if !c.array {
			j.b = append(j.b, "  "...)
		}
	}
}

// end ends the present object or array.
func (j *jsonWriter) end() {
	last := len(j.open) - 1
	c := j.open[last]
	j.open = j.open[:last]
	switch {
	case c.array:
		j.b = append(j.b, " ]"...)
	case c.n == 0:
		j.b = append(j.b, " }"...)
	default:
		j.indent()
		j.b = append(j.b, '}')
	}
}

// flush sends what is complete.
func (j *jsonWriter) flush() {
	if j.err == nil && len(j.b) > 0 {
		j.err = j.send(j.b)
	}
	j.b = j.b[:0]
}

// object begins an object.
func (j *jsonWriter) object(key string) {
	j.begin(key)
	j.b = append(j.b, '{')
	j.open = append(j.open, container{})
}

// array begins an array.
func (j *jsonWriter) array(key string) {
	j.begin(key)
	j.b = append(j.b, '[')
	j.open = append(j.open, container{array: true})
}

// text writes a string.
func (j *jsonWriter) text(key, v string) {
	j.begin(key)
	j.b = appendString(j.b, v)
}

// int writes a whole number.
func (j *jsonWriter) int(key string, v int64) {
	j.begin(key)
	j.b = strconv.AppendInt(j.b, v, 10)
}

// bool writes true or false.
func (j *jsonWriter) bool(key string, v bool) { j.literal(key, strconv.FormatBool(v)) }

// literal writes a number, true, false or null as it is given.
func (j *jsonWriter) literal(key, v string) {
	j.begin(key)
	j.b = append(j.b, v...)
}

// appendString appends a JSON string. As in Apache's answers only quotes, backslashes and
// control characters are escaped. What is not UTF-8 becomes U+FFFD.
func appendString(b []byte, s string) []byte {
	const hex = "0123456789ABCDEF"
	b = append(b, '"')
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			b = utf8.AppendRune(b, r)
			i += n
			continue
		}
		i++
		switch {
		case c == '"', c == '\\':
			b = append(b, '\\', c)
		case c == '\n':
			b = append(b, `\n`...)
		case c == '\r':
			b = append(b, `\r`...)
		case c == '\t':
			b = append(b, `\t`...)
		case c == '\b':
			b = append(b, `\b`...)
		case c == '\f':
			b = append(b, `\f`...)
		case c < ' ':
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}
