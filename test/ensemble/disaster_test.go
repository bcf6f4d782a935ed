package ensemble

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	zkclient "github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/test/ensemble/client"
	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
	"github.com/pinfold-zk/pinfold/test/ensemble/load"
	"github.com/pinfold-zk/pinfold/zk"
)

// TestDisaster backs up an ensemble while clients write znodes of every kind, removes the data directories of all
// members, restores the same state to each, and compares every znode that the members then serve, Stat and ACL
// included, with what the ensemble served at that zxid. First it restores a state in the middle of the history, before a
// leader was killed; then the newest one.
func TestDisaster(t *testing.T) {
	for _, members := range mixtures(t, "pinfold,pinfold,pinfold", "apache,pinfold,pinfold") {
		t.Run(members, func(t *testing.T) {
			r := newRig(t, members, rigOptions{lines: append(superuser(), "snapCount=1000", "preAllocSize=1024", "extendedTypesEnabled=true", "maxSessionTimeout=60000")})
			r.super = true
			// The store is kept with the members' directories if the test fails: a restore that fails can be repeated.
			d := &disaster{rig: r, store: filepath.Join(filepath.Dir(r.e.Members[0].Dir), "store"), secret: filepath.Join(t.TempDir(), "super")}
			r.must(os.WriteFile(d.secret, []byte("digest:super:test\n"), 0o600))
			d.connect()
			middle := d.firstPart()
			newest := d.secondPart()
			d.loseAll()
			d.restore(middle, "--to-zxid", middle.zxid.String())
			d.sessions(middle)
			d.loseAll()
			d.restore(newest)
			d.writesGoOn()
			for _, c := range r.e.Complaints() {
				t.Error(c)
			}
		})
	}
}

// A disaster is a rig whose ensemble is backed up, lost and restored.
type disaster struct {
	*rig
	store, secret string
	lives         *zkclient.Client // connected all the time, with an ephemeral
}

// A moment is a state of the ensemble that was read while nothing was written.
type moment struct {
	zxid   zk.Zxid
	tree   client.Tree
	absent []int64 // sessions that have ephemerals then, and whose clients do not come back
}

// livesPath is the ephemeral of the client that is connected all the time.
const livesPath = "/lives"

func (d *disaster) connect() {
	d.t.Helper()
	var err error
	d.lives, err = zkclient.Dial(d.within(patience), strings.Join(d.e.Clients(), ","), zkclient.SessionTimeout(kindTimeout))
	d.must(err)
	d.t.Cleanup(func() { _ = d.lives.Close() }) // the session may be over
	_, err = d.lives.Create(d.within(patience), livesPath, []byte("here"), zk.Ephemeral, nil)
	d.must(err)
}

// firstPart has the clients of the load and the writers of every kind write while backups are made, and returns
// the state at the end.
func (d *disaster) firstPart() moment {
	d.t.Helper()
	source := d.e.Members[0]
	d.prepareKinds(source)
	kinds := d.writeKinds("first")
	d.load()
	if out := d.backup(source); !strings.Contains(out, "generation 1 begins") {
		d.t.Errorf("the first backup is not a full one:\n%s", out)
	}
	for range 3 {
		d.progress()
		if out := d.backup(source); strings.Contains(out, "begins") {
			d.t.Errorf("a later backup is not incremental:\n%s", out)
		}
	}
	d.must(d.l.Stop(d.within(patience)))
	d.must(d.l.Close())
	kinds.wait(d.rig)
	kinds.end()
	m := d.quiet(kinds)
	d.backupTo(source, m.zxid)
	d.must(kinds.close())
	return m
}

// secondPart goes on in a new epoch: the leader is killed while clients write, and the backup goes on at another
// member. It returns the state at the end.
func (d *disaster) secondPart() moment {
	d.t.Helper()
	kinds := d.writeKinds("second")
	w, err := load.StartWriters(load.WritersConfig{Addrs: d.e.Clients(), Clients: 3, Batch: 1, Pause: time.Millisecond, Znodes: 10, Bytes: 100})
	d.must(err)
	d.written(w, 500)
	d.backup(d.e.Members[0])
	kinds.wait(d.rig)
	kinds.end()
	d.must(kinds.close())
	_, _, killed := d.failOver(w)
	d.step("the leader, %v, was killed", killed)
	d.backup(d.e.Members[0])
	kinds = d.writeKinds("third")
	d.written(w, 1000)
	d.backup(d.e.Members[0])
	other := d.e.Members[1]
	if out := d.backup(other, "--full"); !strings.Contains(out, "generation 2 begins") {
		d.t.Errorf("--full begins no generation:\n%s", out)
	}
	d.written(w, 500)
	d.must(w.Stop())
	kinds.wait(d.rig)
	kinds.end()
	m := d.quiet(kinds)
	m.zxid = d.backupTo(other, m.zxid) // what follows the tree is the ends of sessions that have read it
	return m
}

// quiet reads the tree of all members, which must not change meanwhile, and the zxid of the last transaction. Only the
// writers and the client that is connected all the time have ephemerals then.
func (d *disaster) quiet(kinds *kindWriters) moment {
	d.t.Helper()
	m := moment{absent: kinds.sessions()}
	leader, err := d.e.Leader()
	d.must(err)
	d.must(d.e.Until(d.within(patience), func() bool { // sessions that the load has abandoned end
		return !slices.ContainsFunc(d.owners(leader), func(id int64) bool {
			return !slices.Contains(m.absent, id) && id != int64(d.lives.SessionID())
		})
	}))
	m.tree = d.equal()
	status, err := leader.Status()
	d.must(err)
	m.zxid = status.Zxid
	if diff := m.tree.Differences(d.read(leader), "before", "after", d.own); diff != "" {
		d.t.Fatalf("the tree changes although nothing is written:\n%s", diff)
	}
	for _, id := range m.absent {
		if !slices.Contains(d.owners(leader), id) {
			d.t.Fatalf("session %#x has no ephemerals", id)
		}
	}
	d.step("quiet at %v, with %d znodes", m.zxid, len(m.tree))
	return m
}

// owners returns the session of each ephemeral. Other sessions may end meanwhile.
func (d *disaster) owners(m *cluster.Member) (ids []int64) {
	d.t.Helper()
	var tree client.Tree
	d.must(d.e.Until(d.within(patience), func() bool {
		var err error
		if tree, err = d.tryRead(m); errors.Is(err, zk.ErrNoNode) {
			return false
		}
		d.must(err)
		return true
	}))
	for _, n := range tree {
		if n.Stat.EphemeralOwner != 0 {
			ids = append(ids, n.Stat.EphemeralOwner)
		}
	}
	return ids
}

// backup copies what a member has to the store.
func (d *disaster) backup(m *cluster.Member, flags ...string) string {
	d.t.Helper()
	out := d.tool(append([]string{"backup", m.DataDir, d.store}, flags...)...)
	d.t.Logf("pinfold backup of member %v: %s", m, strings.ReplaceAll(strings.TrimSpace(out), "\n", "; "))
	return out
}

// backupTo copies until the store has a transaction, and returns the last one that it has: a member may apply what the
// others have logged before it has logged it itself.
func (d *disaster) backupTo(m *cluster.Member, z zk.Zxid) (last zk.Zxid) {
	d.t.Helper()
	upto := regexp.MustCompile(`has the history up to (0x[0-9a-f]+)`)
	d.must(d.e.Until(d.within(patience), func() bool {
		found := upto.FindStringSubmatch(d.backup(m))
		if found == nil {
			d.t.Fatal("the backup does not say how far it is")
		}
		n, err := strconv.ParseInt(found[1], 0, 64)
		d.must(err)
		last = zk.Zxid(n)
		return last >= z
	}))
	return last
}

// loseAll is the disaster: all members are killed, and their data directories are removed.
func (d *disaster) loseAll() {
	d.t.Helper()
	for _, m := range d.e.Members {
		m.Kill()
	}
	for _, m := range d.e.Members {
		d.must(os.RemoveAll(m.DataDir))
	}
	d.step("all members are killed, and their data directories removed")
}

// restore makes new data directories from the store, as docs/ops/backup.md says, starts all members, and compares what
// they serve.
func (d *disaster) restore(want moment, flags ...string) {
	d.t.Helper()
	for _, m := range d.e.Members {
		d.must(os.Mkdir(m.DataDir, 0o755))
		d.must(os.WriteFile(filepath.Join(m.DataDir, "myid"), fmt.Appendln(nil, m.ID), 0o644))
		out := d.tool(append([]string{"restore", d.store, m.DataDir}, flags...)...)
		if !strings.Contains(out, "restored the state of "+want.zxid.String()+" ") {
			d.t.Errorf("member %v: not the state of %v:\n%s", m, want.zxid, out)
		}
		if strings.Contains(out, "is not used") {
			d.t.Errorf("member %v: a snapshot of the store is wrong:\n%s", m, out)
		}
		if out := d.tool("data", "verify", m.DataDir); !strings.Contains(out, "all is well") || !strings.Contains(out, want.zxid.String()+", ") {
			d.t.Errorf("member %v: %s", m, out)
		}
	}
	d.must(d.e.Start(d.within(patience)))
	got := d.equal()
	if diff := want.tree.Differences(got, "the ensemble that was lost", "the restored one", d.own); diff != "" {
		d.t.Errorf("the restored tree differs:\n%s", diff)
	}
	d.step("restored to %v: %d znodes", want.zxid, len(got))
	args := []string{"migrate", "verify", "--auth-file", d.secret, "--state", filepath.Join(d.t.TempDir(), "state.json")}
	for _, m := range d.e.Members {
		args = append(args, "--client", fmt.Sprintf("%d=%s", m.ID, m.Client))
	}
	out := d.tool(append(args, filepath.Join(d.e.Members[0].Dir, "zoo.cfg"))...)
	d.t.Logf("pinfold migrate verify: %s", strings.TrimSpace(out))
}

// sessions demands that the client that was connected all the time comes back with its session, although it has seen
// transactions of a later epoch that are gone, and that the sessions whose clients do not come back end. That takes a
// minute, and members of Apache's do not matter for it.
func (d *disaster) sessions(then moment) {
	d.t.Helper()
	was := d.lives.SessionID()
	if _, err := d.lives.Set(d.within(patience), livesPath, []byte("again"), -1); err != nil {
		d.t.Errorf("the client that lives on: %v", err)
	}
	if now := d.lives.SessionID(); now != was {
		d.t.Errorf("session %v is now %v", was, now)
	}
	d.must(d.lives.Close()) // the next restore knows nothing of the epoch that it has seen
	if d.apache() {
		return
	}
	m := d.e.Members[len(d.e.Members)-1]
	d.must(d.e.Until(d.within(kindTimeout+patience), func() bool {
		return !slices.ContainsFunc(d.owners(m), func(id int64) bool { return slices.Contains(then.absent, id) })
	}))
	d.step("the sessions whose clients did not come back have ended")
	tree := d.equal()
	for path, n := range then.tree {
		if _, there := tree[path]; n.Stat.EphemeralOwner == 0 && !there {
			d.t.Errorf("%s is gone, and was no ephemeral", path)
		}
	}
	if _, there := tree[livesPath]; there {
		d.t.Errorf("%s is there, and its session was closed", livesPath)
	}
}

// writesGoOn writes at each member.
func (d *disaster) writesGoOn() {
	d.t.Helper()
	kinds := d.writeKinds("restored")
	kinds.wait(d.rig)
	kinds.end()
	d.equal()
}
