package sim

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/auth"
	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/prep"
	"github.com/pinfold-zk/pinfold/internal/session"
	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/transport"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// TestWhatIsPreparedPassesEveryLimit sends random requests, as extreme as a frame
// allows, through every stage that has a limit: a learner's REQUEST, the
// preparer, the log, and the PROPOSAL. A stage after the preparer that refuses a
// transaction would end the process, or the learner's link.
func TestWhatIsPreparedPassesEveryLimit(t *testing.T) {
	for _, tt := range []struct{ frame, extra int }{{1 << 14, 1 << 10}, {1 << 15, 1 << 15}, {1 << 17, 1 << 10}} {
		t.Run(fmt.Sprintf("%d+%d", tt.frame, tt.extra), func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed=%d", seed)
			l := newLimitRig(t, tt.frame, tt.frame+tt.extra, rand.New(rand.NewPCG(seed, 0)))
			for i := range 150 {
				if i == 10 {
					l.authenticate(30, 1500)
				}
				l.request(l.extreme())
			}
			l.check()
		})
	}
}

// limitRig is one server's stages, without the goroutines between them.
type limitRig struct {
	t        *testing.T
	rng      *rand.Rand
	frame    int // the longest body of a request
	limit    int // of the log and of a packet's data
	prep     *prep.Preparer
	tree     *znode.Tree
	sessions *session.Tracker
	session  zk.SessionID
	dir      *storage.Dir
	log      *storage.Log
	logged   [][]byte
	zxid     zk.Zxid
	result   znode.Result
	ids      []zk.ID // the most that a connection may have
	longest  int
	failed   int // multis that failed
}

const limitOwner session.Owner = 1

func newLimitRig(t *testing.T, frame, limit int, rng *rand.Rand) *limitRig {
	authority, err := auth.New(auth.Config{})
	if err != nil {
		t.Fatal(err)
	}
	dir, err := storage.Open(vfs.NewMem(), storage.Options{
		DataDir: "/data", AutoCreate: true, Log: storage.LogOptions{MaxEntryBytes: limit, PreallocBytes: 1 << 20},
	})
	if err != nil {
		t.Fatal(err)
	}
	l := &limitRig{
		t: t, rng: rng, frame: frame, limit: limit, dir: dir, log: dir.NewLog(0),
		tree:     znode.New(znode.Options{ExtendedTypes: true}),
		sessions: session.NewTracker(session.Config{TickMillis: 1000, FirstID: 1, Standalone: true}),
	}
	cfg := prep.Config{ExtendedTypes: true, ListClosedPaths: true, DigestEnabled: true, MaxTxnBytes: dir.MaxEntryBytes()}
	l.prep = prep.New(cfg, l.tree, authority, l.sessions)
	l.authenticate(auth.MaxIdentities, auth.MaxIdentityBytes)
	l.open()
	return l
}

// authenticate gives the connection count identities of so many bytes together.
func (l *limitRig) authenticate(count, size int) {
	l.ids = nil
	for i := range count {
		l.ids = append(l.ids, zk.ID{Scheme: "digest", ID: fmt.Sprintf("%0*d", size/count-len("digest"), i)})
	}
}

// open begins a session.
func (l *limitRig) open() {
	l.session = l.sessions.NextID()
	l.sessions.Add(l.session, 1000, 1)
	l.sessions.SetOwner(l.session, limitOwner)
	l.request(wire.OpCreateSession, jute.AppendInt(nil, 1000))
}

// request takes one request through all stages.
func (l *limitRig) request(op wire.OpCode, body []byte) {
	l.t.Helper()
	l.zxid++
	asked := l.carry(zab.Packet{Type: zab.Request, Zxid: -1, Data: body, Auth: l.ids})
	var tx txn.Txn
	l.prep.Prepare(&prep.Request{
		Session: l.session, Op: op, Body: asked.Data, IDs: asked.Auth, Owner: limitOwner,
	}, l.zxid, int64(l.zxid), &tx)
	b := tx.Append(nil)
	if err := l.log.Append(l.zxid, b); err != nil {
		l.t.Fatalf("operation %d with a body of %d bytes: %v", op, len(body), err)
	}
	if err := l.log.Flush(); err != nil {
		l.t.Fatal(err)
	}
	proposal := l.carry(zab.Packet{Type: zab.Proposal, Zxid: l.zxid, Data: b})
	got, err := txn.Decode(proposal.Data)
	if err != nil {
		l.t.Fatalf("operation %d with a body of %d bytes: %v", op, len(body), err)
	}
	l.tree.Apply(&got, &l.result)
	if got.HasDigest && got.Digest != l.tree.Digest() {
		l.t.Fatalf("operation %d with a body of %d bytes: the tree's digest differs", op, len(body))
	}
	l.prep.Applied(l.zxid)
	l.logged = append(l.logged, b)
	l.longest = max(l.longest, len(b))
	if got.Header.Type == wire.OpMulti && got.Failed() {
		l.failed++
	}
	if got.Header.Type == wire.OpCloseSession {
		l.sessions.Remove(l.session)
		l.open()
	}
}

// carry encodes a packet and decodes it as its receiver does.
func (l *limitRig) carry(p zab.Packet) zab.Packet {
	l.t.Helper()
	got, n, err := transport.DecodePacket(transport.AppendPacket(nil, p), l.limit)
	if err != nil || n == 0 {
		l.t.Fatalf("%v with %d bytes: %v", p.Type, len(p.Data), err)
	}
	return got
}

// check reads the log back, and requires that the requests were extreme.
func (l *limitRig) check() {
	r, err := l.dir.ReadLog(0)
	if err != nil {
		l.t.Fatal(err)
	}
	for i, want := range l.logged {
		if got, err := r.Next(); err != nil || !bytes.Equal(got, want) {
			l.t.Fatalf("transaction %d of %d is not read back: %v", i+1, len(l.logged), err)
		}
	}
	if l.longest < l.limit*9/10 {
		l.t.Errorf("the longest transaction has %d bytes, the limit is %d: the test does not reach what it is for", l.longest, l.limit)
	}
	if l.failed < 10 {
		l.t.Errorf("only %d multis failed", l.failed)
	}
}

// extreme returns a request whose body fills a frame, or nearly.
func (l *limitRig) extreme() (wire.OpCode, []byte) {
	room := l.frame - l.rng.IntN(3)*l.rng.IntN(200)
	switch l.rng.IntN(10) {
	case 0:
		m := l.create(room)
		return wire.OpCreate, m.CreateRequest.Append(nil, wire.OpCreate)
	case 1:
		m := wire.SetDataRequest{Path: "/", Data: make([]byte, room-13), Version: -1}
		return wire.OpSetData, m.Append(nil)
	case 2:
		m := wire.SetACLRequest{Path: "/zookeeper", ACL: l.acl(room - 30), Version: -1}
		return wire.OpSetACL, m.Append(nil)
	case 3:
		m := wire.PathVersion{Path: "/" + strings.Repeat("x", room-9), Version: -1}
		return wire.OpDelete, m.Append(nil)
	case 4:
		return wire.OpCloseSession, nil
	}
	return wire.OpMulti, l.multi(room)
}

// multi fills room with creates up to some share, and with small operations, one
// of which may be the first that fails.
func (l *limitRig) multi(room int) []byte {
	var b []byte
	share := l.rng.IntN(room)
	for len(b) < share-100 {
		m := l.create(min(share-len(b)-9, 1+l.rng.IntN(room)))
		b = m.Append(b)
	}
	small := wire.MultiOp{Type: wire.OpCheck, CreateRequest: wire.CreateRequest{Path: "/"}, Version: -1}
	if l.rng.IntN(3) > 0 {
		small.Path = []string{"", "/no", "no"}[l.rng.IntN(3)]
	}
	for {
		next := small.Append(b)
		if len(next)+9 > room { // the end of a multi
			return wire.AppendMultiEnd(b)
		}
		b = next
	}
}

// create is a create of at most size bytes, if that is not too little: ephemeral or
// not, with a long path, much data, or an ACL that expands.
func (l *limitRig) create(size int) wire.MultiOp {
	m := wire.MultiOp{Type: wire.OpCreate}
	m.Path = fmt.Sprintf("/%x", l.rng.Uint64())
	m.ACL, m.Flags = zk.OpenACLUnsafe(), zk.CreateMode(l.rng.IntN(4))
	spare := max(size-100, 0)
	switch l.rng.IntN(3) {
	case 0:
		m.Path += strings.Repeat("p", spare)
	case 1:
		m.Data = make([]byte, spare)
	case 2:
		m.ACL = l.acl(min(spare, 16*l.rng.IntN(100)))
	}
	return m
}

// acl is of at most size bytes; every entry stands for all identities.
func (l *limitRig) acl(size int) []zk.ACL {
	acl := []zk.ACL{{Perms: zk.PermAll, ID: zk.ID{Scheme: "auth"}}}
	expanded := 0
	for i := range l.ids {
		expanded += 12 + len(l.ids[i].Scheme) + len(l.ids[i].ID)
	}
	for n := min(size/16, 1+l.limit/expanded); n > 1; n-- {
		acl = append(acl, zk.ACL{Perms: zk.Perms(1 + n%31), ID: zk.ID{Scheme: "auth"}})
	}
	return acl
}
