package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// A znode is what a scanner has read of one.
type znode struct {
	path     string
	depth    int // 0 for the root of the scan
	stat     zk.Stat
	data     []byte        // with scanOptions.data; nil if the znode has null
	acl      []zk.ACL      // with scanOptions.acl
	children []string      // sorted; none at the greatest depth
	watch    *client.Watch // on the list of children, with scanOptions.watch

	// err is why something could not be read, usually zk.ErrNoAuth. What could
	// not is empty, the Stat too: servers refuse it with the data.
	err error
}

// scanOptions say what a scan reads, and how far it goes.
type scanOptions struct {
	data, acl bool
	watch     bool                   // leave a watch on each list of children; those of a scan that ends early may be lost
	depth     int                    // greatest, from 0 for the root alone; negative for no limit
	leaveOut  func(path string) bool // a znode not to visit, nor all below it
	visited   func(n int)            // called with the number of znodes visited since; may be nil
}

// The limits of a scan.
const (
	maxAsked  = 256      // znodes asked for at once
	maxHeld   = 32 << 20 // bytes read ahead of their turn, and bytes asked for at once as far as they can be guessed
	minAsked  = 4        // znodes asked for at once, however large
	maxLosses = 8        // connections in a row that break over one znode
	entrySize = 256      // bytes that a znode costs beside names and data
)

// A scanner visits a znode and all below it in the order of comparePaths. It
// asks for many znodes at once, those that come first in the order first, and
// holds a bounded number of bytes ahead of their turn; the names of the children
// of the znodes above the present one it must hold all.
//
// A scan is no snapshot. Znodes that vanish before they are read are left out and
// counted; a znode that is created where the scanner has passed is not seen. A lost
// connection does not end the scan while the session lives.
//
// A scanner is used by one goroutine.
type scanner struct {
	ctx  context.Context
	c    *client.Client
	opt  scanOptions
	root string

	todo  queue[*family] // not asked for yet
	order queue[*entry]  // asked for, and not visited yet
	ready queue[*entry]  // those of order that have been answered in full
	done  *answers[scanned]
	asked int // entries of order that are not ready
	held  int // bytes in ready
	large int // bytes of the larger answers of late

	vanished int // znodes that were listed, and gone when they were to be read
	refused  int // znodes with an err
	seen     int
}

// A family is children of one znode whose turn to be asked for is to come.
type family struct {
	parent string
	names  []string // sorted; the first is next
	next   string   // the path of the first
	depth  int
}

func (s *family) pathOf() string { return s.next }

// entry is a znode that has been asked for.
type entry struct {
	znode
	waits  int // operations under way
	losses int
	gone   bool
}

func (e *entry) pathOf() string { return e.path }

func (e *entry) size() int {
	n := entrySize + len(e.data)
	for _, name := range e.children {
		n += len(name) + 16
	}
	return n
}

// what an operation of a scan asks for.
type what int

const (
	askData what = iota
	askChildren
	askACL
	askStat
)

// scanned is the answer to one operation.
type scanned struct {
	e        *entry
	what     what
	stat     zk.Stat
	data     []byte
	children []string
	watch    *client.Watch
	acl      []zk.ACL
	err      error
}

// newScanner begins a scan; nothing is asked before next.
func newScanner(ctx context.Context, c *client.Client, root string, opt scanOptions) *scanner {
	sc := &scanner{ctx: ctx, c: c, opt: opt, root: root, done: newAnswers[scanned]()}
	sc.todo.push(&family{names: []string{root}, next: root})
	return sc
}

// each calls visit for all the znodes that next returns, until visit returns an
// error, or next one that is not io.EOF; that is the error of each.
func (sc *scanner) each(visit func(z *znode) error) error {
	for {
		z, err := sc.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = visit(z)
		}
		if err != nil {
			return err
		}
	}
}

// eachUp is each, but visits a znode after all that is below it.
func (sc *scanner) eachUp(visit func(z *znode) error) error {
	var above []*znode // those whose turn is to come, each below the one before
	leave := func(depth int) error {
		for n := len(above); n > depth; n = len(above) {
			z := above[n-1]
			above = above[:n-1]
			if err := visit(z); err != nil {
				return err
			}
		}
		return nil
	}
	err := sc.each(func(z *znode) error {
		err := leave(z.depth)
		above = append(above, z)
		return err
	})
	if err != nil {
		return err
	}
	return leave(0)
}

// next returns the next znode, which the caller owns; io.EOF after the last. A
// root that does not exist is zk.ErrNoNode. Other errors end the scan: those of
// the session and of the context.
func (sc *scanner) next() (*znode, error) {
	for {
		sc.ask()
		if len(sc.order) == 0 {
			return nil, io.EOF
		}
		for len(sc.ready) > 0 && sc.ready.first() == sc.order.first() && !sc.todoBefore(sc.order.first()) {
			e := sc.order.pop()
			sc.ready.pop()
			sc.held -= e.size()
			if e.gone {
				sc.vanished++
				continue
			}
			sc.seen++
			if e.err != nil {
				sc.refused++
			}
			if sc.opt.visited != nil {
				sc.opt.visited(1)
			}
			return &e.znode, nil
		}
		if sc.asked == 0 {
			continue // what was visited or gone has made room
		}
		if err := sc.collect(); err != nil {
			return nil, err
		}
	}
}

func (sc *scanner) todoBefore(e *entry) bool {
	return len(sc.todo) > 0 && comparePaths(sc.todo.first().next, e.path) < 0
}

// ask starts operations for as many znodes as the limits allow. What comes before
// all that is held may always be asked for, as what is held waits for it.
func (sc *scanner) ask() {
	for len(sc.todo) > 0 && sc.asked < max(minAsked, min(maxAsked, maxHeld/max(sc.large, 1))) {
		s := sc.todo.first()
		if sc.held > maxHeld && comparePaths(s.next, sc.ready.first().path) > 0 {
			return
		}
		e := &entry{znode: znode{path: s.next, depth: s.depth}}
		if s.names = s.names[1:]; len(s.names) == 0 {
			sc.todo.pop()
		} else {
			s.next = childPath(s.parent, s.names[0])
			sc.todo.settle()
		}
		if sc.opt.leaveOut != nil && sc.opt.leaveOut(e.path) {
			continue
		}
		sc.order.push(e)
		sc.asked++
		switch {
		case sc.opt.data:
			sc.start(e, askData)
		case sc.deepest(e):
			sc.start(e, askStat)
		default:
			sc.start(e, askChildren)
		}
		if sc.opt.acl {
			sc.start(e, askACL)
		}
	}
}

func (sc *scanner) deepest(e *entry) bool { return sc.opt.depth >= 0 && e.depth >= sc.opt.depth }

// start starts one operation for e.
func (sc *scanner) start(e *entry, ask what) {
	e.waits++
	a := scanned{e: e, what: ask}
	switch ask {
	case askData:
		sc.c.GetAsync(sc.ctx, e.path, func(data []byte, stat zk.Stat, err error) {
			a.data, a.stat, a.err = bytes.Clone(data), stat, err
			sc.done.put(a)
		})
	case askChildren:
		if sc.opt.watch {
			sc.c.ChildrenWAsync(sc.ctx, e.path, func(names []string, stat zk.Stat, w *client.Watch, err error) {
				a.children, a.stat, a.watch, a.err = names, stat, w, err
				sc.done.put(a)
			})
			return
		}
		sc.c.ChildrenAsync(sc.ctx, e.path, func(names []string, stat zk.Stat, err error) {
			a.children, a.stat, a.err = names, stat, err
			sc.done.put(a)
		})
	case askACL:
		sc.c.GetACLAsync(sc.ctx, e.path, func(acl []zk.ACL, _ zk.Stat, err error) {
			a.acl, a.err = acl, err
			sc.done.put(a)
		})
	case askStat:
		sc.c.ExistsAsync(sc.ctx, e.path, func(stat zk.Stat, exists bool, err error) {
			if a.stat, a.err = stat, err; err == nil && !exists {
				a.err = zk.ErrNoNode
			}
			sc.done.put(a)
		})
	}
}

// collect waits for answers and takes them in.
func (sc *scanner) collect() error {
	list, err := sc.done.take(sc.ctx)
	if err != nil {
		return err
	}
	sc.large -= sc.large / 8
	for i := range list {
		if err := sc.takeIn(&list[i]); err != nil {
			return err
		}
	}
	return nil
}

// takeIn notes an answer, and starts what it shows to be needed.
func (sc *scanner) takeIn(a *scanned) error {
	e := a.e
	e.waits--
	switch {
	case a.err == nil:
		e.losses = 0
		if err := sc.note(a); err != nil {
			return err
		}
	case isFatal(a.err) || sc.ctx.Err() != nil:
		return a.err
	case errors.Is(a.err, zk.ErrConnectionLoss):
		if e.losses++; e.losses > maxLosses {
			return fmt.Errorf("%w: %d connections in a row broke over it", a.err, e.losses)
		}
		sc.start(e, a.what)
	case errors.Is(a.err, zk.ErrNoNode) && e.path == sc.root:
		return a.err
	case errors.Is(a.err, zk.ErrNoNode):
		e.gone = true
	default:
		if e.err == nil {
			e.err = a.err
		}
	}
	if e.waits == 0 {
		sc.finish(e)
	}
	return nil
}

func (sc *scanner) note(a *scanned) error {
	e := a.e
	switch a.what {
	case askData:
		e.data, e.stat = a.data, a.stat
		sc.large = max(sc.large, len(a.data))
		if a.stat.NumChildren > 0 && !sc.deepest(e) && !e.gone {
			sc.start(e, askChildren)
		}
	case askChildren:
		if !sc.opt.data {
			e.stat = a.stat
		}
		for _, name := range a.children {
			if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
				return fmt.Errorf("children of %s: the server names one %q, which cannot be", e.path, name)
			}
		}
		slices.Sort(a.children)
		e.children, e.watch = a.children, a.watch
	case askACL:
		e.acl = a.acl
	case askStat:
		e.stat = a.stat
	}
	return nil
}

// finish makes e ready to be visited, and its children next.
func (sc *scanner) finish(e *entry) {
	sc.asked--
	sc.held += e.size()
	sc.ready.push(e)
	if len(e.children) > 0 && !e.gone {
		sc.todo.push(&family{parent: e.path, names: e.children, next: childPath(e.path, e.children[0]), depth: e.depth + 1})
	}
}

// childPath is the path of a child. A parent of "" makes it the name itself,
// for the root of a scan.
func childPath(parent, name string) string {
	if parent == "" {
		return name
	}
	return strings.TrimSuffix(parent, "/") + "/" + name
}

// relative is the path from root down to path, which is root or below it: "" or
// "/a/b".
func relative(root, path string) string {
	switch {
	case path == root:
		return ""
	case root == "/":
		return path
	}
	return path[len(root):]
}

// place returns the path of rest, a result of relative, below another root.
func place(root, rest string) string {
	switch {
	case rest == "":
		return root
	case root == "/":
		return rest
	}
	return root + rest
}

// isBelow reports whether path is root or below it.
func isBelow(root, path string) bool {
	return path == root || root == "/" || strings.HasPrefix(path, root+"/")
}
