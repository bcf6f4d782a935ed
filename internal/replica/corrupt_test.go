package replica

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/zk"
)

const dataFiles = "/data/version-2"

// files reads all files of the data directory.
func files(t *testing.T, fsys vfs.FS) map[string][]byte {
	t.Helper()
	names, err := fsys.List(dataFiles)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	for _, name := range names {
		f, err := fsys.Open(dataFiles + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(f)
		if err = errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		all[name] = b
	}
	return all
}

// disk makes a disk with these files.
func disk(t *testing.T, all map[string][]byte) *vfs.Mem {
	t.Helper()
	m := vfs.NewMem()
	if err := m.MkdirAll(dataFiles); err != nil {
		t.Fatal(err)
	}
	for name, b := range all {
		f, err := m.Create(dataFiles + "/" + name)
		if err == nil {
			_, err = f.Write(b)
		}
		if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.SyncDir(dataFiles); err != nil {
		t.Fatal(err)
	}
	return m
}

// smallDatabase is a directory with two snapshots and three logs, the last of
// which goes on after the newer snapshot, and the tree that it means.
func smallDatabase(t *testing.T) (all map[string][]byte, want string) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		m, _ := mustBoot(t, mem, func(o *Options) { o.SnapCount = 8 })
		op, body := createSession(30000)
		m.rep.Submit([]Request{m.request(0, op, body)})
		synctest.Wait()
		s := m.note.newSession()
		for i := range 9 {
			op, body := create(fmt.Sprintf("/n%d", i), []byte("data"), zk.CreateMode(i%3))
			if i%4 == 3 {
				op, body = setData("/n0", fmt.Appendf(nil, "%d", i))
			}
			m.rep.Submit([]Request{m.request(s, op, body)})
			synctest.Wait()
		}
		acl := wire.SetACLRequest{Path: "/n0", Version: -1, ACL: zk.ReadACLUnsafe()}
		m.rep.Submit([]Request{m.request(s, wire.OpSetACL, acl.Append(nil))})
		synctest.Wait()
		var err error
		if want, err = m.dump(); err != nil {
			t.Fatal(err)
		}
		if err := m.halt(); err != nil {
			t.Fatal(err)
		}
		all = files(t, mem)
	})
	names := strings.Join(slices.Sorted(maps.Keys(all)), " ")
	if strings.Count(names, "log.") < 2 || strings.Count(names, "snapshot.") < 2 {
		t.Fatalf("files %s", names)
	}
	return all, want
}

// TestEveryBitFlip flips each bit of each file: the server recovers exactly the
// same state, from an older snapshot if need be, or refuses and says where. Every
// second byte is read ahead.
func TestEveryBitFlip(t *testing.T) {
	all, want := smallDatabase(t)
	total, refused := 0, 0
	for name, original := range all {
		step := 1
		if testing.Short() || raceDetector {
			step = 13
		}
		for bit := 0; bit < 8*len(original); bit += step {
			damaged := slices.Clone(original)
			damaged[bit/8] ^= 1 << (bit % 8)
			set := maps.Clone(all)
			set[name] = damaged
			when := fmt.Sprintf("%s, bit %d of byte %d", name, bit%8, bit/8)
			total++
			if !recoversOrRefuses(t, set, want, when, bit/8%2 == 1) {
				refused++
			}
		}
	}
	t.Logf("%d bits, %d refused", total, refused)
	if refused == 0 || refused == total {
		t.Error("the test does not reach what it is for")
	}
}

// recoversOrRefuses reports which.
func recoversOrRefuses(t *testing.T, set map[string][]byte, want, when string, prefetch bool) bool {
	t.Helper()
	r := &Replica{o: Options{
		Tree: testTree, MaxRecordBytes: 1 << 20, DBAutoCreate: true, LastZxidBlock: true, Prefetch: prefetch,
	}}
	r.o.Prep.DigestEnabled = true
	return recoverOnly(t, r, disk(t, set), want, when)
}

func recoverOnly(t *testing.T, r *Replica, fsys vfs.FS, want, when string) bool {
	t.Helper()
	dir, err := storage.Open(fsys, storage.Options{DataDir: "/data", Log: storage.LogOptions{PreallocBytes: 8 << 10}})
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	defer dir.Close()
	r.o.Dir = dir
	r.log = slog.New(slog.DiscardHandler)
	report, err := r.recover(0)
	if err != nil {
		var at *storage.Error
		if !errors.As(err, &at) && !strings.Contains(err.Error(), "byte ") {
			t.Fatalf("%s: refused without a place: %v", when, err)
		}
		return false
	}
	got, err := dump(r.tree)
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	if got != want {
		t.Fatalf("%s: recovered another tree: %+v\n%s\nwant\n%s", when, report, got, want)
	}
	return true
}

// A member whose newest snapshot cannot be read, and whose log does not reach it,
// has told others of more than it has: it must not vote with that.
func TestLostSnapshotIsNotVotedPast(t *testing.T) {
	mem := vfs.NewMem()
	m, _ := mustBoot(t, mem, nil)
	if err := m.halt(); err != nil {
		t.Fatal(err)
	}
	all := files(t, mem)
	lost := bytes.Clone(all["snapshot.0"])
	lost[len(lost)/2] ^= 1
	all["snapshot.64"] = lost
	start := func(heals bool, members ...zab.Member) (Report, error) {
		in, err := zab.NewMembership(0, members, nil)
		if err != nil {
			t.Fatal(err)
		}
		m, rep, err := boot(disk(t, all), func(o *Options) {
			o.Ensemble = &zab.Config{ID: 1, Members: in, Tick: time.Second, InitLimit: 10, SyncLimit: 5}
			o.NoHealing = !heals
		})
		if err == nil {
			err = m.halt()
		}
		return rep, err
	}
	self, others := zab.Member{ID: 1, Weight: 1}, []zab.Member{{ID: 2, Weight: 1}, {ID: 3, Weight: 1}}
	const reason = "the newest snapshot, at 0x64, cannot be read"
	if rep, err := start(true, append(others, self)...); err != nil || !strings.Contains(rep.Healing, reason) {
		t.Errorf("it does not heal: %v %q", err, rep.Healing)
	}
	if _, err := start(false, append(others, self)...); err == nil || !strings.Contains(err.Error(), reason) {
		t.Errorf("healing is off, and it started, or for another reason not: %v", err)
	}
	_, err := start(true, self) // nobody can send it the state
	if err == nil || !strings.Contains(err.Error(), reason) {
		t.Fatalf("started, or for another reason not: %v", err)
	}
}

// What is in the directory of a member that heals is not its history. If the configuration does not let it heal any more, it
// must not start: it would vote with that.
func TestTheMarkOfHealingIsNotIgnored(t *testing.T) {
	mem := vfs.NewMem()
	m, _ := mustBoot(t, mem, nil)
	if err := m.halt(); err != nil {
		t.Fatal(err)
	}
	all := files(t, mem)
	all["healing"] = []byte("epoch-lost the disk was emptied\n")
	members := withMembers("0 1v 2v 3v")
	for name, change := range map[string]func(*Options){
		"standalone":                   nil,
		"healing is off":               func(o *Options) { members(o); o.Ensemble.Reader, o.NoHealing = nil, true },
		"healing is on":                func(o *Options) { members(o); o.Ensemble.Reader = nil },
		"healing is on, they change":   members,
		"others are no quorum, change": withMembers("0 1v 2v"),
		"no other members":             func(o *Options) { withMembers("0 1v")(o); o.Ensemble.Reader = nil },
		"no other members, change":     withMembers("0 1v 2o"),
	} {
		m, rep, err := boot(disk(t, all), change)
		if err == nil {
			err = m.halt()
		}
		switch heals := strings.HasPrefix(name, "healing is on") || strings.HasPrefix(name, "others are"); {
		case heals && (err != nil || rep.Healing != "the disk was emptied"):
			t.Errorf("%s: %q, %v", name, rep.Healing, err)
		case !heals && (err == nil || !strings.Contains(err.Error(), "was healing from \"the disk was emptied\"")):
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The file initialize permits one empty database. A start ends the permission also if there is a
// database already, and one that comes to nothing leaves it.
func TestInitializeIsForOneStart(t *testing.T) {
	const name = "/data/initialize"
	closed := func(o *Options) { withMembers("0 1v 2v 3v")(o); o.Ensemble.Reader, o.DBAutoCreate = nil, false }
	begin := func(fsys vfs.FS, change func(*Options)) (Report, error) {
		m, rep, err := boot(fsys, change)
		if err == nil {
			err = m.halt()
		}
		return rep, err
	}
	permit := func(mem *vfs.Mem) {
		t.Helper()
		f, err := mem.Create(name)
		if err = errors.Join(err, f.Close(), mem.SyncDir("/data")); err != nil {
			t.Fatal(err)
		}
	}
	for _, first := range []string{"empty", "a database"} {
		mem := disk(t, nil)
		permit(mem)
		for try := range 2 {
			rep, err := begin(mem, closed)
			if err != nil || rep.Healing != "" || rep.NewServer != (try == 0) {
				t.Fatalf("%s, start %d: new %v, heals from %q, %v", first, try, rep.NewServer, rep.Healing, err)
			}
			if _, err := mem.Size(name); !errors.Is(err, fs.ErrNotExist) {
				t.Fatalf("%s, start %d: the permission is left: %v", first, try, err)
			}
			if first == "a database" && try == 0 {
				permit(mem)
			}
		}
		for emptied := range files(t, mem) {
			if err := mem.Remove(dataFiles + "/" + emptied); err != nil {
				t.Fatal(err)
			}
		}
		if rep, err := begin(mem, closed); err != nil || !strings.Contains(rep.Healing, "db.autocreate is false") {
			t.Errorf("%s, emptied: heals from %q, %v", first, rep.Healing, err)
		}
	}
	mem := disk(t, nil)
	alone := func(o *Options) { o.DBAutoCreate = false }
	if _, err := begin(mem, alone); !errors.Is(err, ErrNoDatabase) || !strings.Contains(err.Error(), name) {
		t.Errorf("a server alone, emptied: %v", err)
	}
}
