package recipe

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// ErrFull is the error of TryPut when a queue has as many items as it may have.
var ErrFull = errors.New("recipe: the queue is full")

// QueueOptions are what the queues may be told.
type QueueOptions struct {
	// MaxSize bounds the number of items, those that are leased included; 0 is no
	// bound. The bound is exact: if all clients that put items use the same one,
	// there are never more. Its price is that of concurrent Puts one
	// succeeds, and the others look again; and that the data of the queue's znode
	// belongs to the recipe.
	MaxSize int

	ACL []zk.ACL // of znodes that are created; nil is world:anyone:cdrwa
}

// items is a queue of both kinds. Items are persistent sequential children
// "queue-NUMBER" or "queue-PRIORITY-NUMBER" of the queue's znode. An item that is
// leased has an ephemeral znode "lease-" and the item's name beside it. Below
// "markers" are markers.
//
// All changes are transactions with a marker, so that none is lost or made twice
// by a lost answer. The removal of an item creates and deletes its lease, which
// fails when another client has it.
type items struct {
	client Client
	path   string
	opts   QueueOptions
	newest bool // each take is from an up-to-date list of children
	marks  markers

	turn chan struct{} // holds one value, of the goroutine that owns list and watch
	list []string      // what may still be there, the next first
	look *client.Watch // for a change since list was read; nil before the first

	stale atomic.Bool // something was taken off list that may still be there

	mu     sync.Mutex // guards what follows
	kept   [][]byte   // removed for calls that had ended when that became known
	arrive chan struct{}
}

func newItems(c Client, path string, opts QueueOptions, newest bool) *items {
	return &items{
		client: c, path: path, opts: opts, newest: newest,
		marks: markers{client: c, base: join(path, "markers"), acl: opts.ACL},
		turn:  make(chan struct{}, 1), arrive: make(chan struct{}, 1),
	}
}

const (
	itemPrefix  = "queue-"
	leasePrefix = "lease-"
)

// rank is the position of an item in the queue.
type rank struct {
	priority int
	number   int32
}

// parseItem understands the name of an item.
func parseItem(name string) (r rank, ok bool) {
	text, ok := strings.CutPrefix(name, itemPrefix)
	if !ok || text == "" {
		return r, false
	}
	if i := strings.IndexByte(text[1:], '-') + 1; i > 0 {
		p, err := strconv.ParseUint(text[:i], 10, 31)
		if err != nil {
			return r, false
		}
		r.priority, text = int(p), text[i+1:]
	}
	n, err := strconv.ParseInt(text, 10, 32)
	r.number = int32(n)
	return r, err == nil && len(text) >= 10
}

// queued sorts the items among the children of a queue. Numbers wrap, so their
// difference counts.
func queued(children []string) (names []string) {
	ranks := map[string]rank{}
	for _, n := range children {
		if r, ok := parseItem(n); ok {
			ranks[n] = r
			names = append(names, n)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		x, y := ranks[a], ranks[b]
		if x.priority != y.priority {
			return cmp.Compare(x.priority, y.priority)
		}
		return int(x.number - y.number)
	})
	return names
}

// unleased returns the items without a lease.
func unleased(children []string) []string {
	leased := map[string]bool{}
	for _, n := range children {
		if item, ok := strings.CutPrefix(n, leasePrefix); ok {
			leased[item] = true
		}
	}
	return slices.DeleteFunc(queued(children), func(n string) bool { return leased[n] })
}

// children lists the queue's znode, which is made if it is missing, with a watch
// if that is wanted.
func (q *items) children(ctx context.Context, watch bool) (names []string, stat zk.Stat, w *client.Watch, err error) {
	for {
		err = retry(ctx, func() (err error) {
			if watch {
				names, stat, w, err = q.client.ChildrenW(ctx, q.path)
			} else {
				names, stat, err = q.client.Children(ctx, q.path)
			}
			return err
		})
		if !errors.Is(err, zk.ErrNoNode) {
			return names, stat, w, err
		}
		if err := makePath(ctx, q.client, q.path, q.opts.ACL); err != nil {
			return nil, stat, nil, err
		}
	}
}

// put adds an item whose name begins with prefix. When the queue is full, it waits
// or fails.
func (q *items) put(ctx context.Context, prefix string, data []byte, wait bool) error {
	for {
		version := int32(-1)
		if q.opts.MaxSize > 0 {
			var err error
			if version, err = q.room(ctx, wait); err != nil {
				return err
			}
		}
		_, err := q.marks.commit(ctx, func(t *client.Txn, _ string) {
			if q.opts.MaxSize > 0 {
				t.Set(q.path, nil, version) // no item was put since they were counted
			}
			t.Create(join(q.path, prefix), data, zk.PersistentSequential, q.opts.ACL)
		}, nil)
		if failure(err) != zk.ErrBadVersion {
			return err
		}
	}
}

// failure is the code of the operation that made a transaction fail.
func failure(err error) zk.Code {
	if e := (*client.TxnError)(nil); errors.As(err, &e) {
		return e.Err
	}
	return zk.OK
}

// room returns the version of the queue's znode when the queue was not full.
func (q *items) room(ctx context.Context, wait bool) (version int32, err error) {
	for watch := false; ; watch = wait {
		names, stat, w, err := q.children(ctx, watch)
		switch {
		case err != nil:
			return 0, err
		case len(queued(names)) < q.opts.MaxSize:
			forget(ctx, w)
			return stat.Version, nil
		case !wait:
			return 0, ErrFull
		case w != nil:
			if err := await(ctx, w); err != nil {
				return 0, err
			}
		}
	}
}

// next returns the first item without a known lease; "" and a watch
// if there is none. sure demands to know of all that was put before the call.
func (q *items) next(ctx context.Context, sure bool) (name string, w *client.Watch, err error) {
	select {
	case q.turn <- struct{}{}:
		defer func() { <-q.turn }()
	case <-ctx.Done():
		return "", nil, context.Cause(ctx)
	}
	if sure && len(q.list) == 0 {
		if err := syncWith(ctx, q.client, q.path); err != nil {
			return "", nil, err
		}
	}
	if q.outdated() {
		names, _, w, err := q.children(ctx, true)
		if err != nil {
			q.stale.Store(true)
			return "", nil, err
		}
		q.list, q.look = unleased(names), w
	}
	if len(q.list) == 0 {
		return "", q.look, nil
	}
	name, q.list = q.list[0], q.list[1:]
	return name, nil, nil
}

// outdated reports whether there must be another list. An event is here before the
// answer of whatever shows the change.
func (q *items) outdated() bool {
	return q.stale.Swap(false) || q.look == nil || (q.newest || len(q.list) == 0) && fired(q.look)
}

// fired reports whether a one-shot watch has told its event.
func fired(w *client.Watch) bool {
	select {
	case <-w.Events():
		return true
	default:
		return false
	}
}

// choose returns the first item that claim succeeds for, and its data. claim fails
// with zk.ErrNoNode or zk.ErrNodeExists of a transaction if another has it. ok is
// false if there is none, and wait is not set, or if arrive says so.
func (q *items) choose(ctx context.Context, wait bool, arrive <-chan struct{}, claim func(name string, data []byte) error) (ok bool, err error) {
	for {
		name, w, err := q.next(ctx, !wait)
		if err != nil || name == "" && !wait {
			return false, err
		}
		if name == "" {
			select {
			case <-w.Events():
			case <-arrive:
				return false, nil
			case <-ctx.Done():
				return false, context.Cause(ctx)
			}
			continue
		}
		var data []byte
		data, _, err = dataOf(ctx, q.client, join(q.path, name))
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		if err == nil {
			err = claim(name, data)
		}
		if code := failure(err); code == zk.ErrNoNode || code == zk.ErrNodeExists {
			continue
		}
		if err != nil {
			q.stale.Store(true)
			return false, err
		}
		return true, nil
	}
}

// take removes the first item.
func (q *items) take(ctx context.Context, wait bool) (item []byte, ok bool, err error) {
	for {
		if item, ok := q.takeKept(); ok {
			return item, true, nil
		}
		ok, err = q.choose(ctx, wait, q.arrive, func(name string, data []byte) error {
			item = data
			path, lease := join(q.path, name), join(q.path, leasePrefix+name)
			_, err := q.marks.commit(ctx, func(t *client.Txn, _ string) {
				t.Create(lease, nil, zk.Persistent, q.opts.ACL)
				t.Delete(lease, -1)
				t.Delete(path, -1)
			}, func(_ context.Context, carriedOut bool) {
				if carriedOut {
					q.keep(data)
				}
			})
			return err
		})
		if err != nil {
			return nil, false, err
		}
		if ok || !wait {
			return item, ok, nil
		}
	}
}

// keep saves an item that was removed after its caller had gone.
func (q *items) keep(item []byte) {
	q.mu.Lock()
	q.kept = append(q.kept, item)
	q.mu.Unlock()
	q.tell()
}

// tell wakes one caller that waits for an item.
func (q *items) tell() {
	select {
	case q.arrive <- struct{}{}:
	default:
	}
}

func (q *items) takeKept() (item []byte, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.kept) == 0 {
		return nil, false
	}
	item, q.kept = q.kept[0], q.kept[1:]
	if len(q.kept) > 0 {
		q.tell()
	}
	return item, true
}

// Take removes the first item and returns it, when there is one. What the end of
// the context has cut off is not lost while this value is there: an item that was
// removed all the same is given to the next Take. When the session
// has ended while the answer was awaited, an item may be lost.
func (q *items) Take(ctx context.Context) ([]byte, error) {
	item, _, err := q.take(ctx, true)
	return item, err
}

// TryTake is Take, and returns false instead of waiting. It sees all items that any
// client had put before the call.
func (q *items) TryTake(ctx context.Context) (item []byte, ok bool, err error) {
	return q.take(ctx, false)
}

// Lease takes out a lease of the first item without a lease, when there
// is one.
func (q *items) Lease(ctx context.Context) (*Lease, error) { return q.lease(ctx, true) }

// TryLease is Lease, and returns nil instead of waiting. It sees all items that any
// client had put before the call.
func (q *items) TryLease(ctx context.Context) (*Lease, error) { return q.lease(ctx, false) }

// Size counts the items, those that are leased included.
func (q *items) Size(ctx context.Context) (int, error) {
	names, _, _, err := q.children(ctx, false)
	return len(queued(names)), err
}
