package transport

import (
	"encoding/binary"
	"fmt"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/peerauth"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/zk"
)

// A packet has no length prefix; its end is known only after decoding:
//
//	int type | long zxid | buffer data | vector of (string scheme, string id)
//
// The buffer and the vector are null, -1, for most packets.
const (
	dataOffset  = 16 // of the data, after its length
	emptyPacket = 20 // bytes of a packet whose data and ids are null
	idBytes     = 8  // minimum bytes of an identity
)

// minAuthLimit is the smallest limit for a packet's identities. A connection may have
// auth.MaxIdentities of auth.MaxIdentityBytes together, whatever jute.maxbuffer is.
const minAuthLimit = 256 << 10

// AppendPacket appends the bytes of p.
func AppendPacket(b []byte, p zab.Packet) []byte {
	b = jute.AppendInt(b, int32(p.Type))
	b = jute.AppendLong(b, int64(p.Zxid))
	b = jute.AppendBuffer(b, p.Data)
	if p.Auth == nil {
		return jute.AppendInt(b, -1)
	}
	b = jute.AppendInt(b, int32(len(p.Auth)))
	for _, id := range p.Auth {
		b = jute.AppendString(b, id.Scheme)
		b = jute.AppendString(b, id.ID)
	}
	return b
}

// packetSize returns the number of bytes that AppendPacket appends.
func packetSize(p zab.Packet) int {
	n := emptyPacket + len(p.Data)
	for _, id := range p.Auth {
		n += idBytes + len(id.Scheme) + len(id.ID)
	}
	return n
}

// DecodePacket reads the packet at the front of b, which has n bytes. If n is more than
// len(b), the packet is not complete: p is zero, and the caller needs at least n bytes
// to continue. Data and Auth alias b.
//
// The data may have limit bytes; the identities with their lengths may have limit or
// minAuthLimit, whichever is more. A longer field, an unknown type or a negative length is ErrPacket
// as soon as it is seen, without waiting for the rest. Only Auth is allocated, once all
// of it has arrived.
func DecodePacket(b []byte, limit int) (p zab.Packet, n int, err error) {
	if len(b) < 4 {
		return zab.Packet{}, 4, nil
	}
	if p.Type = zab.PacketType(int32(binary.BigEndian.Uint32(b))); !p.Type.Known() {
		if peerauth.MayBeLogin(uint32(p.Type)) {
			return zab.Packet{}, 0, fmt.Errorf("%w: %w", ErrPacket, peerauth.ErrOff)
		}
		if b[0] == tlsHandshake {
			return zab.Packet{}, 0, fmt.Errorf("%w: %w: the other server uses it, and neither sslQuorum nor portUnification is set", ErrPacket, ErrTLS)
		}
		return zab.Packet{}, 0, fmt.Errorf("%w: %v", ErrPacket, p.Type)
	}
	if len(b) < dataOffset {
		return zab.Packet{}, emptyPacket, nil
	}
	size := int(int32(binary.BigEndian.Uint32(b[12:])))
	if size < -1 || size > limit {
		return zab.Packet{}, 0, fmt.Errorf("%w: %v with %d bytes of data, the limit is %d", ErrPacket, p.Type, size, limit)
	}
	end := dataOffset + max(size, 0)
	if len(b) < end+4 {
		return zab.Packet{}, end + 4, nil
	}
	p.Zxid = zk.Zxid(binary.BigEndian.Uint64(b[4:]))
	if size >= 0 {
		p.Data = b[dataOffset:end:end]
	}
	count := int(int32(binary.BigEndian.Uint32(b[end:])))
	if count == -1 {
		return p, end + 4, nil
	}
	return decodeAuth(p, b, end+4, count, max(limit, minAuthLimit))
}

// decodeAuth completes DecodePacket with the count identities at b[start:].
func decodeAuth(p zab.Packet, b []byte, start, count, limit int) (zab.Packet, int, error) {
	if count < 0 || count > limit/idBytes {
		return zab.Packet{}, 0, fmt.Errorf("%w: %v with %d identities in at most %d bytes", ErrPacket, p.Type, count, limit)
	}
	end := start
	for left := 2 * count; left > 0; left-- {
		if len(b) < end+4 {
			return zab.Packet{}, end + 4*left, nil
		}
		size := int(int32(binary.BigEndian.Uint32(b[end:])))
		if size < -1 || size > limit-(end-start)-4*left {
			return zab.Packet{}, 0, fmt.Errorf("%w: %v with an identity of %d bytes, the limit is %d", ErrPacket, p.Type, size, limit)
		}
		end += 4 + max(size, 0)
	}
	if len(b) < end {
		return zab.Packet{}, end, nil
	}
	p.Auth = make([]zk.ID, count)
	d := jute.NewDecoder(b[start:end:end])
	for i := range p.Auth {
		p.Auth[i] = zk.ID{Scheme: d.String(), ID: d.String()}
	}
	if err := d.Err(); err != nil { // the loop above has checked every length
		return zab.Packet{}, 0, fmt.Errorf("%w: %w", ErrPacket, err)
	}
	return p, end, nil
}
