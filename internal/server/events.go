package server

import (
	"github.com/pinfold-zk/pinfold/internal/access"
	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/watch"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// appendEvent appends the frame of an event.
func appendEvent(b []byte, z zk.Zxid, kind zk.EventType, path string) []byte {
	at := len(b)
	b = append(b, 0, 0, 0, 0)
	b = wire.ReplyHeader{Xid: wire.XidNotification, Zxid: z}.Append(b)
	e := wire.WatcherEvent{Type: kind, State: zk.StateSyncConnected, Path: path}
	b = e.Append(b)
	endFrame(b, at)
	return b
}

// sharedEvent is the length from which connections share the bytes of an event: hundreds of copies would be made under the
// tree's lock.
const sharedEvent = 16 << 10

// Fired queues an event on the connections that watch (replica.Clients). A client that
// may not read the znode gets no event; its one-shot watch is removed all the same.
func (s *Server) Fired(z zk.Zxid, ch *znode.Change, ws []watch.ID) {
	event := appendEvent(s.event[:0], z, ch.Type, ch.Path)
	if s.event = event; len(event) >= sharedEvent {
		s.event = nil // it belongs to the connections
	}
	for _, w := range ws {
		s.mu.Lock()
		c := s.mu.conns[w]
		s.mu.Unlock()
		if c != nil {
			c.deliver(event, ch.ACL)
		}
	}
}

// deliver queues an event. It closes the connection if the client has left too many
// events unread, or if the server's budget of buffers has no room for this one: the client
// reconnects and asks for the changes. From sharedEvent bytes on the caller must not change event any more.
func (c *conn) deliver(event []byte, acl *access.List) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(event) < sharedEvent {
		c.deliverLocked(event, acl)
		return
	}
	if c.admits(event, acl) {
		c.mu.out.Share(event)
		c.mu.shared += len(event)
		c.countEvent(event)
	}
}

// deliverLocked queues a copy of an event, as deliver does. REQUIRES: c.mu.
func (c *conn) deliverLocked(event []byte, acl *access.List) {
	if c.admits(event, acl) {
		c.mu.out.Need()
		c.mu.out.Buf = append(c.mu.out.Buf, event...)
		c.mu.events += len(event)
		c.countEvent(event)
	}
}

// admits reports whether the client may have an event, and there is room for it; if there is none, it closes the connection.
func (c *conn) admits(event []byte, acl *access.List) bool {
	if c.mu.closed || !c.s.auth.Allowed(acl, zk.PermRead, c.mu.ids) {
		return false
	}
	unread := c.mu.events + c.mu.out.Shared()
	if unread+len(event) > hardOutBytes || !c.room(len(event)) {
		c.s.stats.SlowClients.Add(1)
		c.s.refused.Warn("connection closed: the client does not read its events", "client", c.remote, "unread", unread)
		c.killLocked("slow client")
		return false
	}
	return true
}

// countEvent counts an event that was queued, and has it sent.
func (c *conn) countEvent(event []byte) {
	c.s.stats.WatchBytes.Add(int64(len(event)))
	c.countSentLocked()
	c.s.markDirty(c)
}

// setWatches registers again the watches that a client had on its previous connection.
// For a change since the client's last zxid it sends an event instead; the zxid of such
// events is -1. REQUIRES: c.mu and the tree's lock.
func (c *conn) setWatches(t replica.View, q *request) {
	var r wire.SetWatches
	d := jute.NewDecoder(q.body)
	if r.Decode(&d, q.Op); d.Err() != nil {
		c.replyErrLocked(q.Xid, t.LastZxid(), zk.ErrMarshalling)
		return
	}
	if !c.mayRenew(&r) || !c.watchesFit(&r) {
		return
	}
	c.mu.begin = len(c.mu.out.Buf) // what was missed stays together while this pauses
	for _, list := range []struct {
		paths []string
		renew func(replica.View, string, zk.Zxid)
	}{
		{r.Data, c.renewOf(watch.Data)}, {r.Exist, c.renewExist}, {r.Child, c.renewOf(watch.Child)},
		{r.Persistent, c.renewAs(watch.Persistent)}, {r.PersistentRecursive, c.renewAs(watch.Recursive)},
	} {
		for _, path := range list.paths {
			c.mu.work += checkWork(path, q.ids)
			own, ok := c.ownPath(t, path)
			if !ok || !c.pause(t) || !c.whole(t, own) {
				c.dropReply()
				return
			}
			list.renew(t, own, r.RelativeZxid)
		}
	}
	c.rejoin()
	c.replyErrLocked(q.Xid, t.LastZxid(), zk.OK)
}

// renewOf registers a watch of getData or getChildren again, unless the znode, or its
// children, have changed since.
func (c *conn) renewOf(k watch.Kind) func(replica.View, string, zk.Zxid) {
	return func(t replica.View, path string, since zk.Zxid) {
		id := t.Lookup(path)
		if id == 0 {
			c.missed(zk.EventNodeDeleted, path, nil)
			return
		}
		changed, event := t.Mode(id).Mzxid, zk.EventNodeDataChanged
		if k == watch.Child {
			changed, event = t.Mode(id).Pzxid, zk.EventNodeChildrenChanged
		}
		if changed > since {
			c.missed(event, path, t.ACL(id))
		} else {
			t.AddWatch(c.id, path, k)
		}
	}
}

// renewExist registers a watch of exists on a missing znode again, unless it is there.
func (c *conn) renewExist(t replica.View, path string, _ zk.Zxid) {
	if id := t.Lookup(path); id != 0 {
		c.missed(zk.EventNodeCreated, path, t.ACL(id))
	} else {
		t.AddWatch(c.id, path, watch.Data)
	}
}

// renewAs registers a watch of addWatch again.
func (c *conn) renewAs(k watch.Kind) func(replica.View, string, zk.Zxid) {
	return func(t replica.View, path string, _ zk.Zxid) { t.AddWatch(c.id, path, k) }
}

// missed sends an event for a change that happened while the client was not connected.
func (c *conn) missed(kind zk.EventType, path string, acl *access.List) {
	if c.s.auth.Allowed(acl, zk.PermRead, c.mu.ids) {
		c.mu.out.Need()
		c.mu.out.Buf = appendEvent(c.mu.out.Buf, -1, kind, path)
		c.countSentLocked()
	}
}
