package ensemble

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
)

// TestMigrationToHosts has `pinfold migrate hosts` put three servers of Pinfold in the place of
// three members of Apache's, by reconfiguration, under load, and three of Apache's in the place
// of those again. The servers of Pinfold are members 1 to 3 of the rig, and in nobody's list at
// first. On the way back server 4 has the data directory that it had; those of 5 and 6 are empty.
func TestMigrationToHosts(t *testing.T) {
	for _, members := range mixtures(t, "pinfold,pinfold,pinfold,apache,apache,apache", "pinfold,pinfold,pinfold,apache-3.9,apache-3.9,apache-3.9") {
		t.Run(members, func(t *testing.T) {
			r := newRig(t, members, rigOptions{
				lines: append(reconfigLines(), smallFiles()...), before: func(e *cluster.Ensemble) {
					if err := errors.Join(unlistFirst(e, 3), listClients(e)); err != nil {
						t.Fatal(err)
					}
				},
			})
			for _, one := range r.e.Members[:3] { // a leader of Apache's changes the configuration when it has begun, and they their roles
				r.must(one.Stop())
			}
			r.must(r.e.Start(r.within(patience)))
			addrs := r.e.Clients()
			r.loadAt(append(addrs[3:], addrs[:3]...), nil) // what is left is read at the first, in the end
			for id := 1; id <= 3; id++ {
				r.must(r.e.Member(id).Stop())
			}
			m := newMigration(r)
			m.toHosts([]int{4, 5, 6}, []int{1, 2, 3})
			r.relist([]int{1, 2, 3}, []int{4, 5, 6})
			for id := 5; id <= 6; id++ {
				r.must(os.RemoveAll(filepath.Join(r.e.Member(id).DataDir, "version-2")))
			}
			m.toHosts([]int{1, 2, 3}, []int{4, 5, 6})
			all := r.e.Members
			t.Cleanup(func() { r.e.Members = all })
			r.e.Members = all[3:]
			r.finish()
			if lost := r.l.Lost(); lost > 0 {
				t.Errorf("%d sessions were lost", lost)
			}
		})
	}
}

// toHosts has `pinfold migrate hosts` put servers in the place of others, and says so when it
// is asked again.
func (m *migration) toHosts(from, to []int) {
	m.t.Helper()
	kind := m.specs[to[0]-1].Kind
	m.c.becomes(kind)
	secret := filepath.Join(m.t.TempDir(), "super")
	m.must(os.WriteFile(secret, []byte("digest:super:test\n"), 0o600))
	servers := func(ids []int) string {
		var all []string
		for _, id := range ids {
			all = append(all, m.e.Member(id).Client)
		}
		return strings.Join(all, ",")
	}
	words := []string{"migrate", "hosts", "--yes", "--auth-file", secret, "--settle", "1s", "--wait", patience.String(),
		"--stop", m.c.command("stop"), "--start", m.c.command("start"), "--server", servers(from)}
	for i, id := range to {
		words = append(words, strconv.Itoa(from[i]), strings.TrimPrefix((&membership{rig: m.rig}).line(id, participant), "server."))
	}
	before := m.c.count()
	for _, want := range []string{"events lost, 0 sessions lost", fmt.Sprintf("is in the place of server %d already", from[0])} {
		out, err := exec.CommandContext(m.within(5*patience), m.program, words...).CombinedOutput()
		m.t.Logf("pinfold migrate hosts: %v\n%s", err, out)
		if err != nil || !strings.Contains(string(out), want) {
			m.t.Fatalf("%q is not in the output", want)
		}
		words[slices.Index(words, "--server")+1] = servers(to)
	}
	if n := m.c.count() - before; n != len(to) {
		m.t.Errorf("%d servers were started", n)
	}
	for _, id := range from {
		if old := m.e.Member(id); old.Running() {
			m.t.Errorf("%v runs still", old)
		}
	}
	for _, id := range to {
		if one := m.e.Member(id); one.Kind() != kind {
			m.t.Errorf("%v is not of %s", one, kind)
		}
	}
	m.progress()
}

// relist gives servers that are no members the zoo.cfg of new ones: with the lines of the
// members, and their own as observers.
func (r *rig) relist(members, ids []int) {
	r.t.Helper()
	m := &membership{rig: r}
	err := editConfigs(r.e, func(e *cluster.Member, line string) (string, bool) {
		if !slices.Contains(ids, e.ID) {
			return line, true
		}
		if strings.HasPrefix(line, "dataDir=") {
			for _, id := range members {
				line += "\n" + m.line(id, participant)
			}
			return line + "\n" + m.line(e.ID, observer), true
		}
		return line, !strings.HasPrefix(line, "dynamicConfigFile") && !strings.HasPrefix(line, "server.")
	})
	r.must(err)
}

// unlistFirst removes the first n members of an ensemble from the lists of the others, and
// makes each an observer in its own list.
func unlistFirst(e *cluster.Ensemble, n int) error {
	return editConfigs(e, func(m *cluster.Member, line string) (string, bool) {
		var id int
		if _, err := fmt.Sscanf(line, "server.%d=", &id); err != nil || id > n {
			return line, true
		}
		return line + ":observer", id == m.ID
	})
}
