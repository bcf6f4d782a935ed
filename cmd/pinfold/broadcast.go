package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinfold-zk/pinfold/internal/prep"
	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// broadcastCommand is a server that loads itself, for figure 7 of the ZooKeeper
// paper: atomic broadcast without clients. `pinfold bench paper` starts it.
func broadcastCommand() *cobra.Command {
	g := &generator{}
	c := &cobra.Command{
		Use:    "broadcast zoo.cfg",
		Short:  "Run a server that proposes by itself while it leads",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return runServer(c.Context(), args[0], nil, false, g.run)
		},
	}
	c.Flags().IntVar(&g.outstanding, "outstanding", 10000, "transactions that are proposed and not applied")
	c.Flags().IntVar(&g.size, "size", 1024, "bytes of data of each")
	return c
}

// A generator keeps transactions under way at a leader, without clients. It is the
// Origin of its requests.
type generator struct {
	outstanding, size int
	underWay          atomic.Int64
	room              chan struct{} // has room for one: a batch may be under way
}

// broadcastPath is the znode that is set.
const broadcastPath = "/pinfold-broadcast"

// generatorBatch is how many transactions are submitted at a time.
const generatorBatch = 500

// run proposes until ctx ends, while the server leads.
func (g *generator) run(ctx context.Context, rep *replica.Replica) {
	g.room = make(chan struct{}, 1)
	create := wire.CreateRequest{Path: broadcastPath, ACL: zk.OpenACLUnsafe()}
	set := wire.SetDataRequest{Path: broadcastPath, Data: make([]byte, g.size), Version: -1}
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
		case g.underWay.Load()+generatorBatch <= int64(g.outstanding):
			g.submit(rep, wire.OpSetData, set.Append(nil), generatorBatch)
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

func (g *generator) submit(rep *replica.Replica, op wire.OpCode, body []byte, n int) {
	g.underWay.Add(int64(n))
	batch := make([]replica.Request, n)
	for i := range batch {
		batch[i] = replica.Request{Request: prep.Request{Op: op, Body: body}, Origin: g, Received: rep.Now()}
	}
	rep.Submit(batch)
}

func (g *generator) ended() {
	if g.underWay.Add(-1) == int64(g.outstanding)-generatorBatch {
		select {
		case g.room <- struct{}{}:
		default:
		}
	}
}

// Applied counts a transaction (replica.Origin).
func (g *generator) Applied(*replica.Request, *txn.Txn, *znode.Result) { g.ended() }

// Dropped counts one that another leader may know of.
func (g *generator) Dropped(*replica.Request) { g.ended() }

// Synced, Resumed, ResumedLocal and Leave answer what a generator never asks.
func (g *generator) Synced(*replica.Request)               {}
func (g *generator) Resumed(bool, zk.SessionID, int32)     {}
func (g *generator) ResumedLocal(id zk.SessionID, _ int32) {}
func (g *generator) Leave(string)                          {}
func (g *generator) LastHeard() time.Duration              { return 0 }
