package replica

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/zk"
)

// sentOn is a packet that a server has sent on a link.
type sentOn struct {
	link zab.LinkID
	zab.Packet
}

// recorder is a network that notes what it is to send, and keeps nothing.
type recorder struct {
	Network
	sent   []sentOn
	closed map[zab.LinkID]error
}

func (n *recorder) Send(l zab.LinkID, ps []zab.Packet) bool {
	for _, p := range ps {
		n.sent = append(n.sent, sentOn{l, p})
	}
	return false
}

func (n *recorder) CloseLink(l zab.LinkID, err error) { n.closed[l] = err }

// take returns what was sent since the last call.
func (n *recorder) take() []sentOn {
	s := n.sent
	n.sent = nil
	return s
}

const toLeader, toObserver, toOther zab.LinkID = 1, 2, 3

// newMaster returns a follower that serves observers, and its network.
func newMaster(limit int64) (*orderer, *recorder) {
	net := &recorder{closed: map[zab.LinkID]error{}}
	r := &Replica{o: Options{ForwardedBytes: limit, Ensemble: &zab.Config{ObserverMasters: true}}, clock: wallClock{time.Now()}}
	o := &orderer{Replica: r}
	o.net, o.leaderLink, o.role = net, toLeader, zab.Following
	o.serving.Store(true)
	return o, net
}

func (o *orderer) comes(l zab.LinkID, t zab.PacketType, data []byte) {
	o.deliver(&zab.Delivery{Link: l, Packet: zab.Packet{Type: t, Zxid: -1, Data: data}})
}

func requestOf(s zk.SessionID, xid int32, op wire.OpCode, body []byte) []byte {
	data := binary.BigEndian.AppendUint64(nil, uint64(s))
	data = binary.BigEndian.AppendUint32(data, uint32(xid))
	return append(binary.BigEndian.AppendUint32(data, uint32(op)), body...)
}

func questionOf(s zk.SessionID) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil, uint64(s)), 4000)
}

// A master passes an observer's requests and syncs on in their order, and each answer of the leader to the
// one that has asked.
func TestMasterRelays(t *testing.T) {
	o, net := newMaster(1 << 20)
	set := requestOf(7, 1, wire.OpSetData, []byte("body"))
	o.comes(toObserver, zab.Request, set)
	o.comes(toObserver, zab.Request, requestOf(7, 2, wire.OpSync, nil))
	o.comes(toOther, zab.Request, requestOf(8, 5, wire.OpSync, nil))
	sent := net.take()
	if len(sent) != 3 || string(sent[0].Data) != string(set) || slices.ContainsFunc(sent, func(s sentOn) bool { return s.link != toLeader || s.Type != zab.Request }) {
		t.Fatalf("the leader is sent %v", sent)
	}
	o.comes(toLeader, zab.Sync, nil)
	o.comes(toLeader, zab.Sync, nil)
	if sent = net.take(); len(sent) != 2 || sent[0].link != toObserver || sent[1].link != toOther || sent[1].Type != zab.Sync {
		t.Errorf("the leader's answers to two syncs go out as %v", sent)
	}
	if o.comes(toLeader, zab.Sync, nil); net.closed[toLeader] == nil {
		t.Error("a SYNC that nothing asked for is accepted")
	}

	// Two observers and this server ask for one session, another is asked for between them.
	o.askLeader(resume{id: 9})
	o.comes(toObserver, zab.Revalidate, questionOf(9))
	o.comes(toOther, zab.Revalidate, questionOf(10))
	o.comes(toOther, zab.Revalidate, questionOf(9))
	if sent = net.take(); len(sent) != 4 || slices.ContainsFunc(sent, func(s sentOn) bool { return s.link != toLeader || s.Type != zab.Revalidate }) {
		t.Fatalf("the leader is asked %v", sent)
	}
	for _, c := range []struct {
		id zk.SessionID
		to []zab.LinkID
	}{{9, nil}, {9, []zab.LinkID{toObserver}}, {10, []zab.LinkID{toOther}}, {9, []zab.LinkID{toOther}}, {9, nil}} {
		o.comes(toLeader, zab.Revalidate, append(binary.BigEndian.AppendUint64(nil, uint64(c.id)), 1))
		var to []zab.LinkID
		for _, s := range net.take() {
			to = append(to, s.link)
		}
		if !slices.Equal(to, c.to) {
			t.Errorf("the answer for session %d goes to %v, must go to %v", c.id, to, c.to)
		}
	}
	for _, bad := range []zab.Packet{
		{Type: zab.Request, Data: []byte("short")}, {Type: zab.Request, Data: requestOf(7, 3, wire.OpGetData, nil)},
		{Type: zab.Revalidate, Data: []byte("short")}, {Type: zab.Ping, Data: []byte("no pairs")},
	} {
		delete(net.closed, toObserver)
		if o.comes(toObserver, bad.Type, bad.Data); net.closed[toObserver] == nil || len(net.take()) > 0 {
			t.Errorf("%v with %q: the link stays, or it is passed on", bad.Type, bad.Data)
		}
	}
}

// An observer's large requests count until the leader has proposed them; one whose requests take too much memory,
// or that asks too much, loses its link, and nobody else does.
func TestMasterIsBounded(t *testing.T) {
	o, net := newMaster(1 << 20)
	body := make([]byte, 100<<10)
	for xid := range int32(6) {
		o.comes(toObserver, zab.Request, requestOf(7, xid, wire.OpSetData, body))
	}
	if net.closed[toObserver] == nil || len(net.take()) != 5 {
		t.Errorf("an observer has %d bytes under way of %d", o.forwarded.bytes.Load(), o.o.ForwardedBytes)
	}
	o.countOutRelayed(&txn.Txn{Header: txn.Header{Type: wire.OpSetData, Session: 7, Cxid: 3}})
	if got, want := o.forwarded.bytes.Load(), int64(len(body)); got != want {
		t.Errorf("after four of five transactions %d bytes are counted, must be %d", got, want)
	}
	o.countOutRelayed(&txn.Txn{Header: txn.Header{Type: wire.OpCloseSession, Session: 7, Cxid: 99}})
	if o.forwarded.bytes.Load() != 0 || len(o.relayed) > 0 {
		t.Errorf("after the session's end %d bytes are counted", o.forwarded.bytes.Load())
	}
	for _, c := range []struct {
		kind zab.PacketType
		data []byte
	}{{zab.Revalidate, questionOf(7)}, {zab.Request, requestOf(7, 1, wire.OpSync, nil)}} {
		clear(net.closed)
		for range maxAsks {
			o.comes(toObserver, c.kind, c.data)
		}
		if len(net.closed) > 0 || len(net.take()) != maxAsks {
			t.Errorf("%v: closed before the bound", c.kind)
		}
		if o.comes(toObserver, c.kind, c.data); net.closed[toObserver] == nil || len(net.closed) > 1 || len(net.take()) > 0 {
			t.Errorf("%v: no bound", c.kind)
		}
	}
}

// The leader hears of every session that observers have heard, in packets that it takes.
func TestMasterTellsOfSessions(t *testing.T) {
	o, net := newMaster(1 << 20)
	heard := func(from, n int) (data []byte) {
		for id := from; id < from+n; id++ {
			data = append(data, questionOf(zk.SessionID(id))...)
		}
		return data
	}
	ping := func() []byte {
		o.comes(toLeader, zab.Ping, nil)
		sent := net.take()
		if len(sent) != 1 || sent[0].link != toLeader || sent[0].Type != zab.Ping || sent[0].Data == nil {
			t.Fatalf("a ping is answered with %v", sent)
		}
		return sent[0].Data
	}
	o.comes(toObserver, zab.Ping, heard(1, 2))
	o.comes(toOther, zab.Ping, heard(2, 2))
	if got, want := string(ping()), string(heard(1, 3)); got != want {
		t.Errorf("the leader is told %x, must be told %x", got, want)
	}
	if got := ping(); len(got) > 0 {
		t.Errorf("the leader is told %x again", got)
	}
	told := map[string]bool{}
	for range 4 { // the first sessions are heard each time, and must not displace the others
		o.comes(toObserver, zab.Ping, heard(1, tellAtOnce))
		o.comes(toOther, zab.Ping, heard(1+tellAtOnce, tellAtOnce))
		data := ping()
		if len(data) > 12*tellAtOnce {
			t.Fatalf("%d bytes in an answer", len(data))
		}
		for pair := range slices.Chunk(data, 12) {
			told[string(pair)] = true
		}
	}
	if len(told) != 2*tellAtOnce {
		t.Errorf("the leader was told of %d sessions, must be of %d", len(told), 2*tellAtOnce)
	}
	for from := 0; from < 2*maxTouched; from += tellAtOnce {
		o.comes(toObserver, zab.Ping, heard(from, tellAtOnce))
	}
	if len(o.touched) != maxTouched {
		t.Errorf("%d sessions are kept", len(o.touched))
	}
}
