package config

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf16"
)

// A reconfiguration writes two files, as an Apache server does: the server, group and weight
// lines go to a file whose name has their version, and zoo.cfg names that file in place of
// lines of its own.

// DynamicFile returns the name and the content of the file for the members, for a server
// whose zoo.cfg is file: sorted lines, without the version and without an end of line at the
// end.
func (m *Members) DynamicFile(file string) (name string, content []byte) {
	lines := strings.Split(string(m.Text()), "\n")
	lines = lines[:len(lines)-1] // version=
	slices.Sort(lines)
	return fmt.Sprintf("%s%s%x", file, DynamicSuffix, uint64(m.Version)), []byte(strings.Join(lines, "\n"))
}

// Rewritten returns the text of a zoo.cfg whose members are in the file dynamic from now on:
// without its own server, group and weight lines, peerType, and the name of another dynamic
// file, and with the new name in its last line. clientPort and clientPortAddress go too if
// hasClient says that the server's own line has them. Everything else remains as it is,
// comments too, where Apache loses them. had reports whether there were lines of members.
//
// REQUIRES: Load has read the text.
func Rewritten(text []byte, dynamic string, hasClient bool) (rewritten []byte, had bool) {
	ends := []int{0} // of the natural lines
	for s := (lineScanner{rest: text}); len(s.rest) > 0; {
		s.natural()
		ends = append(ends, len(text)-len(s.rest))
	}
	var b []byte
	kept := 0 // up to here the text is copied or left out
	for s := (lineScanner{rest: text}); s.next(); {
		raw, _ := splitKey(s.line)
		key, err := unescape(raw)
		key = strings.TrimSpace(key)
		member := err == nil && isMemberKey(key)
		had = had || member
		gone := member || key == "dynamicConfigFile" || key == "peerType" || key == "version" ||
			hasClient && (key == "clientPort" || key == "clientPortAddress")
		if gone {
			b = append(b, text[kept:ends[s.at-1]]...)
			kept = ends[s.seen]
		}
	}
	b = append(b, text[kept:]...)
	if len(b) > 0 && !bytes.HasSuffix(b, []byte("\n")) {
		b = append(b, '\n')
	}
	return fmt.Appendf(b, "dynamicConfigFile=%s\n", escaped(dynamic)), had
}

// escaped returns a value as a file of properties has it.
func escaped(value string) string {
	var b strings.Builder
	for _, r := range filepath.ToSlash(value) {
		switch {
		case r == '\\':
			b.WriteString(`\\`)
		case r < ' ' || r > '~':
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, `\u%04x`, unit)
			}
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
