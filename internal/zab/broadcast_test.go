package zab

import (
	"testing"

	"github.com/pinfold-zk/pinfold/zk"
)

// What a learner has acknowledged it may have to give up when it is synchronized
// anew: a proposal that is not committed is cut off, or not in the snapshot, and
// sent again. Until it is acknowledged again it does not count.
func TestAnAcknowledgementIsOfOneSynchronization(t *testing.T) {
	o, links := leads(t, testConfig(3), history(4, 3), 2, 3)
	o.propose(1)
	o.ack(links[2], zk.MakeZxid(5, 1))
	l := o.accept()
	o.step(l, infoOf(2, 5), ackEpochOf(-1, zk.MakeZxid(5, 1)))
	want(t, "says", o.says(l), "LEADERINFO epoch 5, TRUNC <4,3>, PROPOSAL <5,1>, NEWLEADER epoch 5")
	o.persist()
	want(t, "committed", o.core.committed, zk.MakeZxid(4, 3))
	o.ack(l, zk.MakeZxid(5, 0))
	o.ack(l, zk.MakeZxid(5, 1))
	want(t, "committed", o.core.committed, zk.MakeZxid(5, 1))
}
