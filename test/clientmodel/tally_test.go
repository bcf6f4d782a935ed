package clientmodel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// tally counts what has happened in runs, so that it is known what they have tried.
type tally map[string]int

// events are those of which a tally of many runs must have some. (Joined events are
// too rare, and depend on how threads interleave.)
var events = []string{
	"answered", "refused by the server", "connection lost, carried out", "connection lost, not carried out",
	"connection lost before it was sent", "given up, carried out", "given up, not carried out", "session expired",
	"after Close", "no quorum", "begun in a callback", "one-shot event", "one-shot event missed", "persistent event",
	"read again", "watch removed", "watch ended by expiry", "watch ended by Close", "new session",
	"state read-only", "state suspended", "closed in the middle",
}

func (c tally) add(a *actor, h *history) {
	for _, o := range a.ops {
		c[o.ending(h)]++
		if o.noWait {
			c["begun in a callback"]++
		}
	}
	for _, w := range a.watches {
		for _, e := range w.events {
			c[w.told(e.Event)]++
		}
		if w.overran {
			c["joined events"]++
		}
	}
	for i, s := range a.states {
		switch {
		case s == client.ConnectedReadOnly:
			c["state read-only"]++
		case s == client.Suspended:
			c["state suspended"]++
		case s == client.Connecting && i > 0:
			c["new session"]++
		}
	}
	if a.inTheMiddle {
		c["closed in the middle"]++
	}
}

// ending says how an operation ended.
func (o *op) ending(h *history) string {
	happened := len(h.marked[o.id]) > 0
	switch {
	case o.err == nil:
		return "answered"
	case errors.Is(o.err, zk.ErrConnectionLoss) && happened:
		return "connection lost, carried out"
	case errors.Is(o.err, zk.ErrConnectionLoss) && o.maybe():
		return "connection lost, not carried out"
	case errors.Is(o.err, zk.ErrConnectionLoss):
		return "connection lost before it was sent"
	case errors.Is(o.err, context.DeadlineExceeded) && happened:
		return "given up, carried out"
	case errors.Is(o.err, context.DeadlineExceeded):
		return "given up, not carried out"
	case errors.Is(o.err, zk.ErrSessionExpired):
		return "session expired"
	case errors.Is(o.err, client.ErrClosed):
		return "after Close"
	case errors.Is(o.err, zk.ErrNotReadOnly):
		return "no quorum"
	}
	return "refused by the server"
}

// told says what an event of a watch is.
func (w *watch) told(e zk.Event) string {
	switch {
	case e.Type >= zk.EventDataWatchRemoved:
		return "watch removed"
	case e.State == zk.StateExpired:
		return "watch ended by expiry"
	case e.State == zk.StateClosed:
		return "watch ended by Close"
	case e.Type == zk.EventNone:
		return "read again"
	case !w.oneShot():
		return "persistent event"
	case e.Zxid < 0:
		return "one-shot event missed"
	}
	return "one-shot event"
}

// report shows the tally, and demands all of it of many runs.
func (c tally) report(t *testing.T, runs int) {
	text := ""
	for _, k := range slices.Sorted(maps.Keys(c)) {
		text += fmt.Sprintf("%9d %s\n", c[k], k)
	}
	t.Logf("%d seeds\n%s", runs, text)
	if runs < 30 {
		return
	}
	for _, k := range events {
		if c[k] == 0 {
			t.Errorf("in %d runs there was no %q", runs, k)
		}
	}
}
