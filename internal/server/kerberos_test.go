package server

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/kerberos"
	"github.com/pinfold-zk/pinfold/internal/refusal"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/tickets"
	"github.com/pinfold-zk/pinfold/zk"
)

// newKerberosRig starts a server where bob, super and root log in by DIGEST-MD5, and
// every principal of the realm by Kerberos.
func newKerberosRig(t *testing.T, change func(*rigSetup)) *rig {
	t.Helper()
	s := newSASLRig(t, change)
	a, err := kerberos.NewAcceptor(kerberos.AcceptorOptions{Principal: tickets.Service + "@" + tickets.Realm, Keytab: tickets.Keytab(t)})
	if err != nil {
		t.Fatal(err)
	}
	rules, err := kerberos.ParseRules("DEFAULT", tickets.Realm)
	if err != nil {
		t.Fatal(err)
	}
	s.srv.logins.Kerberos, s.srv.logins.Names.Rules = a, rules
	return s
}

// initiation begins a login of the client's half as the principal.
func initiation(t testing.TB, principal string, oneWay bool) (*kerberos.Initiation, []byte) {
	t.Helper()
	name, realm, _ := strings.Cut(principal, "@")
	k := tickets.New(t, func(i *tickets.Issue) { i.Client, i.Realm = name, realm })
	l, err := kerberos.NewLogin(kerberos.Credentials{Cache: tickets.Cache(t, k), Config: tickets.Config(t)})
	if err != nil {
		t.Fatal(err)
	}
	x, token, err := l.Begin(t.Context(), tickets.Service+"@"+tickets.Realm, kerberos.InitiatorOptions{OneWay: oneWay})
	if err != nil {
		t.Fatal(err)
	}
	return x, token
}

// kerberosLogin logs in and returns the answer to the last token.
func (c *wireClient) kerberosLogin(principal string, oneWay bool) tokenReply {
	c.t.Helper()
	x, token := initiation(c.t, principal, oneWay)
	for {
		r := c.token(token)
		if x.Done() || r.code != zk.OK {
			return r
		}
		var err error
		if token, err = x.Step([]byte(r.token)); err != nil {
			c.t.Fatal(err)
		}
	}
}

// TestKerberosLogin: the last answer is null, and the client has the mapped identity.
func TestKerberosLogin(t *testing.T) {
	for _, tt := range []struct {
		principal, user string
		names           kerberos.Mapping
	}{
		{"bob@EXAMPLE.COM", "bob@EXAMPLE.COM", kerberos.Mapping{}},
		{"bob/h@EXAMPLE.COM", "bob/h@EXAMPLE.COM", kerberos.Mapping{}},
		{"bob/h@EXAMPLE.COM", "bob@EXAMPLE.COM", kerberos.Mapping{DropHost: true}},
		{"root/h@EXAMPLE.COM", "root", kerberos.Mapping{DropHost: true, DropRealm: true}},
		{"root/h@ELSEWHERE", "root/h@ELSEWHERE", kerberos.Mapping{DropHost: true, DropRealm: true}},
	} {
		t.Run(tt.principal+" as "+tt.user, func(t *testing.T) {
			s := newKerberosRig(t, nil)
			tt.names.Rules = s.srv.logins.Names.Rules
			s.srv.logins.Names = tt.names
			for _, oneWay := range []bool{true, false} {
				c := s.open()
				if r := c.kerberosLogin(tt.principal, oneWay); r.code != zk.OK || !r.null {
					t.Fatalf("one way %v: the last answer is %+v, want null", oneWay, r)
				}
				got := c.whoAmI()
				if want := "sasl:" + tt.user; len(got) < 2 || got[1] != want {
					t.Errorf("%v, want %s", got, want)
				}
				if super := len(got) == 3; super != (tt.user == "root") {
					t.Errorf("superuser %v: %v", super, got)
				}
			}
		})
	}
}

// TestKerberosBesideDigest: the first token shows the mechanism.
func TestKerberosBesideDigest(t *testing.T) {
	s := newKerberosRig(t, nil)
	bob := s.open()
	bob.mustLogin("bob", "b")
	if r := s.open().kerberosLogin("eve@EXAMPLE.COM", false); r.code != zk.OK {
		t.Errorf("%+v", r)
	}
	s.srv.logins.Digest = nil
	c := s.open()
	if r := c.token([]byte{}); r.code != zk.ErrAuthFailed || !r.null {
		t.Errorf("a token of DIGEST-MD5 with Kerberos alone: %+v", r)
	}
	c.mustBeOver()
}

// TestKerberosRefused: tokens that are cut, repeated, huge, null or out of order are
// answered as Apache does, with a line in the log, and others are not disturbed.
func TestKerberosRefused(t *testing.T) {
	s := newKerberosRig(t, nil)
	innocent := s.open()
	var used []byte
	for name, send := range map[string]func(c *wireClient) tokenReply{
		"cut": func(c *wireClient) tokenReply {
			_, token := initiation(t, "bob@EXAMPLE.COM", false)
			return c.token(token[:len(token)-9])
		},
		"repeated at once": func(c *wireClient) tokenReply {
			_, token := initiation(t, "bob@EXAMPLE.COM", true)
			c.token(token)
			return c.token(token)
		},
		"replayed": func(c *wireClient) tokenReply {
			_, used = initiation(t, "bob@EXAMPLE.COM", true)
			if r := s.open().token(used); r.code != zk.OK {
				t.Errorf("the first use: %+v", r)
			}
			return c.token(used)
		},
		"huge": func(c *wireClient) tokenReply {
			_, token := initiation(t, "bob@EXAMPLE.COM", true)
			return c.token(append(token, make([]byte, 200<<10)...))
		},
		"another mechanism": func(c *wireClient) tokenReply { return c.token([]byte("`\x06\x06\x2b\x06\x01\x05\x05\x02")) },
		"empty where a choice is due": func(c *wireClient) tokenReply {
			_, token := initiation(t, "bob@EXAMPLE.COM", true)
			c.token(token)
			return c.token([]byte{})
		},
		"not empty where an empty one is due": func(c *wireClient) tokenReply {
			_, token := initiation(t, "bob@EXAMPLE.COM", false)
			c.token(token)
			return c.token([]byte{1})
		},
		"after the login": func(c *wireClient) tokenReply {
			c.kerberosLogin("bob@EXAMPLE.COM", true)
			_, token := initiation(t, "bob@EXAMPLE.COM", true)
			return c.token(token)
		},
		"DIGEST-MD5 in the middle": func(c *wireClient) tokenReply {
			_, token := initiation(t, "bob@EXAMPLE.COM", true)
			c.token(token)
			return c.token([]byte(`username="bob"`))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := s.open()
			if r := send(c); r.code != zk.ErrAuthFailed || !r.null {
				t.Errorf("%+v, want -115 and null", r)
			}
			c.mustBeOver()
		})
	}
	if !innocent.has("/zookeeper") {
		t.Error("another client is disturbed")
	}
}

// TestKerberosRefusalIsLogged: the line names the client and the reason.
func TestKerberosRefusalIsLogged(t *testing.T) {
	var log bytes.Buffer
	s := newKerberosRig(t, nil)
	s.srv.refused = refusal.New(slog.New(slog.NewTextHandler(&log, nil)))
	c := s.open()
	_, token := initiation(t, "bob@EXAMPLE.COM", true)
	c.token(token[:40])
	c.mustBeOver()
	if got := log.String(); !strings.Contains(got, "a SASL login failed") || !strings.Contains(got, "none of GSSAPI") || !strings.Contains(got, "client=") {
		t.Errorf("log: %s", got)
	}
}

// TestKerberosPipelined: what follows a login in one write has the new identity.
func TestKerberosPipelined(t *testing.T) {
	s := newKerberosRig(t, nil)
	c := s.open()
	if code := c.createFor("/mine", zk.ID{Scheme: "sasl", ID: "bob@EXAMPLE.COM"}); code != zk.OK {
		t.Fatal(code)
	}
	x, token := initiation(t, "bob@EXAMPLE.COM", true)
	r := c.token(token)
	last, err := x.Step([]byte(r.token))
	if err != nil {
		t.Fatal(err)
	}
	all := encode(nil, 100, wire.OpGetData, readBody("/mine", false))
	all = encode(all, 101, wire.OpSASL, jute.AppendBuffer(nil, last))
	all = encode(all, 102, wire.OpGetData, readBody("/mine", false))
	if err := c.write(all); err != nil {
		t.Fatal(err)
	}
	for i, want := range []zk.Code{zk.ErrNoAuth, zk.OK, zk.OK} {
		if r, err := c.nextReply(); err != nil || r.Xid != int32(100+i) || r.Err != want {
			t.Errorf("%+v, %v; want %v for %d", r, err, want, 100+i)
		}
	}
}

// TestKerberosFailedClients: who failed may stay, or is told that SASL is required.
func TestKerberosFailedClients(t *testing.T) {
	stay := newKerberosRig(t, func(s *rigSetup) { s.cfg.Auth.SASL.AllowFailed = true }).open()
	if r := stay.token([]byte("`x")); r.code != zk.OK || !r.null || len(stay.whoAmI()) != 1 {
		t.Errorf("may stay: %+v", r)
	}
	required := newKerberosRig(t, func(s *rigSetup) { s.cfg.Auth.RequireSASL = true })
	c := required.open()
	if r := c.token([]byte("`x")); r.code != zk.ErrSessionClosedRequireSaslAuth || !r.null {
		t.Errorf("required: %+v", r)
	}
	c.mustBeOver()
	in := required.open()
	if r := in.kerberosLogin("bob@EXAMPLE.COM", false); r.code != zk.OK || !in.has("/") {
		t.Errorf("logged in: %+v", r)
	}
	if _, err := kerberos.NewLogin(kerberos.Credentials{Cache: "/nowhere"}); errors.Is(err, kerberos.ErrRefused) {
		t.Error("a missing cache is no refusal")
	}
}
