package sim

import "github.com/pinfold-zk/pinfold/internal/zab"

// Bug is one that is put back, to prove that the checkers find it.
type Bug struct {
	Name       string // of the flag -mutation
	What       string
	zab        zab.Mutation
	noLastZxid bool
	lateEvents bool
}

// Bugs are all that can be put back. Those with a number are ZooKeeper's
// (protocol page, section 17.1).
var Bugs = [...]Bug{
	{Name: "2845", What: "a vote forgets what is logged and not committed", zab: zab.Bug2845},
	{Name: "3023", What: "a learner serves before what came before UPTODATE is committed", zab: zab.Bug3023},
	{Name: "3911", What: "NEWLEADER is acknowledged without the transactions before it", zab: zab.Bug3911},
	{Name: "4394", What: "COMMIT between NEWLEADER and UPTODATE makes the follower leave", zab: zab.Bug4394},
	{Name: "4643", What: "the epoch is written before the history", zab: zab.Bug4643},
	{Name: "4646", What: "NEWLEADER is acknowledged before the history is durable", zab: zab.Bug4646},
	{Name: "4685", What: "a proposal's ACK before NEWLEADER's is turned away", zab: zab.Bug4685},
	{Name: "4712", What: "after a failed synchronization the vote has the new epoch and the old zxid", zab: zab.Bug4712},
	{Name: "4785", What: "4646, where the synchronization is a DIFF", zab: zab.Bug4785},
	{Name: "4925", What: "transactions are taken with a gap before them", zab: zab.Bug4925},
	{Name: "ack-before-fsync", What: "a transaction is acknowledged before it is durable", zab: zab.AckBeforeFsync},
	{Name: "no-last-zxid", What: "a client that comes back is let in whatever it has seen", noLastZxid: true},
	{Name: "late-events", What: "watches fire after the reply", lateEvents: true},
}
