// Package member is `pinfold member`: it shows the members of an ensemble and changes
// them while they serve, of Pinfold and of Apache ZooKeeper.
//
// A command looks at the ensemble, makes a Plan of checks and steps, shows it, asks, and
// carries the steps out. A check that fails refuses the command before anything is changed,
// and says what to do. Each step is one transaction or a wait; a command that was
// interrupted can be run again, and goes on where it stopped. Only move-leader without an
// administration server cannot: between its steps the leader's vote is given back by promote.
//
//	view.go   what the ensemble is at the moment
//	plan.go   the plan of each command, a function of the view
//	check.go  the checks
//	run.go    what the steps of a plan do
//	list.go   shows the members
//	live.go   a real ensemble
package member

import (
	"context"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/internal/fourletter"
)

// An Ensemble is what the commands see, and how they change it. Live is the real one.
type Ensemble interface {
	// Members returns the configuration, at least as new as when it was called.
	Members(ctx context.Context) (client.Members, error)
	// Status asks a server at its address for clients what it does.
	Status(ctx context.Context, addr string) (fourletter.Status, error)
	// MembersAt returns the configuration as one server has it.
	MembersAt(ctx context.Context, addr string) (client.Members, error)
	// LookUp resolves a host name at a member, on this machine if that is nil. The error is
	// ErrNotAsked if the member cannot be asked.
	LookUp(ctx context.Context, at *client.Member, host string) error
	// Reconfig changes the configuration.
	Reconfig(ctx context.Context, change client.Reconfig) error
	// Write commits a transaction that changes nothing: servers that were removed learn of
	// that by it.
	Write(ctx context.Context) error
	// CanHandOver reports whether a leader can be asked to leave the leadership.
	CanHandOver(leader int64) bool
	// HandOver asks it, and returns when it has left.
	HandOver(ctx context.Context, leader *client.Member) error
}

// A Command is what is to be done.
type Command struct {
	Name string        // add, remove, promote, demote, replace or move-leader
	ID   int64         // of the member; not of add and move-leader
	New  client.Member // of add and replace
}
