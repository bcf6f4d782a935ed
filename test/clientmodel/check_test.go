package clientmodel

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// checkOps demands of each operation of a client that its end is explained by the
// history, and that it comes in its place.
//
// An operation comes before another when its call had returned before the other was
// begun. Then it is answered from an older state, or the same, and completed earlier.
func (a *actor) checkOps(h *history) {
	slices.SortFunc(a.ops, func(p, q *op) int { return cmp.Compare(p.begun, q.begun) })
	before := slices.Clone(a.ops) // in the order in which calls returned
	slices.SortFunc(before, func(p, q *op) int { return cmp.Compare(p.queued, q.queued) })
	var newest zk.Zxid // that those before have shown
	var latest *op     // of those before: completed last
	for _, o := range a.ops {
		for len(before) > 0 && before[0].queued < o.begun {
			p := before[0]
			before = before[1:]
			newest = max(newest, p.zxid)
			if p.inTurn(a) && (latest == nil || p.done > latest.done) {
				latest = p
			}
		}
		if o.calls != 1 {
			a.fail("%v is completed %d times", o, o.calls)
		}
		if latest != nil && o.inTurn(a) && o.done < latest.done {
			a.fail("%v is completed before %v", o, latest)
		}
		o.zxid = newest
		a.explain(h, o)
		if o.zxid > o.lastZxid && o.err == nil && !a.renews {
			a.fail("%v shows %v; the client's newest zxid was %v", o, o.zxid, o.lastZxid)
		}
		a.checkMaybe(h, o)
		a.checkClose(o)
	}
}

// inTurn reports whether the operation is completed in its turn: it called back, and
// its request was queued.
func (o *op) inTurn(a *actor) bool {
	switch o.kind {
	case unwatch, unwatchAll:
		return false // may have nothing to ask
	}
	return o.async && !errors.Is(o.err, client.ErrClosed) && !errors.Is(o.err, context.DeadlineExceeded) && (a.renews || !errors.Is(o.err, zk.ErrSessionExpired))
}

// checkCrowds demands that no more operations were outstanding than may be. Those that
// were not sent held no place.
func (a *actor) checkCrowds() {
	for _, crowd := range a.crowds {
		held := 0
		for _, o := range crowd {
			if o.inTurn(a) {
				held++
			}
		}
		if held > a.outstanding {
			a.fail("%d asynchronous operations are outstanding; at most %d may be: %v", held, a.outstanding, crowd)
		}
	}
}

// maybe is Error.Maybe.
func (o *op) maybe() bool {
	var e *client.Error
	return errors.As(o.err, &e) && e.Maybe
}

// checkMaybe demands that what failed is in the log as often as its error says.
func (a *actor) checkMaybe(h *history, o *op) {
	var e *client.Error
	if o.err != nil && !errors.As(o.err, &e) {
		a.fail("%v: the error is no *client.Error", o)
	}
	if !o.isWrite() {
		if o.maybe() {
			a.fail("%v, and is no write", o)
		}
		return
	}
	all := []*op{o}
	if o.kind == multi {
		all = o.parts
	}
	for _, p := range all {
		if !p.marksItself() {
			continue
		}
		n := len(h.marked[p.id])
		switch {
		case o.err == nil && n != 1, n > 1, n > 0 && o.err != nil && !o.maybe():
			a.fail("%v is carried out %d times", o, n)
		case o.maybe() && !a.sent[p.id] && !o.bounded:
			a.fail("%v may have been carried out, it says, and was not sent", o)
		}
	}
}

// checkClose demands that what was started before Close is not refused for it, unless
// Close says that the servers could not be told.
func (a *actor) checkClose(o *op) {
	closing := a.closing.Load()
	refused := errors.Is(o.err, client.ErrClosed)
	if refused && (o.done < closing || o.queued < closing && a.closeErr == nil) {
		a.fail("%v; Close was called at %d, error %v", o, closing, a.closeErr)
	}
	if closed := a.closed.Load(); closed > 0 && o.begun > closed && o.err == nil && o.kind != unwatch {
		a.fail("%v, after Close had returned", o)
	}
}

// explain finds the first state, from o.zxid on, in which the server would have
// answered so.
func (a *actor) explain(h *history, o *op) {
	z, ok := o.zxid, true
	switch {
	case o.err == nil && o.isWrite():
		z, ok = a.explainWrite(h, o)
	case o.err == nil && o.kind == multiRead:
		z, ok = h.explainAll(o)
	case errors.Is(o.err, zk.ErrNoNode) && (o.kind == create || o.kind == create2 || o.kind == createTTL):
		parent, _ := split(o.path)
		z, ok = h.find(parent, z, func(n *znode) bool { return n == nil })
	case o.err == nil || o.fromServer():
		z, ok = h.find(o.path, z, o.answers)
	case !o.expected():
		a.fail("%v is not expected", o)
	}
	if !ok {
		a.fail("%v: %q %+v %v %v: nothing from %v on explains it:\n%v", o, o.data, o.stat, o.list, o.made, o.zxid, h.told(o.path))
	}
	if o.zxid = z; !ok || !o.answered() {
		o.zxid = 0
	}
}

// answered reports whether a server has answered: then what it says is newer than what
// operations before it were told.
func (o *op) answered() bool {
	var e *client.TxnError
	return o.kind != forget && o.kind != unwatch && o.kind != unwatchAll && o.kind != addAuth &&
		(o.err == nil || o.fromServer() || errors.As(o.err, &e))
}

// fromServer reports whether the error tells of the znode.
func (o *op) fromServer() bool {
	return o.kind != multi && o.kind < ask && (errors.Is(o.err, zk.ErrNoNode) || errors.Is(o.err, zk.ErrBadVersion) ||
		errors.Is(o.err, zk.ErrNotEmpty) || errors.Is(o.err, zk.ErrNodeExists))
}

// expected reports whether the error may be, whatever the znode is.
func (o *op) expected() bool {
	switch {
	case errors.Is(o.err, zk.ErrConnectionLoss), errors.Is(o.err, zk.ErrSessionExpired), errors.Is(o.err, client.ErrClosed):
		return true
	case errors.Is(o.err, context.DeadlineExceeded):
		return o.bounded
	case errors.Is(o.err, zk.ErrNotReadOnly):
		return o.isWrite()
	case errors.Is(o.err, zk.ErrNoWatcher):
		return o.kind == unwatchAll || o.kind == forget || o.kind == ask
	case errors.Is(o.err, zk.ErrNoChildrenForEphemerals):
		return o.kind == create || o.kind == create2 || o.kind == createTTL || o.kind == multi
	}
	var e *client.TxnError
	return o.kind == ask && errors.Is(o.err, zk.ErrNoNode) || o.kind == multi && errors.As(o.err, &e)
}

// answers reports whether a znode, or none, explains what the operation was told.
func (o *op) answers(n *znode) bool {
	switch {
	case errors.Is(o.err, zk.ErrNoNode):
		return n == nil
	case o.kind == exists && !o.exists:
		return n == nil
	case o.kind == syncing || o.kind >= addWatch:
		return true
	case n == nil:
		return false
	case errors.Is(o.err, zk.ErrNodeExists):
		return true
	case errors.Is(o.err, zk.ErrNotEmpty):
		return len(n.children) > 0
	case errors.Is(o.err, zk.ErrBadVersion) && o.kind == setACL:
		return o.asked >= 0 && n.stat.Aversion != o.asked
	case errors.Is(o.err, zk.ErrBadVersion):
		return o.asked >= 0 && n.stat.Version != o.asked
	case o.kind == get && !bytes.Equal(o.data, n.data):
		return false
	case o.kind == children && !slices.Equal(slices.Sorted(slices.Values(o.list)), n.names()):
		return false
	case o.kind == getACL && !slices.Equal(o.acl, n.acl):
		return false
	}
	return same(o.stat, n.stat)
}

// same compares Stats. Containers and times to live have owners of their own.
func same(got, want zk.Stat) bool {
	if want.EphemeralOwner == 0 {
		got.EphemeralOwner = 0
	}
	return got == want
}

// explainWrite finds a successful write in the log.
func (a *actor) explainWrite(h *history, o *op) (zk.Zxid, bool) {
	switch o.kind {
	case remove:
		for i, w := range h.deleted {
			if !h.claimed[i] && w.path == o.path && a.sessions[w.session] && w.zxid > o.zxid {
				h.claimed[i] = true
				return w.zxid, true
			}
		}
		return 0, false
	case multi:
		return a.explainMulti(h, o)
	}
	if len(h.marked[o.id]) != 1 {
		return 0, false
	}
	w := h.marked[o.id][0]
	n := h.at(w.path, w.zxid)
	ok := w.zxid > o.zxid && a.sessions[w.session] && n != nil
	switch o.kind {
	case create, create2, createTTL:
		ok = ok && a.outer(o.made) == w.path && (o.mode.IsSequential() || w.path == o.path)
		ok = ok && (o.kind == create || same(o.stat, n.stat))
	case set:
		ok = ok && w.path == o.path && same(o.stat, n.stat) && (o.asked < 0 || w.version == o.asked+1)
	case setACL:
		ok = ok && w.path == o.path && same(o.stat, n.stat) && (o.asked < 0 || w.version == o.asked+1)
	}
	return w.zxid, ok
}

func (a *actor) explainMulti(h *history, o *op) (z zk.Zxid, ok bool) {
	for _, p := range o.parts {
		if p.marksItself() {
			if len(h.marked[p.id]) != 1 {
				return 0, false
			}
			w := h.marked[p.id][0]
			if z != 0 && w.zxid != z || w.zxid <= o.zxid || w.path != p.path || p.kind != set && a.outer(p.made) != w.path {
				return 0, false
			}
			z = w.zxid
		}
	}
	for i, w := range h.deleted {
		if w.zxid == z {
			h.claimed[i] = true
		}
	}
	return z, true
}

// explainAll finds a state that explains all reads.
func (h *history) explainAll(o *op) (zk.Zxid, bool) {
	for z := o.zxid; ; {
		at := z
		for _, p := range o.parts {
			next, ok := h.find(p.path, z, func(n *znode) bool {
				if p.kind == children && p.err == nil {
					return n != nil && slices.Equal(slices.Sorted(slices.Values(p.list)), n.names())
				}
				return p.answers(n)
			})
			if !ok {
				return 0, false
			}
			z = next
		}
		if z == at {
			return z, true
		}
	}
}

// outer is the server's name of a path of the actor.
func (a *actor) outer(path string) string {
	if a.c.Chroot() == "" {
		return path
	}
	return base + path
}

// checkUnclaimed demands that for each deletion in the log which no operation owns to,
// there is one that may have been it.
func (h *history) checkUnclaimed(r *run) {
	for _, a := range r.actors {
		perhaps := map[string]int{}
		for _, o := range a.ops {
			if !o.maybe() {
				continue
			}
			for _, p := range append([]*op{o}, o.parts...) {
				if p.kind == remove {
					perhaps[p.path]++
				}
			}
		}
		for i, w := range h.deleted {
			if a.sessions[w.session] && !h.claimed[i] {
				if perhaps[w.path]--; perhaps[w.path] < 0 {
					a.fail("the deletion of %s by %v, in session %v, was not asked for", w.path, w.zxid, w.session)
				}
			}
		}
	}
	for _, a := range r.actors {
		if id := a.c.SessionID(); a.closeErr == nil && a.c.State() == client.Closed && h.closed[id] == 0 && !a.seeksQuorum {
			a.fail("Close succeeded, and session %v goes on", id)
		}
	}
}

// told is what the history says of a path.
func (h *history) told(path string) (lines []string) {
	for _, v := range h.past[path] {
		line := v.from.String() + ": nothing"
		if v.node != nil {
			line = string(v.node.data)
		}
		lines = append(lines, line)
	}
	return lines
}
