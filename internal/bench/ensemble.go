package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// An ensemble is several servers of a System that agree with each other, all on
// this machine. It is used by one goroutine.
type ensemble struct {
	system  System
	dir     string // member i has dir/i+1
	port    int    // member i takes clients at port+i
	members []*instance
}

// An ensemble of n uses as many ports for clients, then for the links of
// learners, then for elections.
// One server has none.
func (e *ensemble) config(n int) []string {
	lines := []string{"initLimit=10", "syncLimit=5"}
	if n > 1 {
		lines = append(lines, e.system.TLS.peerPorts()...)
	}
	for j := range n {
		if n == 1 {
			break
		}
		lines = append(lines, fmt.Sprintf("server.%d=127.0.0.1:%d:%d", j+1, e.port+n+j, e.port+2*n+j))
	}
	return lines
}

func (e *ensemble) memberDir(i int) string { return filepath.Join(e.dir, fmt.Sprint(i+1)) }

// startEnsemble starts n servers with empty data directories, and waits until
// all of them serve. extra are further lines of zoo.cfg.
func startEnsemble(ctx context.Context, s System, dir string, port, n int, extra ...string) (*ensemble, error) {
	e := &ensemble{system: s, dir: dir, port: port}
	for i := range n {
		if err := writeConfig(s, e.memberDir(i), port+i, append(e.config(n), extra...)...); err != nil {
			return nil, err
		}
		myid := filepath.Join(e.memberDir(i), "data", "myid")
		if err := os.WriteFile(myid, fmt.Appendf(nil, "%d\n", i+1), 0o644); err != nil {
			return nil, fmt.Errorf("bench: %w", err)
		}
	}
	for i := range n {
		member, err := launch(s, e.memberDir(i), port+i)
		if err != nil {
			e.stop()
			return nil, err
		}
		e.members = append(e.members, member)
	}
	for i := range n {
		if err := e.awaitSync(ctx, i); err != nil {
			e.stop()
			return nil, err
		}
	}
	return e, nil
}

// awaitSync waits until member i serves, and has what the others had then.
func (e *ensemble) awaitSync(ctx context.Context, i int) error {
	m := e.members[i]
	return m.await(ctx, func(ctx context.Context) error { return syncOnce(ctx, e.system.TLS, m.addr) })
}

// stop kills those that live.
func (e *ensemble) stop() {
	for _, m := range e.members {
		m.kill()
	}
}

// kill ends member i at once, as kill -9 does.
func (e *ensemble) kill(i int) { e.members[i].kill() }

// restart starts member i, which was killed, again.
func (e *ensemble) restart(i int) error {
	m, err := launch(e.system, e.memberDir(i), e.port+i)
	if err != nil {
		return err
	}
	e.members[i] = m
	return nil
}

// living returns the numbers of the members that were not killed.
func (e *ensemble) living() (list []int) {
	for i, m := range e.members {
		select {
		case <-m.ended:
		default:
			list = append(list, i)
		}
	}
	return list
}

// options are of a load on the members given.
func (e *ensemble) options(members []int) (o Options) {
	o.TLS = e.system.TLS
	for _, i := range members {
		o.Servers = append(o.Servers, e.members[i].addr)
		o.Pids = append(o.Pids, e.members[i].cmd.Process.Pid)
	}
	return o
}

// addresses are of all members, living or not.
func (e *ensemble) addresses() (list []string) {
	for i := range e.members {
		list = append(list, localhost(e.port+i))
	}
	return list
}

// leaderTimeout bounds the wait for a leader.
const leaderTimeout = 30 * time.Second

// leader waits until a member says that it leads, and returns its number.
func (e *ensemble) leader(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, leaderTimeout)
	defer cancel()
	again := time.NewTicker(tick)
	defer again.Stop()
	for {
		for _, i := range e.living() {
			if leads(ctx, e.system.TLS, e.members[i].addr) {
				return i, nil
			}
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("bench: no member of %s leads: %w", e.system.Name, ctx.Err())
		case <-again.C:
		}
	}
}

// followers returns the living members other than the leader. They come in the
// order of their numbers.
func (e *ensemble) followers(ctx context.Context) ([]int, error) {
	leader, err := e.leader(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(e.living(), func(i int) bool { return i == leader }), nil
}

// failed adds to an error where the servers' logs are, and which of them have
// ended by themselves.
func (e *ensemble) failed(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	living := e.living()
	var gone []string
	for i := range e.members {
		if !slices.Contains(living, i) {
			gone = append(gone, fmt.Sprint(i+1))
		}
	}
	if len(gone) == 0 {
		return fmt.Errorf("%w (logs in %s)", err, e.dir)
	}
	return fmt.Errorf("%w (logs in %s; not running: %s)", err, e.dir, strings.Join(gone, ", "))
}

// rest lets d pass.
func rest(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
