package client

import (
	"context"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// threeMembers is a configuration as servers hold it.
const threeMembers = `server.1=a:2888:3888:participant;0.0.0.0:1
server.2=b:2888:3888|b2:2889:3889:participant;b:1
server.3=[0:0:0:0:0:0:0:1]:2888:3888:observer
version=100000007`

func TestParseMembers(t *testing.T) {
	m, err := ParseMembers([]byte(threeMembers))
	if err != nil || m.Version != 0x100000007 || len(m.Members) != 3 || m.Groups {
		t.Fatalf("%+v, %v", m, err)
	}
	one, two, three := m.Find(1), m.Find(2), m.Find(3)
	if m.Find(4) != nil || one.ClientAddr() != "a:1" || two.ClientAddr() != "b:1" || three.ClientAddr() != "" {
		t.Errorf("for clients: %q, %q, %q", one.ClientAddr(), two.ClientAddr(), three.ClientAddr())
	}
	if !slices.Equal(two.Addresses, []MemberAddress{{"b", 2888, 3888}, {"b2", 2889, 3889}}) || !three.Observer || two.Observer {
		t.Errorf("%+v, %+v", two, three)
	}
	if one.Line() != "server.1=a:2888:3888:participant;0.0.0.0:1" || three.Addresses[0].Host != "::1" {
		t.Errorf("line %q, host %q", one.Line(), three.Addresses[0].Host)
	}
	if m, err := ParseMembers([]byte("\n")); err != nil || len(m.Members) != 0 {
		t.Errorf("a standalone server: %+v, %v", m, err)
	}
	if _, err := ParseMembers([]byte("server.1=a")); err == nil {
		t.Error("a line without ports is read")
	}
	if m, err := ParseMembers([]byte(threeMembers + "\ngroup.1=1:2\nweight.1=2")); err != nil || !m.Groups {
		t.Errorf("groups: %+v, %v", m, err)
	}
}

func TestParseMember(t *testing.T) {
	for text, want := range map[string]string{
		"4=h:1:2;3":                            "server.4=h:1:2:participant;0.0.0.0:3",
		"server.5=h:1:2|observer:3:4:observer": "server.5=h:1:2|observer:3:4:observer",
		"server.x=h:1:2":                       "",
		"-1=h:1:2":                             "",
		"server.4":                             "",
		"4=h:1":                                "",
	} {
		m, err := ParseMember(text)
		if (err == nil) != (want != "") || err == nil && m.Line() != want {
			t.Errorf("%s: %q, %v; want %q", text, m.Line(), err, want)
		}
		if err != nil {
			continue
		}
		for _, observer := range []bool{true, false, m.Observer} {
			if m = m.WithRole(observer); m.Observer != observer {
				t.Errorf("%s: the role is not %v", text, observer)
			}
			if again, err := ParseMember(m.Line()); err != nil || again.Observer != observer || len(again.Addresses) != len(m.Addresses) {
				t.Errorf("%s: as %q: %+v, %v", text, m.Line(), again, err)
			}
		}
		if m.Line() != want {
			t.Errorf("%s: at last %q", text, m.Line())
		}
	}
}

// The configuration can be read as a value, in both forms.
func TestMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, p := connected(t, "a:1/chroot")
		got := make(chan Members, 1)
		c.MembersAsync(t.Context(), func(m Members, err error) {
			if err != nil {
				t.Error(err)
			}
			got <- m
		})
		a := p.expect(wire.OpGetData)
		if a.path() != configPath || a.watches() {
			t.Errorf("asked %q", a.body)
		}
		p.reply(a.xid, 8, zk.OK, buffer(threeMembers), statOf(-1))
		if m := <-got; m.Version != 0x100000007 {
			t.Errorf("%+v", m)
		}
		failed := after(func() error { _, err := c.Members(t.Context()); return err })
		p.reply(p.expect(wire.OpGetData).xid, 8, zk.OK, buffer("version=x"), statOf(-1))
		check(t, "an unreadable configuration", <-failed, zk.ErrMarshalling, false)
	})
}

// tellMembers answers the request for the configuration, with its watch.
func (p *peer) tellMembers(lines ...string) {
	p.t.Helper()
	a := p.expect(wire.OpGetData)
	if a.path() != configPath || !a.watches() {
		p.t.Errorf("asked %q", a.body)
	}
	p.reply(a.xid, 8, zk.OK, buffer(strings.Join(lines, "\n")), statOf(-1))
}

// follower connects to a:1, follows the members, and leaves a server always if it may.
func follower(t *testing.T) (*Client, *ensemble, *peer) {
	c, e, p := connected(t, "a:1", FollowMembers(Member.ClientAddr))
	c.hosts.(*serverList).draw = func() float64 { return 0 }
	return c, e, p
}

const (
	lineA = "server.1=10.0.0.1:2888:3888;a:1"
	lineB = "server.2=10.0.0.2:2888:3888;b:1"
)

// A Client that follows the members goes where the configuration says, with its session.
func TestFollowMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, e, p := follower(t)
		p.tellMembers(lineA, "server.3=10.0.0.3:2888:3888;c:1", "version=1") // the connect string has not all: no reason to leave
		p.silent()
		p.event(zk.EventNodeDataChanged, configPath)
		p.tellMembers(lineA, lineB, "server.3=10.0.0.3:2888:3888;c:1", "version=2") // grows: it leaves for the new one
		p.ended()
		p = e.accept()
		if ask := p.greet(9 * time.Second); p.addr != "b:1" || ask.SessionID != testSession {
			t.Errorf("at %s with session %v", p.addr, ask.SessionID)
		}
		p.expect(wire.OpSetWatches)
		p.silent()
		p.event(zk.EventNodeDataChanged, configPath)
		p.tellMembers(lineA, "version=1") // a server that lags: nothing changes
		p.silent()
		p.event(zk.EventNodeDataChanged, configPath)
		p.tellMembers("server.2=10.0.0.2:2888:3888", "version=3") // no address for clients
		p.silent()
		p.event(zk.EventNodeDataChanged, configPath)
		p.tellMembers(lineA, "version=4") // its server leaves
		p.ended()
		if p = e.accept(); p.addr != "a:1" {
			t.Errorf("at %s", p.addr)
		}
	})
}

// A server that the connect string names in another way is not left for that.
func TestFollowKnowsTheServerByItsAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t)
		c, p := e.client("10.0.0.1:1", FollowMembers(Member.ClientAddr), LookUp(addresses{"zk1": {"10.0.0.1"}, "zk2": {"10.0.0.2"}}))
		p.tellMembers("server.1=zk1:2888:3888;1", "version=1")
		p.silent()
		if c.State() != Connected {
			t.Errorf("the client is %v", c.State())
		}
		p.event(zk.EventNodeDataChanged, configPath)
		p.tellMembers("server.2=zk2:2888:3888;1", "version=2")
		p.ended()
		if p = e.accept(); p.addr != "10.0.0.2:1" {
			t.Errorf("at %s", p.addr)
		}
	})
}

// addresses is a Resolver that knows some names.
type addresses map[string][]string

// LookupHost returns the addresses of a known name.
func (a addresses) LookupHost(_ context.Context, host string) ([]string, error) {
	if found, ok := a[host]; ok {
		return found, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

// A configuration that cannot be had is asked for again, after a while; and a Client
// that ends does not wait for it.
func TestFollowAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, e, p := follower(t)
		begun := time.Now()
		a := p.expect(wire.OpGetData)
		p.reply(a.xid, 8, zk.ErrNoAuth)
		for time.Since(begun) < followAgain {
			a = p.next()
			if a.op == wire.OpGetData {
				break
			}
			p.reply(a.xid, 8, zk.OK)
		}
		if d := time.Since(begun); d != followAgain {
			t.Errorf("asked again after %v", d)
		}
		p.cut()
		p = e.accept()
		p.greet(9 * time.Second)
		p.tellMembers(lineA, "version=1")
		p.silent()
		closed := after(c.Close)
		p.reply(p.expect(wire.OpCloseSession).xid, 9, zk.OK)
		if err := <-closed; err != nil {
			t.Error(err)
		}
	})
}

func TestFollowNeedsTheConnectString(t *testing.T) {
	_, err := Dial(t.Context(), "", Hosts(newServerList([]string{"z:1"}, names{})), FollowMembers(Member.ClientAddr))
	if err == nil || !strings.Contains(err.Error(), "exclude each other") {
		t.Errorf("dial: %v", err)
	}
}
