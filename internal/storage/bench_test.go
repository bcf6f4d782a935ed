package storage

import (
	"encoding/binary"
	"io"
	"path/filepath"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/zk"
)

// openBench opens a directory on the real disk.
func openBench(b *testing.B, o Options) *Dir {
	b.Helper()
	o.DataDir, o.AutoCreate = filepath.ToSlash(b.TempDir()), true
	d := openTest(b, vfs.OS{}, o)
	b.Cleanup(func() { d.Close() })
	return d
}

// BenchmarkAppend appends groups of 1 KiB payloads, a flush each.
func BenchmarkAppend(b *testing.B) {
	run := func(b *testing.B, d *Dir, group int) {
		l := d.NewLog(0)
		payload := testPayload(1, 1024)
		z := zk.Zxid(0)
		b.SetBytes(int64(group * len(payload)))
		b.ReportAllocs()
		for b.Loop() {
			for range group {
				z++
				binary.BigEndian.PutUint64(payload[txnZxidOffset:], uint64(z))
				if err := l.Append(z, payload); err != nil {
					b.Fatal(err)
				}
			}
			flush(b, l)
		}
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("memory/group=100", func(b *testing.B) {
		run(b, openTest(b, discardFS{vfs.NewMem()}, testOptions()), 100)
	})
	b.Run("disk/group=1", func(b *testing.B) { run(b, openBench(b, Options{}), 1) })
	b.Run("disk/group=100", func(b *testing.B) { run(b, openBench(b, Options{}), 100) })
	b.Run("disk/group=1000", func(b *testing.B) { run(b, openBench(b, Options{}), 1000) })
	b.Run("nosync/group=100", func(b *testing.B) {
		run(b, openBench(b, Options{Log: LogOptions{NoSync: true}}), 100)
	})
}

// benchTxns is how many transactions of 1 KiB fillBenchLog appends.
const benchTxns = 100_000

func fillBenchLog(b *testing.B, l *Log) {
	payload := testPayload(1, 1024)
	for z := zk.Zxid(1); z <= benchTxns; z++ {
		binary.BigEndian.PutUint64(payload[txnZxidOffset:], uint64(z))
		if err := l.Append(z, payload); err != nil {
			b.Fatal(err)
		}
	}
	flush(b, l)
}

// BenchmarkReadLog reads the log back as a start does.
func BenchmarkReadLog(b *testing.B) {
	d := openBench(b, Options{})
	l := d.NewLog(0)
	fillBenchLog(b, l)
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(benchTxns * 1024)
	for b.Loop() {
		r, err := d.ReadLog(0)
		if err != nil {
			b.Fatal(err)
		}
		n := 0
		for _, err = r.Next(); err == nil; _, err = r.Next() {
			n++
		}
		if err != io.EOF || n != benchTxns {
			b.Fatal(n, err)
		}
		r.Close()
	}
}

// BenchmarkReadRange reads all but the first half of the first file, beside the
// open log, as for a learner.
func BenchmarkReadRange(b *testing.B) {
	d := openBench(b, Options{Log: LogOptions{MaxFileBytes: 32 << 20}})
	l := d.NewLog(0)
	fillBenchLog(b, l)
	const after = 16_000
	b.SetBytes((benchTxns - after) * 1024)
	for b.Loop() {
		r, err := d.ReadRange(after, benchTxns)
		if err != nil {
			b.Fatal(err)
		}
		n := after
		for _, _, err = r.Next(); err == nil; _, _, err = r.Next() {
			n++
		}
		if err != io.EOF || n != benchTxns {
			b.Fatal(n, err)
		}
		r.Close()
	}
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkLocate looks up the last transaction of a file of 100 MB.
func BenchmarkLocate(b *testing.B) {
	d := openBench(b, Options{})
	l := d.NewLog(0)
	fillBenchLog(b, l)
	for b.Loop() {
		if loc, err := d.Locate(benchTxns); err != nil || !loc.Present {
			b.Fatal(loc, err)
		}
	}
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
}

// benchNode has the layout of a znode of 100 bytes in a snapshot.
func benchNode() []byte {
	rec := binary.BigEndian.AppendUint32(nil, 20)
	rec = append(rec, "/bench/node-00000001"...)
	rec = binary.BigEndian.AppendUint32(rec, 100)
	return append(rec, make([]byte, 100+8+60)...)
}

const benchNodes = 1_000_000

// writeBenchSnapshot writes a million nodes one by one through a 64 KiB buffer,
// as a writer of the tree does.
func writeBenchSnapshot(b *testing.B, d *Dir, rec []byte) {
	w, err := d.CreateSnapshot(1)
	if err != nil {
		b.Fatal(err)
	}
	buf := make([]byte, 0, 64<<10)
	for range benchNodes {
		if len(buf)+len(rec) > cap(buf) {
			w.Write(buf)
			buf = buf[:0]
		}
		buf = append(buf, rec...)
	}
	w.Write(buf)
	w.Seal()
	if err := w.Commit(); err != nil {
		b.Fatal(err)
	}
}

// readBenchSnapshot takes the nodes one by one, looking at every length.
func readBenchSnapshot(b *testing.B, d *Dir) {
	snaps, err := d.Snapshots()
	if err != nil || len(snaps) == 0 {
		b.Fatal(snaps, err)
	}
	r, err := d.OpenSnapshot(snaps[0])
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	for nodes := 0; ; {
		buf := r.Buffered()
		used := 0
		for nodes < benchNodes && len(buf) >= used+4 {
			path := int(binary.BigEndian.Uint32(buf[used:]))
			if len(buf) < used+8+path {
				break
			}
			data := int(binary.BigEndian.Uint32(buf[used+4+path:]))
			n := 4 + path + 4 + data + 8 + 60
			if len(buf) < used+n {
				break
			}
			used += n
			nodes++
		}
		r.Discard(used)
		if nodes == benchNodes {
			break
		}
		if _, err := r.Fill(len(buf) - used + 1); err != nil {
			b.Fatal(nodes, err)
		}
	}
	if err := r.CheckSeal(); err != nil {
		b.Fatal(err)
	}
	if err := r.CheckEnd(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkSnapshot writes and reads a million znodes of 100 bytes.
func BenchmarkSnapshot(b *testing.B) {
	rec := benchNode()
	for _, c := range []Compression{Plain, Gzip, Snappy} {
		d := openBench(b, Options{Compression: c})
		writeBenchSnapshot(b, d, rec)
		b.Run("write"+c.suffix(), func(b *testing.B) {
			b.SetBytes(int64(benchNodes * len(rec)))
			for b.Loop() {
				writeBenchSnapshot(b, d, rec)
			}
		})
		b.Run("read"+c.suffix(), func(b *testing.B) {
			b.SetBytes(int64(benchNodes * len(rec)))
			for b.Loop() {
				readBenchSnapshot(b, d)
			}
		})
	}
}
