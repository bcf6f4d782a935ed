package ensemble

import (
	"bytes"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/test/ensemble/client"
	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
	"github.com/pinfold-zk/pinfold/test/ensemble/load"
	"github.com/pinfold-zk/pinfold/zk"
)

var (
	pinfold = flag.String("pinfold", "", "`path` of the binary, from here or from the root of the repository")
	kinds   = flag.String("kinds", "", "`members`, as apache,pinfold,apache:observer; none is all mixtures")
	seed    = flag.Uint64("seed", 0, "of what clients and faults do; 0 is any")
	clients = flag.Int("clients", 8, "`number` of clients")
	rounds  = flag.Int("rounds", 1, "how `often` the faults are gone through, or a thing is measured")
	keepDir = flag.Bool("keep", false, "keep the directories of tests that pass too")
	linger  = flag.Duration("linger", 0, "how `long` the members of a test that has failed live on, to be looked at")
	measure = flag.Bool("measure", false, "run the tests that measure")
)

const root = "../.."

// mixtures are the ensembles that a test goes through.
func mixtures(t *testing.T, all ...string) []string {
	t.Helper()
	if *kinds != "" {
		return []string{*kinds}
	}
	if *pinfold == "" {
		t.Skip("no servers to test: -pinfold names the binary, or -kinds apache,apache,apache does without")
	}
	return all
}

// programs finds the servers that the members need; the test is skipped if
// there is no Apache.
func programs(t *testing.T, specs []cluster.Spec, jvm string) cluster.Programs {
	t.Helper()
	p := cluster.Programs{Apache: filepath.Join(root, "scripts/apache-server"), JVMFlags: jvm}
	if *pinfold != "" {
		p.Pinfold = *pinfold
		if _, err := os.Stat(p.Pinfold); err != nil && !filepath.IsAbs(p.Pinfold) {
			p.Pinfold = filepath.Join(root, p.Pinfold)
		}
		if _, err := os.Stat(p.Pinfold); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range specs {
		if s.Kind.IsApache() && !apacheInstalled() {
			t.Skip("SKIPPED: no Apache ZooKeeper here: install the Debian packages zookeeper and default-jre-headless")
		}
	}
	return p
}

func apacheInstalled() bool {
	_, missing := os.Stat("/usr/share/java/zookeeper.jar")
	_, err := exec.LookPath("java")
	return missing == nil && err == nil
}

// smallJVM starts fast: one collector thread and no second compiler.
const smallJVM = "-Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1"

// A rig is an ensemble and the load on it.
type rig struct {
	t      *testing.T
	e      *cluster.Ensemble
	l      *load.Load
	specs  []cluster.Spec
	rng    *rand.Rand
	seed   uint64
	began  time.Time
	paused time.Duration // the longest pause of a member
	super  bool          // trees are read as the superuser, super:test
}

type rigOptions struct {
	links  bool
	spread bool     // members have addresses of their own
	hosts  bool     // members have hosts of their own; root only
	admin  bool     // members have administration servers
	lines  []string // of zoo.cfg
	jvm    string
	// before is called with members that are not started yet.
	before func(*cluster.Ensemble)
}

// newRig starts an ensemble. It is killed when the test ends, and its directory
// kept if the test has failed.
func newRig(t *testing.T, members string, o rigOptions) *rig {
	t.Helper()
	specs, err := cluster.ParseSpecs(members)
	if err != nil {
		t.Fatal(err)
	}
	if o.jvm == "" {
		o.jvm = smallJVM
	}
	progs := programs(t, specs, o.jvm)
	dir, err := os.MkdirTemp("", "ensemble-")
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, specs: specs, seed: *seed, began: time.Now()}
	if r.seed == 0 {
		r.seed = rand.Uint64N(1 << 32)
	}
	r.rng = rand.New(rand.NewPCG(r.seed, 0))
	t.Logf("again: go test ./test/ensemble -run '^%s$' -v -count 1 -seed %d -kinds %s -clients %d -rounds %d -measure=%v -pinfold %s",
		strings.Split(t.Name(), "/")[0], r.seed, members, *clients, *rounds, *measure, orNone(*pinfold))
	if r.old() { // its directories may have no snapshot yet
		o.lines = append(o.lines, "snapshot.trust.empty=true")
	}
	r.e, err = cluster.New(cluster.Options{
		Dir: dir, Specs: specs, Programs: progs, Links: o.links, Spread: o.spread, Hosts: o.hosts, Admin: o.admin, Lines: o.lines,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() && *linger > 0 {
			fmt.Fprintf(os.Stderr, "%s has failed; its members live on for %v at %v, below %s\n", t.Name(), *linger, r.e.Clients(), dir)
			<-time.After(*linger)
		}
		r.e.Close()
		if t.Failed() || *keepDir {
			t.Logf("kept: %s", dir)
			return
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if o.before != nil {
		o.before(r.e)
	}
	if err := r.e.Start(r.within(patience)); err != nil {
		t.Fatal(err)
	}
	return r
}

func orNone(s string) string {
	if s == "" {
		return "''"
	}
	return s
}

// patience is how long anything may take that must happen.
const patience = 90 * time.Second

// within is a context that ends after d.
func (r *rig) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(r.t.Context(), d)
	r.t.Cleanup(cancel)
	return ctx
}

// must fails the test at once, with what the members have printed.
func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// The sessions of the load. A leader that was paused for longer than the short
// ones last may end them.
const (
	sessionTimeout = 30 * time.Second
	shortTimeout   = 4 * time.Second
	answerPatience = 3 * time.Second
	tickTime       = 2 * time.Second
)

// load starts the clients, and waits until they get on.
func (r *rig) load() {
	r.t.Helper()
	r.loadAt(r.e.Clients(), nil)
}

// loadAt is load with other addresses of the members, and a dialer.
func (r *rig) loadAt(addrs []string, dial func(string, time.Duration) (net.Conn, error)) {
	r.t.Helper()
	l, err := load.Start(load.Config{
		Addrs: addrs, Dial: dial, Clients: *clients, Seed: r.seed, Timeout: sessionTimeout, Short: shortTimeout,
		Patience: answerPatience, Think: 10 * time.Millisecond,
		Old: r.old(),
	})
	r.must(err)
	r.l = l
	r.progress()
}

// progress demands that writes are acknowledged.
func (r *rig) progress() {
	r.t.Helper()
	if err := r.l.WaitProgress(r.within(patience), 300); err != nil {
		r.t.Fatal(err)
	}
	if v := r.l.Violations(); len(v) > 0 {
		r.t.Fatal(strings.Join(v, "\n"))
	}
}

// step logs what is done to the ensemble, and when.
func (r *rig) step(format string, args ...any) {
	r.t.Helper()
	r.t.Logf("%5.1f s, %6d acknowledged: "+format, append([]any{time.Since(r.began).Seconds(), r.l.Acked()}, args...)...)
}

// whole demands that all members run, serve, and have caught up.
func (r *rig) whole() {
	r.t.Helper()
	r.must(r.e.Start(r.within(patience)))
	for _, m := range r.e.Members {
		_, err := r.e.WaitCaughtUp(r.within(patience), m)
		r.must(err)
	}
}

// finish ends the load and checks everything: what clients saw, that all members
// hold the same tree, and that every data directory opens in both programs.
func (r *rig) finish() {
	r.t.Helper()
	r.whole()
	r.progress()
	r.must(r.l.Stop(r.within(patience)))
	strict := true
	for _, s := range r.specs {
		strict = strict && s.Kind == cluster.Pinfold
	}
	findings, err := r.l.Check(r.within(patience), strict, load.Slack{Early: tickTime + r.paused, Late: tickTime})
	r.must(err)
	for _, f := range findings {
		r.t.Error(f)
	}
	r.t.Log(r.l.Summary())
	if !strict {
		r.t.Logf("%d registers had reads after a sync that were stale", r.l.Stale())
	}
	r.equal()
	r.must(r.l.Close())
	tree := r.equal()
	for _, c := range r.e.Complaints() {
		r.t.Error(c)
	}
	r.directories(tree)
}

// equal demands that all members hold the same tree, Stats included.
func (r *rig) equal() client.Tree {
	r.t.Helper()
	var first client.Tree
	for _, m := range r.e.Members {
		tree := r.read(m)
		// Every member says when it started; with links, it has addresses of its own.
		config := tree[configPath]
		config.Stat.Mtime = 0
		tree[configPath] = config
		if first == nil {
			first = tree
			continue
		}
		skip := func(path string) bool { return r.e.Links != nil && path == configPath || r.old() && r.own(path) }
		if d := first.Differences(tree, r.e.Members[0].String(), m.String(), skip); d != "" {
			r.t.Errorf("members differ:\n%s", d)
		}
	}
	r.t.Logf("%d members hold the same %d znodes", len(r.e.Members), len(first))
	return first
}

// configPath is a znode that a server fills from its configuration.
const configPath = "/zookeeper/config"

// own reports whether members may differ about the path: 3.4 has no configPath, and
// so counts one child less of its parent.
func (r *rig) own(path string) bool {
	return path == configPath || r.old() && path == "/zookeeper"
}

// old reports whether a member was of 3.4 at first.
func (r *rig) old() bool {
	return slices.ContainsFunc(r.specs, func(s cluster.Spec) bool { return s.Kind == cluster.Apache34 })
}

// apache reports whether a member was of Apache's at first.
func (r *rig) apache() bool {
	return slices.ContainsFunc(r.specs, func(s cluster.Spec) bool { return s.Kind.IsApache() })
}

// read reads the tree of one server.
func (r *rig) read(m *cluster.Member) client.Tree {
	r.t.Helper()
	tree, err := r.tryRead(m)
	r.must(err)
	return tree
}

// tryRead returns zk.ErrNoNode if a znode was deleted between its parent's list and its own read.
func (r *rig) tryRead(m *cluster.Member) (client.Tree, error) {
	r.t.Helper()
	s := r.visit(m, r.super)
	tree, err := s.ReadTree()
	if _, closed := s.Close(); err == nil {
		err = closed
	}
	return tree, err
}

// onDisk waits until the last transaction that the tree shows is in a file of every member: a
// member may apply what the others have logged before it has logged it itself. Logs and
// snapshots hold zxids as eight bytes.
func (r *rig) onDisk(tree client.Tree) {
	r.t.Helper()
	last := zk.Zxid(0)
	for path, n := range tree {
		if path != configPath {
			last = max(last, n.Stat.Czxid, n.Stat.Mzxid, n.Stat.Pzxid)
		}
	}
	want := binary.BigEndian.AppendUint64(nil, uint64(last))
	ctx := r.within(patience)
	for _, m := range r.e.Members {
		for !holds(filepath.Join(m.DataDir, "version-2"), want) {
			select {
			case <-ctx.Done():
				r.t.Fatalf("%v has not written %v", m, last)
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
}

// holds reports whether a file of the directory holds the bytes.
func holds(dir string, want []byte) bool {
	names, _ := filepath.Glob(filepath.Join(dir, "*"))
	return slices.ContainsFunc(names, func(name string) bool {
		b, err := os.ReadFile(name)
		return err == nil && bytes.Contains(b, want)
	})
}

// directories kills all members and opens their directories in servers of both
// kinds, which must find the tree.
func (r *rig) directories(tree client.Tree) {
	r.t.Helper()
	r.onDisk(tree)
	for _, m := range r.e.Members {
		m.Kill()
	}
	programs := []cluster.Kind{}
	if apacheInstalled() {
		programs = append(programs, cluster.Apache)
	}
	if *pinfold != "" {
		programs = append(programs, cluster.Pinfold)
	}
	for _, m := range r.e.Members {
		for _, kind := range programs {
			alone, err := r.e.Standalone(kind, m)
			r.must(err)
			r.must(alone.Start())
			_, err = alone.WaitServing(r.within(patience))
			r.must(err)
			got := r.read(alone)
			alone.Kill()
			if d := tree.Differences(got, "the ensemble", "the directory of "+m.String()+" in "+string(kind), r.own); d != "" {
				r.t.Errorf("a directory differs:\n%s", d)
			}
		}
	}
	r.t.Logf("%d directories open in %v", len(r.e.Members), programs)
}
