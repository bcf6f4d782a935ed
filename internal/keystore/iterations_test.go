package keystore

import (
	"encoding/asn1"
	"encoding/pem"
	"strings"
	"testing"

	"software.sslmate.com/src/go-pkcs12"

	"github.com/pinfold-zk/pinfold/test/certs"
)

// saltAndCount is how a PKCS #12 file says how often the password is hashed.
type saltAndCount struct {
	Salt  []byte
	Count int
}

func TestIterations(t *testing.T) {
	nested := func(count int) []byte {
		inner, err := asn1.Marshal(saltAndCount{[]byte{1, 2}, count})
		if err != nil {
			t.Fatal(err)
		}
		outer, err := asn1.Marshal([][]byte{inner})
		if err != nil {
			t.Fatal(err)
		}
		return outer
	}
	if err := checkIterations(nested(maxIterations)); err != nil {
		t.Error(err)
	}
	hostile := nested(maxIterations + 1)
	if err := checkIterations(hostile); err == nil {
		t.Error("too many iterations are accepted")
	}
	if _, err := pkcs12Keys(hostile, nil); err == nil || !strings.Contains(err.Error(), "hashed more than") {
		t.Errorf("a hostile store: %v", err)
	}
	if _, err := pkcs12Trusted(hostile, nil); err == nil || !strings.Contains(err.Error(), "hashed more than") {
		t.Errorf("a hostile trust store: %v", err)
	}
	key := pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: hostile})
	if _, err := pemKey(key, []byte("p")); err == nil || !strings.Contains(err.Error(), "hashed more than") {
		t.Errorf("a hostile key: %v", err)
	}
	i := certs.New(t, "a")
	store, err := pkcs12.Modern.Encode(i.TLS.PrivateKey, i.TLS.Leaf, nil, "password")
	if err != nil {
		t.Fatal(err)
	}
	if keys, err := pkcs12Keys(store, []byte("password")); err != nil || len(keys) != 1 {
		t.Errorf("%d keys, %v", len(keys), err)
	}
}

// No file makes the check fail in another way, or last long.
func FuzzIterations(f *testing.F) {
	f.Add([]byte{0x30, 0x80, 0x04, 1, 1, 2, 1, 1})
	f.Add([]byte{0x30, 6, 4, 1, 1, 2, 1, 1})
	f.Fuzz(func(t *testing.T, der []byte) {
		_ = checkIterations(der) // must return
	})
}

// Whatever a file holds, each kind of store is read or refused.
func FuzzStores(f *testing.F) {
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n"), []byte("p"))
	f.Add([]byte("\xfe\xed\xfe\xed\x00\x00\x00\x02\x00\x00\x00\x01\x00\x00\x00\x01"), []byte("p"))
	f.Fuzz(func(t *testing.T, content, password []byte) {
		for _, read := range []func(content, password []byte) error{
			func(c, p []byte) error { _, err := pemKeys(c, p); return err },
			func(c, _ []byte) error { _, err := pemCertificates(c); return err },
			func(c, p []byte) error { _, err := jksKeys(c, p); return err },
			func(c, p []byte) error { _, err := jksTrusted(c, p); return err },
			func(c, p []byte) error { _, err := pkcs12Keys(c, p); return err },
			func(c, p []byte) error { _, err := pkcs12Trusted(c, p); return err },
		} {
			_ = read(content, password) // must return
		}
	})
}
