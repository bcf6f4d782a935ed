package tlsport

import (
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"strings"
	"testing"
)

func attributeOf(oid asn1.ObjectIdentifier, value any) pkix.AttributeTypeAndValue {
	return pkix.AttributeTypeAndValue{Type: oid, Value: value}
}

// text is a T61String of any bytes.
func text(bytes string) asn1.RawValue {
	return asn1.RawValue{Tag: asn1.TagT61String, Bytes: []byte(bytes)}
}

// The names are those that Java's X500Principal.getName gives.
func TestSubjectName(t *testing.T) {
	cn, o, ou := asn1.ObjectIdentifier{2, 5, 4, 3}, asn1.ObjectIdentifier{2, 5, 4, 10}, asn1.ObjectIdentifier{2, 5, 4, 11}
	dc, serial := asn1.ObjectIdentifier{0, 9, 2342, 19200300, 100, 1, 25}, asn1.ObjectIdentifier{2, 5, 4, 5}
	street := asn1.ObjectIdentifier{2, 5, 4, 9}
	for want, names := range map[string]pkix.RDNSequence{
		"":                   {},
		"CN=a,CN=c+OU=b,O=d": {{attributeOf(o, "d")}, {attributeOf(ou, "b"), attributeOf(cn, "c")}, {attributeOf(cn, "a")}},
		`CN=x\=y\#z\, \"q\"`: {{attributeOf(cn, `x=y#z, "q"`)}},
		`CN=\ a  b\ `:        {{attributeOf(cn, " a  b ")}},
		`CN=\#h\<\>\;\+\\ü`:  {{attributeOf(cn, `#h<>;+\ü`)}},
		"DC=com":             {{attributeOf(dc, "com")}},
		"2.5.4.5=#130131":    {{attributeOf(serial, "1")}},
		"CN=#020107":         {{attributeOf(cn, 7)}},
		// What is not UTF-8 becomes as many U+FFFD as in Java: that of Apache 3.9.3 is recorded here.
		"STREET=\\ \uFFFD\uFFFD,CN=\uFFFD\uFFFDé":                                     {{attributeOf(cn, text("\xf0\x9f\xe9\xc3\xa9"))}, {attributeOf(street, text(" \xff\xfe"))}},
		"C=" + strings.Repeat("\uFFFD", 7) + "+STREET=" + strings.Repeat("\uFFFD", 8): {{attributeOf(asn1.ObjectIdentifier{2, 5, 4, 6}, text("\xc0\x80\xf0\x9f\xf8\x88\x80\xed\xa0\x80")), attributeOf(street, text("\xe9\xe8\xf0\x9f\x98\xf8\x88\x80\xff\xfe"))}},
		"CN=\U0001F600\\ ": {{attributeOf(cn, text("\U0001F600 "))}},
	} {
		der, err := asn1.Marshal(names)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := SubjectName(der); err != nil || got != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
	for _, der := range []string{"", "x", "\x30\x00x"} {
		if got, err := SubjectName([]byte(der)); err == nil {
			t.Errorf("%q is %q", der, got)
		}
	}
}

// unescape reads the text of one value that SubjectName has written, up to an unescaped separator, and returns
// the rest.
func unescape(text string) (value, rest string) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == ',' || text[i] == '+':
			return b.String(), text[i:]
		case text[i] != '\\':
			b.WriteByte(text[i])
		case strings.HasPrefix(text[i:], `\00`):
			b.WriteByte(0)
			i += 2
		default:
			i++
			b.WriteByte(text[i])
		}
	}
	return b.String(), ""
}

// FuzzSubjectName: a name has exactly the attributes of the certificate, in the reverse order: whatever a value contains, it
// does not become another attribute.
func FuzzSubjectName(f *testing.F) {
	for _, names := range []pkix.RDNSequence{
		{{attributeOf(asn1.ObjectIdentifier{2, 5, 4, 10}, "Example"), attributeOf(asn1.ObjectIdentifier{1, 2, 3}, 7)}, {attributeOf(asn1.ObjectIdentifier{2, 5, 4, 3}, ` a,CN=b\+"\#; `)}},
		{{attributeOf(asn1.ObjectIdentifier{2, 5, 4, 11}, text("\x00\r\xc3"))}}, {{}},
	} {
		der, err := asn1.Marshal(names)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(der)
	}
	f.Add([]byte("\x30\x00x"))
	f.Fuzz(func(t *testing.T, der []byte) {
		name, err := SubjectName(der)
		if err != nil {
			if strings.Contains(err.Error(), "%!") {
				t.Errorf("%x: %v", der, err)
			}
			return
		}
		var sets []attributeSET
		if _, err := asn1.Unmarshal(der, &sets); err != nil {
			t.Fatalf("%x is %q: %v", der, name, err)
		}
		rest := name
		for i := len(sets) - 1; i >= 0; i-- {
			for j := range sets[i] {
				rest = checkAttribute(t, &sets[i][j], rest)
				if j < len(sets[i])-1 {
					rest = cut(t, rest, "+")
				}
			}
			if i > 0 {
				rest = cut(t, rest, ",")
			}
		}
		if rest != "" {
			t.Errorf("%x is %q, with %q too much", der, name, rest)
		}
	})
}

// checkAttribute checks that text begins with the attribute, and returns the rest.
func checkAttribute(t *testing.T, a *attribute, text string) string {
	t.Helper()
	oid := a.Type.String()
	value, isText := attributeText(&a.Value)
	word, known := keywords[oid]
	if known && isText {
		got, rest := unescape(cut(t, text, word+"="))
		if got != value {
			t.Errorf("%s has the value %q, not %q", oid, got, value)
		}
		return rest
	}
	if !known {
		word = oid
	}
	return cut(t, text, fmt.Sprintf("%s=#%x", word, a.Value.FullBytes))
}

func cut(t *testing.T, text, prefix string) string {
	t.Helper()
	rest, ok := strings.CutPrefix(text, prefix)
	if !ok {
		t.Fatalf("%q does not begin with %q", text, prefix)
	}
	return rest
}
