package clients

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
	"github.com/pinfold-zk/pinfold/zk"
)

var (
	pinfold = flag.String("pinfold", "", "`path` of the binary, from here or from the root of the repository")
	kinds   = flag.String("kinds", "", "`members`, as apache,apache,apache; one is a standalone server; none is all")
	python  = flag.String("python", "", "a Python with kazoo; without it kazoo is left out")
	keepDir = flag.Bool("keep", false, "keep the directories of tests that pass too")
)

const root = "../.."

// patience is how long anything may take that must happen.
const patience = 90 * time.Second

// settings are lines of zoo.cfg, properties those of the JVM, which Pinfold reads
// too.
const (
	settings   = "tickTime=500 initLimit=40 syncLimit=20 minSessionTimeout=1000 maxSessionTimeout=40000 preAllocSize=1024"
	properties = "-Dzookeeper.extendedTypesEnabled=true -Dznode.container.checkIntervalMs=500 -Dreadonlymode.enabled=true"
	smallJVM   = "-Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 "
)

// A scenario is what some clients do, and what must come of it.
type scenario struct {
	name    string
	run     func(t *testing.T, e *Env)
	restart bool // it calls Env.Restart
}

// mixtures are the servers that a test goes through.
func mixtures(t *testing.T, all ...string) []string {
	t.Helper()
	if *kinds == "" && *pinfold == "" {
		t.Skip("no servers to test: -pinfold names the binary, or -kinds apache does without")
	}
	if *kinds != "" {
		return []string{*kinds}
	}
	return all
}

// TestClients runs all scenarios on all kinds of servers.
func TestClients(t *testing.T) {
	for _, members := range mixtures(t, "pinfold", "apache", "pinfold,pinfold,pinfold", "apache,apache,apache") {
		t.Run(members, func(t *testing.T) {
			startServers(t, members).sideBySide(t, scenarios())
		})
	}
}

// servers is a standalone server or an ensemble.
type servers struct {
	e       *cluster.Ensemble
	members []*cluster.Member
	gather  gathering
}

// startServers starts what the members say, with more lines of zoo.cfg. They are killed when the test ends,
// and the directory is kept if it has failed.
func startServers(t *testing.T, members string, lines ...string) *servers {
	t.Helper()
	return startWithFlags(t, members, "", lines...)
}

// startWithFlags is startServers with flags of the JVM, of which Pinfold reads the properties.
func startWithFlags(t *testing.T, members, flags string, lines ...string) *servers {
	t.Helper()
	t.Setenv("SERVER_JVMFLAGS", properties)
	specs, err := cluster.ParseSpecs(members)
	must(t, err)
	dir, err := os.MkdirTemp("", "clients-")
	must(t, err)
	progs := programs(t, specs)
	progs.JVMFlags += flags
	s := &servers{}
	s.gather.restart = s.restart
	s.e, err = cluster.New(cluster.Options{
		Dir: dir, Specs: specs, Programs: progs, Lines: append(strings.Fields(settings), lines...),
	})
	must(t, err)
	s.members = s.e.Members
	if len(specs) == 1 {
		alone, err := s.e.Standalone(specs[0].Kind, s.e.Members[0])
		must(t, err)
		s.members = []*cluster.Member{alone}
	}
	t.Cleanup(func() {
		for _, m := range s.members {
			m.Kill()
			for _, c := range m.Complaints() {
				t.Error(c)
			}
		}
		s.e.Close()
		if t.Failed() || *keepDir {
			t.Logf("kept: %s", dir)
			return
		}
		must(t, os.RemoveAll(dir))
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, m := range s.members {
		must(t, m.Start())
	}
	for _, m := range s.members {
		_, err := m.WaitServing(ctx)
		must(t, err)
	}
	return s
}

// programs finds the servers; the test is skipped if there is no Apache.
func programs(t *testing.T, specs []cluster.Spec) cluster.Programs {
	t.Helper()
	p := cluster.Programs{
		Pinfold: *pinfold, Apache: filepath.Join(root, "scripts/apache-server"), JVMFlags: smallJVM + properties,
	}
	if _, err := os.Stat(p.Pinfold); err != nil && p.Pinfold != "" && !filepath.IsAbs(p.Pinfold) {
		p.Pinfold = filepath.Join(root, p.Pinfold)
	}
	for _, s := range specs {
		_, missing := os.Stat("/usr/share/java/zookeeper.jar")
		_, noJava := exec.LookPath("java")
		if s.Kind.IsApache() && (missing != nil || noJava != nil) {
			t.Skip("SKIPPED: no Apache ZooKeeper here: install the Debian packages zookeeper and default-jre-headless")
		}
	}
	return p
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// addrs is the connect string's list of members.
func (s *servers) addrs() string {
	var list []string
	for _, m := range s.members {
		list = append(list, m.Client)
	}
	return strings.Join(list, ",")
}

// sideBySide runs scenarios at the same time.
func (s *servers) sideBySide(t *testing.T, list []scenario) {
	s.gather.expect(list)
	var all sync.WaitGroup
	for _, x := range list {
		all.Go(func() {
			t.Run(x.name, func(t *testing.T) {
				e := &Env{t: t, s: s, chroot: "/" + strings.ReplaceAll(x.name, " ", "-"), coming: x.restart}
				defer e.absent()
				base := e.dial("")
				_, err := base.Create(t.Context(), e.chroot, nil, zk.Persistent, nil)
				must(t, err)
				x.run(t, e)
			})
		})
	}
	all.Wait()
}

// gathering has those who want a restart wait for each other.
type gathering struct {
	restart func() error

	mu     sync.Mutex
	coming int // who has not arrived yet
	there  int
	done   chan struct{} // closed after the restart
	err    error         // of the restart; read after done
}

func (g *gathering) expect(list []scenario) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.coming, g.there, g.done = 0, 0, make(chan struct{})
	for _, x := range list {
		if x.restart {
			g.coming++
		}
	}
}

// arrive says that one who was expected is there, or will not come. When all have
// said so, the server is restarted.
func (g *gathering) arrive(there bool) (done <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.coming--
	if there {
		g.there++
	}
	if g.coming == 0 && g.there > 0 {
		done := g.done
		go func() {
			g.err = g.restart()
			close(done)
		}()
	}
	return g.done
}

// restart kills a server, the leader if there is one, and starts it again. It
// returns when it serves.
func (s *servers) restart() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	victim := s.members[0]
	ensemble := len(s.members) > 1
	if ensemble {
		leader, err := s.e.WaitLeader(ctx, func(*cluster.Member) bool { return true })
		if err != nil {
			return err
		}
		victim = leader
	}
	victim.Kill()
	if ensemble {
		if _, err := s.e.WaitLeader(ctx, func(m *cluster.Member) bool { return m != victim }); err != nil {
			return err
		}
	}
	if err := victim.Start(); err != nil {
		return err
	}
	_, err := victim.WaitServing(ctx)
	if err == nil && ensemble {
		_, err = s.e.WaitCaughtUp(ctx, victim)
	}
	return err
}
