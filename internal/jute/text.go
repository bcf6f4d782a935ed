package jute

import (
	"strings"
	"unicode/utf8"
)

// JavaString decodes b as Java does: every longest piece that could have begun a
// character, every half of a surrogate pair, and every other invalid byte becomes one
// U+FFFD. So what is hashed or printed is the same as with a Java server.
func JavaString(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var s strings.Builder
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			for n < len(b) && !utf8.FullRune(b[:n]) && !utf8.FullRune(b[:n+1]) {
				n++
			}
			if surrogateHalf(b) {
				n = 3
			}
		}
		s.WriteRune(r)
		b = b[n:]
	}
	return s.String()
}

// surrogateHalf reports whether b begins with one of U+D800 to U+DFFF in the
// form that UTF-8 would give it, which is not allowed.
func surrogateHalf(b []byte) bool {
	return len(b) >= 3 && b[0] == 0xED && b[1] >= 0xA0 && b[1] <= 0xBF && b[2] >= 0x80 && b[2] <= 0xBF
}
