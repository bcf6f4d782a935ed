package server

import (
	"github.com/pinfold-zk/pinfold/internal/metric"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/znode"
)

// maxNamespaces is the largest number of top-level znodes whose traffic is counted.
// Further ones are not counted.
const maxNamespaces = 256

// namespaces counts bytes by top-level znode.
type namespaces = metric.Set[*metric.Summary[int64]]

func newNamespaces() *namespaces {
	return metric.NewSet(maxNamespaces, func() *metric.Summary[int64] { return new(metric.Summary[int64]) })
}

// within reports whether path is the top-level znode name, or below it.
func within(name, path string) bool {
	n := 1 + len(name)
	return len(path) >= n && (len(path) == n || path[n] == '/') && path[0] == '/' && path[1:n] == name
}

// A tally counts what one connection reads, or what the applier writes, so that a run
// of requests in one namespace costs a few additions. One goroutine at a time uses it.
type tally struct {
	to          *metric.Keyed[*metric.Summary[int64]] // nil: the current namespace is not counted
	count, sum  int64                                 // not added to to yet
	least, most int32                                 // of those
	reading     string                                // path of the read whose reply is being encoded; "": none
	replyBegin  int                                   // length of the output before this reply
}

// add counts bytes read or written at path, in one frame.
func (y *tally) add(n *namespaces, path string, bytes int64) {
	if y.to == nil || !within(y.to.Key, path) {
		y.fold()
		name := znode.TopName(path)
		if name == "" {
			y.to = nil
			return
		}
		if y.to = n.Of(name); y.to == nil {
			return
		}
	}
	if y.count == 0 {
		y.least, y.most = int32(bytes), int32(bytes)
	}
	y.count++
	y.sum += bytes
	y.least, y.most = min(y.least, int32(bytes)), max(y.most, int32(bytes))
}

// fold adds what was counted to the namespace's summary.
func (y *tally) fold() {
	if y.count > 0 {
		y.to.Value.Merge(y.count, y.sum, int64(y.least), int64(y.most))
	}
	y.count, y.sum = 0, 0
}

// beginReply is called before the reply to a read of path is appended to the output,
// which has outLen bytes.
func (y *tally) beginReply(n *namespaces, path string, outLen int) {
	y.endReply(n, outLen)
	y.reading, y.replyBegin = path, outLen
}

// endReply counts the reply since the last beginReply, if there is one: the bytes of
// its path and of the output since then.
func (y *tally) endReply(n *namespaces, outLen int) {
	if y.reading != "" {
		y.add(n, y.reading, int64(len(y.reading)+outLen-y.replyBegin))
		y.reading = ""
	}
}

// write counts an applied transaction.
func (y *tally) write(n *namespaces, tx *txn.Txn) {
	if tx.Header.Type == wire.OpMulti {
		for i := range tx.Multi {
			y.writeOp(n, &tx.Multi[i])
		}
		return
	}
	y.writeOp(n, &tx.Op)
}

func (y *tally) writeOp(n *namespaces, op *txn.Op) {
	if op.Type != wire.OpCheck && op.Path != "" {
		y.add(n, op.Path, int64(len(op.Path)+len(op.Data)))
	}
}
