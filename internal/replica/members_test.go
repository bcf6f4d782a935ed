package replica

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/pinfold-zk/pinfold/internal/metric"
	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// membersPath is the znode whose content is the membership of a group, as znodeReader
// reads it: "1v 2v 3o" is two voters and an observer.
const membersPath = "/members"

// znodeReader reads memberships from what is written to membersPath. Their text has the
// version before the content of the znode.
type znodeReader struct{}

func (znodeReader) OfEntry(e zab.Entry) *zab.Membership {
	if !bytes.Contains(e.Data, []byte(membersPath)) {
		return nil
	}
	tx, err := txn.Decode(e.Data)
	if err != nil || tx.Header.Type != wire.OpSetData || tx.Path != membersPath {
		return nil
	}
	return znodeReader{}.OfText(fmt.Appendf(nil, "%d %s", int64(e.Zxid), tx.Data))
}

func (znodeReader) OfText(text []byte) *zab.Membership {
	version, rest, _ := strings.Cut(string(text), " ")
	var z zk.Zxid
	if _, err := fmt.Sscan(version, &z); err != nil {
		return nil
	}
	var members []zab.Member
	for _, field := range strings.Fields(rest) {
		var m zab.Member
		var role string
		if _, err := fmt.Sscanf(field, "%d%1s", &m.ID, &role); err != nil {
			return nil
		}
		m.Observer, m.Weight = role == "o", 1
		members = append(members, m)
	}
	m, err := zab.NewMembership(z, members, text)
	if err != nil {
		return nil
	}
	return m
}

// reconfigure changes the membership of a group.
func (g *group) reconfigure(s zk.SessionID, members string) {
	g.t.Helper()
	op, body := setData(membersPath, []byte(members))
	m := g.leader()
	before := len(m.note.acknowledged())
	m.submit(s, op, body)
	g.until("the membership is "+members, func() bool {
		return m.rep.Mode() != Leader || len(m.note.acknowledged()) > before // it left before it answered
	})
}

// learners returns how many learners a leader counts, of each kind.
func (m *machine) learners() string {
	reg := metric.NewRegistry(metric.Catalogue())
	m.rep.BindMetrics(reg)
	var all []string
	for _, one := range reg.Snapshot() {
		if name := one.Name; name == "learners" || strings.HasPrefix(name, "synced_") {
			all = append(all, fmt.Sprint(name, " ", one.Samples[0].Int))
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// A transaction changes the membership of a group that serves: an observer becomes a
// voter, the leader loses its vote and another one leads. It is on the disks: after a
// restart a quorum of the new voters serves, which is none of the old.
func TestATransactionChangesTheMembership(t *testing.T) {
	inGroup(t, 3, 2, func(_ int64, o *Options) {
		if o.Ensemble != nil {
			o.Ensemble.Reader = znodeReader{}
			o.Ensemble.Members = znodeReader{}.OfText([]byte("0 1v 2v 3v 4o 5o"))
		}
	}, func(g *group) {
		first := g.leader()
		s := g.session(first, 100_000)
		op, body := create(membersPath, nil, zk.Persistent)
		first.submit(s, op, body)
		g.reconfigure(s, "1v 2v 3v 4v 5o")
		g.until("4 follows", func() bool { return g.up[4].rep.Mode() == Follower })
		if got := g.up[5].rep.Mode(); got != Observer {
			t.Errorf("server 5 is %v", got)
		}

		var left []string
		for id := int64(1); id <= 4; id++ {
			if id != g.id(first) {
				left = append(left, fmt.Sprintf("%dv", id))
			}
		}
		g.reconfigure(s, strings.Join(left, " ")+" 5o")
		g.until("another one leads", func() bool { ms := g.in(Leader); return len(ms) == 1 && ms[0] != first })
		g.await()
		if got := first.rep.Mode(); got != Follower {
			t.Errorf("the leader that has no vote any more is %v", got)
		}
		if got, want := g.leader().learners(), "learners 4, synced_followers 3, synced_non_voting_followers 1, synced_observers 1"; got != want {
			t.Errorf("the metrics are %s, want %s", got, want)
		}
		g.agree()

		for _, id := range g.ids {
			g.stop(id)
		}
		up := []int64{4}
		for _, id := range []int64{1, 2, 3} {
			if id != g.id(first) && len(up) < 2 {
				up = append(up, id)
			}
		}
		for _, id := range up {
			g.start(id)
		}
		g.await()
		if lead := g.id(g.leader()); !slices.Contains(up, lead) {
			t.Errorf("server %d leads", lead)
		}
	})
}

// A server that joins has a list of its own, with itself in it. Once a leader has told it the ensemble's, it
// counts by that after a restart too, until an administrator changes the list.
func TestTheLeadersMembershipOutlastsARestart(t *testing.T) {
	fsys := vfs.NewMem()
	const own, theirs, edited = "0 1v 2v 3v 4v", "0 1v 2v 3v", "0 1v 2v 3v 4v 5v"
	at := func(configuration string) *Replica {
		dir, err := storage.Open(fsys, storage.Options{DataDir: "/data", AutoCreate: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = dir.Close() })
		return &Replica{o: Options{Dir: dir, Ensemble: &zab.Config{Reader: znodeReader{}, Members: znodeReader{}.OfText([]byte(configuration))}}}
	}
	told := znodeReader{}.OfText([]byte(theirs))
	r := at(own)
	if err := r.saveMembers(&zab.Memberships{Committed: told, Seen: told}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ configuration, counts string }{{own, theirs}, {own, theirs}, {edited, edited}} {
		_ = r.o.Dir.Close()
		r = at(c.configuration)
		m, err := r.loadMembers()
		if err != nil {
			t.Fatal(err)
		}
		if got := string(m.Committed.Text()); got != c.counts || m.Seen != m.Committed {
			t.Errorf("configured with %q: %q counts, and %q is seen", c.configuration, got, m.Seen.Text())
		}
		if err := r.saveMembers(&m); err != nil {
			t.Fatal(err)
		}
	}
}

// What the core says of the memberships is what it is told at the next start.
func TestWhatIsKnownOfTheMembershipIsKept(t *testing.T) {
	dir, err := storage.Open(vfs.NewMem(), storage.Options{DataDir: "/data", AutoCreate: true})
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	first := znodeReader{}.OfText([]byte("0 1v 2v 3v"))
	r := &Replica{o: Options{Dir: dir, Ensemble: &zab.Config{Reader: znodeReader{}, Members: first}}}
	for _, want := range []zab.Memberships{
		{Committed: first, Seen: znodeReader{}.OfText([]byte("7 1v 2v"))},
		{Committed: first, Seen: first, Unsure: true},
		{Committed: first, Seen: first, Unsure: true, Blind: true, SureAt: 9},
		{Committed: first, Seen: first, Unsure: true, Blind: true, SureAt: -1},
	} {
		if err := r.saveMembers(&want); err != nil {
			t.Fatal(err)
		}
		got, err := r.loadMembers()
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Committed.Text(), want.Committed.Text()) || !bytes.Equal(got.Seen.Text(), want.Seen.Text()) {
			t.Errorf("%q and %q were kept, %q and %q came back", want.Committed.Text(), want.Seen.Text(), got.Committed.Text(), got.Seen.Text())
		}
		if got.Committed, got.Seen = want.Committed, want.Seen; got != want {
			t.Errorf("%+v was kept, %+v came back", want, got)
		}
	}
}

// withMembers lets transactions change the membership that the text names.
func withMembers(text string) func(*Options) {
	return func(o *Options) {
		members := configReader{}.OfText([]byte(text))
		o.Ensemble = &zab.Config{ID: 1, Reader: configReader{}, Members: members, Tick: groupTick, InitLimit: 10, SyncLimit: 5, Window: 50}
		o.ConfigText = members.Text()
	}
}

// The core learns what a leader's tree shows of the membership together with SNAP, whatever the leader
// puts into that.
func TestSnapTellsTheMembership(t *testing.T) {
	own, shown := "0 1v 2v 3v", "7 1v 2v 3v 4v"
	inUsurped(t, withMembers(own), func(u *usurper) {
		u.lead()
		tree := znode.New(testTree)
		tree.SetConfig([]byte(shown), 0)
		if err := u.m.rep.Snapshot(u.link, u.zxid(5), &wholeSource{bodyOf(tree)}); err != nil {
			t.Fatal(err)
		}
		u.packets(zab.Packet{Type: zab.Snap, Zxid: u.zxid(5), Data: []byte("9 1v")})
		m := u.m.rep.order.core.Memberships()
		if string(m.Committed.Text()) != own || string(m.Seen.Text()) != shown || !m.Unsure || m.Blind {
			t.Errorf("it knows %q, %q, unsure %v, blind %v", m.Committed.Text(), m.Seen.Text(), m.Unsure, m.Blind)
		}
	})
}

// The core begins with what the tree on the disk shows of the membership, not with what the configuration
// gives the tree. If the configuration fixes the members, the tree shows nothing.
func TestTheCoreBeginsWithWhatTheTreeShows(t *testing.T) {
	mem := vfs.NewMem()
	fixed := func(o *Options) { withMembers("8 1v 2v 3v")(o); o.Ensemble.Reader = nil }
	for _, c := range []struct {
		change       func(*Options)
		shown, holds string
	}{
		{withMembers("0 1v 2v 3v"), "", "0 1v 2v 3v"},
		{withMembers("7 1v 2v 3v"), "0 1v 2v 3v", "7 1v 2v 3v"},
		{fixed, "", "8 1v 2v 3v"},
	} {
		synctest.Test(t, func(t *testing.T) {
			m, _ := mustBoot(t, mem, c.change)
			defer func() {
				if err := m.halt(); err != nil {
					t.Error(err)
				}
			}()
			tree := m.rep.tree
			if got := string(m.rep.order.recovered.MembersShown); got != c.shown {
				t.Errorf("configured with %q: the core begins with %q", c.holds, got)
			}
			if got := string(tree.Data(tree.Lookup(znode.ConfigPath))); got != c.holds {
				t.Errorf("configured with %q: the tree has %q", c.holds, got)
			}
		})
	}
}
