package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// timeTolerance is how far apart the two servers' clocks may be for one change,
// in milliseconds. Both run the step at the same moment on the same machine.
const timeTolerance = 5000

// A world is the pair of servers and everything that the run knows.
type world struct {
	a, b *side
	// pairing decides what is allowed and what is asked.
	pairing pair
	table   []allowance
	used    map[string]int
	seen    map[string]map[zk.Code]int // what A answered: operation, code, how often
}

func newWorld(a, b *side, p pair) *world {
	return &world{a: a, b: b, pairing: p, table: allowances(), used: map[string]int{}, seen: map[string]map[zk.Code]int{}}
}

// allows tells whether the named allowance holds for the two servers.
func (w *world) allows(name string) bool {
	return slices.ContainsFunc(w.table, func(l allowance) bool { return l.name == name && l.of&w.pairing != 0 })
}

// A difference is where the servers disagree.
type difference struct {
	where string // the connection, or the part of the final comparison
	what  string
	a, b  []item
	at    int // index of the first pair that differs
	// detail is what there is to say beyond the items.
	detail string
}

func (d *difference) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s: %s\n%s", d.where, d.what, d.detail)
	const around = 3
	for _, l := range []struct {
		name  string
		items []item
	}{{"A", d.a}, {"B", d.b}} {
		for n := max(0, d.at-around); n < len(l.items) && n <= d.at+around; n++ {
			mark := " "
			if n == d.at {
				mark = ">"
			}
			fmt.Fprintf(&s, "  %s %s %2d  %v\n", mark, l.name, n, l.items[n])
		}
		if len(l.items) <= d.at && d.at > 0 || len(l.items) == 0 && len(d.a)+len(d.b) > 0 {
			fmt.Fprintf(&s, "  > %s nothing more\n", l.name)
		}
	}
	return s.String()
}

// step runs t on both servers at the same time and compares. It returns A's
// items for the generator.
func (w *world) step(t *step) (map[string][]item, *difference) {
	var ga, gb map[string][]item
	var wg sync.WaitGroup
	wg.Go(func() { gb = w.b.run(t) })
	ga = w.a.run(t)
	wg.Wait()
	names := map[string]bool{}
	for n, items := range ga {
		names[n] = true
		w.count(items)
	}
	for n := range gb {
		names[n] = true
	}
	// The step's own connection first: what others see follows from it.
	order := append([]string{t.Client}, slices.Sorted(maps.Keys(names))...)
	for i, n := range order {
		if i > 0 && n == t.Client {
			continue
		}
		if what := w.sequences(t, ga[n], gb[n]); what != "" {
			return ga, &difference{where: "connection " + n, what: what, a: ga[n], b: gb[n], at: w.firstPair(t, ga[n], gb[n])}
		}
	}
	if d := w.levelWatches(t, ga, gb); d != nil {
		return ga, d
	}
	w.levelZxids(t, ga, gb)
	if za, zb := w.a.last-w.a.base, w.b.last-w.b.base; za != zb {
		return ga, &difference{where: "last zxid after the step", what: fmt.Sprintf("A start%+d, B start%+d", za, zb)}
	}
	return ga, nil
}

// count adds A's answers to the coverage.
func (w *world) count(items []item) {
	add := func(name string, code zk.Code) {
		if w.seen[name] == nil {
			w.seen[name] = map[zk.Code]int{}
		}
		w.seen[name][code]++
	}
	for _, i := range items {
		switch i.Kind {
		case itemReply:
			add(opName(i.Req.Op), i.Err)
			for _, m := range i.Multi {
				add("  in "+opName(i.Req.Op), m.err)
			}
		case itemEvent:
			add("event "+i.Event.String(), zk.OK)
		default:
			add(string(i.Kind), zk.OK)
		}
	}
}

// coverage renders what A answered, to judge whether the requests are any good.
func coverage(seen map[string]map[zk.Code]int) string {
	var b strings.Builder
	b.WriteString("what A answered:\n")
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		fmt.Fprintf(&b, "  %-26s", name)
		codes := slices.Sorted(maps.Keys(seen[name]))
		slices.Reverse(codes)
		for _, c := range codes {
			fmt.Fprintf(&b, " %d:%d", int32(c), seen[name][c])
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// levelWatches takes back the watch that exists left on A alone because B
// refused it (allowance exists-needs-read), so that both hold the same again.
func (w *world) levelWatches(t *step, ga, gb map[string][]item) *difference {
	if !w.allows(allowExists) || t.Kind != kindRequest || len(t.Reqs) != 1 || t.Reqs[0].Op != wire.OpExists {
		return nil
	}
	var asked wire.PathWatch
	d := jute.NewDecoder(t.Reqs[0].Body)
	if asked.Decode(&d); !asked.Watch {
		return nil // and there may be a persistent one, of which 3.8.0 would take a half
	}
	a, b := only(ga[t.Client], itemReply), only(gb[t.Client], itemReply)
	if len(a) != 1 || len(b) != 1 || a[0].Err != zk.OK || b[0].Err != zk.ErrNoAuth {
		return nil
	}
	drop := wire.PathInt{Path: t.Reqs[0].requestPath(), Value: int32(zk.WatcherData)}
	s := step{Kind: kindRequest, Client: t.Client, Reqs: []request{{Xid: 1, Op: wire.OpRemoveWatches, Body: drop.Append(nil)}}}
	for _, x := range []*side{w.a, w.b} {
		for name, items := range x.run(&s) {
			for _, i := range items {
				if !i.answers(wire.OpRemoveWatches) || i.Err != zk.OK && i.Err != zk.ErrNoWatcher {
					return &difference{where: "connection " + name, what: "taking back a watch on " + x.name, a: items}
				}
			}
		}
	}
	return nil
}

// levelZxids has B use a zxid where A alone has used one for a write that
// cannot be read (allowance malformed-takes-zxid).
func (w *world) levelZxids(t *step, ga, gb map[string][]item) {
	if !w.allows(allowMalformed) || len(t.Reqs) != 1 || w.a.last-w.a.base != w.b.last-w.b.base+1 {
		return
	}
	a, b := only(ga[t.Client], itemReply), only(gb[t.Client], itemReply)
	if len(a) == 1 && len(b) == 1 && a[0].malformedWrite() && b[0].malformedWrite() {
		missing := wire.PathVersion{Path: "/no-such-parent/child", Version: -1}
		w.b.ask(&request{Xid: 1, Op: wire.OpDelete, Body: missing.Append(nil)})
		w.b.barrier(map[string][]item{})
	}
}

// sequences compares what came on one connection; "" is equal.
func (w *world) sequences(t *step, a, b []item) string {
	what := w.pairs(t, a, b)
	if what == "" {
		return ""
	}
	if w.oneOfAKind(t, a, b) {
		return ""
	}
	if t.closesSession() && slices.Equal(bag(a), bag(b)) && w.pairs(t, without(a, itemEvent), without(b, itemEvent)) == "" &&
		w.pairs(t, byName(a), byName(b)) == "" {
		w.used[allowCloseOrder]++
		return ""
	}
	if len(t.Reqs) > 1 && eventsOnlyEarlier(a, b) && w.pairs(t, without(a, itemEvent), without(b, itemEvent)) == "" &&
		w.pairs(t, only(a, itemEvent), only(b, itemEvent)) == "" {
		w.used[allowBatchEvent]++
		return ""
	}
	return what
}

// oneOfAKind applies the allowances where A has an item that B has not.
func (w *world) oneOfAKind(t *step, a, b []item) bool {
	switch {
	case w.allows(allowSpared) && t.Kind == kindAttach && t.Pass != "right" && len(a) == 2 && len(b) == 1 && a[1].Kind == itemClosed && w.pair(t, &a[0], &b[0]) == "":
		w.b.clients[t.Client].drop() // so that both go on without
		w.used[allowSpared]++
		return true
	case w.allows(allowUnreadable) && len(t.Reqs) == 1 && (t.Reqs[0].Op == wire.OpSetWatches || t.Reqs[0].Op == wire.OpSetWatches2) && len(a) > len(b):
		c := w.b.clients[t.Client]
		if c == nil || c.conn == nil {
			return false
		}
		readable := slices.DeleteFunc(slices.Clone(a), func(i item) bool {
			return i.Kind == itemEvent && i.Event != zk.EventNodeDeleted && !w.b.mayRead(c, i.Path)
		})
		if w.pairs(t, readable, b) == "" {
			w.used[allowUnreadable]++
			return true
		}
	}
	return false
}

// pairs compares two sequences one by one.
func (w *world) pairs(t *step, a, b []item) string {
	if len(a) != len(b) {
		return "number of answers and events"
	}
	for i := range a {
		if what := w.pair(t, &a[i], &b[i]); what != "" {
			return what
		}
	}
	return ""
}

// firstPair is the index of the first pair that differs, for the report.
func (w *world) firstPair(t *step, a, b []item) int {
	for i := range a {
		if i >= len(b) || w.pair(t, &a[i], &b[i]) != "" {
			return i
		}
	}
	return len(a)
}

func (w *world) pair(t *step, a, b *item) string {
	what := unequal(a, b)
	if what == "" {
		return ""
	}
	for i := range w.table {
		l := &w.table[i]
		if l.item != nil && l.of&w.pairing != 0 && l.item(w, t, a, b) {
			w.used[l.name]++
			return ""
		}
	}
	return what
}

// unequal says in which field two items differ; "" is equal.
func unequal(a, b *item) string {
	switch {
	case a.Kind != b.Kind:
		return "kind"
	case a.Xid != b.Xid:
		return "xid"
	case a.Err != b.Err:
		return "err"
	case a.Event != b.Event:
		return "event type"
	case a.Path != b.Path:
		return "event path"
	case a.Text != b.Text:
		return "body"
	case a.Zxid != b.Zxid:
		return "zxid"
	case len(a.Times) != len(b.Times):
		return "times"
	}
	for i := range a.Times {
		if d := a.Times[i] - b.Times[i]; d > timeTolerance || d < -timeTolerance {
			return "times"
		}
	}
	for i := 0; i+1 < len(a.Times); i += 2 {
		if (a.Times[i] <= a.Times[i+1]) != (b.Times[i] <= b.Times[i+1]) {
			return "order of ctime and mtime"
		}
	}
	return ""
}

func without(v []item, k itemKind) []item {
	return slices.DeleteFunc(slices.Clone(v), func(i item) bool { return i.Kind == k })
}

func only(v []item, k itemKind) []item {
	return slices.DeleteFunc(slices.Clone(v), func(i item) bool { return i.Kind != k })
}

// byName is the events in an order that does not depend on the server's.
func byName(v []item) []item {
	v = only(v, itemEvent)
	slices.SortFunc(v, func(a, b item) int {
		if c := strings.Compare(a.Path, b.Path); c != 0 {
			return c
		}
		return int(a.Event - b.Event)
	})
	return v
}

// eventsOnlyEarlier reports whether each of b's events comes behind no more
// replies than a's.
func eventsOnlyEarlier(a, b []item) bool {
	positions := func(v []item) (p []int) {
		replies := 0
		for _, i := range v {
			if i.Kind == itemEvent {
				p = append(p, replies)
			} else {
				replies++
			}
		}
		return p
	}
	pa, pb := positions(a), positions(b)
	if len(pa) != len(pb) {
		return false
	}
	for i := range pa {
		if pb[i] > pa[i] {
			return false
		}
	}
	return true
}
