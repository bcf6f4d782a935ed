package config

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// The results are those of java.util.Properties for the same bytes.
func TestParseProperties(t *testing.T) {
	tests := []struct {
		name string
		text string
		want []entry
	}{
		{"empty", "", nil},
		{"separators", "a=1\nb:2\nc 3\nd\t4\ne\f5\n", []entry{{"a", "1", 1}, {"b", "2", 2}, {"c", "3", 3}, {"d", "4", 4}, {"e", "5", 5}}},
		{"one separator only", "a = = 1\nb:=2\nc  :  3\n", []entry{{"a", "= 1", 1}, {"b", "=2", 2}, {"c", "3", 3}}},
		{"white space", " \t a = 1 \t\n", []entry{{"a", "1 \t", 1}}},
		{"no value", "a\nb=\nc :\n", []entry{{"a", "", 1}, {"b", "", 2}, {"c", "", 3}}},
		{"no key", "=x\n: y\n", []entry{{"", "x", 1}, {"", "y", 2}}},
		{"comments", "# a=1\n  ! b=2\nc=#3!\n#d \\\ne=5", []entry{{"c", "#3!", 3}, {"e", "5", 5}}},
		{"ends of line", "a=1\rb=2\r\nc=3\n\r\n\nd=4", []entry{{"a", "1", 1}, {"b", "2", 2}, {"c", "3", 3}, {"d", "4", 6}}},
		{"continuation", "a=1,\\\n   2,\\\r\n\t3\nb=4", []entry{{"a", "1,2,3", 1}, {"b", "4", 4}}},
		{"continued key", "ab\\\n  cd=1", []entry{{"abcd", "1", 1}}},
		{"even backslashes", "a=1\\\\\nb=2", []entry{{"a", `1\`, 1}, {"b", "2", 2}}},
		{"continuation into a comment sign", "a=\\\n#b", []entry{{"a", "#b", 1}}},
		{"comment behind a lone backslash", "\\\n#b\nc=1", []entry{{"c", "1", 3}}},
		{"continuation at the end", "a=1\\", []entry{{"a", "1", 1}}},
		{"lone backslash", "\\\n", nil},
		{"blank continuation", "a=1\\\n\nb=2", []entry{{"a", "1", 1}, {"b", "2", 3}}},
		{"escapes", `a\=b\:c\ d=\t\n\r\f\\\x\#`, []entry{{"a=b:c d", "\t\n\r\f\\x#", 1}}},
		{"Windows path", `dataDir=C:\data`, []entry{{"dataDir", "C:data", 1}}},
		{"latin-1", "a=\xe9", []entry{{"a", "é", 1}}},
		{"unicode", `a=\u00e9\u20AC`, []entry{{"a", "é€", 1}}},
		{"surrogates", `a=\uD83D\uDE00`, []entry{{"a", "😀", 1}}},
		{"lone surrogates", `a=\uD83Dx\uDE00`, []entry{{"a", "\uFFFDx\uFFFD", 1}}},
		{"repeated", "a=1\na=2", []entry{{"a", "1", 1}, {"a", "2", 2}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseProperties([]byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(entry{})); diff != "" {
				t.Errorf("%q (-want +got):\n%s", tt.text, diff)
			}
		})
	}
}

func TestParsePropertiesRefuses(t *testing.T) {
	tests := []struct{ text, want string }{
		{"a=1\nb=\\u12g4", `2: malformed \uXXXX escape`},
		{"a=1\\\n2\n\\u1=1", `3: malformed \uXXXX escape`},
		{strings.Repeat("#", maxFileBytes+1), "larger than 1048576 bytes"},
	}
	for _, tt := range tests {
		got, err := parseProperties([]byte(tt.text))
		if err == nil || err.Error() != tt.want {
			t.Errorf("parseProperties(%.40q) = %v, %v; want error %q", tt.text, got, err, tt.want)
		}
	}
}

// escape writes text so that it reads as it is, wherever it stands.
func escape(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r >= 0x10000:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xD800+r>>10, 0xDC00+r&0x3FF)
		case r > '~' || r <= ' ':
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteByte('\\')
			b.WriteByte(byte(r))
			if strings.ContainsRune("tnrfu", r) { // an escaped letter would be a sign
				s := b.String()
				b.Reset()
				b.WriteString(s[:len(s)-2] + string(r))
			}
		}
	}
	return b.String()
}

func FuzzParseProperties(f *testing.F) {
	for _, seed := range []string{
		"tickTime=2000\ndataDir=/var/lib/zookeeper\n", "a\\\n#b", "\\u00e9 : \\\r\n x", "\\", "!\r#\\\na = \\uD83D\\uDE00\\uD83D",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		entries, err := parseProperties(text)
		if err != nil {
			return
		}
		size, line := 0, 0
		var again strings.Builder
		for _, e := range entries {
			if e.line <= line {
				t.Fatalf("%q: line %d after line %d", text, e.line, line)
			}
			line = e.line
			size += len(e.key) + len(e.value)
			if !utf8.ValidString(e.key) || !utf8.ValidString(e.value) {
				t.Fatalf("%q: %q=%q is not UTF-8", text, e.key, e.value)
			}
			fmt.Fprintf(&again, "%s=%s\n", escape(e.key), escape(e.value))
		}
		if size > 3*len(text) {
			t.Fatalf("%q: %d bytes grew to %d", text, len(text), size)
		}
		if again.Len() > maxFileBytes {
			return
		}
		same, err := parseProperties([]byte(again.String()))
		if err != nil {
			t.Fatalf("%q, written again as %q: %v", text, again.String(), err)
		}
		for i := range entries {
			entries[i].line = i + 1
		}
		if diff := cmp.Diff(entries, same, cmp.AllowUnexported(entry{})); diff != "" {
			t.Errorf("%q, written again as %q (-first +again):\n%s", text, again.String(), diff)
		}
	})
}
