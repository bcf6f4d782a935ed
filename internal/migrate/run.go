package migrate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pinfold-zk/pinfold/internal/fourletter"
	"github.com/pinfold-zk/pinfold/internal/plan"
	"github.com/pinfold-zk/pinfold/zk"
)

func (r *migration) poll(ctx context.Context, say func(string), f func(context.Context) error) error {
	return plan.Poll(ctx, r.o.Wait, say, f)
}

// hatch starts the canaries.
func (r *migration) hatch(ctx context.Context, _ func(string)) (err error) {
	r.flock, err = hatch(ctx, r.e, r.c, len(r.c.Members), r.o.Canary)
	return err
}

// end ends the canaries, if the steps have not.
func (r *migration) end() {
	if r.flock != nil {
		r.flock.close()
	}
}

// takeNext takes the member at index i of the order. One that leads changes places with the
// last: an election has made it the leader since the plan was made.
func (r *migration) takeNext(ctx context.Context, i int, say func(string)) error {
	resumed := r.state.at(r.order[i].ID) != "" && ask(ctx, r.e, r.order[i]).Gone()
	if !resumed {
		if i > 0 {
			if err := r.settle(ctx); err != nil {
				return err
			}
		}
		if err := r.sound(ctx, say); err != nil {
			return fmt.Errorf("nothing was done to server %d: %w", r.order[i].ID, err)
		}
		last := len(r.order) - 1
		if i < last && ask(ctx, r.e, r.order[i]).Mode == "leader" {
			r.order[i], r.order[last] = r.order[last], r.order[i]
			say(fmt.Sprintf("server %d leads now and is taken last; server %d is taken first", r.order[last].ID, r.order[i].ID))
		}
	}
	if err := r.take(ctx, r.order[i], resumed, say); err != nil {
		return err
	}
	if r.o.Verify == nil {
		return nil
	}
	if err := r.sound(ctx, say); err != nil {
		return err
	}
	return r.o.Verify(ctx, say)
}

// settle lets clients settle, between two members for example.
func (r *migration) settle(ctx context.Context) error {
	select {
	case <-time.After(r.o.Settle):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sound waits until all members are in sync.
func (r *migration) sound(ctx context.Context, say func(string)) error {
	return r.poll(ctx, say, func(ctx context.Context) error {
		if _, wrong := unsound(ctx, r.e, r.c); len(wrong) > 0 {
			return errors.New(strings.Join(wrong, "; "))
		}
		return nil
	})
}

// take replaces the server of a member. resumed says that the server was stopped by an
// earlier run.
func (r *migration) take(ctx context.Context, m Member, resumed bool, say func(string)) error {
	began := time.Now()
	if r.flock != nil {
		r.flock.felt() // from here on
	}
	if !resumed {
		if err := r.stop(ctx, m, say); err != nil {
			return err
		}
	}
	say("start")
	if err := r.e.Start(ctx, m); err != nil {
		return r.back(m, "the command that starts server %d failed: %w", m.ID, err)
	}
	now, err := r.catchUp(ctx, m, say)
	if err != nil {
		return err
	}
	away := time.Since(began)
	say(fmt.Sprintf("%s, runs %s, has caught up with %v; it was away for %d ms", now.Mode, now.Version, now.Zxid, away.Milliseconds()))
	rec := record{State: done, AwayMS: away.Milliseconds()}
	if r.flock != nil {
		felt := r.flock.felt()
		say("clients: " + felt.String())
		rec.Felt = &felt
	}
	return r.state.set(m.ID, rec)
}

// stop stops the server of a member, and waits until it has ended, and another leads if it
// was the leader.
func (r *migration) stop(ctx context.Context, m Member, say func(string)) error {
	was := ask(ctx, r.e, m)
	say(fmt.Sprintf("%v", was))
	if r.handsOver(m, was) {
		var err error
		if was, err = r.handOver(ctx, m, say); err != nil {
			return fmt.Errorf("nothing was stopped: %w", err)
		}
	}
	if err := r.state.set(m.ID, record{State: stopping}); err != nil {
		return err
	}
	say("stop")
	if err := r.e.Stop(ctx, m); err != nil {
		return r.back(m, "the command that stops server %d failed, it may run still, or not: %w", m.ID, err)
	}
	err := r.poll(ctx, say, func(ctx context.Context) error {
		if s := ask(ctx, r.e, m); !s.Gone() {
			return fmt.Errorf("server %d still answers", m.ID)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%w. Nothing was started. Stop its server by hand, and repeat the command", err)
	}
	if err := r.state.set(m.ID, record{State: starting}); err != nil {
		return err
	}
	if was.Mode != "leader" {
		return nil
	}
	return r.poll(ctx, say, func(ctx context.Context) error {
		leader := look(ctx, r.e, r.c).leader()
		if leader == nil {
			return errors.New("the others have elected no leader")
		}
		say(fmt.Sprintf("server %d leads now", leader.ID))
		return nil
	})
}

// handsOver reports whether a member hands the leadership over before it is stopped.
func (r *migration) handsOver(m Member, s fourletter.Answer) bool {
	return s.Mode == "leader" && program(s.Version) == Pinfold && r.e.CanHandOver(m)
}

// handOver has a member leave the leadership, and waits until all are in sync with the next
// leader: they elect it with the vote of this one, which is then stopped as a follower. If it
// keeps the leadership, it hands over when it is stopped.
func (r *migration) handOver(ctx context.Context, m Member, say func(string)) (fourletter.Answer, error) {
	say("hand the leadership over")
	asking, cancel := context.WithTimeout(ctx, fourletter.AnswerWithin)
	defer cancel()
	if err := r.e.HandOver(asking, m); err != nil {
		say(fmt.Sprintf("server %d leads on, and is stopped as the leader: %v", m.ID, err))
	}
	if err := r.sound(ctx, say); err != nil {
		return fourletter.Answer{}, err
	}
	if err := r.settle(ctx); err != nil { // or clients would feel both as one gap
		return fourletter.Answer{}, err
	}
	now := ask(ctx, r.e, m)
	say(fmt.Sprintf("%v", now))
	return now, nil
}

// catchUp waits until a member that was started serves, is of the right program, and has
// applied what the leader had applied then.
func (r *migration) catchUp(ctx context.Context, m Member, say func(string)) (now fourletter.Answer, err error) {
	err = r.poll(ctx, say, func(ctx context.Context) error {
		if now = ask(ctx, r.e, m); now.Err != nil {
			return fmt.Errorf("server %d %v", m.ID, now)
		}
		return nil
	})
	if err != nil {
		return now, r.back(m, "server %d does not serve; its log says why: %w", m.ID, err)
	}
	if r.o.To != Any && program(now.Version) != r.o.To {
		return now, fmt.Errorf("server %d serves, and runs %s, not %s: is --start right?", m.ID, now.Version, r.o.To)
	}
	var goal zk.Zxid
	err = r.poll(ctx, say, func(ctx context.Context) error {
		if goal == 0 {
			v := look(ctx, r.e, r.c)
			leader := v.leader()
			if leader == nil {
				return errors.New("no member leads at the moment")
			}
			goal = v.servers[leader.ID].Zxid
		}
		if now = ask(ctx, r.e, m); now.Err != nil || now.Behind(goal) {
			return fmt.Errorf("server %d %v; the leader was at %v", m.ID, now, goal)
		}
		return nil
	})
	if err != nil {
		return now, r.back(m, "server %d serves and does not catch up: %w", m.ID, err)
	}
	return now, nil
}

// back says how to undo a step that did not succeed.
func (r *migration) back(m Member, format string, args ...any) error {
	return fmt.Errorf("%w. The others serve without it. Repeat the command to go on. The way back: stop what runs as server %d on %s, and start the server that it had; the data directory is good for both",
		fmt.Errorf(format, args...), m.ID, m.Host)
}

// finish waits until all members are in sync. Others may be on their way to the leader that
// the last step brought: an observer of 3.4 looks for the old one for five seconds.
func (r *migration) finish(ctx context.Context, say func(string)) error {
	if err := r.sound(ctx, say); err != nil {
		return err
	}
	if r.flock != nil {
		r.flock.close()
		r.After = "Clients, in all: " + r.flock.total().String()
		r.flock = nil
	}
	return nil
}
