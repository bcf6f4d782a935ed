// Package kerberos logs in by SASL's mechanism GSSAPI with Kerberos (RFC 4752, RFC 4121,
// RFC 4120): both halves of the exchange, as tokens. It does not know what carries the
// tokens: requests of a client, or packets between servers. Messages, encryption, key
// tables and the KDC are those of gokrb5; this package adds what gokrb5 lacks: the
// negotiation of the security layer, mutual authentication, a bounded replay cache and
// names as ZooKeeper maps them.
//
// The server's half. An Acceptor has the keys of one service and serves many logins:
//
//	a, err := kerberos.NewAcceptor(kerberos.AcceptorOptions{Principal: "zookeeper/host@REALM", Keytab: file})
//	x := a.Begin()                       // one login
//	answer, err := x.Step(token)         // for each token of the client; nil answer: send null
//	if name, ok := x.Principal(); ok {}  // the client has logged in, and answer is the last one
//
// The client's half. A Login has the credentials of one principal and serves many
// connections:
//
//	l, err := kerberos.NewLogin(kerberos.Credentials{Principal: "bob@REALM", Keytab: file})
//	x, token, err := l.Begin(ctx, "zookeeper/host@REALM", kerberos.InitiatorOptions{})
//	answer, err := x.Step(challenge)     // for each token of the server
//	if x.Done() {}                       // answer is the last token; the server's answer to it is empty
//
// Invariants, each with a test that carries its number:
//
//  1. A login needs a ticket for the Acceptor's principal that is encrypted with a key of
//     its key table and valid now, an authenticator made within the clock skew with the
//     ticket's session key, and a security layer message under the same key. It gives the
//     client's name and realm as the KDC wrote them into the ticket.
//  2. The tokens of a login, sent again, do not log in a second time.
//  3. An exchange is valid for one login. After its end, successful or not, every token
//     fails.
//  4. No token of any content ends the process, and none longer than MaxTokenBytes is
//     decoded. The memory of an Acceptor is bounded, whatever clients send.
//  5. No key is in an error or a log line.
package kerberos

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/jcmturner/gokrb5/v8/types"
)

// MaxTokenBytes is the longest token that either half decodes. A ticket with the group
// memberships of Active Directory has up to 64 KB.
const MaxTokenBytes = 80 << 10

// MaxFileBytes is the maximum length of a key table, a ticket cache and a krb5.conf.
const MaxFileBytes = 1 << 20

// ErrRefused is wrapped by the errors of every failed step of an exchange. The text after
// it is for the operator.
var ErrRefused = errors.New("kerberos: login refused")

func refused(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrRefused, fmt.Sprintf(format, args...))
}

// guard calls f, which passes input from outside to gokrb5, and returns a panic as an error:
// gokrb5 does not check every length and every empty list.
func guard(what string, f func() error) (err error) {
	defer func() {
		if recover() != nil {
			err = errors.New(what + " is malformed")
		}
	}()
	return f()
}

// readFile reads a file of at most MaxFileBytes.
func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() // read only
	b, err := io.ReadAll(io.LimitReader(f, MaxFileBytes+1))
	if err == nil && len(b) > MaxFileBytes {
		err = fmt.Errorf("%s is longer than %d bytes", name, MaxFileBytes)
	}
	return slices.Clip(b), err // gokrb5 must not find anything after the end
}

// parsePrincipal splits SERVICE/HOST@REALM or NAME@REALM. Without a realm it uses
// defaultRealm.
func parsePrincipal(text, defaultRealm string) (name types.PrincipalName, realm string, err error) {
	base, realm, found := strings.Cut(text, "@")
	if !found {
		realm = defaultRealm
	}
	name = types.NewPrincipalName(principalType, base)
	switch {
	case realm == "":
		return name, "", fmt.Errorf("kerberos: principal %q has no realm, and krb5.conf has no default_realm", text)
	case !plain(name, realm):
		return name, "", fmt.Errorf("kerberos: %q is no principal: want NAME@REALM or SERVICE/HOST@REALM", text)
	}
	return name, realm, nil
}

// principalType is the name type NT-PRINCIPAL of RFC 4120. Types do not count when names
// are compared.
const principalType = 1

// plain reports whether a principal can be written as text without escapes: ZooKeeper
// knows principals only in that form, and two of them must not look the same.
func plain(name types.PrincipalName, realm string) bool {
	parts := append([]string{realm}, name.NameString...)
	for _, part := range parts {
		if part == "" || !utf8.ValidString(part) || strings.ContainsAny(part, `/@\`) || strings.ContainsFunc(part, unicode.IsControl) {
			return false
		}
	}
	return len(parts) > 1
}

// text writes a principal.
func text(name types.PrincipalName, realm string) string {
	return strings.Join(name.NameString, "/") + "@" + realm
}
