package replica

import (
	"time"

	"github.com/pinfold-zk/pinfold/internal/prep"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/watch"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// Origin is the connection that sent a request. Its methods are called from the stages
// Order and Apply, on whichever goroutine runs the stage: a worker's, or one that has
// called Work. They must not block, and must not call View, Packets or Work. All calls from one stage follow each other; calls from Order and from Apply
// may come at the same time.
type Origin interface {
	// Applying reports one piece of a multi of very many operations: r.Multi are the results of
	// the piece, in the order of the operations. What the multi has changed must not be read
	// yet. A part of the reply can be prepared. After the last piece Applied follows, whose
	// r.Multi are the results of the last piece alone. Stage Apply, no lock; tx and r are valid
	// during the call only.
	Applying(req *Request, tx *txn.Txn, r *znode.Result)
	// Applied reports the transaction that a request became. Stage Apply, under the
	// tree's write lock, after the events of tx have been fired. Everything that is
	// passed is valid during the call only.
	Applied(req *Request, tx *txn.Txn, r *znode.Result, tree View)
	// Synced answers a request of OpSync that was submitted: everything that was
	// committed when it was asked is applied. Stage Apply, under the tree's write lock.
	Synced(req *Request, tree View)
	// Dropped reports that a request will not be answered: the server has left its
	// role, or its tree is wrong. The request may still take effect. Stage Order or
	// Apply, no lock.
	Dropped(req *Request)
	// Resumed answers Resume. timeoutMillis is the session's timeout now. Stage Order,
	// no lock.
	Resumed(ok bool, id zk.SessionID, timeoutMillis int32)
	// ResumedLocal answers Resume, or the createSession of a new session, for a session
	// that lives on this server alone. Stage Order, no lock.
	ResumedLocal(id zk.SessionID, timeoutMillis int32)
	// Leave ends the connection at once: its session is over, or has moved to another
	// connection, or is not known here. Stage Order, no lock.
	Leave(reason string)
	// LastHeard is when the client last sent a complete request, by Replica.Now. Stage
	// Order, no lock.
	LastHeard() time.Duration
}

// Clients is the set of all connections. As with Origin, the methods are called from the
// stages, and must not block.
type Clients interface {
	// Fired reports that the watches ws fired for ch, a change that transaction z made.
	// Stage Apply, under the tree's write lock.
	Fired(z zk.Zxid, ch *znode.Change, ws []watch.ID)
	// Carried reports every transaction that was applied without an error, whichever
	// client of whichever server sent it. Stage Apply, before Applied; tx is valid during
	// the call only.
	Carried(tx *txn.Txn)
	// LocalEnded reports that a session that was local to this server is over. Stage Order,
	// no lock.
	LocalEnded(id zk.SessionID)
	// Ended reports what the end of a session, transaction tx, has deleted: each of its
	// ephemerals, and events of their parents. A very long list comes in parts; it lacks what
	// no client watches, unless WantsEnded. Stage Apply, under the tree's write lock;
	// everything is valid during the call only.
	Ended(tx *txn.Txn, changes []znode.Change)
	// WantsEnded reports whether Ended must have all that is deleted. Its result does not change.
	WantsEnded() bool
	// Flush sends what Applied, Synced and Fired have queued; Outstanding may have fallen.
	// Stage Apply, after a batch, no lock.
	Flush()
	// Released reports that Outstanding has fallen, and no Flush follows. Stage Order or
	// Apply, no lock.
	Released()
	// Suspend ends all connections: the server has left its role. Stage Order, no lock.
	Suspend()
	// Admit reports that the mode is not Idle any more. Stage Order, no lock; for a
	// standalone server from Start.
	Admit()
}

// Request is a request to change the state, and the connection that waits for it.
type Request struct {
	prep.Request
	Origin   Origin        // nil: no client waits
	Received time.Duration // when it was read, by Replica.Now
	Weight   int           // of the request in the budget of the requests in flight; of Origin's concern
	Refused  zk.Code       // not OK: the request is answered with it, and not carried out
	Size     int           // of Body, which a request that was forwarded to the leader lacks

	packet []byte // its REQUEST, with room for the head; Body is its end
}
