package replica

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// BenchmarkRecover loads 200,000 znodes of 100 bytes from the disk: all from a
// snapshot, whose log the reader goes over; and half of them from the log.
func BenchmarkRecover(b *testing.B) {
	const znodes = 200_000
	for _, upto := range []int{znodes, znodes / 2} {
		dir, err := storage.Open(vfs.OS{}, storage.Options{DataDir: b.TempDir(), AutoCreate: true})
		if err != nil {
			b.Fatal(err)
		}
		defer dir.Close()
		fillForBench(b, dir, znodes, upto)
		for _, prefetch := range []bool{false, true} {
			b.Run(fmt.Sprintf("snapshot=%d%%/ahead=%v", 100*upto/znodes, prefetch), func(b *testing.B) {
				for b.Loop() {
					r := &Replica{log: slog.New(slog.DiscardHandler)}
					r.o = Options{Dir: dir, Tree: testTree, MaxRecordBytes: 1 << 20, LastZxidBlock: true, Prefetch: prefetch}
					var rep Report
					tree, _, err := (&recovery{r, &rep}).load()
					if err != nil || tree.Count() < znodes || rep.Replayed != znodes-upto {
						b.Fatal(rep, err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*znodes), "ns/znode")
			})
		}
	}
}

// fillForBench writes a log of creates, and a snapshot of the first of them.
func fillForBench(b *testing.B, dir *storage.Dir, znodes, upto int) {
	log, tree, result := dir.NewLog(0), znode.New(testTree), new(znode.Result)
	data, acl := make([]byte, 100), zk.OpenACLUnsafe()
	for i := range znodes {
		tx := txn.Txn{
			Header: txn.Header{Type: wire.OpCreate, Zxid: zk.Zxid(i + 1)},
			Op:     txn.Op{Type: wire.OpCreate, Path: fmt.Sprintf("/k%09d", i), Data: data, ACL: acl, ParentCversion: -1},
		}
		err := log.Append(tx.Zxid, tx.Append(nil))
		if i%1000 == 999 && err == nil {
			err = log.Flush()
		}
		if err != nil {
			b.Fatal(err)
		}
		if i < upto {
			tree.Apply(&tx, result)
		}
	}
	w, err := dir.CreateSnapshot(tree.LastZxid())
	if err != nil {
		b.Fatal(err)
	}
	walk, body := tree.Walk(), []byte(nil)
	body, _ = walk.Next(body, 1<<40)
	if _, err = w.Write(body); err == nil {
		err = w.Seal()
	}
	for _, step := range []func() error{w.Commit, log.Close} {
		if err == nil {
			err = step()
		}
	}
	if err != nil {
		b.Fatal(err)
	}
}
