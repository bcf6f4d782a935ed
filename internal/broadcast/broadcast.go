// Package broadcast loads a leader from within, for figure 7 of the ZooKeeper
// paper: the throughput of atomic broadcast without the cost of clients.
package broadcast

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/pinfold-zk/pinfold/internal/prep"
	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// Generator submits transactions to a replica that leads, without clients. It is
// the Origin of its requests.
type Generator struct {
	Outstanding int // limit of transactions that are proposed and not applied; at least batchSize
	Size        int // bytes of data of each transaction

	pending atomic.Int64
	room    chan struct{} // holds a token once a batch has room again
}

// path is the znode that is set.
const path = "/pinfold-broadcast"

// batchSize is how many transactions are submitted at a time.
const batchSize = 500

// Run submits transactions while the replica leads, until ctx ends.
func (g *Generator) Run(ctx context.Context, rep *replica.Replica) {
	g.room = make(chan struct{}, 1)
	create := wire.CreateRequest{Path: path, ACL: zk.OpenACLUnsafe()}
	set := wire.SetDataRequest{Path: path, Data: make([]byte, g.Size), Version: -1}
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for made := false; ; {
		switch {
		case rep.Mode() != replica.Leader || !rep.Serving():
			made = false
		case !made:
			g.submit(rep, wire.OpCreate, create.Append(nil, wire.OpCreate), 1)
			made = true
			continue
		case g.pending.Load()+batchSize <= int64(g.Outstanding):
			g.submit(rep, wire.OpSetData, set.Append(nil), batchSize)
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-g.room:
		case <-again.C:
		}
	}
}

func (g *Generator) submit(rep *replica.Replica, op wire.OpCode, body []byte, n int) {
	g.pending.Add(int64(n))
	batch := make([]replica.Request, n)
	for i := range batch {
		batch[i] = replica.Request{Request: prep.Request{Op: op, Body: body}, Origin: g, Received: rep.Now()}
	}
	rep.Submit(batch)
}

func (g *Generator) ended() {
	if g.pending.Add(-1) == int64(g.Outstanding)-batchSize {
		select {
		case g.room <- struct{}{}:
		default:
		}
	}
}

// Applied counts a transaction that was applied (replica.Origin).
func (g *Generator) Applied(*replica.Request, *txn.Txn, *znode.Result, replica.View) { g.ended() }

// Dropped counts a transaction whose leader has left its role.
func (g *Generator) Dropped(*replica.Request) { g.ended() }

// Synced is never called: a Generator sends no sync.
func (g *Generator) Synced(*replica.Request, replica.View) {}

// Resumed is never called: a Generator has no session.
func (g *Generator) Resumed(bool, zk.SessionID, int32) {}

// ResumedLocal is never called: a Generator has no session.
func (g *Generator) ResumedLocal(zk.SessionID, int32) {}

// Applying prepares nothing: a Generator sends no multi.
func (g *Generator) Applying(*replica.Request, *txn.Txn, *znode.Result) {}

// Leave is never called: a Generator has no session.
func (g *Generator) Leave(string) {}

// LastHeard is never called: a Generator has no session.
func (g *Generator) LastHeard() time.Duration { return 0 }
