package server

import (
	"time"

	"github.com/pinfold-zk/pinfold/internal/metric"
	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/session"
	"github.com/pinfold-zk/pinfold/internal/watch"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/zk"
)

// Replica is the part of *replica.Replica that the server uses. The replica calls back
// through replica.Clients, which Server implements, and replica.Origin, which conn
// implements.
//
// Any goroutine may call any method, concurrently with others. Unless its comment says
// otherwise, a method does not block, and the caller may hold a connection's mu. No
// method may be called with Server.mu held.
type Replica interface {
	// Submit queues requests for the stage Order. It copies their bodies.
	Submit(reqs []replica.Request)
	// Bring is Submit for a caller that calls Work soon.
	Bring(reqs []replica.Request)
	// Work runs stages on the caller's goroutine, which calls Origin and Clients, and may wait for the
	// disk if reader is not nil. If that takes long, it calls reader.StandIn, and returns false in the end.
	// The caller holds no lock.
	Work(reader replica.Reader) (goOn bool)
	// Resume moves a session to another connection; Origin.Resumed, ResumedLocal,
	// Dropped or Leave answers.
	Resume(id zk.SessionID, owner session.Owner, timeoutMillis int32, origin replica.Origin)
	// EndLocal ends a session that is local to this server.
	EndLocal(id zk.SessionID)
	// DiskShort reports whether the disk is nearly full, so that writes are refused.
	DiskShort() bool
	// Outstanding returns the number of requests submitted and not yet applied.
	Outstanding() int

	// View calls f with the tree under its read lock. It blocks while a batch is
	// being applied. The caller holds no lock; f may lock a connection's mu and
	// Server.mu.
	View(f func(tree replica.View))
	// ViewAt is View at a time of Now that the caller has just read. If the caller's last
	// View did a whole piece of work it sets inTurn; only one such View runs at a time.
	ViewAt(h *replica.Hold, now time.Duration, inTurn bool, f func(tree replica.View))
	// Watches calls f with the watch tables, under their lock, which is a leaf.
	Watches(f func(*watch.Tables))
	// LastApplied returns the zxid of the last transaction in the tree.
	LastApplied() zk.Zxid

	// Mode returns the server's role for its clients, Since when that role began,
	// by Now.
	Mode() replica.Mode
	Since() time.Duration
	// DiskAway reports whether the mode is Idle because the disk does not finish a
	// write.
	DiskAway() bool
	// Stopping reports whether the replica is closing or has failed. Failed is
	// closed when it has failed.
	Stopping() bool
	Failed() <-chan struct{}
	// Now is the clock of requests and sessions. Millis converts a time of Now to
	// milliseconds since 1970.
	Now() time.Duration
	Millis(t time.Duration) int64

	// DumpSessions makes the stage Order call f, which must not block. It does not
	// wait.
	DumpSessions(f func(replica.SessionDump))
	// Status returns the state of the ensemble; nil on a standalone server.
	Status() *zab.Status
	Stats() *replica.Stats
	// BindMetrics adds the replica's metrics to a registry. Attach calls it once.
	BindMetrics(reg *metric.Registry)
}
