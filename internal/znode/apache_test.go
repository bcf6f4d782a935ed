package znode

import (
	"bufio"
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// apacheLog is a file of transactions in hex.
func apacheLog(t *testing.T, name string) (log []txn.Txn) {
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		b, err := hex.DecodeString(lines.Text())
		if err != nil {
			t.Fatal(err)
		}
		tx, err := txn.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		log = append(log, tx)
	}
	if lines.Err() != nil || len(log) == 0 {
		t.Fatalf("%s: %d transactions, %v", name, len(log), lines.Err())
	}
	return log
}

// TestApacheDigests replays logs that Apache wrote: every kind of transaction,
// the tree's digest after each, quotas, sessions that come and go.
func TestApacheDigests(t *testing.T) {
	for _, name := range []string{"testdata/apache-3.8.0-log.txt", "../txn/testdata/apache-3.8.0.txt"} {
		tree, r := New(extended), new(Result)
		for _, tx := range apacheLog(t, name) {
			tree.Apply(&tx, r)
			if r.Err != zk.OK && tx.Header.Type != wire.OpError {
				t.Errorf("%s: %v: %v", name, tx.Zxid, r.Err)
			}
			if tx.HasDigest && tree.Digest() != tx.Digest {
				t.Fatalf("%s: %+v: digest %d", name, tx, tree.Digest())
			}
			mustCheck(t, tree)
		}
	}
}

// TestApacheSnapshot: the snapshot that Apache took at the end of that log is
// our tree.
func TestApacheSnapshot(t *testing.T) {
	tree, r := New(extended), new(Result)
	for _, tx := range apacheLog(t, "testdata/apache-3.8.0-log.txt") {
		tree.Apply(&tx, r)
	}
	file, err := os.ReadFile("testdata/apache-3.8.0-snapshot.40")
	if err != nil {
		t.Fatal(err)
	}
	const fileHeaderBytes = 16
	l := NewLoader(extended)
	n, done, err := l.Load(file[fileHeaderBytes:])
	if err != nil || !done {
		t.Fatal(n, done, err)
	}
	// Behind the body: a sum, a mark, and the digest block.
	d := jute.NewDecoder(file[fileHeaderBytes+n:])
	d.Long()
	_ = d.String()
	z, version, digest := zk.Zxid(d.Long()), d.Int(), uint64(d.Long())
	loaded := l.Tree(0x40)
	if z != 0x40 || version != txn.DigestVersion || loaded.Digest() != digest || l.Unlisted != 0 {
		t.Errorf("digest %d, in the file %d of %v; %d ACLs not listed", loaded.Digest(), digest, z, l.Unlisted)
	}
	mustCheck(t, loaded)
	if diff := firstDiff(dump(loaded), dump(tree)); diff != "" {
		t.Errorf("the snapshot, and what the log gives: %s", diff)
	}
	stats := loaded.Data(loaded.Lookup("/zookeeper/quota/q/zookeeper_stats"))
	if string(stats) != "count=2,bytes=4" {
		t.Errorf("quota stats %q", stats)
	}
}
