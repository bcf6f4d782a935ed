package server

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/zk"
)

// files lists a server's files whose names begin with prefix.
func (s *rig) files(prefix string) (list []string) {
	s.t.Helper()
	names, err := s.fs.List("/data/version-2")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, prefix) {
			list = append(list, name)
		}
	}
	return list
}

// With syncEnabled=false an observer serves as ever, and writes neither a log nor
// a snapshot but its first; when it starts again it takes the state from the leader.
func TestSyncEnabled(t *testing.T) {
	for _, enabled := range []bool{true, false} {
		inEnsemble(t, 3, 1, func(e *ensemble) {
			e.begin()
			writer, observer := e.leader().open(), e.in(replica.Observer)[0]
			for i := range 40 {
				writer.create(fmt.Sprintf("/a%d", i), "x", zk.Persistent)
			}
			pass(rigTick)
			logs, snapshots := observer.files("log."), observer.files("snapshot.")
			if (len(logs) > 0) != enabled || (len(snapshots) > 1) != enabled {
				t.Errorf("enabled %v: logs %q, snapshots %q", enabled, logs, snapshots)
			}
			// Those who vote are not asked.
			if follower := e.in(replica.Follower)[0]; len(follower.files("log.")) == 0 || len(follower.files("snapshot.")) < 2 {
				t.Errorf("enabled %v: a follower has logs %q, snapshots %q", enabled, follower.files("log."), follower.files("snapshot."))
			}
			id := e.id(observer)
			e.stop(observer)
			writer.create("/b", "y", zk.Persistent)
			e.start(id)
			e.await()
			reader := e.rigs[id].open()
			for path, want := range map[string]string{"/a0": "x", "/a39": "x", "/b": "y"} {
				if got, r := reader.get(path); got != want {
					t.Errorf("enabled %v: after a restart %s is %q, %v", enabled, path, got, r.Err)
				}
			}
		}, func(_ int64, s *rigSetup) { s.cfg.Quorum.SyncEnabled, s.cfg.Snapshot.Count = enabled, 10 })
	}
}
