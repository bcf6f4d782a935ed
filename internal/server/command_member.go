package server

import (
	"fmt"

	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/replica"
)

// membership prints the part of conf that only servers of an ensemble have.
func (t *text) membership(q *config.Quorum) {
	peerType := 0
	if q.Observer {
		peerType = 1
	}
	own := q.Own().Addresses[0]
	t.b = fmt.Appendf(t.b, "initLimit=%d\nsyncLimit=%d\nelectionAlg=3\nelectionPort=%d\nquorumPort=%d\npeerType=%d\n",
		q.InitLimit, q.SyncLimit, own.ElectionPort, own.QuorumPort, peerType)
	if t.mode != replica.ReadOnly { // as in Apache
		t.b = append(append(t.b, "membership: \n"...), q.Members.Text()...)
	}
}
