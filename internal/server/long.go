package server

import (
	"io"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/rawio"
	"github.com/pinfold-zk/pinfold/internal/refusal"
	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/watch"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// A long reply is the list of more than longCount children, or of children whose names have more than longReply
// bytes. It may be hundreds of megabytes, so it is not built under one lock. The connection
// first counts the names, then reserves room for all of them in the budget of buffers, and
// then copies them in pieces, each under a read lock of its own. The list is the state at
// the last of these locks: if a child was created or deleted meanwhile, the list starts
// again. The reply is sent from its pieces.
//
// Long replies keep at most half of the processors busy. The others serve clients with
// small requests.
//
// A read with a long reply is not queued after the session's own writes, because the
// applier would have to answer it: the connection waits until these writes are answered.

const (
	longReply = 256 << 10 // bytes of names
	longPiece = 256 << 10 // copied under one read lock
	longCount = 1 << 12   // children, which is also how many are counted under one read lock
	// longTries is how often a list is started that keeps changing. After that it is built
	// under one lock.
	longTries = 4
)

// listing is a long reply that is being built. serve's goroutine owns it.
type listing struct {
	c    *conn
	q    request
	path wire.PathWatch

	id     znode.ID // 0 before the first lock
	mode   znode.Mode
	next   int // child
	skip   int // bytes of its name, with the length in front, that are copied
	bytes  int // of all names, with their lengths
	pieces [][]byte
}

// answerLong answers the request at the front of b, whose reply is long, and returns the
// length of its frame. 0 means that the request must be handled like any other.
func (c *conn) answerLong(b []byte, r *run) (n int) {
	frame, size, _, _ := c.nextFrame(b) // complete and valid: it was decoded before
	d := jute.NewDecoder(frame)
	l := listing{c: c}
	l.q.Decode(&d)
	l.q.body = d.Rest()
	l.path.Decode(&d)
	if l.path.Watch && len(l.path.Path) >= watch.LongPath {
		l.path.Path = c.s.cloneLong(l.path.Path)
	}
	c.mu.Lock()
	c.mu.long = false
	l.q.ids = c.mu.ids
	c.mu.Unlock()
	charged := 0
	for range longTries {
		l = listing{c: c, q: l.q, path: l.path}
		if !l.walk(l.count) {
			if c.leaving {
				break
			}
			continue
		}
		if more := l.bytes - charged; more > 0 {
			if !c.awaitRoomFor(more) {
				break
			}
			charged += more
		}
		c.account.Charge(l.bytes - charged)
		charged = l.bytes
		if l.next = 0; l.walk(l.copy) && l.send(r, size) {
			c.noteLongList(&l)
			return size // what is charged is released as it is sent
		}
	}
	c.account.Charge(-charged)
	c.mu.Lock()
	c.mu.insist = true
	c.mu.Unlock()
	return 0
}

// noteLongList logs a list of children that clients with the server's jute.maxbuffer do not
// accept: they close the connection, and mostly ask again.
func (c *conn) noteLongList(l *listing) {
	if limit := c.s.cfg.Client.MaxFrameBytes; l.bytes > limit {
		c.s.refused.Warn("a list of children is longer than jute.maxbuffer: clients with that limit close the connection",
			"client", c.remote, "path", refusal.Cut(l.path.Path), "bytes", l.bytes, "limit_bytes", limit)
	}
}

// walk calls step for the children, each call under a read lock of its own, until it
// reports that none is left. False means that the znode, or the set of its
// children, has changed since the first call, or cannot be read.
func (l *listing) walk(step func(t replica.View) (done bool)) (same bool) {
	if !l.beginWork() {
		return false
	}
	defer l.endWork()
	for done := false; !done; {
		if l.ended() {
			return false
		}
		if cap(l.pieces) > 0 { // copying: the memory is made before the lock is taken
			l.pieces = append(l.pieces, rawio.Populated(min(longPiece, l.left())))
		}
		same = false
		var part <-chan struct{}
		l.c.s.replica.View(func(t replica.View) {
			if part = t.Changing(l.path.Path); part != nil {
				return
			}
			if same = l.same(t); same {
				done = step(t)
			}
		})
		switch {
		case part != nil:
			<-part
			if cap(l.pieces) > 0 {
				l.pieces = l.pieces[:len(l.pieces)-1]
			}
		case !same:
			return false
		}
	}
	return true
}

// beginWork waits until the connection may build its reply. False means that it has ended.
func (l *listing) beginWork() bool {
	select {
	case l.c.s.listings <- struct{}{}:
		return true
	case <-l.c.account.Closed():
		l.c.leaving = true
		return false
	}
}

// endWork lets another connection build its reply.
func (l *listing) endWork() { <-l.c.s.listings }

// ended reports whether the connection has ended: its reply is not wanted any more.
func (l *listing) ended() bool {
	select {
	case <-l.c.account.Closed():
		l.c.leaving = true
		return true
	default:
		return false
	}
}

// same reports whether the znode has the children that it had under the first lock.
func (l *listing) same(t replica.View) bool {
	id := t.Lookup(l.path.Path)
	if id == 0 {
		return false
	}
	m := t.Mode(id)
	if l.id == 0 {
		l.id, l.mode = id, m
		return l.c.s.auth.Allowed(t.ACL(id), zk.PermRead, l.q.ids)
	}
	return id == l.id && m.Czxid == l.mode.Czxid && m.Pzxid == l.mode.Pzxid && m.Cversion == l.mode.Cversion
}

// count adds up the names of the next children.
func (l *listing) count(t replica.View) (done bool) {
	end := l.next + longCount
	l.next = t.ChildrenFrom(l.id, l.next, func(name string) bool {
		if end == l.next {
			return false
		}
		end--
		l.bytes += 4 + len(name)
		return true
	})
	if done = l.next == t.NumChildren(l.id); done {
		l.pieces = make([][]byte, 0, l.bytes/longPiece+1)
	}
	return done
}

// left returns how many bytes remain to be copied.
func (l *listing) left() int {
	n := l.bytes
	for _, p := range l.pieces {
		n -= len(p)
	}
	return n
}

// copy fills the last piece with names.
func (l *listing) copy(t replica.View) (done bool) {
	p := &l.pieces[len(l.pieces)-1]
	l.next = t.ChildrenFrom(l.id, l.next, func(name string) bool {
		var head [4]byte
		jute.PutInt(head[:], int32(len(name)))
		if l.skip < len(head) {
			n := min(len(head)-l.skip, cap(*p)-len(*p))
			*p = append(*p, head[l.skip:l.skip+n]...)
			l.skip += n
		}
		if l.skip >= len(head) {
			rest := name[l.skip-len(head):]
			rest = rest[:min(len(rest), cap(*p)-len(*p))]
			*p = append(*p, rest...)
			l.skip += len(rest)
		}
		if l.skip < len(head)+len(name) {
			return false // the piece is full
		}
		l.skip = 0
		return true
	})
	return l.next == t.NumChildren(l.id)
}

// send puts the reply into the output and registers the watch, if the children are still
// the same.
func (l *listing) send(r *run, frameBytes int) (sent bool) {
	c := l.c
	c.s.replica.View(func(t replica.View) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if t.Changing(l.path.Path) != nil {
			return
		}
		id, code := c.find(t, &l.q, l.path.Path)
		if sent = code == zk.OK && l.same(t); !sent {
			return
		}
		c.mu.longBytes += l.bytes
		if c.mu.closed {
			c.releaseLong(l.bytes)
			return
		}
		if l.path.Watch && c.watch(t, l.path.Path, watch.Child) != zk.OK {
			c.releaseLong(l.bytes)
			c.replyErrLocked(l.q.Xid, t.LastZxid(), zk.ErrSystem)
		} else {
			l.appendLocked(t, id)
		}
		c.mu.stats.noteRequest(&l.q)
		c.countReceivedLocked(1, frameBytes)
		c.countOneLocked(l.q.Op, r.now, c.s.replica.Now())
	})
	return sent
}

// appendLocked appends the reply to the output. REQUIRES: c.mu.
func (l *listing) appendLocked(t replica.View, id znode.ID) {
	c := l.c
	var tail []byte
	if l.q.Op == wire.OpGetChildren2 {
		var s zk.Stat
		t.Stat(id, &s)
		tail = wire.AppendStat(nil, &s)
	}
	at := c.beginReplyLocked(l.q.Xid, t.LastZxid())
	c.mu.out.Buf = jute.AppendInt(c.mu.out.Buf, int32(t.NumChildren(id)))
	size := len(c.mu.out.Buf) - at - 4 + l.bytes + len(tail)
	jute.PutInt(c.mu.out.Buf[at:], int32(size))
	c.mu.stats.reads.endReply(c.s.stats.readsBy, len(c.mu.out.Buf)+l.bytes)
	c.mu.stats.noteReply(size)
	c.countSentLocked()
	c.countFlushLocked(l.bytes)
	c.mu.out.Stream(func(w io.Writer) error { return c.writeLong(w, l.pieces) })
	c.mu.out.Need()
	c.mu.out.Buf = append(c.mu.out.Buf, tail...)
}

// writeLong writes the pieces of a long reply, and releases each.
func (c *conn) writeLong(w io.Writer, pieces [][]byte) error {
	for i, p := range pieces {
		if _, err := w.Write(p); err != nil {
			return err
		}
		pieces[i] = nil
		c.mu.Lock()
		c.releaseLong(len(p))
		c.mu.Unlock()
	}
	return nil
}

// releaseLong releases n bytes of the long reply. REQUIRES: c.mu.
func (c *conn) releaseLong(n int) {
	n = min(n, c.mu.longBytes)
	c.mu.longBytes -= n
	c.account.Charge(-n)
	c.mu.wake()
}

// awaitAnswered waits until the session's writes, and the reads after them, are answered. That
// is up to the replica: the client is not silent meanwhile.
func (c *conn) awaitAnswered() {
	c.pauseReading()
	defer c.resumeReading()
	c.mu.Lock()
	for !c.mu.closed && !c.mu.pending.empty() {
		c.mu.wait()
	}
	c.mu.Unlock()
}
