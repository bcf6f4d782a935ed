package ensemble

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/test/ensemble/client"
	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
	"github.com/pinfold-zk/pinfold/test/ensemble/load"
	"github.com/pinfold-zk/pinfold/zk"
)

// learnerLoad is how long each learner is used.
const learnerLoad = 3 * time.Second

// TestSyncsAmongWrites has many clients of one learner send syncs and writes at
// the same time. Apache's followers want the leader's answers, commits and syncs
// alike, in the order of what they have forwarded: after one that is out of
// order they answer no write ever again.
func TestSyncsAmongWrites(t *testing.T) {
	for _, members := range mixtures(t, "apache,apache,pinfold", "apache,pinfold,pinfold", "pinfold,pinfold,pinfold",
		"pinfold,pinfold,pinfold,apache:observer", "apache,apache,apache,pinfold:observer") {
		t.Run(members, func(t *testing.T) {
			r := newRig(t, members, rigOptions{})
			leader, _ := r.leader()
			for _, m := range r.e.Members {
				if m != leader {
					r.learnerUsed(m)
				}
			}
			r.equal()
		})
	}
}

// learnerUsed has clients use a learner; every request must be answered.
func (r *rig) learnerUsed(m *cluster.Member) {
	r.t.Helper()
	end := time.Now().Add(learnerLoad)
	var wg sync.WaitGroup
	for i := range 3 * *clients {
		wg.Go(func() {
			if err := useLearner(m, fmt.Sprintf("/learner-%d-%d", m.ID, i), end); err != nil {
				r.t.Errorf("a client of member %v: %v", m, err)
			}
		})
	}
	wg.Wait()
}

// useLearner writes and syncs until the end. A write that was acknowledged must
// be seen behind a sync.
func useLearner(m *cluster.Member, path string, end time.Time) error {
	s := client.New(sessionTimeout, 4*answerPatience)
	if err := s.Connect(m.Client); err != nil {
		return err
	}
	if _, err := s.Do(client.Create(path, nil, zk.Persistent)); err != nil {
		return err
	}
	for n := 0; time.Now().Before(end); n++ {
		data := fmt.Sprint(n)
		replies, err := s.Do(client.Sync("/"), client.Set(path, []byte(data), -1), client.Sync("/"), client.Get(path))
		if err != nil {
			return err
		}
		for i, r := range replies {
			if r.Code != zk.OK {
				return fmt.Errorf("request %d of round %d: %w", i, n, r.Code)
			}
		}
		if got, _, err := replies[3].Data(); err != nil || string(got) != data {
			return fmt.Errorf("round %d: %q is read back, %v", n, got, err)
		}
	}
	_, err := s.Close()
	return err
}

// missed is how many writes a member misses to be sent a snapshot: more than
// leaders keep in memory, of more bytes than a third of the tree.
const missed = 3000

// TestSnapshotInstalled has each member in turn miss writes until it is sent a
// snapshot, and kills it soon after: the snapshot is what its directory has, and
// both programs must find the tree with it.
func TestSnapshotInstalled(t *testing.T) {
	for _, members := range mixtures(t, "apache,apache,pinfold", "apache,pinfold,pinfold", "pinfold,pinfold,pinfold",
		"pinfold,pinfold,pinfold,apache:observer", "apache,apache,apache,pinfold:observer") {
		t.Run(members, func(t *testing.T) {
			r := newRig(t, members, rigOptions{})
			for _, m := range r.e.Members {
				m.Kill()
				_, err := r.e.WaitLeader(r.within(patience), func(l *cluster.Member) bool { return l != m })
				r.must(err)
				w, err := load.StartWriters(load.WritersConfig{
					Addrs: r.addressesWithout(m), Clients: 2, Batch: 100, Znodes: 10, Bytes: 100,
				})
				r.must(err)
				r.written(w, missed)
				r.must(w.Stop())
				r.must(m.Start())
				_, err = r.e.WaitCaughtUp(r.within(patience), m)
				r.must(err)
			}
			r.directories(r.equal())
		})
	}
}

// addressesWithout are where clients find the other members.
func (r *rig) addressesWithout(m *cluster.Member) []string {
	return slices.DeleteFunc(r.e.Clients(), func(a string) bool { return a == m.Client })
}
