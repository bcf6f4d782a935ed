package keystore

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	"github.com/youmark/pkcs8"
)

// pemKeys returns the private key of a PEM file with its certificates. Of several keys
// the first counts, as in Apache.
func pemKeys(content, password []byte) ([]tls.Certificate, error) {
	chain, err := pemCertificates(content)
	if err != nil {
		return nil, err
	}
	key, err := pemKey(content, password)
	if err != nil || key == nil || len(chain) == 0 {
		return nil, err
	}
	if i := slices.IndexFunc(chain, func(c *x509.Certificate) bool { return isKeyOf(key, c) }); i > 0 {
		chain[0], chain[i] = chain[i], chain[0]
	}
	c, err := entry(key, chain)
	if err != nil {
		return nil, err
	}
	return []tls.Certificate{c}, nil
}

func isKeyOf(key crypto.PrivateKey, c *x509.Certificate) bool {
	signer, ok := key.(crypto.Signer)
	if !ok {
		return false
	}
	public, ok := signer.Public().(interface{ Equal(crypto.PublicKey) bool })
	return ok && public.Equal(c.PublicKey)
}

// pemKey returns the first private key of a PEM file, nil if there is none.
func pemKey(content, password []byte) (crypto.PrivateKey, error) {
	for {
		var block *pem.Block
		if block, content = pem.Decode(content); block == nil {
			return nil, nil
		}
		switch block.Type {
		case "PRIVATE KEY":
			return x509.ParsePKCS8PrivateKey(block.Bytes)
		case "ENCRYPTED PRIVATE KEY":
			if len(password) == 0 {
				return nil, fmt.Errorf("%w: the private key is encrypted, and no password is set", ErrPassword)
			}
			if err := checkIterations(block.Bytes); err != nil {
				return nil, fmt.Errorf("private key: %w", err)
			}
			key, _, err := pkcs8.ParsePrivateKey(block.Bytes, password)
			if err != nil {
				return nil, fmt.Errorf("%w (private key: %v)", ErrPassword, err)
			}
			return key, nil
		case "RSA PRIVATE KEY":
			if block.Headers["DEK-Info"] != "" {
				return nil, errors.New("the private key is encrypted in the old form of OpenSSL; " +
					"convert it with: openssl pkcs8 -topk8 -v2 aes256")
			}
			return x509.ParsePKCS1PrivateKey(block.Bytes)
		case "EC PRIVATE KEY":
			return x509.ParseECPrivateKey(block.Bytes)
		}
	}
}

// pemCertificates returns all certificates of a PEM file.
func pemCertificates(content []byte) (list []*x509.Certificate, err error) {
	for {
		var block *pem.Block
		if block, content = pem.Decode(content); block == nil {
			return list, nil
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
}
