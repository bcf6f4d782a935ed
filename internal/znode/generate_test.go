package znode

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// history makes random transactions as a leader would: each is right for the
// state that those before it lead to.
type history struct {
	rng   *rand.Rand
	model *model
	next  zk.SessionID
	// listed makes every closeSession list its znodes. Where one does not, a
	// replay cannot know of those that a fuzzy snapshot has lost already, and
	// leaves their parents' pzxid; the list was invented for that.
	listed bool
}

func newHistory(seed uint64) *history {
	return &history{rng: rand.New(rand.NewPCG(seed, 3)), model: newModel(), next: 1}
}

// txn makes the next transaction and applies it to the model.
func (h *history) txn() (tx txn.Txn, results []string) {
	tx.Header = txn.Header{
		Zxid: h.model.zxid + 1 + zk.Zxid(h.rng.IntN(2)), Time: 1000 + h.rng.Int64N(1000), Session: h.session(),
	}
	switch r := h.rng.IntN(20); {
	case r == 0:
		tx.Session = h.next
		h.next++
		tx.Op = txn.Op{Type: wire.OpCreateSession, TimeoutMillis: 1000 + int32(h.rng.IntN(9))}
	case r == 1 && tx.Session != 0:
		tx.Op = txn.Op{Type: wire.OpCloseSession}
		if h.listed || h.rng.IntN(2) == 0 {
			tx.Op.PathsListed, tx.Op.Paths = true, h.model.ephemerals(tx.Session)
		}
	case r <= 5:
		tx.Op.Type = wire.OpMulti
		scratch := h.model.clone()
		for range h.rng.IntN(6) {
			op := h.op(scratch, &tx)
			scratch.applyOp(&tx, &op)
			tx.Multi = append(tx.Multi, op)
		}
		if n := len(tx.Multi); n > 0 && h.rng.IntN(4) == 0 {
			for i := h.rng.IntN(n); i < n; i++ {
				tx.Multi[i] = txn.Op{Type: wire.OpError, Err: zk.ErrRuntimeInconsistency}
			}
		}
	case r == 6:
		tx.Op = txn.Op{Type: wire.OpError, Err: zk.ErrNoNode}
	case r == 7:
		h.quota(&tx)
	case r == 8:
		tx.Op = txn.Op{Type: wire.OpReconfig, Path: ConfigPath, Data: h.data(), Version: -1}
	default:
		tx.Op = h.op(h.model, &tx)
	}
	tx.Header.Type = tx.Op.Type
	results = h.model.apply(&tx)
	if tx.Header.Type != wire.OpError {
		tx.HasDigest, tx.Digest = true, h.model.digest()
	}
	return tx, results
}

// session is one that exists, or 0.
func (h *history) session() zk.SessionID {
	var ids []zk.SessionID
	for s := range h.model.sessions {
		ids = append(ids, s)
	}
	if len(ids) == 0 {
		return 0
	}
	slices.Sort(ids)
	return ids[h.rng.IntN(len(ids))]
}

// op makes one change of the state m.
func (h *history) op(m *model, tx *txn.Txn) txn.Op {
	path := h.node(m, func(string, *modelNode) bool { return true })
	n := m.nodes[path]
	switch r := h.rng.IntN(12); {
	case r < 5:
		return h.create(m, tx)
	case r < 8:
		leaf := h.node(m, func(p string, n *modelNode) bool { return p != "" && m.kids(p) == 0 })
		if leaf == "" {
			return h.create(m, tx)
		}
		kind := wire.OpDelete
		if m.nodes[leaf].kind == kindContainer {
			kind = wire.OpDeleteContainer
		}
		return txn.Op{Type: kind, Path: leaf}
	case r < 10:
		return txn.Op{Type: wire.OpSetData, Path: rooted(path), Data: h.data(), Version: n.Version + 1}
	case r < 11:
		return txn.Op{Type: wire.OpSetACL, Path: rooted(path), ACL: h.acl(), Version: n.Aversion + 1}
	case tx.Op.Type == wire.OpMulti:
		return txn.Op{Type: wire.OpCheck, Path: rooted(path), Version: n.Version + 1}
	default:
		return h.create(m, tx)
	}
}

// node picks a path outside /zookeeper that is as wanted, "" if there is none.
func (h *history) node(m *model, wanted func(string, *modelNode) bool) string {
	var paths []string
	for p, n := range m.nodes {
		if !strings.HasPrefix(p, "/zookeeper") && wanted(p, n) {
			paths = append(paths, p)
		}
	}
	if len(paths) == 0 {
		return ""
	}
	slices.Sort(paths)
	return paths[h.rng.IntN(len(paths))]
}

// create makes a znode of any kind whose name is likely to have been used.
func (h *history) create(m *model, tx *txn.Txn) txn.Op {
	for {
		parent := h.node(m, func(_ string, n *modelNode) bool { return n.kind != kindEphemeral })
		path := parent + "/" + string(rune('a'+h.rng.IntN(6)))
		if m.nodes[path] != nil || strings.Count(path, "/") > 5 {
			continue
		}
		kinds := []wire.OpCode{wire.OpCreate, wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL}
		op := txn.Op{
			Type: kinds[h.rng.IntN(len(kinds))], Path: path, Data: h.data(), ACL: h.acl(),
			ParentCversion: m.nodes[parent].Cversion + 1,
		}
		switch op.Type {
		case wire.OpCreate, wire.OpCreate2:
			op.Ephemeral = tx.Session != 0 && h.rng.IntN(2) == 0
		case wire.OpCreateTTL:
			op.TTL = 1 + h.rng.Int64N(MaxTTL)
		}
		return op
	}
}

func (h *history) data() []byte {
	switch h.rng.IntN(5) {
	case 0:
		return nil
	case 1:
		return []byte{}
	}
	b := make([]byte, h.rng.IntN(40))
	if h.rng.IntN(50) == 0 {
		b = make([]byte, maxSlot+h.rng.IntN(100))
	}
	for i := range b {
		b[i] = byte(h.rng.Uint32())
	}
	return b
}

func (h *history) acl() []zk.ACL {
	lists := [][]zk.ACL{
		zk.OpenACLUnsafe(), zk.OpenACLUnsafe(), zk.ReadACLUnsafe(),
		{{Perms: 31, ID: zk.ID{Scheme: "digest", ID: "u:x"}}},
		{{Perms: 1, ID: zk.AnyoneUnsafe}, {Perms: 2, ID: zk.ID{Scheme: "ip", ID: "10.0.0.0/8"}}},
		{{Perms: zk.Perms(h.rng.IntN(1000)), ID: zk.ID{Scheme: "digest", ID: "rare:x"}}},
	}
	return lists[h.rng.IntN(len(lists))]
}

// quota makes or removes a quota, limits and stats together, of a child of the
// root that may not exist.
func (h *history) quota(tx *txn.Txn) {
	name := "/" + string(rune('a'+h.rng.IntN(6)))
	base := "/zookeeper/quota" + name
	tx.Op.Type = wire.OpMulti
	m := h.model
	if m.nodes[base] != nil {
		for _, p := range []string{base + "/zookeeper_stats", base + "/zookeeper_limits", base} {
			tx.Multi = append(tx.Multi, txn.Op{Type: wire.OpDelete, Path: p})
		}
		return
	}
	cver := m.nodes["/zookeeper/quota"].Cversion + 1
	for i, p := range []string{base, base + "/zookeeper_limits", base + "/zookeeper_stats"} {
		tx.Multi = append(tx.Multi, txn.Op{
			Type: wire.OpCreate, Path: p, Data: []byte("count=0,bytes=0"), ACL: zk.OpenACLUnsafe(),
			ParentCversion: []int32{cver, 1, 2}[i],
		})
	}
}

// TestTreeModel: the tree is the model after every transaction, in state,
// results and events.
func TestTreeModel(t *testing.T) {
	for seed := range uint64(10) {
		h, tree, r := newHistory(seed), New(Options{ExtendedTypes: true}), new(Result)
		for step := range 300 {
			tx, want := h.txn()
			tree.Apply(&tx, r)
			if err := tree.check(); err != nil {
				t.Fatalf("seed=%d step %d: %v after %+v", seed, step, err, tx)
			}
			if diff := firstDiff(dump(tree), h.model.dump()); diff != "" {
				t.Fatalf("seed=%d step %d: %s\nafter %+v", seed, step, diff, tx)
			}
			if got := results(&tx, r); !slices.Equal(got, want) {
				t.Fatalf("seed=%d step %d: %+v: results %v, want %v", seed, step, tx, got, want)
			}
			if got := events(r); !slices.Equal(got, h.model.events) {
				t.Fatalf("seed=%d step %d: %+v: events %v, want %v", seed, step, tx, got, h.model.events)
			}
		}
	}
}

func results(tx *txn.Txn, r *Result) (out []string) {
	if tx.Header.Type != wire.OpMulti {
		return []string{outcome(r.Outcome)}
	}
	for _, o := range r.Multi {
		out = append(out, outcome(o))
	}
	return out
}

func events(r *Result) (out []string) {
	for _, e := range r.Events {
		out = append(out, fmt.Sprint(e.Type, e.Path, e.ACL.All()))
	}
	return out
}
