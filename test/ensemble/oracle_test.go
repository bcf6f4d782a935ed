package ensemble

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
)

// TestOracle has two members with an oracle each (oraclePath) lose each other in turn. The one that is
// left serves only when its oracle permits it, goes on alone, and brings the other one up to date when that
// one is back, whose oracle permits nothing.
func TestOracle(t *testing.T) {
	for _, members := range mixtures(t, "pinfold,pinfold", "pinfold,apache-3.9") {
		t.Run(members, func(t *testing.T) {
			file := func(m *cluster.Member) string { return filepath.Join(m.Dir, "oracle") }
			says := func(m *cluster.Member, what string) error {
				// Replaced, not written: the member must not read a file without content.
				if err := os.WriteFile(file(m)+".new", []byte(what), 0o644); err != nil {
					return err
				}
				return os.Rename(file(m)+".new", file(m))
			}
			r := newRig(t, members, rigOptions{before: func(e *cluster.Ensemble) {
				for _, m := range e.Members {
					err := m.Configure("oraclePath=" + file(m))
					if err == nil {
						err = says(m, "0\n")
					}
					if err != nil {
						t.Fatal(err)
					}
				}
			}})
			r.load()
			for _, m := range r.e.Members {
				other := r.e.Member(3 - m.ID)
				r.step("kill -9 of %v", m)
				m.Kill()
				r.must(other.WaitNoRole(r.within(patience)))
				acked := r.l.Acked()
				r.step("%v has no role; now its oracle permits it to go on alone", other)
				if now := r.l.Acked(); now != acked {
					t.Errorf("%d writes were acknowledged without a quorum", now-acked)
				}
				r.must(says(other, "1\n"))
				r.progress()
				r.step("%v comes back", m)
				r.whole()
				r.progress()
				r.step("the oracle permits nobody any more")
				r.must(says(other, "0\n"))
				r.progress()
				r.whole()
			}
			r.finish()
		})
	}
}
