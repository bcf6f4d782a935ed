package recipe

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// An Election makes one of its candidates the leader (the recipes page, "Leader
// Election"). A candidate is an ephemeral sequential znode; the one with the
// smallest number leads. Each candidate watches the one before it, so that the end
// of a leader wakes one of them, and the end of another candidate at most one. It
// is the line of a Lock, and shares its names with other libraries; see NodeNames.
//
// Curator's LeaderLatch orders all children by what follows "latch-" in their
// names, its LeaderSelector by what follows "lock-", and kazoo's Election those
// whose names end with "__lock__" and ten digits. So each of them gets on with the
// candidates of an Election that uses its names, and not with those of the others.
// An Election understands all.
//
// The methods may be called from any number of goroutines.
type Election struct{ queue queue }

// NewElection is an election at a path. It asks the servers for nothing. Options
// are those of locks: HolderData is what the candidate says of itself, which
// observers read; Curator and kazoo have an identifier there. Reentrant says
// nothing here: every Campaign is a candidate of its own.
func NewElection(c Client, path string, opts ...LockOption) *Election {
	return &Election{newQueue(c, path, candidateKind, candidateKind, opts)}
}

// Campaign adds a candidate, and returns when it leads. When the context ends
// first, the candidate withdraws: its znode is deleted, in the background if there
// is no connection. The error is the context's; zk.ErrSessionExpired; ErrLost when
// the znode was deleted by another client; or what the servers refuse.
func (e *Election) Campaign(ctx context.Context) (*Leadership, error) {
	cl, err := e.queue.acquire(ctx, false, true)
	if err != nil {
		return nil, fmt.Errorf("recipe: campaign at %s: %w", e.queue.path, err)
	}
	return &Leadership{held: &Held{lock: e.queue.path, claim: cl}}, nil
}

// Candidates lists the candidates, the leader first. The list may be
// outdated when it is returned.
func (e *Election) Candidates(ctx context.Context) ([]Contender, error) {
	return e.queue.contenders(ctx)
}

// A Leadership is an election that was won. It must be given back by Resign, even
// when it is lost.
type Leadership struct{ held *Held }

// Epoch is the zxid of the transaction that created the leader's znode: a fencing
// token. Every later leader has a larger one, and no two have the same.
func (l *Leadership) Epoch() zk.Zxid { return l.held.Token() }

// Path is the leader's znode.
func (l *Leadership) Path() string { return l.held.Path() }

// Lost is closed when the leader cannot be sure any more that it leads, as that of
// Held: what it has under way does not stop by itself, so what it does to others
// should carry the Epoch. Resign does not close it.
func (l *Leadership) Lost() <-chan struct{} { return l.held.Lost() }

// Err says why the leadership is lost; see Held.Err.
func (l *Leadership) Err() error { return l.held.Err() }

// Proclaim changes what the leader says of itself. The error is ErrLost when its
// znode is gone; then observers do not see the data.
func (l *Leadership) Proclaim(ctx context.Context, data []byte) error {
	cl := l.held.claim
	if err := l.Err(); err != nil {
		return err
	}
	err := retry(ctx, func() error {
		_, err := cl.c.Set(ctx, cl.path, data, -1)
		return err
	})
	if errors.Is(err, zk.ErrNoNode) {
		err = ErrLost
	}
	if err != nil {
		return fmt.Errorf("recipe: proclaim at %s: %w", cl.path, err)
	}
	return nil
}

// Resign ends the leadership, and the next candidate leads. Its errors are those of
// Held.Unlock: ErrLost says that it had ended before.
func (l *Leadership) Resign(ctx context.Context) error { return l.held.Unlock(ctx) }

// A Leader is the leader as observers see it. It may not know yet that it leads
// (the recipes page, notes of "Leader Election").
type Leader struct {
	Epoch   zk.Zxid      // 0 if there is none
	Name    string       // of its znode
	Data    []byte       // what it says of itself
	Session zk.SessionID // that it lives with
}

// Leader returns the leader at the time of the call or later; Epoch is 0 for none.
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	err := syncWith(ctx, e.queue.c, e.queue.path)
	var l Leader
	if err == nil {
		var w *client.Watch
		l, w, err = e.leader(ctx)
		forget(ctx, w)
	}
	if err != nil {
		return Leader{}, fmt.Errorf("recipe: leader at %s: %w", e.queue.path, err)
	}
	return l, nil
}

// Observe calls f with the present leader, and again whenever there is another,
// none, or the leader says something else of itself, until the context or the
// session ends; its error says which. Epochs grow from call to call, but for 0,
// which means that there is no leader. A leader that was followed by another before it
// was read is not reported, nor are changes of data while f ran.
//
// Observers watch the leader's znode alone: candidates that come and go do not
// wake them.
func (e *Election) Observe(ctx context.Context, f func(l Leader)) error {
	var told Leader
	var highest zk.Zxid
	for first := true; ; first = false {
		l, w, err := e.leader(ctx)
		if err != nil {
			return fmt.Errorf("recipe: observe %s: %w", e.queue.path, err)
		}
		changed := first || l.Epoch != told.Epoch || !bytes.Equal(l.Data, told.Data)
		if changed && (l.Epoch >= highest || l.Epoch == 0) { // a server may know less than the one of an earlier session
			told, highest = l, max(highest, l.Epoch)
			f(l)
		}
		if err := await(ctx, w); err != nil {
			return fmt.Errorf("recipe: observe %s: %w", e.queue.path, err)
		}
	}
}

// leader reads the leader, and leaves a watch for its next change.
func (e *Election) leader(ctx context.Context) (l Leader, w *client.Watch, err error) {
	err = retry(ctx, func() error {
		for {
			l, w, err = e.lookUp(ctx)
			if !errors.Is(err, zk.ErrNoNode) { // or it has gone since we looked
				return err
			}
		}
	})
	return l, w, err
}

// lookUp is leader once. The error is zk.ErrNoNode if something has come or gone
// meanwhile.
func (e *Election) lookUp(ctx context.Context) (l Leader, w *client.Watch, err error) {
	c, path := e.queue.c, e.queue.path
	names, _, err := c.Children(ctx, path)
	if errors.Is(err, zk.ErrNoNode) {
		_, exists, w, err := c.ExistsW(ctx, path)
		if err == nil && exists {
			forget(ctx, w)
			return l, nil, zk.ErrNoNode
		}
		return l, w, err
	}
	if err != nil {
		return l, nil, err
	}
	line := lineOf(names)
	if len(line) == 0 {
		names, _, w, err := c.ChildrenW(ctx, path)
		if err == nil && len(lineOf(names)) > 0 {
			forget(ctx, w)
			return l, nil, zk.ErrNoNode
		}
		return l, w, err
	}
	data, stat, w, err := c.GetW(ctx, join(path, line[0].name))
	if err != nil {
		return l, nil, err
	}
	return Leader{stat.Czxid, line[0].name, data, zk.SessionID(stat.EphemeralOwner)}, w, nil
}
