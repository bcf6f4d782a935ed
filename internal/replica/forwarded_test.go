package replica

import (
	"encoding/binary"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/prep"
	"github.com/pinfold-zk/pinfold/internal/session"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// A learner that forwards more than its share is refused by the request, the one that has
// most first, and is never held up; small requests always pass. What is committed makes
// room again.
func TestForwardedBytes(t *testing.T) {
	const limit, size = 1 << 20, 100 << 10
	r := &Replica{o: Options{ForwardedBytes: limit}, clock: wallClock{time.Now()}, tree: znode.New(znode.Options{}), pool: newBatchPool(false)}
	o := &orderer{Replica: r, prep: prep.New(prep.Config{}, r.tree, nil, nil)}
	body := append(jute.AppendString(nil, "/x"), make([]byte, size)...)
	forward := func(l zab.LinkID, body []byte) (taken bool) {
		t.Helper()
		data := make([]byte, requestHead, requestHead+len(body))
		data[15] = byte(wire.OpSetData)
		if err := o.takeRequest(l, &zab.Packet{Type: zab.Request, Data: append(data, body...)}); err != nil {
			t.Fatal(err)
		}
		last := o.incoming[len(o.incoming)-1]
		if refused := last.Refused == zk.ErrThrottledOp; refused != (last.Body == nil) {
			t.Fatalf("refused with %v, and %d bytes are kept", last.Refused, len(last.Body))
		}
		return last.Refused == zk.OK
	}
	greedy := 0
	for forward(1, body) {
		greedy++
	}
	if greedy < 4 || greedy > 5 {
		t.Errorf("a single learner has %d requests of %d bytes, the limit is %d", greedy, size, limit)
	}
	second, third := forward(2, body), forward(2, body)
	if !second || !third || forward(1, body) {
		t.Error("the learner that has most is refused first")
	}
	if !forward(1, body[:smallForward]) {
		t.Error("a small request is refused")
	}
	b := &batch{reqs: o.incoming}
	refused := &batch{}
	for i := range b.reqs {
		if b.reqs[i].Refused != zk.OK {
			refused.reqs = append(refused.reqs, b.reqs[i])
		}
	}
	o.prepare(refused)
	for i := range refused.txns {
		if tx := &refused.txns[i]; tx.Header.Type != wire.OpError || tx.Err != zk.ErrThrottledOp {
			t.Errorf("a refused request becomes %v, %v", tx.Header.Type, tx.Err)
		}
	}
	if len(refused.txns) == 0 {
		t.Error("no request was refused")
	}
	o.forwarded.countOut(b.reqs[b.own:])
	if f := &o.forwarded; f.bytes.Load() != 0 || len(f.byLink) != 0 {
		t.Errorf("%d bytes stay counted, %v", f.bytes.Load(), f.byLink)
	}
	if !forward(1, body) {
		t.Error("what is committed makes no room")
	}
}

// What a learner has forwarded over a link that is lost, and is not proposed, is dropped. A
// createSession that makes a local session global would otherwise be proposed when the
// learner has taken it for lost, and serves the session as local again.
func TestRequestsOfALostLinkAreDropped(t *testing.T) {
	var link zab.LinkID // the last over which a leader was sent a request
	inGroup(t, 3, 0, func(_ int64, o *Options) {
		o.Saw = func(rd *zab.Ready) {
			for i := range rd.Deliver {
				if rd.Deliver[i].Packet.Type == zab.Request {
					link = rd.Deliver[i].Link
				}
			}
		}
	}, func(g *group) {
		leader := g.leader()
		g.session(g.in(Follower)[0], 100_000)
		id := zk.SessionID(77)
		op, body := createSession(100_000)
		data := binary.BigEndian.AppendUint64(nil, uint64(id))
		data = binary.BigEndian.AppendUint32(data, 0)
		data = append(binary.BigEndian.AppendUint32(data, uint32(op)), body...)
		held := make(chan struct{})
		leader.rep.DumpSessions(func(SessionDump) { <-held })
		synctest.Wait()
		leader.rep.Packets(link, []zab.Packet{{Type: zab.Request, Zxid: -1, Data: data}}, nil)
		leader.rep.Work(nil)
		leader.rep.LinkDown(link, errors.New("the test"))
		close(held)
		pass(time.Second)
		if leader.knows(id) {
			t.Error("a request of a lost link was proposed")
		}
	})
}

// A leader takes no more sessions from learners than there is room for, whatever a stranger
// on the quorum port asks for.
func TestSessionsOfLearnersAreBounded(t *testing.T) {
	const most = 3
	r := &Replica{o: Options{MaxSessions: most}, clock: wallClock{time.Now()}}
	o := &orderer{Replica: r, sessions: sessions{Replica: r, tracker: session.NewTracker(session.Config{TickMillis: 1000})}}
	op, body := createSession(100_000)
	for id := range zk.SessionID(2 * most) {
		data := binary.BigEndian.AppendUint64(nil, uint64(id+1))
		data = binary.BigEndian.AppendUint32(data, 0)
		data = append(binary.BigEndian.AppendUint32(data, uint32(op)), body...)
		if err := o.takeRequest(1, &zab.Packet{Type: zab.Request, Data: data}); err != nil {
			t.Fatal(err)
		}
		if taken := len(o.incoming) > 0; taken != (id < most) {
			t.Errorf("session %d: taken is %v, of %d", id, taken, most)
		}
		for i := range o.incoming {
			o.tracker.Add(o.incoming[i].Session, 100_000, 0)
		}
		o.incoming = nil
	}
}
