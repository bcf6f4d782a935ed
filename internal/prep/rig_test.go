package prep

import (
	"testing"

	"github.com/pinfold-zk/pinfold/internal/auth"
	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/session"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// rig is a preparer and all that it works with. Requests are prepared at once,
// and applied when the test says so.
type rig struct {
	t        testing.TB
	tree     *znode.Tree
	sessions *session.Tracker
	prep     *Preparer
	zxid     zk.Zxid
	pending  []pending
	result   znode.Result
}

// pending is a transaction on its way to the tree, and the buffer it aliases.
type pending struct {
	tx   txn.Txn
	body []byte
}

func newRig(t testing.TB, cfg Config) *rig {
	a, err := auth.New(auth.Config{})
	if err != nil {
		t.Fatal(err)
	}
	tree := znode.New(znode.Options{ExtendedTypes: cfg.ExtendedTypes, NoDigest: !cfg.DigestEnabled})
	sessions := session.NewTracker(session.Config{TickMillis: 1000, FirstID: 1, Standalone: true})
	return &rig{t: t, tree: tree, sessions: sessions, prep: New(cfg, tree, a, sessions)}
}

// now is the server's clock: different for each zxid.
func (r *rig) now() int64 { return 1000 + int64(r.zxid) }

// prepare makes the next transaction of req, whose body it copies.
func (r *rig) prepare(req Request) *txn.Txn {
	r.zxid++
	req.Body = append([]byte(nil), req.Body...)
	if req.Op == wire.OpCreateSession && len(req.Body) >= 4 {
		d := jute.NewDecoder(req.Body)
		req.Session = r.sessions.NextID()
		r.sessions.Add(req.Session, d.Int(), r.now())
		r.sessions.SetOwner(req.Session, req.Owner)
	}
	r.pending = append(r.pending, pending{body: req.Body})
	tx := &r.pending[len(r.pending)-1].tx
	r.prep.Prepare(&req, r.zxid, r.now(), tx)
	return tx
}

// apply applies the next n transactions, and scribbles over the buffers that
// they came in, as their next users would.
func (r *rig) apply(n int) {
	r.t.Helper()
	for i := range r.pending[:n] {
		p := &r.pending[i]
		tx := &p.tx
		for _, op := range append([]txn.Op{tx.Op}, tx.Multi...) {
			if sum := znode.Sum(op.Path, op.Data); op.HasSum && op.Sum != sum {
				r.t.Fatalf("%+v: the sum of %s is %d", *tx, op.Path, sum)
			}
		}
		if c := r.tree.BeginClose(tx); c == nil {
			r.tree.Apply(tx, &r.result)
		} else {
			for !c.Next(&r.result, nil) {
			}
		}
		if tx.HasDigest && tx.Digest != r.tree.Digest() {
			r.t.Fatalf("%+v: the tree's digest is %d", *tx, r.tree.Digest())
		}
		if tx.Header.Type != wire.OpError && r.result.Err != zk.OK {
			r.t.Fatalf("%+v: applied with %v", *tx, r.result.Err)
		}
		for k, o := range r.result.Multi {
			if !tx.Failed() && o.Err != zk.OK {
				r.t.Fatalf("%+v: operation %d applied with %v", *tx, k, o.Err)
			}
		}
		if tx.Header.Type == wire.OpCloseSession {
			r.sessions.Remove(tx.Session)
		}
		for k := range p.body {
			p.body[k] = 'X'
		}
	}
	r.pending = append(r.pending[:0:0], r.pending[n:]...)
}

// settle applies everything and tells the preparer.
func (r *rig) settle() {
	r.t.Helper()
	r.apply(len(r.pending))
	r.prep.Applied(r.zxid)
}
