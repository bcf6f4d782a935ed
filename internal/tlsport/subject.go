package tlsport

import (
	"encoding/asn1"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/jute"
)

// keywords are the attributes that Java writes by name in a subject.
var keywords = map[string]string{
	"2.5.4.3": "CN", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.10": "O", "2.5.4.11": "OU", "2.5.4.9": "STREET",
	"0.9.2342.19200300.100.1.25": "DC", "0.9.2342.19200300.100.1.1": "UID",
}

// attribute is an attribute of a subject, in DER.
type attribute struct {
	Type  asn1.ObjectIdentifier
	Value asn1.RawValue
}

type attributeSET []attribute // the suffix makes it an ASN.1 SET

// SubjectName returns the subject of a certificate, which is given in DER, in the form of
// RFC 2253 that Java's X500Principal.getName writes. That is the identity of scheme x509.
func SubjectName(der []byte) (string, error) {
	var names []attributeSET
	rest, err := asn1.Unmarshal(der, &names)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d bytes too many", len(rest))
	}
	if err != nil {
		return "", fmt.Errorf("tlsport: subject of a certificate: %w", err)
	}
	slices.Reverse(names)
	var b strings.Builder
	for i, set := range names {
		if i > 0 {
			b.WriteByte(',')
		}
		for j := range set {
			if j > 0 {
				b.WriteByte('+')
			}
			writeAttribute(&b, &set[j])
		}
	}
	return b.String(), nil
}

func writeAttribute(b *strings.Builder, a *attribute) {
	oid := a.Type.String()
	name, known := keywords[oid]
	text, isText := attributeText(&a.Value)
	if !known || !isText {
		if !known {
			name = oid
		}
		b.WriteString(name + "=#" + hex.EncodeToString(a.Value.FullBytes))
		return
	}
	b.WriteString(name + "=")
	first, last := len(text)-len(strings.TrimLeft(text, " \r")), len(strings.TrimRight(text, " \r"))
	for i, r := range text {
		switch {
		case r == 0:
			b.WriteString(`\00`)
			continue
		case strings.ContainsRune(",=+<>#;\"\\", r), i < first, i >= last:
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
}

// attributeText returns the text of a value, and whether it is one that Java shows as text.
func attributeText(v *asn1.RawValue) (string, bool) {
	if v.Class != asn1.ClassUniversal {
		return "", false
	}
	switch v.Tag {
	case asn1.TagPrintableString, asn1.TagT61String, asn1.TagIA5String, asn1.TagGeneralString, asn1.TagUTF8String, asn1.TagBMPString:
		return jute.JavaString(v.Bytes), true // whatever the tag says, as Java does
	}
	return "", false
}
