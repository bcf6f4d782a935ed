package znode

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

const million = 1_000_000

// bigTree has n znodes of 100 bytes, a thousand under each of its parents.
func bigTree(tb testing.TB, n int) (*Tree, []string) {
	tb.Helper()
	tree, r := New(Options{}), new(Result)
	paths := make([]string, 0, n)
	data, acl := make([]byte, 100), zk.OpenACLUnsafe()
	tx := txn.Txn{Header: txn.Header{Type: wire.OpCreate}}
	create := func(path string) {
		tx.Zxid++
		tx.Op = txn.Op{Type: wire.OpCreate, Path: path, Data: data, ACL: acl, ParentCversion: -1}
		if tree.Apply(&tx, r); r.Err != zk.OK {
			tb.Fatal(path, r.Err)
		}
	}
	for i := range n {
		if i%1000 == 0 {
			create(fmt.Sprintf("/p%04d", i/1000))
		}
		paths = append(paths, fmt.Sprintf("/p%04d/n%07d", i/1000, i))
		create(paths[i])
	}
	return tree, paths
}

func heapBytes() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestMemory: a znode of 100 bytes takes less than 260, and hardly an object.
func TestMemory(t *testing.T) {
	const n = 200_000
	_, paths := bigTree(t, 1000) // so that the paths' own memory is known
	per := int64(len(paths[0]) + 16)
	before := heapBytes()
	tree, paths := bigTree(t, n)
	each := (heapBytes()-before)/n - per
	runtime.KeepAlive(paths)
	t.Logf("%d bytes a znode", each)
	if each > 260 {
		t.Errorf("%d bytes a znode", each)
	}
	runtime.KeepAlive(tree)
}

// TestAllocations: a read, and a write that fits where the old data was, make no
// garbage; a create makes little.
func TestAllocations(t *testing.T) {
	tree, paths := bigTree(t, 2000)
	i := 0
	if n := testing.AllocsPerRun(1000, func() {
		i = (i + 1) % len(paths)
		if tree.Lookup(paths[i]) == 0 {
			t.Fatal(paths[i])
		}
	}); n != 0 {
		t.Errorf("Lookup: %v allocations", n)
	}
	tx, r, data := txn.Txn{Header: txn.Header{Type: wire.OpSetData}}, new(Result), make([]byte, 100)
	if n := testing.AllocsPerRun(1000, func() {
		i = (i + 1) % len(paths)
		tx.Op = txn.Op{Type: wire.OpSetData, Path: paths[i], Data: data, Version: 1}
		tree.Apply(&tx, r)
	}); n != 0 {
		t.Errorf("setData: %v allocations", n)
	}
	acl := zk.OpenACLUnsafe()
	if n := testing.AllocsPerRun(1000, func() {
		tx.Header.Type = wire.OpDelete
		tx.Op = txn.Op{Type: wire.OpDelete, Path: paths[0]}
		tree.Apply(&tx, r)
		tx.Header.Type = wire.OpCreate
		tx.Op = txn.Op{Type: wire.OpCreate, Path: paths[0], Data: data, ACL: acl, ParentCversion: -1}
		tree.Apply(&tx, r)
	}); n != 0 {
		t.Errorf("delete and create: %v allocations", n)
	}
}

func BenchmarkLookup(b *testing.B) {
	tree, paths := bigTree(b, million)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i = (i + 7919) % len(paths)
		if tree.Lookup(paths[i]) == 0 {
			b.Fatal(paths[i])
		}
	}
}

func BenchmarkSetData(b *testing.B) {
	tree, paths := bigTree(b, million)
	tx, r, data := txn.Txn{Header: txn.Header{Type: wire.OpSetData}}, new(Result), make([]byte, 100)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i = (i + 7919) % len(paths)
		tx.Zxid++
		tx.Op = txn.Op{Type: wire.OpSetData, Path: paths[i], Data: data, Version: 1}
		tree.Apply(&tx, r)
	}
}

// BenchmarkCreate makes a million znodes; the time is of one.
func BenchmarkCreate(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		bigTree(b, million)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/million, "ns/znode")
}

func BenchmarkWalk(b *testing.B) {
	tree, _ := bigTree(b, million)
	buf, bytes := make([]byte, 0, 1<<20), 0
	b.ReportAllocs()
	for b.Loop() {
		w, out := tree.Walk(), buf[:0]
		bytes = 0
		for done := false; !done; {
			out, done = w.Next(out, 64<<10)
			bytes += len(out)
			out = out[:0]
		}
	}
	b.SetBytes(int64(bytes))
}

func BenchmarkLoad(b *testing.B) {
	tree, _ := bigTree(b, million)
	w, body := tree.Walk(), []byte(nil)
	body, _ = w.Next(body, 1<<40)
	tree = nil
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		l := NewLoader(Options{})
		for rest := body; ; {
			n, done, err := l.Load(rest[:min(len(rest), 256<<10)])
			if err != nil {
				b.Fatal(err)
			}
			if rest = rest[n:]; done {
				break
			}
		}
		l.Tree(million)
	}
}

// BenchmarkClose ends a session with a million ephemerals, below one znode and below a
// thousand; the time is of one ephemeral.
func BenchmarkClose(b *testing.B) {
	for _, parents := range []int{1, 1000} {
		b.Run(fmt.Sprintf("parents=%d", parents), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				tree, tx := crowdedTree(b, million, parents)
				r := new(Result)
				runtime.GC()
				b.StartTimer()
				c := tree.BeginClose(tx)
				for !c.Next(r, nil) {
				}
				if tree.EphemeralCount() != 0 {
					b.Fatal(tree.EphemeralCount())
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/million, "ns/znode")
		})
	}
}

// crowdedTree has a session with n ephemerals below some parents, and returns the end of it.
func crowdedTree(tb testing.TB, n, parents int) (*Tree, *txn.Txn) {
	tb.Helper()
	tree, r := New(Options{}), new(Result)
	const session = 77
	tx := txn.Txn{Header: txn.Header{Zxid: 1, Session: session, Type: wire.OpCreateSession}}
	tree.Apply(&tx, r)
	tx.Header.Type = wire.OpCreate
	for i := range n {
		if i%(n/parents) == 0 {
			tx.Zxid++
			tx.Op = txn.Op{Type: wire.OpCreate, Path: fmt.Sprintf("/p%d", i/(n/parents)), ACL: zk.OpenACLUnsafe(), ParentCversion: -1}
			tree.Apply(&tx, r)
		}
		tx.Zxid++
		path := fmt.Sprintf("/p%d/%d", i/(n/parents), i)
		tx.Op = txn.Op{Type: wire.OpCreate, Path: path, ACL: zk.OpenACLUnsafe(), ParentCversion: -1, Ephemeral: true}
		if tree.Apply(&tx, r); r.Err != zk.OK {
			tb.Fatal(path, r.Err)
		}
	}
	end := &txn.Txn{Header: txn.Header{Zxid: tx.Zxid + 1, Session: session, Type: wire.OpCloseSession}}
	end.Op.Type = wire.OpCloseSession
	return tree, end
}
