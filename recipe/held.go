package recipe

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// The errors of locks. An error of an operation has one of them in its tree, or
// that of the client, or the context's.
var (
	// ErrHeld is why a TryLock does not have the lock: others hold it, or are
	// before it in the line.
	ErrHeld = errors.New("the lock is held by others")
	// ErrLost is the error of a holder or contender that has lost its znode or
	// cannot be sure of it any more.
	ErrLost = errors.New("the lock is lost")
	// ErrRevoked ends the wait of a contender for a RevocableLock that was asked to yield.
	ErrRevoked = errors.New("the lock was asked back")
	// ErrUpgrade is that of a reader that wants to write and would wait for itself.
	ErrUpgrade = errors.New("a reader cannot become a writer without letting go")
	// ErrNotHeld is that of a second Unlock.
	ErrNotHeld = errors.New("the lock has been unlocked")
)

// Held is a lock that its owner has. It must be given back by Unlock, even when
// it is lost.
type Held struct {
	lock  string // the path of the lock
	claim *claim
	share *share // how many have the claim; nil for one
	freed atomic.Bool
}

// Token is the zxid of the transaction that created the holder's znode: a fencing
// token. Later holders have larger ones; so do later ones of the readers that hold the
// lock at the same time.
func (h *Held) Token() zk.Zxid { return h.claim.stat.Czxid }

// Path is the holder's znode.
func (h *Held) Path() string { return h.claim.path }

// Session is the session that the lock lives with.
func (h *Held) Session() zk.SessionID { return zk.SessionID(h.claim.stat.EphemeralOwner) }

// Lost is closed when the holder cannot be sure of the lock any more: its session
// has ended; its znode was deleted by another client; or the connection has been away
// for as long as the session is certain to live without it. That is a third of the
// session's timeout after client.Suspended, because a silent connection is given
// up after two thirds; with LoseWhenSuspended it is no time at all. A read-only
// server counts as no connection. It is closed, too, when the session's timeout has
// passed since something was sent that a server has answered (client.Client.Heard):
// events may come on a connection on which nothing arrives any more.
//
// It may be closed late, when the process was stopped meanwhile, and what the holder
// has under way does not stop by itself: see Token. It is not closed by Unlock, and
// a lock that was lost is not found again.
func (h *Held) Lost() <-chan struct{} { return h.claim.lost }

// Err says why the lock is lost: errors.Is(err, ErrLost), and with it
// zk.ErrSessionExpired when the session has ended. It is nil while Lost is open.
func (h *Held) Err() error {
	if err := h.claim.err(); err != nil {
		return fmt.Errorf("recipe: lock %s: %w", h.lock, err)
	}
	return nil
}

// Revoked is closed when the holder of a RevocableLock is asked to give it back.
// That of other locks is never closed.
func (h *Held) Revoked() <-chan struct{} { return h.claim.revoked }

// Unlock gives the lock back: it deletes the znode. The error is ErrLost when the
// lock was lost before, so that what was done under it may need a second look. When
// the context ends first, the error is the context's, and the znode is deleted in
// the background, as soon as there is a connection. A second Unlock does nothing and
// returns ErrNotHeld.
//
// Of a Reentrant lock the last Unlock deletes the znode.
func (h *Held) Unlock(ctx context.Context) error {
	if !h.freed.CompareAndSwap(false, true) {
		return fmt.Errorf("recipe: unlock %s: %w", h.lock, ErrNotHeld)
	}
	lost := h.Err()
	if h.share != nil && !h.share.leave() {
		return lost
	}
	err := h.claim.leave(ctx)
	switch {
	case lost != nil:
		return lost
	case err == nil:
		return nil
	case errors.Is(err, errDeleted), errors.Is(err, zk.ErrSessionExpired), errors.Is(err, zk.ErrAuthFailed), errors.Is(err, client.ErrClosed):
		return fmt.Errorf("recipe: unlock %s: %w: %w", h.lock, ErrLost, err)
	}
	return fmt.Errorf("recipe: unlock %s: %w", h.lock, err)
}
