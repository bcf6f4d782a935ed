package clients

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"flag"
	"math/big"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/certs"
	"github.com/pinfold-zk/pinfold/test/frames"
)

var subjectSeed = flag.Uint64("subjectseed", 1, "seed of the names of TestSubjects")

// A subject is that of a certificate: sets of attributes, the first of the certificate first.
type subject [][]attribute

type attribute struct {
	oid   asn1.ObjectIdentifier
	tag   int
	value string // the bytes of the value
}

// der encodes it as it is: no value is checked, and no set is sorted.
func (n subject) der(t *testing.T) []byte {
	t.Helper()
	encode := func(tag int, parts ...[]byte) []byte {
		b, err := asn1.Marshal(asn1.RawValue{Tag: tag, IsCompound: tag == asn1.TagSequence || tag == asn1.TagSet, Bytes: slices.Concat(parts...)})
		must(t, err)
		return b
	}
	var sets [][]byte
	for _, set := range n {
		var list [][]byte
		for _, a := range set {
			oid, err := asn1.Marshal(a.oid)
			must(t, err)
			list = append(list, encode(asn1.TagSequence, oid, encode(a.tag, []byte(a.value))))
		}
		sets = append(sets, encode(asn1.TagSet, list...))
	}
	return encode(asn1.TagSequence, sets...)
}

const tagUniversalString = 28

// The attributes by name in Java's subjects, and some others.
var attributeTypes = []asn1.ObjectIdentifier{
	{2, 5, 4, 3}, {2, 5, 4, 6}, {2, 5, 4, 7}, {2, 5, 4, 8}, {2, 5, 4, 9}, {2, 5, 4, 10}, {2, 5, 4, 11}, {0, 9, 2342, 19200300, 100, 1, 25}, {0, 9, 2342, 19200300, 100, 1, 1},
	{2, 5, 4, 5}, {2, 5, 4, 4}, {2, 5, 4, 12}, {2, 5, 4, 17}, {2, 5, 4, 42}, {1, 2, 840, 113549, 1, 9, 1}, {1, 2, 3}, {2, 999, 1},
}

// valueKinds are kinds of values, with pieces of which random ones are made: what RFC 2253 escapes, what begins and ends a
// value, characters beyond ASCII and beyond the basic plane. The last two kinds are in no certificate that
// Go's library reads.
var valueKinds = []struct {
	tag    int
	pieces []string
}{
	{asn1.TagUTF8String, []string{
		"a", "B c", " ", "  ", "\r", "\n", "\t", "\x00", "\x7f", ",", "=", "+", "<", ">", "#", ";", `"`, `\`, "/", "'", "é", "ß中", "\U0001F600", "\u00a0", "\u202e", "\ufeff", "\ufffd",
	}},
	{asn1.TagPrintableString, []string{"a", "B c", " ", "'", "(", "+", ",", "-", ".", "/", ":", "=", "?"}},
	{asn1.TagIA5String, []string{"a", " ", "\r", "\x00", "#", `\`, `"`, ";", "@", "_", "<"}},
	{asn1.TagT61String, []string{"a", "\xe9", "\xe9\xe8", "\xff\xfe", "\xc3", "\xc3\xa9", "\xed\xa0\x80", "\xc0\x80", "\xf0\x9f", "\xf0\x9f\x98", "\xf8\x88\x80", "#", " "}},
	{asn1.TagBMPString, []string{"\x00a", "\x00 ", "\x4e\x2d", "\x00\xe9", "\x00,", "\xff\x00"}},
	{asn1.TagNumericString, []string{"1", " ", "23"}},
	{asn1.TagUTF8String, []string{"a", "\xff\xfe", "\xf0\x9f", "\xed\xa0\x80"}},
	{asn1.TagGeneralString, []string{"a", "\xe9"}},
}

// subjects returns some that are worth a look, and random ones.
func subjects(seed uint64, random int) (list []subject) {
	cn, o := attributeTypes[0], attributeTypes[5]
	text := func(oid asn1.ObjectIdentifier, value string) attribute {
		return attribute{oid, asn1.TagUTF8String, value}
	}
	list = []subject{
		{}, {{text(cn, "")}}, {{text(o, "d")}, {text(attributeTypes[6], "b"), text(cn, "c")}, {text(cn, "a")}},
		{{text(cn, "\U0001F600 \U00010348")}}, {{text(cn, "  ")}}, {{text(cn, "\r \r")}}, {{text(cn, "#5")}}, {{text(cn, " #")}},
		{{text(cn, "a\xff\xfe\xfdb")}}, {{text(cn, "\xed\xa0\x80")}}, {{text(cn, "\xf0\x9f\x98")}}, {{text(cn, "\xe9\xe9")}},
		{{text(attributeTypes[14], "bob@example.com")}}, {{text(attributeTypes[9], "7")}}, {{text(attributeTypes[16], "x")}},
		{{{cn, asn1.TagBMPString, "\x00b\x00\xf8\x4e\x2d"}}}, {{{cn, asn1.TagBMPString, "\xd8\x3d\xde\x00"}}}, {{{cn, tagUniversalString, "\x00\x01\xf6\x00"}}},
		{{{cn, asn1.TagT61String, "b\xf8b"}}}, {{{cn, asn1.TagInteger, "\x07"}}}, {{{cn, asn1.TagOctetString, "x"}}}, {{{cn, asn1.TagNumericString, "12"}}},
		{{text(cn, strings.Repeat("long ", 2000))}}, {{text(cn, "a")}, {text(cn, "a")}},
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	for range random {
		n := make(subject, rng.IntN(4))
		for i := range n {
			n[i] = make([]attribute, 1+max(0, rng.IntN(5)-2))
			for j := range n[i] {
				a := &n[i][j]
				k := valueKinds[min(rng.IntN(3*len(valueKinds)), rng.IntN(len(valueKinds)))] // mostly the first ones
				a.oid, a.tag = attributeTypes[rng.IntN(len(attributeTypes))], k.tag
				for range rng.IntN(5) {
					a.value += k.pieces[rng.IntN(len(k.pieces))]
				}
			}
		}
		list = append(list, n)
	}
	return list
}

// certified returns a certificate of a subject, which need not be one that Go can read.
func certified(t *testing.T, by certs.Identity, key *ecdsa.PrivateKey, name []byte) tls.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(crand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(7), RawSubject: name, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"localhost"}, // without a name, Java demands a subject
	}, by.TLS.Leaf, &key.PublicKey, by.TLS.PrivateKey)
	must(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// x509Name returns the identity of the scheme x509 that a server gives to the owner of a certificate,
// and whether it lets the owner in.
func x509Name(t *testing.T, addr string, own tls.Certificate) (id string, ok bool) {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	must(t, err)
	defer nc.Close()
	must(t, nc.SetDeadline(time.Now().Add(patience)))
	c := frames.New(tls.Client(nc, &tls.Config{
		InsecureSkipVerify: true, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &own, nil },
	}))
	if _, err := c.Connect(wire.ConnectRequest{TimeoutMillis: 10_000}); err != nil {
		return "", false
	}
	r, err := c.Call(1, wire.OpWhoAmI, nil)
	must(t, err)
	d := jute.NewDecoder(r.Body)
	for range d.Int() {
		scheme, name := d.String(), d.String()
		if scheme == "x509" {
			return string(utf16.Decode(units(name))), true
		}
	}
	must(t, d.Err())
	return "", false
}

// units returns the UTF-16 of a string of Apache's or of Pinfold's: a Java server sends the two halves of a
// character beyond the basic plane as two characters.
func units(s string) (list []uint16) {
	for len(s) > 0 {
		if len(s) >= 3 && s[0] == 0xED && s[1] >= 0xA0 {
			list = append(list, 0xD000|uint16(s[1]&0x3F)<<6|uint16(s[2]&0x3F))
			s = s[3:]
			continue
		}
		r, n := utf8.DecodeRuneInString(s)
		list, s = utf16.AppendRune(list, r), s[n:]
	}
	return list
}

// TestSubjects has clients with certificates of all kinds of subjects: who they are is what Apache
// says. Go's library refuses some certificates that Java's accepts: their owners are not let in.
func TestSubjects(t *testing.T) {
	if *pinfold == "" {
		t.Skip("-pinfold names the binary")
	}
	authority := certs.New(t, "authority")
	key, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	must(t, err)
	stores := []string{"ssl.keyStore.location=" + authority.Issue(t, "server").Store(t), "ssl.trustStore.location=" + authority.Trust(t)}
	apache, ours := secured(t, "apache-3.9", stores...), secured(t, "pinfold", stores...)
	t.Logf("again: -run TestSubjects -subjectseed %d", *subjectSeed)
	same, refused := 0, 0
	for _, n := range subjects(*subjectSeed, 100) {
		der := n.der(t)
		own := certified(t, authority, key, der)
		want, let := x509Name(t, apache, own)
		_, parsed := x509.ParseCertificate(own.Certificate[0])
		got, ok := "", false
		if parsed == nil || let {
			got, ok = x509Name(t, ours, own)
		}
		switch {
		case parsed != nil && !ok:
			refused++
			t.Logf("refused here: %x, %q at Apache: %v", der, want, parsed)
		case ok != let || got != want:
			t.Errorf("%x is\n%q, %v at Apache\n%q, %v at Pinfold", der, want, let, got, ok)
		default:
			same++
		}
	}
	t.Logf("%d names are the same, %d certificates are refused", same, refused)
	if same < 60 {
		t.Errorf("only %d names are the same", same)
	}
}
