package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold"
	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/internal/history"
	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/test/fuzzy"
	"github.com/pinfold-zk/pinfold/zk"
)

// within bounds what a test waits for.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// start starts a server on a directory.
func start(t *testing.T, dir string) (*pinfold.Server, *client.Client) {
	t.Helper()
	s, err := pinfold.New(pinfold.Config{DataDir: dir, Settings: map[string]string{"preAllocSize": "64"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(within(t)); err != nil {
		t.Fatal(err)
	}
	c, err := client.Dial(within(t), s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	return s, c
}

func stop(t *testing.T, s *pinfold.Server, c *client.Client) {
	t.Helper()
	if err := errors.Join(c.Close(), s.Stop()); err != nil {
		t.Fatal(err)
	}
}

// create makes znodes, and returns the zxid of the last.
func create(t *testing.T, c *client.Client, format string, from, to int) zk.Zxid {
	t.Helper()
	var last zk.Zxid
	for i := from; i < to; i++ {
		path := fmt.Sprintf(format, i)
		if _, err := c.Create(within(t), path, []byte(path), zk.Persistent, zk.OpenACLUnsafe()); err != nil {
			t.Fatal(err)
		}
		st, _, err := c.Exists(within(t), path)
		if err != nil {
			t.Fatal(err)
		}
		last = st.Czxid
	}
	return last
}

func run(t *testing.T, b Backup) Result {
	t.Helper()
	if err := b.Run(within(t)); err != nil {
		t.Fatalf("%v: %+v", err, b.Result)
	}
	return b.Result
}

// has checks that the server has the znodes up to a number, and not the next.
func has(t *testing.T, c *client.Client, format string, upto int) {
	t.Helper()
	data, _, err := c.Get(within(t), fmt.Sprintf(format, upto-1))
	if err != nil || string(data) != fmt.Sprintf(format, upto-1) {
		t.Errorf("%s: %q, %v", fmt.Sprintf(format, upto-1), data, err)
	}
	if _, _, err := c.Get(within(t), fmt.Sprintf(format, upto)); !errors.Is(err, zk.ErrNoNode) {
		t.Errorf("%s: %v, want no node", fmt.Sprintf(format, upto), err)
	}
}

// A server that runs is backed up, again and again; it is restored as it was at the end, at
// a zxid and at a time, and serves that.
func TestBackupOfARunningServer(t *testing.T) {
	dir, store := t.TempDir(), Local(filepath.Join(t.TempDir(), "store"))
	s, c := start(t, dir)
	create(t, c, "/a-%d", 0, 10)
	first := run(t, Backup{Store: store, DataDir: dir})
	if first.New == "" || first.Snapshot == "" || first.Transactions < 10 || first.Generation != 1 {
		t.Errorf("the first backup: %+v", first)
	}
	middle := create(t, c, "/a-%d", 10, 15)
	if _, err := c.Set(within(t), "/a-14", []byte("later"), -1); err != nil {
		t.Fatal(err)
	}
	second := run(t, Backup{Store: store, DataDir: dir})
	if second.New != "" || second.Snapshot != "" || second.Transactions != 6 || second.Zxid != middle+1 {
		t.Errorf("the second backup: %+v, want 6 transactions up to %v", second, middle+1)
	}
	if third := run(t, Backup{Store: store, DataDir: dir}); third.Transactions != 0 || third.Zxid != second.Zxid {
		t.Errorf("without anything new: %+v", third)
	}
	stop(t, s, c)
	for name, r := range map[string]Restore{
		"to a zxid":  {Zxid: middle},
		"everything": {},
	} {
		t.Run(name, func(t *testing.T) {
			r.Store, r.DataDir = store, t.TempDir()
			if err := r.Run(within(t)); err != nil {
				t.Fatal(err)
			}
			if want := max(r.Zxid, middle); name == "to a zxid" && r.Result.Zxid != want || r.Result.Compared < 10 {
				t.Errorf("restored %+v", r.Result)
			}
			if name == "everything" && r.Result.Zxid != second.Zxid {
				t.Errorf("restored %+v, want %v", r.Result, second.Zxid)
			}
			s, c := start(t, r.DataDir)
			defer stop(t, s, c)
			if name == "to a zxid" {
				has(t, c, "/a-%d", 15)
			} else if data, _, err := c.Get(within(t), "/a-14"); string(data) != "later" || err != nil {
				t.Errorf("/a-14: %q, %v", data, err)
			}
			create(t, c, "/b-%d", 0, 1)
		})
	}
}

// restoreFrom restores into a new directory.
func restoreFrom(t *testing.T, store Store, change func(r *Restore)) (Restored, string, error) {
	t.Helper()
	r := Restore{Store: store, DataDir: t.TempDir()}
	change(&r)
	err := r.Run(within(t))
	return r.Result, r.DataDir, err
}

func written(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "version-2"), os.DirFS("../../test/datadir/testdata/apache-3.9/version-2")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// The files of an Apache server are backed up and restored too: at each of their zxids that
// the generation has, and at a time.
func TestRestoreToAnyZxid(t *testing.T) {
	dir := written(t)
	// The oldest snapshot, so that the store has the history from the beginning.
	early := t.TempDir()
	if err := os.Mkdir(filepath.Join(early, "version-2"), 0o750); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"snapshot.0", "log.1", "log.14", "log.22", "log.34"} {
		if err := os.Link(filepath.Join(dir, "version-2", name), filepath.Join(early, "version-2", name)); err != nil {
			t.Fatal(err)
		}
	}
	store := Local(t.TempDir())
	run(t, Backup{Store: store, DataDir: early})
	for z := zk.Zxid(1); z <= 0x3b; z += 12 {
		got, _, err := restoreFrom(t, store, func(r *Restore) { r.Zxid = z })
		if err != nil || got.Zxid != z {
			t.Errorf("%v: %+v, %v", z, got, err)
		}
	}
	for _, z := range []zk.Zxid{0x3c, 0x100000001} {
		if got, dir, err := restoreFrom(t, store, func(r *Restore) { r.Zxid = z }); err == nil || !empty(t, dir) {
			t.Errorf("%v was restored: %+v", z, got)
		}
	}
	at := time.Date(2026, 11, 20, 23, 2, 11, 81_000_000, time.UTC) // that of 0x1c
	got, _, err := restoreFrom(t, store, func(r *Restore) { r.Time = at })
	if list, err := Describe(within(t), store, 0); err != nil || len(list) != 1 || list[0].Last != 0x3b || list[0].Time.Before(at) {
		t.Errorf("the store has %+v, %v", list, err)
	}
	if err != nil || got.Zxid < 0x1c || got.Zxid > 0x1d || got.Time.After(at) {
		t.Errorf("at %v: %+v, %v", at, got, err)
	}
	if got, dir, err := restoreFrom(t, store, func(r *Restore) { r.Time = at.AddDate(-1, 0, 0) }); err == nil || !empty(t, dir) {
		t.Errorf("before everything: %+v", got)
	}
}

func empty(t *testing.T, dir string) bool {
	t.Helper()
	files, err := os.ReadDir(dir)
	return err == nil && len(files) == 0
}

// A log that does not go on where the store ends begins a new generation; the old one can
// still be restored, and says which epoch the next leader must not have.
func TestAnotherHistoryBeginsAGeneration(t *testing.T) {
	store := Local(t.TempDir())
	a, b := t.TempDir(), t.TempDir()
	for i, dir := range []string{a, b} {
		s, c := start(t, dir)
		create(t, c, fmt.Sprintf("/%d-", i)+"%d", 0, 5)
		stop(t, s, c)
	}
	run(t, Backup{Store: store, DataDir: a})
	got := run(t, Backup{Store: store, DataDir: b})
	if got.Generation != 2 || !strings.Contains(got.New, "does not go on") {
		t.Errorf("another server's history: %+v", got)
	}
	if got := run(t, Backup{Store: store, DataDir: b}); got.Generation != 2 || got.New != "" || got.Transactions != 0 {
		t.Errorf("the same again: %+v", got)
	}
	if got := run(t, Backup{Store: store, DataDir: b, Full: true}); got.Generation != 3 || got.Snapshot == "" {
		t.Errorf("a full backup: %+v", got)
	}
	_, dir, err := restoreFrom(t, store, func(r *Restore) { r.Generation = 1 })
	if err != nil {
		t.Fatal(err)
	}
	s, c := start(t, dir)
	has(t, c, "/0-%d", 5)
	stop(t, s, c)
}

// A state that was restored into the running server is in no log: a generation begins, before
// and after the first transaction that follows.
func TestARestoredStateBeginsAGeneration(t *testing.T) {
	for _, writes := range []int{0, 5} {
		store, dir := Local(t.TempDir()), t.TempDir()
		s, err := pinfold.New(pinfold.Config{DataDir: dir, Settings: map[string]string{
			"admin.enableServer": "true", "admin.serverAddress": "127.0.0.1", "admin.serverPort": "0",
		}})
		if err == nil {
			err = s.Start(within(t))
		}
		if err != nil {
			t.Fatal(err)
		}
		c, err := client.Dial(within(t), s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		create(t, c, "/a%d", 0, 3)
		snapshot := admin(t, s, http.MethodGet, "snapshot", nil)
		create(t, c, "/b%d", 0, 3)
		run(t, Backup{Store: store, DataDir: dir})
		admin(t, s, http.MethodPost, "restore", snapshot)
		for i := range writes {
			for {
				_, err := c.Create(within(t), fmt.Sprintf("/c%d", i), nil, zk.Persistent, nil)
				if err == nil || errors.Is(err, zk.ErrNodeExists) {
					break
				}
				if !errors.Is(err, zk.ErrConnectionLoss) {
					t.Fatal(err)
				}
			}
		}
		if got := run(t, Backup{Store: store, DataDir: dir}); got.Generation != 2 || !strings.Contains(got.New, "did not come from the log") {
			t.Errorf("%d writes after a restore: %+v", writes, got)
		}
		if got := run(t, Backup{Store: store, DataDir: dir}); got.Generation != 2 || got.New != "" {
			t.Errorf("the same again: %+v", got)
		}
		// A restore ends every connection: this one may be on its way back.
		if err := c.Close(); err != nil && !errors.Is(err, zk.ErrConnectionLoss) {
			t.Fatal(err)
		}
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
		_, to, err := restoreFrom(t, store, func(*Restore) {})
		if err != nil {
			t.Fatal(err)
		}
		s, c = start(t, to)
		has(t, c, "/a%d", 3)
		for path, want := range map[string]bool{"/b0": false, "/c0": writes > 0} {
			if _, exists, err := c.Exists(within(t), path); exists != want || err != nil {
				t.Errorf("%s: %v, %v", path, exists, err)
			}
		}
		stop(t, s, c)
	}
}

// admin has a server carry out a command of its administration server.
func admin(t *testing.T, s *pinfold.Server, method, command string, body []byte) []byte {
	t.Helper()
	r, err := http.NewRequestWithContext(within(t), method, "http://"+s.AdminAddr()+"/commands/"+command, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "ip")
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err != nil || a.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d, %s, %v", command, a.StatusCode, b, err)
	}
	return b
}

// Damage in a store is found before anything is in place, and a directory that has a
// history is not touched.
func TestRestoreRefuses(t *testing.T) {
	store := Local(t.TempDir())
	run(t, Backup{Store: store, DataDir: written(t)})
	if _, _, err := restoreFrom(t, store, func(r *Restore) { r.DataDir = written(t) }); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("over another history: %v", err)
	}
	if _, _, err := restoreFrom(t, Local(t.TempDir()), func(*Restore) {}); err == nil {
		t.Error("an empty store was restored")
	}
	files, err := store.List(within(t))
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		name := filepath.Join(string(store), f.Name)
		whole, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		bad := append([]byte(nil), whole...)
		bad[len(bad)/2] ^= 4
		if err := os.WriteFile(name, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, dir, err := restoreFrom(t, store, func(*Restore) {}); err == nil || !empty(t, dir) {
			t.Errorf("with a flipped bit in %s: %v", f.Name, err)
		}
		if err := os.WriteFile(name, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Backups that are made while a server writes all the time have no gap, and end in a store
// with everything.
func TestBackupsWhileAServerWrites(t *testing.T) {
	dir, store := t.TempDir(), Local(t.TempDir())
	s, c := start(t, dir)
	ctx, enough := context.WithCancel(within(t))
	written := make(chan int)
	go func() {
		n := 0
		for ; ctx.Err() == nil; n++ {
			path := fmt.Sprintf("/a-%d", n)
			if _, err := c.Create(context.WithoutCancel(ctx), path, []byte(path), zk.Persistent, zk.OpenACLUnsafe()); err != nil {
				t.Error(err)
				break
			}
		}
		written <- n
	}()
	copied := 0
	for i := 0; i < 6 || copied < 50; i++ {
		r := run(t, Backup{Store: store, DataDir: dir})
		if r.Generation != 1 {
			t.Errorf("backup %d: %+v", i, r)
		}
		copied += r.Transactions
	}
	enough()
	n := <-written
	last := run(t, Backup{Store: store, DataDir: dir})
	stop(t, s, c)
	got, to, err := restoreFrom(t, store, func(*Restore) {})
	if err != nil || got.Zxid != last.Zxid {
		t.Fatalf("%+v, %v, want %v", got, err, last.Zxid)
	}
	s, c = start(t, to)
	defer stop(t, s, c)
	has(t, c, "/a-%d", n)
	if st, _, err := c.Exists(within(t), "/"); err != nil || int(st.NumChildren) != n+1 {
		t.Errorf("%d children, %v, want %d", st.NumChildren, err, n+1)
	}
}

// Damage at the end of a log that Apache has written is no success: it may be of something
// that was acknowledged. What can be read is copied.
func TestDamageAtTheEnd(t *testing.T) {
	dir, store := written(t), Local(t.TempDir())
	name := filepath.Join(dir, "version-2", "log.34")
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b[900] ^= 1 // in the last entry
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := run(t, Backup{Store: store, DataDir: dir}); r.Zxid != 0x3a || r.Tail == "" {
		t.Errorf("%+v", r)
	}
	again := Backup{Store: store, DataDir: dir}
	if err := again.Run(within(t)); err == nil || !strings.Contains(err.Error(), "cannot be read after 0x3a") {
		t.Errorf("again: %v", err)
	}
}

// A restore uses a snapshot of Apache's that has the transaction after the one that its digest block names, but not to
// end with the one that the block names: then it uses an older snapshot.
func TestRestoreWithFuzzySnapshots(t *testing.T) {
	older := 0
	for z := zk.Zxid(2); z < 0x3a; z += 3 {
		dir := written(t)
		fuzzed, err := fuzzy.Write(dir, z-1, z)
		if err != nil {
			t.Fatal(err)
		}
		store := storeOf(t, dir, fuzzed.Name, "snapshot.0")
		for end := z; end <= z+2; end++ {
			got, _, err := restoreFrom(t, store, func(r *Restore) { r.Zxid = end })
			if err != nil || got.Zxid != end {
				t.Errorf("a snapshot up to %v, restored to %v: %+v, %v", z, end, got, err)
			}
			switch {
			case end == z && got.Snapshot == "snapshot.0":
				older++
			case got.Snapshot != fuzzed.Name:
				t.Errorf("a snapshot up to %v, restored to %v: with %s", z, end, got.Snapshot)
			}
		}
	}
	if older < 5 {
		t.Errorf("an older snapshot was used %d times", older)
	}
}

// How far a leader's snapshot is ahead is not written in it. A restore to an end before that uses an older snapshot:
// whatever it uses, the tree has the digest that the log names.
func TestRestoreWithALeadersSnapshot(t *testing.T) {
	older, newer := 0, 0
	for from := zk.Zxid(1); from < 0x38; from++ {
		dir := written(t)
		ahead, err := fuzzy.WriteLeaders(dir, from, from+2)
		if err != nil {
			t.Fatal(err)
		}
		store := storeOf(t, dir, ahead.Name, "snapshot.0")
		for end := from + 1; end <= from+2; end++ {
			got, to, err := restoreFrom(t, store, func(r *Restore) { r.Zxid = end })
			if err != nil || got.Zxid != end {
				t.Errorf("a snapshot from %v to %v, restored to %v: %+v, %v", from, from+2, end, got, err)
				continue
			}
			if got.Snapshot == "snapshot.0" {
				older++
			} else {
				newer++
			}
			if digest, want, ok := digests(t, to, dir, end); ok && digest != want {
				t.Errorf("a snapshot from %v to %v, restored to %v: the digest is %#x, not %#x", from, from+2, end, digest, want)
			}
		}
	}
	if older < 10 || newer < 10 {
		t.Errorf("the older snapshot was used %d times, the newer one %d times", older, newer)
	}
}

// digests returns that of a directory's tree, and the one that the log of another one names for a transaction, if any.
func digests(t *testing.T, restored, dir string, z zk.Zxid) (got, want uint64, ok bool) {
	t.Helper()
	d, err := storage.OpenReadOnly(vfs.OS{}, storage.Options{DataDir: restored})
	if err != nil {
		t.Fatal(err)
	}
	state, err := history.Newest(d, storage.DefaultMaxEntryBytes)
	if err != nil {
		t.Fatal(err)
	}
	d, err = storage.OpenReadOnly(vfs.OS{}, storage.Options{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	log, err := d.ReadLog(z - 1)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := log.Next()
	if err != nil {
		t.Fatal(err)
	}
	tx, bad := txn.Decode(payload)
	if err := errors.Join(bad, log.Close()); err != nil || tx.Zxid != z {
		t.Fatal(err, tx.Zxid)
	}
	return state.Tree().Digest(), tx.Digest, tx.HasDigest
}

// storeOf is a store whose generation has the log of a data directory, and these of its snapshots.
func storeOf(t *testing.T, dir string, snapshots ...string) Local {
	t.Helper()
	store := Local(t.TempDir())
	generation := filepath.Join(string(store), "000001")
	if err := os.CopyFS(generation, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	all, err := filepath.Glob(filepath.Join(generation, versionDir, "snapshot.*"))
	if err != nil || len(all) < len(snapshots) {
		t.Fatal(all, err)
	}
	for _, name := range all {
		if slices.Contains(snapshots, filepath.Base(name)) {
			continue
		}
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	return store
}

// If the newest snapshot is damaged, or is that of a tree that the log does not lead to, a restore uses the one before,
// and says so. It fails if the log is damaged, or if there is no other snapshot.
func TestRestoreUsesAnOlderSnapshot(t *testing.T) {
	for _, tt := range []struct {
		name   string
		damage func(snapshot []byte, older []byte) []byte
	}{
		{"a flipped bit", func(b, _ []byte) []byte { b[len(b)/2] ^= 4; return b }},
		{"an end that is missing", func(b, _ []byte) []byte { return b[:len(b)/2] }},
		{"a wrong tree", func(_, older []byte) []byte { return older }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := written(t)
			read := func(name string) []byte {
				b, err := os.ReadFile(filepath.Join(dir, versionDir, name))
				if err != nil {
					t.Fatal(err)
				}
				return b
			}
			bad := tt.damage(read("snapshot.20"), read("snapshot.12"))
			if err := os.WriteFile(filepath.Join(dir, versionDir, "snapshot.20"), bad, 0o600); err != nil {
				t.Fatal(err)
			}
			store := storeOf(t, dir, "snapshot.12", "snapshot.20")
			got, to, err := restoreFrom(t, store, func(*Restore) {})
			if err != nil || got.Zxid != 0x3b || got.Snapshot != "snapshot.12" || !slices.Equal(got.Damaged, []string{"snapshot.20"}) {
				t.Fatalf("%+v, %v", got, err)
			}
			s, c := start(t, to)
			if _, _, err := c.Exists(within(t), "/three"); err != nil {
				t.Error(err)
			}
			stop(t, s, c)
			if got, to, err := restoreFrom(t, storeOf(t, dir, "snapshot.20"), func(*Restore) {}); !errors.Is(err, history.ErrDamaged) || !empty(t, to) {
				t.Errorf("with this snapshot alone: %+v, %v", got, err)
			}
			log := read("log.34")
			log[len(log)/2] ^= 4
			if err := os.WriteFile(filepath.Join(dir, versionDir, "log.34"), log, 0o600); err != nil {
				t.Fatal(err)
			}
			if got, to, err := restoreFrom(t, storeOf(t, dir, "snapshot.12", "snapshot.20"), func(*Restore) {}); err == nil || !empty(t, to) {
				t.Errorf("with a damaged log: %+v, %v", got, err)
			}
		})
	}
}
