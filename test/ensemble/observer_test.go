package ensemble

import (
	"context"
	"fmt"
	"regexp"
	"testing"

	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
)

// TestObserverMasterPort has observers of an ensemble with observerMasterPort lose the member that
// serves them, follower or leader, each voter in turn as the leader: observers use that port of any voter.
func TestObserverMasterPort(t *testing.T) {
	for _, members := range mixtures(t,
		"pinfold,pinfold,pinfold,pinfold:observer,pinfold:observer",
		"pinfold,pinfold,pinfold,apache:observer,apache-3.9:observer",
		"apache-3.9,pinfold,apache,pinfold:observer,apache-3.9:observer",
		"apache-3.9,apache-3.9,apache-3.9,pinfold:observer,pinfold:observer",
	) {
		t.Run(members, func(t *testing.T) {
			r := newRig(t, members, rigOptions{spread: true, before: func(e *cluster.Ensemble) {
				port, err := e.FreePort()
				for _, m := range e.Members {
					if err == nil {
						err = m.Configure(fmt.Sprintf("observerMasterPort=%d", port))
					}
				}
				if err != nil {
					t.Fatal(err)
				}
			}})
			r.load()
			for _, m := range r.e.Voters() {
				r.must(r.e.Elect(r.within(patience), m, func(ctx context.Context) error { return r.l.WaitProgress(ctx, 100) }))
				r.whole()
				for _, f := range r.e.Voters() {
					if f != m {
						r.step("%v leads; kill -9 of a follower, %v, which serves %s observers", m, f, r.observersOf(f))
						f.Kill()
						r.progress()
						r.whole()
						break
					}
				}
				r.step("kill -9 of the leader, %v, which serves %s observers", m, r.observersOf(m))
				m.Kill()
				r.progress()
				r.whole()
			}
			r.finish()
		})
	}
}

// observersOf returns how many observers a member serves, as its mntr says.
func (r *rig) observersOf(m *cluster.Member) string {
	text, err := cluster.Ask(m.Client, "mntr", answerPatience)
	r.must(err)
	found := regexp.MustCompile(`zk_(?:synced|active)_observers\t(\d+)`).FindStringSubmatch(text)
	if found == nil {
		return "no"
	}
	return found[1]
}
