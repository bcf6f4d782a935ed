package ensemble

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
)

// TestMemberCommands changes the members by `pinfold member` while clients write: a server is
// added and removed, gets and loses its vote, replaces another that is dead, and the leader is
// moved. The last member is in nobody's list at first.
func TestMemberCommands(t *testing.T) {
	for _, members := range mixtures(t, "pinfold,pinfold,pinfold,pinfold", "apache,apache,apache,apache", "apache,pinfold,apache,pinfold") {
		t.Run(members, func(t *testing.T) {
			r := newRig(t, members, rigOptions{lines: append(reconfigLines(), smallFiles()...), before: func(e *cluster.Ensemble) {
				if err := errors.Join(unlist(e, 1), listClients(e)); err != nil {
					t.Fatal(err)
				}
			}})
			r.load()
			c := &commands{rig: r, program: programs(t, r.specs, "").Pinfold, secret: filepath.Join(t.TempDir(), "super")}
			r.must(os.WriteFile(c.secret, []byte("digest:super:test\n"), 0o600))
			c.come()
			c.moveLeader()
			c.replaceDead()
			r.finish()
		})
	}
}

// listClients writes the address for clients into every server line.
func listClients(e *cluster.Ensemble) error {
	return editConfigs(e, func(_ *cluster.Member, line string) (string, bool) {
		var id int
		if _, err := fmt.Sscanf(line, "server.%d=", &id); err == nil {
			return line + ";" + e.Member(id).Client, true
		}
		return line, !strings.HasPrefix(line, "clientPort")
	})
}

// commands runs `pinfold member`.
type commands struct {
	*rig
	program string // the binary of pinfold
	secret  string // the file with the credentials
}

// run runs a command that must succeed, or be refused, and returns its output.
func (c *commands) run(refused bool, args ...string) string {
	c.t.Helper()
	c.step("pinfold member %s", strings.Join(args, " "))
	words := append([]string{"member"}, args...)
	words = append(words, "--server", strings.Join(c.e.Clients(), ","))
	if args[0] != "list" {
		words = append(words, "--yes", "--auth-file", c.secret, "--wait", patience.String())
	}
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(c.within(3*patience), c.program, words...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if (err != nil) != refused || refused && !strings.Contains(errs.String(), "refused: nothing was changed") {
		c.t.Fatalf("pinfold member %s: %v\n%s%s", strings.Join(args, " "), err, out.String(), errs.String())
	}
	if !refused {
		c.progress()
	}
	return out.String()
}

// change runs a change that must succeed.
func (c *commands) change(args ...string) {
	c.t.Helper()
	c.run(false, args...)
}

// roles returns what the members are, in the order of their ids: "1:participant 4:observer",
// and the id of the leader.
func (c *commands) roles() (all string, leader int) {
	c.t.Helper()
	var listed struct {
		Members []struct {
			ID          int
			Role, State string
		}
	}
	c.must(json.Unmarshal([]byte(c.run(false, "list", "-o", "json")), &listed))
	var words []string
	for _, m := range listed.Members {
		words = append(words, fmt.Sprintf("%d:%s", m.ID, m.Role))
		if m.State == "leader" {
			leader = m.ID
		}
	}
	return strings.Join(words, " "), leader
}

func (c *commands) want(roles string) {
	c.t.Helper()
	if got, _ := c.roles(); got != roles {
		c.t.Fatalf("the members are %s, want %s", got, roles)
	}
}

// line is the server line of a member.
func (c *commands) line(id int) string {
	m := &membership{rig: c.rig}
	line := m.line(id, participant)
	return strings.TrimPrefix(line, "server.")
}

// come adds the fourth server as an observer, gives it a vote and takes it, and removes it.
func (c *commands) come() {
	c.t.Helper()
	const three = "1:participant 2:participant 3:participant"
	_, err := c.e.Member(4).WaitServing(c.within(patience))
	c.must(err)
	c.want(three)
	c.change("add", "--observer", c.line(4))
	c.want(three + " 4:observer")
	c.change("promote", "4")
	c.want(three + " 4:participant")
	c.change("demote", "4")
	c.want(three + " 4:observer")
	c.change("remove", "4")
	c.want(three)
}

func (c *commands) moveLeader() {
	c.t.Helper()
	_, before := c.roles()
	c.change("move-leader")
	if roles, after := c.roles(); before == 0 || after == 0 || after == before || strings.Contains(roles, observer) {
		c.t.Fatalf("server %d led, then server %d; %s", before, after, roles)
	}
}

// replaceDead has the fourth server take the place of one that was killed. Before, the
// removal of another one is refused: no majority would be left.
func (c *commands) replaceDead() {
	c.t.Helper()
	_, leader := c.roles()
	dead := leader%3 + 1
	other := dead%3 + 1
	c.e.Member(dead).Kill()
	c.progress()
	if out := c.run(true, "remove", fmt.Sprint(other)); !strings.Contains(out, "are needed for a majority") {
		c.t.Fatalf("the refusal says\n%s", out)
	}
	c.change("replace", fmt.Sprint(dead), c.line(4))
	want := map[int]string{1: "2:participant 3:participant", 2: "1:participant 3:participant", 3: "1:participant 2:participant"}[dead]
	c.want(want + " 4:participant")
	old := c.e.Member(dead)
	c.must(old.Start()) // it learns from the leader that it is no member any more
	_, err := old.WaitServing(c.within(patience))
	c.must(err)
	c.change("add", "--observer", c.line(dead))
	if roles, _ := c.roles(); !strings.Contains(roles, fmt.Sprintf("%d:%s", dead, observer)) {
		c.t.Fatalf("the members are %s", roles)
	}
}
