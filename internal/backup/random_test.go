package backup

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/choices"
	"github.com/pinfold-zk/pinfold/zk"
)

// A source is a member's data directory, whose log the test writes entry by entry.
type source struct {
	t       *testing.T
	dir     string
	entries []entry // the history
	serial  int     // of the entries ever made: no two have the same content
}

type entry struct {
	zxid    zk.Zxid
	payload []byte
	begins  bool // a log file
}

// emptySnapshot is snapshot.0 of a server.
var emptySnapshot = sync.OnceValue(func() []byte {
	b, err := os.ReadFile("../../test/datadir/testdata/apache-3.9/version-2/snapshot.0")
	if err != nil {
		panic(err)
	}
	return b
})

func newSource(t *testing.T) *source {
	s := &source{t: t, dir: t.TempDir()}
	s.must(os.MkdirAll(filepath.Join(s.dir, versionDir), 0o750))
	s.must(os.WriteFile(s.file("snapshot.0"), emptySnapshot(), 0o600))
	return s
}

func (s *source) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *source) file(name string) string { return filepath.Join(s.dir, versionDir, name) }

func (s *source) last() zk.Zxid {
	if len(s.entries) == 0 {
		return 0
	}
	return s.entries[len(s.entries)-1].zxid
}

// write appends transactions, to a new file if roll is set, of the next epoch if epoch is set.
func (s *source) write(n int, roll, epoch bool) {
	for range n {
		z := s.last() + 1
		if epoch {
			z = zk.Zxid(int64(s.last().Epoch()+1)<<32 | 1)
		}
		s.serial++
		tx := txn.Txn{
			Header: txn.Header{Session: 1, Cxid: int32(s.serial), Zxid: z, Time: int64(s.serial), Type: wire.OpCreate},
			Op:     txn.Op{Type: wire.OpCreate, Path: fmt.Sprintf("/%06d", s.serial), Data: make([]byte, s.serial%70), ACL: zk.OpenACLUnsafe(), ParentCversion: -1},
		}
		s.entries = append(s.entries, entry{z, tx.Append(nil), roll || len(s.entries) == 0})
		roll, epoch = false, false
	}
	s.flush()
}

// cut removes the last transactions, as a leader has it.
func (s *source) cut(n int) {
	s.entries = s.entries[:max(len(s.entries)-n, 0)]
	s.flush()
}

// flush writes the log's files.
func (s *source) flush() {
	old, err := filepath.Glob(s.file("log.*"))
	s.must(err)
	for _, name := range old {
		s.must(os.Remove(name))
	}
	var name string
	var b []byte
	before := zk.Zxid(0)
	for i, e := range s.entries {
		if e.begins {
			name, b = s.file(storage.LogName("", e.zxid)), storage.AppendLogHeader(nil, int64(before))
		}
		b = storage.AppendEntry(b, e.payload)
		before = e.zxid
		if i+1 == len(s.entries) || s.entries[i+1].begins {
			s.must(os.WriteFile(name, b, 0o600))
		}
	}
}

// check restores everything, and compares the log with the history.
func (s *source) check(store Store) {
	s.t.Helper()
	r := Restore{Store: store, DataDir: s.t.TempDir()}
	if err := r.Run(s.t.Context()); err != nil || r.Result.Zxid != s.last() {
		s.t.Fatalf("restored %+v, %v, want all up to %v", r.Result, err, s.last())
	}
	d, err := storage.OpenReadOnly(vfs.OS{}, storage.Options{DataDir: r.DataDir})
	s.must(err)
	log, err := d.ReadLog(0)
	s.must(err)
	for _, e := range s.entries {
		if have, err := log.Next(); err != nil || !bytes.Equal(have, e.payload) {
			s.t.Fatalf("the restored log has %q, %v for %v", have, err, e.zxid)
		}
	}
	if have, err := log.Next(); err != io.EOF {
		s.t.Fatalf("the restored log has %q, %v after the end", have, err)
	}
	s.must(log.Close())
}

// memory is a Store that no disk makes slow.
type memory map[string][]byte

func (m memory) List(context.Context) ([]File, error) {
	files := make([]File, 0, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		files = append(files, File{name, int64(len(m[name]))})
	}
	return files, nil
}

func (m memory) Put(_ context.Context, name string, content io.Reader, size int64) error {
	b, err := io.ReadAll(content)
	if err == nil && int64(len(b)) != size {
		err = fmt.Errorf("%s has %d bytes, not %d", name, len(b), size)
	}
	m[name] = b
	return err
}

func (m memory) Get(_ context.Context, name string) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(m[name])), nil
}

// play has a member write, begin log files and epochs, and lose what its leader does not have, and backs it up meanwhile. What is
// restored after a backup is what the member has at that time.
func play(t *testing.T, input []byte) {
	s, store, c := newSource(t), memory{}, choices.New(input)
	s.write(1, false, false)
	for steps := 0; steps < 12 && !c.Done(); steps++ {
		switch c.N(6) {
		case 0:
			s.write(1+c.N(20), false, false)
		case 1:
			s.write(1+c.N(5), true, false)
		case 2:
			s.write(1+c.N(5), c.N(2) == 0, true)
		case 3:
			s.cut(c.N(min(len(s.entries), 10)))
			if c.N(2) == 0 {
				s.write(1+c.N(10), false, false)
			}
		default:
			b := Backup{Store: store, DataDir: s.dir}
			s.must(b.Run(t.Context()))
			if b.Result.Zxid != s.last() {
				t.Fatalf("the backup ends with %v, the log with %v", b.Result.Zxid, s.last())
			}
			if c.N(8) == 7 {
				s.check(store)
			}
		}
	}
	b := Backup{Store: store, DataDir: s.dir}
	s.must(b.Run(t.Context()))
	s.check(store)
}

func TestBackupsAtRandom(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { play(t, choices.Random(seed, 60)) })
	}
}

// A backup does not read what the server's log file has before the end of the last one: damage
// there is no damage of what is new. Where the store has the file from within, or another history, it reads all.
func TestABackupGoesOnWhereItWas(t *testing.T) {
	s, store := newSource(t), Local(t.TempDir())
	s.write(20, false, false)
	run(t, Backup{Store: store, DataDir: s.dir})
	s.write(5, false, false)
	name := s.file("log.1")
	b, err := os.ReadFile(name)
	s.must(err)
	b[100] ^= 1
	s.must(os.WriteFile(name, b, 0o600))
	if r := run(t, Backup{Store: store, DataDir: s.dir}); r.Transactions != 5 || r.Zxid != s.last() {
		t.Errorf("%+v, want 5 transactions up to %v", r, s.last())
	}
	s.check(store)
	// One transaction before the end is another now, and has the same length.
	s.cut(1)
	s.serial += 69
	s.write(2, false, false)
	if r := run(t, Backup{Store: store, DataDir: s.dir}); r.Generation != 2 || r.Transactions != len(s.entries) {
		t.Errorf("another history: %+v", r)
	}
	s.check(store)
}

// The next leader must not have an epoch that the store knows of, though it only appears within a file, after the end
// of what is restored: a member whose leader is lost goes on in its log file. An older generation that is damaged does
// not matter.
func TestARestoreKnowsOfEpochsWithinAFile(t *testing.T) {
	s, store := newSource(t), Local(t.TempDir())
	s.write(5, false, true)
	run(t, Backup{Store: store, DataDir: s.dir})
	s.must(os.Truncate(filepath.Join(string(store), "000001", versionDir, storage.LogName("", s.entries[0].zxid)), 3))
	end := s.last()
	s.write(3, false, true)
	s.write(3, false, true)
	run(t, Backup{Store: store, DataDir: s.dir, Full: true})
	r, dir, err := restoreFrom(t, store, func(r *Restore) { r.Zxid = end })
	s.must(err)
	d, err := storage.OpenReadOnly(vfs.OS{}, storage.Options{DataDir: dir})
	s.must(err)
	if accepted, _, err := d.AcceptedEpoch(); err != nil || accepted != s.last().Epoch() {
		t.Errorf("restored to %v: acceptedEpoch is %d, %v, want %d", r.Zxid, accepted, err, s.last().Epoch())
	}
}
