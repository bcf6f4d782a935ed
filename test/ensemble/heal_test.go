package ensemble

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
)

// TestDamagedMember damages the disk of one Pinfold member at a time, the leader's too, while clients
// write and read. Each member comes back by itself, with its vote, and in the end all trees are equal.
func TestDamagedMember(t *testing.T) {
	for _, members := range mixtures(t, "pinfold,pinfold,pinfold", "apache,apache,pinfold",
		"pinfold,pinfold,pinfold;reconfigEnabled=true", "apache,apache,pinfold;reconfigEnabled=true") {
		t.Run(members, func(t *testing.T) {
			members, lines, _ := strings.Cut(members, ";")
			r := newRig(t, members, rigOptions{lines: append(strings.Fields(lines), "snapCount=500")})
			ours := slices.DeleteFunc(slices.Clone(r.e.Members), func(m *cluster.Member) bool { return m.Kind() != cluster.Pinfold })
			r.load()
			for i, d := range damages {
				m := ours[i%len(ours)]
				if leader, _ := r.leader(); i == 1 && slices.Contains(ours, leader) {
					m = leader
				}
				r.healsFrom(m, d.what, d.do)
			}
			r.finish()
		})
	}
}

// damages are what may happen to the disk of a member that does not run.
var damages = []struct {
	what string
	do   func(m *cluster.Member) error
}{
	{"a byte of an acknowledged transaction is another", func(m *cluster.Member) error { return flip(newest(m, "log."), payloadOffset) }},
	{"the newest log is lost", func(m *cluster.Member) error { return os.Remove(newest(m, "log.")) }},
	{"all snapshots are damaged", func(m *cluster.Member) error {
		var errs []error
		for _, name := range files(m, "snapshot.") {
			errs = append(errs, flip(name, snapshotOffset))
		}
		return errors.Join(errs...)
	}},
	{"acceptedEpoch is empty", func(m *cluster.Member) error { return os.Truncate(files(m, "acceptedEpoch")[0], 0) }},
	{"the disk was replaced", func(m *cluster.Member) error {
		dir := filepath.Join(m.DataDir, "version-2")
		return errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, "healing"), []byte("epoch-lost\n"), 0o644))
	}},
}

// Offsets in files: in the checksum of the first entry of a log, in its payload, and in the body of a snapshot.
const (
	checksumOffset = 16 + 7
	payloadOffset  = 16 + 12 + 40
	snapshotOffset = 40
)

// healsFrom damages a member's disk, and waits until the member has healed. The newest log may hold
// nothing that was acknowledged, if the member was killed just after it had begun that file: then its
// loss is none, and the member is damaged again. It returns how long after its start the member was back.
func (r *rig) healsFrom(m *cluster.Member, what string, damage func(*cluster.Member) error) time.Duration {
	r.t.Helper()
	const begun, ended = "event=healing_began", "event=healed"
	for try := 1; ; try++ {
		r.progress()
		m.Kill()
		r.must(damage(m))
		r.step("member %v: %s", m, what)
		began, heals, healed, served := time.Now(), r.printed(m, begun), r.printed(m, ended), r.printed(m, "\nready")
		r.must(m.Start())
		r.prints(m, "\nready", served)
		if r.printed(m, begun) == heals && try < 5 {
			continue
		}
		r.prints(m, ended, healed)
		_, err := r.e.WaitCaughtUp(r.within(patience), m)
		r.must(err)
		took := time.Since(began)
		r.step("member %v is back, with its vote, after %v", m, took.Round(time.Millisecond))
		r.progress()
		return took
	}
}

// printed counts how often a member's processes have printed a text.
func (r *rig) printed(m *cluster.Member, text string) int {
	r.t.Helper()
	out, err := m.Output()
	r.must(err)
	return strings.Count(out, text)
}

// prints waits until a member has printed a text more than the times given.
func (r *rig) prints(m *cluster.Member, text string, times int) {
	r.t.Helper()
	if err := r.e.Until(r.within(patience), func() bool { return r.printed(m, text) > times }); err != nil {
		r.t.Fatalf("member %v does not print %q: %v\n%s", m, text, err, m.Tail())
	}
}

// TestDamagedMajority damages two of three logs. No member serves, and those that are damaged
// print the commands that help. They do: one log is mended, and the third member heals.
func TestDamagedMajority(t *testing.T) {
	for _, members := range mixtures(t, "pinfold,pinfold,pinfold") {
		t.Run(members, func(t *testing.T) {
			r := newRig(t, members, rigOptions{})
			r.load()
			r.progress()
			r.must(r.l.Stop(r.within(patience)))
			want := r.equal()
			for _, m := range r.e.Members {
				m.Kill()
			}
			mended, healed := r.e.Members[0], r.e.Members[1]
			log := newest(mended, "log.")
			r.must(errors.Join(flip(log, checksumOffset), flip(newest(healed, "log."), checksumOffset)))
			for _, m := range r.e.Members {
				r.must(m.Start())
			}
			r.step("two of three logs are damaged")
			for _, m := range []*cluster.Member{mended, healed} {
				r.prints(m, "event=healing_waits", 0)
				if out, _ := m.Output(); !strings.Contains(out, "pinfold data recover") || !strings.Contains(out, "rm "+filepath.Join(m.DataDir, "version-2", "healing")) {
					t.Errorf("member %v does not tell what helps:\n%s", m, out)
				}
				if s, err := m.Status(); err == nil {
					t.Errorf("member %v serves as %s", m, s.Mode)
				}
			}
			mended.Kill()
			r.tool("data", "recover", "--yes", log)
			r.must(errors.Join(os.Rename(log+".fixed", log), os.Remove(filepath.Join(filepath.Dir(log), "synced")), os.Remove(filepath.Join(filepath.Dir(log), "healing"))))
			r.tool("data", "verify", mended.DataDir)
			r.must(mended.Start())
			r.step("one of them is mended")
			r.prints(healed, "event=healed", 0)
			r.whole()
			tree := r.read(mended)
			if len(tree) != len(want) {
				t.Errorf("%d znodes are there, of %d", len(tree), len(want))
			}
			r.equal()
		})
	}
}

// TestEmptiedDisk removes everything from the data directory of a voter but myid, and leaves no mark, as a
// disk does that was replaced. With db.autocreate=false the voter must not vote before it has healed: not with
// one other member, which has no quorum without that vote, and not if it is alone. Later it has its vote again.
func TestEmptiedDisk(t *testing.T) {
	for _, members := range mixtures(t, "pinfold,pinfold,pinfold", "pinfold,pinfold,pinfold;reconfigEnabled=true") {
		t.Run(members, func(t *testing.T) {
			members, lines, _ := strings.Cut(members, ";")
			r := newRig(t, members, rigOptions{lines: append(strings.Fields(lines), "db.autocreate=false"), before: func(e *cluster.Ensemble) {
				for _, m := range e.Members {
					if err := os.WriteFile(filepath.Join(m.DataDir, "initialize"), nil, 0o644); err != nil {
						t.Fatal(err)
					}
				}
			}})
			r.load()
			for _, m := range r.e.Members {
				if _, err := os.Stat(filepath.Join(m.DataDir, "initialize")); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("member %v has kept the file initialize: %v", m, err)
				}
				r.healsFrom(m, "its disk was emptied", empty)
			}

			r.must(r.l.Stop(r.within(patience)))
			want := r.equal()
			emptied, other, last := r.e.Members[0], r.e.Members[1], r.e.Members[2]
			for _, m := range r.e.Members {
				m.Kill()
			}
			r.must(empty(emptied))
			waits := r.printed(emptied, "event=healing_waits")
			r.must(errors.Join(emptied.Start(), other.Start()))
			r.step("member %v was emptied, and member %v is down", emptied, last)
			r.prints(emptied, "event=healing_waits", waits)
			for _, m := range []*cluster.Member{emptied, other} {
				if s, err := m.Status(); err == nil {
					t.Errorf("member %v serves as %s: the emptied one has voted", m, s.Mode)
				}
			}
			healed := r.printed(emptied, "event=healed")
			r.must(last.Start())
			r.prints(emptied, "event=healed", healed)
			r.whole()
			got := r.equal()
			for path, n := range want { // ephemerals end with their sessions
				if n.Stat.EphemeralOwner == 0 && path != configPath && got[path].Stat.Mzxid != n.Stat.Mzxid {
					t.Errorf("%s was written by %v, and is by %v", path, n.Stat.Mzxid, got[path].Stat.Mzxid)
				}
			}
		})
	}
}

// empty removes everything from the data directory of a member but its number.
func empty(m *cluster.Member) error {
	entries, err := os.ReadDir(m.DataDir)
	for _, e := range entries {
		if e.Name() != "myid" {
			err = errors.Join(err, os.RemoveAll(filepath.Join(m.DataDir, e.Name())))
		}
	}
	return err
}

// tool runs a command of the binary, which must succeed, and returns what it printed.
func (r *rig) tool(args ...string) string {
	r.t.Helper()
	name := *pinfold
	if _, err := os.Stat(name); err != nil && !filepath.IsAbs(name) {
		name = filepath.Join(root, name)
	}
	out, err := exec.CommandContext(r.within(patience), name, args...).CombinedOutput()
	if err != nil {
		r.t.Fatalf("pinfold %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// files returns the files of a member that begin with a prefix, ordered by the zxids in their names.
func files(m *cluster.Member, prefix string) []string {
	names, _ := filepath.Glob(filepath.Join(m.DataDir, "version-2", prefix+"*"))
	zxid := func(name string) uint64 {
		z, _ := strconv.ParseUint(strings.TrimPrefix(filepath.Base(name), prefix), 16, 64)
		return z
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(zxid(a), zxid(b)) })
	return names
}

// newest returns the last of files that has a transaction.
func newest(m *cluster.Member, prefix string) string {
	names := files(m, prefix)
	return names[len(names)-1]
}

// flip changes a byte of a file.
func flip(name string, at int64) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("damage: %w", err)
	}
	b := make([]byte, 1)
	_, err = f.ReadAt(b, at)
	if err == nil {
		b[0] ^= 4
		_, err = f.WriteAt(b, at)
	}
	return errors.Join(err, f.Close())
}
