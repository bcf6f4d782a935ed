package replica

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/pinfold-zk/pinfold/internal/fifo"
	"github.com/pinfold-zk/pinfold/internal/prep"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/zk"
)

// relaying is what Order keeps on a follower that serves observers (zab/master.go). It passes on what
// their clients ask of the leader, and the leader's answers. Their transactions come as everything
// that is committed does: the core informs the observers.
type relaying struct {
	asks        []ask                                    // of this server's clients and of observers, in order
	relayed     map[zk.SessionID]*fifo.Queue[relayedReq] // large requests that the leader has not proposed, by session
	touched     map[zk.SessionID]int32                   // sessions whose clients observers have heard, with timeouts; the leader is to be told
	lastTouched zk.SessionID                             // the last of these that the leader was told of
}

// ask is a session about which the leader was asked.
type ask struct {
	id   zk.SessionID
	link zab.LinkID // of the observer; 0: a client of this server
}

// relayedReq is a request that counts for what an observer may have under way.
type relayedReq struct {
	xid int32
	req Request // its Owner is the observer's link; of its Body only the length counts
}

// What an observer master keeps for observers at most, which never have as much unless they are
// hostile; and how many of the sessions that observers have heard it tells the leader of in one answer to a
// ping. The leader counts one answer a ping, and takes no packet of more than about a megabyte.
const (
	maxAsks    = 1 << 16
	maxTouched = 1 << 17
	tellAtOnce = 1 << 15
)

// fromObserver handles a packet of an observer that is not part of Zab.
func (o *orderer) fromObserver(d *zab.Delivery) {
	var err error
	switch d.Packet.Type {
	case zab.Request:
		err = o.relay(d.Link, &d.Packet)
	case zab.Revalidate:
		err = o.relayQuestion(d.Link, d.Packet.Data)
	case zab.Ping:
		err = o.hear(d.Packet.Data)
	}
	if err != nil {
		o.net.CloseLink(d.Link, fmt.Errorf("replica: observer's %v: %w", d.Packet.Type, err))
	}
}

// relay passes a request on to the leader. If the requests of an observer that are under way take too
// much memory, its link is closed.
func (o *orderer) relay(l zab.LinkID, p *zab.Packet) error {
	if len(p.Data) < requestHead {
		return fmt.Errorf("%d bytes have no header", len(p.Data))
	}
	data := slices.Clone(p.Data) // the link to the leader may keep it
	req := Request{Request: prep.Request{
		Session: zk.SessionID(binary.BigEndian.Uint64(data)), Xid: int32(binary.BigEndian.Uint32(data[8:])),
		Op: wire.OpCode(binary.BigEndian.Uint32(data[12:])), Body: data[requestHead:], Owner: ownerOf(l),
	}}
	switch {
	case req.Op == wire.OpSync && len(o.syncs.asked) >= maxAsks:
		return errors.New("too many syncs wait for the leader")
	case req.Op == wire.OpSync:
		o.syncs.asked = append(o.syncs.asked, req.without(nil))
	case !req.Op.IsWrite():
		return fmt.Errorf("operation %v is not for the leader", req.Op)
	case !o.forwarded.admit(l, int64(len(req.Body)), o.o.ForwardedBytes):
		return errors.New("its requests that the leader has not proposed take too much memory")
	case len(req.Body) > smallForward:
		o.noteRelayed(req)
	}
	o.net.Send(o.leaderLink, []zab.Packet{{Type: zab.Request, Zxid: -1, Data: data, Auth: p.Auth}})
	return nil
}

func (o *orderer) noteRelayed(req Request) {
	if o.relayed == nil {
		o.relayed = map[zk.SessionID]*fifo.Queue[relayedReq]{}
	}
	q := o.relayed[req.Session]
	if q == nil {
		q = new(fifo.Queue[relayedReq])
		o.relayed[req.Session] = q
	}
	q.Push(relayedReq{req.Xid, req})
}

// countOutRelayed counts out the requests of a session up to the one of a transaction. Those before it
// are lost, or the observer's link is.
func (o *orderer) countOutRelayed(tx *txn.Txn) {
	q := o.relayed[tx.Session]
	if q == nil {
		return
	}
	list := q.All()
	n := slices.IndexFunc(list, func(r relayedReq) bool { return r.xid == tx.Cxid }) + 1
	for i := range n {
		o.forwarded.countOut([]Request{list[i].req})
	}
	if q.Drop(n); q.Len() == 0 || tx.Header.Type == wire.OpCloseSession {
		for _, r := range q.All() {
			o.forwarded.countOut([]Request{r.req})
		}
		delete(o.relayed, tx.Session)
	}
}

// relayQuestion asks the leader whether a session of an observer's client is alive.
func (o *orderer) relayQuestion(l zab.LinkID, data []byte) error {
	if len(data) < 12 {
		return fmt.Errorf("%d bytes", len(data))
	}
	if len(o.asks) >= maxAsks {
		return errors.New("too many questions wait for the leader")
	}
	o.asks = append(o.asks, ask{zk.SessionID(binary.BigEndian.Uint64(data)), l})
	o.net.Send(o.leaderLink, []zab.Packet{{Type: zab.Revalidate, Zxid: -1, Data: slices.Clone(data)}})
	return nil
}

// whoAsked returns the link of the observer that has asked first about a session, 0 if a client of
// this server has.
func (o *orderer) whoAsked(id zk.SessionID) zab.LinkID {
	i := slices.IndexFunc(o.asks, func(a ask) bool { return a.id == id })
	if i < 0 {
		return 0
	}
	l := o.asks[i].link
	o.asks = slices.Delete(o.asks, i, i+1)
	return l
}

// hear notes the sessions in an observer's answer to a ping: the leader is told of them with the next
// answer of this server.
func (o *orderer) hear(data []byte) error {
	if len(data)%12 != 0 {
		return fmt.Errorf("%d bytes", len(data))
	}
	if o.touched == nil {
		o.touched = map[zk.SessionID]int32{}
	}
	for ; len(data) > 0 && len(o.touched) < maxTouched; data = data[12:] {
		o.touched[zk.SessionID(binary.BigEndian.Uint64(data))] = int32(binary.BigEndian.Uint32(data[8:]))
	}
	return nil
}

// relayTouched appends sessions that observers have heard to an answer to the leader's ping. They take turns,
// if there are more than fit.
func (o *orderer) relayTouched(data []byte) []byte {
	ids := slices.Sorted(maps.Keys(o.touched))
	next, _ := slices.BinarySearch(ids, o.lastTouched+1)
	ids = slices.Concat(ids[next:], ids[:next])
	for _, id := range ids[:min(len(ids), tellAtOnce)] {
		data = binary.BigEndian.AppendUint64(data, uint64(id))
		data = binary.BigEndian.AppendUint32(data, uint32(o.touched[id]))
		delete(o.touched, id)
		o.lastTouched = id
	}
	return data
}

// syncRelayed passes a SYNC of the leader on, if an observer's client has asked for it. The core has sent
// everything that was committed before.
func (o *orderer) syncRelayed() bool {
	l := learnerOf(o.syncs.asked[0].Owner)
	if l == 0 {
		return false
	}
	o.net.Send(l, []zab.Packet{{Type: zab.Sync}})
	o.syncs.asked = o.syncs.asked[1:]
	return true
}
