package server

import (
	"fmt"
	"slices"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// takeEvents returns the events that the client was sent so far, and forgets them.
// All that the server sent before its reply to a sync have come.
func (c *wireClient) takeEvents() (list []string) {
	c.t.Helper()
	c.mustCall(wire.OpSync, readBody("/", false))
	for _, e := range c.events {
		list = append(list, fmt.Sprintf("%v %s", e.Type, e.Path))
	}
	c.events = nil
	return list
}

// A client that reconnects registers its watches again. It is sent an event for each
// znode that has changed since the zxid that it has seen; the other watches stay.
func TestWatchesAreSetAgain(t *testing.T) {
	s := newRig(t)
	admin := s.open()
	for _, p := range []string{"/same", "/set", "/gone", "/parent", "/quiet", "/parent-set"} {
		admin.create(p, "", zk.Persistent)
	}
	seen := admin.create("/parent/old", "", zk.Persistent).Zxid
	admin.mustCall(wire.OpSetData, setBody("/set", []byte("new")))
	admin.mustCall(wire.OpSetData, setBody("/parent-set", []byte("new")))
	admin.mustCall(wire.OpDelete, deleteBody("/gone"))
	admin.create("/made", "", zk.Persistent)
	admin.create("/parent/new", "", zk.Persistent)

	c := s.open()
	r := wire.SetWatches{
		RelativeZxid: seen,
		Data:         []string{"/same", "/set", "/gone"},
		Exist:        []string{"/made", "/not-yet"},
		Child:        []string{"/parent", "/quiet", "/parent-set", "/gone"},
	}
	c.mustCall(wire.OpSetWatches, r.Append(nil, wire.OpSetWatches))
	for _, e := range c.events {
		if e.zxid != -1 {
			t.Errorf("%v %s has zxid %v", e.Type, e.Path, e.zxid)
		}
	}
	missed := []string{
		"NodeDataChanged /set", "NodeDeleted /gone", "NodeCreated /made", "NodeChildrenChanged /parent", "NodeDeleted /gone",
	}
	if got := c.takeEvents(); !slices.Equal(got, missed) {
		t.Errorf("missed: %q, want %q", got, missed)
	}

	// Those that fired are used up.
	admin.mustCall(wire.OpSetData, setBody("/set", nil))
	admin.create("/gone", "", zk.Persistent)
	admin.create("/parent/newer", "", zk.Persistent)
	if got := c.takeEvents(); len(got) > 0 {
		t.Errorf("events of watches that have fired: %q", got)
	}
	admin.mustCall(wire.OpSetData, setBody("/same", nil))
	admin.create("/not-yet", "", zk.Persistent)
	admin.create("/quiet/kid", "", zk.Persistent)
	admin.create("/parent-set/kid", "", zk.Persistent)
	want := []string{"NodeDataChanged /same", "NodeCreated /not-yet", "NodeChildrenChanged /quiet", "NodeChildrenChanged /parent-set"}
	if got := c.takeEvents(); !slices.Equal(got, want) {
		t.Errorf("events: %q, want %q", got, want)
	}
}

// A client hears nothing of a znode that it may not read: neither by a watch that it
// has, nor when it sets its watches again.
func TestEventsNeedTheRightToRead(t *testing.T) {
	s := newRig(t)
	admin, c := s.open(), s.open()
	admin.mustCall(wire.OpAuth, (&wire.AuthPacket{Scheme: "digest", Auth: []byte("u:p")}).Append(nil))
	private := wire.CreateRequest{Path: "/private", ACL: []zk.ACL{{Perms: zk.PermAll, ID: zk.ID{Scheme: "auth"}}}}
	for _, client := range []*wireClient{c, admin} {
		client.mustCall(wire.OpAddWatch, addWatchBody("/", zk.AddWatchPersistentRecursive))
	}
	seen := admin.create("/public", "", zk.Persistent).Zxid
	admin.mustCall(wire.OpCreate, private.Append(nil, wire.OpCreate))
	admin.mustCall(wire.OpSetData, setBody("/private", nil))
	if code := c.call(wire.OpGetData, readBody("/private", false)).Err; code != zk.ErrNoAuth {
		t.Errorf("reading: %v", code)
	}
	if got, want := c.takeEvents(), []string{"NodeCreated /public"}; !slices.Equal(got, want) {
		t.Errorf("who may not read: %q, want %q", got, want)
	}
	if got := admin.takeEvents(); len(got) != 3 {
		t.Errorf("who may read: %q", got)
	}
	again := wire.SetWatches{RelativeZxid: seen, Data: []string{"/private"}, Exist: []string{"/private"}, Child: []string{"/private"}}
	d := s.open()
	d.mustCall(wire.OpSetWatches, again.Append(nil, wire.OpSetWatches))
	if got := d.takeEvents(); len(got) > 0 {
		t.Errorf("who may not read is told of what it missed: %q", got)
	}
}
