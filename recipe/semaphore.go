package recipe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// Semaphore lets a number of holders in at the same time. It is neither in the paper nor
// on the recipes page. A client that wants a lease joins a queue, which is the lock
// without herd effect of the paper's 2.4; the first in line waits for a free lease,
// and the others each for the one in front.
//
// The layout is that of kazoo's Semaphore, with which it may be shared. The znode at
// the path holds the number of leases in decimal digits. Its children are the
// leases: ephemeral znodes with the data of their holders, each named by a GUID.
// The line is beside it, at the path with the suffix "-__lock__".
type Semaphore struct {
	c      Client
	path   string
	leases int
	opts   SemaphoreOptions
	old    atomic.Bool // the servers know no create2 in a transaction
}

// SemaphoreOptions are what NewSemaphore may be told.
type SemaphoreOptions struct {
	ACL []zk.ACL // of znodes that are created; nil is world:anyone:cdrwa
}

// ErrLeases says that the semaphore was made with another number of leases.
var ErrLeases = errors.New("recipe: the semaphore has another number of leases")

// NewSemaphore returns the semaphore at path, which has a number of leases, the
// same for all clients. It sends no request.
func NewSemaphore(c Client, path string, leases int, opts SemaphoreOptions) *Semaphore {
	return &Semaphore{c: c, path: path, leases: leases, opts: opts}
}

// SemaphoreLease is a place in a Semaphore. It ends with the session.
type SemaphoreLease struct {
	sem  *Semaphore
	hold *hold
}

// Zxid is the transaction that made the lease. It grows from lease to lease, and
// so names the lease to other systems. As several leases are held at a time, no
// system can refuse the smaller of two: it tells leases apart, and does not fence.
func (l *SemaphoreLease) Zxid() zk.Zxid { return l.hold.czxid }

// Lost is closed when the lease is over: at Release, at the session's end, because
// another client has deleted its znode, or, as Held.Lost is, when the connection has been
// away for so long that the session may end before it is back. A lease that is
// lost must be released, too, as its session may live.
func (l *SemaphoreLease) Lost() <-chan struct{} { return l.hold.lost }

// Release gives the lease back. When the context ends first, it is given back in
// the background, as soon as there is a connection.
func (l *SemaphoreLease) Release(ctx context.Context) error { return l.hold.give(ctx, l.sem.c) }

// Acquire waits for a lease, with data for others to see. Clients are served in order. When the context ends, the place in the line is given up. ErrLeases says
// that others think of another number of leases.
func (s *Semaphore) Acquire(ctx context.Context, data []byte) (*SemaphoreLease, error) {
	l, _, err := s.acquire(ctx, data, true)
	return l, err
}

// TryAcquire is Acquire, and returns false instead of waiting when all leases are
// taken. It waits for those in front only as long as there are free ones.
func (s *Semaphore) TryAcquire(ctx context.Context, data []byte) (*SemaphoreLease, bool, error) {
	return s.acquire(ctx, data, false)
}

// SemaphoreHolder is a client that has a lease.
type SemaphoreHolder struct {
	Data []byte
	Zxid zk.Zxid // of the SemaphoreLease
}

// Holders returns the holders of leases, the longest first, as it is
// when Holders is called, or later.
func (s *Semaphore) Holders(ctx context.Context) (list []SemaphoreHolder, err error) {
	var names []string
	err = retry(ctx, func() error {
		if err := s.c.Sync(ctx, s.path); err != nil {
			return err
		}
		names, _, err = s.c.Children(ctx, s.path)
		return err
	})
	if err != nil {
		if errors.Is(err, zk.ErrNoNode) {
			err = nil
		}
		return nil, err
	}
	for _, name := range names {
		var h SemaphoreHolder
		err := retry(ctx, func() error {
			data, stat, err := s.c.Get(ctx, join(s.path, name))
			h = SemaphoreHolder{data, stat.Czxid}
			return err
		})
		switch {
		case err == nil:
			list = append(list, h)
		case !errors.Is(err, zk.ErrNoNode):
			return nil, err
		}
	}
	slices.SortFunc(list, func(a, b SemaphoreHolder) int { return cmp.Compare(a.Zxid, b.Zxid) })
	return list, nil
}

// prepare creates the znode, and compares its number of leases. Data that is no
// number is left alone, as by kazoo, which creates the znode before it has one.
func (s *Semaphore) prepare(ctx context.Context) error {
	if s.leases <= 0 {
		return fmt.Errorf("recipe: a semaphore of %d leases", s.leases)
	}
	data, _, err := dataOf(ctx, s.c, s.path)
	if errors.Is(err, zk.ErrNoNode) {
		_, err = createNamed(ctx, s.c, s.path, strconv.AppendInt(nil, int64(s.leases), 10), zk.Persistent, s.opts.ACL)
		if errors.Is(err, zk.ErrNodeExists) {
			return s.prepare(ctx)
		}
		return err
	}
	if n, notNumber := strconv.Atoi(string(data)); err == nil && notNumber == nil && n != s.leases {
		err = fmt.Errorf("%w: %s has %d, not %d", ErrLeases, s.path, n, s.leases)
	}
	return err
}

// lockSuffix and lockName are kazoo's names of the line and of those in it.
const (
	lockSuffix = "-__lock__"
	lockName   = "__lock__"
)

func (s *Semaphore) acquire(ctx context.Context, data []byte, wait bool) (*SemaphoreLease, bool, error) {
	if err := s.prepare(ctx); err != nil {
		return nil, false, err
	}
	session := s.c.SessionID()
	guid := newGUID()
	line := s.path + lockSuffix
	place, _, err := createFindable(ctx, s.c, line, guid+lockName, guid, data, s.opts.ACL)
	if err != nil {
		return nil, false, err
	}
	place = join(line, place)
	free, err := s.awaitTurn(ctx, place, wait)
	var h *hold
	if err == nil && free {
		h, err = s.take(ctx, place, guid, data)
	}
	if errors.Is(err, zk.ErrNoNode) && s.c.SessionID() != session {
		err = zk.ErrSessionExpired // the place was of the session before
	}
	if leaveErr := deleteIfThere(ctx, s.c, place); leaveErr != nil {
		takeBack(ctx, s.c, line, guid)
	}
	switch {
	case err != nil:
		if free {
			takeBack(ctx, s.c, s.path, guid)
		}
		return nil, false, err
	case !free:
		return nil, false, nil
	}
	return &SemaphoreLease{s, h}, true, nil
}

// awaitTurn waits until place is the first in line and a lease is free. Without wait
// it returns false when none is.
func (s *Semaphore) awaitTurn(ctx context.Context, place string, wait bool) (free bool, err error) {
	for {
		front, err := s.inFront(ctx, place)
		if err != nil {
			return false, err
		}
		var changed, gone *client.Watch
		if front == "" || !wait {
			if free, changed, err = s.free(ctx); err != nil {
				return false, err
			}
			if free && front == "" || !free && !wait {
				forget(ctx, changed)
				return free, nil
			}
		}
		if front != "" {
			var exists bool
			err := retry(ctx, func() (err error) {
				_, exists, gone, err = s.c.ExistsW(ctx, front)
				return err
			})
			if err != nil || !exists {
				forget(ctx, gone)
				forget(ctx, changed)
				if err != nil {
					return false, err
				}
				continue
			}
		}
		if err := awaitEither(ctx, changed, gone); err != nil {
			return false, err
		}
	}
}

// awaitEither is await for two watches, each of which may be nil.
func awaitEither(ctx context.Context, a, b *client.Watch) error {
	defer forget(ctx, a)
	defer forget(ctx, b)
	var one, other <-chan zk.Event
	if a != nil {
		one = a.Events()
	}
	if b != nil {
		other = b.Events()
	}
	select {
	case <-one:
	case <-other:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// free reports whether there is a free lease. The watch tells when the leases
// change.
func (s *Semaphore) free(ctx context.Context) (free bool, w *client.Watch, err error) {
	err = retry(ctx, func() error {
		names, _, changed, err := s.c.ChildrenW(ctx, s.path)
		free, w = len(names) < s.leases, changed
		return err
	})
	return free, w, err
}

// inFront is the contender before place; "" for the first. zk.ErrNoNode says
// that place is not in the line.
func (s *Semaphore) inFront(ctx context.Context, place string) (string, error) {
	line := parent(place)
	names, err := childNames(ctx, s.c, line)
	if err != nil {
		return "", err
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		return sequence(name) < 0 || !strings.HasSuffix(name[:len(name)-10], lockName)
	})
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(sequence(a), sequence(b)) })
	switch i := slices.Index(names, strings.TrimPrefix(place, line+"/")); {
	case i < 0:
		return "", fmt.Errorf("recipe: %s: the place in the line was deleted: %w", place, zk.ErrNoNode)
	case i > 0:
		return join(line, names[i-1]), nil
	}
	return "", nil
}

// take makes the lease, and follows it.
func (s *Semaphore) take(ctx context.Context, place, guid string, data []byte) (*hold, error) {
	v, err := newVigil(ctx, s.c, s.c.SessionTimeout()/3, &claim{})
	if err != nil {
		return nil, err
	}
	stat, err := s.create(ctx, place, guid, data)
	if err != nil {
		v.stop()
		return nil, err
	}
	h := keep(ctx, s.c, join(s.path, guid), stat.Czxid)
	h.rely(v)
	return h, nil
}

// create creates the lease, on the condition that place is still in the line.
// Though answers be lost the lease is found by its GUID.
func (s *Semaphore) create(ctx context.Context, place, guid string, data []byte) (zk.Stat, error) {
	path := join(s.path, guid)
	for {
		t := s.c.Txn()
		t.Check(place, -1)
		create, old := t.Create2, s.old.Load()
		if old {
			create = t.Create
		}
		made := create(path, data, zk.Ephemeral, s.opts.ACL)
		err := t.Commit(ctx)
		switch {
		case errors.Is(err, zk.ErrUnimplemented) && !old:
			s.old.Store(true)
			continue
		case err != nil && (!errors.Is(err, zk.ErrConnectionLoss) || ctx.Err() != nil):
			return zk.Stat{}, ended(ctx, err)
		case err == nil && made.Stat.Czxid != 0: // older servers do not say it
			return made.Stat, nil
		}
		v, err := readNow(ctx, s.c, path)
		switch {
		case err != nil:
			return zk.Stat{}, err
		case v.Exists:
			return v.Stat, nil
		}
	}
}
