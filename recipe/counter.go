package recipe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// Counter is a number that many sessions change. It is of no seed, but of every
// recipe library; what it rests on is the version of a znode's data, by which a
// write is refused when another was first (the paper, 2.2).
//
// The znode holds the number in decimal digits, as kazoo's Counter does for
// integers; without data it is 0.
//
// Each change takes effect exactly once, or, with an error, at most once: it is a
// transaction that also writes an ephemeral znode of this Counter's, whose version
// says how many of its changes were carried out. So a change whose answer was lost
// is neither made twice nor left out, however often others have changed the number
// since. That znode lives until Close, or the session's end.
//
// A Counter may be used by many goroutines. It makes one change at a time.
type Counter struct {
	c    Client
	path string
	opts CounterOptions

	turn   chan struct{} // holds a value while a change is made; guards what follows
	last   CounterValue  // a guess of the present value, to save the read
	ledger ledger
}

// CounterOptions are what NewCounter may be told.
type CounterOptions struct {
	ACL []zk.ACL // of znodes that are created; nil is world:anyone:cdrwa
}

// CounterValue is a number that a Counter had.
type CounterValue struct {
	N       int64
	Version int32 // grows by one with every change; the fencing token of a change
}

// ErrOverflow is the error of an Add whose sum is not an int64.
var ErrOverflow = errors.New("recipe: the counter would overflow")

// NewCounter returns the counter in the znode at path. It touches nothing.
func NewCounter(c Client, path string, opts CounterOptions) *Counter {
	return &Counter{c: c, path: path, opts: opts, turn: make(chan struct{}, 1), last: CounterValue{Version: -1}}
}

// Get returns the number as it is when Get is called, or newer. The error of data
// that is no number says so.
func (n *Counter) Get(ctx context.Context) (CounterValue, error) {
	v, err := readNow(ctx, n.c, n.path)
	if err != nil {
		return CounterValue{}, err
	}
	return n.parse(v)
}

func (n *Counter) parse(v Value) (CounterValue, error) {
	if len(v.Data) == 0 {
		return CounterValue{0, v.Stat.Version}, nil
	}
	i, err := strconv.ParseInt(string(bytes.TrimSpace(v.Data)), 10, 64)
	if err != nil {
		return CounterValue{}, fmt.Errorf("recipe: counter %s: %w", n.path, err)
	}
	return CounterValue{i, v.Stat.Version}, nil
}

// Add adds delta and returns the sum. It starts over while others are faster; of
// all concurrent callers one succeeds. An error for which client.Error's Maybe is true, which
// is the session's end or the context's, says that it may have taken effect.
func (n *Counter) Add(ctx context.Context, delta int64) (CounterValue, error) {
	return n.change(ctx, func(old CounterValue) (int64, error) {
		sum := old.N + delta
		if (sum > old.N) != (delta > 0) && delta != 0 {
			return 0, ErrOverflow
		}
		return sum, nil
	})
}

// Set makes the number i, whatever it was; see Add.
func (n *Counter) Set(ctx context.Context, i int64) (CounterValue, error) {
	return n.change(ctx, func(CounterValue) (int64, error) { return i, nil })
}

// CompareAndSet makes the number i if its version is still that of old, which Get,
// Watch or a change has returned. Otherwise the error is zk.ErrBadVersion, and
// nothing is changed. A counter that was never changed has version 0, also before
// there is a znode.
func (n *Counter) CompareAndSet(ctx context.Context, old CounterValue, i int64) (CounterValue, error) {
	return n.change(ctx, func(present CounterValue) (int64, error) {
		if present.Version != old.Version {
			return 0, &client.Error{Op: "set", Path: n.path, Err: zk.ErrBadVersion}
		}
		return i, nil
	})
}

// Watch calls f with the number, and again whenever it was changed, as
// Config.Watch does. It ends, too, with data that is no number.
func (n *Counter) Watch(ctx context.Context, f func(v CounterValue)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	return watchData(ctx, n.c, n.path, func(v Value) {
		if i, err := n.parse(v); err != nil {
			cancel(err)
		} else {
			f(i)
		}
	})
}

// Close deletes the znode that this Counter's changes need. The number stays, and
// another change makes another such znode.
func (n *Counter) Close(ctx context.Context) error {
	if err := n.enter(ctx); err != nil {
		return err
	}
	defer n.leave()
	return n.ledger.close(ctx, n.c)
}

func (n *Counter) enter(ctx context.Context) error {
	select {
	case n.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (n *Counter) leave() { <-n.turn }

// change makes the number what to returns for the present one. The number that was
// seen last is tried first: a refusal says that there is a newer one. An error of
// to counts only if it is of the present number.
func (n *Counter) change(ctx context.Context, to func(old CounterValue) (int64, error)) (CounterValue, error) {
	if err := n.enter(ctx); err != nil {
		return CounterValue{}, err
	}
	defer n.leave()
	for fresh := false; ; fresh = true {
		if fresh || n.last.Version < 0 {
			v, err := n.Get(ctx)
			if err != nil {
				return v, err
			}
			n.last, fresh = v, true
		}
		i, err := to(n.last)
		if err == nil {
			err = n.ledger.write(ctx, n.c, n.path, strconv.AppendInt(nil, i, 10), n.last.Version, n.opts.ACL)
		} else if !fresh {
			continue
		}
		switch {
		case err == nil:
			n.last = CounterValue{i, n.last.Version + 1}
			return n.last, nil
		case errors.Is(err, errOvertaken):
			continue
		}
		return CounterValue{}, err
	}
}

// errOvertaken says that another write was first.
var errOvertaken = errors.New("recipe: another was first")

// A ledger is an ephemeral znode whose version counts the writes of its owner that
// were carried out: each is a transaction that writes it, too.
type ledger struct {
	path    string // "" before there is one
	version int32  // how many writes were carried out
}

// write sets the data of a znode that has a version, once. The error errOvertaken
// says that the znode had another version, or none, and now has one: look again.
func (l *ledger) write(ctx context.Context, c Client, path string, data []byte, version int32, acl []zk.ACL) error {
	if l.path == "" {
		return l.open(ctx, c, path, acl)
	}
	for {
		t := c.Txn()
		t.Set(path, data, version)
		t.Set(l.path, nil, l.version)
		err := t.Commit(ctx)
		var failed *client.TxnError
		switch {
		case err == nil:
			l.version++
			return nil
		case errors.As(err, &failed) && failed.Index == 0 && failed.Err == zk.ErrBadVersion:
			return errOvertaken
		case errors.As(err, &failed) && failed.Err == zk.ErrNoNode: // of the znode, or of a session before this
			return l.open(ctx, c, path, acl)
		case !errors.Is(err, zk.ErrConnectionLoss) || ctx.Err() != nil:
			l.doubt(ctx, c, err)
			return ended(ctx, err)
		}
		v, lookErr := readNow(ctx, c, l.path)
		if lookErr == nil && !v.Exists {
			lookErr = zk.ErrSessionExpired // and the Client has begun another
		}
		switch {
		case lookErr != nil:
			l.doubt(ctx, c, err)
			return &client.Error{Op: "multi", Path: path, Err: errors.Join(err, lookErr), Maybe: true}
		case v.Stat.Version == l.version+1:
			l.version++
			return nil
		}
	}
}

// doubt deletes, in the background, a ledger of which it is not known what it
// counts.
func (l *ledger) doubt(ctx context.Context, c Client, err error) {
	if path := l.path; maybe(err) {
		l.path = ""
		background(ctx, func(ctx context.Context) { deleteIfThere(ctx, c, path) }) // fails at the session's end alone
	}
}

// open makes a new ledger, and the znode that is counted for if it is missing. It
// returns errOvertaken, for the caller to start again.
func (l *ledger) open(ctx context.Context, c Client, path string, acl []zk.ACL) error {
	if err := makePath(ctx, c, path, acl); err != nil {
		return err
	}
	guid := newGUID()
	own := join(path, "ledger-"+guid)
	if _, err := createNamed(ctx, c, own, nil, zk.Ephemeral, acl); err != nil {
		if maybe(err) {
			takeBack(ctx, c, path, guid)
		}
		return err
	}
	l.path, l.version = own, 0
	return errOvertaken
}

func (l *ledger) close(ctx context.Context, c Client) error {
	if l.path == "" {
		return nil
	}
	err := deleteIfThere(ctx, c, l.path)
	if err == nil {
		l.path = ""
	}
	return err
}
