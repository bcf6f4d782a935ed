package server

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/pinfold-zk/pinfold/internal/metric"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
)

// namespaces adds up bytes by top-level znode.
type namespaces struct {
	mu struct {
		sync.Mutex
		byName map[string]*traffic
	}
}

// maxNamespaces bounds what is kept and shown: a server may have any number of
// top-level znodes. Those that come later are not counted.
const maxNamespaces = 256

// traffic is what was read or written in one namespace. It may be used by many.
type traffic struct {
	name       string
	count, sum atomic.Int64
	span       metric.Span
}

// holds reports whether path is in the namespace.
func (t *traffic) holds(path string) bool {
	n := 1 + len(t.name)
	return len(path) >= n && (len(path) == n || path[n] == '/') && path[0] == '/' && path[1:n] == t.name
}

// of returns the traffic of a namespace, nil if there are too many. It keeps a
// copy of name.
func (n *namespaces) of(name string) *traffic {
	n.mu.Lock()
	defer n.mu.Unlock()
	t := n.mu.byName[name]
	if t == nil && len(n.mu.byName) < maxNamespaces {
		if n.mu.byName == nil {
			n.mu.byName = map[string]*traffic{}
		}
		t = &traffic{name: strings.Clone(name)}
		n.mu.byName[t.name] = t
	}
	return t
}

// reset sets the counts to zero. The names stay, as in Apache.
func (n *namespaces) reset() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, t := range n.mu.byName {
		t.count.Store(0)
		t.sum.Store(0)
		t.span.Reset()
	}
}

// namedSummary is the summary of one namespace.
type namedSummary struct {
	name string
	metric.Summary
}

// summaries returns all, sorted by name.
func (n *namespaces) summaries() []namedSummary {
	n.mu.Lock()
	defer n.mu.Unlock()
	list := make([]namedSummary, 0, len(n.mu.byName))
	for name, t := range n.mu.byName {
		least, most := t.span.Get()
		list = append(list, namedSummary{name, metric.Plain(t.count.Load(), t.sum.Load(), least, most)})
	}
	slices.SortFunc(list, func(a, b namedSummary) int { return strings.Compare(a.name, b.name) })
	return list
}

// tally gathers what one connection reads, or the applier writes, so that a run
// of requests in one namespace costs a few additions. It has one user at a time.
type tally struct {
	to          *traffic // nil before the first, and for namespaces that are not counted
	count, sum  int64
	least, most int64
	reading     string // path of the read whose reply is being made, "" is none
	replyBegin  int    // length of the output when it was begun
}

// add counts bytes read or written at path.
func (y *tally) add(n *namespaces, path string, bytes int64) {
	if y.to == nil || !y.to.holds(path) {
		y.fold()
		name := topNamespace(path)
		if name == "" {
			y.to = nil
			return
		}
		if y.to = n.of(name); y.to == nil {
			return
		}
	}
	if y.count == 0 {
		y.least, y.most = bytes, bytes
	}
	y.count++
	y.sum += bytes
	y.least, y.most = min(y.least, bytes), max(y.most, bytes)
}

// fold hands over what was gathered.
func (y *tally) fold() {
	if y.count > 0 {
		y.to.count.Add(y.count)
		y.to.sum.Add(y.sum)
		y.to.span.Add(y.least, y.most)
	}
	y.count, y.sum = 0, 0
}

// begin notes that a reply which shows the znode at path begins at outLen.
func (y *tally) begin(n *namespaces, path string, outLen int) {
	y.end(n, outLen)
	y.reading, y.replyBegin = path, outLen
}

// end counts the reply that was begun: its path and what it shows.
func (y *tally) end(n *namespaces, outLen int) {
	if y.reading != "" {
		y.add(n, y.reading, int64(len(y.reading)+outLen-y.replyBegin))
		y.reading = ""
	}
}

// write counts a transaction that was carried out.
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

// topNamespace is the name of path's top-level ancestor, "" for the root.
func topNamespace(path string) string {
	if len(path) < 2 || path[0] != '/' {
		return ""
	}
	name := path[1:]
	if i := strings.IndexByte(name, '/'); i >= 0 {
		name = name[:i]
	}
	return name
}
