package prep

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/session"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// requests makes random requests, right and wrong ones.
type requests struct {
	rng      *rand.Rand
	sessions []zk.SessionID
}

const owner session.Owner = 7

var everything = Config{ExtendedTypes: true, ListClosedPaths: true, DigestEnabled: true}

func (g *requests) next() Request {
	req := Request{Owner: owner, Session: 99, IDs: []zk.ID{{Scheme: "ip", ID: "127.0.0.1"}}}
	if len(g.sessions) > 0 {
		req.Session = g.sessions[g.rng.IntN(len(g.sessions))]
	}
	if g.rng.IntN(3) == 0 {
		req.IDs = append(req.IDs, zk.ID{Scheme: "digest", ID: "u:x"})
	}
	switch r := g.rng.IntN(40); {
	case r == 0 || len(g.sessions) == 0:
		req.Op, req.Body = wire.OpCreateSession, jute.AppendInt(nil, 1000)
	case r == 1:
		req.Op = wire.OpCloseSession
		if g.rng.IntN(2) == 0 {
			req.Owner = session.NoOwner
		}
	case r == 2:
		req.Session, req.Owner = 0, session.NoOwner
		req.Op, req.Body = wire.OpDeleteContainer, []byte(g.path())
	case r == 3:
		req.Op, req.Body = wire.OpReconfig, make([]byte, 20)
	case r < 10:
		req.Op = wire.OpMulti
		for range g.rng.IntN(5) {
			m := g.op(true)
			req.Body = m.Append(req.Body)
		}
		req.Body = wire.AppendMultiEnd(req.Body)
	default:
		m := g.op(false)
		req.Op = m.Type
		req.Body = appendOp(&m)
	}
	if g.rng.IntN(30) == 0 && len(req.Body) > 0 && req.Op != wire.OpCreateSession {
		req.Body = req.Body[:g.rng.IntN(len(req.Body))]
	}
	if g.rng.IntN(30) == 0 {
		req.Owner++
	}
	return req
}

// appendOp writes m as a request of its own.
func appendOp(m *wire.MultiOp) []byte {
	switch m.Type {
	case wire.OpDelete, wire.OpCheck:
		return (&wire.PathVersion{Path: m.Path, Version: m.Version}).Append(nil)
	case wire.OpSetData:
		return (&wire.SetDataRequest{Path: m.Path, Data: m.Data, Version: m.Version}).Append(nil)
	case wire.OpSetACL:
		return (&wire.SetACLRequest{Path: m.Path, ACL: m.ACL, Version: m.Version}).Append(nil)
	}
	return m.CreateRequest.Append(nil, m.Type)
}

func (g *requests) op(inMulti bool) (m wire.MultiOp) {
	m.Path, m.Version, m.TTL = g.path(), int32(g.rng.IntN(3)-1), -1
	m.Data = make([]byte, g.rng.IntN(20))
	m.ACL = g.acl()
	if g.rng.IntN(4) > 0 {
		m.Version = -1
	}
	switch r := g.rng.IntN(12); {
	case r < 6:
		kinds := []wire.OpCode{wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL}
		m.Type = kinds[g.rng.IntN(len(kinds))]
		m.Flags = zk.CreateMode(g.rng.IntN(4))
		if m.Type == wire.OpCreateTTL {
			m.Flags, m.TTL = zk.CreateMode(5+g.rng.IntN(2)), 1+g.rng.Int64N(1000)
		}
		if g.rng.IntN(20) == 0 {
			m.Flags = zk.CreateMode(g.rng.IntN(9) - 1)
		}
	case r < 9:
		m.Type = wire.OpDelete
	case r < 11 || inMulti && r == 11:
		m.Type = wire.OpSetData
		if inMulti && g.rng.IntN(3) == 0 {
			m.Type = wire.OpCheck
		}
	default:
		m.Type = wire.OpSetACL
	}
	return m
}

func (g *requests) path() string {
	names := []string{"a", "b", "c", "d"}
	path := ""
	for range 1 + g.rng.IntN(6)/2 {
		path += "/" + names[g.rng.IntN(len(names))]
	}
	switch g.rng.IntN(40) {
	case 0:
		return "/"
	case 1:
		return ""
	case 2:
		return path + "/"
	case 3:
		return "/zookeeper/quota" + path
	case 4:
		return path + "/./x"
	case 5, 6:
		return path + "0000000001"
	}
	return path
}

func (g *requests) acl() []zk.ACL {
	switch g.rng.IntN(40) {
	case 0:
		return []zk.ACL{{Perms: zk.PermAll &^ zk.PermDelete, ID: zk.AnyoneUnsafe}}
	case 1:
		return []zk.ACL{{Perms: zk.PermAll, ID: zk.ID{Scheme: "digest", ID: "u:x"}}}
	case 2:
		return zk.CreatorAllACL()
	case 3:
		return nil
	}
	return zk.OpenACLUnsafe()
}

// TestPipelining: what a request becomes does not depend on how many of those
// before it are applied already. Invariants 1 to 3: whatever comes becomes a
// transaction, its digest and success hold once it is applied, and in the end
// nothing is outstanding. apply scribbles over each request's buffer, so
// nothing that is kept may alias it.
func TestPipelining(t *testing.T) {
	for seed := range uint64(40) {
		cfg := everything
		cfg.ListClosedPaths = seed%2 == 0
		atOnce, delayed := newRig(t, cfg), newRig(t, cfg)
		g := &requests{rng: rand.New(rand.NewPCG(seed, 1))}
		pace := 2 << (seed % 6)
		for step := range 400 {
			req := g.next()
			want := atOnce.prepare(req).Append(nil)
			tx := delayed.prepare(req)
			if got := tx.Append(nil); !bytes.Equal(got, want) {
				wantTx, _ := txn.Decode(want)
				t.Fatalf("seed=%d step %d: %v %q\n got %+v\nwant %+v", seed, step, req.Op, req.Body, *tx, wantTx)
			}
			switch i := slices.Index(g.sessions, tx.Session); {
			case tx.Header.Type == wire.OpCreateSession:
				g.sessions = append(g.sessions, tx.Session)
			case tx.Header.Type == wire.OpCloseSession && g.rng.IntN(10) > 0 && i >= 0:
				g.sessions = slices.Delete(g.sessions, i, i+1)
			}
			atOnce.settle()
			if n := atOnce.prep.Outstanding(); n != 0 {
				t.Fatalf("seed=%d step %d: %d outstanding changes", seed, step, n)
			}
			if g.rng.IntN(pace) == 0 {
				delayed.apply(g.rng.IntN(len(delayed.pending) + 1))
			}
			if g.rng.IntN(8) == 0 {
				delayed.prep.Applied(delayed.tree.LastZxid())
			}
		}
		delayed.settle()
		if n := delayed.prep.Outstanding(); n != 0 {
			t.Fatalf("seed=%d: %d outstanding changes at the end", seed, n)
		}
	}
}

// strange returns a change that can be read, sense or not: no preparation makes most of them, but a
// program that is elected leader in a member's name can.
func (g *requests) strange() txn.Op {
	num := func() int32 { return []int32{0, 1, -1, 5, math.MaxInt32, math.MinInt32}[g.rng.IntN(6)] }
	kinds := []wire.OpCode{
		wire.OpCreate, wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL, wire.OpDelete, wire.OpSetData, wire.OpSetACL,
		wire.OpCheck, wire.OpError, wire.OpCreateSession, wire.OpCloseSession, wire.OpReconfig,
	}
	return txn.Op{
		Type: kinds[g.rng.IntN(len(kinds))], Path: g.path(), Data: [][]byte{nil, {}, []byte("x"), []byte("count=1,bytes=5")}[g.rng.IntN(4)], ACL: g.acl(),
		Ephemeral: g.rng.IntN(2) == 0, ParentCversion: num(), TTL: int64(num()), Version: num(), TimeoutMillis: num(),
		Paths: []string{g.path(), g.path()}, PathsListed: g.rng.IntN(2) == 0,
	}
}

// Whatever a leader has put into the tree, what is prepared later has the digest and the success
// that the tree gives it: else all members would take their trees for wrong.
func TestAfterAStrangeLeader(t *testing.T) {
	for seed := range uint64(300) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { afterAStrangeLeader(t, seed) })
	}
}

func afterAStrangeLeader(t *testing.T, seed uint64) {
	r, g := newRig(t, everything), &requests{rng: rand.New(rand.NewPCG(seed, 2))}
	for range 3 {
		for range 20 {
			r.zxid++
			strange := txn.Txn{Header: txn.Header{Session: zk.SessionID(g.rng.IntN(3)), Zxid: r.zxid}, Op: g.strange()}
			if strange.Header.Type = strange.Op.Type; g.rng.IntN(4) == 0 {
				strange.Header.Type, strange.Multi = wire.OpMulti, []txn.Op{g.strange(), g.strange()}
			}
			r.tree.Apply(&strange, &r.result)
		}
		r.prep = New(everything, r.tree, r.prep.auth, r.sessions)
		for range 60 {
			req := g.next()
			if tx := r.prepare(req); tx.Header.Type == wire.OpCreateSession {
				g.sessions = append(g.sessions, tx.Session)
			}
			if g.rng.IntN(4) == 0 {
				r.settle()
			}
		}
		r.settle() // it compares digests
	}
}
