package member

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// ErrRefused is the error of a command whose checks have failed; the plan that was printed
// says why. Nothing was changed.
var ErrRefused = errors.New("refused: nothing was changed")

// ErrDeclined is the error of a command that the user has not confirmed.
var ErrDeclined = errors.New("nothing was changed")

// pollEvery is the time between two looks at something that is waited for.
const pollEvery = 200 * time.Millisecond

// The time between two lines of progress: that differ, and that are the same.
const (
	tellEvery = 2 * time.Second
	tellAgain = 15 * time.Second
)

// A run is a plan that is being carried out.
type run struct {
	e       Ensemble
	o       Options
	say     func(text string) // progress
	version zk.Zxid           // of the configuration that the next change is made to
}

// Run plans a command, shows the plan, asks confirm unless o.Yes, and carries it out.
func Run(ctx context.Context, e Ensemble, c Command, o Options, out *Printer, confirm func() bool) error {
	p, err := newPlan(ctx, e, c)
	if err != nil {
		return err
	}
	out.plan(p)
	switch {
	case p.refused() != nil:
		return ErrRefused
	case o.DryRun:
		return nil
	case !o.Yes && !confirm():
		return ErrDeclined
	}
	r := &run{e: e, o: o, say: out.progress, version: p.v.Version}
	for i := range p.Steps {
		out.begins(i, p)
		if err := p.Steps[i].run(ctx, r); err != nil {
			out.failed(err)
			return fmt.Errorf("step %d of %d: %s: %w", i+1, len(p.Steps), p.Steps[i].Text, err)
		}
		out.done()
	}
	out.end(p, r.version)
	return nil
}

// poll calls f until it returns nil, and reports its error from time to time. A final error
// ends it.
func (r *run) poll(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, r.o.Wait)
	defer cancel()
	told, last := time.Now(), ""
	for {
		err := f(ctx)
		var end finalError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &end):
			return end.error
		case ctx.Err() != nil:
			return fmt.Errorf("not within %v: %w", r.o.Wait, err)
		}
		since := time.Since(told)
		if text := err.Error(); since >= tellEvery && text != last || since >= tellAgain {
			told, last = time.Now(), text
			r.say(text)
		}
		select {
		case <-time.After(pollEvery):
		case <-ctx.Done():
			return fmt.Errorf("not within %v: %w", r.o.Wait, err)
		}
	}
}

// A finalError is one that waiting does not help against.
type finalError struct{ error }

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
				return finalError{errors.New("the configuration was changed by another: look at pinfold member list, then repeat the command")}
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
	final := func(text string) error { return finalError{errors.New(text)} }
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
		return finalError{fmt.Errorf("the leader refuses the change: %w (its log says why, if it is Pinfold)", err)}
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
				if err := r.e.Write(ctx); err != nil { // an epoch without a transaction is a zxid that nobody reaches
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
			case !s.serves():
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
		asking, cancel := context.WithTimeout(ctx, r.o.Wait)
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
