package server

import (
	"math/bits"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
)

// span holds the least and the largest of some numbers that are not negative.
// The zero value has none. It may be used by many at a time.
type span struct {
	least atomic.Int64 // plus one; 0 is none
	most  atomic.Int64
}

// add takes in numbers of which the least and the largest are given. Once they
// are settled it costs two loads.
func (s *span) add(least, most int64) {
	for old := s.least.Load(); old == 0 || least+1 < old; old = s.least.Load() {
		if s.least.CompareAndSwap(old, least+1) {
			break
		}
	}
	for old := s.most.Load(); most > old; old = s.most.Load() {
		if s.most.CompareAndSwap(old, most) {
			break
		}
	}
}

// get returns both, 0 if there are none.
func (s *span) get() (least, most int64) { return max(s.least.Load()-1, 0), s.most.Load() }

func (s *span) reset() {
	s.least.Store(0)
	s.most.Store(0)
}

// A histogram counts durations in buckets that are an eighth of their value
// wide, so that quantiles are right to 7 %. The zero value is empty. It may be
// used by many at a time; to add is two atomic additions and two loads.
//
// Bucket i < 16 holds i µs; from there on each power of two has eight.
type histogram struct {
	buckets [histogramBuckets]atomic.Int64
	sum     atomic.Int64 // nanoseconds
	span    span         // nanoseconds
}

// histogramBuckets reaches up to 2^32 µs, more than an hour.
const histogramBuckets = 16 + 28*8

// add counts n requests that took d each.
func (h *histogram) add(n int, d time.Duration) {
	d = max(d, 0)
	h.buckets[bucketOf(d)].Add(int64(n))
	h.sum.Add(int64(n) * int64(d))
	h.span.add(int64(d), int64(d))
}

func bucketOf(d time.Duration) int {
	v := min(uint64(d/time.Microsecond), 1<<32-1)
	if v < 16 {
		return int(v)
	}
	size := bits.Len64(v)
	return 16 + (size-5)*8 + int(v>>(size-4))&7
}

// bucketValue is the middle of a bucket.
func bucketValue(i int) time.Duration {
	if i < 16 {
		return time.Duration(i) * time.Microsecond
	}
	shift := (i-16)/8 + 1
	low := (8 + (i-16)%8) << shift
	return time.Duration(low+1<<shift/2) * time.Microsecond
}

func (h *histogram) reset() {
	for i := range h.buckets {
		h.buckets[i].Store(0)
	}
	h.sum.Store(0)
	h.span.reset()
}

// summary is what is shown of a series of numbers.
type summary struct {
	count, sum, least, most int64
	average                 float64
	quantiles               [4]int64 // p50, p95, p99, p999, of a histogram
}

// summarise returns the summary of several histograms together, in
// milliseconds.
func summarise(hs ...*histogram) (s summary) {
	var counts [histogramBuckets]int64
	var all span
	for _, h := range hs {
		n := int64(0)
		for i := range counts {
			c := h.buckets[i].Load()
			counts[i] += c
			n += c
		}
		s.count += n
		s.sum += h.sum.Load()
		if n > 0 {
			all.add(h.span.get())
		}
	}
	s.least, s.most = all.get()
	for i, part := range [...]float64{.5, .95, .99, .999} {
		s.quantiles[i] = min(int64(quantile(&counts, int64(part*float64(s.count)))), s.most)
	}
	return s.inMillis()
}

// quantile is the duration that more than rank of the counted ones do not
// exceed.
func quantile(counts *[histogramBuckets]int64, rank int64) time.Duration {
	for i, c := range counts {
		if rank < c {
			return bucketValue(i)
		}
		rank -= c
	}
	return 0
}

// inMillis converts a summary of nanoseconds.
func (s summary) inMillis() summary {
	if s.count > 0 {
		s.average = float64(s.sum) / float64(s.count) / 1e6
	}
	for _, v := range [...]*int64{
		&s.sum, &s.least, &s.most, &s.quantiles[0], &s.quantiles[1], &s.quantiles[2], &s.quantiles[3],
	} {
		*v /= int64(time.Millisecond)
	}
	return s
}

// plain makes a summary of numbers that have no unit.
func plain(count, sum, least, most int64) summary {
	s := summary{count: count, sum: sum, least: least, most: most}
	if count > 0 {
		s.average = float64(sum) / float64(count)
	}
	return s
}

// millis makes a summary of durations.
func millis(count int64, sum, least, most time.Duration) summary {
	return summary{count: count, sum: int64(sum), least: int64(least), most: int64(most)}.inMillis()
}

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
	span       span
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
		t.span.reset()
	}
}

// namedSummary is the summary of one namespace.
type namedSummary struct {
	name string
	summary
}

// summaries returns all, sorted by name.
func (n *namespaces) summaries() []namedSummary {
	n.mu.Lock()
	defer n.mu.Unlock()
	list := make([]namedSummary, 0, len(n.mu.byName))
	for name, t := range n.mu.byName {
		least, most := t.span.get()
		list = append(list, namedSummary{name, plain(t.count.Load(), t.sum.Load(), least, most)})
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
		y.to.span.add(y.least, y.most)
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
