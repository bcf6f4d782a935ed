package zab

import (
	"sort"

	"github.com/pinfold-zk/pinfold/zk"
)

// window holds the transactions that were committed last, without a gap, for
// learners that lack no more than these. Its owner never drops one that is not
// applied: a snapshot's stream begins at the applied state and goes on from here.
type window struct {
	list []Entry // list[head:] is what counts
	head int
	last zk.Zxid // of the list, or what it would follow
}

// reset makes the window hold entries, the last of which is last.
func (w *window) reset(entries []Entry, last zk.Zxid) {
	w.list, w.head, w.last = append([]Entry(nil), entries...), 0, last
}

func (w *window) entries() []Entry { return w.list[w.head:] }

func (w *window) add(es ...Entry) {
	if len(es) == 0 {
		return
	}
	w.list = append(w.list, es...)
	w.last = es[len(es)-1].Zxid
}

// trim drops the oldest until size are left, but none after applied.
func (w *window) trim(size int, applied zk.Zxid) {
	for len(w.list)-w.head > size && w.list[w.head].Zxid <= applied {
		w.list[w.head] = Entry{}
		w.head++
	}
	if w.head > 1024 && 2*w.head > len(w.list) {
		n := copy(w.list, w.list[w.head:])
		clear(w.list[n:])
		w.list, w.head = w.list[:n], 0
	}
}

// after returns the entries later than z.
func (w *window) after(z zk.Zxid) []Entry {
	es := w.entries()
	return es[sort.Search(len(es), func(i int) bool { return es[i].Zxid > z }):]
}

// find returns whether z is there, and the greatest zxid before it that is, 0
// if none.
func (w *window) find(z zk.Zxid) (exact bool, before zk.Zxid) {
	es := w.entries()
	i := sort.Search(len(es), func(i int) bool { return es[i].Zxid >= z })
	if i > 0 {
		before = es[i-1].Zxid
	}
	return i < len(es) && es[i].Zxid == z, before
}

// first is the oldest zxid in the window; ok is false if it is empty.
func (w *window) first() (zk.Zxid, bool) {
	if es := w.entries(); len(es) > 0 {
		return es[0].Zxid, true
	}
	return 0, false
}

// proposals are the leader's transactions that are not committed, without a
// gap, and who has acknowledged each.
type proposals struct {
	list []proposal
	head int
}

type proposal struct {
	Entry
	acks uint64 // bit i: the voter that is the i-th of the system
}

func (p *proposals) len() int { return len(p.list) - p.head }

func (p *proposals) push(e Entry) { p.list = append(p.list, proposal{Entry: e}) }

func (p *proposals) front() *proposal { return &p.list[p.head] }

func (p *proposals) pop() {
	p.list[p.head] = proposal{}
	p.head++
	switch {
	case p.head == len(p.list):
		p.list, p.head = p.list[:0], 0
	case p.head > 1024 && 2*p.head > len(p.list):
		n := copy(p.list, p.list[p.head:])
		clear(p.list[n:])
		p.list, p.head = p.list[:n], 0
	}
}

// find returns the proposal z, nil if it is not there.
func (p *proposals) find(z zk.Zxid) *proposal {
	if p.len() == 0 || z < p.front().Zxid {
		return nil
	}
	if i := uint64(z - p.front().Zxid); i < uint64(p.len()) {
		return &p.list[p.head+int(i)]
	}
	return nil
}

func (p *proposals) entries() []Entry {
	es := make([]Entry, 0, p.len())
	for _, q := range p.list[p.head:] {
		es = append(es, q.Entry)
	}
	return es
}
