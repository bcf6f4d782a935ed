package server

import (
	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/rawio"
	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/session"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// preparedReply is the frame of a reply, with room for the header. It has the results of the pieces
// of a long multi that are applied, and not the end of the list.
type preparedReply struct {
	to    *conn
	frame []byte
}

// Applying builds a part of the reply to a long multi (replica.Origin).
func (c *conn) Applying(_ *replica.Request, tx *txn.Txn, r *znode.Result) {
	p := &c.s.prepared
	if p.to == nil {
		const head = 4 + wire.ReplyHeaderLen
		size := head + outcomesLen(tx) + wire.MultiHeaderLen
		frame := c.s.spare.Get(size)
		if frame == nil {
			frame = rawio.Populated(size)
		}
		*p = preparedReply{c, frame[:head]}
	}
	for i := range r.Multi {
		p.frame = appendOutcome(p.frame, &r.Multi[i])
	}
}

// Applied replies to a write, and to the reads that waited for it (replica.Origin).
func (c *conn) Applied(req *replica.Request, tx *txn.Txn, r *znode.Result, tree replica.View) {
	if req.Op == wire.OpCreateSession {
		c.sessionCreated(req, tx)
		return
	}
	c.settle(req)
	switch {
	case req.Owner == session.NoOwner:
		c.sessionExpired(tx)
	default:
		c.replyToWrite(req, tx, r, tree)
	}
}

func (c *conn) sessionCreated(req *replica.Request, tx *txn.Txn) {
	c.sessionOpened(tx.Session)
	c.mu.Lock()
	waits := !c.mu.closed && c.mu.handshake.waits()
	c.mu.Unlock()
	if !waits || !c.establish(tx.Session, tx.TimeoutMillis, false) {
		return // it has left, and the session expires; or the session was upgraded
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.stats.lastOp = wire.OpCreateSession
	c.countWrittenLocked(wire.OpCreateSession, req.Received, c.s.replica.Now())
}

// Carried counts every write, whichever client sent it (replica.Clients).
func (s *Server) Carried(tx *txn.Txn) {
	s.stats.writing.write(s.stats.writesBy, tx)
	if tx.Header.Type == wire.OpCloseSession {
		s.opened.end(tx.Session)
	}
}

// sessionExpired ends the connection of an expired session.
func (c *conn) sessionExpired(tx *txn.Txn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.session == tx.Session {
		c.closeLocked()
		c.s.markDirty(c)
	}
}

func (c *conn) replyToWrite(req *replica.Request, tx *txn.Txn, r *znode.Result, tree replica.View) {
	now := c.s.replica.Now()
	prepared := c.s.prepared
	c.s.prepared = preparedReply{}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.closed {
		return
	}
	c.s.markDirty(c)
	if movedAway(tx, r) {
		c.closeLocked() // the session belongs to another connection now
		return
	}
	if !c.mu.closing {
		at := c.beginReplyLocked(req.Xid, tx.Zxid)
		if prepared.to == c {
			c.appendPrepared(at, wire.AppendMultiEnd(prepared.frame))
		} else {
			c.mu.out.Buf = appendResult(c.mu.out.Buf, req.Op, tx.Data, r)
		}
		c.endReplyLocked(at, c.codeFor(req.Op, r.Err))
		c.countWrittenLocked(req.Op, req.Received, now)
	}
	c.mu.pending.pop()
	c.answerPending(tree, now)
	if req.Op == wire.OpCloseSession {
		c.mu.ended = true
		c.closeLocked()
	}
	if !c.mu.pending.full() {
		c.mu.wake()
	}
}

// appendPrepared appends the body of a frame that Applying has built, or puts the frame in
// place of the output if there is nothing before its header, which is at at.
// REQUIRES: c.mu.
func (c *conn) appendPrepared(at int, frame []byte) {
	out := &c.mu.out
	head := out.Buf[at:]
	if at > 0 {
		out.Buf = append(out.Buf, frame[len(head):]...)
		return
	}
	copy(frame, head)
	out.Buf = frame
}

// movedAway reports whether a write was refused because the session belongs to another
// connection. For a multi, an Apache leader reports this in each operation.
func movedAway(tx *txn.Txn, r *znode.Result) bool {
	switch tx.Header.Type {
	case wire.OpError:
		return tx.Err == zk.ErrSessionMoved
	case wire.OpMulti:
		for i := range r.Multi {
			if r.Multi[i].Type != wire.OpError {
				return false // it was executed
			}
			if r.Multi[i].Err == zk.ErrSessionMoved {
				return true
			}
		}
	}
	return false
}

// Synced answers a sync (replica.Origin) with the path that the client sent, even null.
func (c *conn) Synced(req *replica.Request, tree replica.View) {
	now := c.s.replica.Now()
	c.settle(req)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.closed {
		return
	}
	c.s.markDirty(c)
	if !c.mu.closing {
		d := jute.NewDecoder(req.Body)
		at := c.beginReplyLocked(req.Xid, tree.LastZxid())
		c.mu.out.Buf = jute.AppendBuffer(c.mu.out.Buf, d.Buffer())
		c.endReplyLocked(at, zk.OK)
		c.countOneLocked(wire.OpSync, req.Received, now)
	}
	c.mu.pending.syncs--
	c.mu.pending.pop()
	c.answerPending(tree, now)
	c.submitHeld()
	if !c.mu.pending.full() {
		c.mu.wake()
	}
}

// Dropped ends the connection: its server has left its role, so the result of the
// request is unknown (replica.Origin).
func (c *conn) Dropped(req *replica.Request) {
	if req.Op != wire.OpCreateSession {
		c.dropRequest(req.Size, req.Weight)
	}
	c.kill("the server has left its role")
}

// Suspend ends all connections, because the server has left its role (replica.Clients).
// Clients reconnect to this server or another, and keep their sessions.
func (s *Server) Suspend() {
	s.opened.doubt()
	s.mu.Lock()
	conns := make([]*conn, 0, s.mu.open)
	for _, c := range s.mu.conns {
		if c != nil {
			conns = append(conns, c)
		}
	}
	s.mu.Unlock()
	for _, c := range conns {
		c.kill("the server has left its role")
	}
}

// appendResult appends the body of a reply to the operation op. data is that of the
// transaction.
func appendResult(b []byte, op wire.OpCode, data []byte, r *znode.Result) []byte {
	switch op {
	case wire.OpReconfig:
		return wire.AppendStat(jute.AppendBuffer(b, data), &r.Stat)
	case wire.OpCreate:
		return jute.AppendString(b, r.Path)
	case wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		return wire.AppendStat(jute.AppendString(b, r.Path), &r.Stat)
	case wire.OpSetData, wire.OpSetACL:
		return wire.AppendStat(b, &r.Stat)
	case wire.OpMulti:
		if r.Err != zk.OK {
			return b
		}
		for i := range r.Multi {
			b = appendOutcome(b, &r.Multi[i])
		}
		return wire.AppendMultiEnd(b)
	}
	return b
}

// outcomesLen is the length of what appendOutcome appends for all operations of a multi.
func outcomesLen(tx *txn.Txn) (n int) {
	if tx.Failed() {
		return len(tx.Multi) * (wire.MultiHeaderLen + 4)
	}
	for i := range tx.Multi {
		n += wire.MultiHeaderLen
		switch op := &tx.Multi[i]; op.Type {
		case wire.OpCreate:
			n += 4 + len(op.Path)
		case wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
			n += 4 + len(op.Path) + wire.StatLen
		case wire.OpSetData:
			n += wire.StatLen
		}
	}
	return n
}

// appendOutcome appends the result of one operation of a multi. Containers and TTL
// znodes get the result of create2, the only one with a Stat that Java's clients know.
func appendOutcome(b []byte, o *znode.Outcome) []byte {
	switch o.Type {
	case wire.OpError:
		return wire.AppendMultiError(b, o.Err)
	case wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		b = wire.MultiHeader{Type: wire.OpCreate2}.Append(b)
		return wire.AppendStat(jute.AppendString(b, o.Path), &o.Stat)
	}
	b = wire.MultiHeader{Type: o.Type}.Append(b)
	switch o.Type {
	case wire.OpCreate:
		return jute.AppendString(b, o.Path)
	case wire.OpSetData:
		return wire.AppendStat(b, &o.Stat)
	}
	return b
}

// Flush sends the output that the applier has produced for connections
// (replica.Clients).
func (s *Server) Flush() {
	s.stats.writing.fold()
	for i, c := range s.dirty {
		s.dirty[i] = nil
		c.dirty = false
		c.releaseSettled()
		c.flush(false)
	}
	s.dirty = s.dirty[:0]
	if s.ahead.Load() > 0 {
		s.catchUp()
	}
	if s.gate.waiting.Load() > 0 {
		s.Released()
	}
}

// Released wakes the connections that wait in awaitRoom (replica.Clients).
func (s *Server) Released() {
	s.gate.Lock()
	s.gate.Broadcast()
	s.gate.Unlock()
}

// markDirty makes Flush send the output of c. Only the applier calls it.
func (s *Server) markDirty(c *conn) {
	if !c.dirty {
		c.dirty = true
		s.dirty = append(s.dirty, c)
	}
}
