package client

import (
	"context"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// A ReadTxn is a list of reads that are answered together, from one state of the
// tree (multiRead). Servers know it from 3.6 on. It is built by one goroutine and
// committed once.
type ReadTxn struct{ txn Txn }

// ReadData is the result of a Get of a ReadTxn.
type ReadData struct {
	Data []byte
	Stat zk.Stat
	Err  error // an *Error, when this read failed; the others did not for that
}

// ReadChildren is the result of a Children of a ReadTxn, which has no Stat.
type ReadChildren struct {
	Names []string
	Err   error
}

// ReadTxn begins a list of reads.
func (c *Client) ReadTxn() *ReadTxn {
	return &ReadTxn{Txn{client: c, op: wire.OpMultiRead}}
}

// Get adds a read of data.
func (t *ReadTxn) Get(path string) *ReadData {
	r := &ReadData{}
	t.txn.add(wire.MultiOp{Type: wire.OpGetData}, path, CheckPath(path), slot{data: r})
	return r
}

// Children adds a read of the names of children.
func (t *ReadTxn) Children(path string) *ReadChildren {
	r := &ReadChildren{}
	t.txn.add(wire.MultiOp{Type: wire.OpGetChildren}, path, CheckPath(path), slot{children: r})
	return r
}

// Len is the number of reads.
func (t *ReadTxn) Len() int { return t.txn.Len() }

// Commit reads, and fills the results. Its error is that of the whole; each
// result has its own.
func (t *ReadTxn) Commit(ctx context.Context) error { return t.txn.Commit(ctx) }

// CommitAsync is Commit with a callback; the results are filled before it runs.
func (t *ReadTxn) CommitAsync(ctx context.Context, done func(err error)) {
	t.txn.CommitAsync(ctx, done)
}
