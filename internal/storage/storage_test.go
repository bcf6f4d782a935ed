package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"path"
	"slices"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/zk"
)

// testPayload returns a payload of n bytes, at least txnHeadBytes, that nothing
// but its zxid and length determines.
func testPayload(zxid zk.Zxid, n int) []byte {
	p := make([]byte, max(n, txnHeadBytes))
	rng := rand.New(rand.NewPCG(uint64(zxid), uint64(n)))
	for i := range p {
		p[i] = byte(rng.Uint32())
	}
	binary.BigEndian.PutUint64(p[txnZxidOffset:], uint64(zxid))
	return p
}

// testOptions keeps the files of a test small.
func testOptions() Options {
	return Options{DataDir: "/data", AutoCreate: true, Log: LogOptions{PreallocBytes: 8192}}
}

func openTest(t testing.TB, fsys vfs.FS, o Options) *Dir {
	t.Helper()
	d, err := Open(fsys, o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// testDir is a directory that is there, without the operations of Open.
func testDir(fsys vfs.FS) *Dir {
	o := testOptions()
	o.Log = o.Log.withDefaults()
	return &Dir{fs: fsys, o: o, snapDir: "/data/version-2", logDir: "/data/version-2"}
}

// entry is one transaction as a test appends it or finds it.
type entry struct {
	zxid    zk.Zxid
	payload []byte
}

// readAll reads the log after a zxid and returns copies.
func readAll(d *Dir, after zk.Zxid) (got []entry, tail Tail, err error) {
	r, err := d.ReadLog(after)
	if err != nil {
		return nil, Tail{}, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	for {
		p, err := r.Next()
		if err == io.EOF {
			return got, r.Tail(), nil
		}
		if err != nil {
			return got, Tail{}, err
		}
		if payloadZxid(p) != r.LastZxid() {
			return got, Tail{}, errors.New("LastZxid is not that of the payload")
		}
		got = append(got, entry{r.LastZxid(), bytes.Clone(p)})
	}
}

func sameEntries(a, b []entry) bool {
	return slices.EqualFunc(a, b, func(x, y entry) bool {
		return x.zxid == y.zxid && bytes.Equal(x.payload, y.payload)
	})
}

// appendTest appends transactions with the given counters and payload length.
func appendTest(t testing.TB, l *Log, n int, zxids ...zk.Zxid) []entry {
	t.Helper()
	var es []entry
	for _, z := range zxids {
		e := entry{z, testPayload(z, n)}
		if err := l.Append(z, e.payload); err != nil {
			t.Fatal(err)
		}
		es = append(es, e)
	}
	return es
}

// zxids returns from..to.
func zxids(from, to zk.Zxid) []zk.Zxid {
	var zs []zk.Zxid
	for z := from; z <= to; z++ {
		zs = append(zs, z)
	}
	return zs
}

func flush(t testing.TB, l *Log) {
	t.Helper()
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
}

func readFile(t testing.TB, fsys vfs.FS, name string) []byte {
	t.Helper()
	f, err := fsys.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// putFile writes a file, durably.
func putFile(t testing.TB, fsys vfs.FS, name string, b []byte) {
	t.Helper()
	if err := fsys.MkdirAll(path.Dir(name)); err != nil {
		t.Fatal(err)
	}
	f, err := fsys.Create(name)
	if err == nil {
		_, err = f.Write(b)
	}
	if err == nil {
		err = errors.Join(f.Sync(), f.Close(), fsys.SyncDir(path.Dir(name)))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// list returns the names in a directory, the lock file left out.
func list(t testing.TB, fsys vfs.FS, dir string) []string {
	t.Helper()
	names, err := fsys.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	return names
}
