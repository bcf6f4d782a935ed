package server

import (
	"encoding/binary"
	"fmt"

	"github.com/pinfold-zk/pinfold/internal/refusal"
	"github.com/pinfold-zk/pinfold/internal/wire"
)

// tooLong describes a request whose frame is longer than jute.maxbuffer, of which b has the
// beginning: its operation, and the first path that it names. It is "" if too little has come.
func tooLong(b []byte) string {
	const header = 4 + 4 + 4 // length, xid, operation
	if len(b) < header {
		return ""
	}
	op := wire.OpCode(binary.BigEndian.Uint32(b[8:]))
	if path := firstPath(op, b[header:]); path != "" {
		return fmt.Sprintf(" (%v of %s)", op, refusal.Cut(path))
	}
	return fmt.Sprintf(" (%v)", op)
}

// firstPath returns the first path of a request, of whose body b has the beginning: as much of
// it as has come. Of an operation that may begin with a secret it returns "".
func firstPath(op wire.OpCode, b []byte) string {
	switch op {
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL, wire.OpSetData, wire.OpSetACL,
		wire.OpDelete, wire.OpExists, wire.OpGetData, wire.OpGetACL, wire.OpGetChildren, wire.OpGetChildren2, wire.OpSync:
	case wire.OpMulti, wire.OpMultiRead:
		const multiHeader = 4 + 1 + 4 // the type of the first part, whether it is the end, an error
		b = b[min(multiHeader, len(b)):]
	case wire.OpSetWatches, wire.OpSetWatches2:
		b = b[min(8, len(b)):] // relativeZxid
		for len(b) >= 4 && int32(binary.BigEndian.Uint32(b)) <= 0 {
			b = b[4:] // a list without paths
		}
		b = b[min(4, len(b)):] // the length of the list
	default:
		return ""
	}
	if len(b) < 4 {
		return ""
	}
	n := int(int32(binary.BigEndian.Uint32(b)))
	return string(b[4 : 4+min(max(n, 0), len(b)-4)])
}
