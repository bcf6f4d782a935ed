package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// A server closes the connection over a request that it does not know, and answers
// nothing that was under way but, mostly, zk.ErrUnimplemented. So the Client does
// not send what it knows that the member cannot do:
//
//   - Before the first request that 3.4 does not know it finds out whether the
//     member is one, by what no server closes a connection over (certain).
//   - What a later release refused, it does not ask for again until a connection
//     has ended for another reason: then the member may be another one.

// A release is a release of the servers, 3.x; 0 is not known, or does not matter.
type release int

func (r release) String() string { return fmt.Sprintf("3.%d", int(r)) }

// since is the first release whose servers know an operation, if that is later than
// 3.4.
func since(op wire.OpCode) release {
	switch op {
	case wire.OpCreate2, wire.OpReconfig, wire.OpCheckWatches, wire.OpRemoveWatches, wire.OpCreateContainer, wire.OpCreateTTL:
		return 5
	case wire.OpGetEphemerals, wire.OpGetAllChildrenNumber, wire.OpAddWatch, wire.OpMultiRead:
		return 6
	case wire.OpWhoAmI:
		return 7
	}
	return 0
}

// needs is the Reason of zk.ErrUnimplemented.
func needs(r release) error { return fmt.Errorf("servers know it from %v on", r) }

// unimplemented is the error of an operation that the member does not know.
func (k *call) unimplemented() error {
	e := &Error{Op: k.name, Path: k.path, Err: zk.ErrUnimplemented}
	if r := since(k.op); r > 0 {
		e.Reason = needs(r)
	}
	return e
}

var errNoConfig = errors.New("servers before 3.5 have none, nor have standalone ones that were upgraded from them")

// refusal is the error of a call that was answered with code.
func (k *call) refusal(code zk.Code) error {
	e := &Error{Op: k.name, Path: k.path, Err: code}
	switch {
	case code == zk.ErrMarshalling && k.txn != nil:
		if newer := k.txn.newer(); newer != nil {
			e.Err, e.Reason = zk.ErrUnimplemented, newer
		}
	case code == zk.ErrNoNode && k.name == "config":
		e.Reason = errNoConfig
	}
	return e
}

// newer is the operation of a Txn that 3.4 does not know in one; nil if there is
// none. Such a server calls the whole malformed.
func (t *Txn) newer() error {
	for i := range t.ops {
		if r := since(t.ops[i].Type); r > 0 {
			return fmt.Errorf("operation %d, %s %s: servers know it in a multi from %v on", i, opName(t.ops[i].Type), t.paths[i], r)
		}
	}
	return nil
}

// A stage is how far it is known whether a member is of release 3.4.
type stage int

const (
	unasked stage = iota
	likely        // it has no /zookeeper/config
	old           // it is
	moot          // it gives no answer that would say: try
)

// certain waits until it is known whether the member knows what came with 3.5. c.mu
// is held, but not while it waits. The error is the context's.
func (c *Client) certain(ctx context.Context) error {
	for !c.newer && (c.link == nil || c.link.stage <= likely) && c.dead == nil && !c.closing {
		if c.question == nil && !c.ask() {
			return nil // the Client has ended or cannot send now: the caller may try
		}
		answered, l := c.question, c.link
		c.mu.Unlock()
		if l != nil {
			l.poke()
		}
		select {
		case <-answered:
		case <-ctx.Done():
		}
		c.mu.Lock()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// ask sends the next question: whether there is /zookeeper/config, which 3.5 brought,
// and if not, as a standalone server that was upgraded from 3.4 may have none,
// whether a multi with a create2 is malformed, which fails in any case. It reports
// whether it could. c.mu is held.
func (c *Client) ask() bool {
	q := &question{client: c, answered: make(chan struct{})}
	k := call{op: wire.OpExists, name: "exists", path: configPath, done: q}
	body := wire.PathWatch{Path: configPath}
	encode := body.Append
	if c.link != nil && c.link.stage == likely {
		k.op, k.name, q.last = wire.OpMulti, "multi", true
		encode = func(b []byte) []byte {
			check := wire.MultiOp{Type: wire.OpCheck, Version: -1}
			check.Path = configPath
			create := wire.MultiOp{Type: wire.OpCreate2}
			create.CreateRequest = wire.CreateRequest{Path: configPath, ACL: openACL}
			return wire.AppendMultiEnd(create.Append(check.Append(b)))
		}
	}
	if c.queue(&k, encode) != nil {
		return false
	}
	c.question = q.answered
	return true
}

// question is the completion of ask's request.
type question struct {
	client   *Client
	answered chan struct{}
	last     bool // it is the multi
}

// complete notes what the answer says of the member, unless that has gone. The
// Client's mu is held.
func (q *question) complete(r *result) {
	c := q.client
	c.question = nil
	defer close(q.answered)
	if c.link == nil {
		return
	}
	switch code := zk.Code(0); {
	case r.err == nil:
		c.newer = true
	case !errors.As(r.err, &code):
		c.link.stage = moot
	case q.last && (code == zk.ErrMarshalling || code == zk.ErrNotReadOnly): // it is of an ensemble, those of which have the znode
		c.link.stage = old
	case !q.last && code == zk.ErrNoNode:
		c.link.stage = likely
	case !q.last && code == zk.ErrNoAuth:
		c.newer = true
	default:
		c.link.stage = moot
	}
}

// knows reports whether the member may know an operation. c.mu is held.
func (c *Client) knows(op wire.OpCode) bool {
	r := since(op)
	switch {
	case r == 0:
		return true
	case c.link != nil && c.link.stage == old:
		return false
	}
	return c.refused == 0 || r < c.refused
}

// refuse notes that the member does not know a request, and closes the connection
// now. It says so at once: it may answer those before it, or not. ok is false if
// there is no such request. c.mu is held.
func (c *Client) refuse(l *link, xid int32) (ok bool) {
	for i := range c.taken {
		k := c.pending.at(i)
		if k.xid != xid {
			continue
		}
		k.refused = true
		if r := since(k.op); r > 0 {
			l.refused = true
			if c.refused == 0 || r < c.refused {
				c.refused = r
			}
		}
		return true
	}
	return false
}

// passRefused completes the oldest calls, as far as they were refused. c.mu is held.
func (c *Client) passRefused(l *link) {
	for c.taken > 0 && c.pending.first().refused {
		k, r := c.pending.first(), &l.result
		if k.async {
			r = l.batch.add(k.done)
		}
		r.err = k.unimplemented()
		if k.watch != nil {
			k.watch.finish()
		}
		c.complete(k, r)
		c.pending.pop()
		c.taken--
	}
}

// noZxid is in the header of a server that does not know a request.
const noZxid = zk.Zxid(-1)

// unknown reports whether a reply says that the server does not know the request,
// as opposed to one that it does not want to carry out.
func unknown(head *wire.ReplyHeader) bool {
	return head.Err == zk.ErrUnimplemented && head.Zxid == noZxid
}
