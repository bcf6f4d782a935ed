package tlsport

import (
	"crypto/tls"
	"fmt"
	"slices"
)

// suites13 are the numbers of the cipher suites of TLS 1.3 that a port allows, nil for all of them.
// Package crypto/tls has no setting for these: it knows all three, and chooses by its own preference.
// So a port does two things. steer has the package choose among the allowed suites. check, on every
// connection and before anything is said on it, refuses one that has another suite: this alone is
// what the port's promise rests on.
type suites13 []uint16

// hidden is what steer writes in place of a suite that is not allowed: a value that RFC 8701 reserves,
// and that servers ignore.
const hidden = 0x0A0A

// steer hides the suites of TLS 1.3 that are not allowed from package crypto/tls, before it chooses
// among those that the client offers. It relies on hello.CipherSuites being the list that the package
// chooses from, which the package does not promise: should that end, check refuses what steer would
// have admitted, and TestSuites fails. A client whose hello is answered by a HelloRetryRequest is
// refused if something was hidden, since the package compares its second hello with the first.
func (s suites13) steer(hello *tls.ClientHelloInfo) {
	if s == nil {
		return
	}
	for i, id := range hello.CipherSuites {
		if isSuite13(id) && !slices.Contains(s, id) {
			hello.CipherSuites[i] = hidden
		}
	}
}

// check returns an error if a connection has a suite of TLS 1.3 that is not allowed.
func (s suites13) check(c tls.ConnectionState) error {
	if s == nil || !isSuite13(c.CipherSuite) || slices.Contains(s, c.CipherSuite) {
		return nil
	}
	return fmt.Errorf("the cipher suite %s is not one of ciphersuites", tls.CipherSuiteName(c.CipherSuite))
}

// isSuite13 reports whether a suite is one of TLS 1.3: the range 0x1301 to 0x13FF is theirs.
func isSuite13(id uint16) bool { return id>>8 == 0x13 }
