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

// Replica is what the server needs of a *replica.Replica. The replica calls back through
// replica.Clients, which Server implements, and replica.Origin, which conn implements.
//
// Any goroutine may call any method, at the same time as others. Unless a method says
// otherwise, it does not block, and the caller may hold a connection's mu. No method may
// be called with Server.mu held.
type Replica interface {
	// Submit queues requests for the stage Order. It copies their bodies.
	Submit(reqs []replica.Request)
	// Bring is Submit for a goroutine that may be kept busy: it runs stages on the
	// caller's goroutine, which calls Origin and Clients. The caller holds no lock.
	Bring(reqs []replica.Request)
	// Resume gives a session to another connection; Origin.Resumed, ResumedLocal, Dropped
	// or Leave answers.
	Resume(id zk.SessionID, owner session.Owner, timeoutMillis int32, origin replica.Origin)
	// EndLocal ends a session that lives on this server alone.
	EndLocal(id zk.SessionID)
	// Outstanding is the number of requests submitted and not yet applied.
	Outstanding() int

	// View calls f with the tree under its read lock. It blocks while a batch is being
	// applied. The caller holds no lock; f may take a connection's mu and Server.mu.
	View(f func(tree replica.View))
	// Watches calls f with the watch tables, under their lock, a leaf.
	Watches(f func(*watch.Tables))
	// LastApplied is the zxid of the last transaction in the tree.
	LastApplied() zk.Zxid

	// Mode is what the server is to its clients now, Since when that began, by Now.
	Mode() replica.Mode
	Since() time.Duration
	// DiskAway reports whether the mode is Idle because the disk finishes no write.
	DiskAway() bool
	// Stopping reports whether the replica is closing or has failed. Failed is closed
	// when it has.
	Stopping() bool
	Failed() <-chan struct{}
	// Now is the clock of requests and sessions; Millis is a time of Now in milliseconds
	// since 1970.
	Now() time.Duration
	Millis(t time.Duration) int64

	// DumpSessions has the stage Order call f, which must not block. It does not wait.
	DumpSessions(f func(replica.SessionDump))
	// Status is the state of the ensemble, nil on a standalone server.
	Status() *zab.Status
	Stats() *replica.Stats
	// BindMetrics adds the replica's metrics to a registry. Attach calls it once.
	BindMetrics(reg *metric.Registry)
}
