package sim

import (
	"slices"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// clientWatches is what a client knows of its watches. They fire by the history,
// as the server's must. With every reply the client has been shown a state, and
// must have been sent before it every event up to there, in order, and no other.
type clientWatches struct {
	c      *client
	list   []watched // that are set
	shown  zk.Zxid   // up to it the events have been compared
	came   []happened
	missed []happened // of setWatches, whose zxid is -1
}

type watched struct {
	path string
	how  watchHow
}

// watchHow is how a watch was set.
type watchHow int

const (
	byData       watchHow = iota // getData, or exists of a znode that is there
	byExist                      // exists of a znode that is not there
	byChildren                   // getChildren
	byPersistent                 // addWatch
	byRecursive
)

// fires reports whether an event fires the watch. A one-shot watch is gone then.
func (w watched) fires(e change) bool {
	below := w.path == e.path || w.path == "/" || strings.HasPrefix(e.path, w.path+"/")
	switch w.how {
	case byData, byExist:
		return w.path == e.path && e.kind != zk.EventNodeChildrenChanged
	case byChildren:
		return w.path == e.path && (e.kind == zk.EventNodeChildrenChanged || e.kind == zk.EventNodeDeleted)
	case byPersistent:
		return w.path == e.path
	}
	return below && e.kind != zk.EventNodeChildrenChanged
}

func (w watched) oneShot() bool { return w.how < byPersistent }

// happened is an event as the client is told.
type happened struct {
	z zk.Zxid
	change
}

func (w *clientWatches) set(path string, how watchHow) {
	if x := (watched{path, how}); !slices.Contains(w.list, x) {
		w.list = append(w.list, x)
	}
}

// watches reports whether any watch is set on the path.
func (w *clientWatches) watches(path string) bool {
	return slices.ContainsFunc(w.list, func(x watched) bool { return x.path == path })
}

// remove removes all watches on the path.
func (w *clientWatches) remove(path string) {
	w.list = slices.DeleteFunc(w.list, func(x watched) bool { return x.path == path })
}

// fire reports whether a watch fires, and drops those that fire once.
func (w *clientWatches) fire(e change) bool {
	fired := false
	w.list = slices.DeleteFunc(w.list, func(x watched) bool {
		hit := x.fires(e)
		fired = fired || hit
		return hit && x.oneShot()
	})
	return fired
}

// event handles an event.
func (w *clientWatches) event(z zk.Zxid, e wire.WatcherEvent) {
	w.c.s.cover.Events++
	h := happened{z, change{e.Type, e.Path}}
	if z == -1 {
		w.missed = append(w.missed, h)
		return
	}
	w.came = append(w.came, h)
}

// showed compares the events with the history, up to a state that the client is
// shown.
func (w *clientWatches) showed(z zk.Zxid) {
	c, hist := w.c, w.c.s.history
	if z <= w.shown {
		return
	}
	from := hist.upto(w.shown)
	upto := hist.upto(z)
	w.shown = z
	for i := from; i < upto; i++ {
		d := &hist.details[i]
		for _, e := range d.events {
			if !w.fire(e.change) {
				continue
			}
			if !allows(e.acl, zk.PermRead, c.ids) {
				c.s.cover.HiddenEvents++
				continue
			}
			want := happened{d.tx.Zxid, e.change}
			if len(w.came) == 0 {
				c.s.fail("EventBeforeData", "%s is shown the state at %v and was not told before of %v %s at %v", c.who, z, e.kind, e.path, want.z)
			}
			if w.came[0] != want {
				c.s.fail("EventOrder", "%s is told of %v %s at %v, due is %v %s at %v", c.who, w.came[0].kind, w.came[0].path, w.came[0].z, e.kind, e.path, want.z)
			}
			w.came = w.came[1:]
		}
	}
	if len(w.came) > 0 {
		e := w.came[0]
		c.s.fail("EventOrder", "%s is told of %v %s at %v, which it does not watch, at %v", c.who, e.kind, e.path, e.z, z)
	}
}

// disconnected: the server forgets the watches; the client keeps those that have
// not fired.
func (w *clientWatches) disconnected() {
	// The events after the last reply fire the client's watches, though the reply that
	// they would have been compared at has not come.
	for _, e := range w.came {
		w.fire(e.change)
	}
	w.came, w.missed = nil, nil
}

// forget drops the watches, with the session.
func (w *clientWatches) forget() {
	w.list, w.shown, w.came, w.missed = nil, 0, nil, nil
}

// restore asks the server of a new connection for the watches that are left.
func (w *clientWatches) restore() {
	if len(w.list) == 0 {
		return
	}
	r := wire.SetWatches{
		RelativeZxid: w.c.last, Data: []string{}, Exist: []string{}, Child: []string{}, Persistent: []string{}, PersistentRecursive: []string{},
	}
	for _, x := range w.list {
		to := [...]*[]string{byData: &r.Data, byExist: &r.Exist, byChildren: &r.Child, byPersistent: &r.Persistent, byRecursive: &r.PersistentRecursive}[x.how]
		*to = append(*to, x.path)
	}
	w.c.ask(&ask{op: wire.OpSetWatches2, xid: wire.XidSetWatches, restore: &r})
}

// restored takes the answer: the events of what has changed meanwhile came before
// it, and the other watches are set again.
func (w *clientWatches) restored(r *wire.SetWatches, z zk.Zxid) {
	var due []happened
	hist := w.c.s.history
	miss := func(kind zk.EventType, path string) {
		if v := hist.at(path, z); allows(v.acl, zk.PermRead, w.c.ids) {
			due = append(due, happened{-1, change{kind, path}})
		}
	}
	old := w.list
	w.list, w.shown = nil, z
	set := func(path string, how watchHow) {
		if slices.Contains(old, watched{path, how}) {
			w.set(path, how)
		}
	}
	for _, path := range r.Data {
		switch v := hist.at(path, z); {
		case !v.exists:
			miss(zk.EventNodeDeleted, path)
		case v.mzxid > r.RelativeZxid:
			miss(zk.EventNodeDataChanged, path)
		default:
			set(path, byData)
		}
	}
	for _, path := range r.Exist {
		if v := hist.at(path, z); v.exists {
			miss(zk.EventNodeCreated, path)
		} else {
			set(path, byExist)
		}
	}
	for _, path := range r.Child {
		switch v := hist.at(path, z); {
		case !v.exists:
			miss(zk.EventNodeDeleted, path)
		case v.pzxid > r.RelativeZxid:
			miss(zk.EventNodeChildrenChanged, path)
		default:
			set(path, byChildren)
		}
	}
	for _, path := range r.Persistent {
		set(path, byPersistent)
	}
	for _, path := range r.PersistentRecursive {
		set(path, byRecursive)
	}
	if !slices.Equal(due, w.missed) {
		w.c.s.fail("EventBeforeData", "%s comes back having seen %v and is told at %v of %v; due is %v", w.c.who, r.RelativeZxid, z, w.missed, due)
	}
	w.c.s.cover.MissedEvents += len(due)
	w.missed = nil
}
