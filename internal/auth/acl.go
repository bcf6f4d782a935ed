package auth

import (
	"slices"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/access"
	"github.com/pinfold-zk/pinfold/zk"
)

// Allowed reports whether a connection with the identities ids has permission want on a
// znode with this ACL. If want has several permissions, any one of them is enough:
// getACL asks for PermRead|PermAdmin. A nil or empty list is open.
//
// It takes len(ids) steps, however long the list is, and does not allocate; but the
// first check of a list builds its index: see NeedsIndex.
func (a *Authority) Allowed(l *access.List, want zk.Perms, ids []zk.ID) bool {
	acl := l.All()
	if len(acl) == 0 || a.cfg.SkipACL {
		return true
	}
	if len(acl) > FewEntries {
		return a.allowedByIndex(acl, a.Index(l), want, ids)
	}
	for i := range acl {
		if acl[i].Perms&want != 0 && acl[i].ID == zk.AnyoneUnsafe {
			return true
		}
	}
	for i := range ids {
		if ids[i].Scheme == schemeSuper {
			return true
		}
	}
	for i := range acl {
		if acl[i].Perms&want != 0 && a.matchesAny(acl[i].ID, ids) {
			return true
		}
	}
	return false
}

// matchesAny reports whether rule, from an ACL, covers one of the identities.
func (a *Authority) matchesAny(rule zk.ID, ids []zk.ID) bool {
	switch rule.Scheme {
	case schemeDigest:
		if a.cfg.DigestDisabled {
			return false
		}
		for i := range ids {
			if ids[i] == rule {
				return true
			}
		}
	case schemeX509:
		return a.cfg.X509 && slices.Contains(ids, rule)
	case schemeIP:
		p, ok := parsePrefix(rule.ID)
		if !ok {
			return false
		}
		for i := range ids {
			if ids[i].Scheme == schemeIP && p.covers(ids[i].ID) {
				return true
			}
		}
	case schemeSASL:
		if !a.cfg.SASL {
			return false
		}
		for i := range ids {
			if ids[i].Scheme == schemeSASL && a.coversUser(rule.ID, ids[i].ID) {
				return true
			}
		}
	}
	return false
}

// coversUser reports whether an entry of scheme sasl with the id rule covers user.
func (a *Authority) coversUser(rule, user string) bool {
	return rule == user || user == saslSuper || rule != "" && rule == a.cfg.AnySASLUser
}

// FixUp returns the ACL to store for the ACL in a request: without duplicates, with
// each entry of scheme auth replaced by one entry for each identity that the connection
// has authenticated (not by its address, not super), in the same order. An expansion
// may repeat an entry that occurs elsewhere in the list; as in Apache, it is not
// removed.
//
// FixUp returns ErrInvalidACL, and no list, for an empty list, an unknown scheme (also
// super), an identity that its scheme calls malformed, auth without an authenticated
// identity, and an expansion beyond MaxExpanded. It does not check permission bits.
//
// The result may be acl itself or share its strings.
func (a *Authority) FixUp(acl []zk.ACL, ids []zk.ID) ([]zk.ACL, zk.Code) {
	if len(acl) == 0 {
		return nil, zk.ErrInvalidACL
	}
	uniq := withoutDuplicates(acl)
	expand := false
	for i := range uniq {
		if uniq[i].ID.Scheme == schemeAuth {
			expand = true
		} else if !a.wellFormed(uniq[i].ID) {
			return nil, zk.ErrInvalidACL
		}
	}
	if !expand {
		return uniq, zk.OK
	}
	return a.expand(uniq, ids)
}

// expand replaces the entries of scheme auth.
func (a *Authority) expand(acl []zk.ACL, ids []zk.ID) ([]zk.ACL, zk.Code) {
	out := make([]zk.ACL, 0, len(acl)+len(ids))
	for _, e := range acl {
		if e.ID.Scheme != schemeAuth {
			out = append(out, e)
			continue
		}
		valid := false
		for _, id := range ids {
			if id.Scheme == schemeDigest && !a.cfg.DigestDisabled || id.Scheme == schemeSASL && a.cfg.SASL ||
				id.Scheme == schemeX509 && a.cfg.X509 {
				valid = true
				out = append(out, zk.ACL{Perms: e.Perms, ID: id})
			}
		}
		if !valid || len(out) > max(MaxExpanded, len(acl)) {
			return nil, zk.ErrInvalidACL
		}
	}
	return out, zk.OK
}

// wellFormed reports whether id is allowed in a stored ACL.
func (a *Authority) wellFormed(id zk.ID) bool {
	switch id.Scheme {
	case schemeWorld:
		return id == zk.AnyoneUnsafe
	case schemeDigest:
		return !a.cfg.DigestDisabled && twoParts(id.ID)
	case schemeIP:
		_, ok := parsePrefix(id.ID)
		return ok
	case schemeSASL:
		return a.cfg.SASL && principal(id.ID)
	case schemeX509:
		return a.cfg.X509 && isSubject(id.ID)
	}
	return false
}

// principal reports whether Kerberos could have given the name: it has no @, or one
// with at most one / before it and none after. Parts may be empty.
func principal(name string) bool {
	before, realm, ok := strings.Cut(name, "@")
	return !ok || strings.Count(before, "/") <= 1 && !strings.ContainsAny(realm, "@/")
}

// twoParts reports whether s has exactly one non-empty text after the first colon.
// Colons at the end do not count, because Java's split drops empty parts there: "u:h"
// and "u:h::" pass, "u:", "u" and "u:h:x" do not.
func twoParts(s string) bool {
	_, rest, ok := strings.Cut(strings.TrimRight(s, ":"), ":")
	return ok && !strings.Contains(rest, ":")
}

// withoutDuplicates returns acl, or a copy without the later ones of equal entries. It
// compares a long list by a map, because a client's request can have 80,000 entries.
func withoutDuplicates(acl []zk.ACL) []zk.ACL {
	const few = 16
	var seen map[zk.ACL]struct{}
	if len(acl) > few {
		seen = make(map[zk.ACL]struct{}, len(acl))
	}
	out := acl
	copied := false
	for i, e := range acl {
		if repeated(e, acl[:i], seen) {
			if !copied {
				out, copied = append(make([]zk.ACL, 0, len(acl)-1), acl[:i]...), true
			}
			continue
		}
		if copied {
			out = append(out, e)
		}
	}
	return out
}

// repeated reports whether e occurs in before. If seen is not nil, it holds the entries
// of before, and repeated adds e to it.
func repeated(e zk.ACL, before []zk.ACL, seen map[zk.ACL]struct{}) bool {
	if seen != nil {
		_, ok := seen[e]
		if !ok {
			seen[e] = struct{}{}
		}
		return ok
	}
	for i := range before {
		if before[i] == e {
			return true
		}
	}
	return false
}

// Mask returns the ACL as getACL shows it to a connection: unchanged if the connection
// may administer the znode, otherwise with every digest's hash replaced by x. If
// nothing is hidden, the result is the list's own entries.
func (a *Authority) Mask(l *access.List, ids []zk.ID) []zk.ACL {
	acl := l.All()
	if a.Allowed(l, zk.PermAdmin, ids) {
		return acl
	}
	out := acl
	for i, e := range acl {
		user, _, ok := strings.Cut(e.ID.ID, ":")
		if e.ID.Scheme != schemeDigest || !ok {
			continue
		}
		if &out[0] == &acl[0] {
			out = append([]zk.ACL(nil), acl...)
		}
		out[i].ID.ID = user + ":x"
	}
	return out
}
