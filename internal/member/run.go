package member

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/internal/plan"
	"github.com/pinfold-zk/pinfold/zk"
)

// A run is a plan that is being carried out.
type run struct {
	e       Ensemble
	wait    time.Duration     // for a server that has to catch up, and for each change
	say     func(text string) // progress
	version zk.Zxid           // of the configuration that the next change is made to
}

// Run plans a command, shows the plan, asks confirm unless o.Yes, and carries it out.
func Run(ctx context.Context, e Ensemble, c Command, o plan.Options, out *plan.Printer, confirm func() bool) error {
	p, err := newPlan(ctx, e, c)
	if err != nil {
		return err
	}
	p.r.wait = o.Wait
	return p.Plan.Run(ctx, o, out, confirm)
}

// poll waits until f returns nil.
func (r *run) poll(ctx context.Context, f func(context.Context) error) error {
	return plan.Poll(ctx, r.wait, r.say, f)
}

// change makes one change of the configuration. If the answer is lost, as when the leader
// leaves by the change, it looks whether it was made.
func change(joining *client.Member, leaving ...int64) func(context.Context, *run) error {
	ask := client.Reconfig{}
	if joining != nil {
		ask.Joining = joining.Line()
	}
	var ids []string
	for _, id := range leaving {
		ids = append(ids, fmt.Sprint(id))
	}
	ask.Leaving = strings.Join(ids, ",")
	made := func(m client.Members) bool {
		for _, id := range leaving {
			if m.Find(id) != nil {
				return false
			}
		}
		if joining == nil {
			return true
		}
		now := m.Find(joining.ID)
		return now != nil && now.Line() == joining.Line()
	}
	return func(ctx context.Context, r *run) error {
		return r.poll(ctx, func(ctx context.Context) error {
			m, err := r.e.Members(ctx)
			switch {
			case err != nil:
				return err
			case m.Version != r.version && made(m):
				r.version = m.Version
				return nil
			case m.Version != r.version:
				return plan.Final{Err: errors.New("the configuration was changed by another: look at pinfold member list, then repeat the command")}
			}
			ask.From = int64(r.version)
			if err := explain(r.e.Reconfig(ctx, ask)); err != nil {
				return err
			}
			return errors.New("the new configuration is not visible yet")
		})
	}
}

// explain says what the error of a reconfiguration means. What may end by itself is not
// final.
func explain(err error) error {
	final := func(text string) error { return plan.Final{Err: errors.New(text)} }
	switch {
	case errors.Is(err, zk.ErrReconfigDisabled):
		return final("the leader has not reconfigEnabled=true: write it into the zoo.cfg of every member, and restart them one by one")
	case errors.Is(err, zk.ErrNoAuth):
		return final("no right to change /zookeeper/config: log in as the superuser (--auth-file, a line digest:super:password), or give another user the right to write by setAcl")
	case errors.Is(err, zk.ErrNewConfigNoQuorum):
		return errors.New("the leader waits for a quorum of the new voters to be in sync")
	case errors.Is(err, zk.ErrReconfigInProgress):
		return errors.New("another change is not committed yet")
	case errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrConnectionLoss), errors.Is(err, zk.ErrSessionMoved):
		return nil // the configuration tells what has become of it
	case errors.Is(err, zk.ErrUnimplemented) && !errors.Is(err, zk.ErrConnectionLoss):
		return final("the servers do not change their members: Apache ZooKeeper before 3.5, or a standalone server")
	case errors.Is(err, zk.ErrBadArguments), errors.Is(err, zk.ErrMarshalling):
		return plan.Final{Err: fmt.Errorf("the leader refuses the change: %w (its log says why, if it is Pinfold)", err)}
	}
	return err
}

// await waits until a member has the configuration of the run, and has reached what the
// leader had when the wait began, in its role.
func await(m client.Member) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		var goal zk.Zxid
		return r.poll(ctx, func(ctx context.Context) error {
			if goal == 0 {
				if err := r.e.Write(ctx); err != nil { // an epoch without a transaction is a zxid that no member reaches
					return err
				}
				v, err := look(ctx, r.e, nil)
				if err != nil {
					return err
				}
				leader := v.leader()
				if leader == nil {
					return errors.New("no member leads at the moment")
				}
				goal = max(v.servers[leader.ID].Zxid, r.version)
			}
			s := ask(ctx, r.e, &m)
			switch {
			case !s.Serves():
				return fmt.Errorf("server %d %v", m.ID, s)
			case (s.Mode == "observer") != m.Observer:
				return fmt.Errorf("server %d still serves as %s", m.ID, s.Mode)
			case s.Zxid < goal:
				return fmt.Errorf("server %d is at zxid %v of %v", m.ID, s.Zxid, goal)
			}
			return nil
		})
	}
}

// write commits a transaction.
func write(ctx context.Context, r *run) error { return r.poll(ctx, r.e.Write) }

// handOver has a leader leave the leadership, and waits for another.
func handOver(leader client.Member) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		asking, cancel := context.WithTimeout(ctx, r.wait)
		defer cancel()
		if err := r.e.HandOver(asking, &leader); err != nil {
			return err
		}
		return r.poll(ctx, func(ctx context.Context) error {
			v, err := look(ctx, r.e, nil)
			if err != nil {
				return err
			}
			switch now := v.leader(); {
			case now == nil:
				return errors.New("no member leads at the moment")
			case now.ID == leader.ID:
				return fmt.Errorf("server %d leads still", leader.ID)
			}
			return nil
		})
	}
}
