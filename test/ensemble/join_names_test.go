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

	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
)

// TestJoinsWithNames has a server join whose name no resolver knows, by a `reconfig` by hand: one that runs, as a
// voter, and one that does not run yet. The members go on, through the loss of each and of all, and the server joins
// before its name is published and after. `pinfold member add` with a name that a member cannot resolve is refused. The
// last member is in no other member's list at first. Root only.
func TestJoinsWithNames(t *testing.T) {
	for _, members := range mixtures(t, "pinfold,pinfold,pinfold,pinfold") {
		t.Run(members, func(t *testing.T) {
			o := onHosts(t)
			o.admin, o.lines = true, append(reconfigLines(), smallFiles()...)
			o.before = func(e *cluster.Ensemble) {
				err := errors.Join(unlist(e, 1), listClients(e))
				for id := range 3 {
					err = errors.Join(err, e.Hosts.Publish(id+1, ids(e), e.Hosts.Address(id+1)))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			r := newRig(t, members, o)
			r.load()
			j := &joins{
				membership: &membership{rig: r, roles: map[int]string{1: participant, 2: participant, 3: participant}},
				resolvers:  &names{rig: r}, secret: filepath.Join(t.TempDir(), "super"),
			}
			j.must(os.WriteFile(j.secret, []byte("digest:super:test\n"), 0o600))
			j.refused()
			j.unknown()
			j.absent()
			j.finish()
		})
	}
}

// A joins is an ensemble with names, and a server that joins it.
type joins struct {
	*membership
	resolvers *names
	secret    string // the file with the credentials
}

// refused has `pinfold member add` refuse a server with the reason, and then add it.
func (j *joins) refused() {
	j.t.Helper()
	name := cluster.Name(4)
	for _, c := range []struct {
		at      []int // the hosts that know the name
		refusal string
	}{
		{[]int{2, 3, 4}, name + " cannot be resolved on this machine"},
		{[]int{1, 2, 4}, "server 3 cannot resolve " + name},
		{[]int{1, 4}, "server 2 cannot resolve " + name},
		{[]int{1, 2, 3, 4}, ""},
	} {
		j.resolvers.publish(4, ids(j.e))
		j.resolvers.publish(4, c.at, j.e.Hosts.Address(4))
		out, err := j.add()
		if c.refusal == "" && err != nil {
			j.t.Fatalf("member add: %v\n%s", err, out)
		}
		if c.refusal != "" && (err == nil || !strings.Contains(out, c.refusal) || !strings.Contains(out, "refused: nothing was changed")) {
			j.t.Fatalf("the hosts %v know %s: member add: %v\n%s", c.at, name, err, out)
		}
	}
	j.roles[4] = participant
	j.leave(4)
}

// add runs `pinfold member add` at the first host.
func (j *joins) add() (string, error) {
	j.t.Helper()
	var ports []string
	for _, m := range j.e.Members {
		_, port, _ := strings.Cut(m.Admin, ":")
		ports = append(ports, fmt.Sprintf("%d=%s", m.ID, port))
	}
	cmd := exec.CommandContext(j.within(patience), programs(j.t, j.specs, "").Pinfold, "member", "add", "--yes", "--auth-file", j.secret,
		"--server", j.e.Member(1).Client, "--admin-port", strings.Join(ports, ","), strings.TrimPrefix(j.line(4, participant), "server."))
	j.e.Hosts.RunAt(1, cmd)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// unknown gives a vote to a server that runs and whose name nobody knows. It votes, and all come back from everything, before the
// name is published and after.
func (j *joins) unknown() {
	j.t.Helper()
	j.resolvers.publish(4, ids(j.e))
	j.join(participant, 4)
	j.restart()
	j.resolvers.publish(4, ids(j.e), j.e.Hosts.Address(4))
	j.restart()
	j.leave(4)
}

// absent makes a member of a server that does not run, and whose name nobody knows. It is started before the name is published.
func (j *joins) absent() {
	j.t.Helper()
	gone := j.e.Member(4)
	j.must(gone.Stop())
	j.resolvers.publish(4, ids(j.e))
	j.step("%v does not run: joining as an observer", gone)
	j.reconfigure(j.e.Member(1), j.line(4, observer), "")
	j.e.Members = j.e.Members[:3]
	j.restart()
	j.e.Members = append(slices.Clone(j.e.Members), gone)
	j.must(gone.Start())
	j.roles[4] = observer
	j.await(4)
	j.join(participant, 4)
	j.resolvers.publish(4, ids(j.e), j.e.Hosts.Address(4))
	j.restart()
}
