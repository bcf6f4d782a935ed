package replica

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/transport"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/internal/zab/election"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// usurper speaks for servers 2 and 3 of an ensemble, of which only server 1 is there: it is the
// network of that server, and leads as server 3. Only the test's goroutine uses what a method of
// Network does not fill; it waits with synctest.Wait.
type usurper struct {
	t       *testing.T
	m       *machine
	log     strings.Builder
	links   zab.LinkID // the last one
	link    zab.LinkID // to server 1; 0: there is none
	asks    bool       // server 1 has dialled, and LinkUp is due
	epoch   uint32
	sent    []zab.Packet // by server 1, on link
	reasons []error      // why server 1 has closed a link
	ballot  []byte       // what server 1 says in the election
}

func (u *usurper) Dial(int64, bool) zab.LinkID {
	u.links++
	u.link, u.asks = u.links, true
	return u.link
}

func (u *usurper) Send(l zab.LinkID, ps []zab.Packet) bool {
	if l == u.link {
		u.sent = append(u.sent, ps...)
	}
	return true
}

func (u *usurper) CloseLink(l zab.LinkID, reason error) {
	u.reasons = append(u.reasons, reason)
	if l == u.link {
		u.link = 0
	}
	go u.m.rep.LinkDown(l, reason)
}

func (u *usurper) Stream(zab.LinkID, func(io.Writer) error)   {}
func (u *usurper) Progress(zab.LinkID) uint64                 { return 0 }
func (u *usurper) AppendPacket(b []byte, p zab.Packet) []byte { return transport.AppendPacket(b, p) }
func (u *usurper) Notify(_ int64, payload []byte)             { u.ballot = payload }
func (u *usurper) SetMembers([]zab.Member)                    {}
func (u *usurper) packets(ps ...zab.Packet) {
	u.m.rep.Packets(u.link, ps, nil)
	u.m.rep.Work(nil)
	synctest.Wait()
}
func (u *usurper) proposal(z zk.Zxid, data []byte) zab.Packet {
	return zab.Packet{Type: zab.Proposal, Zxid: z, Data: data}
}
func (u *usurper) zxid(counter uint32) zk.Zxid { return zk.MakeZxid(u.epoch, counter) }
func (u *usurper) commit(z zk.Zxid) zab.Packet { return zab.Packet{Type: zab.Commit, Zxid: z} }
func (u *usurper) creation(z zk.Zxid, path string) (zk.Zxid, []byte) {
	return z, (&txn.Txn{Header: txn.Header{Zxid: z, Type: wire.OpCreate}, Op: txn.Op{Type: wire.OpCreate, Path: path, ACL: zk.OpenACLUnsafe()}}).Append(nil)
}

// inUsurped runs a test of a server that looks for a leader.
func inUsurped(t *testing.T, change func(*Options), f func(u *usurper)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		u := &usurper{t: t}
		var members []zab.Member
		for id := int64(1); id <= 3; id++ {
			members = append(members, zab.Member{ID: id, Weight: 1})
		}
		of, err := zab.NewMembership(0, members, nil)
		if err != nil {
			t.Fatal(err)
		}
		u.m, _ = mustBoot(t, vfs.NewMem(), func(o *Options) {
			o.Ensemble = &zab.Config{ID: 1, Members: of, Tick: groupTick, InitLimit: 10, SyncLimit: 5, Window: 50}
			o.Logger = slog.New(slog.NewTextHandler(&u.log, nil))
			if change != nil {
				change(o)
			}
		})
		defer func() {
			if err := u.m.halt(); err != nil {
				t.Error(err)
			}
		}()
		u.m.rep.Join(u)
		f(u)
	})
}

// lead has server 1 elect server 3, and accept its epoch.
func (u *usurper) lead() {
	u.t.Helper()
	for range 100 {
		if synctest.Wait(); u.asks {
			break
		}
		n, err := election.Parse(1, u.ballot)
		if err != nil {
			u.t.Fatal(err)
		}
		for _, from := range []int64{2, 3} {
			vote := election.Notification{State: election.Looking, Leader: 3, Zxid: 1 << 40, PeerEpoch: 1 << 20, ElectionEpoch: n.ElectionEpoch}
			u.m.rep.Notification(from, vote.Append(nil))
		}
		time.Sleep(groupTick / 2)
	}
	if !u.asks {
		u.t.Fatalf("server 1 does not follow server 3\n%s", u.log.String())
	}
	u.asks, u.sent = false, nil
	u.m.rep.LinkUp(u.link, "usurper", true)
	synctest.Wait()
	u.epoch++
	u.packets(zab.Packet{Type: zab.LeaderInfo, Zxid: u.zxid(0), Data: []byte{0, 1, 0, 0}})
	if last := u.sent[len(u.sent)-1]; last.Type != zab.AckEpoch {
		u.t.Fatalf("LEADERINFO is answered by %v\n%s", last, u.log.String())
	}
}

// serve has server 1 serve: it is sent these packets in between.
func (u *usurper) serve(between ...zab.Packet) {
	u.t.Helper()
	u.lead()
	if len(between) == 0 || between[0].Type == zab.Proposal {
		u.packets(zab.Packet{Type: zab.Diff, Zxid: u.m.rep.LastApplied()})
	}
	u.packets(between...)
	u.packets(zab.Packet{Type: zab.NewLeader, Zxid: u.zxid(0)}, zab.Packet{Type: zab.UpToDate, Zxid: -1})
	if m := u.m.rep.Mode(); m != Follower {
		u.t.Fatalf("it is %v\n%s", m, u.log.String())
	}
}

// left checks that server 1 has left its leader with a line that has all of these texts, that it
// goes on, and that it follows and serves again when the leader is right.
func (u *usurper) left(texts ...string) {
	u.t.Helper()
	synctest.Wait()
	select {
	case <-u.m.rep.Failed():
		u.t.Fatalf("the server has failed: %v", u.m.rep.Failure())
	default:
	}
	if u.link != 0 {
		u.t.Fatal("it has not left its leader")
	}
	for _, text := range texts {
		if reason := errors.Join(u.reasons...); !strings.Contains(reason.Error(), text) || !strings.Contains(u.log.String(), text) {
			u.t.Errorf("why it has left its leader does not name %q: %v\n%s", text, reason, u.log.String())
		}
	}
	before := u.m.rep.LastApplied()
	u.serve()
	z, data := u.creation(u.zxid(1), "/again")
	u.packets(u.proposal(z, data), u.commit(z))
	if last := u.m.rep.LastApplied(); last != z {
		u.t.Errorf("after %v it has applied %v, not %v\n%s", before, last, z, u.log.String())
	}
}

// unreadable are transactions that cannot be, with what the server says of them. They are
// proposed as z.
func unreadable(z zk.Zxid) map[string][]byte {
	whole := txn.Txn{Header: txn.Header{Zxid: z, Type: wire.OpCreate}, Op: txn.Op{Type: wire.OpCreate, Path: "/a"}}
	multi := txn.Txn{Header: txn.Header{Zxid: z, Type: wire.OpMulti}, Multi: []txn.Op{{Type: wire.OpCreate, Path: "/a"}}}
	other := whole
	other.Zxid++
	strange := txn.Header{Zxid: z, Type: 77}
	return map[string][]byte{
		"nothing": nil, "a part of the header": whole.Append(nil)[:20], "a part of the record": whole.Append(nil)[:txn.HeaderLen+3],
		"an unknown type": strange.Append(nil), "another zxid": other.Append(nil), "a multi that is cut off": multi.Append(nil)[:txn.HeaderLen+8],
		"too long": append(whole.Append(nil), make([]byte, 2<<20)...),
	}
}

// A leader's transaction that cannot be read makes its learner leave it; nothing of it is logged.
func TestATransactionThatCannotBeRead(t *testing.T) {
	for _, kind := range []zab.PacketType{zab.Proposal, zab.Inform, zab.InformAndActivate} {
		for what := range unreadable(0) {
			t.Run(fmt.Sprintf("%v/%s", kind, what), func(t *testing.T) {
				inUsurped(t, nil, func(u *usurper) {
					packet := func(z zk.Zxid) zab.Packet {
						p := zab.Packet{Type: kind, Zxid: z, Data: unreadable(z)[what]}
						if kind == zab.InformAndActivate {
							p.Data = append(make([]byte, 8), p.Data...)
						}
						return p
					}
					u.serve()
					u.packets(packet(u.zxid(1)))
					u.left("server 3", u.zxid(1).String())
					u.packets(packet(u.zxid(2)))
					u.left("server 3", u.zxid(2).String())
					u.m.rep.LinkDown(u.link, io.EOF)
					// During synchronization, behind one that can be read.
					u.lead()
					z, data := u.creation(u.zxid(1), "/before")
					u.packets(zab.Packet{Type: zab.Diff, Zxid: u.m.rep.LastApplied()}, u.proposal(z, data), u.commit(z), packet(z+1))
					u.left("server 3", (z + 1).String())
				})
			})
		}
	}
}

// snapshotBody is a tree with a znode, as a leader streams it.
func snapshotBody(t *testing.T, path string) []byte {
	t.Helper()
	tree := znode.New(testTree)
	var r znode.Result
	tree.Apply(&txn.Txn{Header: txn.Header{Zxid: 1, Type: wire.OpCreate}, Op: txn.Op{Type: wire.OpCreate, Path: path, ACL: zk.OpenACLUnsafe()}}, &r)
	if r.Err != zk.OK {
		t.Fatal(r.Err)
	}
	return bodyOf(tree)
}

func bodyOf(tree *znode.Tree) []byte {
	walk, b := tree.Walk(), []byte(nil)
	for done := false; !done; {
		b, done = walk.Next(b, snapshotPiece)
	}
	return b
}

// wholeSource is a snapshot that has arrived.
type wholeSource struct{ b []byte }

func (s *wholeSource) Buffered() []byte { return s.b }
func (s *wholeSource) Discard(n int)    { s.b = s.b[n:] }
func (s *wholeSource) Fill(n int) ([]byte, error) {
	return s.b, map[bool]error{true: io.EOF}[n > len(s.b)]
}

// A link brings one snapshot. A second one would take the place of the first before that is
// installed.
func TestASecondSnapshot(t *testing.T) {
	inUsurped(t, nil, func(u *usurper) {
		u.lead()
		link, body := u.link, snapshotBody(t, "/a")
		if err := u.m.rep.Snapshot(link, u.zxid(5), &wholeSource{body}); err != nil {
			t.Fatal(err)
		}
		err := u.m.rep.Snapshot(link, u.zxid(6), &wholeSource{body})
		if err == nil {
			t.Error("the second snapshot was taken")
		}
		u.packets(zab.Packet{Type: zab.Snap, Zxid: u.zxid(5)})
		if err := u.m.rep.Snapshot(link, u.zxid(7), &wholeSource{body}); err == nil {
			t.Error("the second snapshot was taken once the first was installed")
		}
		u.link = 0
		u.m.rep.LinkDown(link, errors.New("transport: a second snapshot"))
		u.left()
	})
}

// endlessSource is a snapshot whose znodes never end, as a stranger may send it that a server
// takes for its leader.
type endlessSource struct {
	wholeSource
	made int
}

func (s *endlessSource) Fill(n int) ([]byte, error) {
	for len(s.b) < max(n, 64<<10) {
		s.made++
		s.b = append(jute.AppendString(s.b, fmt.Sprintf("/endless-%d", s.made)), 0, 0, 0, 0) // no data
		s.b = append(jute.AppendLong(s.b, -1), make([]byte, 60)...)                          // the open ACL, a Stat
	}
	return s.b, nil
}

// A snapshot without an end is received only while the memory has room for it, and costs no
// more than the link. Then a leader's snapshot that fits is taken.
func TestP6AnEndlessSnapshot(t *testing.T) {
	const room = 20 << 20
	body := snapshotBody(t, "/a")
	endless := &endlessSource{wholeSource: wholeSource{bytes.TrimSuffix(bytes.Clone(body), []byte("\x00\x00\x00\x01/"))}}
	r := &Replica{o: Options{
		Tree: testTree, MaxRecordBytes: 1 << 20,
		MemoryLeft: func() int64 { return room - int64(endless.made)*100 },
	}}
	err := r.Snapshot(1, 5, endless)
	if !errors.Is(err, errNoMemory) {
		t.Fatalf("the snapshot without an end: %v", err)
	}
	if got := endless.made * 100; got < room/2 || got > room+2*lookAtMemory {
		t.Errorf("%d bytes were taken with room for %d", got, room)
	}
	if r.incomingTrees.take(1) != nil {
		t.Error("a part of a tree was kept")
	}
	r.o.MemoryLeft = func() int64 { return 1 }
	if err := r.Snapshot(2, 5, &wholeSource{body}); err != nil || r.incomingTrees.take(2) == nil {
		t.Errorf("the snapshot that fits: %v", err)
	}
}

// A transaction that is none of its request's kind is not the request's outcome.
func TestATransactionOfAnotherKind(t *testing.T) {
	inUsurped(t, nil, func(u *usurper) {
		u.serve()
		multi, create := u.m.request(7, wire.OpMulti, wire.AppendMultiEnd(nil)), u.m.request(7, wire.OpCreate, nil)
		create.Xid++
		u.m.rep.Submit([]Request{multi, create})
		synctest.Wait()
		for i, kind := range []wire.OpCode{wire.OpCreate, wire.OpMulti, wire.OpMulti, wire.OpError} {
			tx := txn.Txn{Header: txn.Header{Session: 7, Cxid: multi.Xid, Zxid: u.zxid(uint32(1 + i)), Type: kind}, Op: txn.Op{Type: kind, Path: fmt.Sprintf("/%d", i)}}
			if i%2 == 1 {
				tx.Cxid = create.Xid
			}
			u.packets(u.proposal(tx.Zxid, tx.Append(nil)), u.commit(tx.Zxid))
			if n, want := len(u.m.note.acknowledged()), max(0, i-1); n != want {
				t.Errorf("after transaction %d, a %v, %d requests are answered, not %d", i, kind, n, want)
			}
		}
	})
}
