package ensemble

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	zkclient "github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/test/ensemble/client"
	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
	"github.com/pinfold-zk/pinfold/zk"
)

// TestForeignData has a server join three members with the data of another ensemble. If that is of the same epoch and
// ends later, or of a later epoch, the leader refuses it, which disturbs nobody, and "pinfold member add" gives it no vote; an operator
// empties its data directory. If it is of the same epoch and ends earlier, the server's tree is found to be wrong with the first
// transaction, and replaced. No client sees a znode of the other ensemble.
func TestForeignData(t *testing.T) {
	for _, members := range mixtures(t, "pinfold,pinfold,pinfold,pinfold") {
		t.Run(members, func(t *testing.T) {
			var dirs map[string]string
			r := newRig(t, members, rigOptions{lines: append(reconfigLines(), smallFiles()...), before: func(e *cluster.Ensemble) {
				dirs = foreignData(t, e)
				if err := errors.Join(unlist(e, 1), listClients(e)); err != nil {
					t.Fatal(err)
				}
			}})
			m := &membership{rig: r, roles: map[int]string{1: participant, 2: participant, 3: participant}}
			joiner := r.e.Member(4)
			super := filepath.Join(t.TempDir(), "super")
			r.must(os.WriteFile(super, []byte("digest:super:test\n"), 0o600))
			r.fill(r.e.Member(1), "/own", 50)
			for _, which := range []string{"longer", "later"} {
				t.Logf("%.1f s: %s", time.Since(r.began).Seconds(), which)
				r.comeWith(joiner, dirs[which])
				r.turnedAway(joiner, map[string]string{"longer": "is it of another ensemble?", "later": "it has accepted epoch 3"}[which])
				r.fill(r.e.Member(1), "/undisturbed-by-"+which, 20)
			}
			out, err := exec.CommandContext(r.within(patience), programs(t, r.specs, "").Pinfold, "member", "add", "--yes", "--auth-file", super,
				"--server", r.e.Member(1).Client, strings.TrimPrefix(m.line(4, participant), "server.")).CombinedOutput()
			t.Logf("member add: %s", out)
			if err == nil || !strings.Contains(string(out), "is not in sync with the leader") {
				t.Errorf("member add: %v", err)
			}
			for _, which := range []string{"shorter", "empty"} {
				t.Logf("%.1f s: %s", time.Since(r.began).Seconds(), which)
				r.comeWith(joiner, dirs[which])
				r.joined(joiner, "/"+which)
			}
			m.roles[4], m.version = participant, "version=0"
			r.must(r.e.Until(r.within(patience), func() bool {
				text, err := m.try(m.line(4, participant), "")
				m.version = text[strings.LastIndexByte(text, '\n')+1:]
				return err == nil && m.has(text)
			}))
			m.await(4)
		})
	}
}

func foreignIn(tree client.Tree) (names []string) {
	for path := range tree {
		if strings.HasPrefix(path, "/foreign") {
			names = append(names, path)
		}
	}
	return names
}

// foreignData returns data directories that the last member has written as an ensemble of its own: "empty", and with
// znodes /foreign-..., "shorter" and "longer", in epoch 1, and "later", in epoch 3. Its own is empty again.
func foreignData(t *testing.T, e *cluster.Ensemble) map[string]string {
	t.Helper()
	own := e.Members[len(e.Members)-1]
	name := filepath.Join(own.Dir, "zoo.cfg")
	cfg, err := os.ReadFile(name)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(err)
	var alone strings.Builder
	for line := range strings.Lines(string(cfg)) {
		if !strings.HasPrefix(line, "server.") || strings.HasPrefix(line, fmt.Sprintf("server.%d=", own.ID)) {
			alone.WriteString(line)
		}
	}
	must(os.WriteFile(name, []byte(alone.String()+"standaloneEnabled=false\n"), 0o644))
	dirs := map[string]string{}
	keep := func(which string) {
		dirs[which] = filepath.Join(t.TempDir(), which)
		must(os.CopyFS(dirs[which], os.DirFS(own.DataDir)))
	}
	r := &rig{t: t, e: e}
	run := func(prefix string, n int) {
		must(own.Start())
		_, err := own.WaitServing(r.within(patience))
		must(err)
		r.fill(own, prefix, n)
		must(own.Stop())
	}
	keep("empty")
	run("/foreign-a", 5)
	keep("shorter")
	must(errors.Join(os.RemoveAll(own.DataDir), os.CopyFS(own.DataDir, os.DirFS(dirs["empty"]))))
	run("/foreign-b", 300)
	keep("longer")
	run("/foreign-c", 1)
	run("/foreign-d", 1)
	keep("later")
	must(errors.Join(os.RemoveAll(own.DataDir), os.CopyFS(own.DataDir, os.DirFS(dirs["empty"])), os.WriteFile(name, cfg, 0o644)))
	return dirs
}

// comeWith starts a server again with a data directory.
func (r *rig) comeWith(m *cluster.Member, dir string) {
	r.t.Helper()
	r.must(errors.Join(m.Stop(), os.RemoveAll(m.DataDir), os.CopyFS(m.DataDir, os.DirFS(dir)), m.Start()))
}

// turnedAway waits until the leader has refused a server that joins, and said why.
func (r *rig) turnedAway(joiner *cluster.Member, why string) {
	r.t.Helper()
	leader, err := r.e.Leader()
	r.must(err)
	before, err := leader.Output()
	r.must(err)
	r.must(r.e.Until(r.within(patience), func() bool {
		after, err := leader.Output()
		return err == nil && slices.ContainsFunc(strings.Split(after[len(before):], "\n"), func(line string) bool {
			return strings.Contains(line, "event=peer_refused server=4") && strings.Contains(line, why)
		})
	}))
	if s, err := joiner.Status(); err == nil {
		r.t.Errorf("the server with the data of another ensemble serves: %+v", s)
	}
}

// joined demands that a server that joins gets the data of the others, and serves it.
func (r *rig) joined(joiner *cluster.Member, prefix string) {
	r.t.Helper()
	_, err := r.e.WaitCaughtUp(r.within(patience), joiner)
	r.must(err)
	r.fill(r.e.Member(1), prefix, 1)
	var last string
	if err := r.e.Until(r.within(patience), func() bool {
		s := client.New(sessionTimeout, answerPatience)
		if s.Connect(joiner.Client) != nil {
			return false
		}
		defer s.Drop()
		if _, err := s.Do(client.Sync("/")); err != nil {
			return false
		}
		tree, err := s.ReadTree()
		last = fmt.Sprint(tree[prefix+"-0"], foreignIn(tree))
		return err == nil && len(foreignIn(tree)) == 0
	}); err != nil {
		r.t.Fatalf("%v: %s\n%s", err, last, joiner.Tail())
	}
	r.equal()
}

// fill creates n znodes, with a client of m alone.
func (r *rig) fill(m *cluster.Member, prefix string, n int) {
	r.t.Helper()
	ctx := r.within(patience)
	c, err := zkclient.Dial(ctx, m.Client)
	r.must(err)
	for i := range n {
		_, err = c.Create(ctx, fmt.Sprintf("%s-%d", prefix, i), nil, zk.Persistent, zk.OpenACLUnsafe())
		r.must(err)
	}
	r.must(c.Close())
}
