package znode

import (
	"testing"

	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

func TestFreshTree(t *testing.T) {
	tree := New(Options{})
	if got, want := tree.Digest(), uint64(1371985504); got != want {
		t.Errorf("digest of a fresh tree = %d, Apache has %d", got, want)
	}
	if got := tree.Count(); got != 5 {
		t.Errorf("node count of a fresh tree = %d, Apache has 5", got)
	}
	var s zk.Stat
	tree.Stat(tree.Lookup("/"), &s)
	if want := (zk.Stat{Cversion: -1, NumChildren: 1}); s != want {
		t.Errorf("Stat of a fresh / = %+v, Apache has %+v", s, want)
	}
	tree.Stat(tree.Lookup("/zookeeper"), &s)
	if s.Cversion != -2 || s.NumChildren != 2 {
		t.Errorf("Stat of a fresh /zookeeper = %+v, Apache has cversion -2 and 2 children", s)
	}
	tree.Stat(tree.Lookup(ConfigPath), &s)
	if want := (zk.Stat{Aversion: -1}); s != want {
		t.Errorf("Stat of a fresh %s = %+v, Apache has %+v", ConfigPath, s, want)
	}
	tree.SetConfig([]byte("x"), 7)
	tree.Stat(tree.Lookup(ConfigPath), &s)
	if want := (zk.Stat{Aversion: -1, Version: -1, Mtime: 7, DataLength: 1}); s != want {
		t.Errorf("Stat of %s = %+v, want %+v", ConfigPath, s, want)
	}
	if err := tree.check(); err != nil {
		t.Error(err)
	}
	if tree.Lookup("//zookeeper") != 0 || tree.Lookup("/zookeeper/") != 0 || tree.Lookup("zookeeper") != 0 {
		t.Error("a path that is no path finds a znode")
	}
}

func create(z zk.Zxid, path string, data []byte, cver int32) *txn.Txn {
	return &txn.Txn{
		Header: txn.Header{Zxid: z, Time: 1000 + int64(z), Type: wire.OpCreate},
		Op:     txn.Op{Type: wire.OpCreate, Path: path, Data: data, ACL: zk.OpenACLUnsafe(), ParentCversion: cver},
	}
}

func TestCreateDelete(t *testing.T) {
	tree, r := New(Options{}), new(Result)
	tree.Apply(create(1, "/a", []byte("x"), 1), r)
	tree.Apply(create(2, "/a/b", nil, 1), r)
	if r.Err != zk.OK || len(r.Events) != 2 || r.Events[1].Path != "/a" {
		t.Fatalf("create /a/b: %+v", r)
	}
	if tree.Data(tree.Lookup("/a/b")) != nil || string(tree.Data(tree.Lookup("/a"))) != "x" {
		t.Error("data differs")
	}
	if err := tree.check(); err != nil {
		t.Fatal(err)
	}
	before := tree.Digest()
	del := &txn.Txn{
		Header: txn.Header{Zxid: 3, Type: wire.OpDelete}, Op: txn.Op{Type: wire.OpDelete, Path: "/a/b"},
	}
	tree.Apply(del, r)
	if r.Err != zk.OK || tree.Lookup("/a/b") != 0 || tree.Digest() == before {
		t.Fatalf("delete /a/b: %+v", r)
	}
	var s zk.Stat
	tree.Stat(tree.Lookup("/a"), &s)
	if s.Cversion != 2 || s.Pzxid != 3 || s.NumChildren != 0 {
		t.Errorf("Stat of /a = %+v", s)
	}
	if err := tree.check(); err != nil {
		t.Error(err)
	}
}
