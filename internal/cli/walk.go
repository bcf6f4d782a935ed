package cli

import (
	"container/heap"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// A visited is a znode that a walk has come to.
type visited struct {
	path  string
	names []string // of its children, sorted
	stat  zk.Stat
	depth int   // 0 for the root of the walk
	err   error // zk.ErrNoAuth: its children may not be read, names is nil
}

// errSkipBelow is what a visit returns to leave out what is below a znode.
var errSkipBelow = errors.New("skip what is below")

// What a walk has under way at most: requests, and lists of children that have
// come and are not visited. The second is more because a list that comes early
// makes place for others.
const (
	walkRequests = 500
	walkLists    = 10_000
)

// walk visits root and all below it: each znode before its children, siblings by
// name, as zkCli.sh's ls -R does. Lists of children are asked for ahead of the
// visits, those first that are visited first. A znode that goes away meanwhile
// is left out, but for the root. visit is called by the caller's goroutine; its
// error ends the walk and is returned.
func walk(ctx context.Context, c *client.Client, root string, visit func(v visited) error) error {
	return walkBoth(ctx, c, root, visit, func(visited) error { return nil })
}

// walkBoth is walk, and calls leave for each znode behind all that is below it:
// for those whose visit returned nil or errSkipBelow.
func walkBoth(ctx context.Context, c *client.Client, root string, visit, leave func(v visited) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop() // nobody waits for what was asked for in vain
	w := &walker{ctx: client.NoWait(ctx), c: c, limit: walkLists}
	top := &siblings{names: []string{root}}
	for levels := []*siblings{top}; len(levels) > 0; {
		at := levels[len(levels)-1]
		n, ok := w.next(at)
		if !ok {
			levels = levels[:len(levels)-1]
			if at == top {
				break
			}
			if err := leave(at.of); err != nil {
				return err
			}
			continue
		}
		select {
		case <-n.answered:
		case <-ctx.Done():
			return ctx.Err()
		}
		n.depth = len(levels) - 1
		switch {
		case errors.Is(n.err, zk.ErrNoNode) && n.depth > 0:
			continue
		case n.err != nil && !errors.Is(n.err, zk.ErrNoAuth):
			return n.err
		}
		err := visit(n.visited)
		switch {
		case errors.Is(err, errSkipBelow):
			w.drop(n)
			err = leave(n.visited)
		case err == nil && n.below == nil:
			err = leave(n.visited)
		case err == nil:
			n.below.of = n.visited
			levels = append(levels, n.below)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// A walker asks for lists of children. Its methods are called by the walk and
// by the client's callbacks.
type walker struct {
	ctx   context.Context
	c     *client.Client
	limit int // of lists

	mu struct {
		sync.Mutex
		asking   askingOrder // what there is to ask for
		requests int         // under way
		lists    int         // asked for and not visited
	}
}

// siblings are the children of a znode; they are asked for and visited in order.
type siblings struct {
	of      visited // the parent, once it is visited
	parent  string
	names   []string
	asked   int     // of names, those before it have been asked for
	nodes   []*node // asked for and not yet visited, in order
	dropped bool    // nobody will visit them
	key     string  // place in the order of visits of the next to ask for
}

// A node is a znode whose children have been asked for.
type node struct {
	visited                // complete when answered is closed
	below    *siblings     // its children; nil if it has none
	answered chan struct{} // closed with the answer
	done     bool          // as answered, under the walker's lock
	dropped  bool          // nobody will visit it
}

// next takes the next of the siblings to visit; ok is false if there is none.
func (w *walker) next(at *siblings) (n *node, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(at.nodes) == 0 && at.asked == len(at.names) {
		return nil, false
	}
	if len(at.nodes) == 0 {
		w.askLocked(at)
	}
	n, at.nodes = at.nodes[0], at.nodes[1:]
	w.mu.lists--
	w.fillLocked()
	return n, true
}

// fillLocked asks for as much as there may be under way.
//
// REQUIRES: w.mu.
func (w *walker) fillLocked() {
	for w.mu.requests < walkRequests && w.mu.lists < w.limit && len(w.mu.asking) > 0 {
		at := w.mu.asking[0]
		if !at.dropped && at.asked < len(at.names) {
			w.askLocked(at)
		}
		if at.dropped || at.asked == len(at.names) {
			heap.Pop(&w.mu.asking)
			continue
		}
		at.place()
		heap.Fix(&w.mu.asking, 0)
	}
}

// askLocked asks for the children of the next of at.
//
// REQUIRES: w.mu.
func (w *walker) askLocked(at *siblings) {
	n := &node{answered: make(chan struct{})}
	n.path = childPath(at.parent, at.names[at.asked])
	at.asked++
	at.nodes = append(at.nodes, n)
	w.mu.requests++
	w.mu.lists++
	w.c.ChildrenAsync(w.ctx, n.path, func(names []string, stat zk.Stat, err error) {
		slices.Sort(names)
		n.names, n.stat, n.err = names, stat, err
		w.answered(n)
	})
}

// answered enters a list of children that has come.
func (w *walker) answered(n *node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.requests--
	n.done = true
	if len(n.names) > 0 && !n.dropped {
		n.below = &siblings{parent: n.path, names: n.names}
		n.below.place()
		heap.Push(&w.mu.asking, n.below)
	}
	close(n.answered)
	w.fillLocked()
}

// drop forgets what is below n.
func (w *walker) drop(n *node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dropLocked(n)
	w.fillLocked()
}

// REQUIRES: w.mu.
func (w *walker) dropLocked(n *node) {
	n.dropped = true
	if n.below == nil {
		return
	}
	n.below.dropped = true
	for _, child := range n.below.nodes {
		w.mu.lists--
		w.dropLocked(child)
	}
	n.below.nodes = nil
}

// place computes the key.
func (s *siblings) place() {
	s.key = strings.ReplaceAll(childPath(s.parent, s.names[s.asked]), "/", "\x00")
}

// askingOrder is a heap of siblings: that one first whose next is visited first.
type askingOrder []*siblings

// Len, Less, Swap, Push and Pop are container/heap's.
func (a askingOrder) Len() int           { return len(a) }
func (a askingOrder) Less(i, j int) bool { return a[i].key < a[j].key }
func (a askingOrder) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }
func (a *askingOrder) Push(x any)        { *a = append(*a, x.(*siblings)) }
func (a *askingOrder) Pop() any {
	last := len(*a) - 1
	s := (*a)[last]
	(*a)[last] = nil
	*a = (*a)[:last]
	return s
}

// childPath is the path of a child. A parent of "" makes it the name itself,
// for the root of a walk.
func childPath(parent, name string) string {
	if parent == "" {
		return name
	}
	return strings.TrimSuffix(parent, "/") + "/" + name
}
