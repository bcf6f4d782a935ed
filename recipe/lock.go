package recipe

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pinfold-zk/pinfold/zk"
)

// A LockOption changes what a lock does if nothing is said.
type LockOption func(*lockOptions)

type lockOptions struct {
	data      []byte
	acl       []zk.ACL
	names     NodeNames
	oneFamily bool // RefuseOtherNames
	reentrant bool
	impatient bool
	revocable bool
}

// patience is how long a holder is sure of its session without a connection.
func (o *lockOptions) patience(c Client) time.Duration {
	if o.impatient {
		return 0
	}
	return c.SessionTimeout() / 3
}

// HolderData is what a contender says of itself, for Contenders: a host's name, say.
// Without it, nothing. The data must not be changed later.
func HolderData(data []byte) LockOption { return func(o *lockOptions) { o.data = data } }

// LockACL is the ACL of the znodes that the lock makes. It must let all contenders
// read each other's znodes, and create and delete below the lock's. Without it,
// the ACL is world:anyone:cdrwa.
func LockACL(acl []zk.ACL) LockOption { return func(o *lockOptions) { o.acl = acl } }

// UseNames sets the names of the znodes, for locks that other libraries use as well.
// The default is CuratorNames.
func UseNames(n NodeNames) LockOption { return func(o *lockOptions) { o.names = n } }

// LoseWhenSuspended makes Held.Lost close as soon as the connection is lost, and
// not only when the session may have ended without it: for holders that would
// rather stop once too often.
func LoseWhenSuspended() LockOption { return func(o *lockOptions) { o.impatient = true } }

// Reentrant makes the value of a lock its owner: Lock on a value that has the lock
// succeeds at once, and the same number of Unlocks releases it. In Go a goroutine
// has no name, so all goroutines that use one value are one owner. Without it, each
// Lock queues for itself, also against the others of the same value.
//
// An RWLock that writes admits its own readers, which count as writers until the last
// of them has unlocked; one that reads refuses to write with ErrUpgrade, as it would wait
// for itself. A lost lock is not reused: Lock joins the queue again.
func Reentrant() LockOption { return func(o *lockOptions) { o.reentrant = true } }

// A Lock is held by one client at a time, in the order in which they asked. It is
// the paper's "Simple Locks without Herd Effect" (2.4), and "Locks" of the recipes
// page: each contender has an ephemeral sequential znode below the lock's and
// watches the one before it, so that a release wakes one other.
//
// The methods of a Lock may be called from any number of goroutines.
type Lock struct{ queue queue }

// NewLock is a lock at a path. It asks the servers for nothing.
func NewLock(c Client, path string, opts ...LockOption) *Lock {
	return &Lock{newQueue(c, path, mutexKind, mutexKind, opts)}
}

// Lock waits for the lock. When the context ends first, or with another error,
// nothing stays of the wait: the znode is deleted, in the background if there is no
// connection. The error is the context's; zk.ErrSessionExpired; ErrLost when the
// znode was deleted by another client; or what the servers refuse.
func (l *Lock) Lock(ctx context.Context) (*Held, error) { return l.queue.lock(ctx, false, true) }

// TryLock is Lock without waiting: ErrHeld says that the lock is
// held, or that others wait for it.
func (l *Lock) TryLock(ctx context.Context) (*Held, error) { return l.queue.lock(ctx, false, false) }

// Contenders are the holders of the lock and the clients that wait for it, in order. The list
// may be outdated when it is returned.
func (l *Lock) Contenders(ctx context.Context) ([]Contender, error) { return l.queue.contenders(ctx) }

// queue is the line below a lock's znode, and our side of it.
type queue struct {
	c          Client
	path       string
	opts       lockOptions
	alone      lockKind // kind of our exclusive znodes
	shared     lockKind
	turn       chan struct{} // holds one value while a goroutine decides, when it is Reentrant
	mine, read *share        // guarded by turn, when Reentrant
}

func newQueue(c Client, path string, alone, shared lockKind, opts []LockOption) queue {
	q := queue{c: c, path: path, alone: alone, shared: shared, turn: make(chan struct{}, 1)}
	for _, o := range opts {
		o(&q.opts)
	}
	return q
}

func (q *queue) contenders(ctx context.Context) ([]Contender, error) {
	list, err := contenders(ctx, q.c, q.path)
	if err != nil {
		return nil, fmt.Errorf("recipe: contenders for %s: %w", q.path, err)
	}
	return list, nil
}

func (q *queue) lock(ctx context.Context, shared, wait bool) (*Held, error) {
	h, err := q.get(ctx, shared, wait)
	if err != nil {
		return nil, fmt.Errorf("recipe: lock %s: %w", q.path, err)
	}
	return h, nil
}

// get is lock without the name of the lock in its error.
func (q *queue) get(ctx context.Context, shared, wait bool) (*Held, error) {
	if !q.opts.reentrant {
		cl, err := q.acquire(ctx, shared, wait)
		return &Held{lock: q.path, claim: cl}, err
	}
	if wait {
		select {
		case q.turn <- struct{}{}:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	} else {
		select {
		case q.turn <- struct{}{}:
		default:
			return nil, ErrHeld
		}
	}
	defer func() { <-q.turn }()
	if q.mine.join() {
		return &Held{lock: q.path, claim: q.mine.claim, share: q.mine}, nil
	}
	if shared && q.read.join() {
		return &Held{lock: q.path, claim: q.read.claim, share: q.read}, nil
	}
	if q.read.held() {
		return nil, ErrUpgrade
	}
	cl, err := q.acquire(ctx, shared, wait)
	if err != nil {
		return nil, err
	}
	s := &share{claim: cl, count: 1}
	if shared {
		q.read = s
	} else {
		q.mine = s
	}
	return &Held{lock: q.path, claim: cl, share: s}, nil
}

// A share is a claim that one owner has several times.
type share struct {
	claim *claim
	mu    sync.Mutex // guards count
	count int
}

// join takes the claim once more, if it is held and not lost.
func (s *share) join() bool {
	if s == nil || s.claim.err() != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count == 0 {
		return false
	}
	s.count++
	return true
}

// held reports whether the claim is held and not lost.
func (s *share) held() bool {
	if s == nil || s.claim.err() != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count > 0
}

// leave reports whether it was the last.
func (s *share) leave() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count--
	return s.count == 0
}

// acquire adds a znode to the queue and returns when it is first. Without wait it
// fails with ErrHeld if it is not first at once.
func (q *queue) acquire(ctx context.Context, shared, wait bool) (*claim, error) {
	if !wait || q.opts.oneFamily { // a queue that is refused gets no znode of ours
		if err := q.look(ctx, shared); err != nil && !(wait && errors.Is(err, ErrHeld)) {
			return nil, err
		}
	}
	kind := q.alone
	if shared {
		kind = q.shared
	}
	guid := q.opts.names.newGUID()
	name, stat, err := createFindable(ctx, q.c, q.path, q.opts.names.name(kind, guid), guid, q.opts.data, q.opts.acl)
	if err != nil {
		return nil, err
	}
	cl := &claim{c: q.c, path: join(q.path, name), stat: stat, revocable: q.opts.revocable}
	cl.start(ctx)
	if err := q.awaitTurn(ctx, cl, name, shared, wait); err != nil {
		cl.leave(ctx) // what it cannot delete now is deleted in the background
		return nil, err
	}
	return cl, nil
}

// look returns ErrHeld if a new contender would have to wait.
func (q *queue) look(ctx context.Context, shared bool) error {
	names, err := q.children(ctx)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if blocker, _ := before(lineOf(names), "", shared); err == nil && blocker != "" {
		return ErrHeld
	}
	return err
}

func (q *queue) children(ctx context.Context) (names []string, err error) {
	names, err = childNames(ctx, q.c, q.path)
	if err == nil && q.opts.oneFamily {
		err = q.checkNames(names)
	}
	return names, err
}

// awaitTurn follows steps 2 to 6 of the paper's Lock. The list of children may be old:
// it has our znode, so it has all that were created before ours and still exist.
func (q *queue) awaitTurn(ctx context.Context, cl *claim, name string, shared, wait bool) error {
	for {
		v, err := newVigil(ctx, q.c, q.opts.patience(q.c), cl)
		if err != nil {
			return err
		}
		blocker, err := q.blocker(ctx, cl, name, shared)
		if err == nil && blocker == "" && cl.hold(v) {
			return nil
		}
		v.stop()
		switch {
		case err != nil:
			return err
		case blocker != "" && !wait:
			return ErrHeld
		case blocker != "":
			if err := q.await(ctx, cl, blocker); err != nil {
				return err
			}
		}
	}
}

// blocker returns the contender that the claim waits for, "" if it is its turn.
func (q *queue) blocker(ctx context.Context, cl *claim, name string, shared bool) (string, error) {
	names, err := q.children(ctx)
	if err != nil {
		return "", err
	}
	blocker, ok := before(lineOf(names), name, shared)
	if err := cl.sessionOr(nil); err != nil {
		return "", err
	}
	if !ok {
		return "", fmt.Errorf("%w: %w", ErrLost, errDeleted)
	}
	return blocker, nil
}

// await returns when it is worth to look again: the one before us is gone, or has
// changed. It reads that one's data only because an exists would leave a watch
// on a znode that is already gone.
func (q *queue) await(ctx context.Context, cl *claim, blocker string) error {
	for {
		_, _, w, err := q.c.GetW(ctx, join(q.path, blocker))
		switch {
		case errors.Is(err, zk.ErrNoNode):
			return nil
		case errors.Is(err, zk.ErrConnectionLoss) && ctx.Err() == nil:
			continue
		case err != nil:
			return ended(ctx, err)
		}
		return cl.wait(ctx, w.Events(), func() { discard(w) })
	}
}
