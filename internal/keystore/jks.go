package keystore

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	jks "github.com/pavlo-v-chernykh/keystore-go/v4"
)

// errDamaged is the error of a JKS file whose lengths exceed the file.
var errDamaged = errors.New("the file is damaged")

// loadJKS opens a JKS file. Unlike Java, it does not open one without checking the
// password.
func loadJKS(content, password []byte) (*jks.KeyStore, error) {
	if err := checkJKS(content); err != nil {
		return nil, err
	}
	// Java's keytool writes aliases in lower case. Of others, both forms are kept.
	store := jks.New(jks.WithOrderedAliases(), jks.WithCaseExactAliases())
	if err := store.Load(bytes.NewReader(content), password); err != nil {
		if strings.Contains(err.Error(), "invalid digest") {
			return nil, ErrPassword
		}
		return nil, fmt.Errorf("%w: %v", errDamaged, err)
	}
	return &store, nil
}

func jksKeys(content, password []byte) (keys []tls.Certificate, err error) {
	store, err := loadJKS(content, password)
	if err != nil {
		return nil, err
	}
	for _, alias := range store.Aliases() {
		if !store.IsPrivateKeyEntry(alias) {
			continue
		}
		e, err := store.GetPrivateKeyEntry(alias, password)
		if err != nil {
			return nil, fmt.Errorf("private key %q: %w; it must be that of the store", alias, ErrPassword)
		}
		key, err := x509.ParsePKCS8PrivateKey(e.PrivateKey)
		if err != nil {
			return nil, fmt.Errorf("private key %q: %w", alias, err)
		}
		chain, err := parseAll(e.CertificateChain)
		if err != nil {
			return nil, err
		}
		c, err := entry(key, chain)
		if err != nil {
			return nil, fmt.Errorf("private key %q: %w", alias, err)
		}
		keys = append(keys, c)
	}
	return keys, nil
}

// jksTrusted returns the trusted certificates and, as Java does, the certificates of
// private keys.
func jksTrusted(content, password []byte) (trusted []*x509.Certificate, err error) {
	store, err := loadJKS(content, password)
	if err != nil {
		return nil, err
	}
	for _, alias := range store.Aliases() {
		var list []jks.Certificate
		if store.IsPrivateKeyEntry(alias) {
			chain, err := store.GetPrivateKeyEntryCertificateChain(alias)
			if err != nil {
				return nil, err
			}
			list = chain[:min(1, len(chain))]
		} else {
			e, err := store.GetTrustedCertificateEntry(alias)
			if err != nil {
				return nil, err
			}
			list = []jks.Certificate{e.Certificate}
		}
		certs, err := parseAll(list)
		if err != nil {
			return nil, err
		}
		trusted = append(trusted, certs...)
	}
	return trusted, nil
}

func parseAll(list []jks.Certificate) ([]*x509.Certificate, error) {
	certs := make([]*x509.Certificate, len(list))
	for i := range list {
		var err error
		if certs[i], err = x509.ParseCertificate(list[i].Content); err != nil {
			return nil, err
		}
	}
	return certs, nil
}

// checkJKS checks that the lengths and counts of a JKS file fit into it: the library
// allocates what they say.
func checkJKS(content []byte) error {
	s := scanner{b: content}
	if !bytes.Equal(s.take(4), jksMagic) {
		return fmt.Errorf("%w: it is no JKS store", errDamaged)
	}
	version := s.number()
	for entries := s.number(); entries > 0 && !s.bad; entries-- {
		tag := s.number()
		s.text() // alias
		s.take(8)
		certificates := uint32(1)
		if tag == 1 {
			s.take(s.number())
			certificates = s.number()
		}
		for ; certificates > 0 && !s.bad; certificates-- {
			if version == 2 {
				s.text()
			}
			s.take(s.number())
		}
	}
	if s.bad {
		return errDamaged
	}
	return nil
}

// scanner reads the parts of a JKS file; bad is set when the file is too short.
type scanner struct {
	b   []byte
	bad bool
}

func (s *scanner) take(n uint32) []byte {
	if s.bad || uint64(n) > uint64(len(s.b)) {
		s.bad = true
		return nil
	}
	part := s.b[:n]
	s.b = s.b[n:]
	return part
}

func (s *scanner) number() uint32 {
	if b := s.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (s *scanner) text() {
	if b := s.take(2); b != nil {
		s.take(uint32(binary.BigEndian.Uint16(b)))
	}
}
