package sim

import (
	"math"
	"time"

	"github.com/pinfold-zk/pinfold/zk"
)

// Access is one operation on a znode that clients use as a register, for a check
// of linearizability that knows nothing of zxids.
type Access struct {
	Client       int
	Call, Return time.Duration // Return is the end of time if there was no answer
	Kind         AccessKind
	Value        string
	Version      int32
	Code         zk.Code
	Unknown      bool // not answered; the client does not know whether it took effect

	session zk.SessionID // of a Write
	xid     int32
}

// AccessKind is what an Access does.
type AccessKind int

// The kinds: a read counts only if a sync precedes it.
const (
	Read AccessKind = iota
	Write
)

// registers gathers the accesses to the first registerCount znodes that clients
// write, so many of each that the check stays short.
type registers struct {
	list  [registerCount][]*Access
	until [registerCount]time.Duration // calls from then on are missing
}

const (
	registerCount  = 2
	registerLength = 40
)

// begin notes the call of an access, nil if it is not wanted.
func (r *registers) begin(i, client int, kind AccessKind, value string, now time.Duration) *Access {
	if i >= registerCount {
		return nil
	}
	if len(r.list[i]) >= registerLength {
		if r.until[i] == 0 {
			r.until[i] = now
		}
		return nil
	}
	a := &Access{Client: client, Call: now, Return: math.MaxInt64, Kind: kind, Value: value, Unknown: true}
	r.list[i] = append(r.list[i], a)
	return a
}

// accesses returns what was gathered. What was not answered before the gathering
// ended counts as not answered; a write that was not, and of which the history has
// nothing, is left out: it says nothing and makes the check long.
func (r *registers) accesses(h *history) [][]Access {
	all := make([][]Access, 0, registerCount)
	for i := range r.list {
		var list []Access
		for _, a := range r.list[i] {
			b := *a
			if r.until[i] != 0 && b.Return >= r.until[i] {
				b.Return, b.Unknown = math.MaxInt64, true
			}
			effect := h.outcomes[request{b.session, b.xid}].z != 0
			if b.Unknown && (b.Kind == Read || !effect) || !b.Unknown && b.Code != zk.OK {
				continue
			}
			list = append(list, b)
		}
		all = append(all, list)
	}
	return all
}
