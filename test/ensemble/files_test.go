package ensemble

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
)

// TestFilesOfTheOtherProgram reconfigures members of Pinfold's and stops them; Apache's servers start from the zoo.cfg and the
// dynamic files that these have written, serve, and are reconfigured; then Pinfold's start from theirs. The last
// member is in nobody's list at first.
func TestFilesOfTheOtherProgram(t *testing.T) {
	for _, apache := range []cluster.Kind{cluster.Apache39, cluster.Apache} {
		t.Run(string(apache), func(t *testing.T) {
			members := mixtures(t, "pinfold,pinfold,pinfold,pinfold")[0]
			if !apacheInstalled() {
				t.Skip("no Apache ZooKeeper here: install the Debian packages zookeeper and default-jre-headless")
			}
			r := newRig(t, members, rigOptions{lines: append(reconfigLines(), smallFiles()...), before: func(e *cluster.Ensemble) {
				if err := errors.Join(unlist(e, 1), listClients(e)); err != nil {
					t.Fatal(err)
				}
			}})
			r.load()
			r.specs[0].Kind = apache // so that the history is judged by what Apache promises
			m := &membership{rig: r, roles: map[int]string{1: participant, 2: participant, 3: participant}}
			m.join(observer, 4)
			m.join(participant, 4)
			m.movePorts(m.e.Member(m.follower()))
			m.become(apache)
			m.join(observer, 4)
			m.restartLeader()
			m.become(cluster.Pinfold)
			m.join(participant, 4)
			m.restartLeader()
			r.finish()
		})
	}
}

// become has all members run the other program, with the files that are there.
func (m *membership) become(kind cluster.Kind) {
	m.t.Helper()
	m.step("all members become %s", kind)
	for _, e := range m.e.Members {
		m.must(e.Stop())
	}
	for _, e := range m.e.Members {
		m.listedInDynamicFile(e)
		m.must(e.Become(kind))
	}
	m.whole()
	for id := range m.roles {
		m.await(id)
	}
	m.progress()
}

// listedInDynamicFile demands that zoo.cfg names a file with the members as they are, and lists none itself.
func (m *membership) listedInDynamicFile(e *cluster.Member) {
	m.t.Helper()
	text, err := os.ReadFile(filepath.Join(e.Dir, "zoo.cfg"))
	m.must(err)
	if strings.Contains(string(text), "server.") || strings.Contains(string(text), "clientPort") {
		m.t.Errorf("zoo.cfg of %v has lines of members still:\n%s", e, text)
	}
	_, name, _ := strings.Cut(string(text), "dynamicConfigFile=")
	name, _, _ = strings.Cut(name, "\n")
	list, err := os.ReadFile(strings.TrimSpace(name))
	m.must(err)
	if !m.has(string(list)) || strings.Contains(string(list), "version") || !strings.HasSuffix(strings.TrimSpace(name), "."+strings.TrimPrefix(m.version, "version=")) {
		m.t.Errorf("%s of %v, after %s, has\n%s", name, e, m.version, list)
	}
}
