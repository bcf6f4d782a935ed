package znode

import (
	"encoding/binary"
	"hash/crc32"
	"unsafe"

	"github.com/pinfold-zk/pinfold/zk"
)

// An ID identifies a znode while it exists. 0 means none. IDs are reused.
type ID uint32

const rootID ID = 1

// nullData is the dataLen of a znode whose data is null.
const nullData = -1

// node is a znode's record. It has no pointers: nodes are in large blocks that the
// garbage collector does not scan, and refer to each other by ID. The name and the data
// are in one string of the arena.
type node struct {
	czxid, mzxid, pzxid zk.Zxid
	ctime, mtime        int64
	owner               int64 // ephemeralOwner as stored: a session, or a container or TTL mark
	version, aversion   int32
	cversion            int32  // internal: the number of children ever created
	sum                 uint32 // CRC-32 of path and data, the first part of the digest
	acl                 aclID
	parent              ID     // of a free node: the next free one
	slot                uint32 // position in the parent's list of children; freeSlot if not in use
	kids                uint32 // the list of children, index into Tree.kids; 0: none yet
	blob                ref    // name, then data
	nameLen             uint32
	dataLen             int32
}

const freeSlot = ^uint32(0)

const nodesPerBlock = 2048

// nodeTable allocates nodes.
type nodeTable struct {
	blocks []*[nodesPerBlock]node
	fresh  ID // nodes from here on were never used
	free   ID // list of freed nodes
	freed  int
	ready  []*[nodesPerBlock]node // the next blocks, see Tree.makeReady

	populate func(b []byte) // Options.Populate
}

func (t *nodeTable) at(id ID) *node {
	return &t.blocks[id/nodesPerBlock][id%nodesPerBlock]
}

// alloc returns a zeroed node.
func (t *nodeTable) alloc() ID {
	if id := t.free; id != 0 {
		n := t.at(id)
		t.free = n.parent
		t.freed--
		*n = node{}
		return id
	}
	if int(t.fresh/nodesPerBlock) == len(t.blocks) {
		t.blocks = append(t.blocks, t.block())
	}
	t.fresh++
	return t.fresh - 1
}

func (t *nodeTable) release(id ID) {
	n := t.at(id)
	*n = node{slot: freeSlot, parent: t.free}
	t.free = id
	t.freed++
}

// kind is what ends the life of a znode.
type kind uint8

const (
	kindPersistent kind = iota
	kindEphemeral
	kindContainer
	kindTTL
)

// Marks in ephemeralOwner (features page, section 6).
const (
	containerOwner  int64  = -1 << 63
	ttlOwnerMark    uint64 = 0xff << 56
	ttlMask         uint64 = 1<<40 - 1
	ttlFeatureMask  uint64 = 0xffff << 40
	MaxTTL          int64  = int64(ttlMask)
	max353TTL       uint64 = 1<<60 - 1
	owner353TTLBits uint64 = 1 << 63
)

// ownerKind returns the meaning of a stored ephemeralOwner.
func (o *Options) ownerKind(owner int64) kind {
	switch {
	case owner == 0:
		return kindPersistent
	case owner == containerOwner:
		return kindContainer
	case o.ExtendedTypes && o.Emulate353TTL && owner < 0:
		return kindTTL
	case o.ExtendedTypes && uint64(owner)&ttlOwnerMark == ttlOwnerMark && uint64(owner)&ttlFeatureMask == 0:
		return kindTTL
	}
	return kindEphemeral
}

// ttlOwner returns the ephemeralOwner of a znode with a time to live of ttl
// milliseconds.
func (o *Options) ttlOwner(ttl int64) int64 {
	if o.Emulate353TTL {
		return int64(owner353TTLBits | uint64(ttl))
	}
	return int64(ttlOwnerMark | uint64(ttl))
}

// ownerTTL is the inverse of ttlOwner, in milliseconds.
func (o *Options) ownerTTL(owner int64) int64 {
	if o.Emulate353TTL {
		return int64(uint64(owner) & max353TTL)
	}
	return int64(uint64(owner) & ttlMask)
}

// Mode is the part of a znode, besides path and data, that its digest is computed from.
// The leader's preparation keeps it for znodes whose changes are not applied yet.
type Mode struct {
	Czxid, Mzxid, Pzxid         zk.Zxid
	Ctime, Mtime                int64
	Version, Cversion, Aversion int32
	Owner                       int64
}

func (n *node) mode() Mode {
	return Mode{n.czxid, n.mzxid, n.pzxid, n.ctime, n.mtime, n.version, n.cversion, n.aversion, n.owner}
}

// A Scratch is a buffer for Mode.Digest. A caller reuses one for all digests, because
// the checksum function makes every buffer escape.
type Scratch [64]byte

// Digest completes the digest of a znode whose path and data have the sum sum (protocol
// page, section 9): it is the CRC-32 that continues from sum over the 60 bytes below.
// The processor's CRC instructions need 64 bytes or more. So it starts a new CRC over
// 64 bytes, whose first four take the register to sum; this takes a third of the time.
func (m *Mode) Digest(sum uint32, b *Scratch) uint32 {
	binary.LittleEndian.PutUint32(b[:], unwind(^sum))
	put64(b[4:], uint64(m.Czxid))
	put64(b[12:], uint64(m.Mzxid))
	put64(b[20:], uint64(m.Pzxid))
	put64(b[28:], uint64(m.Ctime))
	put64(b[36:], uint64(m.Mtime))
	put32(b[44:], uint32(m.Version))
	put32(b[48:], uint32(m.Cversion))
	put32(b[52:], uint32(m.Aversion))
	put64(b[56:], uint64(m.Owner))
	return crc32.Update(^uint32(0), crc32.IEEETable, b[:])
}

// unwind returns the four bytes, the first one lowest, that take the register of a
// CRC-32 from 0 to s. The function is linear, so each byte of s contributes separately.
func unwind(s uint32) uint32 {
	t := &unwindTable
	return t[0][byte(s)] ^ t[1][byte(s>>8)] ^ t[2][byte(s>>16)] ^ t[3][s>>24]
}

// unwindTable is computed by undoing four zero bytes: if four zero bytes take the
// register from x to s, then the bytes of x take it from 0 to s. The highest byte of the
// register shows which table entry a step has used.
var unwindTable = func() (t [4][256]uint32) {
	var used [256]uint32
	for i, e := range crc32.IEEETable {
		used[e>>24] = uint32(i)
	}
	for k := range t {
		for b := range t[k] {
			s := uint32(b) << (8 * k)
			for range 4 {
				i := used[s>>24]
				s = (s^crc32.IEEETable[i])<<8 | i
			}
			t[k][b] = s
		}
	}
	return t
}()

// Sum returns the part of a znode's digest that comes from its path and data.
func Sum(path string, data []byte) uint32 {
	if path == "/" {
		path = ""
	}
	sum := crc32.Update(0, crc32.IEEETable, unsafe.Slice(unsafe.StringData(path), len(path)))
	return crc32.Update(sum, crc32.IEEETable, data)
}

// InDigest reports whether the znode at path counts in the tree's digest: all do,
// except those below /zookeeper.
func InDigest(path string) bool {
	return len(path) < len(systemPrefix) || path[:len(systemPrefix)] != systemPrefix
}

func put64(b []byte, v uint64) { put32(b, uint32(v>>32)); put32(b[4:], uint32(v)) }

func put32(b []byte, v uint32) {
	_ = b[3]
	b[0], b[1], b[2], b[3] = byte(v>>24), byte(v>>16), byte(v>>8), byte(v)
}
