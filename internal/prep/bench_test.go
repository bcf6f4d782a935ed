package prep

import (
	"fmt"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/session"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// workload prepares the same requests over and over, and forgets them as if
// applied in between: 64 are outstanding, as behind a busy log.
type workload struct {
	rig  *rig
	reqs []Request
	tx   txn.Txn
	next int
}

func newWorkload(tb testing.TB, op wire.OpCode) *workload {
	r := newRig(tb, everything)
	s := r.prepare(Request{Op: wire.OpCreateSession, Owner: owner, Body: jute.AppendInt(nil, 1)}).Session
	w := &workload{rig: r}
	for i := range 1000 {
		m := wire.MultiOp{Type: wire.OpCreate, Version: -1}
		m.Path, m.Data, m.ACL, m.TTL = fmt.Sprintf("/bench/n%04d", i), make([]byte, 100), zk.OpenACLUnsafe(), -1
		if i == 0 {
			m.Path = "/bench"
		}
		create := Request{Session: s, Op: m.Type, Owner: owner, Body: appendOp(&m)}
		if op == wire.OpCreate && i > 0 {
			w.reqs = append(w.reqs, create)
			continue
		}
		r.prepare(create)
		m.Type = op
		if i > 0 {
			w.reqs = append(w.reqs, Request{Session: s, Op: op, Owner: owner, Body: appendOp(&m)})
		}
	}
	r.settle()
	return w
}

func (w *workload) step() {
	req := &w.reqs[w.next%len(w.reqs)]
	w.next++
	w.rig.zxid++
	w.rig.prep.Prepare(req, w.rig.zxid, 1, &w.tx)
	if w.next%64 == 0 {
		w.rig.prep.Applied(w.rig.zxid)
	}
}

// TestAllocations: a setData costs the copy of its path; a create that, and its
// ACL, which the decoder makes.
func TestAllocations(t *testing.T) {
	for op, want := range map[wire.OpCode]float64{wire.OpSetData: 1, wire.OpCreate: 2} {
		w := newWorkload(t, op)
		for range 2000 {
			w.step()
		}
		if got := testing.AllocsPerRun(2000, w.step); got > want {
			t.Errorf("%v: %v allocations, want %v", op, got, want)
		}
		if w.tx.Header.Type != op {
			t.Errorf("%v became %+v", op, w.tx)
		}
	}
}

func BenchmarkSetData(b *testing.B) { benchmark(b, wire.OpSetData) }

func BenchmarkCreate(b *testing.B) { benchmark(b, wire.OpCreate) }

func benchmark(b *testing.B, op wire.OpCode) {
	w := newWorkload(b, op)
	b.ReportAllocs()
	for b.Loop() {
		w.step()
	}
}

// BenchmarkExpiry ends ten thousand sessions of one ephemeral each at once.
func BenchmarkExpiry(b *testing.B) {
	const sessions = 10_000
	r := newRig(b, everything)
	var ids []zk.SessionID
	for i := range sessions {
		id := r.prepare(Request{Op: wire.OpCreateSession, Owner: owner, Body: jute.AppendInt(nil, 1)}).Session
		c := wire.CreateRequest{Path: fmt.Sprintf("/e%05d", i), ACL: zk.OpenACLUnsafe(), Flags: zk.Ephemeral, TTL: -1}
		r.prepare(Request{Session: id, Op: wire.OpCreate, Owner: owner, Body: c.Append(nil, wire.OpCreate)})
		ids = append(ids, id)
	}
	r.settle()
	var tx txn.Txn
	for b.Loop() {
		p := New(everything, r.tree, r.prep.auth, r.sessions)
		for i, id := range ids {
			p.Prepare(&Request{Session: id, Op: wire.OpCloseSession, Owner: session.NoOwner}, r.zxid+zk.Zxid(i)+1, 1, &tx)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/sessions, "ns/session")
}

// BenchmarkMulti prepares, encodes and applies multis of 40,000 operations.
func BenchmarkMulti(b *testing.B) {
	const operations = 40_000
	for _, kind := range []wire.OpCode{wire.OpCheck, wire.OpSetData} {
		b.Run(kind.String(), func(b *testing.B) {
			r := newRig(b, everything)
			s := r.prepare(Request{Op: wire.OpCreateSession, Owner: owner, Body: jute.AppendInt(nil, 1)}).Session
			var body []byte
			for range operations {
				m := wire.MultiOp{Type: kind, Version: -1}
				m.Path, m.ACL, m.TTL = "/", zk.OpenACLUnsafe(), -1
				body = m.Append(body)
			}
			req := Request{Session: s, Op: wire.OpMulti, Owner: owner, Body: wire.AppendMultiEnd(body)}
			r.settle()
			var enc []byte
			b.ReportAllocs()
			var prepared, applied time.Duration
			for b.Loop() {
				t0 := time.Now()
				tx := r.prepare(req)
				t1 := time.Now()
				enc = tx.Append(enc[:0])
				r.tree.Apply(tx, &r.result)
				applied += time.Since(t1)
				prepared += t1.Sub(t0)
				r.pending = nil
				r.prep.Applied(r.zxid)
			}
			b.ReportMetric(float64(prepared.Nanoseconds())/float64(b.N)/operations, "prep-ns/op")
			b.ReportMetric(float64(applied.Nanoseconds())/float64(b.N)/operations, "apply-ns/op")
		})
	}
}

// BenchmarkClose prepares the end of a session with a million ephemerals; the time is of one ephemeral.
func BenchmarkClose(b *testing.B) {
	const many = 1_000_000
	cfg := everything
	cfg.MaxTxnBytes = 1 << 20
	r := newRig(b, cfg)
	r.prepare(Request{Op: wire.OpCreateSession, Owner: owner, Body: jute.AppendInt(nil, 30000)})
	r.settle()
	create := func(path string, ephemeral bool) {
		r.zxid++
		op := txn.Op{Type: wire.OpCreate, Path: path, Ephemeral: ephemeral, ACL: zk.OpenACLUnsafe(), ParentCversion: -1}
		r.tree.Apply(&txn.Txn{Header: txn.Header{Zxid: r.zxid, Session: 1, Type: wire.OpCreate}, Op: op}, &r.result)
	}
	create("/p", false)
	for i := range many {
		create(fmt.Sprintf("/p/%d", i), true)
	}
	b.ReportAllocs()
	for b.Loop() {
		p := New(cfg, r.tree, r.prep.auth, r.sessions)
		var tx txn.Txn
		p.Prepare(&Request{Op: wire.OpCloseSession, Session: 1, Owner: session.NoOwner}, r.zxid+1, 1, &tx)
		if tx.Err != zk.OK || p.Outstanding() != 1 {
			b.Fatal(tx.Err, p.Outstanding())
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/many, "ns/znode")
}
