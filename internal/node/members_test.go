package node

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/node/options"
	"github.com/pinfold-zk/pinfold/internal/zab"
)

// membersTest is the files of a member whose membership changes.
type membersTest struct {
	t   *testing.T
	dir string
	m   *members
}

const (
	limitLines = "tickTime=2000\n# limits\ninitLimit=5\nsyncLimit=2\n"
	firstLines = "server.1=a:1:2:participant;0.0.0.0:3\nserver.2=b:1:2:participant;0.0.0.0:3"
	nextLines  = firstLines + "\nserver.3=c:1:2:observer;0.0.0.0:3"
)

func newMembersTest(t *testing.T) *membersTest {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o755); err != nil {
		t.Fatal(err)
	}
	m := &membersTest{t: t, dir: dir}
	m.put("data/myid", "1\n")
	m.put("zoo.cfg", limitLines+"dataDir="+data+"\nreconfigEnabled=true\n"+firstLines+"\n")
	m.start()
	return m
}

func (m *membersTest) put(name, text string) {
	m.t.Helper()
	if err := os.WriteFile(filepath.Join(m.dir, name), []byte(text), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

// start reads zoo.cfg, as a server that starts.
func (m *membersTest) start() *config.Config {
	m.t.Helper()
	cfg, _, err := config.Load(filepath.Join(m.dir, "zoo.cfg"), nil, "")
	if err != nil {
		m.t.Fatal(err)
	}
	if m.m, err = newMembers(cfg, slog.New(slog.DiscardHandler)); err != nil {
		m.t.Fatal(err)
	}
	return cfg
}

// files returns the content of all files but the data's.
func (m *membersTest) files() map[string]string {
	m.t.Helper()
	all := map[string]string{}
	names, err := filepath.Glob(filepath.Join(m.dir, "zoo.cfg*"))
	if err != nil {
		m.t.Fatal(err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			m.t.Fatal(err)
		}
		all[filepath.Base(name)] = strings.ReplaceAll(string(text), m.dir, "/d")
	}
	return all
}

func (m *membersTest) want(what string, want map[string]string) {
	m.t.Helper()
	if diff := cmp.Diff(want, m.files()); diff != "" {
		m.t.Errorf("%s: -want +got:\n%s", what, diff)
	}
}

func membershipOf(t *testing.T, text string) *zab.Membership {
	t.Helper()
	m := options.Reader{}.OfText([]byte(text))
	if m == nil {
		t.Fatalf("%q is no membership", text)
	}
	return m
}

// The files have what Apache's servers write: the proposed members, then the committed ones,
// which zoo.cfg names. A server that starts at any point reads them.
func TestMembersFiles(t *testing.T) {
	m := newMembersTest(t)
	static := m.files()["zoo.cfg"]
	first, next := membershipOf(t, firstLines+"\nversion=0"), membershipOf(t, nextLines+"\nversion=100000005")
	m.m.saved(zab.Memberships{Committed: first, Seen: first})
	m.m.writeFiles()
	m.want("at the start", map[string]string{"zoo.cfg": static})

	m.m.saved(zab.Memberships{Committed: first, Seen: next})
	m.want("proposed", map[string]string{"zoo.cfg": static, "zoo.cfg.dynamic.next": nextLines + "\nversion=100000005"})
	if cfg := m.start(); cfg.Quorum.Next == nil || cfg.Quorum.Next.Version != 0x100000005 || cfg.Quorum.Members.Version != 0 {
		t.Errorf("a server that starts now has %+v, and then %+v", cfg.Quorum.Members, cfg.Quorum.Next)
	}

	m.m.saved(zab.Memberships{Committed: next, Seen: next})
	m.want("the commit is not written yet", map[string]string{"zoo.cfg": static, "zoo.cfg.dynamic.next": nextLines + "\nversion=100000005"})
	m.m.writeFiles()
	rewritten := map[string]string{
		"zoo.cfg.bak": static, "zoo.cfg.dynamic.100000005": nextLines,
		"zoo.cfg": limitLines + "dataDir=/d/data\nreconfigEnabled=true\ndynamicConfigFile=/d/zoo.cfg.dynamic.100000005\n",
	}
	m.want("committed", rewritten)
	if cfg := m.start(); cfg.Quorum.Next != nil || cfg.Quorum.Members.Version != 0x100000005 || len(cfg.Quorum.Members.Servers) != 3 {
		t.Errorf("a server that starts now has %+v, and then %+v", cfg.Quorum.Members, cfg.Quorum.Next)
	}

	without := membershipOf(t, "server.2=b:1:2\nserver.3=c:1:2\nversion=100000009")
	m.m.saved(zab.Memberships{Committed: without, Seen: without})
	m.m.writeFiles()
	m.want("removed", rewritten)

	weighed := membershipOf(t, "server.2=b:1:2\nserver.3=c:1:2\ngroup.1=1:2:3\nweight.1=1\nversion=10000000a")
	m.m.saved(zab.Memberships{Committed: weighed, Seen: weighed})
	m.m.writeFiles()
	m.want("without a line, with a weight", rewritten)
}

// The next change is proposed before the files have the commit of the one before: with the proposal,
// the files have that too. A late write of the former does not remove the latter.
func TestMembersFilesOfTwoChanges(t *testing.T) {
	m := newMembersTest(t)
	first, next := membershipOf(t, firstLines+"\nversion=0"), membershipOf(t, nextLines+"\nversion=100000005")
	after := membershipOf(t, firstLines+"\nversion=100000009")
	m.m.saved(zab.Memberships{Committed: first, Seen: next})
	m.m.saved(zab.Memberships{Committed: next, Seen: next})
	m.m.saved(zab.Memberships{Committed: next, Seen: after})
	for range 2 {
		if cfg := m.start(); cfg.Quorum.Next == nil || cfg.Quorum.Next.Version != 0x100000009 || cfg.Quorum.Members.Version != 0x100000005 {
			t.Errorf("a server that starts now has %+v, and then %+v", cfg.Quorum.Members, cfg.Quorum.Next)
		}
		m.m.saved(zab.Memberships{Committed: next, Seen: after})
		m.m.writeFiles()
	}
}

// A movable listener accepts at the new address, and not at the old one any more; Close
// ends it.
func TestMovableListener(t *testing.T) {
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	from, to := listen(), listen()
	m := &movable{l: from}
	accepted := make(chan error)
	go func() {
		for {
			c, err := m.Accept()
			if err == nil {
				err = c.Close()
				accepted <- err
				continue
			}
			accepted <- err
			return
		}
	}()
	m.move(to, to.Addr().String())
	c, err := net.Dial("tcp", m.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := <-accepted; err != nil {
		t.Errorf("at the new address: %v", err)
	}
	if _, err := from.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the old address: %v, want that it is closed", err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if err := <-accepted; err == nil {
		t.Error("it accepts after Close")
	}
}
