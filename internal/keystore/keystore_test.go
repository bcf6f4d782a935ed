package keystore

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const password = "changeit"

func testdata(name string) Store {
	return Store{File: filepath.Join("testdata", name), Password: password}
}

// read returns the content of the store's files.
func read(t *testing.T, s Store) *Files {
	t.Helper()
	f, err := s.Read()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// The stores of keytool and openssl can be read; what is missing, and a wrong password,
// are told apart.
func TestKeys(t *testing.T) {
	for _, c := range []struct {
		store   Store
		subject string
		err     error
	}{
		{store: testdata("keys.jks"), subject: "CN=server,O=Test"},
		{store: testdata("keys.p12"), subject: "CN=server,O=Test"},
		{store: testdata("named.jks"), subject: "CN=server,O=Test"}, // PKCS #12 under that name
		{store: testdata("openssl.p12"), subject: "CN=openssl,O=Test"},
		{store: testdata("keys.pem"), subject: "CN=openssl,O=Test"},
		{store: testdata("encrypted.pem"), subject: "CN=openssl,O=Test"},
		{store: Store{File: "testdata/keys.jks", Password: "other"}, err: ErrPassword},
		{store: Store{File: "testdata/keys.jks"}, err: ErrPassword},
		{store: Store{File: "testdata/keys.p12", Password: "other"}, err: ErrPassword},
		{store: Store{File: "testdata/encrypted.pem", Password: "other"}, err: ErrPassword},
		{store: Store{File: "testdata/encrypted.pem"}, err: ErrPassword},
		{store: testdata("trust.jks"), err: ErrNoKey},
		{store: testdata("trust.p12"), err: ErrNoKey},
		{store: testdata("trust.pem"), err: ErrNoKey},
		{store: Store{File: "testdata/keys.jks", Type: "bcfks"}, err: ErrFormat},
		{store: Store{File: "testdata/make.sh"}, err: ErrFormat},
	} {
		keys, err := read(t, c.store).Keys()
		if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
			t.Errorf("%v: %v, want %v", c.store, err, c.err)
			continue
		}
		if err != nil {
			if !strings.Contains(err.Error(), c.store.File) {
				t.Errorf("%v does not name the file", err)
			}
			continue
		}
		if len(keys) != 1 || keys[0].Leaf.Subject.String() != c.subject || len(keys[0].Certificate) != 1 {
			t.Errorf("%v: %d keys, %v", c.store, len(keys), keys[0].Leaf.Subject)
		}
	}
}

func TestTrusted(t *testing.T) {
	for _, c := range []struct {
		store Store
		n     int
		err   error
	}{
		{store: testdata("trust.jks"), n: 1},
		{store: testdata("trust.p12"), n: 1},
		{store: testdata("trust.pem"), n: 2},
		{store: testdata("keys.jks"), n: 1},
		{store: testdata("openssl.p12"), n: 1},
		{store: testdata("untrusted.p12"), err: ErrNoCertificate}, // Java trusts none of them, either
		{store: Store{File: "testdata/trust.jks", Password: "other"}, err: ErrPassword},
		{store: Store{File: "testdata/trust.p12", Password: "other"}, err: ErrPassword},
	} {
		list, err := read(t, c.store).Trusted()
		if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) || len(list) != c.n {
			t.Errorf("%v: %d certificates, %v, want %d, %v", c.store, len(list), err, c.n, c.err)
		}
	}
}

// A password file overrides the password; one line end is not part of it.
func TestPasswordFile(t *testing.T) {
	for text, ok := range map[string]bool{
		password: true, password + "\n": true, password + "\r\n": true, password + "\n\n": false, " " + password: false,
	} {
		name := filepath.Join(t.TempDir(), "password")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f := read(t, Store{File: "testdata/keys.jks", Password: "other", PasswordFile: name})
		if _, err := f.Keys(); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
	s := testdata("keys.jks")
	if s.PasswordFile = "testdata/missing"; true {
		if _, err := s.Read(); !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(err.Error(), "passwordPath: ") {
			t.Error(err)
		}
	}
}

func TestFilesEqual(t *testing.T) {
	one := read(t, testdata("keys.jks"))
	same, password, content := read(t, testdata("keys.jks")), read(t, Store{File: "testdata/keys.jks"}), read(t, testdata("keys.p12"))
	if !one.Equal(same) || one.Equal(password) || one.Equal(content) || one.Equal(nil) {
		t.Error("Equal")
	}
}

// FuzzDecode reads damaged stores: no decoder panics, and a result without an error is not
// empty.
func FuzzDecode(f *testing.F) {
	names, err := filepath.Glob("testdata/*.*")
	if err != nil || len(names) < 5 {
		f.Fatal(names, err)
	}
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content, password)
		f.Add(content[:len(content)/2], password)
	}
	f.Add([]byte("\xFE\xED\xFE\xED\x00\x00\x00\x02\xFF\xFF\xFF\xFF\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xFF\xFF\xFF\xFF"), "")
	f.Fuzz(func(t *testing.T, content []byte, password string) {
		for _, format := range []string{"JKS", "PKCS12", "PEM"} {
			files := &Files{&Store{File: "f", Type: format}, content, []byte(password)}
			if keys, err := files.Keys(); err == nil && (len(keys) == 0 || len(keys[0].Certificate) == 0) {
				t.Errorf("%s: no keys and no error", format)
			}
			if list, err := files.Trusted(); err == nil && len(list) == 0 {
				t.Errorf("%s: no certificates and no error", format)
			}
		}
	})
}
