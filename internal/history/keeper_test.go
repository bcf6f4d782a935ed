package history

import (
	"bytes"
	"context"
	"errors"
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

	"github.com/pinfold-zk/pinfold"
	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/internal/keeper"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/test/keeperfiles"
	"github.com/pinfold-zk/pinfold/zk"
)

func keeperSource(d keeperfiles.Dir) *keeper.Source {
	return &keeper.Source{Snapshots: os.DirFS(filepath.Join(string(d), "snapshots")), Logs: os.DirFS(filepath.Join(string(d), "log"))}
}

// keeperFiles are a snapshot and a changelog with all that is converted or left out.
func keeperFiles(t *testing.T) keeperfiles.Dir {
	d := keeperfiles.NewDir(t)
	d.Snapshot(t, &keeperfiles.Snapshot{
		Version: 6, Index: 40, Term: 3, Zxid: 0x500000037, Digest: 4, NextSession: 9,
		ACLs: map[uint64][]zk.ACL{1: {{Perms: zk.PermRead | zk.PermAdmin, ID: zk.ID{Scheme: "digest", ID: "alice:aYXlLOpEooaV1cRAvUL1fp9Qt7E="}}, {Perms: zk.PermRead, ID: zk.ID{Scheme: "world", ID: "anyone"}}}},
		Nodes: []keeperfiles.Node{
			{Path: "/", Cversion: 9, Children: 5, Pzxid: 20, Seq: 5},
			{Path: "/keeper"},
			{Path: "/a", Data: "data", Czxid: 5, Mzxid: 6, Ctime: 1000, Mtime: 2000, Version: 7, Cversion: 9, Aversion: 2, Children: 2, Pzxid: 8, Seq: 4, ACL: 1},
			{Path: "/a/e", Czxid: 8, Mzxid: 8, Ctime: 3000, Mtime: 3000, Owner: 4, Pzxid: 8},
			{Path: "/a/n-0000000002", Czxid: 8, Mzxid: 8, Ctime: 3000, Mtime: 3000, Pzxid: 8},
			{Path: "/large", Data: strings.Repeat("x", 1<<20+1), Czxid: 20, Mzxid: 20, Pzxid: 20},
			{Path: "/zookeeper", Children: 2, Seq: 2}, // it was converted from ZooKeeper once
			{Path: "/zookeeper/config", Data: "members"},
			{Path: "/zookeeper/quota"},
		},
		Sessions: []keeperfiles.Session{{ID: 4, Timeout: 30000}},
	})
	d.Log(t, keeperfiles.Entry{Index: 41, Term: 4, Session: 4, Time: 7000, Zxid: 0x500000038, Op: int32(wire.OpSetData),
		Body: (&wire.SetDataRequest{Path: "/a/n-0000000002", Data: []byte("set"), Version: 0}).Append(nil)})
	return d
}

func TestFromKeeper(t *testing.T) {
	d, to := keeperFiles(t), filepath.Join(t.TempDir(), "to")
	var out bytes.Buffer
	k := FromKeeper{Out: &out, DryRun: true}
	if err := k.Run(keeperSource(d), to); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(to); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something was written: %v", err)
	}
	for _, want := range []string{
		"snapshot_40.bin.zstd, then 1 requests of changelogs, to entry 41 of term 4; 1 digests compared",
		"left out: the ephemeral /a/e of session 0x4", "left out: /zookeeper/config",
		"1 znodes have more than 1 MiB", "zxid 0x500000038; left out: 1 sessions, 1 ephemerals",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	convert(t, d, to)
	tree := newest(t, to)
	at := tree.Lookup("/a")
	want := znode.Mode{Czxid: 5, Mzxid: 6, Pzxid: 8, Ctime: 1000, Mtime: 2000, Version: 7, Cversion: 4, Aversion: 2}
	if got := tree.Mode(at); got != want || string(tree.Data(at)) != "data" || len(tree.ACL(at).All()) != 2 {
		t.Errorf("/a has %+v, want %+v", got, want)
	}
	var stat zk.Stat
	tree.Stat(at, &stat)
	if stat.Cversion != 2*4-1 || tree.LastZxid() != 0x500000038 || tree.Lookup("/a/e") != 0 || tree.Lookup("/keeper") != 0 ||
		string(tree.Data(tree.Lookup("/a/n-0000000002"))) != "set" || !slices.Equal(tree.ACL(tree.Lookup("/large")).All(), zk.OpenACLUnsafe()) {
		t.Errorf("%+v, zxid %v", stat, tree.LastZxid())
	}
	out.Reset()
	if err := (&FromKeeper{Out: &out}).Run(keeperSource(d), to); err == nil || !strings.Contains(err.Error(), "has data already") {
		t.Error(err)
	}
}

// convert converts, and has the result verified.
func convert(t *testing.T, d keeperfiles.Dir, to string) {
	t.Helper()
	var out bytes.Buffer
	if err := (&FromKeeper{Out: &out}).Run(keeperSource(d), to); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	if err := (&Verification{Out: &out}).Verify(to, ""); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
}

// What ZooKeeper cannot have is printed, all of it, and nothing is written.
func TestFromKeeperRefuses(t *testing.T) {
	d, to := keeperfiles.NewDir(t), filepath.Join(t.TempDir(), "to")
	d.Snapshot(t, &keeperfiles.Snapshot{Version: 7, Index: 4, Nodes: []keeperfiles.Node{
		{Path: "/", Children: 3}, {Path: "/keeper"}, {Path: "/many", Seq: 1 << 31}, {Path: "/bad\x01name"}, {Path: "/.."},
	}})
	var out bytes.Buffer
	err := (&FromKeeper{Out: &out}).Run(keeperSource(d), to)
	if !errors.Is(err, ErrNotConverted) || strings.Count(out.String(), "CANNOT BE CONVERTED") != 3 || !strings.Contains(out.String(), "2147483648") {
		t.Errorf("%v\n%s", err, &out)
	}
	if _, err := os.Stat(to); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something was written: %v", err)
	}
}

// A history of random requests leaves in Keeper's files what it leaves in a server, but for what Keeper does otherwise:
// the zxids, and the pzxid of a znode that loses a child.
func TestKeeperAsServer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	dir, seed := t.TempDir(), rand.Uint64()
	t.Logf("seed %d", seed)
	s, c := serve(ctx, t, dir)
	h := &requests{rand: rand.New(rand.NewPCG(seed, 1)), c: c}
	for range 600 {
		h.add(ctx)
	}
	if err := errors.Join(c.Close(), s.Stop()); err != nil {
		t.Fatal(err)
	}
	d, to := keeperfiles.NewDir(t), filepath.Join(t.TempDir(), "to")
	half := len(h.entries) / 2
	d.Log(t, h.entries[:half]...)
	d.Log(t, h.entries[half:]...)
	convert(t, d, to)
	show := func(tree *znode.Tree) (lines []string) {
		err := walk(tree, "/", func(name string, id znode.ID) error {
			if m := tree.Mode(id); !inSystem(name) {
				created := fmt.Sprint(m.Cversion)
				if name == "/" {
					created = "" // a server begins with another number
				}
				lines = append(lines, fmt.Sprintf("%s %q v%d a%d n%s %v", name, tree.Data(id), m.Version, m.Aversion, created, tree.ACL(id).All()))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return lines
	}
	if got, want := show(newest(t, to)), show(newest(t, dir)); !slices.Equal(got, want) || h.refused == 0 || len(got) < 5 {
		t.Errorf("%d were refused; Keeper's has\n%s\nthe server's\n%s", h.refused, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// requests are sent to a server, and kept as Keeper keeps them.
type requests struct {
	rand    *rand.Rand
	c       *client.Client
	entries []keeperfiles.Entry
	refused int
}

// path draws one of a few.
func (h *requests) path() string {
	p := ""
	for range 1 + h.rand.IntN(2) {
		p += "/" + string('a'+rune(h.rand.IntN(3)))
	}
	return p
}

func (h *requests) add(ctx context.Context) {
	n := 1
	multi := h.rand.IntN(3) == 0
	if multi {
		n = 2 + h.rand.IntN(3)
	}
	txn, ops := h.c.Txn(), []keeperfiles.Entry{}
	for range n {
		ops = append(ops, h.op(txn))
	}
	e := ops[0]
	if multi {
		e = keeperfiles.Entry{Op: int32(wire.OpMulti), Body: keeperfiles.Multi(ops...)}
	}
	e.Index = uint64(len(h.entries) + 1)
	e.Term, e.Session, e.Time, e.Zxid = 1, 1, 1000, int64(e.Index)
	h.entries = append(h.entries, e)
	if err := txn.Commit(ctx); err != nil {
		h.refused++
	}
}

// op draws an operation, and adds it to a transaction.
func (h *requests) op(txn *client.Txn) keeperfiles.Entry {
	p, data, version := h.path(), fmt.Sprint(h.rand.IntN(100)), int32(h.rand.IntN(4)-1)
	path := wire.PathVersion{Path: p, Version: version}
	switch h.rand.IntN(5) {
	case 0, 1:
		mode, acl := zk.CreateMode(2*h.rand.IntN(2)), zk.OpenACLUnsafe()
		txn.Create(p, []byte(data), mode, acl)
		return keeperfiles.Entry{Op: int32(wire.OpCreate), Body: (&wire.CreateRequest{Path: p, Data: []byte(data), ACL: acl, Flags: mode}).Append(nil, wire.OpCreate)}
	case 2:
		txn.Delete(p, version)
		return keeperfiles.Entry{Op: int32(wire.OpDelete), Body: path.Append(nil)}
	case 3:
		txn.Set(p, []byte(data), version)
		return keeperfiles.Entry{Op: int32(wire.OpSetData), Body: (&wire.SetDataRequest{Path: p, Data: []byte(data), Version: version}).Append(nil)}
	}
	txn.Check(p, version)
	return keeperfiles.Entry{Op: int32(wire.OpCheck), Body: path.Append(nil)}
}

// Apache ZooKeeper serves what a Pinfold server serves of the converted files, and names the next sequential znode alike.
func TestApacheServesKeepers(t *testing.T) {
	if !*apache {
		t.Skip("without -apache")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	d, dirs := keeperFiles(t), [2]string{filepath.Join(t.TempDir(), "pinfold"), filepath.Join(t.TempDir(), "apache")}
	for _, dir := range dirs {
		convert(t, d, dir)
	}
	s, err := pinfold.New(pinfold.Config{DataDir: dirs[0]})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(ctx); err != nil {
		t.Fatal(err)
	}
	ours := served(t, ctx, s.Addr())
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if theirs := served(t, ctx, startApache(t, ctx, dirs[1])); theirs != ours || !strings.Contains(ours, "/a/n-0000000004") {
		t.Errorf("Apache's serves\n%s\nPinfold\n%s", theirs, ours)
	}
}

// startApache starts the installed release on a data directory, and returns its address.
func startApache(t *testing.T, ctx context.Context, dir string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().(*net.TCPAddr)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	cfg := filepath.Join(t.TempDir(), "zoo.cfg")
	text := fmt.Sprintf("tickTime=2000\ndataDir=%s\nclientPort=%d\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n", dir, addr.Port)
	if err := os.WriteFile(cfg, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, filepath.Join("..", "..", "scripts", "apache-server"), cfg)
	cmd.Env = append(os.Environ(), "JVMFLAGS=-Xmx256m -Djute.maxbuffer=4194304")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	return addr.String()
}

// served shows the znodes of a server with all that clients see, and the name of the next sequential znode below /a.
func served(t *testing.T, ctx context.Context, addr string) string {
	t.Helper()
	c, err := client.Dial(ctx, addr, client.Auth("digest", []byte("alice:secret")))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var b strings.Builder
	var show func(path string)
	show = func(path string) {
		data, stat, err := c.Get(ctx, path)
		acl, _, err2 := c.GetACL(ctx, path)
		names, _, err3 := c.Children(ctx, path)
		if err := errors.Join(err, err2, err3); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %d %.20q %+v %v\n", path, len(data), data, stat, acl)
		slices.Sort(names)
		for _, name := range names {
			if p := strings.TrimSuffix(path, "/") + "/" + name; p != systemPath {
				show(p)
			}
		}
	}
	show("/")
	_, err = c.SetACL(ctx, "/a", zk.OpenACLUnsafe(), -1)
	name, err2 := c.Create(ctx, "/a/n-", nil, zk.PersistentSequential, zk.OpenACLUnsafe())
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	return b.String() + name
}
