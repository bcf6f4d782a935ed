package session

import "github.com/pinfold-zk/pinfold/zk"

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
