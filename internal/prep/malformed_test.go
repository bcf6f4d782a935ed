package prep

import (
	"fmt"
	"slices"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// TestMalformedMulti: a multi of which any operation cannot be decoded is refused as a whole, whatever comes of the
// operations before it, and leaves nothing behind. Apache decodes a multi before it looks at the first operation.
func TestMalformedMulti(t *testing.T) {
	r := newRig(t, everything)
	session := r.prepare(Request{Op: wire.OpCreateSession, Owner: owner, Body: jute.AppendInt(nil, 1)}).Session
	r.settle()
	create := func(path string, mode zk.CreateMode) []byte {
		m := wire.MultiOp{Type: wire.OpCreate}
		m.Path, m.ACL, m.Flags = path, zk.OpenACLUnsafe(), mode
		return m.Append(nil)
	}
	good, fails := create("/a", zk.Persistent), create("/none/b", zk.Persistent)
	const cut, missing = "an operation that is cut off", "no end"
	malformed := map[string][]byte{
		"a mode that is none": create("/c", 99),
		"a mode with a TTL":   create("/c", zk.PersistentWithTTL),
		"a read":              wire.MultiHeader{Type: wire.OpGetData, Err: -1}.Append(nil),
		"a type that is none": wire.MultiHeader{Type: 77, Err: -1}.Append(nil),
		"a null path":         jute.AppendInt(wire.MultiHeader{Type: wire.OpCheck, Err: -1}.Append(nil), -1),
		cut:                   good[:len(good)-3],
		missing:               {},
	}
	for what, bad := range malformed {
		many := slices.Repeat([][]byte{good}, 2*opsAtOnce)
		for _, before := range [][][]byte{{}, {good}, {good, good}, {fails}, {good, fails, good}, many, append([][]byte{fails}, many...)} {
			var body []byte
			for _, op := range before {
				body = append(body, op...)
			}
			if body = append(body, bad...); what != cut && what != missing {
				body = wire.AppendMultiEnd(append(body, good...))
			}
			digest, name := r.prep.digest, fmt.Sprintf("%s after %d operations", what, len(before))
			tx := r.prepare(Request{Op: wire.OpMulti, Session: session, Owner: owner, Body: body})
			if tx.Header.Type != wire.OpError || tx.Err != zk.ErrMarshalling || len(tx.Multi) != 0 {
				t.Errorf("%s: %+v", name, tx)
			}
			if r.prep.Outstanding() != 0 || r.prep.digest != digest {
				t.Errorf("%s: %d changes are outstanding, and the digest went from %d to %d", name, r.prep.Outstanding(), digest, r.prep.digest)
			}
			r.settle()
		}
	}
}
