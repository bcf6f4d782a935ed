package zk

import "fmt"

// Code is the error field of a reply. Every Code but OK is an error; compare
// with errors.Is(err, zk.ErrNoNode).
type Code int32

// The error codes. Those marked client never cross the wire.
const (
	OK                              Code = 0
	ErrSystem                       Code = -1
	ErrRuntimeInconsistency         Code = -2 // in a failed multi: an earlier operation failed
	ErrDataInconsistency            Code = -3
	ErrConnectionLoss               Code = -4 // client
	ErrMarshalling                  Code = -5
	ErrUnimplemented                Code = -6
	ErrOperationTimeout             Code = -7 // client
	ErrBadArguments                 Code = -8
	ErrUnknownSession               Code = -12
	ErrNewConfigNoQuorum            Code = -13
	ErrReconfigInProgress           Code = -14
	ErrAPI                          Code = -100
	ErrNoNode                       Code = -101
	ErrNoAuth                       Code = -102
	ErrBadVersion                   Code = -103
	ErrNoChildrenForEphemerals      Code = -108
	ErrNodeExists                   Code = -110
	ErrNotEmpty                     Code = -111
	ErrSessionExpired               Code = -112
	ErrInvalidCallback              Code = -113
	ErrInvalidACL                   Code = -114
	ErrAuthFailed                   Code = -115
	ErrSessionMoved                 Code = -118
	ErrNotReadOnly                  Code = -119
	ErrEphemeralOnLocalSession      Code = -120
	ErrNoWatcher                    Code = -121
	ErrRequestTimeout               Code = -122 // client
	ErrReconfigDisabled             Code = -123
	ErrSessionClosedRequireSaslAuth Code = -124
	ErrQuotaExceeded                Code = -125
	ErrThrottledOp                  Code = -127
)

var codeNames = map[Code]string{
	OK:                              "ok",
	ErrSystem:                       "system error",
	ErrRuntimeInconsistency:         "runtime inconsistency",
	ErrDataInconsistency:            "data inconsistency",
	ErrConnectionLoss:               "connection loss",
	ErrMarshalling:                  "marshalling error",
	ErrUnimplemented:                "unimplemented",
	ErrOperationTimeout:             "operation timeout",
	ErrBadArguments:                 "bad arguments",
	ErrUnknownSession:               "unknown session",
	ErrNewConfigNoQuorum:            "no quorum of the new configuration is connected",
	ErrReconfigInProgress:           "reconfiguration in progress",
	ErrAPI:                          "API error",
	ErrNoNode:                       "no node",
	ErrNoAuth:                       "not authorised",
	ErrBadVersion:                   "bad version",
	ErrNoChildrenForEphemerals:      "ephemerals may not have children",
	ErrNodeExists:                   "node exists",
	ErrNotEmpty:                     "directory not empty",
	ErrSessionExpired:               "session expired",
	ErrInvalidCallback:              "invalid callback",
	ErrInvalidACL:                   "invalid ACL",
	ErrAuthFailed:                   "authentication failed",
	ErrSessionMoved:                 "session moved to another server",
	ErrNotReadOnly:                  "not allowed on a read-only server",
	ErrEphemeralOnLocalSession:      "ephemeral znode on a local session",
	ErrNoWatcher:                    "no such watcher",
	ErrRequestTimeout:               "request timeout",
	ErrReconfigDisabled:             "reconfiguration is disabled",
	ErrSessionClosedRequireSaslAuth: "session closed: SASL authentication is required",
	ErrQuotaExceeded:                "quota exceeded",
	ErrThrottledOp:                  "operation throttled",
}

// Error names the code in words.
func (c Code) Error() string {
	if s, ok := codeNames[c]; ok {
		return "zookeeper: " + s
	}
	return fmt.Sprintf("zookeeper: error %d", int32(c))
}
