package ensemble

import (
	"context"
	"fmt"
	"testing"

	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
)

// TestObserverMasterPort has observers of an ensemble with observerMasterPort lose the member that
// serves them, each time another one: Apache's observers use nothing but that port of the voters.
func TestObserverMasterPort(t *testing.T) {
	for _, members := range mixtures(t,
		"pinfold,pinfold,pinfold,apache:observer,apache-3.9:observer",
		"apache-3.9,pinfold,apache,pinfold:observer,apache-3.9:observer",
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
				r.step("kill -9 of the leader, %v", m)
				m.Kill()
				r.progress()
				r.whole()
			}
			r.finish()
		})
	}
}
