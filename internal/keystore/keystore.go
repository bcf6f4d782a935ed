// Package keystore reads the files that TLS needs: a server's private key with its
// certificates, and the certificates of trusted authorities. The formats are those that
// Apache ZooKeeper reads: PEM, Java's JKS, and PKCS #12.
//
//	keystore.go   a Store: its format and its password
//	pem.go        PEM
//	jks.go        JKS
//	pkcs12.go     PKCS #12
//
// The files are the operator's, but a broken one must not end the process: a panic of a
// decoder is an error, and a length in a file is checked before memory is allocated.
package keystore

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Store names a file with keys or certificates.
type Store struct {
	File         string
	Password     string
	PasswordFile string // file with the password, in place of Password; "": none
	Type         string // JKS, PEM or PKCS12, in any case; "": the suffix of File decides
}

// Reasons why a store cannot be used; test for them with errors.Is.
var (
	// ErrPassword: the password does not open the store.
	ErrPassword = errors.New("the password is wrong, or the file is damaged")
	// ErrNoKey: the store can be read, and has no private key with a certificate.
	ErrNoKey = errors.New("has no private key with its certificate; " +
		"a file with certificates alone is a trust store")
	// ErrNoCertificate: the store can be read, and has no trusted certificate.
	ErrNoCertificate = errors.New("has no trusted certificate")
	// ErrFormat: the type of the store is not one that this package reads.
	ErrFormat = errors.New("the type must be PEM, JKS or PKCS12")
)

// errBCFKS says how to convert the format that only Bouncy Castle reads.
var errBCFKS = fmt.Errorf("%w; convert a BCFKS store with: "+
	"keytool -importkeystore -srcstoretype BCFKS -deststoretype PKCS12", ErrFormat)

// maxFileBytes bounds a store and a password file.
const maxFileBytes = 4 << 20

// Format returns JKS, PEM or PKCS12: the type of the store, or what the suffix of its
// file says. The error is ErrFormat.
func (s *Store) Format() (string, error) {
	switch name := strings.ToUpper(s.Type); name {
	case "JKS", "PEM", "PKCS12":
		return name, nil
	case "BCFKS":
		return "", errBCFKS
	case "":
	default:
		return "", ErrFormat
	}
	switch strings.ToLower(filepath.Ext(s.File)) {
	case ".jks":
		return "JKS", nil
	case ".pem":
		return "PEM", nil
	case ".p12":
		return "PKCS12", nil
	case ".bcfks":
		return "", errBCFKS
	}
	return "", fmt.Errorf("%w: set it, or name the file .pem, .jks or .p12", ErrFormat)
}

// Files is the content of a Store's files.
type Files struct {
	store    *Store
	content  []byte
	password []byte
}

// Read reads the files of the store, and decodes nothing.
func (s *Store) Read() (*Files, error) {
	content, err := readFile(s.File)
	if err != nil {
		return nil, err
	}
	f := &Files{s, content, []byte(s.Password)}
	if s.PasswordFile != "" {
		if f.password, err = readFile(s.PasswordFile); err != nil {
			return nil, fmt.Errorf("passwordPath: %w", err)
		}
		f.password = withoutLineEnd(f.password)
	}
	return f, nil
}

// withoutLineEnd removes one line end, if text ends with one.
func withoutLineEnd(text []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r"))
}

func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	switch {
	case err != nil:
		return nil, err
	case len(content) > maxFileBytes:
		return nil, fmt.Errorf("%s: longer than %d bytes", name, maxFileBytes)
	}
	return content, nil
}

// Equal reports whether both have the same content and the same password.
func (f *Files) Equal(g *Files) bool {
	return f == g || f != nil && g != nil && bytes.Equal(f.content, g.content) && bytes.Equal(f.password, g.password)
}

// Keys returns the private keys in the files, each with its chain of certificates, the
// leaf first. There is at least one.
func (f *Files) Keys() (keys []tls.Certificate, err error) {
	err = f.decode(func(format string) (err error) {
		switch format {
		case "PEM":
			keys, err = pemKeys(f.content, f.password)
		case "JKS":
			keys, err = jksKeys(f.content, f.password)
		default:
			keys, err = pkcs12Keys(f.content, f.password)
		}
		if err == nil && len(keys) == 0 {
			return ErrNoKey
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return keys, nil
}

// Trusted returns the certificates that the files declare trusted. There is at least
// one.
func (f *Files) Trusted() (trusted []*x509.Certificate, err error) {
	err = f.decode(func(format string) (err error) {
		switch format {
		case "PEM":
			trusted, err = pemCertificates(f.content)
		case "JKS":
			trusted, err = jksTrusted(f.content, f.password)
		default:
			trusted, err = pkcs12Trusted(f.content, f.password)
		}
		if err == nil && len(trusted) == 0 {
			return ErrNoCertificate
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return trusted, nil
}

// Magic numbers of files. Java reads both formats of its own under either name, because
// keytool writes PKCS #12 into files that people name .jks.
var jksMagic = []byte{0xFE, 0xED, 0xFE, 0xED}

const derSequence = 0x30

// decode calls by with the format of the content, and adds the file's name to its error.
// A panic is an error.
func (f *Files) decode(by func(format string) error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%s: the file is damaged: %v", f.store.File, r)
		}
	}()
	format, err := f.store.Format()
	if err != nil {
		return fmt.Errorf("%s: %w", f.store.File, err)
	}
	switch {
	case format == "JKS" && len(f.content) > 0 && f.content[0] == derSequence:
		format = "PKCS12"
	case format == "PKCS12" && bytes.HasPrefix(f.content, jksMagic):
		format = "JKS"
	}
	if err := by(format); err != nil {
		return fmt.Errorf("%s (%s): %w", f.store.File, format, err)
	}
	return nil
}

// entry makes a key entry of a private key and its chain. The key must be that of the
// first certificate.
func entry(key crypto.PrivateKey, chain []*x509.Certificate) (tls.Certificate, error) {
	signer, ok := key.(crypto.Signer)
	if !ok {
		return tls.Certificate{}, fmt.Errorf("cannot use a private key of type %T", key)
	}
	public, ok := signer.Public().(interface{ Equal(crypto.PublicKey) bool })
	if len(chain) == 0 || !ok || !public.Equal(chain[0].PublicKey) {
		return tls.Certificate{}, fmt.Errorf("%w: the first certificate is not that of the private key", ErrNoKey)
	}
	c := tls.Certificate{PrivateKey: key, Leaf: chain[0]}
	for _, cert := range inOrder(chain) {
		c.Certificate = append(c.Certificate, cert.Raw)
	}
	return c, nil
}

// inOrder returns the leaf, then the issuer of each, then the others.
func inOrder(chain []*x509.Certificate) []*x509.Certificate {
	ordered, left := chain[:1:1], slices.Clone(chain[1:])
	for {
		last := ordered[len(ordered)-1]
		i := slices.IndexFunc(left, func(c *x509.Certificate) bool { return bytes.Equal(c.RawSubject, last.RawIssuer) })
		if i < 0 {
			return append(ordered, left...)
		}
		ordered = append(ordered, left[i])
		left = slices.Delete(left, i, i+1)
	}
}
