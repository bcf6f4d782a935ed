package replica

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/faultfs"
	"github.com/pinfold-zk/pinfold/zk"
)

// crashes is how many outcomes of a power failure are tried for each operation.
var crashes = flag.Int("crashes", 3, "outcomes of a power failure that are tried at each disk operation")

// workload submits random requests of all kinds in groups; sometimes it waits
// until a group is done, so that batches of all sizes are synced. Snapshots and
// new log files fall in between. It is the same in every run. It ends early when
// the replica has failed.
func workload(m *machine) {
	rng := rand.New(rand.NewPCG(20, 11))
	var sessions []zk.SessionID
	for range 3 {
		op, body := createSession(30000)
		m.rep.Submit([]Request{m.request(0, op, body)})
		synctest.Wait()
		sessions = append(sessions, m.note.newSession())
	}
	for range 60 {
		if m.rep.Stopping() {
			return
		}
		var reqs []Request
		for range 1 + rng.IntN(6) {
			op, body := randomWrite(rng)
			reqs = append(reqs, m.request(sessions[rng.IntN(len(sessions))], op, body))
		}
		m.rep.Submit(reqs)
		if rng.IntN(3) > 0 {
			synctest.Wait()
		}
		if rng.IntN(20) == 0 {
			synctest.Wait()
			i := rng.IntN(len(sessions))
			m.rep.Submit([]Request{m.request(sessions[i], wire.OpCloseSession, nil)})
			op, body := createSession(int32(10000 + rng.IntN(1000)))
			m.rep.Submit([]Request{m.request(0, op, body)})
			synctest.Wait()
			sessions[i] = m.note.newSession()
		}
	}
	synctest.Wait()
}

// randomWrite makes a request that may well fail.
func randomWrite(rng *rand.Rand) (wire.OpCode, []byte) {
	path := fmt.Sprintf("/%c", 'a'+rng.IntN(4))
	if rng.IntN(2) == 0 {
		path += fmt.Sprintf("/%c", 'a'+rng.IntN(4))
	}
	data := bytes.Repeat([]byte{byte(rng.IntN(256))}, rng.IntN(40))
	if rng.IntN(12) == 0 {
		data = bytes.Repeat([]byte("large"), 100+rng.IntN(1200))
	}
	switch rng.IntN(10) {
	case 0, 1, 2:
		return create(path, data, zk.Persistent)
	case 3:
		return create(path, data, zk.Ephemeral)
	case 4:
		return create(path, data, zk.PersistentSequential)
	case 5:
		return remove(path)
	case 6:
		r := wire.SetACLRequest{Path: path, Version: -1, ACL: []zk.ACL{{Perms: zk.Perms(rng.IntN(31)) | zk.PermAdmin, ID: zk.AnyoneUnsafe}}}
		return wire.OpSetACL, r.Append(nil)
	case 7:
		r := wire.CreateRequest{Path: path, ACL: zk.OpenACLUnsafe(), Flags: zk.PersistentWithTTL, TTL: 1000000}
		return wire.OpCreateTTL, r.Append(nil, wire.OpCreateTTL)
	case 8:
		set := wire.MultiOp{Type: wire.OpSetData, Version: -1}
		set.Path, set.Data = path, data
		make := wire.MultiOp{Type: wire.OpCreate}
		make.Path, make.ACL, make.Flags = path+"/m", zk.OpenACLUnsafe(), zk.EphemeralSequential
		return wire.OpMulti, wire.AppendMultiEnd(make.Append(set.Append(nil)))
	}
	return setData(path, data)
}

// history runs the workload on a disk that works, and returns its transactions
// and the number of disk operations.
func history(t *testing.T) (txns [][]byte, operations int) {
	synctest.Test(t, func(t *testing.T) {
		fault := faultfs.New(vfs.NewMem(), 0, faultfs.None, nil)
		m, _ := mustBoot(t, fault, nil)
		workload(m)
		if err := m.halt(); err != nil {
			t.Fatal(err)
		}
		txns, operations = m.note.acknowledged(), fault.Ops()
	})
	if len(txns) < 150 || operations < 100 {
		t.Fatalf("%d transactions, %d disk operations: too few to tell anything", len(txns), operations)
	}
	return txns, operations
}

// verify opens a disk after a failure. What it has must be what was submitted, up
// to some transaction that is not before the last acknowledged one.
func verify(t *testing.T, disk vfs.FS, acked, all [][]byte, when string) {
	t.Helper()
	m, report, err := boot(disk, nil)
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	got := int(report.Zxid)
	if got < len(acked) || got > len(all) {
		t.Fatalf("%s: recovered %d transactions, %d were acknowledged of %d", when, got, len(acked), len(all))
	}
	for i := range acked {
		if !bytes.Equal(acked[i], all[i]) {
			t.Fatalf("%s: transaction %d differs from the run without a fault: the test is wrong", when, i)
		}
	}
	if report.Mismatch > 0 || len(report.Orphans) > 0 || len(report.Skipped) > 0 {
		t.Fatalf("%s: %+v", when, report)
	}
	compare(t, m, all[:got], when)
	// And it goes on: the next transactions follow, and are read back.
	op, body := createSession(5000)
	m.rep.Submit([]Request{m.request(0, op, body)})
	op, body = create("/afterwards", []byte("x"), zk.Persistent)
	synctest.Wait()
	m.rep.Submit([]Request{m.request(m.note.newSession(), op, body)})
	synctest.Wait()
	more := append(all[:got:got], m.note.acknowledged()...)
	if len(more) != got+2 {
		t.Fatalf("%s: %d new transactions: %v", when, len(more)-got, m.rep.Failure())
	}
	if err := m.halt(); err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	m, _, err = boot(disk, nil)
	if err != nil {
		t.Fatalf("%s: opened again: %v", when, err)
	}
	compare(t, m, more, when+", opened again")
	if err := m.halt(); err != nil {
		t.Fatalf("%s: %v", when, err)
	}
}

// compare compares the replica's tree with the one that txns lead to.
func compare(t *testing.T, m *machine, txns [][]byte, when string) {
	t.Helper()
	want, err := rebuild(txns)
	if err != nil {
		t.Fatal(err)
	}
	wantDump, err := dump(want)
	if err != nil {
		t.Fatal(err)
	}
	gotDump, err := m.dump()
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	if gotDump != wantDump {
		t.Fatalf("%s: the tree differs:\n%s", when, cmp.Diff(wantDump, gotDump))
	}
}

// stride thins out the operations for -short and the race detector.
func stride() int {
	if testing.Short() || raceDetector {
		return 7
	}
	return 1
}

// TestP2Crash loses the power at every disk operation.
func TestP2Crash(t *testing.T) {
	all, operations := history(t)
	unacked := 0
	for at := 1; at <= operations; at += stride() {
		synctest.Test(t, func(t *testing.T) {
			mem := vfs.NewMem()
			acked := run(t, mem, faultfs.New(mem, at, faultfs.Crash, nil))
			for seed := range *crashes {
				disk := mem.CrashClone(rand.New(rand.NewPCG(uint64(at), uint64(seed))))
				verify(t, disk, acked, all, fmt.Sprintf("crash at operation %d, outcome %d", at, seed))
			}
			if len(acked) < len(all) {
				unacked++
			}
		})
	}
	if unacked < operations/stride()/2 {
		t.Errorf("only %d crashes came before the end: the test does not reach what it is for", unacked)
	}
}

// run boots a machine on a disk with a fault, runs the workload as far as it goes
// and returns what was acknowledged.
func run(t *testing.T, mem *vfs.Mem, fault *faultfs.FS) [][]byte {
	t.Helper()
	m, _, err := boot(fault, nil)
	if err != nil {
		return nil
	}
	workload(m)
	err = m.halt()
	if failed := m.rep.Failure(); errors.Is(failed, ErrClosed) != (err == nil) {
		t.Fatalf("Close says %v, Failure %v", err, failed)
	}
	return m.note.acknowledged()
}

// TestP2CrashTwice loses the power again at every disk operation of the recovery.
func TestP2CrashTwice(t *testing.T) {
	all, operations := history(t)
	for first := 5; first <= operations; first += operations / 12 * min(stride(), 4) {
		synctest.Test(t, func(t *testing.T) {
			mem := vfs.NewMem()
			acked := run(t, mem, faultfs.New(mem, first, faultfs.Crash, nil))
			rng := rand.New(rand.NewPCG(uint64(first), 99))
			for at := 1; ; at++ {
				disk := mem.CrashClone(rng)
				fault := faultfs.New(disk, at, faultfs.Crash, nil)
				m, _, err := boot(fault, nil)
				if err == nil {
					m.halt() // may fail: the crash may come as late as here
				}
				reached := fault.Ops() >= at
				verify(t, disk.CrashClone(rng), acked, all, fmt.Sprintf("crash at operation %d, then at %d of the recovery", first, at))
				if !reached {
					break
				}
			}
		})
	}
}

// TestP2DiskError lets every disk operation fail once, in each way.
func TestP2DiskError(t *testing.T) {
	all, operations := history(t)
	kinds := []faultfs.Kind{faultfs.IO, faultfs.NoSpace, faultfs.ShortWrite}
	for at := 1; at <= operations; at += stride() {
		for _, kind := range kinds {
			synctest.Test(t, func(t *testing.T) {
				mem := vfs.NewMem()
				acked := run(t, mem, faultfs.New(mem, at, kind, nil))
				verify(t, mem, acked, all, fmt.Sprintf("fault %d at operation %d", kind, at))
			})
		}
	}
}

// A snapshot that was decided on before the role was given up is not begun after
// it: what is applied then may be cut away again.
func TestSnapshotDecidedBeforeTheRoleIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := mustBoot(t, vfs.NewMem(), nil)
		defer m.halt()
		op, body := create("/a", nil, zk.Persistent)
		m.rep.Submit([]Request{m.request(0, op, body)})
		synctest.Wait()
		before, err := m.dir.Snapshots()
		if err != nil || m.rep.LastApplied() == 0 {
			t.Fatal(m.rep.LastApplied(), err)
		}
		task := m.rep.snap.applied(1000, 0)
		if task == nil {
			t.Fatal("no snapshot is due after 1000 transactions")
		}
		m.rep.snap.cancel()
		m.rep.snap.start(task)
		synctest.Wait()
		after, err := m.dir.Snapshots()
		if err != nil || len(after) != len(before) {
			t.Errorf("%d snapshots became %d, %v", len(before), len(after), err)
		}
		m.rep.snap.allow()
		if m.rep.snap.applied(1000, 0) == nil {
			t.Error("no snapshot is due once the role is had again")
		}
	})
}
