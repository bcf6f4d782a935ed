package keystore

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"software.sslmate.com/src/go-pkcs12"
)

// pkcs12Keys returns the private key of a PKCS #12 file; the library reads files with
// one key.
func pkcs12Keys(content, password []byte) ([]tls.Certificate, error) {
	if err := checkIterations(content); err != nil {
		return nil, err
	}
	key, leaf, issuers, err := pkcs12.DecodeChain(content, string(password))
	switch {
	case errors.Is(err, pkcs12.ErrIncorrectPassword):
		return nil, ErrPassword
	case err != nil:
		if _, trustErr := pkcs12.DecodeTrustStore(content, string(password)); trustErr == nil {
			return nil, ErrNoKey
		}
		return nil, fmt.Errorf("no private key can be read: %w", err)
	}
	c, err := entry(key, append([]*x509.Certificate{leaf}, issuers...))
	if err != nil {
		return nil, err
	}
	return []tls.Certificate{c}, nil
}

// pkcs12Trusted returns the trusted certificates of a PKCS #12 file. If it has none but a
// private key, the certificate of that is trusted, as by Java.
func pkcs12Trusted(content, password []byte) ([]*x509.Certificate, error) {
	if err := checkIterations(content); err != nil {
		return nil, err
	}
	list, err := pkcs12.DecodeTrustStore(content, string(password))
	switch {
	case err == nil:
		return list, nil
	case errors.Is(err, pkcs12.ErrIncorrectPassword):
		return nil, ErrPassword
	}
	if _, leaf, _, keyErr := pkcs12.DecodeChain(content, string(password)); keyErr == nil {
		return []*x509.Certificate{leaf}, nil
	}
	return nil, fmt.Errorf("%w that can be read: %w; keytool -importcert writes such stores, and openssl with -jdktrust anyExtendedKeyUsage",
		ErrNoCertificate, err)
}
