package ensemble

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/auditlog"
	"github.com/pinfold-zk/pinfold/test/ensemble/client"
	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
	"github.com/pinfold-zk/pinfold/zk"
)

// auditOracle is the ensemble whose audit logs the others must have.
const auditOracle = "apache,apache,apache"

// The roles of the members in TestAuditOfThree: the leader, and the followers by their ids.
const (
	leads = iota
	follows
	restarts // a follower that is stopped for a while
)

var auditRoles = [...]string{leads: "the leader", follows: "a follower", restarts: "the follower that restarts"}

// ttlLines are those about TTL znodes, which Apache writes since 3.9.4 (docs/ops/security.md). The
// client that creates the znode is at the follower.
var ttlLines = [len(auditRoles)][]string{follows: {
	"INFO session=S\tuser=A\tip=A\toperation=create\tznode=/short\tznode_type=persistent_with_ttl\tresult=success",
}}

// TestAuditOfThree has clients of each member of an ensemble make changes, with and without success, end and lose
// their sessions, leave containers and TTL znodes to be deleted, and restarts a follower. The lines of
// the audit log of each member are those of Apache 3.8.0's in the same role, apart from what asPinfold does.
func TestAuditOfThree(t *testing.T) {
	ensembles := mixtures(t, "apache-3.9,apache-3.9,apache-3.9", "pinfold,pinfold,pinfold", "pinfold,apache-3.9,apache", "apache,apache-3.9,pinfold")
	want, _ := auditedByThree(t, auditOracle)
	for _, members := range ensembles {
		t.Run(members, func(t *testing.T) {
			got, kinds := auditedByThree(t, members)
			for role, name := range auditRoles {
				lines := want[role]
				if kinds[role] == cluster.Pinfold {
					lines = asPinfold(t, lines, role)
				}
				if diff := cmp.Diff(lines, got[role]); diff != "" {
					t.Errorf("%s (-%s +%s):\n%s", name, auditOracle, kinds[role], diff)
				}
			}
		})
	}
}

// asPinfold returns what a Pinfold writes where Apache writes the lines: those of ttlLines besides, and, about an
// ephemeral, one line. An Apache that starts applies its log from the last snapshot on, and repeats the lines about
// ephemerals.
func asPinfold(t *testing.T, lines []string, role int) []string {
	t.Helper()
	once := slices.CompactFunc(slices.Clone(lines), func(a, b string) bool { return a == b && strings.Contains(a, "\toperation=ephemeral") })
	if repeats := len(lines) - len(once); (repeats > 0) != (role == restarts) {
		t.Errorf("%s of %s repeats %d lines about ephemerals", auditRoles[role], auditOracle, repeats)
	}
	once = append(once, ttlLines[role]...)
	slices.Sort(once)
	return once
}

// auditedByThree returns the lines of the member in each role, sorted, and its kind.
func auditedByThree(t *testing.T, members string) (lines [len(auditRoles)][]string, kinds [len(auditRoles)]cluster.Kind) {
	t.Helper()
	r := newRig(t, members, rigOptions{
		lines: append(reconfigLines(), auditlog.Settings...),
		jvm:   smallJVM + " " + auditlog.Property + " -Dznode.container.checkIntervalMs=500",
	})
	a := r.newAudited()
	a.changes()
	a.reconfigs()
	a.ends()
	a.reaped()
	a.restart()
	for _, m := range r.e.Members {
		_, err := r.e.WaitCaughtUp(r.within(patience), m)
		r.must(err)
	}
	for _, role := range []int{follows, restarts, leads} {
		m := a.members[role]
		r.must(m.Stop())
		printed, err := m.Output()
		r.must(err)
		lines[role], kinds[role] = auditlog.Lines(printed), m.Kind()
		slices.Sort(lines[role])
	}
	return lines, kinds
}

// audited is an ensemble whose members write audit logs.
type audited struct {
	*rig
	members [len(auditRoles)]*cluster.Member // by role
}

func (r *rig) newAudited() *audited {
	r.t.Helper()
	leader, err := r.e.WaitLeader(r.within(patience), func(*cluster.Member) bool { return true })
	r.must(err)
	a := &audited{rig: r}
	a.members[leads] = leader
	followers := slices.DeleteFunc(slices.Clone(r.e.Members), func(m *cluster.Member) bool { return m == leader })
	copy(a.members[follows:], followers)
	return a
}

// session connects a session with the identities to the member in a role.
func (a *audited) session(role int, timeout time.Duration, identities ...string) *client.Session {
	a.t.Helper()
	s := client.New(timeout, patience)
	a.must(s.Connect(a.members[role].Client))
	a.t.Cleanup(s.Drop)
	for _, id := range identities {
		a.do(s, zk.OK, authenticateAs(id))
	}
	return s
}

// do makes requests that are all answered with the code.
func (a *audited) do(s *client.Session, want zk.Code, requests ...client.Request) {
	a.t.Helper()
	replies, err := s.Do(requests...)
	a.must(err)
	for i, reply := range replies {
		if reply.Code != want {
			a.t.Fatalf("%v at %s: %v, want %v", requests[i].Op, s.Addr(), reply.Code, want)
		}
	}
}

// end ends a session.
func (a *audited) end(s *client.Session) {
	a.t.Helper()
	_, err := s.Close()
	a.must(err)
}

// gone waits until a znode does not exist, as the member in a role sees it.
func (a *audited) gone(role int, path string) {
	a.t.Helper()
	s := a.session(role, sessionTimeout)
	a.must(a.e.Until(a.within(patience), func() bool {
		replies, err := s.Do(client.Sync("/"), client.Get(path))
		a.must(err)
		return replies[1].Code == zk.ErrNoNode
	}))
	a.end(s)
}

// changes has clients with different identities at each member make changes, of which some fail.
func (a *audited) changes() {
	a.t.Helper()
	identities := [len(auditRoles)][]string{leads: {"bob:builder"}, follows: {"bob:builder", "ann:a"}, restarts: nil}
	for role, p := range [len(auditRoles)]string{"/leads", "/follows", "/restarts"} {
		s := a.session(role, sessionTimeout, identities[role]...)
		a.do(s, zk.OK,
			client.Create(p, []byte("x"), zk.Persistent),
			client.Create(p+"/e", nil, zk.Ephemeral),
			client.Create(p+"/s-", nil, zk.PersistentSequential),
			client.Create(p+"/t-", nil, zk.EphemeralSequential),
			client.Set(p, []byte("yy"), -1),
			openACL(p, -1),
			client.Multi(client.CreateOp(p+"/m", nil, zk.Persistent), client.SetOp(p+"/m", nil, -1), client.CheckOp(p, -1), client.DeleteOp(p+"/m", -1)),
			client.Multi(client.CheckOp(p, -1)),
			client.Multi(client.CreateOp(p+"/m", nil, zk.Persistent), client.DeleteOp(p+"/none", -1)),
			client.Delete(p+"/e", -1),
			client.Get(p),
		)
		a.do(s, zk.ErrNodeExists, client.Create(p, nil, zk.Persistent))
		a.do(s, zk.ErrNoNode,
			client.Create("/none"+p, nil, zk.EphemeralSequential), client.Set("/none", nil, -1), openACL("/none", -1), client.Delete("/none", -1))
		a.do(s, zk.ErrBadVersion, client.Set(p, nil, 9), openACL(p, 9), client.Delete(p, 9))
		a.do(s, zk.ErrNotEmpty, client.Delete(p, -1))
		a.end(s)
	}
}

// openACL lets everybody do everything with a znode whose ACL has the version.
func openACL(path string, version int32) client.Request {
	r := wire.SetACLRequest{Path: path, ACL: zk.OpenACLUnsafe(), Version: version}
	return client.Request{Op: wire.OpSetACL, Body: r.Append(nil)}
}

// reconfigs has clients at the leader and at a follower ask for other members.
func (a *audited) reconfigs() {
	a.t.Helper()
	for _, role := range []int{leads, follows} {
		s := a.session(role, sessionTimeout, "bob:builder")
		a.do(s, zk.ErrNoAuth, reconfig(observerNine, "", nil, -1))
		a.end(s)
		s = a.session(role, sessionTimeout, "super:test")
		a.do(s, zk.ErrBadVersion, reconfig(observerNine, "", nil, 77))
		a.do(s, zk.ErrBadArguments, reconfig("x", "", nil, -1))
		a.do(s, zk.ErrNewConfigNoQuorum, reconfig(threeAbsent, "", nil, -1))
		a.do(s, zk.OK, reconfig("", "77", nil, -1))
		a.end(s)
	}
}

// ends has sessions with ephemerals end: by the client at each member, at another member than they began
// at, and because the client is gone.
func (a *audited) ends() {
	a.t.Helper()
	for role, p := range [len(auditRoles)]string{"/end-leads", "/end-follows", "/end-restarts"} {
		s := a.session(role, sessionTimeout, "bob:builder")
		a.do(s, zk.OK, client.Create(p, nil, zk.Ephemeral), client.Create(p+"-too", nil, zk.Ephemeral))
		a.end(s)
	}
	moves := a.session(follows, sessionTimeout)
	a.do(moves, zk.OK, client.Create("/moves", nil, zk.Ephemeral))
	a.must(a.e.Until(a.within(patience), func() bool { // refused until that member has the znode
		return moves.Connect(a.members[restarts].Client) == nil
	}))
	a.end(moves)
	for role, p := range [len(auditRoles)]string{"/lost-leads", "/lost-follows", "/lost-restarts"} {
		s := a.session(role, shortTimeout)
		a.do(s, zk.OK, client.Create(p, nil, zk.Ephemeral))
		s.Drop()
	}
	for _, p := range []string{"/lost-leads", "/lost-follows", "/lost-restarts"} {
		a.gone(leads, p)
	}
}

// reaped leaves a container and a TTL znode, made by a client of a follower, to be deleted.
func (a *audited) reaped() {
	a.t.Helper()
	s := a.session(follows, sessionTimeout)
	a.do(s, zk.OK,
		createAs(wire.OpCreateContainer, "/box", zk.Container, 0, zk.OpenACLUnsafe()),
		createAs(wire.OpCreateTTL, "/short", zk.PersistentWithTTL, 100, zk.OpenACLUnsafe()),
		client.Create("/box/child", nil, zk.Persistent), client.Delete("/box/child", -1))
	a.end(s)
	a.gone(follows, "/box")
	a.gone(follows, "/short")
}

// restart has a session with an ephemeral end while a follower is down.
func (a *audited) restart() {
	a.t.Helper()
	m := a.members[restarts]
	s := a.session(leads, sessionTimeout)
	a.do(s, zk.OK, client.Create("/missed", nil, zk.Ephemeral))
	_, err := a.e.WaitCaughtUp(a.within(patience), m)
	a.must(err)
	a.must(m.Stop())
	a.end(s)
	a.must(m.Start())
	_, err = m.WaitServing(a.within(patience))
	a.must(err)
	back := a.session(restarts, sessionTimeout)
	a.do(back, zk.OK, client.Create("/back", nil, zk.Ephemeral))
	a.end(back)
}
