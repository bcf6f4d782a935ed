package server

import (
	"fmt"

	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/replica"
)

// membership prints the part of conf that only servers of an ensemble have.
func (t *text) membership(q *config.Quorum) {
	peerType := 0
	line := t.c.s.OwnLine()
	if line.Observer {
		peerType = 1
	}
	own := line.Addresses[0]
	t.b = fmt.Appendf(t.b, "initLimit=%d\nsyncLimit=%d\nelectionAlg=3\nelectionPort=%d\nquorumPort=%d\npeerType=%d\n",
		q.InitLimit, q.SyncLimit, own.ElectionPort, own.QuorumPort, peerType)
	if t.mode != replica.ReadOnly { // as in Apache
		t.b = append(append(t.b, "membership: \n"...), t.c.s.Members().Text()...)
	}
}
