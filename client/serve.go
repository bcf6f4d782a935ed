package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// serve reads a link until it ends, with a writer beside it. The error says why
// it ended.
func (c *Client) serve(l *link) error {
	stop := context.AfterFunc(c.stop, func() { l.conn.Close() })
	defer stop()
	var beside sync.WaitGroup
	beside.Go(func() { c.write(l) })
	lasting, over := context.WithCancel(c.stop)
	defer over()
	if l.readOnly {
		s := &seeker{c, l, lasting}
		beside.Go(s.seek)
	}
	err := c.read(l)
	l.conn.Close()
	close(l.gone)
	over()
	beside.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.why != nil {
		return l.why
	}
	return err
}

// write sends what operations have queued, all of it at once, and a ping when
// nothing was sent for a third of the session's timeout (paper, 4.4).
func (c *Client) write(l *link) {
	c.mu.Lock()
	idle := max(c.session.timeout/3, time.Millisecond)
	c.mu.Unlock()
	ping := frame(wire.RequestHeader{Xid: wire.XidPing, Op: wire.OpPing}.Append)
	timer := time.NewTimer(idle)
	defer timer.Stop()
	var spare []byte
	for {
		b := c.takeOut(spare)
		for len(b) == 0 {
			select {
			case <-l.wake:
				b = c.takeOut(b)
			case <-timer.C:
				c.shrink()
				c.sends(wire.XidPing)
				b = append([]byte(nil), ping...)
			case <-l.gone:
				return
			}
		}
		if _, err := l.conn.Write(b); err != nil {
			l.conn.Close() // the reader reports it
			<-l.gone
			return
		}
		timer.Reset(idle)
		spare = b[:0]
		if cap(b) > keepBuffer {
			spare = nil
		}
	}
}

// keepBuffer is the largest buffer that a link keeps for its next use while it is
// busy. An idle one keeps none.
const keepBuffer = 4 << 20

// takeOut exchanges the queued requests for an empty buffer.
func (c *Client) takeOut(spare []byte) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.out
	c.out = spare[:0]
	if c.taken < c.pending.n && c.probe.at.IsZero() {
		c.probe = probe{time.Now(), c.pending.at(c.taken).xid}
	}
	c.taken = c.pending.n
	return b
}

// shrink gives back the memory of requests, which an idle Client does not need.
func (c *Client) shrink() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending.n == 0 && len(c.out) == 0 {
		c.pending.init()
		c.out = nil
	}
}

// read takes answers and events until the connection ends, or is silent for two
// thirds of the session's timeout: then another member may still be reached in
// time.
func (c *Client) read(l *link) error {
	c.mu.Lock()
	silence := c.session.timeout * 2 / 3
	c.mu.Unlock()
	for {
		if !l.frames.buffered() {
			if err := l.conn.SetReadDeadline(time.Now().Add(silence)); err != nil {
				return err
			}
		}
		b, err := l.frames.next()
		if err != nil {
			if e, ok := err.(net.Error); ok && e.Timeout() {
				return fmt.Errorf("%s was silent for %v", l.addr, silence)
			}
			return err
		}
		if err := c.take(l, b); err != nil {
			return err
		}
	}
}

// take handles a frame and all those that have come with it, under one lock.
func (c *Client) take(l *link, b []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lent.restock()
	var err error
	for {
		if err = c.handle(l, b); err != nil || !l.frames.buffered() {
			break
		}
		if b, err = l.frames.next(); err != nil {
			break
		}
	}
	c.pending.forget()
	l.batch = c.done.put(l.batch)
	return err
}

// handle takes an answer or an event; c.mu is held. The error is that of a server
// that does not keep to the protocol, or of refused credentials.
func (c *Client) handle(l *link, b []byte) error {
	var head wire.ReplyHeader
	d := jute.NewDecoder(b)
	head.Decode(&d)
	if d.Err() != nil {
		return fmt.Errorf("reply: %w", d.Err())
	}
	if cut := l.frames.cut; cut > 0 && head.Xid < 0 {
		return fmt.Errorf("a frame of %d bytes that answers no operation; the limit is %d", cut, c.opts.maxReply)
	}
	switch head.Xid {
	case wire.XidNotification:
		var e wire.WatcherEvent
		e.Decode(&d)
		if d.Err() != nil {
			return fmt.Errorf("event: %w", d.Err())
		}
		if e.Type != zk.EventNone && !strings.HasPrefix(e.Path, "/") {
			return fmt.Errorf("event: %v of the path %.64q, which is not absolute", e.Type, e.Path)
		}
		c.event(zk.Event{Type: e.Type, State: e.State, Path: e.Path, Zxid: head.Zxid})
		return nil
	case wire.XidPing:
		l.useful = true
		if c.probe.xid == wire.XidPing {
			c.proven()
		}
		l.shrink()
		c.done.shrink()
		c.lent.forget()
		return nil
	case wire.XidSetWatches:
		if head.Err != zk.OK {
			return fmt.Errorf("the server does not take over the watches: %w", head.Err)
		}
		return nil
	case wire.XidAuth:
		return c.authAnswered(head.Err)
	}
	l.useful = true
	return c.answer(l, &head, &d)
}

// answer completes the oldest call, which the answer must be for. c.mu is held.
func (c *Client) answer(l *link, head *wire.ReplyHeader, d *jute.Decoder) error {
	if unknown(head) && c.refuse(l, head.Xid) {
		c.passRefused(l)
		return nil
	}
	c.passRefused(l)
	if c.pending.n == 0 || c.pending.first().xid != head.Xid || c.taken == 0 {
		return fmt.Errorf("the server answers request %d, which is not the oldest", head.Xid)
	}
	if c.probe.xid > 0 && head.Xid-c.probe.xid >= 0 {
		c.proven()
	}
	k, r := c.pending.first(), &l.result
	if k.async {
		r = l.batch.add(k.done)
	}
	switch {
	case head.Err != zk.OK:
		r.err = k.refusal(head.Err)
	case l.frames.cut > 0:
		r.err = &Error{Op: k.name, Path: k.path, Err: ErrReplyTooLarge, Maybe: k.op.IsWrite(),
			Reason: fmt.Errorf("it has %d bytes, MaxReply is %d", l.frames.cut, c.opts.maxReply)}
	default:
		k.read(c, d, r)
		if d.Err() != nil {
			if *r = (result{}); k.async {
				l.batch.undo()
			}
			return fmt.Errorf("reply to %s: %w", k.name, d.Err())
		}
	}
	if head.Zxid > c.lastZxid {
		c.lastZxid = head.Zxid
	}
	if k.watch != nil {
		if l.frames.cut > 0 {
			k.watch.finish() // the event that fires it does not reach the Client
		} else if c.watches.register(k.watch, head.Err) {
			r.watch = k.watch
		}
	}
	if k.op == wire.OpAddWatch {
		c.watches.told = "" // the server may send the events of another watch from here on
	}
	moved := r.err != nil && k.moved(r)
	c.complete(k, r)
	c.pending.pop()
	c.taken--
	if moved {
		return errMoved
	}
	return nil
}

var errMoved = errors.New("the servers take the session for another member's")

// moved reports whether a call was refused because the servers believe the session to
// be at another member. They may err (ZOOKEEPER-710). They close the connection then,
// and the Client reconnects; but 3.4 answers a multi so, and leaves the connection open.
// The error becomes that of a lost connection: nothing was carried out.
func (k *call) moved(r *result) bool {
	if !errors.Is(r.err, zk.ErrSessionMoved) {
		return false
	}
	r.err = &Error{Op: k.name, Path: k.path, Err: zk.ErrConnectionLoss, Reason: zk.ErrSessionMoved}
	return true
}

// complete gives a waiting operation its result, and forgets it, as r serves many.
// An asynchronous one's is in a list already. c.mu is held.
func (c *Client) complete(k *call, r *result) {
	if !k.started.IsZero() {
		c.opts.metrics.Answered(k.name, time.Since(k.started), r.err)
	}
	if !k.async {
		k.done.complete(r)
		*r = result{}
	}
}
