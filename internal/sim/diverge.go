package sim

import (
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// wrongPath is the znode whose data is corrupted. No client reads or writes it.
const wrongPath = "/zookeeper"

// scheduleDivergence has the tree of a member corrupted now and then, in one of four
// runs. These have a source of chance of their own: the other runs are as they would be
// without it.
func (s *Sim) scheduleDivergence() {
	r := rand.New(rand.NewPCG(s.o.Seed, 0x6469766572676564))
	if r.IntN(4) > 0 || s.profile.faultEvery == 0 {
		return
	}
	var next func()
	next = func() {
		if !s.faulting {
			return
		}
		if m := s.members[1+r.IntN(len(s.members)-1)]; m.up && m.wrong == nil && (!m.isVoter() || s.spare(m)) {
			m.corrupt = true
		}
		s.after(time.Duration(100+r.IntN(1500))*time.Millisecond, next)
	}
	s.after(time.Duration(r.IntN(1000))*time.Millisecond, next)
}

// divergence is what a member's tree is known to be.
type divergence struct {
	corrupt bool        // the tree is to be corrupted before the next turn of Apply
	wrong   *znode.Tree // it was, and the member has found out; nil once it has another tree
	idle    bool        // it has left its role since
	found   int64       // wrong trees that the member has found in this life
}

// applyCorrupted runs a turn of Apply over a tree that has just been corrupted: memory
// was damaged, or applying went wrong. The first transaction with a digest must show it.
func (m *member) applyCorrupted(run func()) {
	tree := m.tree()
	if m.rep.Fuzzy() || m.diverged() {
		run() // no digest is known
		return
	}
	m.corrupt = false
	before, data := m.rep.LastApplied(), tree.Data(tree.Lookup(wrongPath))
	setWrong(tree, []byte("damaged"))
	run()
	switch {
	case m.diverged():
		m.s.say(m.who, "has found that its tree is wrong, at %v", m.rep.LastApplied())
		m.s.cover.Divergences++
		m.found++
		return
	case m.tree() != tree || m.rep.Fuzzy():
		return
	}
	h := m.s.history
	for i := h.upto(before); i < h.upto(m.rep.LastApplied()); i++ {
		if tx := &h.details[i].tx; tx.HasDigest {
			m.s.fail("Divergence", "member %d has applied %v to a wrong tree, and has not found out", m.id, tx.Zxid)
		}
	}
	setWrong(tree, data) // nothing could have shown it
	m.corrupt = true
}

// setWrong changes the data of a znode without a transaction.
func setWrong(tree *znode.Tree, data []byte) {
	var r znode.Result
	mode := tree.Mode(tree.Lookup(wrongPath))
	tree.Apply(&txn.Txn{
		Header: txn.Header{Type: wire.OpSetData, Zxid: mode.Mzxid, Time: mode.Mtime},
		Op:     txn.Op{Type: wire.OpSetData, Path: wrongPath, Data: data, Version: mode.Version},
	}, &r)
}

// noteWrong keeps wrong up to date. It is called after each turn.
func (m *member) noteWrong() {
	switch {
	case !m.diverged():
		m.wrong, m.idle = nil, false
	case m.idle && m.rep.Serving():
		m.s.fail("Divergence", "member %d begins to serve, and its tree is wrong", m.id)
	default:
		m.wrong, m.idle = m.tree(), !m.rep.Serving()
	}
}

// checkOutput checks what a member sends to a client: nothing that it has read from a
// tree that it knows to be wrong. That tree stays at the transaction that has shown it, so
// an answer at that zxid was made after it was known. An answer at an earlier one was made
// before, as if it had been sent at once, and may leave later. Answers to addauth do not
// come from the tree.
func (k *clientConn) checkOutput(b []byte) {
	if !k.joined || !k.m.diverged() {
		return
	}
	const header = 4 + 4 + 8 // length, xid, zxid
	for found := k.m.rep.LastApplied(); len(b) >= header; {
		xid, at := int32(binary.BigEndian.Uint32(b[4:])), zk.Zxid(binary.BigEndian.Uint64(b[8:]))
		if xid != wire.XidAuth && at >= found {
			k.c.s.fail("Divergence", "%s is sent an answer, xid %d at %v, by member %d, whose tree is wrong since %v", k.c.who, xid, at, k.m.id, found)
		}
		b = b[min(len(b), 4+int(binary.BigEndian.Uint32(b))):]
	}
}

// tree is the member's tree.
func (m *member) tree() (t *znode.Tree) {
	m.rep.View(func(v replica.View) { t = v.Tree })
	return t
}

// diverged reports whether the member knows that its tree is wrong.
func (m *member) diverged() (yes bool) {
	m.rep.View(func(v replica.View) { yes = v.Diverged() })
	return yes
}
