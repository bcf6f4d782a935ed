package session

import (
	"encoding/binary"

	"github.com/pinfold-zk/pinfold/zk"
)

// PasswordLen is the length of a session's password in bytes.
const PasswordLen = 16

// Password returns the password of a session. It depends on the id alone, so every
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

// counterMask selects the part of a session id below the server's byte.
const counterMask = 1<<56 - 1

// containerOwner is the ephemeralOwner that marks a container. No session has this id.
const containerOwner = zk.SessionID(-1 << 63)

// InitialID returns the first session id of a server that starts at nowMillis: the
// server's number in the high byte, then 40 bits of the time, then 16 zero bits. In
// Apache a standalone server has the number 1. nowMillis should come from a clock that
// runs while the machine is off; otherwise ids of an earlier run repeat while their
// sessions may still be alive.
func InitialID(serverID uint8, nowMillis int64) zk.SessionID {
	id := zk.SessionID(uint64(serverID)<<56 | uint64(nowMillis)<<24>>8)
	if !validID(id) {
		id++
	}
	return id
}

// validID reports whether a session may have the id.
func validID(id zk.SessionID) bool { return id != 0 && id != containerOwner }

// following returns the id after id. The counter wraps around below the server's byte.
func following(id zk.SessionID) zk.SessionID {
	id = id&^counterMask | (id+1)&counterMask
	if !validID(id) {
		id++
	}
	return id
}

// Clamp negotiates a timeout: the requested one, raised to minMillis, then lowered to
// maxMillis (which wins if minMillis is greater).
func Clamp(requestedMillis, minMillis, maxMillis int32) int32 {
	return min(max(requestedMillis, minMillis), maxMillis)
}
