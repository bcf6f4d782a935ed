package auth

import (
	"hash/maphash"
	"math/bits"

	"github.com/pinfold-zk/pinfold/internal/access"
	"github.com/pinfold-zk/pinfold/zk"
)

// FewEntries is the largest number of entries that are searched without an index.
const FewEntries = 8

// seed makes indexes unpredictable: a client cannot choose identities that collide. Only
// time depends on it.
var seed = maphash.MakeSeed()

// NeedsIndex reports whether the next check of the list builds its index, which takes time
// for its length. A caller that holds a lock should call Index first, without the lock.
func (a *Authority) NeedsIndex(l *access.List) bool {
	return l.Len() > FewEntries && !a.cfg.SkipACL && l.Index() == nil
}

// Index returns the index of a list, nil if the list is short. It builds the index if
// there is none yet: 0.1 µs for each entry.
func (a *Authority) Index(l *access.List) *access.Index {
	if l.Len() <= FewEntries {
		return nil
	}
	if x := l.Index(); x != nil {
		return x
	}
	x := newIndex(l.Entries)
	l.SetIndex(x)
	return x
}

// newIndex depends on the entries alone, not on the configuration.
func newIndex(entries []zk.ACL) *access.Index {
	x := &access.Index{Slots: make([]access.Slot, 1<<bits.Len(uint(len(entries)+len(entries)/2)))}
	for i := range entries {
		e := &entries[i]
		var s *access.Slot
		switch e.ID.Scheme {
		case schemeWorld:
			if e.ID == zk.AnyoneUnsafe {
				x.Anyone |= e.Perms
			}
			continue
		case schemeIP:
			p, ok := parsePrefix(e.ID.ID)
			if !ok {
				continue
			}
			noteLength(x, &p)
			s = slotOfPrefix(entries, x, &p)
		case schemeSASL:
			x.SASL |= e.Perms
			s = slotOf(entries, x, &e.ID)
		case schemeDigest, schemeX509:
			s = slotOf(entries, x, &e.ID)
		default:
			continue
		}
		if s.Entry == 0 {
			s.Entry = uint32(i) + 1
		}
		s.Perms |= e.Perms
	}
	return x
}

// noteLength notes that the list has a prefix of that length.
func noteLength(x *access.Index, p *prefix) {
	if p.addr.size == 4 {
		x.V4 |= 1 << p.bits
	} else {
		x.V6[p.bits/64] |= 1 << (p.bits % 64)
	}
}

// slotOf returns the slot of an identity, an empty one if the list does not have it.
func slotOf(entries []zk.ACL, x *access.Index, id *zk.ID) *access.Slot {
	mask := uint64(len(x.Slots) - 1)
	for i := maphash.String(seed, id.ID) + uint64(len(id.Scheme)); ; i++ {
		if s := &x.Slots[i&mask]; s.Entry == 0 || entries[s.Entry-1].ID == *id {
			return s
		}
	}
}

// slotOfPrefix returns the slot of a prefix, an empty one if the list does not have it.
func slotOfPrefix(entries []zk.ACL, x *access.Index, p *prefix) *access.Slot {
	mask := uint64(len(x.Slots) - 1)
	for i := p.hash(); ; i++ {
		s := &x.Slots[i&mask]
		if s.Entry == 0 {
			return s
		}
		if id := &entries[s.Entry-1].ID; id.Scheme == schemeIP {
			if q, _ := parsePrefix(id.ID); q.bits == p.bits && q.coversAddress(p.addr) {
				return s
			}
		}
	}
}

// permsAt returns the permissions that the entries of scheme ip give to an address. It
// looks once for each length of prefix that the list has.
func permsAt(entries []zk.ACL, x *access.Index, text string) (p zk.Perms) {
	addr, ok := parseAddress(text)
	if !ok {
		return 0
	}
	if addr.size == 4 {
		return permsOfLengths(entries, x, addr, x.V4, 0)
	}
	for i, lengths := range x.V6 {
		p |= permsOfLengths(entries, x, addr, lengths, 64*i)
	}
	return p
}

// permsOfLengths looks for the prefixes of addr whose lengths are first plus the numbers
// of the bits that are set.
func permsOfLengths(entries []zk.ACL, x *access.Index, addr address, lengths uint64, first int) (p zk.Perms) {
	for ; lengths != 0; lengths &= lengths - 1 {
		p |= slotOfPrefix(entries, x, &prefix{addr, first + bits.TrailingZeros64(lengths)}).Perms
	}
	return p
}

// allowedByIndex is Allowed for a list that has an index. It looks once for each identity.
func (a *Authority) allowedByIndex(entries []zk.ACL, x *access.Index, want zk.Perms, ids []zk.ID) bool {
	if x.Anyone&want != 0 {
		return true
	}
	for i := range ids {
		var p zk.Perms
		switch ids[i].Scheme {
		case schemeSuper:
			return true
		case schemeDigest:
			if !a.cfg.DigestDisabled {
				p = slotOf(entries, x, &ids[i]).Perms
			}
		case schemeX509:
			if a.cfg.X509 {
				p = slotOf(entries, x, &ids[i]).Perms
			}
		case schemeIP:
			p = permsAt(entries, x, ids[i].ID)
		case schemeSASL:
			p = a.permsOfUser(entries, x, &ids[i])
		}
		if p&want != 0 {
			return true
		}
	}
	return false
}

// permsOfUser returns the permissions that the entries of scheme sasl give to a user.
func (a *Authority) permsOfUser(entries []zk.ACL, x *access.Index, user *zk.ID) zk.Perms {
	switch {
	case !a.cfg.SASL:
		return 0
	case user.ID == saslSuper:
		return x.SASL
	}
	p := slotOf(entries, x, user).Perms
	if a.cfg.AnySASLUser != "" {
		p |= slotOf(entries, x, &zk.ID{Scheme: schemeSASL, ID: a.cfg.AnySASLUser}).Perms
	}
	return p
}

// hash is equal for prefixes of the same addresses.
func (p *prefix) hash() uint64 {
	b := [18]byte{16: byte(p.addr.size), 17: byte(p.bits)}
	whole := p.bits / 8
	copy(b[:whole], p.addr.bytes[:whole])
	if rest := p.bits % 8; rest != 0 {
		b[whole] = p.addr.bytes[whole] &^ (0xff >> rest)
	}
	return maphash.Bytes(seed, b[:])
}
