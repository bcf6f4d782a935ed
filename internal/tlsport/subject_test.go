package tlsport

import (
	"crypto/x509/pkix"
	"encoding/asn1"
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
