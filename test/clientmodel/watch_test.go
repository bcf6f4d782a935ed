package clientmodel

import (
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// watch is a watch, and what it has told.
type watch struct {
	w         *client.Watch
	op        *op // that left it
	recursive bool
	lazy      bool  // is read seldom
	known     int64 // when the operation that left it was over

	era     int  // of the session
	span    int  // of the connection on which it was left, or a later one
	strange bool // or of one that was over when the watch was known
	// How often the client had got a connection before it, and when it was known.
	attachedBefore, attachedAfter int64

	// The actor's drainMu guards what follows.
	events  []told
	over    int64 // when its channel was seen closed, or 0
	drained int64 // when it was read last
	batch   int   // how many events were read then
	overran bool  // more were unread than its channel holds: some may have been joined
}

// told is an event, and when it was read.
type told struct {
	zk.Event
	at int64
}

// unreadEvents is how many events a channel holds before they are joined.
const unreadEvents = 16

func (w *watch) oneShot() bool { return w.op.kind != addWatch }

// registered makes a watch known to its actor.
func (w *watch) registered(a *actor, o *op) {
	w.attachedBefore, w.attachedAfter = o.attached, a.attached.Load()
	a.mu.Lock()
	defer a.mu.Unlock()
	w.era, w.strange, w.span = o.era, o.era != a.era, len(a.spans)-1
	a.watches = append(a.watches, w)
}

// target chooses a watch to remove.
func (a *actor) target(o *op) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.watches) == 0 {
		return false
	}
	rng := rand.New(rand.NewPCG(a.run.seed, uint64(o.id)))
	o.target = a.watches[max(0, len(a.watches)-1-rng.IntN(6))]
	o.path = o.target.op.path
	return true
}

// drain reads what the channels of the watches hold; those that are read seldom, only
// if all are meant.
func (a *actor) drain(all bool) {
	a.drainMu.Lock()
	defer a.drainMu.Unlock()
	a.mu.Lock()
	list := a.watches
	a.mu.Unlock()
	for _, w := range list {
		if w.over == 0 && (all || !w.lazy) {
			w.drain(a)
		}
	}
}

func (w *watch) drain(a *actor) {
	w.drained = a.run.clock.Add(1)
	for n := 0; ; n++ {
		w.batch = n
		if n >= unreadEvents {
			w.overran = true
		}
		select {
		case e, ok := <-w.w.Events():
			if !ok {
				w.over = a.run.clock.Add(1)
				return
			}
			w.events = append(w.events, told{e, a.run.clock.Add(1)})
		default:
			return
		}
	}
}

// concerns reports whether a change is one that the watch tells of.
func (w *watch) concerns(c *change) bool {
	path := w.op.path
	switch w.op.kind {
	case get, exists:
		return c.path == path && c.kind != zk.EventNodeChildrenChanged
	case children:
		return c.path == path && (c.kind == zk.EventNodeChildrenChanged || c.kind == zk.EventNodeDeleted)
	}
	if w.recursive {
		return c.kind != zk.EventNodeChildrenChanged && (c.path == path || strings.HasPrefix(c.path, path+"/"))
	}
	return c.path == path
}

// takes reports whether a removal of all watches of a path means this one.
func (w *watch) takes(o *op) bool {
	if o.kind == unwatch {
		return o.target == w
	}
	if o.kind != unwatchAll && o.kind != forget || o.path != w.op.path {
		return false
	}
	switch o.watcherType() {
	case zk.WatcherAny:
		return true
	case zk.WatcherData:
		return w.op.kind == get || w.op.kind == exists
	case zk.WatcherChildren:
		return w.op.kind == children
	case zk.WatcherPersistent:
		return !w.oneShot() && !w.recursive
	}
	return !w.oneShot() && w.recursive
}

// never is later than all.
const never = int64(1) << 62

// removal is when the watch may have been removed from, and when it surely was.
func (w *watch) removal(a *actor) (from, by int64) {
	from, by = never, never
	for _, o := range a.ops {
		if !w.takes(o) || o.done < w.op.begun {
			continue
		}
		if from = min(from, o.begun); o.begun > w.known && o.err == nil {
			by = min(by, o.done)
		}
	}
	return from, by
}

// checkWatches demands of each watch of a client what Watch promises.
func (a *actor) checkWatches(h *history) {
	for _, w := range a.watches {
		_, by := w.removal(a)
		if by < never && !w.lazy && !w.overran && (w.over == 0 || w.over > by) {
			a.fail("%v: the channel is not closed though it was removed, at %d: %v", w.op, by, w.events)
		}
		if w.over == 0 {
			a.fail("%v: the channel is not closed after Close, or the session's end", w.op)
		}
		switch {
		case w.strange:
		case w.oneShot():
			a.checkOneShot(h, w)
		default:
			a.checkPersistent(h, w)
		}
		a.checkEnd(w)
	}
}

// checkEnd demands that the last event says why there is none behind it.
func (a *actor) checkEnd(w *watch) {
	from, _ := w.removal(a)
	fired := false
	for i, e := range w.events {
		end := e.Type >= zk.EventDataWatchRemoved || e.Type == zk.EventNone && e.State != zk.StateSyncConnected
		if end && i != len(w.events)-1 {
			a.fail("%v: %v is not the last event", w.op, e)
		}
		if e.Type >= zk.EventDataWatchRemoved && from == never {
			a.fail("%v: %v, though nobody removed it", w.op, e)
		}
		fired = fired || end || w.oneShot()
	}
	if !fired && from == never {
		a.fail("%v: its channel was closed without an event", w.op)
	}
}

// first is the first change that a one-shot watch has to tell of; nil if there is
// none. Nobody knows exactly when an exists found nothing.
func (w *watch) first(h *history) *change {
	o := w.op
	since := o.stat.Mzxid
	switch {
	case o.kind == children:
		since = o.stat.Pzxid
	case o.kind == exists && !o.exists:
		since = o.lastZxid
	}
	return h.firstSince(since, w)
}

func (h *history) firstSince(z zk.Zxid, w *watch) *change {
	for i := range h.changes {
		if c := &h.changes[i]; c.zxid > z && w.concerns(c) {
			return c
		}
	}
	return nil
}

func (a *actor) checkOneShot(h *history, w *watch) {
	unsure := w.op.kind == exists && !w.op.exists
	first := w.first(h)
	if len(w.events) > 1 {
		a.fail("%v: a one-shot watch has fired %d times: %v", w.op, len(w.events), w.events)
	}
	fired := never
	if len(w.events) > 0 {
		e := w.events[0]
		fired = e.at
		switch ends := e.Type == zk.EventNone || e.Type >= zk.EventDataWatchRemoved; {
		case ends:
		case unsure && h.firstSince(w.op.zxid, w) != nil:
		case first == nil:
			a.fail("%v: %v, and nothing has happened", w.op, e)
		case e.Path != w.w.Path():
			a.fail("%v: %v", w.op, e)
		case e.Zxid < 0 && a.attached.Load() == w.attachedBefore:
			a.fail("%v: %v on one connection", w.op, e)
		case e.Zxid > 0 && (e.Zxid != first.zxid || e.Type != first.kind):
			a.fail("%v: %v instead of %v", w.op, e, *first)
		}
	}
	if w.over > 0 {
		fired = min(fired, w.over)
	}
	if first == nil || unsure && !a.covered(w, first.zxid) {
		return
	}
	from, _ := w.removal(a)
	if o := a.shownBefore(w, first.zxid, min(from, fired)); o != nil {
		a.fail("%v: %v was shown by %v before an event: %v", w.op, *first, o, w.events)
	}
}

// shownBefore is an operation begun when the watch was known, that shows a state of
// a zxid or later, and was over before a point at which the watch had told of it.
func (a *actor) shownBefore(w *watch, z zk.Zxid, point int64) *op {
	if w.lazy {
		return nil
	}
	for _, o := range a.ops {
		if o.begun > w.known && o.zxid >= z && o.done < point {
			return o
		}
	}
	return nil
}

// covered reports whether the client was told of what happened at z when it happened:
// some connection of the watch's session has shown what was before and what came after.
func (a *actor) covered(w *watch, z zk.Zxid) bool {
	for i, s := range a.spans {
		if s.era == w.era && (i == w.span || i > w.span && s.retold > 0) && s.retold < z && z <= s.last {
			return true
		}
	}
	return false
}

func (a *actor) checkPersistent(h *history, w *watch) {
	from, _ := w.removal(a)
	at := 0 // of changes that have been told, or passed over
	var list []*change
	for i := range h.changes {
		if c := &h.changes[i]; w.concerns(c) {
			list = append(list, c)
		}
	}
	reread, nones := int64(-1), int64(0)
	var before []zk.Event // what was told of each path last
	for _, e := range w.events {
		if e.Type == zk.EventNone {
			if e.State == zk.StateSyncConnected {
				if nones++; reread < 0 {
					reread = e.at
				}
			}
			continue
		}
		if e.Type >= zk.EventDataWatchRemoved || e.Zxid < 0 { // what another watch missed is told to all
			if e.Zxid < 0 && e.Type < zk.EventDataWatchRemoved && nones == 0 && !w.overran {
				a.fail("%v: %v on one connection", w.op, e)
			}
			before = append(before, e.Event)
			continue
		}
		for at < len(list) && (list[at].zxid < e.Zxid || list[at].zxid == e.Zxid && !a.is(e.Event, list[at])) {
			a.missing(w, list[at], reread, before, e.at, from)
			at++
		}
		if at == len(list) || !a.is(e.Event, list[at]) {
			a.fail("%v: %v is told twice, or did not happen: %v", w.op, e, w.events)
			return
		}
		if o := a.shownBefore(w, e.Zxid, min(from, e.at)); o != nil && !w.overran {
			a.fail("%v: %v was shown by %v before", w.op, e, o)
		}
		at, reread = at+1, -1
		before = append(before, e.Event)
	}
	for ; at < len(list); at++ {
		a.missing(w, list[at], reread, before, never, from)
	}
	if w.overran || w.lazy || from < never {
		return
	}
	most, least := a.attached.Load()-w.attachedBefore, a.attached.Load()-w.attachedAfter
	if a.renews {
		least = 0
	}
	if nones > most || nones < least {
		a.fail("%v: was told %d times to read again, wants %d to %d: %v", w.op, nones, least, most, w.events)
	}
}

// is reports whether an event tells of a change.
func (a *actor) is(e zk.Event, c *change) bool {
	return e.Zxid == c.zxid && e.Type == c.kind && a.named(e.Path) == c.path
}

// named is the server's name of a path that the actor was told.
func (a *actor) named(path string) string { return strings.TrimSuffix(a.outer(path), "/") }

// missing demands that there is a reason why a persistent watch does not tell of a
// change; next is when something is told behind it. It may have been removed from
// a point on. reread is when it was told to read again
// behind the last event, first, or -1.
func (a *actor) missing(w *watch, c *change, reread int64, before []zk.Event, next, from int64) {
	slow := w.overran || w.lazy
	switch covered := a.covered(w, c.zxid); {
	case c.zxid <= w.op.lastZxid: // it may have come before the watch
	case reread >= 0 && (slow || !covered):
		if o := a.shownBefore(w, c.zxid, min(from, reread)); o != nil && !slow {
			a.fail("%v: %v was shown by %v before it was told to read again", w.op, *c, o)
		}
	case slow && (a.joined(c, before) || !covered && w.overran): // to read again has joined, too
	case slow && next > w.drained && w.batch == unreadEvents: // dropped for the event that ends it
	case next == never && (slow || a.shownBefore(w, c.zxid, min(from, w.over)) == nil): // nobody knows of it
	default:
		o := a.shownBefore(w, c.zxid, never)
		a.fail("%v: %v is not told by %v; connections showed %v; %v showed it; closed at %d, perhaps removed at %d", w.op, *c, w.around(next), a.spans, o, w.over, from)
	}
}

// around is what was told around a point.
func (w *watch) around(at int64) (list []told) {
	for i := range w.events {
		j := min(i+5, len(w.events)-1)
		if w.events[j].at >= at || j == len(w.events)-1 {
			return w.events[max(0, i-5) : j+1]
		}
	}
	return nil
}

// joined reports whether the last event of the path that a change is one of says the
// same.
func (a *actor) joined(c *change, before []zk.Event) bool {
	for _, e := range slices.Backward(before) {
		if a.named(e.Path) == c.path {
			return e.Type == c.kind
		}
	}
	return false
}
