// Package migrate is `pinfold migrate`: it changes the program of the members of an ensemble
// that serves, Apache ZooKeeper's to Pinfold or back, and compares the members.
//
// The members are taken one at a time, observers first and the leader last: the server of
// the member is stopped by a command of the user's, the other program is started over the
// same data directory by another, and the next member is taken when this one has caught up.
// No member is stopped unless all members are in sync and the others are a quorum. A state
// file says how far a run has come, so that an interrupted one can be run again.
//
//	config.go    the members, from zoo.cfg
//	view.go      what the members do at the moment
//	plan.go      the checks, and the order of the members
//	run.go       takes a member
//	state.go     the state file
//	hosts.go     puts servers on new hosts in the place of members
//	canary.go    what clients feel
//	verify.go    compares the members znode by znode
//	read.go      reads one member for that
//	sessions.go  compares the sessions of the members
//	live.go      a real ensemble
package migrate

import (
	"context"
	"strings"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/internal/fourletter"
	"github.com/pinfold-zk/pinfold/internal/plan"
	"github.com/pinfold-zk/pinfold/zk"
)

// The programs that members are to run.
const (
	Pinfold = "pinfold"
	Apache  = "apache"
	Any     = "any" // every member is taken once, whatever it runs
)

// An Ensemble is what a migration sees of the members, and how it changes them. Live is the
// real one.
type Ensemble interface {
	// Status asks a member what it does.
	Status(ctx context.Context, m Member) (fourletter.Status, error)
	// Sessions asks a member for the sessions that it has, with their timeouts in milliseconds;
	// 0 for those whose timeouts it does not show.
	Sessions(ctx context.Context, m Member) (map[zk.SessionID]int32, error)
	// Stop and Start run the user's commands for the server of a member.
	Stop(ctx context.Context, m Member) error
	Start(ctx context.Context, m Member) error
	// CanHandOver reports whether a member of Pinfold's that leads can be asked to leave the
	// leadership; HandOver asks it, and returns when it has left.
	CanHandOver(m Member) bool
	HandOver(ctx context.Context, m Member) error
	// Dial opens a session at one of the servers.
	Dial(ctx context.Context, servers string, opts ...client.Option) (*client.Client, error)
}

// Options say how a migration is carried out.
type Options struct {
	plan.Options
	To     string        // Pinfold, Apache or Any
	Only   []int64       // the members to take; none: all
	Settle time.Duration // between two members
	State  string        // the state file
	Canary string        // the znode below which the canaries write; "": there are no canaries
	// Verify compares the members: before the first is taken, and after each. Nil: it is left out.
	Verify func(ctx context.Context, say func(string)) error
}

// program returns which program a version is of.
func program(version string) string {
	if strings.Contains(version, Pinfold) {
		return Pinfold
	}
	return Apache
}
