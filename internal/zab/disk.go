package zab

import "github.com/pinfold-zk/pinfold/zk"

// publish raises Ready.Commit to what may be applied. A server that serves applies
// what is committed: a quorum has it on its disks, whether this server is one of
// them or not. Before that, committed is only what the log holds or the leader has
// sent, and the tree may be about to be replaced: there it must be durable here.
func (c *Core) publish() {
	z := c.committed
	if c.phase != broadcast {
		z = min(z, c.persistedZxid)
	}
	c.ready.Commit = max(c.ready.Commit, z)
}

// append adds an entry to the log and to the present write.
func (c *Core) append(e Entry) {
	if !follows(c.last, e.Zxid) || e.Zxid.Epoch() > c.currentEpoch {
		c.broken("%v appended behind %v, the current epoch is %d", e.Zxid, c.last, c.currentEpoch)
	}
	c.last = e.Zxid
	w := c.write(WriteEntries)
	w.Entries = append(w.Entries, e)
	if n := c.appends.Len(); n == 0 || c.appends.At(n-1).seq != w.Seq {
		c.appends.Push(appended{seq: w.Seq})
	}
	a := c.appends.At(c.appends.Len() - 1)
	n := c.cfg.Weigh(e.Data)
	a.last, a.bytes = e.Zxid, a.bytes+n
	c.unsynced += n
}

// write returns the write to be filled: entries that follow each other share
// one.
func (c *Core) write(kind WriteKind) *Write {
	ws := c.ready.Writes
	if n := len(ws); n > 0 && kind == WriteEntries && ws[n-1].Kind == WriteEntries {
		return &ws[n-1]
	}
	if c.persisted == c.seq {
		c.diskSince = c.now
	}
	c.seq++
	return c.ready.newWrite(c.seq, kind)
}

func (c *Core) writeAcceptedEpoch(e uint32) {
	c.check(e >= c.acceptedEpoch, "accepted epoch %d after %d", e, c.acceptedEpoch)
	c.acceptedEpoch = e
	c.write(WriteAcceptedEpoch).Epoch = e
}

func (c *Core) writeCurrentEpoch(e uint32) {
	c.check(e >= c.currentEpoch && e <= c.acceptedEpoch, "current epoch %d after %d, accepted is %d", e, c.currentEpoch, c.acceptedEpoch)
	c.currentEpoch = e
	c.write(WriteCurrentEpoch).Epoch = e
}

// reset makes the log end at z, by a TRUNC or a SNAP.
func (c *Core) reset(kind WriteKind, z zk.Zxid) {
	w := c.write(kind)
	w.Zxid, w.Link = z, c.learner.link
	c.last, c.committed = z, z
	c.persistedZxid = min(c.persistedZxid, z)
	c.appends.Push(appended{seq: w.Seq, last: z})
	if kind == WriteTruncate {
		c.window.truncate(z)
	} else {
		c.cure = w.Seq
		c.window.reset(nil, z)
	}
	c.ready.Commit, c.applied = min(c.ready.Commit, z), min(c.applied, z)
}

// follows reports whether z may come after last in a log: it is the next of the same
// epoch, or the first of a later one.
func follows(last, z zk.Zxid) bool {
	return z == last+1 && z.Counter() != 0 || z.Epoch() > last.Epoch() && z.Counter() == 1
}
