// Package auth decides which identities a connection has and what it may do:
// authentication schemes, access control lists and their checks (features page, section
// 4).
//
// It owns no state except its configuration. A connection keeps the list of its
// identities and passes it in; lists are extended, never changed, so a reader may
// continue to use the list that it has.
//
// Invariants, each with a test that carries its number:
//
//  1. Allowed does not allocate, and decides an ACL of world:anyone before it looks at
//     any identity.
//  2. The result of FixUp contains no entry of scheme auth and no identity that its
//     scheme calls malformed, so FixUp accepts it again; it is never longer than its
//     input or MaxExpanded, whichever is more.
//  3. Everything fails closed: an unknown scheme, a malformed identity and an address
//     of the other family match no client.
//  4. An identity of scheme super is created only by a digest equal to the configured
//     one, by the login of a configured user, or by a certificate of the configured
//     subject; no ACL can name it.
//  5. Input is never changed, and no result but FixUp's and Mask's, and a list of identities, aliases it.
//
// A scheme that does not exist is unknown: new ACLs with it are refused, and in old
// ACLs it matches no client. This applies to x509 unless there is a port with TLS, and to
// sasl unless the configuration names its provider. Logins do not need that.
package auth

import (
	"bytes"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"hash"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/zk"
)

// The names of the schemes.
const (
	schemeWorld    = "world"
	schemeAuth     = "auth"
	schemeDigest   = "digest"
	schemeIP       = "ip"
	schemeSuper    = "super"
	schemeEnsemble = "ensemble"
	schemeSASL     = "sasl"
	schemeX509     = "x509"
)

// saslSuper is the user of scheme sasl that every ACL entry of that scheme covers. To
// be above the other schemes too, the user must be one of SuperUsers.
const saslSuper = "super"

// MaxExpanded is the largest number of entries that an expansion of the scheme auth may
// give. A list of that length does not fit into a request of the default size, so the
// limit does not affect normal clients; without it a client with many identities could
// turn one small request into gigabytes.
const MaxExpanded = 1 << 15

// MaxIdentities is the largest number of identities of a connection. Apache has no
// limit; a client that keeps sending auth packets would fill the memory.
const MaxIdentities = 1 << 10

// MaxIdentityBytes is the largest total length of a connection's identities. The user
// in a digest packet can be as long as a frame.
const MaxIdentityBytes = 128 << 10

// tooMany reports whether the identities are more, or longer, than a connection may
// have.
func tooMany(ids []zk.ID) bool {
	return len(ids) > MaxIdentities || IdentityBytes(ids) > MaxIdentityBytes
}

// IdentityBytes returns the total length of identities.
func IdentityBytes(ids []zk.ID) (bytes int) {
	for i := range ids {
		bytes += len(ids[i].Scheme) + len(ids[i].ID)
	}
	return bytes
}

// Config says which schemes exist and which users are superusers. The zero value is
// Apache's default.
type Config struct {
	// DigestAlg is the Java name of the hash of scheme digest, in any case:
	// SHA1, SHA-224, SHA-256, SHA-384, SHA-512, SHA-512/224, SHA-512/256,
	// SHA3-224 to SHA3-512 or MD5. Empty means SHA1.
	DigestAlg string
	// DigestDisabled makes digest an unknown scheme.
	DigestDisabled bool
	// SuperDigest is user:base64(hash(user:password)) of the superuser. Empty
	// means that there is none.
	SuperDigest string
	// CurrentSuperDigest returns the SuperDigest that counts at this moment. nil means that
	// it does not change.
	CurrentSuperDigest func() string
	// SkipACL allows every client everything.
	SkipACL bool
	// Ensemble makes ensemble a known scheme, as an authProvider line does.
	Ensemble bool
	// EnsembleNames are the names of this ensemble. None means that any name is
	// accepted.
	EnsembleNames []string
	// SASL makes sasl a known scheme, as an authProvider line does.
	SASL bool
	// AnySASLUser is an id of scheme sasl that in ACLs means every logged-in user.
	// Empty means none.
	AnySASLUser string
	// X509 makes x509 a known scheme.
	X509 bool
	// X509SuperUser is the subject of the certificates that make superusers. Empty
	// means none.
	X509SuperUser string
	// SuperUsers are the names of users that are superusers when they have logged
	// in. Empty names are ignored.
	SuperUsers []string
}

// An Authority authenticates and authorises according to one configuration. It is
// immutable, but for the superuser's digest, and safe for concurrent use.
type Authority struct {
	cfg     Config
	newHash func() hash.Hash
}

// New checks the configuration. It fails for an unknown DigestAlg; Apache refuses to
// start then. It keeps no reference to the lists.
func New(c Config) (*Authority, error) {
	h := hashByName(c.DigestAlg)
	if h == nil {
		return nil, fmt.Errorf("auth: unknown digest algorithm %q", c.DigestAlg)
	}
	c.SuperUsers = slices.Clone(c.SuperUsers)
	c.EnsembleNames = slices.Clone(c.EnsembleNames)
	for i, n := range c.EnsembleNames {
		c.EnsembleNames[i] = strings.TrimSpace(n)
	}
	if c.CurrentSuperDigest == nil {
		c.CurrentSuperDigest = func() string { return c.SuperDigest }
	}
	return &Authority{cfg: c, newHash: h}, nil
}

// Verdict is the outcome of an auth packet.
type Verdict uint8

// The verdicts.
const (
	Accepted Verdict = iota // reply 0; the connection has the returned identities
	Refused                 // reply -115, then close
	HangUp                  // close without a reply: the client should try another server
)

// Authenticate handles an auth packet of the given scheme on a connection with the
// identities have. If it is accepted, the result is every identity of the connection:
// have, unchanged and possibly in the same array, followed by new ones. Otherwise the
// result is nil. Only the connection extends the list of its identities, once at a time: the slices of it
// that requests refer to keep what they hold.
//
// A digest packet holds user:password; the colon may be missing. nil data (a null
// buffer) is refused, empty data is not. A packet of scheme ip adds nothing: the
// address of the peer is an identity from the start. A packet is refused if the
// connection would have more than MaxIdentities, or MaxIdentityBytes.
func (a *Authority) Authenticate(scheme string, data []byte, have []zk.ID) ([]zk.ID, Verdict) {
	switch {
	case scheme == schemeIP:
		return have, Accepted
	case scheme == schemeDigest && !a.cfg.DigestDisabled:
		if data == nil {
			return nil, Refused
		}
		id := zk.ID{Scheme: schemeDigest, ID: a.digestID(data)}
		ids := have
		if a.isSuper(id) {
			ids = withID(ids, zk.ID{Scheme: schemeSuper})
		}
		ids = withID(ids, id)
		if tooMany(ids) {
			return nil, Refused
		}
		return ids, Accepted
	case scheme == schemeX509 && a.cfg.X509:
		// The certificate that the connection came with has given the identity.
		if slices.ContainsFunc(have, func(id zk.ID) bool { return id.Scheme == schemeX509 }) {
			return have, Accepted
		}
	}
	switch a.Naming(scheme, data) {
	case AnotherName:
		return nil, HangUp
	case OurName, NoName:
		return have, Accepted
	}
	return nil, Refused
}

// Naming is what an auth packet says about the name of the ensemble.
type Naming uint8

// The values of Naming.
const (
	Unasked     Naming = iota // the packet has another scheme, or the scheme ensemble does not exist
	NoName                    // the client, or the configuration, names no ensemble
	OurName                   // a name of this ensemble
	AnotherName               // none of its names
)

// Naming classifies an auth packet of the scheme ensemble.
func (a *Authority) Naming(scheme string, data []byte) Naming {
	names := a.cfg.EnsembleNames
	switch {
	case scheme != schemeEnsemble || !a.cfg.Ensemble:
		return Unasked
	case len(data) == 0 || len(names) == 0:
		return NoName
	case slices.Contains(names, string(data)):
		return OurName
	}
	return AnotherName
}

// LogIn returns the identities of a connection on which user has logged in by SASL:
// have, unchanged and possibly in the same array, followed by new ones (see Authenticate). It adds the user
// even if the scheme sasl does not exist. ok is false, and the result nil, if no ACL
// could name the user (a@b@c), as in Apache, or if there would be more than
// MaxIdentities.
func (a *Authority) LogIn(user string, have []zk.ID) (ids []zk.ID, ok bool) {
	ids = withID(have, zk.ID{Scheme: schemeSASL, ID: user})
	if user != "" && slices.Contains(a.cfg.SuperUsers, user) {
		ids = withID(ids, zk.ID{Scheme: schemeSuper})
	}
	if tooMany(ids) || !principal(user) {
		return nil, false
	}
	return ids, true
}

// Certified returns the identities of a connection whose client has proved to own a
// certificate of that subject, in the form of RFC 2253: have, followed by new ones (see Authenticate).
func (a *Authority) Certified(subject string, have []zk.ID) []zk.ID {
	if !a.cfg.X509 {
		return have
	}
	ids := withID(have, zk.ID{Scheme: schemeX509, ID: subject})
	if a.cfg.X509SuperUser != "" && subject == a.cfg.X509SuperUser {
		ids = withID(ids, zk.ID{Scheme: schemeSuper, ID: subject})
	}
	return ids
}

// withID returns ids with id appended, unless it is in ids. It may write to the array of ids
// after its length, but changes none of ids.
func withID(ids []zk.ID, id zk.ID) []zk.ID {
	if slices.Contains(ids, id) {
		return ids
	}
	return append(ids, id)
}

// digestID returns user:base64(hash(user:password)). The password is part of
// what is hashed together with the name, so equal passwords differ.
func (a *Authority) digestID(userPassword []byte) string {
	if !utf8.Valid(userPassword) {
		userPassword = []byte(jute.JavaString(userPassword))
	}
	h := a.newHash()
	h.Write(userPassword) // a hash never fails
	var room [sha512.Size]byte
	sum := h.Sum(room[:0])
	user, _, _ := bytes.Cut(userPassword, []byte(":"))
	var id strings.Builder
	id.Grow(len(user) + 1 + base64.StdEncoding.EncodedLen(len(sum)))
	id.Write(user)
	id.WriteByte(':')
	id.WriteString(base64.StdEncoding.EncodeToString(sum))
	return id.String()
}

// isSuper reports whether a digest is the superuser's, in a time that does not depend on
// where they differ.
func (a *Authority) isSuper(id zk.ID) bool {
	super := a.cfg.CurrentSuperDigest()
	return super != "" && subtle.ConstantTimeCompare([]byte(id.ID), []byte(super)) == 1
}

// MissesSuper reports whether an identity has the superuser's name, and another password.
func (a *Authority) MissesSuper(id zk.ID) bool {
	name, _, found := strings.Cut(a.cfg.CurrentSuperDigest(), ":")
	user, _, _ := strings.Cut(id.ID, ":")
	return id.Scheme == schemeDigest && found && user == name && !a.isSuper(id)
}

// UserName returns the name of an identity for display: the user of a digest or of a
// login, or an address. It is empty for the superuser and for unknown schemes.
func (a *Authority) UserName(id zk.ID) string {
	switch {
	case id.Scheme == schemeIP, id.Scheme == schemeSASL && a.cfg.SASL, id.Scheme == schemeX509 && a.cfg.X509:
		return id.ID
	case id.Scheme == schemeDigest && !a.cfg.DigestDisabled:
		user, _, _ := strings.Cut(id.ID, ":")
		return user
	}
	return ""
}
