package config

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf16"
)

// maxFileBytes bounds a configuration file. Apache's largest examples have a few
// kilobytes.
const maxFileBytes = 1 << 20

// An entry is one key of a file in Java's properties syntax.
type entry struct {
	key   string
	value string
	line  int // of the key, from 1; 0 for Source.Settings
}

// Properties reads a file of java.util.Properties, such as the configuration of Java's
// clients. It returns the last value of each key, with white space trimmed as ZooKeeper
// does. The error names the line that Java refuses, or says that the file is larger
// than maxFileBytes.
func Properties(text []byte) (map[string]string, error) {
	entries, err := parseProperties(text)
	if err != nil {
		return nil, err
	}
	values := make(map[string]string, len(entries))
	for _, e := range entries {
		values[strings.TrimSpace(e.key)] = strings.TrimSpace(e.value)
	}
	return values, nil
}

// parseProperties reads java.util.Properties syntax in the order of the file, including
// repeated keys. Input bytes are Latin-1, as Java reads them; results are UTF-8. The
// only invalid input is a malformed \uXXXX, which Java refuses too; the error names its
// line.
//
// The syntax: lines end with LF, CR or CRLF. White space (space, tab, form feed) before
// a key is ignored; an empty line, or one whose first character is # or !, is skipped.
// A line that ends with an odd number of backslashes continues in the next one, without
// the leading white space of that. The key ends at the first =, : or white space that
// has no backslash before it; white space around one = or : belongs to neither side.
// Trailing white space belongs to the value.
func parseProperties(text []byte) ([]entry, error) {
	if len(text) > maxFileBytes {
		return nil, fmt.Errorf("larger than %d bytes", maxFileBytes)
	}
	var all []entry
	s := lineScanner{rest: text}
	for s.next() {
		rawKey, rawValue := splitKey(s.line)
		key, err := unescape(rawKey)
		if err != nil {
			return nil, &lineError{s.at, err}
		}
		value, err := unescape(rawValue)
		if err != nil {
			return nil, &lineError{s.at, err}
		}
		all = append(all, entry{key, value, s.at})
	}
	return all, nil
}

// A lineError is a syntax error at a line of a file.
type lineError struct {
	line int
	err  error
}

func (e *lineError) Error() string { return fmt.Sprintf("%d: %v", e.line, e.err) }

func (e *lineError) Unwrap() error { return e.err }

// A lineScanner joins continued lines and skips empty lines and comments.
type lineScanner struct {
	rest []byte
	line []byte // the logical line, including escapes
	at   int    // number of its first natural line
	seen int    // natural lines read
}

// next reads a logical line. It reports false at the end of the input.
//
// Java's reader knows only the characters of the logical line so far. If there are
// none, because a line was a lone backslash, the next natural line may still be a
// comment. (A lone backslash at the end of the input is an empty key in Java if the
// line ends with LF, and nothing if it ends with CRLF. Here it is nothing.)
func (s *lineScanner) next() bool {
	var joined []byte
	continued := false // the line continues
	for len(s.rest) > 0 {
		line := s.natural()
		if len(joined) == 0 && (len(line) == 0 || line[0] == '#' || line[0] == '!') {
			continued = false
			continue
		}
		if !continued {
			s.at = s.seen
		}
		if !continues(line) {
			s.line = append(joined, line...)
			return true
		}
		joined = append(joined, line[:len(line)-1]...)
		continued = true
	}
	s.line = joined
	return len(joined) > 0
}

// natural returns the next natural line without its leading white space.
func (s *lineScanner) natural() []byte {
	s.seen++
	end := 0
	for end < len(s.rest) && s.rest[end] != '\n' && s.rest[end] != '\r' {
		end++
	}
	line, rest := s.rest[:end], s.rest[end:]
	switch {
	case len(rest) >= 2 && rest[0] == '\r' && rest[1] == '\n':
		rest = rest[2:]
	case len(rest) > 0:
		rest = rest[1:]
	}
	s.rest = rest
	for len(line) > 0 && isBlank(line[0]) {
		line = line[1:]
	}
	return line
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\f' }

// continues reports whether the line ends with an odd number of backslashes.
func continues(line []byte) bool {
	n := 0
	for n < len(line) && line[len(line)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

// splitKey splits a logical line into key and value, both still escaped.
func splitKey(line []byte) (key, value []byte) {
	end := 0
	for end < len(line) && line[end] != '=' && line[end] != ':' && !isBlank(line[end]) {
		if line[end] == '\\' {
			end++
		}
		end++
	}
	end = min(end, len(line))
	key, value = line[:end], line[end:]
	value = skipBlank(value)
	if len(value) > 0 && (value[0] == '=' || value[0] == ':') {
		value = skipBlank(value[1:])
	}
	return key, value
}

func skipBlank(b []byte) []byte {
	for len(b) > 0 && isBlank(b[0]) {
		b = b[1:]
	}
	return b
}

var errUnicodeEscape = errors.New(`malformed \uXXXX escape`)

// unescape converts escaped Latin-1 to UTF-8. A surrogate pair written as two \uXXXX
// becomes one character; a lone surrogate becomes U+FFFD.
func unescape(raw []byte) (string, error) {
	var b strings.Builder
	b.Grow(len(raw))
	var high rune // a first surrogate whose second is pending, or 0
	emit := func(r rune) {
		if high != 0 {
			pair := utf16.DecodeRune(high, r)
			high = 0
			b.WriteRune(pair) // U+FFFD if they are not a pair
			if pair != '\uFFFD' {
				return
			}
		}
		if r >= 0xD800 && r < 0xDC00 {
			high = r
			return
		}
		b.WriteRune(r)
	}
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		if c != '\\' || i+1 == len(raw) {
			if c != '\\' {
				emit(rune(c))
			}
			continue
		}
		i++
		switch raw[i] {
		case 't':
			emit('\t')
		case 'n':
			emit('\n')
		case 'r':
			emit('\r')
		case 'f':
			emit('\f')
		case 'u':
			r, ok := hex4(raw[i+1:])
			if !ok {
				return "", errUnicodeEscape
			}
			emit(r)
			i += 4
		default:
			emit(rune(raw[i]))
		}
	}
	if high != 0 {
		b.WriteRune('\uFFFD')
	}
	return b.String(), nil
}

func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range b[:4] {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c >= 'a' && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return 0, false
		}
	}
	return r, true
}
