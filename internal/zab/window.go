package zab

import (
	"sort"

	"github.com/pinfold-zk/pinfold/internal/fifo"
	"github.com/pinfold-zk/pinfold/zk"
)

// window holds the transactions that were committed last, without a gap, for
// learners that lack no more than these. Its owner never drops one that is not
// applied, or not durable: a snapshot's stream begins at the applied state, the
// log's ends with what is durable, and both go on from here.
type window struct {
	fifo.Queue[Entry]
	base  zk.Zxid // before the first
	bytes int     // of their data
}

// DefaultWindowBytes is Config.WindowBytes if that is 0: a few hundred transactions of a
// megabyte each would be half a gigabyte. It is Apache's default of observerMaster.sizeLimit.
const DefaultWindowBytes = 32 << 20

// reset makes the window hold entries, which it copies; the last is last.
func (w *window) reset(entries []Entry, last zk.Zxid) {
	*w = window{base: last}
	if len(entries) > 0 {
		w.base = entries[0].Zxid - 1 // which need not exist
		w.add(entries...)
	}
}

func (w *window) add(es ...Entry) {
	w.Push(es...)
	for i := range es {
		w.bytes += len(es[i].Data)
	}
}

// trim drops the oldest until size are left, and so many bytes of data, but none after upto. The
// last one stays, whatever its size.
func (w *window) trim(size, bytes int, upto zk.Zxid) {
	es, n := w.All(), 0
	for n < len(es) && es[n].Zxid <= upto && (len(es)-n > size || w.bytes > bytes && len(es)-n > 1) {
		w.bytes -= len(es[n].Data)
		n++
	}
	if n > 0 {
		w.base = es[n-1].Zxid
		w.Drop(n)
	}
}

// truncate drops what is later than z.
func (w *window) truncate(z zk.Zxid) {
	es := w.after(z)
	for i := range es {
		w.bytes -= len(es[i].Data)
	}
	w.Cut(w.Len() - len(es))
	w.base = min(w.base, z)
}

// after returns the entries later than z, valid until the window changes.
func (w *window) after(z zk.Zxid) []Entry {
	es := w.All()
	return es[sort.Search(len(es), func(i int) bool { return es[i].Zxid > z }):]
}

// find returns whether z is there, and the greatest zxid before it that is, 0
// if none.
func (w *window) find(z zk.Zxid) (exact bool, before zk.Zxid) {
	es := w.All()
	i := sort.Search(len(es), func(i int) bool { return es[i].Zxid >= z })
	if i > 0 {
		before = es[i-1].Zxid
	}
	return i < len(es) && es[i].Zxid == z, before
}

// first is the oldest zxid in the window; ok is false if it is empty.
func (w *window) first() (zk.Zxid, bool) {
	if w.Len() == 0 {
		return 0, false
	}
	return w.At(0).Zxid, true
}
