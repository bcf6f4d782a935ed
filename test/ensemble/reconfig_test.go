package ensemble

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/ensemble/client"
	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
	"github.com/pinfold-zk/pinfold/zk"
)

// reconfigLines are the lines of zoo.cfg with which an administrator, super:test, may
// change the members.
func reconfigLines() []string {
	return append(superuser(), "reconfigEnabled=true")
}

// superuser is the line of zoo.cfg with which super:test is the superuser.
func superuser() []string {
	return []string{"DigestAuthenticationProvider.superDigest=super:D/InIHSb7yEEbrWz8b9l71RjZJU="}
}

// reconfig is the request of a change.
func reconfig(joining, leaving string, members *string, from int64) client.Request {
	r := wire.ReconfigRequest{JoiningServers: joining, LeavingServers: leaving, NewMembers: members, CurConfigID: from}
	return client.Request{Op: wire.OpReconfig, Body: r.Append(nil)}
}

// authenticate adds the identity of the administrator to a session.
func authenticate() client.Request { return authenticateAs("super:test") }

// authenticateAs adds a digest identity, as user:password, to a session.
func authenticateAs(identity string) client.Request {
	b := jute.AppendInt(nil, 0)
	b = jute.AppendString(b, "digest")
	return client.Request{Op: wire.OpAuth, Body: jute.AppendBuffer(b, []byte(identity))}
}

// visit connects a session to a member; with super it is the administrator's.
func (r *rig) visit(m *cluster.Member, super bool) *client.Session {
	r.t.Helper()
	s := client.New(sessionTimeout, patience)
	r.must(s.Connect(m.Client))
	r.t.Cleanup(s.Drop)
	if super {
		replies, err := s.Do(authenticate())
		r.must(err)
		if replies[0].Code != zk.OK {
			r.t.Fatalf("the administrator is refused: %v", replies[0].Code)
		}
	}
	return s
}

// TestReconfigErrors sends reconfigurations that must fail, and a few that must not, to
// each kind of server as the leader: Apache is the oracle of the expected codes.
func TestReconfigErrors(t *testing.T) {
	for _, members := range mixtures(t, "pinfold,pinfold,pinfold", "apache,apache,apache") {
		t.Run(members, func(t *testing.T) {
			r := newRig(t, members, rigOptions{lines: reconfigLines()})
			leader, err := r.e.WaitLeader(r.within(patience), func(*cluster.Member) bool { return true })
			r.must(err)
			for _, c := range r.refusedChanges() {
				if !c.accepted || !leader.Kind().IsApache() {
					r.tryChange(leader, &c)
				}
			}
			r.keepsMembers(leader)
		})
	}
}

// A change is a reconfiguration, and what it is answered.
type change struct {
	name             string
	joining, leaving string
	members          *string
	from             int64
	super            bool
	// accepted tells that Apache would make the change (docs/ops/membership.md, Errors).
	accepted bool
	want     zk.Code
}

func (r *rig) refusedChanges() []change {
	lines := func(ids ...int) string {
		var all []string
		for _, id := range ids {
			m := r.e.Member(id)
			_, q, _ := strings.Cut(m.Quorum, ":")
			_, e, _ := strings.Cut(m.Election, ":")
			_, c, _ := strings.Cut(m.Client, ":")
			all = append(all, fmt.Sprintf("server.%d=127.0.0.1:%s:%s:participant;127.0.0.1:%s", id, q, e, c))
		}
		return strings.Join(all, "\n")
	}
	whole := func(text string) *string { return &text }
	_, quorum1, _ := strings.Cut(r.e.Member(1).Quorum, ":")
	_, election1, _ := strings.Cut(r.e.Member(1).Election, ":")
	return []change{
		{name: "no right", joining: observerNine, from: -1, want: zk.ErrNoAuth},
		{name: "no right, and another version", joining: observerNine, from: 77, want: zk.ErrBadVersion},
		{name: "no right, and malformed", joining: "x", from: -1, want: zk.ErrBadArguments},
		{name: "no right, and no quorum", joining: threeAbsent, from: -1, want: zk.ErrNewConfigNoQuorum},
		{name: "another version", joining: observerNine, from: 77, super: true, want: zk.ErrBadVersion},
		{name: "another version of a malformed change", joining: "x", from: 77, super: true, want: zk.ErrBadVersion},
		{name: "no =", joining: "asdf", from: -1, super: true, want: zk.ErrBadArguments},
		{name: "two =", joining: observerNine + "=x", from: -1, super: true, want: zk.ErrBadArguments},
		{name: "no number", joining: "server.x=127.0.0.1:27401:27402;27403", from: -1, super: true, want: zk.ErrMarshalling},
		{name: "leaving is no number", leaving: "x", from: -1, super: true, want: zk.ErrMarshalling},
		{name: "no client port", joining: "server.9=127.0.0.1:27401:27402:observer", from: -1, super: true, want: zk.ErrBadArguments},
		{name: "an address for clients with TLS", joining: "server.9=127.0.0.1:27401:27402:observer;27403;27404", from: -1, super: true, want: zk.ErrBadArguments},
		{name: "no election port", joining: "server.9=127.0.0.1:27401;27403", from: -1, super: true, want: zk.ErrBadArguments},
		{name: "an unknown role", joining: "server.9=127.0.0.1:27401:27402:spectator;27403", from: -1, super: true, want: zk.ErrBadArguments},
		{name: "one port for both", joining: "server.9=127.0.0.1:27401:27401:observer;27403", from: -1, super: true, want: zk.ErrBadArguments},
		{name: "a port too large", joining: "server.9=127.0.0.1:270000:27402:observer;27403", from: -1, super: true, want: zk.ErrMarshalling},
		{name: "a port that is a word", joining: "server.9=127.0.0.1:q:27402:observer;27403", from: -1, super: true, want: zk.ErrBadArguments},
		{name: "the quorum port of another", joining: "server.9=127.0.0.1:" + quorum1 + ":27402:observer;27403", from: -1, super: true, accepted: true, want: zk.ErrBadArguments},
		{name: "the election port of another", joining: "server.9=127.0.0.1:27401:" + election1 + ":observer;27403", from: -1, super: true, accepted: true, want: zk.ErrBadArguments},
		{name: "the quorum port of another for the election", joining: "server.9=127.0.0.1:27401:" + quorum1 + ":observer;27403", from: -1, super: true, accepted: true, want: zk.ErrBadArguments},
		{name: "the quorum port of another for clients", joining: "server.9=127.0.0.1:27401:27402:observer;127.0.0.1:" + quorum1, from: -1, super: true, accepted: true, want: zk.ErrBadArguments},
		{name: "no quorum of the new voters", joining: threeAbsent, from: -1, super: true, want: zk.ErrNewConfigNoQuorum},
		{name: "one participant is left", leaving: "1,2", from: -1, super: true, want: zk.ErrBadArguments},
		{name: "nobody is left", leaving: "1,2,3", from: -1, super: true, want: zk.ErrBadArguments},
		{name: "new members: none", members: whole(""), from: -1, super: true, want: zk.ErrBadArguments},
		{name: "new members: none, and joining", joining: observerNine, members: whole(""), from: -1, super: true, want: zk.ErrBadArguments},
		{name: "new members: an unknown key", members: whole(lines(1, 2, 3) + "\ntickTime=2000"), from: -1, super: true, want: zk.ErrBadArguments},
		{name: "new members: no election port", members: whole("server.1=127.0.0.1:27401"), from: -1, super: true, want: zk.ErrBadArguments},
		{name: "new members: no number", members: whole("server.x=127.0.0.1:27401:27402;27403"), from: -1, super: true, want: zk.ErrMarshalling},
		{name: "new members: observers alone", members: whole(strings.ReplaceAll(lines(1, 2), "participant", "observer")), from: -1, super: true, want: zk.ErrMarshalling},
		{name: "new members: one", members: whole(lines(1)), from: -1, super: true, want: zk.ErrBadArguments},
		{name: "new members: one and an observer", members: whole(lines(1) + "\n" + observerNine), from: -1, super: true, want: zk.ErrMarshalling},
		{name: "new members: no quorum", members: whole(lines(1) + "\nserver.8=127.0.0.1:27411:27412;27413\nserver.9=127.0.0.1:27401:27402;27403"), from: -1, super: true, want: zk.ErrNewConfigNoQuorum},
		{name: "new members: a group of nobody known", members: whole(lines(1, 2, 3) + "\ngroup.1=1:2:x\nweight.1=1"), from: -1, super: true, want: zk.ErrMarshalling},
		{name: "new members: in two groups", members: whole(lines(1, 2, 3) + "\ngroup.1=1:2\ngroup.2=2:3"), from: -1, super: true, want: zk.ErrBadArguments},
		{name: "new members: one twice", members: whole(lines(1, 2, 3, 3)), from: -1, super: true, accepted: true, want: zk.ErrBadArguments},
	}
}

func (r *rig) tryChange(m *cluster.Member, c *change) {
	r.t.Helper()
	replies, err := r.visit(m, c.super).Do(reconfig(c.joining, c.leaving, c.members, c.from))
	r.must(err)
	if got := replies[0].Code; got != c.want {
		r.t.Errorf("%s: %v answers %v, want %v", c.name, m, got, c.want)
	}
}

// keepsMembers has a change succeed that changes nothing, and another that leaves out a
// server of no member, and checks what /zookeeper/config is afterwards.
func (r *rig) keepsMembers(m *cluster.Member) {
	r.t.Helper()
	s := r.visit(m, true)
	for _, leaving := range []string{"", "77"} {
		replies, err := s.Do(reconfig("", leaving, nil, -1), client.Get("/zookeeper/config"))
		r.must(err)
		if got := replies[0].Code; got != zk.OK {
			r.t.Fatalf("leaving %q: %v", leaving, got)
		}
		text, stat, err := replies[0].Data()
		r.must(err)
		read, readStat, err := replies[1].Data()
		r.must(err)
		if string(text) != string(read) || stat != readStat {
			r.t.Errorf("answered\n%s\n%+v\n/zookeeper/config has\n%s\n%+v", text, stat, read, readStat)
		}
		if want := fmt.Sprintf("\nversion=%x", int64(replies[0].Zxid)); !strings.HasSuffix(string(text), want) {
			r.t.Errorf("%q does not end with %q", text, want)
		}
		if stat.Version != -1 || stat.Mzxid != replies[0].Zxid || stat.Czxid != 0 || stat.Cversion != 0 || stat.Aversion != -1 {
			r.t.Errorf("the Stat is %+v", stat)
		}
	}
}
