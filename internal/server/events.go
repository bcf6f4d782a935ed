package server

import (
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

// Fired queues an event on the connections that watch (replica.Clients). A client that
// may not read the znode gets no event; its one-shot watch is removed all the same.
func (s *Server) Fired(z zk.Zxid, ch *znode.Change, ws []watch.ID) {
	s.event = appendEvent(s.event[:0], z, ch.Type, ch.Path)
	for _, w := range ws {
		s.mu.Lock()
		c := s.mu.conns[w]
		s.mu.Unlock()
		if c != nil {
			c.deliver(s.event, ch.ACL)
		}
	}
}

// deliver queues an event. It closes the connection if the client has left too many
// events unread: the client reconnects and asks for the changes.
func (c *conn) deliver(event []byte, acl []zk.ACL) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deliverLocked(event, acl)
}

// deliverLocked is deliver with the lock held. REQUIRES: c.mu.
func (c *conn) deliverLocked(event []byte, acl []zk.ACL) {
	if c.mu.closed || !c.s.auth.Allowed(acl, zk.PermRead, c.mu.ids) {
		return
	}
	if c.mu.events+len(event) > hardOutBytes {
		c.s.stats.SlowClients.Add(1)
		c.s.refused.Warn("connection closed: the client does not read its events", "client", c.remote, "unread", c.mu.events)
		c.killLocked("slow client")
		return
	}
	c.mu.out.Need()
	c.mu.out.Buf = append(c.mu.out.Buf, event...)
	c.mu.events += len(event)
	c.s.stats.WatchBytes.Add(int64(len(event)))
	c.countSentLocked(1)
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
	for _, path := range r.Data {
		id := t.Lookup(path)
		switch {
		case id == 0:
			c.missed(zk.EventNodeDeleted, path, nil)
		case t.Mode(id).Mzxid > r.RelativeZxid:
			c.missed(zk.EventNodeDataChanged, path, t.ACL(id))
		default:
			t.AddWatch(c.id, path, watch.Data)
		}
	}
	for _, path := range r.Exist {
		if id := t.Lookup(path); id != 0 {
			c.missed(zk.EventNodeCreated, path, t.ACL(id))
		} else {
			t.AddWatch(c.id, path, watch.Data)
		}
	}
	for _, path := range r.Child {
		id := t.Lookup(path)
		switch {
		case id == 0:
			c.missed(zk.EventNodeDeleted, path, nil)
		case t.Mode(id).Pzxid > r.RelativeZxid:
			c.missed(zk.EventNodeChildrenChanged, path, t.ACL(id))
		default:
			t.AddWatch(c.id, path, watch.Child)
		}
	}
	for _, path := range r.Persistent {
		t.AddWatch(c.id, path, watch.Persistent)
	}
	for _, path := range r.PersistentRecursive {
		t.AddWatch(c.id, path, watch.Recursive)
	}
	c.replyErrLocked(q.Xid, t.LastZxid(), zk.OK)
}

// missed sends an event for a change that happened while the client was not connected.
func (c *conn) missed(kind zk.EventType, path string, acl []zk.ACL) {
	if c.s.auth.Allowed(acl, zk.PermRead, c.mu.ids) {
		c.mu.out.Need()
		c.mu.out.Buf = appendEvent(c.mu.out.Buf, -1, kind, path)
		c.countSentLocked(1)
	}
}
