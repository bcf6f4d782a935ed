package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/zk"
)

// followingLog is a log file whose header says what it follows.
func followingLog(base zk.Zxid, entries ...entry) []byte {
	b := logBytes(entries...)
	binary.BigEndian.PutUint64(b[8:], uint64(base))
	return b
}

// Whether a file that begins with an epoch goes on from the one before, or from
// the snapshot, as its header says, or as the snapshots do where it says nothing.
func TestJoins(t *testing.T) {
	e1, e2, e3 := zk.MakeZxid(1, 0), zk.MakeZxid(2, 0), zk.MakeZxid(3, 0)
	const none = zk.Zxid(-1)
	tests := []struct {
		name      string
		snapshots []zk.Zxid
		after     zk.Zxid
		before    []zk.Zxid // the file before
		base      zk.Zxid   // of the next file
		next      zk.Zxid   // its first entry
		missing   zk.Zxid   // up to where, none if nothing is
	}{
		{"ours", []zk.Zxid{0}, 0, []zk.Zxid{1, 2}, 2, e2 + 1, none},
		{"ours, after the last before", []zk.Zxid{2}, 2, []zk.Zxid{1, 2}, 2, e2 + 1, none},
		{"ours, after a snapshot in between", []zk.Zxid{0, e1 + 7}, e1 + 7, []zk.Zxid{1, 2}, e1 + 7, e2 + 1, none},
		{"a file is lost", []zk.Zxid{0}, 0, []zk.Zxid{1, 2}, 5, e2 + 1, 5},
		{"an epoch is lost", []zk.Zxid{0}, 0, []zk.Zxid{1, 2}, e1 + 3, e2 + 1, e1 + 3},
		{"the snapshot in between is gone", []zk.Zxid{0}, 0, []zk.Zxid{1, 2}, e1 + 7, e2 + 1, e1 + 7},
		{"the file before was longer than it says", []zk.Zxid{0}, 0, []zk.Zxid{1, 2}, 1, e2 + 1, 2},
		{"a snapshot of no transaction", []zk.Zxid{e1}, e1, []zk.Zxid{1, 2}, 2, e2 + 1, none},
		{"the first of all", []zk.Zxid{0}, 0, nil, 0, e1 + 1, none},
		{"the first of all after a snapshot", []zk.Zxid{0}, 0, nil, e1 + 4, e2 + 1, e1 + 4},
		{"the first of all, without a snapshot", nil, 0, nil, e1 + 4, e2 + 1, e1 + 4},

		{"Apache's", []zk.Zxid{0}, 0, []zk.Zxid{1, 2}, 0, e2 + 1, none},
		{"Apache's, after a snapshot in between", []zk.Zxid{0, e1 + 7}, e1 + 7, []zk.Zxid{1, 2}, 0, e2 + 1, none},
		{"Apache's, over a snapshot in between", []zk.Zxid{0, e1 + 7}, 0, []zk.Zxid{1, 2}, 0, e2 + 1, e1 + 7},
		{"Apache's, over the older of two", []zk.Zxid{0, e1 + 7, e2 + 9}, 0, []zk.Zxid{1, 2}, 0, e2 + 1, e1 + 7},
		{"Apache's, with snapshots around", []zk.Zxid{0, 1, 2, e2 + 1}, 1, []zk.Zxid{1, 2}, 0, e2 + 1, none},
		{"somebody's number", []zk.Zxid{0}, 0, []zk.Zxid{1, 2}, e3, e2 + 1, none},
		{"a negative one", []zk.Zxid{0}, 0, []zk.Zxid{1, 2}, -5, e2 + 1, none},
		{"Apache's first, not of an epoch", []zk.Zxid{0}, 0, nil, 0, e1 + 4, e1 + 3},
		{"Apache's first, not of an epoch, without a snapshot", nil, 0, nil, 0, e1 + 4, none},
		{"the next counter needs no proof", []zk.Zxid{0}, 0, []zk.Zxid{1, 2}, 77, 3, none},
		{"nor does 1", []zk.Zxid{0}, 0, nil, 77, 1, none},
		{"a counter is missing", []zk.Zxid{0}, 0, []zk.Zxid{1, 2}, 2, 4, 3},
		{"the new epoch's first is missing", []zk.Zxid{0}, 0, []zk.Zxid{1, 2}, 2, e2 + 2, e2 + 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			name := "log." + tt.next.Hex()
			files := map[string][]byte{name: followingLog(tt.base, testEntries(50, tt.next)...)}
			if tt.before != nil {
				files["log."+tt.before[0].Hex()] = logBytes(testEntries(50, tt.before...)...)
			}
			d := putLogs(t, files)
			for _, z := range tt.snapshots {
				writeSnapshot(t, d, z, []byte("body"))
			}
			got, _, err := readAll(d, tt.after)
			if tt.missing == none {
				if err != nil || len(got) == 0 || got[len(got)-1].zxid != tt.next {
					t.Fatalf("%d entries, %v", len(got), err)
				}
				return
			}
			checkDamage(t, err, ErrGap, name, headerBytes)
			if tt.base == 1 {
				return // the message is another one
			}
			e, _ := errors.AsType[*Error](err)
			want := fmt.Sprintf("a snapshot of %v or later", tt.missing)
			if e == nil || !strings.Contains(e.Reason, want) {
				t.Fatalf("%v does not name %q", err, want)
			}
		})
	}
}

// What a log writes into the header of its files: what it follows where an epoch
// begins, else Apache's 0; also if entries were refused before, and after a roll.
func TestLogSaysWhatItFollows(t *testing.T) {
	e1, e2 := zk.MakeZxid(1, 0), zk.MakeZxid(2, 0)
	d := putLogs(t, nil)
	base := func(z zk.Zxid) zk.Zxid {
		b := readFile(t, d.fs, testLogDir+"log."+z.Hex())
		return zk.Zxid(binary.BigEndian.Uint64(b[8:]))
	}
	l := d.NewLog(e1 + 5)
	if err := l.Append(e1+7, testPayload(e1+7, 40)); !errors.Is(err, ErrGap) {
		t.Fatal(err)
	}
	if err := l.Append(e2+1, nil); err == nil {
		t.Fatal("appended nothing")
	}
	appendTest(t, l, 40, e2+1)
	if err := l.Roll(); err != nil {
		t.Fatal(err)
	}
	appendTest(t, l, 40, e2+2, zk.MakeZxid(3, 1))
	if err := l.Roll(); err != nil {
		t.Fatal(err)
	}
	appendTest(t, l, 40, zk.MakeZxid(4, 1))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for first, want := range map[zk.Zxid]zk.Zxid{e2 + 1: e1 + 5, e2 + 2: 0, zk.MakeZxid(4, 1): zk.MakeZxid(3, 1)} {
		if got := base(first); got != want {
			t.Errorf("the file that begins with %v follows %v, want %v", first, got, want)
		}
	}
	l = d.NewLog(0)
	appendTest(t, l, 40, zk.MakeZxid(9, 1))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if got := base(zk.MakeZxid(9, 1)); got != 0 {
		t.Errorf("a log that may begin anywhere follows %v", got)
	}
}

// A file that begins with an error without a zxid of its own joins the one before
// as its first transaction does.
func TestJoinsBehindError(t *testing.T) {
	e1, e2 := zk.MakeZxid(1, 0), zk.MakeZxid(2, 0)
	tests := []struct {
		name      string
		snapshots []zk.Zxid
		failed    zk.Zxid // the next file's error
		next      zk.Zxid // its first transaction
		missing   zk.Zxid // up to where, none if nothing is
	}{
		{"under the last zxid", []zk.Zxid{0}, 2, 3, -1},
		{"under the last zxid, with a gap behind", []zk.Zxid{0}, 2, 4, 3},
		{"under counter 0", []zk.Zxid{0}, e2, e2 + 1, -1},
		{"under counter 0, over a snapshot in between", []zk.Zxid{0, e1 + 7}, e2, e2 + 1, e1 + 7},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			next := logBytes(failedEntry(tt.failed), testEntries(50, tt.next)[0])
			files := map[string][]byte{"log.1": logBytes(testEntries(50, 1, 2)...), "log." + tt.failed.Hex(): next}
			for _, z := range tt.snapshots {
				files["snapshot."+z.Hex()] = []byte("not read")
			}
			got, _, err := readAll(putLogs(t, files), 0)
			if tt.missing == -1 {
				if err != nil || len(got) != 3 || got[2].zxid != tt.next {
					t.Errorf("read %d, %v", len(got), err)
				}
				return
			}
			if !errors.Is(err, ErrGap) || !strings.Contains(err.Error(), fmt.Sprint(tt.missing)) {
				t.Errorf("error %v, want a gap up to %v", err, tt.missing)
			}
		})
	}
}
