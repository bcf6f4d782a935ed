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

// TestCloseInPieces: the end of a session in pieces leaves the tree that Apply leaves, and its digest,
// whatever the ephemerals are: children of each other, of the root, of a system znode, with quotas, with
// ACLs, alone in the index or few in it. Between two pieces everything that exists is found, and nothing
// else. All wanted events come, of the right parent, and no others.
func TestCloseInPieces(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { closeInPieces(t, seed) })
	}
}

func closeInPieces(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	opts := Options{NoDigest: seed%8 == 7}
	g := &crowd{rng: rng, trees: []*Tree{New(opts), New(opts)}}
	g.fill(1500+rng.IntN(3000), seed%2 == 1)
	want, got := g.trees[0], g.trees[1]
	tx := txn.Txn{Header: txn.Header{Zxid: g.zxid + 1, Session: 77, Type: wire.OpCloseSession}}
	tx.Op = txn.Op{Type: wire.OpCloseSession}
	if seed%3 == 0 {
		for _, path := range want.ephemeralsOf(77) {
			if rng.IntN(3) == 0 {
				tx.Paths = append(tx.Paths, path)
			}
		}
	}
	r := new(Result)
	want.Apply(&tx, r)
	ends := slices.Clone(r.Events)
	wanted := func(ev zk.EventType, path string) bool {
		return (len(path)+int(path[len(path)-1])+int(ev))%3 == int(seed%3)
	}
	c := got.BeginClose(&tx)
	if c == nil {
		t.Fatalf("%d ephemerals take no pieces", got.EphemeralsOf(77))
	}
	wants, pieces := Wants(wanted), 0
	if seed%5 == 0 {
		wants = nil
	}
	var events []Change
	for done := false; !done; pieces++ {
		done = c.Next(r, wants)
		events = append(events, r.Events...)
		if err := got.checkBetween(); err != nil {
			t.Fatalf("after piece %d: %v", pieces, err)
		}
		if z := got.LastZxid(); (z == tx.Zxid) != done {
			t.Fatalf("after piece %d the last zxid is %v", pieces, z)
		}
	}
	if pieces < 2 {
		t.Errorf("%d pieces", pieces)
	}
	mustCheck(t, got)
	if diff := firstDiff(dump(got), dump(want)); diff != "" {
		t.Error(diff)
	}
	sameEvents(t, ends, events, wants)
	g.trees = g.trees[1:]
	g.fill(3000, seed%2 == 0) // the IDs are used again
	mustCheck(t, got)
}

// sameEvents fails the test unless those of all events that are wanted came, and each deletion is followed by the
// event of its parent if both are wanted. There may be others, of ephemerals that were not leaves.
func sameEvents(t *testing.T, all, came []Change, wants Wants) {
	t.Helper()
	count := map[string]int{}
	for _, ev := range all {
		if wants != nil && wants(ev.Type, ev.Path) {
			count[fmt.Sprint(ev.Type, ev.Path, ev.ACL.All())]++
		}
	}
	for _, ev := range came {
		if wants != nil && wants(ev.Type, ev.Path) {
			count[fmt.Sprint(ev.Type, ev.Path, ev.ACL.All())]--
		}
	}
	for ev, n := range count {
		if n != 0 {
			t.Errorf("%s comes %d times too seldom", ev, n)
		}
	}
	for i, ev := range came[:max(len(came)-1, 0)] {
		parent := rooted(Parent(ev.Path))
		if next := came[i+1]; ev.Type == zk.EventNodeDeleted && wants != nil && wants(zk.EventNodeChildrenChanged, parent) &&
			(next.Type != zk.EventNodeChildrenChanged || next.Path != parent) {
			t.Errorf("%v of %s is followed by %v of %s", ev.Type, ev.Path, next.Type, next.Path)
		}
	}
}

// crowd makes the same znodes in several trees.
type crowd struct {
	rng   *rand.Rand
	trees []*Tree
	zxid  zk.Zxid
	paths []string // what was created
}

func (g *crowd) apply(session zk.SessionID, op txn.Op) zk.Code {
	g.zxid++
	r := new(Result)
	for _, tree := range g.trees {
		tree.Apply(&txn.Txn{Header: txn.Header{Zxid: g.zxid, Time: int64(g.zxid), Session: session, Type: op.Type}, Op: op}, r)
	}
	return r.Err
}

// fill creates n ephemerals of session 77, others between them and, if crowded, so many more znodes that the
// index is much larger than the session.
func (g *crowd) fill(n int, crowded bool) {
	for _, s := range []zk.SessionID{77, 78} {
		g.apply(s, txn.Op{Type: wire.OpCreateSession, TimeoutMillis: 1000})
	}
	parents := []string{"", "/zookeeper", "/zookeeper/quota"}
	create := func(session zk.SessionID, path string, ephemeral bool) bool {
		op := txn.Op{Type: wire.OpCreate, Path: path, Data: make([]byte, g.rng.IntN(40)), ParentCversion: -1, Ephemeral: ephemeral}
		if op.ACL = zk.OpenACLUnsafe(); g.rng.IntN(4) == 0 {
			op.ACL = []zk.ACL{{Perms: zk.PermRead, ID: zk.ID{Scheme: "digest", ID: fmt.Sprint(g.rng.IntN(3))}}}
		}
		if g.apply(session, op) == zk.OK {
			g.paths = append(g.paths, path)
			return true
		}
		return false
	}
	for i := range 10 {
		path := fmt.Sprintf("%s/p%d", parents[g.rng.IntN(min(i+1, 3))*(g.rng.IntN(4)/3)], i)
		if create(78, path, false) && !strings.HasPrefix(path, systemPrefix) {
			parents = append(parents, path, path, path)
		}
	}
	g.quota(parents[len(parents)-1])
	for i := 0; g.trees[0].EphemeralsOf(77) < n; i++ {
		parent := parents[g.rng.IntN(len(parents))]
		switch draw := g.rng.IntN(60); {
		case draw < 4:
			create(78, fmt.Sprintf("%s/o%d", parent, i), g.rng.IntN(2) == 0)
		case draw < 8:
			path := g.paths[g.rng.IntN(len(g.paths))]
			g.apply(78, txn.Op{Type: wire.OpDelete, Path: path})
		case draw == 8 && len(g.paths) > 0:
			parent = g.paths[g.rng.IntN(len(g.paths))] // it may be an ephemeral
			create(77+zk.SessionID(g.rng.IntN(2)), fmt.Sprintf("%s/n%d", parent, i), g.rng.IntN(3) > 0)
		case draw == 9:
			g.quota(g.paths[g.rng.IntN(len(g.paths))])
		case draw == 10:
			path := g.paths[g.rng.IntN(len(g.paths))]
			g.apply(77, txn.Op{Type: wire.OpSetData, Path: path, Data: make([]byte, g.rng.IntN(40)), Version: int32(i)})
		default:
			create(77, fmt.Sprintf("%s/e%d", parent, i), true)
		}
	}
	if crowded {
		for i := range sweepFactor * n {
			create(78, fmt.Sprintf("/p0/x%d-%d", g.zxid, i), false)
		}
	}
}

// quota sets a quota on path.
func (g *crowd) quota(path string) {
	if path == "" || strings.HasPrefix(path, systemPath) {
		return
	}
	at := quotaPath
	for _, name := range append(strings.Split(path[1:], "/"), limitsName) {
		at += "/" + name
		g.apply(78, txn.Op{Type: wire.OpCreate, Path: at, Data: []byte("count=5,bytes=5"), ParentCversion: -1})
	}
	at = strings.TrimSuffix(at, limitsName) + statsName
	g.apply(78, txn.Op{Type: wire.OpCreate, Path: at, Data: []byte("count=0,bytes=0"), ParentCversion: -1})
}

// checkBetween verifies what readers may see between two pieces: each znode is found by its path, in its parent's
// list and in the set of its session, or nowhere.
func (t *Tree) checkBetween() error {
	c := newChecker(t)
	if err := c.visit(rootID, ""); err != nil {
		return err
	}
	if c.nodes != t.count || c.size != t.size || c.kinds[kindEphemeral] != t.ephCount || c.slots != t.arena.inUse {
		return fmt.Errorf("%d znodes of %d bytes, %d ephemerals; counted %d, %d, %d", c.nodes, c.size, c.kinds[kindEphemeral], t.count, t.size, t.ephCount)
	}
	listed := 0
	for _, ids := range t.ephemerals {
		listed += len(slices.Collect(ids.all()))
	}
	if listed != t.ephCount {
		return fmt.Errorf("%d ephemerals are listed, counted %d", listed, t.ephCount)
	}
	for id := rootID; id < t.nodes.fresh; id++ {
		if n := t.nodes.at(id); n.slot != freeSlot && t.Lookup(t.Path(id)) != id {
			return fmt.Errorf("%s is not found", t.Path(id))
		}
	}
	return nil
}
