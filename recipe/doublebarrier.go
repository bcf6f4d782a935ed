package recipe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// A DoubleBarrier lets a number of processes begin together and end together (the
// recipes page, "Double Barriers"; the paper, 2.4). Enter returns when that many
// are there, and Leave when all of them have left or died. It can be used again
// and again: processes that come for the next round wait until the present one is over,
// unless they make it a larger one, see Enter.
//
// A DoubleBarrier is one process. Its methods must not be called at the same time,
// and Leave follows an Enter that has succeeded. Processes are children
// "p-<guid>-<sequence>" of the barrier, ephemeral, so that no process
// waits for one that has died. The child "ready" says that the barrier is open. It holds the
// highest sequence number that may pass, a GUID that names the round, and
// the process with the lowest number: the processes up to the highest are the round,
// and those above it are not. That is what the page lacks to be used more than once.
type DoubleBarrier struct {
	client Client
	path   string
	number int
	opts   DoubleBarrierOptions

	name  string // of this process' znode; "" outside
	own   int32  // its number
	round string // names the round, once inside
	limit int32  // the last that was seen of that round
	first string // the process with the lowest number when it was entered
}

// DoubleBarrierOptions are what NewDoubleBarrier may be told.
type DoubleBarrierOptions struct {
	ACL []zk.ACL // of znodes that are created; nil is world:anyone:cdrwa
}

// ErrNotEntered is the error of Leave without an Enter, ErrEntered that of an Enter
// inside.
var (
	ErrNotEntered = errors.New("recipe: not inside of the double barrier")
	ErrEntered    = errors.New("recipe: inside of the double barrier already")
)

// NewDoubleBarrier returns a process' view of the double barrier at a path, for a
// number of processes. All that use the barrier must agree on the number. Nothing
// is created.
func NewDoubleBarrier(c Client, path string, number int, opts DoubleBarrierOptions) *DoubleBarrier {
	return &DoubleBarrier{client: c, path: path, number: number, opts: opts}
}

// Enter registers this process, and returns when the barrier is open to it: in
// one transaction, the last to come makes "ready" and makes sure that as many as
// are needed are still there. So no process passes before that many were registered
// at the same time. Later some of them may die; the others pass all the same.
//
// A process that comes too late for the round of an open barrier joins the round if
// it and the processes that have not left are enough, as the page has it. Otherwise
// it waits for the next.
//
// When the context ends, the process is taken back and the error is the context's;
// others may have counted it, and pass. The other errors are that the session
// has ended, and zk.ErrNoNode when there are enough others, and another client has
// deleted this process' znode.
func (b *DoubleBarrier) Enter(ctx context.Context) error {
	if b.name != "" {
		return ErrEntered
	}
	guid := newGUID()
	name, stat, err := createFindable(ctx, b.client, b.path, processName(guid), guid, nil, b.opts.ACL)
	if err != nil {
		return err
	}
	b.name, b.own = name, numberOf(name)
	if err = b.enter(ctx, zk.SessionID(stat.EphemeralOwner)); err != nil {
		b.name = ""
		takeBack(ctx, b.client, b.path, guid)
	}
	return err
}

// enter waits until the barrier is open to the process that session has registered.
// The Client may begin another session, which has no registration.
func (b *DoubleBarrier) enter(ctx context.Context, session zk.SessionID) error {
	for woken := false; ; woken = true {
		r, w, err := b.ready(ctx, woken)
		if err != nil {
			return err
		}
		if b.client.SessionID() != session {
			forget(ctx, w)
			return fmt.Errorf("recipe: %s: %w", join(b.path, b.name), zk.ErrSessionExpired)
		}
		if r.exists && !after(b.own, r.limit) {
			b.round, b.limit, b.first = r.round, r.limit, r.first
			forget(ctx, w)
			return nil
		}
		names, err := b.enough(ctx)
		switch {
		case errors.Is(err, zk.ErrNoNode) && b.client.SessionID() != session:
			forget(ctx, w)
			continue
		case err != nil:
			forget(ctx, w)
			return err
		case names == nil:
			err = await(ctx, w)
		default:
			err = b.open(ctx, r, names)
			forget(ctx, w)
		}
		if err != nil {
			return err
		}
	}
}

// enough lists the processes if there are as many as are needed, and is nil
// otherwise. The children are counted first: all but the last to come need no list.
func (b *DoubleBarrier) enough(ctx context.Context) (names []string, err error) {
	var stat zk.Stat
	stat, _, err = statOf(ctx, b.client, b.path)
	if err != nil || int(stat.NumChildren) < b.number {
		return nil, err
	}
	names, err = b.processes(ctx)
	switch {
	case err != nil:
		return nil, err
	case !slices.Contains(names, b.name):
		return nil, fmt.Errorf("recipe: %s: %w", join(b.path, b.name), zk.ErrNoNode)
	case len(names) < b.number:
		return nil, nil
	}
	return names, nil
}

// readyNode is what "ready" says. It is deleted by the last process of its round
// alone, together with that process' znode; when all die inside, it stays, and the
// next round overwrites it. So its version and a process of its round, checked
// together, say that it is as it was.
type readyNode struct {
	exists  bool
	limit   int32
	round   string
	first   string
	version int32
}

func (b *DoubleBarrier) readyPath() string { return join(b.path, "ready") }

// ready reads "ready", and leaves a watch for any change of it. Whether it is
// likely to exist decides what is asked first.
func (b *DoubleBarrier) ready(ctx context.Context, likely bool) (r readyNode, w *client.Watch, err error) {
	if !likely {
		var exists bool
		err = retry(ctx, func() error {
			_, exists, w, err = b.client.ExistsW(ctx, b.readyPath())
			return err
		})
		if err != nil || !exists {
			return r, w, err
		}
		forget(ctx, w)
	}
	v, w, err := readW(ctx, b.client, b.readyPath())
	if err == nil && v.Exists {
		err = r.parse(v.Data, v.Stat)
	}
	return r, w, err
}

// present reads "ready" without a watch.
func (b *DoubleBarrier) present(ctx context.Context) (r readyNode, err error) {
	var data []byte
	var stat zk.Stat
	data, stat, err = dataOf(ctx, b.client, b.readyPath())
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return r, nil
	case err != nil:
		return r, err
	}
	return r, r.parse(data, stat)
}

func (r *readyNode) parse(data []byte, stat zk.Stat) error {
	limit, rest, _ := strings.Cut(string(data), " ")
	r.round, r.first, _ = strings.Cut(rest, " ")
	r.exists, r.version = true, stat.Version
	n, err := strconv.ParseInt(limit, 10, 32)
	if err != nil || r.first == "" {
		return fmt.Errorf("recipe: ready of a double barrier: %q is none of ours", data)
	}
	r.limit = int32(n)
	return nil
}

// processes lists the processes by their sequence numbers.
func (b *DoubleBarrier) processes(ctx context.Context) (names []string, err error) {
	names, err = childNames(ctx, b.client, b.path)
	return inOrder(names), err
}

// processName is what a process' znode is called before its number.
func processName(guid string) string { return "p-" + guid + "-" }

// parseProcess reads the number of a process' znode.
func parseProcess(name string) (int32, bool) {
	rest, ok := strings.CutPrefix(name, "p-")
	_, number, _ := strings.Cut(rest, "-") // the GUID has none
	n, valid := parseSequence(number)
	return n, ok && valid
}

// numberOf is the number of a process that is one.
func numberOf(name string) int32 {
	n, _ := parseProcess(name)
	return n
}

// after reports whether a came after b. Numbers wrap, so their difference counts.
func after(a, b int32) bool { return a-b > 0 }

// inOrder sorts the processes among the children of a barrier, and drops the rest.
func inOrder(names []string) []string {
	names = slices.DeleteFunc(names, func(n string) bool {
		_, ok := parseProcess(n)
		return !ok
	})
	slices.SortFunc(names, func(a, b string) int { return int(numberOf(a) - numberOf(b)) })
	return names
}

// open makes "ready" for the processes that were seen, if as many as are needed
// are still there, and if ready is as it was seen. Otherwise nothing happens, and
// the caller looks again.
func (b *DoubleBarrier) open(ctx context.Context, r readyNode, names []string) error {
	round := r.round
	if !r.exists || after(numberOf(names[0]), r.limit) { // no process of r's round is left
		round = newGUID()
	}
	t := b.client.Txn()
	t.Check(join(b.path, b.name), -1)
	others := max(b.number-1, 1) // the first of them, if it is of r's round, says that r is not over
	for _, n := range names {
		if n != b.name && others > 0 {
			t.Check(join(b.path, n), -1)
			others--
		}
	}
	data := fmt.Appendf(nil, "%d %s %s", numberOf(names[len(names)-1]), round, names[0])
	if r.exists {
		t.Set(b.readyPath(), data, r.version)
	} else {
		t.Create(b.readyPath(), data, zk.Persistent, b.opts.ACL)
	}
	return lookAgain(ctx, t.Commit(ctx))
}

// Leave removes this process, and returns when no process of its round is inside.
// Steps are those of the page: the process with the lowest sequence number waits
// for the highest; all others delete their znodes, and wait for the lowest. So a
// deletion wakes one process, and the last wakes all. The last one deletes "ready"
// together with its znode. A process that was not the lowest when the barrier was
// opened deletes its znode without listing the others: if the lowest has died, this
// process may be the lowest now, but no other process waits longer for that.
//
// When the context ends, the process is out, and the error is the context's. After
// another error, which is that of a session that has ended, it is out too.
func (b *DoubleBarrier) Leave(ctx context.Context) error {
	if b.name == "" {
		return ErrNotEntered
	}
	own := join(b.path, b.name)
	err := b.leave(ctx)
	if err != nil {
		background(ctx, func(ctx context.Context) { deleteIfThere(ctx, b.client, own) }) // fails at the session's end alone
	}
	b.name = ""
	return err
}

func (b *DoubleBarrier) leave(ctx context.Context) error {
	own := join(b.path, b.name)
	if b.name != b.first {
		if err := deleteIfThere(ctx, b.client, own); err != nil {
			return err
		}
		if err := waitGone(ctx, b.client, join(b.path, b.first)); err != nil {
			return err
		}
	}
	for {
		r, names, err := b.inside(ctx)
		if err != nil {
			return err
		}
		at := slices.Index(names, b.name)
		var wait string
		switch {
		case len(names) == 0:
			return nil // the ready of a last process that died is harmless
		case len(names) == 1 && at == 0:
			if err := b.last(ctx, r); err != nil {
				return err
			}
			continue
		case at == 0:
			wait = names[len(names)-1]
		default:
			if at > 0 {
				if err := deleteIfThere(ctx, b.client, own); err != nil {
					return err
				}
			}
			wait = names[0]
		}
		if err := waitGone(ctx, b.client, join(b.path, wait)); err != nil {
			return err
		}
	}
}

// inside lists the processes that are left of this process' round. r is ready if that
// is still the round's; it is not read when none is left.
func (b *DoubleBarrier) inside(ctx context.Context) (r readyNode, names []string, err error) {
	if names, err = b.processes(ctx); err != nil || len(names) == 0 {
		return r, nil, err
	}
	if r, err = b.present(ctx); err != nil {
		return r, nil, err
	}
	if r.exists = r.exists && r.round == b.round; r.exists {
		b.limit = r.limit
	}
	names = slices.DeleteFunc(names, func(n string) bool { return after(numberOf(n), b.limit) })
	return r, names, nil
}

// last takes out the last process of the round, and ready with it. When that
// fails because ready has changed, or because it was done, the caller looks again.
func (b *DoubleBarrier) last(ctx context.Context, r readyNode) error {
	t := b.client.Txn()
	t.Delete(join(b.path, b.name), -1)
	if r.exists {
		t.Delete(b.readyPath(), r.version)
	}
	return lookAgain(ctx, t.Commit(ctx))
}

// lookAgain forgives the errors of a transaction that came too late, and of one
// whose answer was lost: the caller reads the state again.
func lookAgain(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNodeExists), errors.Is(err, zk.ErrBadVersion),
		errors.Is(err, zk.ErrConnectionLoss) && ctx.Err() == nil:
		return nil
	}
	return ended(ctx, err)
}
