package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// A pair is what servers A and B are to each other; pairs are combined as a set.
type pair int

const (
	against38 pair = 1 << iota // A is Apache 3.8.0, B follows 3.9
	against39                  // A is Apache 3.9.3, B is Pinfold
	alike                      // both are Apache of one release
)

const (
	ours  = against38 | against39 // Pinfold differs from either release
	every = ours | alike          // Apache differs from itself
)

// oneRelease tells that B does as A's release does: nothing is left unasked
// that releases answer differently.
func (p pair) oneRelease() bool { return p != against38 }

// An allowance is a known difference between two correct servers.
type allowance struct {
	name   string
	reason string
	// of are the pairs of servers that it holds for.
	of pair
	// item decides about one pair of items. Nil for the allowances that
	// sequences apply.
	item func(w *world, t *step, a, b *item) bool
}

// Names of the allowances that compare asks for.
const (
	allowCloseOrder = "close-event-order"
	allowBatchEvent = "batch-event-early"
	allowUnreadable = "missed-event-unreadable"
	allowSpared     = "refused-attach-spares-owner"
	allowExists     = "exists-needs-read"
	allowMalformed  = "malformed-takes-zxid"
)

// allowances is the table. An entry is as narrow as its reason.
func allowances() []allowance {
	return []allowance{
		{
			name:   "event-zxid",
			reason: "3.8 sends zxid -1 in an event's header; 3.9 the zxid of the change, which lies within the step; for setWatches' own events -1 as well",
			of:     against38,
			item: func(w *world, t *step, a, b *item) bool {
				return a.Kind == itemEvent && b.Kind == itemEvent && a.Event == b.Event && a.Path == b.Path && a.Text == b.Text &&
					a.Zxid == noZxid && b.Zxid > w.b.rel(w.b.before) && b.Zxid <= w.b.rel(w.b.last)
			},
		},
		{
			name:   allowExists,
			reason: "3.8.0 answers exists without READ; since 3.8.4/3.9.2 (ZOOKEEPER-2590) -102",
			of:     against38,
			item: func(w *world, t *step, a, b *item) bool {
				return a.answers(wire.OpExists) && sameHeader(a, b) && a.Err == zk.OK && b.Err == zk.ErrNoAuth && b.Text == ""
			},
		},
		{
			name:   "watcher-types-4-5",
			reason: "checkWatches and removeWatches know the types Persistent and PersistentRecursive since 3.9.0; asked only of paths without a watch",
			of:     against38,
			item: func(w *world, t *step, a, b *item) bool {
				return (a.answers(wire.OpCheckWatches) || a.answers(wire.OpRemoveWatches)) && sameHeader(a, b) &&
					a.Err == zk.ErrMarshalling && b.Err == zk.ErrNoWatcher
			},
		},
		{
			name:   "check-of-other-watch",
			reason: "3.8.0's checkWatches finds a watch of any connection on the path, also of one that is just being closed; a watch must be the asking connection's",
			of:     against38,
			item: func(w *world, t *step, a, b *item) bool {
				return len(t.Reqs) == 1 && a.answers(wire.OpCheckWatches) && sameHeader(a, b) && a.Err == zk.OK && b.Err == zk.ErrNoWatcher &&
					(w.b.othersWatch(t.Client, a.Req.requestPath()) || w.a.forgets(t.Client, a.Req))
			},
		},
		{
			name:   "multi-create-result",
			reason: "3.8.0's multi answers create2 as create; 3.9 as create2 (ZOOKEEPER-4026). The paths are compared",
			of:     against38,
			item: func(w *world, t *step, a, b *item) bool {
				return a.answers(wire.OpMulti) && sameHeader(a, b) && a.Err == b.Err && a.Loose == b.Loose && multiTypesAsKnown(a, b)
			},
		},
		{
			name:   allowMalformed,
			reason: "a write that cannot be read takes a zxid in 3.8.0, and none in 3.9",
			of:     against38,
			item: func(w *world, t *step, a, b *item) bool {
				return len(t.Reqs) == 1 && a.malformedWrite() && b.malformedWrite() && a.Xid == b.Xid && a.Text == b.Text &&
					a.Zxid == w.a.rel(w.a.before)+1 && b.Zxid == w.b.rel(w.b.before)
			},
		},
		{
			name:   "acl-auth-order",
			reason: "scheme auth expands to the connection's identities in the order of a Java hash set",
			of:     every,
			item: func(w *world, t *step, a, b *item) bool {
				return a.answers(wire.OpGetACL) && sameHeader(a, b) && a.Err == b.Err && a.Loose == b.Loose && strings.Contains(a.Loose, "digest:")
			},
		},
		{
			name:   "batch-zxid",
			reason: "a reply's zxid is the last one applied when it is written: a server that applies a pipelined batch at once may show a later one of the same batch",
			of:     every,
			item: func(w *world, t *step, a, b *item) bool {
				return len(t.Reqs) > 1 && a.Kind == itemReply && b.Kind == itemReply && a.Xid == b.Xid && a.Err == b.Err && a.Text == b.Text &&
					a.Zxid > zeroZxid && b.Zxid >= a.Zxid && b.Zxid <= w.b.rel(w.b.last)
			},
		},
		{
			name:   "body-behind-error",
			reason: "Apache may send a multi's end header behind err -5; clients look at err first and ignore it",
			of:     every,
			item: func(w *world, t *step, a, b *item) bool {
				return (a.answers(wire.OpMulti) || a.answers(wire.OpMultiRead)) && sameHeader(a, b) && a.Err == zk.ErrMarshalling && b.Err == a.Err &&
					a.Text == "[body behind an error: ffffffff01ffffffff]" && b.Text == ""
			},
		},
		{
			name:   allowUnreadable,
			reason: "Apache's setWatches tells of changes of a znode that the client may not read; B tells no more than its other events (CVE-2024-23944). B is asked whether it may",
			of:     ours,
		},
		{
			name:   allowSpared,
			reason: "Apache closes a session's connection on any handshake with its id, B only when the password is right, so that a stranger cannot end it",
			of:     ours,
		},
		{
			name:   allowCloseOrder,
			reason: "the ephemerals of an ending session are deleted in the order of a Java hash set; the events are compared as a bag",
			of:     every,
		},
		{
			name:   allowBatchEvent,
			reason: "an event goes before every reply that shows its change, and may go before earlier replies of a pipelined batch too",
			of:     every,
		},
	}
}

func (i *item) answers(op wire.OpCode) bool { return i.Kind == itemReply && i.Req.Op == op }

// malformedWrite tells that the reply is to a single write whose body is no record.
func (i *item) malformedWrite() bool {
	return i.Kind == itemReply && i.Err == zk.ErrMarshalling && i.Req.Op.IsWrite() && i.Req.Op != wire.OpMulti
}

// sameHeader compares all of the header but err.
func sameHeader(a, b *item) bool {
	return a.Kind == itemReply && b.Kind == itemReply && a.Xid == b.Xid && a.Zxid == b.Zxid
}

// multiTypesAsKnown checks that A's and B's results differ as those of 3.8.0 and
// 3.9 do.
func multiTypesAsKnown(a, b *item) bool {
	if len(a.Multi) != len(b.Multi) {
		return false
	}
	for i := range a.Multi {
		x, y := a.Multi[i], b.Multi[i]
		if x.op == y.op {
			continue
		}
		if x.op != wire.OpCreate || y.op != wire.OpCreate2 {
			return false
		}
	}
	return true
}

// report prints how often each allowance was needed.
func report(used map[string]int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "allowances used:\n")
	n := 0
	for _, a := range allowances() {
		if used[a.name] > 0 {
			fmt.Fprintf(&b, "  %6d  %-20s %s\n", used[a.name], a.name, a.reason)
			n++
		}
	}
	if n == 0 {
		b.WriteString("  none\n")
	}
	return b.String()
}

// bag renders events without their order.
func bag(items []item) []string {
	var v []string
	for _, i := range items {
		if i.Kind == itemEvent {
			v = append(v, fmt.Sprintf("%v %q %s", i.Event, i.Path, i.Text))
		}
	}
	slices.Sort(v)
	return v
}
