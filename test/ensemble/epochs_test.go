package ensemble

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/test/ensemble/client"
	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
	"github.com/pinfold-zk/pinfold/zk"
)

// epochsPage is the page whose commands are run, by the names after "```sh".
const epochsPage = "docs/ops/epochs.md"

// lastEpoch is the last that there is.
const lastEpoch = 1<<31 - 1

// TestResetOfEpochs brings an ensemble into the state without a way out, and out of it by the commands
// of the page: once with damaged promises, once with damaged histories too. Nothing that was acknowledged is lost.
func TestResetOfEpochs(t *testing.T) {
	blocks := epochBlocks(t)
	for _, c := range []struct {
		name    string
		damaged []string // files that say the last epoch
		reset   func(*epochReset)
	}{
		{"promises", []string{"acceptedEpoch"}, (*epochReset).resetAll},
		{"histories", []string{"acceptedEpoch", "currentEpoch"}, (*epochReset).resetOne},
	} {
		t.Run(c.name, func(t *testing.T) {
			members := mixtures(t, "pinfold,pinfold,pinfold")[0]
			if strings.Contains(members, "apache") {
				t.Skip("the page is about servers of Pinfold")
			}
			r := &epochReset{rig: newRig(t, members, rigOptions{}), blocks: blocks}
			leader, _ := r.leader()
			written := r.write(leader, "/before")
			for _, m := range r.e.Members {
				_, err := r.e.WaitCaughtUp(r.within(patience), m)
				r.must(err)
			}
			r.onDisk(written)
			r.stopAll()
			for _, m := range r.e.Members {
				for _, name := range c.damaged {
					r.must(os.WriteFile(filepath.Join(m.DataDir, "version-2", name), fmt.Append(nil, lastEpoch), 0o644))
				}
			}
			r.noWayOut()
			r.stopAll()
			t.Logf("%.1f s: the commands of %s", time.Since(r.began).Seconds(), epochsPage)
			c.reset(r)
			leader, _ = r.leader()
			for _, m := range r.e.Members {
				_, err := r.e.WaitCaughtUp(r.within(patience), m)
				r.must(err)
			}
			now := r.equal()
			for path := range written {
				if _, ok := now[path]; !ok {
					t.Errorf("%s is gone", path)
				}
			}
			r.write(leader, "/after")
		})
	}
}

// epochBlocks are the blocks of commands of the page.
func epochBlocks(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, epochsPage))
	if err != nil {
		t.Fatal(err)
	}
	blocks := map[string]string{}
	for _, m := range regexp.MustCompile("(?ms)^ *```sh (\\w+)\n(.*?)^ *```$").FindAllStringSubmatch(string(text), -1) {
		blocks[m[1]] = m[2]
	}
	for _, name := range []string{"look", "reset", "choose", "empty"} {
		if blocks[name] == "" {
			t.Fatalf("%s has no block %q", epochsPage, name)
		}
	}
	return blocks
}

// An epochReset is an ensemble whose epochs are reset.
type epochReset struct {
	*rig
	blocks map[string]string
}

// write makes some znodes, and returns the tree.
func (r *epochReset) write(m *cluster.Member, path string) client.Tree {
	r.t.Helper()
	s := r.visit(m, false)
	for i := range 10 {
		replies, err := s.Do(client.Create(fmt.Sprint(path, "-", i), []byte("x"), zk.Persistent))
		r.must(err)
		if replies[0].Code != zk.OK {
			r.t.Fatal(replies[0].Code)
		}
	}
	_, err := s.Close()
	r.must(err)
	return r.read(m)
}

func (r *epochReset) stopAll() {
	for _, m := range r.e.Members {
		m.Kill()
	}
}

// noWayOut starts all members and demands that they elect a leader, and that it can do nothing: its epoch
// would have to be later than the last.
func (r *epochReset) noWayOut() {
	r.t.Helper()
	for _, m := range r.e.Members {
		r.must(m.Start())
	}
	givenUp := regexp.MustCompile(`"the role is given up".*` + fmt.Sprint(lastEpoch))
	r.must(r.e.Until(r.within(patience), func() bool {
		for _, m := range r.e.Members {
			text, err := m.Output()
			r.must(err)
			if givenUp.MatchString(text) {
				return true
			}
		}
		return false
	}))
	if m, err := r.e.Leader(); err == nil {
		r.t.Fatalf("member %v leads in spite of the last epoch", m)
	}
}

// run runs a block of the page in a member's data directory, with epoch instead of 5.
func (r *epochReset) run(m *cluster.Member, block string, epoch int64) string {
	r.t.Helper()
	script := strings.ReplaceAll(r.blocks[block], "epoch=5", fmt.Sprint("epoch=", epoch))
	cmd := exec.CommandContext(r.within(patience), "bash", "-euc", script)
	cmd.Dir = m.DataDir
	out, err := cmd.CombinedOutput()
	if r.t.Logf("%s on member %v: %s", block, m, out); err != nil {
		r.t.Fatal(err)
	}
	return string(out)
}

// look returns what a member's history says: currentEpoch, and the last zxid in the name of a file.
func (r *epochReset) look(m *cluster.Member) (epoch int64, last zk.Zxid) {
	r.t.Helper()
	lines := strings.Fields(r.run(m, "look", 0))
	if len(lines) < 2 {
		r.t.Fatalf("%q shows no files", lines)
	}
	epoch, err := strconv.ParseInt(lines[0], 10, 64)
	r.must(err)
	for _, name := range lines[1:] {
		_, hex, _ := strings.Cut(name, ".")
		n, err := strconv.ParseUint(hex, 16, 64)
		r.must(err)
		last = max(last, zk.Zxid(n))
	}
	return epoch, last
}

// resetAll is step 3, and step 5.
func (r *epochReset) resetAll() {
	r.t.Helper()
	largest := int64(0)
	for _, m := range r.e.Members {
		epoch, _ := r.look(m)
		largest = max(largest, epoch)
	}
	for _, m := range r.e.Members {
		r.run(m, "reset", largest)
	}
	r.must(r.e.Start(r.within(patience)))
}

// resetOne is step 4, and step 5.
func (r *epochReset) resetOne() {
	r.t.Helper()
	chosen, latest := (*cluster.Member)(nil), zk.Zxid(-1)
	for _, m := range r.e.Members {
		if _, last := r.look(m); last > latest {
			chosen, latest = m, last
		}
	}
	r.run(chosen, "choose", int64(latest)>>32)
	var first *cluster.Member
	for _, m := range r.e.Members {
		if m != chosen {
			r.run(m, "empty", 0)
			first = m
		}
	}
	r.must(chosen.Start())
	r.must(first.Start()) // of three, these two are a majority, and the emptied one is none without the chosen one
	r.must(r.e.Until(r.within(patience), func() bool {
		s, err := chosen.Status()
		return err == nil && s.Mode == "leader"
	}))
	r.must(r.e.Start(r.within(patience)))
}
