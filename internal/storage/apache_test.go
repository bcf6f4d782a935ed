package storage

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/zk"
)

// testdata/apache was written by Apache ZooKeeper 3.8.0, started four times
// (the second time with gzip snapshots, then with snappy ones), each time for
// one session with a few writes, and killed each time with kill -9. The zeros
// at the end of the logs are cut to 40.
func openApache(t testing.TB) (d *Dir, dir string) {
	t.Helper()
	base := filepath.ToSlash(t.TempDir())
	if err := os.CopyFS(base+"/version-2", os.DirFS("testdata/apache")); err != nil {
		t.Fatal(err)
	}
	d = openTest(t, vfs.OS{}, Options{DataDir: base})
	t.Cleanup(func() { d.Close() })
	return d, base + "/version-2"
}

func TestReadApacheLog(t *testing.T) {
	d, dir := openApache(t)
	got, tail, err := readAll(d, 0)
	if err != nil {
		t.Fatal(err)
	}
	var types []int32
	for i, e := range got {
		if e.zxid != zk.Zxid(i+1) {
			t.Fatalf("number %d is %v", i, e.zxid)
		}
		types = append(types, int32(binary.BigEndian.Uint32(e.payload[28:])))
	}
	// A session, creates, a set, an error, a multi, a delete, the session's end.
	once := []int32{-10, 1, 1, 1, 5, -1, 14, 2, -11}
	if want := slices.Repeat(once, 4); !slices.Equal(types, want) {
		t.Fatalf("types %v, want %v", types, want)
	}
	if tail.Torn || tail.Name != dir+"/log.1c" || tail.Size != tail.Bytes+40 {
		t.Fatalf("tail %+v", tail)
	}
	for z := range zk.Zxid(36) {
		if some, _, err := readAll(d, z); err != nil || !sameEntries(some, got[z:]) {
			t.Fatalf("after %v: %d entries, %v", z, len(some), err)
		}
	}
}

// What we write from the payloads of Apache's log are Apache's bytes.
func TestRewriteApacheLog(t *testing.T) {
	d, dir := openApache(t)
	all, _, err := readAll(d, 0)
	if err != nil {
		t.Fatal(err)
	}
	mem := vfs.NewMem()
	l := openTest(t, mem, testOptions()).NewLog(0)
	for _, e := range all {
		if err := l.Append(e.zxid, e.payload); err != nil {
			t.Fatal(err)
		}
		if e.zxid%9 == 0 {
			if err := l.Roll(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, name := range []string{"log.1", "log.a", "log.13", "log.1c"} {
		want, err := os.ReadFile(dir + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if got := readFile(t, mem, testLogDir+name); string(got) != string(want[:len(want)-40]) {
			t.Errorf("%s differs from what Apache wrote", name)
		}
	}
}

func TestReadApacheSnapshots(t *testing.T) {
	d, _ := openApache(t)
	snaps, err := d.Snapshots()
	if err != nil {
		t.Fatal(err)
	}
	system := " /zookeeper /zookeeper/config /zookeeper/quota"
	want := map[string]string{
		"snapshot.0":         system,
		"snapshot.9.gz":      " /a /a/s-0000000001" + system,
		"snapshot.12.snappy": " /a /a/s-0000000001 /b /b/s-0000000001" + system,
		"snapshot.1b.snappy": " /a /a/s-0000000001 /b /b/s-0000000001 /c /c/s-0000000001" + system,
	}
	if len(snaps) != len(want) || snaps[0].Zxid != 0x1b {
		t.Fatalf("snapshots %v", snaps)
	}
	for _, s := range snaps {
		paths, err := apachePaths(d, s)
		slices.Sort(paths)
		if got := strings.Join(paths, " "); err != nil || got != want[s.Name] {
			t.Errorf("%s: znodes %q, %v, want %q", s.Name, got, err, want[s.Name])
		}
	}
}

// apachePaths reads a small snapshot by what the protocol page says of its body.
func apachePaths(d *Dir, s Snapshot) (paths []string, err error) {
	r, err := d.OpenSnapshot(s)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	b, err := r.Fill(100_000)
	if err != io.EOF {
		return nil, fmt.Errorf("a snapshot of %d bytes: %v", len(b), err)
	}
	dec := jute.NewDecoder(b)
	for range dec.Count(12) {
		dec.Long()
		dec.Int()
	}
	for range dec.Count(12) {
		dec.Long()
		for range dec.Count(12) {
			dec.Int()
			_, _ = dec.String(), dec.String()
		}
	}
	for {
		p := strings.Clone(dec.String())
		if p == "/" || dec.Err() != nil {
			break
		}
		paths = append(paths, p)
		dec.Buffer()
		for range (8 + 60) / 4 {
			dec.Int() // acl and StatPersisted: 68 bytes
		}
	}
	if dec.Err() != nil {
		return paths, dec.Err()
	}
	r.Discard(len(b) - dec.Len())
	if err := r.CheckSeal(); err != nil {
		return paths, err
	}
	r.Discard(8 + 4 + 8) // the digest block
	if err := r.CheckSeal(); err != nil {
		return paths, err
	}
	if err := r.CheckSeal(); err != io.EOF {
		return paths, fmt.Errorf("a last-zxid block in a 3.8.0 snapshot: %v", err)
	}
	return paths, r.CheckEnd()
}
