// Package wire holds the records of ZooKeeper's client protocol: handshake,
// headers, requests, responses and events, each with its encoding (protocol
// page, sections 2 to 4).
//
// A record is read by its Decode method from a jute.Decoder, whose error sticks:
// decode first, then ask the decoder. Strings and slices of a decoded record
// alias the frame. A record is written by its Append method to the end of a
// byte slice. Frame lengths are the connection's business.
package wire

import "strconv"

// OpCode is the type field of a request header.
type OpCode int32

// The operations. CreateSession and CloseSession are also types of
// transactions, and Error is only that.
const (
	OpNotification         OpCode = 0
	OpCreate               OpCode = 1
	OpDelete               OpCode = 2
	OpExists               OpCode = 3
	OpGetData              OpCode = 4
	OpSetData              OpCode = 5
	OpGetACL               OpCode = 6
	OpSetACL               OpCode = 7
	OpGetChildren          OpCode = 8
	OpSync                 OpCode = 9
	OpPing                 OpCode = 11
	OpGetChildren2         OpCode = 12
	OpCheck                OpCode = 13
	OpMulti                OpCode = 14
	OpCreate2              OpCode = 15
	OpReconfig             OpCode = 16
	OpCheckWatches         OpCode = 17
	OpRemoveWatches        OpCode = 18
	OpCreateContainer      OpCode = 19
	OpDeleteContainer      OpCode = 20
	OpCreateTTL            OpCode = 21
	OpMultiRead            OpCode = 22
	OpAuth                 OpCode = 100
	OpSetWatches           OpCode = 101
	OpSASL                 OpCode = 102
	OpGetEphemerals        OpCode = 103
	OpGetAllChildrenNumber OpCode = 104
	OpSetWatches2          OpCode = 105
	OpAddWatch             OpCode = 106
	OpWhoAmI               OpCode = 107
	OpCreateSession        OpCode = -10
	OpCloseSession         OpCode = -11
	OpError                OpCode = -1
)

// Names are those that the "cons" four-letter word shows as the last operation.
var opNames = map[OpCode]string{
	OpNotification:         "NOTI",
	OpCreate:               "CREA",
	OpDelete:               "DELE",
	OpExists:               "EXIS",
	OpGetData:              "GETD",
	OpSetData:              "SETD",
	OpGetACL:               "GETA",
	OpSetACL:               "SETA",
	OpGetChildren:          "GETC",
	OpSync:                 "SYNC",
	OpPing:                 "PING",
	OpGetChildren2:         "GETC",
	OpCheck:                "CHEC",
	OpMulti:                "MULT",
	OpCreate2:              "CREA",
	OpReconfig:             "RECO",
	OpCheckWatches:         "CHKW",
	OpRemoveWatches:        "REMW",
	OpCreateContainer:      "CREA",
	OpDeleteContainer:      "DELE",
	OpCreateTTL:            "CREA",
	OpMultiRead:            "MULT",
	OpAuth:                 "AUTH",
	OpSetWatches:           "SETW",
	OpSASL:                 "SASL",
	OpGetEphemerals:        "GETE",
	OpGetAllChildrenNumber: "GETA",
	OpSetWatches2:          "SETW",
	OpAddWatch:             "ADDW",
	OpWhoAmI:               "HOAM",
	OpCreateSession:        "SESS",
	OpCloseSession:         "CLOS",
	OpError:                "ERRO",
}

// String is the four-letter name of the operation; its number if it has none.
func (o OpCode) String() string {
	if s, ok := opNames[o]; ok {
		return s
	}
	return strconv.Itoa(int(o))
}

// IsWrite reports whether the operation changes the replicated state, and so
// passes through preparation and the log.
func (o OpCode) IsWrite() bool {
	switch o {
	case OpCreate, OpCreate2, OpCreateTTL, OpCreateContainer, OpDelete, OpDeleteContainer,
		OpSetData, OpSetACL, OpMulti, OpReconfig, OpCreateSession, OpCloseSession:
		return true
	}
	return false
}

// Transaction ids that clients give to requests that are not numbered, and the
// server to what is not an answer.
const (
	XidNotification int32 = -1
	XidPing         int32 = -2
	XidAuth         int32 = -4
	XidSetWatches   int32 = -8
)
