package replica

import (
	"time"

	"github.com/pinfold-zk/pinfold/internal/zab"
)

// Mode is what a server is to its clients.
type Mode int32

// The modes.
const (
	Idle       Mode = iota // a server of an ensemble without a quorum; it serves no client
	Standalone             // no server of an ensemble
	Leader
	Follower
	Observer
	ReadOnly // without a quorum as well; it serves clients that accept reads of an old state
)

// String is what the four-letter words call the mode.
func (m Mode) String() string {
	return [...]string{"idle", "standalone", "leader", "follower", "observer", "read-only"}[m]
}

// Writable reports whether a server in this mode takes writes, and so may have
// sessions that the whole ensemble knows.
func (m Mode) Writable() bool { return m != Idle && m != ReadOnly }

// modeTimes is when modes and roles began, and when ReadOnly is to begin. Order owns it.
type modeTimes struct {
	idleSince  time.Duration // when the last writable mode ended
	lookingFor time.Duration // when the present election began
	electedAt  time.Duration // when the present role was taken
	readOnlyAt time.Duration // when ReadOnly is to begin if there is no quorum; 0 is never
}

// Mode returns the present mode.
func (r *Replica) Mode() Mode { return Mode(r.mode.Load()) }

// Since is when the present mode began, by Now.
func (r *Replica) Since() time.Duration { return time.Duration(r.since.Load()) }

// DiskAway reports whether the mode is Idle and began while the disk had finished no
// write for long (zab.Core.DiskStalled). The others elect a leader without this server,
// which serves again only after its disk has finished all writes.
func (r *Replica) DiskAway() bool { return r.diskAway.Load() }

// modeOf is the mode of a role that serves.
func modeOf(role zab.Role) Mode {
	return [...]Mode{zab.Looking: Idle, zab.Leading: Leader, zab.Following: Follower, zab.Observing: Observer}[role]
}

// setMode begins another mode.
func (o *orderer) setMode(m Mode) {
	now := o.Now()
	before := o.Mode()
	o.since.Store(int64(now))
	o.diskAway.Store(m == Idle && o.core != nil && o.core.DiskStalled())
	o.mode.Store(int32(m))
	o.serving.Store(m.Writable())
	if m != Idle {
		defer o.o.Clients.Admit()
	}
	switch {
	case before.Writable() && !m.Writable():
		o.idleSince = now
	case m.Writable() && m != Standalone:
		o.stats.noteServing(m, now-o.idleSince, now-o.electedAt)
	}
}
