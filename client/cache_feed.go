package client

import (
	"container/list"

	"github.com/pinfold-zk/pinfold/zk"
)

// A Change is a step from one state of a Cache to the next.
type Change struct {
	// Type is zk.EventNodeCreated, zk.EventNodeDataChanged or
	// zk.EventNodeDeleted.
	Type zk.EventType
	Path string
	Data []byte  // the newest; of a deleted znode the last that was known. Not to be changed.
	Stat zk.Stat // as Data

	// Zxid says how far the reader is: with this change and those before it, it
	// has all changes up to Zxid. It grows from time to time, not with each.
	Zxid zk.Zxid
}

// A feed is the changes that an iterator has not taken. The Cache's mu guards
// it, but for wake.
//
// Invariant: of a path there is at most a deletion, followed by at most a
// creation; or else at most one change of data. An iterator that has taken all
// knows the tree of the Cache.
type feed struct {
	queue list.List // of *Change
	paths map[string]*waiting
	zxid  zk.Zxid
	wake  chan struct{} // has room for one
}

// waiting is the changes of a path that are in the queue.
type waiting struct{ created, changed, deleted *list.Element }

func newFeed() *feed { return &feed{paths: map[string]*waiting{}, wake: make(chan struct{}, 1)} }

// add appends a change, joined with those of its path that wait.
func (f *feed) add(c Change) {
	w := f.paths[c.Path]
	if w == nil {
		w = &waiting{}
		f.paths[c.Path] = w
	}
	switch c.Type {
	case zk.EventNodeCreated:
		w.created = f.queue.PushBack(&c)
	case zk.EventNodeDataChanged:
		switch {
		case w.created != nil:
			newer(w.created, &c)
		case w.changed != nil:
			newer(w.changed, &c)
		default:
			w.changed = f.queue.PushBack(&c)
		}
	case zk.EventNodeDeleted:
		if w.created != nil { // it is not known
			f.queue.Remove(w.created)
			w.created = nil
			break
		}
		if w.changed != nil {
			f.queue.Remove(w.changed)
			w.changed = nil
		}
		w.deleted = f.queue.PushBack(&c)
	}
	f.forget(c.Path, w)
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// newer gives a change that waits the data of a later one.
func newer(e *list.Element, c *Change) {
	old := e.Value.(*Change)
	old.Data, old.Stat = c.Data, c.Stat
}

func (f *feed) forget(path string, w *waiting) {
	if *w == (waiting{}) {
		delete(f.paths, path)
	}
}

// take removes the oldest change.
func (f *feed) take() (Change, bool) {
	e := f.queue.Front()
	if e == nil {
		return Change{}, false
	}
	c := f.queue.Remove(e).(*Change)
	w := f.paths[c.Path]
	switch e {
	case w.created:
		w.created = nil
	case w.changed:
		w.changed = nil
	case w.deleted:
		w.deleted = nil
	}
	f.forget(c.Path, w)
	return *c, true
}

// subscribe makes a feed that begins with what is there.
func (k *Cache) subscribe() *feed {
	k.mu.Lock()
	defer k.mu.Unlock()
	f := newFeed()
	k.tree.walk(func(path string, n *cacheNode) {
		f.add(Change{Type: zk.EventNodeCreated, Path: path, Data: n.data, Stat: n.stat})
	})
	k.feeds[f] = struct{}{}
	return f
}

func (k *Cache) unsubscribe(f *feed) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.feeds, f)
}

// pull takes a change for an iterator. A Cache that has ended has none.
func (k *Cache) pull(f *feed) (Change, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.tree.nodes == nil {
		return Change{}, false
	}
	c, ok := f.take()
	if ok && f.queue.Len() == 0 {
		f.zxid = k.zxid
	}
	c.Zxid = f.zxid
	return c, ok
}

// tell appends a change to the queues of all iterators.
func (k *Cache) tell(t zk.EventType, path string, n *cacheNode) {
	for f := range k.feeds {
		f.add(Change{Type: t, Path: path, Data: n.data, Stat: n.stat})
	}
}
