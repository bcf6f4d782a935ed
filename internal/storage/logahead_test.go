package storage

import (
	"bytes"
	"fmt"
	"io"
	"testing"
	"testing/synctest"

	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/test/faultfs"
	"github.com/pinfold-zk/pinfold/zk"
)

// readLogAhead is readAll through a LogAhead.
func readLogAhead(d *Dir, after zk.Zxid) (got []entry, tail Tail, err error) {
	r, err := d.ReadLogAhead(after)
	if err != nil {
		return nil, Tail{}, err
	}
	for err == nil {
		var p []byte
		if p, err = r.Next(); err == nil {
			got = append(got, entry{payloadZxid(p), bytes.Clone(p)})
		}
	}
	if _, again := r.Next(); again != err {
		return nil, Tail{}, fmt.Errorf("the error does not stick: %w", again)
	}
	if err == io.EOF {
		tail, err = r.Tail(), nil
	}
	if errClose := r.Close(); err == nil {
		err = errClose
	}
	return got, tail, err
}

// bigLogs has three files, the second of which is more than a LogAhead keeps.
func bigLogs() map[string][]byte {
	var es []entry
	for z := range zk.Zxid(100) {
		es = append(es, entry{z + 1, testPayload(z+1, 100<<10)})
	}
	return map[string][]byte{"log.1": logBytes(es[:10]...), "log.b": logBytes(es[10:90]...), "log.5b": logBytes(es[90:]...)}
}

// TestLogAhead: what is read ahead is what is read, whether the log is whole or
// damaged in any of its files.
func TestLogAhead(t *testing.T) {
	damage := func(name string, at int, bit byte) map[string][]byte {
		files := bigLogs()
		files[name][at] ^= bit
		return files
	}
	for name, files := range map[string]map[string][]byte{
		"whole":                bigLogs(),
		"damage in the first":  damage("log.1", 200_000, 1),
		"damage in the second": damage("log.b", 7<<20, 0x80),
		"damage in the last":   damage("log.5b", 900_000, 4),
		"a length":             damage("log.b", headerBytes+8, 0x80),
		"no header":            damage("log.b", 1, 1),
	} {
		for _, after := range []zk.Zxid{0, 5, 50, 95, 100} {
			d := putLogs(t, files)
			want, wantTail, wantErr := readAll(d, after)
			if name == "whole" && (wantErr != nil || len(want) != int(100-after)) {
				t.Fatal(len(want), wantErr)
			}
			got, tail, err := readLogAhead(d, after)
			if !sameEntries(got, want) || tail != wantTail || fmt.Sprint(err) != fmt.Sprint(wantErr) {
				t.Errorf("%s after %v: %d entries, %+v, %v; want %d, %+v, %v",
					name, after, len(got), tail, err, len(want), wantTail, wantErr)
			}
		}
	}
}

// TestLogAheadTail: a torn end is told as the reader tells it.
func TestLogAheadTail(t *testing.T) {
	whole := logBytes(testEntries(1000, 1, 2, 3)...)
	for n := range len(whole) {
		d := putLogs(t, map[string][]byte{"log.1": whole[:n]})
		want, wantTail, wantErr := readAll(d, 0)
		got, tail, err := readLogAhead(d, 0)
		if !sameEntries(got, want) || tail != wantTail || fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Fatalf("%d bytes: %d entries, %+v, %v; want %d, %+v, %v", n, len(got), tail, err, len(want), wantTail, wantErr)
		}
	}
}

// TestLogAheadClose: one that is closed early leaves no goroutine, wherever that
// one is.
func TestLogAheadClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := putLogs(t, bigLogs())
		for taken := range 20 {
			r, err := d.ReadLogAhead(0)
			if err != nil {
				t.Fatal(err)
			}
			if taken%2 == 0 {
				synctest.Wait() // it has read as far as it may
			}
			for range taken {
				if _, err := r.Next(); err != nil {
					t.Fatal(err)
				}
			}
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestLogAheadError: the disk's errors are told at their place.
func TestLogAheadError(t *testing.T) {
	mem := vfs.NewMem()
	putFile(t, mem, testLogDir+"log.1", logBytes(testEntries(100<<10, 1, 2, 3)...))
	openTest(t, mem, testOptions()).Close()
	for at := 1; ; at++ {
		fault := faultfs.New(mem, at, faultfs.IO, nil)
		got, _, err := readLogAhead(testDir(fault), 0)
		if err == nil {
			if at < 4 || len(got) != 3 {
				t.Fatalf("%d operations, %d entries", at, len(got))
			}
			return
		}
	}
}
