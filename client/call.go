package client

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// A call is a request whose answer has not come.
type call struct {
	xid     int32
	op      wire.OpCode
	async   bool     // holds a place in the window until done has run
	refused bool     // the server does not know it, and has said so out of turn
	name    string   // Error.Op
	path    string   // as the caller gave it
	watch   *Watch   // registered when the answer comes
	decode  decoding // how the answer is read
	txn     *Txn     // of decodeMulti
	invalid error    // why it cannot be sent
	done    completion
	started time.Time // zero without metrics
}

// A completion takes the result of a call. Those of waiting operations are
// called by the reader, those of asynchronous ones by dispatch.
type completion interface{ complete(r *result) }

// result is what an answer says; which fields count depends on the operation.
type result struct {
	err   error  // an *Error
	data  []byte // lent to a callback, or owned by the waiting caller
	text  string
	stat  zk.Stat
	count int
	many  any // []string, []zk.ACL, []zk.ID or, of a multi, []result
	watch *Watch
}

// many is what a result has many of; nil if it has something else or nothing.
func many[T any](r *result) []T {
	list, _ := r.many.([]T)
	return list
}

// waiter is the completion of an operation that waits.
type waiter struct {
	result
	ready chan struct{} // has room for one
}

// newWaiter takes one from those that the Client keeps. They are not shared
// between Clients, as channels must not leave a synctest bubble.
func (c *Client) newWaiter() *waiter {
	if w, ok := c.spare.Get().(*waiter); ok {
		return w
	}
	return &waiter{ready: make(chan struct{}, 1)}
}

func (w *waiter) complete(r *result) {
	w.result = *r
	w.ready <- struct{}{}
}

// wait returns the result, or the context's error. A waiter that was given up is
// left to the answer that may still come.
func (c *Client) wait(ctx context.Context, w *waiter, k *call) result {
	select {
	case <-w.ready:
	default:
		select {
		case <-w.ready:
		case <-ctx.Done():
			if k.watch != nil {
				c.discard(k.watch)
			}
			return result{err: &Error{Op: k.name, Path: k.path, Err: context.Cause(ctx), Maybe: k.op.IsWrite()}}
		}
	}
	r := w.result
	w.result = result{}
	c.spare.Put(w)
	return r
}

// do runs an operation that waits. encode appends the body of the request; it is
// called under the lock and must not fail.
func (c *Client) do(ctx context.Context, k call, encode func(b []byte) []byte) result {
	w := c.newWaiter()
	k.done = w
	if err := c.submit(ctx, &k, encode); err != nil {
		c.spare.Put(w)
		return result{err: err}
	}
	return c.wait(ctx, w, &k)
}

// doLocked is do with c.mu held, which it releases. What its caller has found out
// holds when the request is queued.
func (c *Client) doLocked(ctx context.Context, k call, encode func(b []byte) []byte) result {
	w := c.newWaiter()
	k.done = w
	err := c.queue(&k, encode)
	l := c.link
	c.mu.Unlock()
	if err != nil {
		c.spare.Put(w)
		return result{err: err}
	}
	if l != nil {
		l.poke()
	}
	return c.wait(ctx, w, &k)
}

// begin starts an operation that calls back. When it cannot be started, the
// callback has the error, and need not wait for its turn.
func (c *Client) begin(ctx context.Context, k call, encode func(b []byte) []byte, done completion) {
	k.done, k.async = done, true
	if err := c.submit(ctx, &k, encode); err != nil {
		c.callBackNow(done, err)
	}
}

// callBackNow has an asynchronous operation end that sends nothing, and has no place
// in the window. c.mu may be held.
func (c *Client) callBackNow(done completion, err error) {
	c.done.put(completions{{done: done, result: result{err: err}}})
}

// submit queues a request for the writer. The error is that of a Client that is
// at its end, of a request that is too large or that the member does not know, or
// the context's.
func (c *Client) submit(ctx context.Context, k *call, encode func(b []byte) []byte) (err error) {
	defer func() {
		if err != nil && k.watch != nil {
			k.watch.finish()
		}
	}()
	switch {
	case k.invalid != nil:
		return &Error{Op: k.name, Path: k.path, Err: zk.ErrBadArguments, Reason: k.invalid}
	case ctx.Err() != nil:
		return &Error{Op: k.name, Path: k.path, Err: context.Cause(ctx)}
	}
	if c.opts.timed {
		k.started = time.Now()
	}
	c.mu.Lock()
	if k.async {
		if err := c.enterWindow(ctx); err != nil {
			c.mu.Unlock()
			return &Error{Op: k.name, Path: k.path, Err: err}
		}
	}
	if since(k.op) > 0 {
		if e := c.certain(ctx); e != nil {
			err = &Error{Op: k.name, Path: k.path, Err: e}
		}
	}
	if err == nil {
		err = c.queue(k, encode)
	}
	if err != nil && k.async {
		c.window.leave(1)
	}
	l := c.link
	c.mu.Unlock()
	if err == nil && l != nil {
		l.poke()
	}
	return err
}

// queue encodes a request; c.mu is held.
func (c *Client) queue(k *call, encode func(b []byte) []byte) error {
	if c.dead != nil || c.closing {
		return &Error{Op: k.name, Path: k.path, Err: c.end()}
	}
	if !c.knows(k.op) {
		return k.unimplemented()
	}
	start := len(c.out)
	xid := c.xid + 1
	if xid <= 0 {
		xid = 1
	}
	b := append(c.out, 0, 0, 0, 0)
	b = wire.RequestHeader{Xid: xid, Op: k.op}.Append(b)
	b = encode(b)
	if k.watch != nil {
		c.shareWatches(k.watch, b, c.pending.n)
	}
	if n := len(b) - start - 4; n > c.opts.maxRequest {
		c.out = b[:start]
		return &Error{Op: k.name, Path: k.path, Err: zk.ErrBadArguments,
			Reason: fmt.Errorf("the request has %d bytes, the limit is %d", n, c.opts.maxRequest)}
	}
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-4))
	c.out, c.xid, k.xid = b, xid, xid
	c.pending.push(k)
	c.closing = k.op == wire.OpCloseSession // the server answers no later request
	return nil
}

// end is why the Client takes no more operations.
func (c *Client) end() error {
	if c.dead != nil {
		return c.dead
	}
	return ErrClosed
}

// callQueue is a ring of calls in request order.
type callQueue struct {
	ring []call // its length is a power of two
	head int
	n    int
	past int // entries before head that still hold what was there

	adding int // of the calls: those that leave a persistent watch
}

// init makes an empty queue.
func (q *callQueue) init() { *q = callQueue{ring: make([]call, 16)} }

func (q *callQueue) push(k *call) {
	if q.past > 0 {
		q.forget()
	}
	if q.n == len(q.ring) {
		bigger := make([]call, 2*q.n)
		copy(bigger, q.ring[q.head:])
		copy(bigger[len(q.ring)-q.head:], q.ring[:q.head])
		q.ring, q.head = bigger, 0
	}
	q.ring[(q.head+q.n)&(len(q.ring)-1)] = *k
	q.n++
	if k.op == wire.OpAddWatch {
		q.adding++
	}
}

func (q *callQueue) first() *call { return &q.ring[q.head] }

// pop takes the first call out. What first returned stays as it is until forget,
// which must follow, or push.
func (q *callQueue) pop() {
	if q.first().op == wire.OpAddWatch {
		q.adding--
	}
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.n--
	q.past++
}

// forget clears the entries of calls that were popped, so that they keep nothing
// alive: all at once, as each alone costs the garbage collector more.
func (q *callQueue) forget() {
	if q.past > q.head {
		clear(q.ring[q.head-q.past+len(q.ring):])
		q.past = q.head
	}
	clear(q.ring[q.head-q.past : q.head])
	q.past = 0
}

// at returns the call at position i.
func (q *callQueue) at(i int) *call { return &q.ring[(q.head+i)&(len(q.ring)-1)] }
