package zab

// Mutation puts a bug back that other implementations had, so that tests can show
// that they would have found it. It is for tests only; 0 is none. The numbers are
// those of ZOOKEEPER issues (protocol page, section 17.1).
type Mutation int

// The bugs.
const (
	_ Mutation = iota
	// AckBeforeFsync acknowledges a transaction that is not durable.
	AckBeforeFsync
	// AcksOutliveLinks counts what a follower has acknowledged before it was
	// synchronized anew.
	AcksOutliveLinks
	// EarlySnapshot sends a tree that lacks what is committed.
	EarlySnapshot
	// Bug2845 keeps the tree over elections: what is logged and not committed is
	// forgotten, and stays in the log.
	Bug2845
	// Bug3023 serves clients at UPTODATE, whatever is committed by then.
	Bug3023
	// Bug3104 lets a learner get proposals only when it is up to date.
	Bug3104
	// Bug3911 acknowledges NEWLEADER without having logged the transactions that
	// came before it; UPTODATE has them logged.
	Bug3911
	// Bug4394 sends COMMIT between NEWLEADER and UPTODATE, where a follower has
	// forgotten what it is about and leaves.
	Bug4394
	// Bug4643 makes the epoch durable before the history that it stands for.
	Bug4643
	// Bug4646 acknowledges NEWLEADER before the history is durable.
	Bug4646
	// Bug4685 acknowledges proposals before NEWLEADER; the leader expects the
	// other order, and turns away who does not keep it.
	Bug4685
	// Bug4712 votes, after a synchronization that has failed, with the new epoch
	// and the zxid of before.
	Bug4712
	// Bug4785 is 4646 where the synchronization is by DIFF.
	Bug4785
	// Bug4925 forgets to keep the transactions of a synchronization for others,
	// and takes transactions with a gap before them.
	Bug4925
)

// mutated reports whether a bug is put back.
func (c *Core) mutated(m Mutation) bool { return c.cfg.Mutation == m }
