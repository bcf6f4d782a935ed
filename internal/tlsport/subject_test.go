package tlsport

import (
	"crypto/x509/pkix"
	"encoding/asn1"
	"testing"
)

func attributeOf(oid asn1.ObjectIdentifier, value any) pkix.AttributeTypeAndValue {
	return pkix.AttributeTypeAndValue{Type: oid, Value: value}
}

// The names are those that Java's X500Principal.getName gives.
func TestSubjectName(t *testing.T) {
	cn, o, ou := asn1.ObjectIdentifier{2, 5, 4, 3}, asn1.ObjectIdentifier{2, 5, 4, 10}, asn1.ObjectIdentifier{2, 5, 4, 11}
	dc, serial := asn1.ObjectIdentifier{0, 9, 2342, 19200300, 100, 1, 25}, asn1.ObjectIdentifier{2, 5, 4, 5}
	for want, names := range map[string]pkix.RDNSequence{
		"":                   {},
		"CN=a,CN=c+OU=b,O=d": {{attributeOf(o, "d")}, {attributeOf(ou, "b"), attributeOf(cn, "c")}, {attributeOf(cn, "a")}},
		`CN=x\=y\#z\, \"q\"`: {{attributeOf(cn, `x=y#z, "q"`)}},
		`CN=\ a  b\ `:        {{attributeOf(cn, " a  b ")}},
		`CN=\#h\<\>\;\+\\ü`:  {{attributeOf(cn, `#h<>;+\ü`)}},
		"DC=com":             {{attributeOf(dc, "com")}},
		"2.5.4.5=#130131":    {{attributeOf(serial, "1")}},
		"CN=#020107":         {{attributeOf(cn, 7)}},
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
