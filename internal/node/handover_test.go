package node

import (
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/vfs"
)

// lateEnd is a disk on which it takes a second to end a file of the log, as a server does that stops.
type lateEnd struct{ vfs.FS }

func (d lateEnd) CreateDirect(name string) (vfs.File, error) {
	f, err := d.FS.CreateDirect(name)
	return lateEndFile{f}, err
}

type lateEndFile struct{ vfs.File }

func (f lateEndFile) Truncate(size int64) error {
	<-time.After(time.Second)
	return f.File.Truncate(size)
}

// When a leader stops, the others elect another one at once. They wait neither until its disk is
// done nor for a vote that does not come.
func TestTheNextLeaderDoesNotWaitForTheEndOfTheLast(t *testing.T) {
	for range 8 { // a server that stops may still vote in time
		synctest.Test(t, stopLeader)
	}
}

func stopLeader(t *testing.T) {
	p := &peers{t: t, net: newPeersNet(), size: 3, nodes: map[int64]*peerNode{}, disks: map[int64]vfs.FS{}}
	for id := range p.size {
		p.disks[id+1] = lateEnd{vfs.NewMem()}
		p.start(id + 1)
	}
	if err := p.serves(3, peersPatience); err != nil {
		t.Fatal(err)
	}
	stopped := make(chan error, 1)
	for id, n := range p.nodes {
		if n.Replica().Mode() == replica.Leader {
			delete(p.nodes, id)
			go func() { stopped <- n.stop() }()
		}
	}
	synctest.Wait()
	if err := p.serves(2, 100*time.Millisecond); err != nil { // half of the wait for a vote
		t.Error(err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	for id := range maps.Clone(p.nodes) {
		if err := p.stop(id); err != nil {
			t.Error(err)
		}
	}
}
