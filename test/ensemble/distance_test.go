package ensemble

import (
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/test/ensemble/load"
)

// distances are how long bytes are on their way from one member to another: within a
// host, between data centers of a region, and between regions.
var distances = []time.Duration{0, time.Millisecond, 10 * time.Millisecond, 50 * time.Millisecond}

// distanceLoads are clients that wait for each answer, and some that do not.
var distanceLoads = []load.WritersConfig{
	{Clients: 1, Batch: 1, Znodes: 3000, Bytes: 1024},
	{Clients: 10, Batch: 1, Znodes: 3000, Bytes: 1024},
	{Clients: 30, Batch: 100, Znodes: 3000, Bytes: 1024},
}

// distanceTime is how long each load is measured.
const distanceTime = 3 * time.Second

// TestDistance measures writes at the leader and at a follower while every byte between
// members is on its way for a while, and the longest gap in acknowledged writes after kill
// -9 of the leader. Clients are next to their members.
func TestDistance(t *testing.T) {
	skipUnlessMeasured(t)
	for _, members := range mixtures(t, "apache,apache,apache", "pinfold,pinfold,pinfold") {
		t.Run(members, func(t *testing.T) {
			r := newRig(t, members, rigOptions{jvm: fastJVM, links: true})
			for _, d := range distances {
				r.e.Links.Delay(d)
				leader, _ := r.leader()
				for _, at := range []string{leader.Client, r.oneOfEachKind()[0].Client} {
					for _, c := range distanceLoads {
						c.Addrs = []string{at}
						rate := r.rate(c)
						t.Logf("RESULT distance %v %s at the leader: %v, %d x %d: %.0f/s, %.2f ms", d, members, at == leader.Client,
							c.Clients, c.Batch, rate, 1000*float64(c.Clients*c.Batch)/rate)
					}
				}
				w, err := load.StartWriters(failOverLoad(r))
				r.must(err)
				gap, _, _ := r.failOver(w)
				r.must(w.Stop())
				t.Logf("RESULT distance %v %s fail-over: %v", d, members, gap.Round(time.Millisecond/10))
			}
		})
	}
}

// rate returns how many writes a second are acknowledged under a load.
func (r *rig) rate(c load.WritersConfig) float64 {
	r.t.Helper()
	w, err := load.StartWriters(c)
	r.must(err)
	r.written(w, int64(2*c.Clients*c.Batch))
	began, before := time.Now(), w.Acked()
	<-time.After(distanceTime)
	rate := float64(w.Acked()-before) / time.Since(began).Seconds()
	r.must(w.Stop())
	return rate
}
