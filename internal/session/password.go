package session

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"

	"github.com/pinfold-zk/pinfold/zk"
)

// PasswordLen is the length of a session's password in bytes.
const PasswordLen = 16

// MinSecretLen is the minimum length of a secret in bytes.
const MinSecretLen = 16

// A PasswordKind says which passwords a server gives to sessions, and which it accepts:
// Apache's, or those derived from the secret.
type PasswordKind int

// The kinds.
const (
	ApachePassword PasswordKind = iota // gives Apache's; accepts also the secret's, if there is a secret
	BothPasswords                      // gives the secret's; accepts also Apache's
	SecretPassword                     // gives and accepts only the secret's
)

// Passwords computes and checks the passwords of sessions. All servers of an ensemble must
// have the same secret. The zero value computes Apache's passwords.
type Passwords struct {
	kind   PasswordKind
	secret []byte // nil: none
}

// NewPasswords returns the passwords for a secret. Without a secret they are Apache's,
// whatever kind is.
func NewPasswords(kind PasswordKind, secret []byte) Passwords {
	if len(secret) == 0 {
		return Passwords{}
	}
	return Passwords{kind, secret}
}

// Of returns the password of a session.
func (p *Passwords) Of(id zk.SessionID) [PasswordLen]byte {
	if p.kind == ApachePassword {
		return Password(id)
	}
	return p.fromSecret(id)
}

// Accepts reports whether given is a password of the session. Its running time does not
// depend on how much of given is correct.
func (p *Passwords) Accepts(id zk.SessionID, given []byte) bool {
	ok := 0
	if p.kind != SecretPassword {
		want := Password(id)
		ok |= subtle.ConstantTimeCompare(given, want[:])
	}
	if p.secret != nil {
		want := p.fromSecret(id)
		ok |= subtle.ConstantTimeCompare(given, want[:])
	}
	return ok == 1
}

// fromSecret returns the password that the secret gives: the first bytes of an HMAC-SHA256
// of the id.
func (p *Passwords) fromSecret(id zk.SessionID) (password [PasswordLen]byte) {
	h := hmac.New(sha256.New, p.secret)
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(id))) // a hash never fails
	copy(password[:], h.Sum(nil))
	return password
}

// Password returns Apache's password of a session. It depends on the id alone, so every
// server can compute it, and so can everyone that knows the id: it protects against
// accidents, not against attackers. Only the low 48 bits of the id count. It is the
// output of Java's Random, seeded with the id and a constant (protocol page, section
// 3.4).
func Password(id zk.SessionID) [PasswordLen]byte {
	const (
		salt       = 0xB3415C00
		multiplier = 0x5DEECE66D
		mask       = 1<<48 - 1
	)
	seed := (uint64(id) ^ salt ^ multiplier) & mask
	var p [PasswordLen]byte
	for i := 0; i < PasswordLen; i += 4 {
		seed = (seed*multiplier + 0xB) & mask
		binary.LittleEndian.PutUint32(p[i:], uint32(seed>>16))
	}
	return p
}
