package server

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/pinfold-zk/pinfold/internal/auth"
	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/prep"
	"github.com/pinfold-zk/pinfold/internal/refusal"
	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/watch"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// request is one frame: a header and its body.
type request struct {
	wire.RequestHeader
	body   []byte
	ids    []zk.ID // the connection's identities at the time of reading
	weight int     // of a write that was submitted or is held
}

// run handles one buffer of frames. Runs are pooled: an idle connection has none.
type run struct {
	c      *conn
	submit []replica.Request
	view   func(replica.View) // handleWithTree; bound once, so that View does not allocate
	hold   replica.Hold
	costly bool // the last turn stopped because a piece of work was complete
	// answered are the reads of one call of handle, which adds them to the latencies at its end.
	answered answered
	turn
}

// turn is what a run does before it submits writes and sends replies.
type turn struct {
	now      time.Duration
	in       []byte // the frames
	done     int    // bytes of in that are handled
	received int    // frames
	reads    int    // answered
	short    bool   // it stopped at a read without room for its reply
	long     bool   // it stopped at a read with a long reply
	mustWait bool   // it stopped at a read that must wait for the session's writes
	token    bool   // it stopped at a token of Kerberos, which takes long
	blocked  int    // it stopped at a request of this weight, for which there was no room
	charge   int    // weight of the small requests that it submitted
	audited  bool   // it submits changes that the audit log has lines about
	err      error

	mostOutput              int // in bytes, as far as the budget has room
	mostRequests, mostBytes int // that the turn handles before it ends; see allow
}

func newRun() *run {
	r := new(run)
	r.view = r.handleWithTree
	return r
}

// process handles the complete frames at the front of b: it answers reads that need not
// wait, queues the others after this session's writes, and submits writes. It returns
// the number of bytes that it has handled. If it has submitted the last writes at the end of b, it sets brought, and the
// caller calls work.
//
// In each turn it handles frames until none is complete, there are enough replies to send,
// or readRun reads were answered. Locks are acquired in the order tree, connection: so it
// handles the frames before the first read without the tree, and the rest in one View.
func (c *conn) process(b []byte) (n int, err error) {
	r := c.s.runs.Get().(*run)
	r.c = c
	defer func() {
		clear(r.submit)
		*r = run{submit: r.submit[:0], view: r.view}
		c.s.runs.Put(r)
	}()
	for n < len(b) && r.err == nil && !c.leaving && (c.granted > 0 || c.awaitTokens()) {
		r.turn = turn{in: b[n:], now: c.s.replica.Now()}
		r.mostOutput = c.account.Room(softOutBytes)
		c.allow(r)
		if beginsWithRead(r.in) {
			c.s.replica.ViewAt(&r.hold, r.now, r.costly, r.view)
		} else if c.handleWithoutTree(r) {
			c.s.replica.ViewAt(&r.hold, c.s.replica.Now(), r.costly, r.view)
		}
		n += r.done
		c.chargeTurn(r)
		c.spend(r.received, r.done)
		submits := len(r.submit) > 0 || r.audited
		if submits {
			c.submitTurn(r)
			if c.brought = n == len(b) && !r.stopped() && r.err == nil; c.brought {
				break
			}
			c.s.replica.Work(nil)
		}
		c.awaitPenalty()
		drained := c.flush(true)
		if c.stepsAside(r) {
			break
		}
		if r.stopped() {
			if long := c.unblock(b[n:], r); long > 0 {
				c.spend(1, long)
				n += long
			}
			c.flush(true)
			continue
		}
		if r.done == 0 {
			break
		}
		c.awaitTurn(drained, submits)
	}
	return n, r.err
}

// awaitTurn waits until the next turn may begin. drained is what flush has reported; submitted tells that the last turn has
// submitted requests: one that has not finds the pipeline as the turn before has left it.
func (c *conn) awaitTurn(drained, submitted bool) {
	if !drained {
		c.awaitDrain()
	}
	if submitted {
		c.awaitFlight(0)
		c.s.awaitRoom(c)
	}
}

// work has the replica work for the requests that the last turn has submitted, at the end of the
// input, sends what that turn has replied, and waits until the next turn may begin. It returns false if another
// goroutine reads now (StandIn). REQUIRES: brought, and the caller has consumed the input.
func (c *conn) work() (goOn bool) {
	c.brought = false
	if !c.s.replica.Work(c) {
		return false
	}
	c.endTurn()
	return true
}

// endTurn is work after the replica's.
func (c *conn) endTurn() {
	c.awaitPenalty()
	c.awaitTurn(c.flush(true), true)
}

// StandIn starts a goroutine that reads in place of the one that is in work (replica.Reader).
func (c *conn) StandIn() {
	c.s.wg.Go(func() {
		c.endTurn()
		c.awaitTokens()
		c.readOn()
	})
}

// stopped reports whether a turn stopped at a request that cannot be handled yet.
func (r *run) stopped() bool {
	return r.short || r.long || r.mustWait || r.token || r.blocked > 0
}

// unblock waits until the request at the front of b can be handled, or answers it. The turn
// has stopped at this request. unblock returns the number of bytes that it has consumed.
func (c *conn) unblock(b []byte, r *run) (n int) {
	switch {
	case r.short:
		c.awaitRoomForReply() // closes the connection if there is no room
	case r.long:
		return c.answerLong(b, r)
	case r.mustWait:
		c.awaitAnswered()
	case r.token:
		return c.answerToken(b)
	case r.blocked > 0:
		c.leaving = !c.awaitTokens() || !c.awaitFlight(r.blocked) // others wait for what has entered
	}
	return 0
}

// handleWithoutTree is the part of a turn before the first frame that needs the tree.
func (c *conn) handleWithoutTree(r *run) (wantsTree bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return r.handle(replica.View{})
}

// handleWithTree is the part of a turn that has the tree.
func (r *run) handleWithTree(tree replica.View) {
	c := r.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if tree.Diverged() {
		c.leaving = true
		c.killLocked("the tree is not what the log leads to")
		return
	}
	c.mu.work = 0
	r.handle(tree)
	r.costly = c.mu.work >= znode.PieceUnits
	c.endPiece()
}

// handle handles frames. With the zero View it stops before the first frame that needs
// the tree, and returns true. REQUIRES: c.mu.
func (r *run) handle(tree replica.View) (wantsTree bool) {
	c, received, from := r.c, r.received, r.done
	for !c.leaving && !c.mu.closing {
		frame, size, ok, err := c.nextFrame(r.in[r.done:])
		if !ok || err != nil {
			r.err = err
			break
		}
		if len(frame) < 8 {
			r.err = fmt.Errorf("%w: frame of %d bytes has no header", errProtocol, len(frame))
			break
		}
		if !r.handleOne(frame, tree) {
			wantsTree = true
			break
		}
		if r.received == 0 {
			c.heard.Store(int64(r.now)) // an incomplete frame does not count
		}
		if r.short, r.long = c.mu.short > 0, c.mu.long; r.stopped() {
			break // in front of the request
		}
		r.done += size
		r.received++
		if len(c.mu.out.Buf) > r.mostOutput || r.reads >= readRun || c.mu.work >= znode.PieceUnits || c.mu.pending.full() || len(r.submit) >= c.s.submitRun ||
			r.received >= r.mostRequests || r.done >= r.mostBytes {
			break
		}
	}
	c.leaving = c.leaving || c.mu.closing
	c.mu.more = c.leaving && r.done < len(r.in)
	c.countReceivedLocked(r.received-received, r.done-from)
	if r.answered.n > 0 {
		c.countAnsweredLocked(&r.answered, r.now, tree.End())
	}
	return wantsTree
}

// beginsWithRead reports whether the first frame of b is one of the reads that are
// frequent: then the turn has nothing to do without the tree.
func beginsWithRead(b []byte) bool {
	if len(b) < 4+8 {
		return false
	}
	switch wire.OpCode(binary.BigEndian.Uint32(b[8:])) {
	case wire.OpGetData, wire.OpExists, wire.OpGetChildren, wire.OpGetChildren2, wire.OpPing:
		return true
	}
	return false
}

// handleOne handles one request. It returns false, without effect, if the request needs the
// tree and tree is the zero View. REQUIRES: c.mu.
func (r *run) handleOne(frame []byte, tree replica.View) bool {
	c := r.c
	d := jute.NewDecoder(frame)
	var q request
	q.Decode(&d)
	q.body = d.Rest()
	q.ids = c.mu.ids
	switch {
	case q.Op == wire.OpAuth:
		c.authenticate(&q) // at once, because it changes what the next requests may do
	case q.Op == wire.OpSASL:
		if r.token = !c.login(&q); r.token {
			return true
		}
	case !c.mayAskLocked():
		c.turnAway(&q)
	case c.s.replica.DiskShort() && refusedWithoutRoom(q.Op):
		if r.mustWait = !c.mu.pending.empty(); !r.mustWait { // replies leave in the order of the requests
			c.replyErrLocked(q.Xid, c.s.replica.LastApplied(), zk.ErrNotReadOnly)
		}
	case c.mu.onlyReads && refusedReadOnly(q.Op):
		c.replyErrLocked(q.Xid, c.s.replica.LastApplied(), zk.ErrNotReadOnly)
	case c.goesThroughLog(&q):
		if !r.handleWrite(&q, tree) {
			return false
		}
	case tree.Tree == nil:
		return false
	case c.mu.closed: // no reply can be sent
	case c.mu.pending.empty():
		c.answer(tree, &q)
		r.reads++
		r.answered.add(q.Op)
	default:
		r.queueRead(&q, tree)
	}
	if r.mustWait || r.blocked > 0 || c.mu.short > 0 || c.mu.long {
		return true // it is handled again
	}
	c.mu.stats.noteRequest(&q)
	c.leaving = c.leaving || q.Op == wire.OpCloseSession
	return true
}

// handleWrite handles a request that goes through the log: it submits it, or refuses it early. It returns false as handleOne
// does. REQUIRES: c.mu.
func (r *run) handleWrite(q *request, tree replica.View) bool {
	c := r.c
	early, ephemeral := c.checksEarly(q), c.newEphemerals(q)
	switch {
	case !early && ephemeral == 0:
		c.submit(q, r)
	case tree.Tree == nil:
		return false
	case early && c.refusedEarly(tree, q), ephemeral > 0 && c.refuseEphemerals(tree, q, ephemeral, r):
		if !r.mustWait {
			r.reads++
			r.answered.add(q.Op)
		}
	default:
		c.submit(q, r)
		if r.blocked == 0 {
			c.mu.pending.ephemerals += ephemeral
		}
	}
	return true
}

// queueRead has a read wait for the session's writes, or stops the turn at it. REQUIRES: c.mu and the tree's lock.
func (r *run) queueRead(q *request, tree replica.View) {
	c := r.c
	expected := expectedReply(tree, q, c.mu.pending.largest)
	r.mustWait = expected > largeReply || isExpensive(q.Op) || len(q.body) >= watch.LongPath || !c.pendingFits(len(q.body)+expected)
	if !r.mustWait {
		c.mu.pending.push(pendingRequest{request: *q, expected: expected, at: r.now})
	}
}

// expectedReply estimates the length of the reply to a read that waits for writes; the
// largest body of these writes has written bytes. The estimate for a reply that may be
// very long is hardOutBytes: such a read is not queued.
func expectedReply(t replica.View, q *request, written int) int {
	const head = 100
	switch q.Op {
	case wire.OpGetData, wire.OpGetChildren, wire.OpGetChildren2:
	case wire.OpMultiRead:
		return hardOutBytes
	default:
		return head
	}
	d := jute.NewDecoder(q.body)
	id := t.Lookup(d.String())
	switch {
	case q.Op == wire.OpGetData && id != 0:
		return head + max(t.DataLen(id), written)
	case q.Op == wire.OpGetData:
		return head + written
	case id != 0 && t.NumChildren(id) > mostCounted:
		return hardOutBytes
	case id != 0:
		names := 0
		t.Children(id, func(name string) { names += 4 + len(name) })
		if names > longReply {
			return hardOutBytes
		}
		return head + names
	}
	return head
}

// goesThroughLog reports whether the request is submitted: it becomes a transaction, or
// it is a sync, which waits for earlier transactions. Requests that a client must not
// send, and single writes that cannot be decoded, are not submitted: as in Apache 3.9
// they get no zxid. (An Apache leader then uses a zxid twice, and stops.)
func (c *conn) goesThroughLog(q *request) bool {
	switch q.Op {
	case wire.OpCreateSession:
		return false
	case wire.OpCloseSession:
		return !c.mu.local
	case wire.OpSync:
		d := jute.NewDecoder(q.body)
		d.Buffer()
		return d.Err() == nil
	}
	return q.Op.IsWrite() && wire.Readable(q.Op, q.body)
}

// submit submits a write. If there is no room for it, submit sets r.blocked instead.
// REQUIRES: c.mu.
func (c *conn) submit(q *request, r *run) {
	if q.Op == wire.OpCloseSession {
		q.body = nil
	}
	q.weight = c.s.weigh(q)
	if !c.admit(q.weight, r) {
		return
	}
	if !c.s.large.admit(len(q.body)) {
		c.leaveLocked()
		r.charge -= q.weight
		c.s.heavy.leave(q.weight)
		c.s.stats.LargeRejected.Add(1)
		c.s.refused.Warn("connection closed: too many large requests at a time (largeRequestMaxBytes)", "client", c.remote)
		return
	}
	c.mu.pending.largest = max(c.mu.pending.largest, len(q.body))
	r.audited = r.audited || c.s.audit != nil && isAudited(q.Op)
	if c.mu.local {
		c.upgradeFor(q)
	}
	// On a closed connection nothing would submit or drop what is held.
	if c.mu.pending.syncs > 0 && !c.mu.closed {
		c.mu.pending.push(pendingRequest{request: *q, write: true, held: true, at: r.now})
		return
	}
	r.submit = c.appendRequest(r.submit, q, r.now)
	c.mu.pending.push(pendingRequest{request: request{RequestHeader: q.RequestHeader}, write: true})
	if q.Op == wire.OpSync {
		c.mu.pending.syncs++
	}
}

// appendRequest appends a request in the form that the replica expects; if necessary it
// first appends the request that makes the session one of the ensemble. REQUIRES: c.mu.
func (c *conn) appendRequest(reqs []replica.Request, q *request, received time.Duration) []replica.Request {
	r := replica.Request{
		Request: prep.Request{
			Session: c.mu.session, Xid: q.Xid, Op: q.Op, Body: q.body, IDs: q.ids, Owner: c.owner(),
		},
		Origin:   c.origin(q),
		Received: received,
		Weight:   q.weight,
	}
	if c.mu.upgrade {
		reqs = append(reqs, c.upgradeLocked(&r))
	}
	return append(reqs, r)
}

// submitHeld submits the writes that have waited for a sync, up to the next sync.
// REQUIRES: c.mu.
func (c *conn) submitHeld() {
	f := &c.mu.pending
	var reqs []replica.Request
	for i := 0; i < f.Len() && f.syncs == 0; i++ {
		p := f.At(i)
		if !p.held {
			continue
		}
		reqs = c.appendRequest(reqs, &p.request, p.at)
		if p.Op == wire.OpSync {
			f.syncs++
		}
		f.bytes -= len(p.body)
		p.held, p.body, p.ids = false, nil, nil
	}
	if len(reqs) > 0 {
		c.s.replica.Submit(reqs)
	}
}

// dropHeld releases the writes that will not be submitted. REQUIRES: c.mu.
func (c *conn) dropHeld() {
	f := &c.mu.pending
	for _, p := range f.All() {
		if p.held {
			c.dropRequest(len(p.body), p.weight)
		}
	}
}

// answerPending answers the reads that are at the front now. REQUIRES: c.mu and
// the tree's write lock.
func (c *conn) answerPending(t replica.View, now time.Duration) {
	c.mu.forced, c.mu.work = true, 0
	defer func() {
		c.mu.forced = false
		t.Spend(c.mu.work)
		c.releasePending()
	}()
	at, group := time.Duration(0), answered{} // reads that arrived together are counted together
	for !c.mu.pending.empty() && !c.mu.closing {
		p := c.mu.pending.front()
		if p.write {
			break
		}
		if len(c.mu.out.Buf) > hardOutBytes {
			c.endSlow()
			break
		}
		if p.at != at {
			c.countAnsweredLocked(&group, at, now)
			at = p.at
		}
		if c.answer(t, &p.request); c.mu.short > 0 {
			c.mu.short = 0
			c.endSlow()
			break
		}
		group.add(p.Op)
		c.mu.pending.pop()
	}
	c.countAnsweredLocked(&group, at, now)
}

// endSlow ends a connection whose replies have grown since the requests were queued.
// REQUIRES: c.mu.
func (c *conn) endSlow() {
	c.s.stats.SlowClients.Add(1)
	c.s.refused.Warn("connection closed: the client does not read its replies", "client", c.remote, "unread", len(c.mu.out.Buf))
	c.killLocked("slow client")
}

// authenticate handles an auth packet. REQUIRES: c.mu.
func (c *conn) authenticate(q *request) {
	var p wire.AuthPacket
	d := jute.NewDecoder(q.body)
	p.Decode(&d)
	if d.Err() != nil {
		c.leaveLocked()
		return
	}
	c.s.stats.countNaming(c.s.auth.Naming(p.Scheme, p.Auth))
	ids, verdict := c.s.auth.Authenticate(p.Scheme, p.Auth, c.mu.ids)
	if verdict == auth.Accepted && !c.setIdentities(ids) {
		verdict = auth.Refused
	}
	switch verdict {
	case auth.Accepted:
		if c.missedSuper(ids) {
			c.s.refused.Warn("a client has given a wrong password of the superuser", "client", c.remote)
			c.penalize()
		}
		c.replyErrLocked(q.Xid, 0, zk.OK)
		c.changeIdentity()
	case auth.Refused:
		c.s.stats.AuthFailed.Add(1)
		c.penalize()
		c.s.refused.Warn("the authentication of a client failed", "client", c.remote, "scheme", refusal.Cut(p.Scheme))
		c.replyErrLocked(q.Xid, 0, zk.ErrAuthFailed)
		c.leaveLocked()
	case auth.HangUp:
		c.s.refused.Warn("a client was refused: it expects another ensemble", "client", c.remote)
		c.leaveLocked()
	}
}

// leaveLocked ends the connection once the output is sent; nothing more is read.
// REQUIRES: c.mu; serve's goroutine.
func (c *conn) leaveLocked() {
	c.leaving = true
	c.closeLocked()
}

// beginReplyLocked appends a frame's length and header, and returns the start of the
// frame. REQUIRES: c.mu.
func (c *conn) beginReplyLocked(xid int32, z zk.Zxid) int {
	c.mu.out.Need()
	at := len(c.mu.out.Buf)
	c.mu.out.Buf = append(c.mu.out.Buf, 0, 0, 0, 0)
	c.mu.out.Buf = wire.ReplyHeader{Xid: xid, Zxid: z}.Append(c.mu.out.Buf)
	c.mu.stats.lastZxid = z
	return at
}

// endReplyLocked completes the frame that starts at at. With an error it has no body.
// REQUIRES: c.mu.
func (c *conn) endReplyLocked(at int, code zk.Code) {
	if code != zk.OK {
		c.mu.out.Buf = c.mu.out.Buf[:at+4+wire.ReplyHeaderLen]
		jute.PutInt(c.mu.out.Buf[at+4+12:], int32(code))
	}
	endFrame(c.mu.out.Buf, at)
	c.mu.stats.noteReply(len(c.mu.out.Buf) - at - 4)
	c.countSentLocked()
}

func (c *conn) replyErrLocked(xid int32, z zk.Zxid, code zk.Code) {
	at := c.beginReplyLocked(xid, z)
	c.endReplyLocked(at, code)
}
