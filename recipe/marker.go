package recipe

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// markers make transactions that take effect once although answers are lost. A
// deletion, or the creation of what another may delete at once, leaves nothing to
// look for, so the GUID rule of the recipes page does not help: a client that finds no znode
// cannot know whether it was its own request that removed it. So each transaction
// begins with a set of an ephemeral znode that belongs to one transaction at a
// time, its marker, from the version that the client knows. When the transaction
// is repeated, that version says whether it was carried out.
//
// A marker lives with the session. So a transaction takes effect only in the
// session that began it.
type markers struct {
	client Client
	base   string // the markers' parent, below a path that is made when it is missing
	acl    []zk.ACL

	mu   sync.Mutex // guards what follows
	free []marker
}

type marker struct {
	path    string
	version int32
}

// commit carries out, in order and once, the operations that build adds to a
// transaction. build may be called several times; it is told the marker's path.
// A *client.TxnError counts the operations of build from 0.
//
// The error says that nothing was carried out, but for two. When the context ends
// before it is known, the error is the context's, and open is true: then late, which
// may be nil, is called once in the background when it is known, or never will be
// because the session is over, which counts as not carried out. After
// zk.ErrSessionExpired, and the end of the Client, the outcome is unknown.
func (m *markers) commit(ctx context.Context, build func(t *client.Txn, marker string), late lateFunc) (open bool, err error) {
	k, err := m.take(ctx)
	if err != nil {
		return false, err
	}
	for lost := false; ; {
		t := m.client.Txn()
		t.Set(k.path, nil, k.version)
		build(t, k.path)
		err := t.Commit(ctx)
		var failed *client.TxnError
		errors.As(err, &failed)
		own := failed != nil && failed.Index == 0 // the marker is not as it was
		switch {
		case err == nil, own && failed.Err == zk.ErrBadVersion && lost:
			m.give(marker{k.path, k.version + 1})
			return false, nil
		case ctx.Err() != nil && failed == nil && (lost || maybe(err)):
			background(ctx, func(ctx context.Context) { m.findOut(ctx, k, late) })
			return true, context.Cause(ctx)
		case errors.Is(err, zk.ErrConnectionLoss) && ctx.Err() == nil:
			lost = lost || maybe(err)
		case own && failed.Err == zk.ErrNoNode && lost:
			return false, fmt.Errorf("recipe: %s: %w", k.path, zk.ErrSessionExpired)
		case own && failed.Err == zk.ErrNoNode: // it has gone with an earlier session
			if k, err = m.take(ctx); err != nil {
				return false, err
			}
		case own:
			return false, err
		default:
			if failed != nil {
				failed.Index--
			}
			m.give(k)
			return false, err
		}
	}
}

// A lateFunc is told whether a transaction was carried out that was cut off.
type lateFunc = func(ctx context.Context, carriedOut bool)

// findOut tells late whether the transaction was carried out that k was used for
// last. It may be on its way still, or not be known yet to the server that is asked
// now.
func (m *markers) findOut(ctx context.Context, k marker, late lateFunc) {
	var stat zk.Stat
	var exists bool
	err := retry(ctx, func() (err error) {
		if err := m.client.Sync(ctx, k.path); err != nil {
			return err
		}
		stat, exists, err = m.client.Exists(ctx, k.path)
		return err
	})
	known := err == nil && exists // otherwise the session is over: the outcome stays unknown
	if late != nil {
		late(ctx, known && stat.Version == k.version+1)
	}
	if known {
		m.give(marker{k.path, stat.Version})
	}
}

// take returns a marker that no other transaction uses.
func (m *markers) take(ctx context.Context) (marker, error) {
	m.mu.Lock()
	if n := len(m.free); n > 0 {
		k := m.free[n-1]
		m.free = m.free[:n-1]
		m.mu.Unlock()
		return k, nil
	}
	m.mu.Unlock()
	k := marker{path: join(m.base, newGUID())}
	for {
		err := retry(ctx, func() error {
			_, err := m.client.Create(ctx, k.path, nil, zk.Ephemeral, m.acl)
			return err
		})
		switch {
		case errors.Is(err, zk.ErrNoNode):
			if err := makePath(ctx, m.client, m.base, m.acl); err != nil {
				return k, err
			}
			continue
		case err != nil && !errors.Is(err, zk.ErrNodeExists): // which is our own, made by a request whose answer was lost
			if ctx.Err() != nil {
				background(ctx, func(ctx context.Context) { deleteIfThere(ctx, m.client, k.path) }) // fails at the session's end alone
			}
			return k, err
		}
		return k, nil
	}
}

// give takes a marker back.
func (m *markers) give(k marker) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.free = append(m.free, k)
}
