package load

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pinfold-zk/pinfold/test/ensemble/client"
	"github.com/pinfold-zk/pinfold/test/ensemble/history"
	"github.com/pinfold-zk/pinfold/zk"
)

// checkFinal looks at what all clients left: the private state of every session,
// living or ended, the pairs, and every ephemeral. Sessions that fell silent are
// waited for until ctx ends.
func (l *Load) checkFinal(ctx context.Context) (findings []string, err error) {
	defer company(l.session, l.cfg.Addrs)()
	s := l.session(l.cfg.Timeout, setupPatience)
	if err := s.Connect(l.cfg.Addrs[0]); err != nil {
		return nil, err
	}
	defer s.Drop()
	alive := map[zk.SessionID]bool{s.ID(): true}
	for _, w := range l.workers {
		alive[w.s.ID()] = true
	}
	if err := waitSessions(ctx, s, l.workers, alive); err != nil {
		findings = append(findings, err.Error())
	}
	for _, w := range l.workers {
		found, err := l.checkKeep(s, w.private, true)
		if err != nil {
			return nil, err
		}
		findings = append(findings, found...)
	}
	for _, k := range l.left {
		found, err := l.checkKeep(s, k, false)
		if err != nil {
			return nil, err
		}
		findings = append(findings, found...)
	}
	found, err := l.checkBeacons(s)
	if err != nil {
		return nil, err
	}
	findings = append(findings, found...)
	for i := range pairs {
		if l.cfg.Old {
			break
		}
		p := pairPath(i)
		replies, err := s.Do(client.MultiGet(p+"/a", p+"/b", p+"/c"))
		if err != nil {
			return nil, err
		}
		l.workers[0].judgePair(p, replies[0])
	}
	_, err = s.Close()
	return findings, err
}

// checkKeep compares the private state of a session with what is there.
func (l *Load) checkKeep(s *client.Session, k *keep, alive bool) ([]string, error) {
	replies, err := s.Do(client.Get(k.root))
	if err != nil {
		return nil, err
	}
	if replies[0].Code == zk.ErrNoNode && !k.made {
		return nil, nil
	}
	got, err := k.read(s)
	if err != nil {
		return nil, err
	}
	if err := k.settle(got, alive); err != nil {
		return []string{"in the end: " + err.Error()}, nil
	}
	return nil, nil
}

// checkBeacons compares the beacons that there are with those that there must be.
func (l *Load) checkBeacons(s *client.Session) (findings []string, err error) {
	alive := map[int]bool{}
	for _, w := range l.workers {
		alive[w.life.Session] = true
	}
	replies, err := s.Do(client.Sync("/"), client.Children(beaconRoot))
	if err != nil {
		return nil, err
	}
	names, _, err := replies[1].Names()
	if err != nil {
		return nil, err
	}
	there := map[string]bool{}
	for _, n := range names {
		there[beaconRoot+"/"+strings.Clone(n)] = true
	}
	for _, b := range l.beacons {
		switch {
		case !there[b.Path] && alive[b.Session] && b.Outcome == history.Done:
			findings = append(findings, fmt.Sprintf("in the end %s is not there although its session lives", b.Path))
		case there[b.Path] && !alive[b.Session]:
			findings = append(findings, fmt.Sprintf("in the end %s is there although its session has ended", b.Path))
		}
	}
	return findings, nil
}

// waitTick is how often the end of a session is looked for.
const waitTick = 200 * time.Millisecond

// waitSessions waits until no ephemeral below the roots of this load belongs to
// a session that is not alive. Meanwhile it keeps the living sessions alive.
func waitSessions(ctx context.Context, s *client.Session, workers []*worker, alive map[zk.SessionID]bool) error {
	tick := time.NewTicker(waitTick)
	defer tick.Stop()
	for {
		dead, err := deadOwners(s, alive)
		if err != nil {
			return err
		}
		if len(dead) == 0 {
			return nil
		}
		for _, w := range workers {
			if w.s.ID() == 0 {
				continue
			}
			if err := w.stayAlive(); err != nil {
				return fmt.Errorf("session %v, which must live: %w", w.s.ID(), err)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("sessions that fell silent still have ephemerals: %v", dead)
		}
	}
}

// deadOwners returns the sessions that are not alive and have ephemerals.
func deadOwners(s *client.Session, alive map[zk.SessionID]bool) (dead []zk.SessionID, err error) {
	todo := []string{privateRoot, sequentialRoot, beaconRoot}
	owners := map[zk.SessionID]bool{}
	if _, err := s.Do(client.Sync("/")); err != nil {
		return nil, err
	}
	for len(todo) > 0 {
		var reqs []client.Request
		for _, p := range todo {
			reqs = append(reqs, client.Children(p))
		}
		replies, err := s.Do(reqs...)
		if err != nil {
			return nil, err
		}
		var below []string
		for i, r := range replies {
			if r.Code != zk.OK {
				continue // it has gone since it was listed
			}
			names, st, err := r.Names()
			if err != nil {
				return nil, err
			}
			if o := zk.SessionID(st.EphemeralOwner); o != 0 && !alive[o] {
				owners[o] = true
			}
			for _, n := range names {
				below = append(below, todo[i]+"/"+strings.Clone(n))
			}
		}
		todo = below
	}
	return slices.Sorted(maps.Keys(owners)), nil
}
