package client

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/kerberos"
	"github.com/pinfold-zk/pinfold/test/tickets"
	"github.com/pinfold-zk/pinfold/zk"
)

// newKerberos returns a mechanism with a ticket for host.example.com, and a server.
func newKerberos(t *testing.T) (Mechanism, *kerberos.Acceptor) {
	t.Helper()
	m, err := Kerberos(KerberosOptions{Cache: tickets.Cache(t, tickets.New(t, nil)), Config: tickets.Config(t)})
	if err != nil {
		t.Fatal(err)
	}
	a, err := kerberos.NewAcceptor(kerberos.AcceptorOptions{Principal: tickets.Service + "@" + tickets.Realm, Keytab: tickets.Keytab(t)})
	if err != nil {
		t.Fatal(err)
	}
	return m, a
}

// TestKerberos: one mechanism logs in at every connection.
func TestKerberos(t *testing.T) {
	m, a := newKerberos(t)
	for range 3 {
		x := a.Begin()
		if err := m.Authenticate(t.Context(), "Host.example.com", x.Step); err != nil {
			t.Fatal(err)
		}
		if name, _ := x.Principal(); name != "bob/admin@EXAMPLE.COM" || x.Identity() != name {
			t.Errorf("logged in as %q, asked for %q", name, x.Identity())
		}
	}
}

// TestKerberosFails: which failures end the Client, and which let it try again.
func TestKerberosFails(t *testing.T) {
	m, a := newKerberos(t)
	over := errors.New("over")
	for name, tt := range map[string]struct {
		host  string
		send  func([]byte) ([]byte, error)
		fatal bool
		want  string
	}{
		"no logins":    {"host.example.com", func([]byte) ([]byte, error) { return nil, nil }, true, "no logins"},
		"refused":      {"host.example.com", func([]byte) ([]byte, error) { return nil, zk.ErrAuthFailed }, true, "principal bob/admin@EXAMPLE.COM"},
		"lost":         {"host.example.com", func([]byte) ([]byte, error) { return nil, over }, false, "over"},
		"no proof":     {"host.example.com", func([]byte) ([]byte, error) { return []byte("x"), nil }, false, "none of GSSAPI"},
		"no ticket":    {"other.example.com", a.Begin().Step, false, "run kinit"},
		"no principal": {"a//b", a.Begin().Step, false, "is no principal"},
	} {
		err := m.Authenticate(t.Context(), tt.host, tt.send)
		if err == nil || errors.Is(err, zk.ErrAuthFailed) != tt.fatal || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := m.Authenticate(ended, "other.example.com", a.Begin().Step); err == nil {
		t.Error("it goes on after the end of its context")
	}
	for want, o := range map[string]KerberosOptions{
		"run kinit":       {Cache: "/nowhere"},
		"no such file":    {Cache: "/nowhere", Config: "/nowhere"},
		"is no principal": {Keytab: "/nowhere"},
	} {
		if o.Config == "" {
			o.Config = tickets.Config(t)
		}
		if _, err := Kerberos(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
}

// TestServerPrincipals: the principal of a server, from its host.
func TestServerPrincipals(t *testing.T) {
	for want, o := range map[string]KerberosOptions{
		"zookeeper/zk1.example.com":   {},
		"zoo/zk1.example.com":         {Service: "zoo"},
		"zookeeper/zk1.example.com@R": {Realm: "R"},
		"any/thing@R":                 {Server: "any/thing@R", Service: "zoo", Realm: "S"},
	} {
		if got := (&gssapi{options: o}).server(t.Context(), "ZK1.example.com"); got != want {
			t.Errorf("%+v: %s, want %s", o, got, want)
		}
	}
	o := KerberosOptions{Canonicalize: true}
	if got := (&gssapi{options: o}).server(t.Context(), "127.0.0.1"); got != "zookeeper/127.0.0.1" {
		t.Errorf("an address: %s", got)
	}
}
