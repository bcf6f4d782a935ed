package auth

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/pinfold-zk/pinfold/zk"
)

// IPIdentity returns the identity that every connection has by the address of its peer.
// IPv4 in IPv6 counts as IPv4. IPv6 is written as in Java: eight groups without leading
// zeros and without omissions, followed by a percent sign and the zone if there is one.
// An identity with a zone matches no ACL, as in Apache.
func IPIdentity(addr netip.Addr) zk.ID {
	addr = addr.Unmap()
	if !addr.Is6() {
		return zk.ID{Scheme: schemeIP, ID: addr.String()}
	}
	raw := addr.As16()
	var b []byte
	for i := 0; i < len(raw); i += 2 {
		if i > 0 {
			b = append(b, ':')
		}
		b = strconv.AppendUint(b, uint64(raw[i])<<8|uint64(raw[i+1]), 16)
	}
	if z := addr.Zone(); z != "" {
		b = append(append(b, '%'), z...)
	}
	return zk.ID{Scheme: schemeIP, ID: string(b)}
}

// address is an IPv4 (size 4) or IPv6 (size 16) address.
type address struct {
	size  int
	bytes [16]byte
}

// prefix is the part of the address space that an entry of scheme ip names.
type prefix struct {
	addr address
	bits int
}

// parsePrefix reads an address, optionally followed by a slash and the number
// of bits that count. Everything that Apache 3.9.4 accepts, spelled in ASCII,
// is accepted: parts of an IPv4 address may have zeros in front.
func parsePrefix(s string) (prefix, bool) {
	text, bits, hasBits := strings.Cut(s, "/")
	addr, ok := parseAddress(text)
	if !ok {
		return prefix{}, false
	}
	p := prefix{addr, addr.size * 8}
	if hasBits {
		n, ok := parseJavaInt(bits, 10)
		if !ok || n < 0 || n > int64(p.bits) {
			return prefix{}, false
		}
		p.bits = int(n)
	}
	return p, true
}

// covers reports whether the address in text is of p's family and begins with
// p's bits.
func (p *prefix) covers(text string) bool {
	addr, ok := parseAddress(text)
	return ok && p.coversAddress(addr)
}

// coversAddress is covers for an address that is parsed.
func (p *prefix) coversAddress(addr address) bool {
	if addr.size != p.addr.size {
		return false
	}
	whole := p.bits / 8
	for i := 0; i < whole; i++ {
		if addr.bytes[i] != p.addr.bytes[i] {
			return false
		}
	}
	if rest := p.bits % 8; rest != 0 {
		return (addr.bytes[whole]^p.addr.bytes[whole])>>(8-rest) == 0
	}
	return true
}

// parseAddress reads an address of either family.
func parseAddress(s string) (address, bool) {
	if strings.IndexByte(s, ':') >= 0 {
		return parseV6(s)
	}
	return parseV4(s)
}

// parseV4 reads four decimal numbers up to 255.
func parseV4(s string) (address, bool) {
	a := address{size: 4}
	for i := 0; i < 4; i++ {
		part, rest, more := strings.Cut(s, ".")
		n, ok := parseJavaInt(part, 10)
		if !ok || n < 0 || n > 255 || more != (i < 3) {
			return address{}, false
		}
		a.bytes[i] = byte(n)
		s = rest
	}
	return a, true
}

// parseV6 reads eight groups of up to four hexadecimal digits, of which one or
// more in a row may be written as "::". There is no form with an IPv4 tail.
func parseV6(s string) (address, bool) {
	a := address{size: 16}
	head, tail, short := strings.Cut(s, "::")
	front, ok := parseGroups(head, a.bytes[:])
	if !ok || !short && front != 8 {
		return address{}, false
	}
	if !short {
		return a, true
	}
	var back [16]byte
	n, ok := parseGroups(tail, back[:])
	if !ok || front+n >= 8 {
		return address{}, false
	}
	copy(a.bytes[16-2*n:], back[:2*n])
	return a, true
}

// parseGroups reads groups, separated by single colons, into dst and returns
// their number. An empty s has none.
func parseGroups(s string, dst []byte) (int, bool) {
	if s == "" {
		return 0, true
	}
	for n := 0; 2*n < len(dst); n++ {
		part, rest, more := strings.Cut(s, ":")
		v, ok := parseJavaInt(part, 16)
		if !ok || len(part) > 4 {
			return 0, false
		}
		dst[2*n], dst[2*n+1] = byte(v>>8), byte(v)
		if !more {
			return n + 1, true
		}
		s = rest
	}
	return 0, false
}

// parseJavaInt reads an integer as Java's Integer.parseInt does: any number of
// zeros in front, one sign, 32 bits. Digits outside ASCII, which Java would
// take, are refused.
func parseJavaInt(s string, base int64) (int64, bool) {
	neg := false
	if s != "" && (s[0] == '+' || s[0] == '-') {
		neg, s = s[0] == '-', s[1:]
	}
	if s == "" {
		return 0, false
	}
	var v int64
	for i := 0; i < len(s); i++ {
		d := int64(99)
		switch c := s[i]; {
		case c >= '0' && c <= '9':
			d = int64(c - '0')
		case c >= 'a' && c <= 'f':
			d = int64(c-'a') + 10
		case c >= 'A' && c <= 'F':
			d = int64(c-'A') + 10
		}
		v = v*base + d
		if d >= base || v > 1<<31 {
			return 0, false
		}
	}
	if neg {
		return -v, true
	}
	return v, v < 1<<31
}
