package peerauth

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/kerberos"
	"github.com/pinfold-zk/pinfold/test/tickets"
)

// byKerberos is the Options of a server whose ticket is that of client, and that asks to be
// identity.
func byKerberos(t *testing.T, client, identity string, names *Names) Options {
	t.Helper()
	a, err := kerberos.NewAcceptor(kerberos.AcceptorOptions{Principal: tickets.Service, DefaultRealm: tickets.Realm, Keytab: tickets.Keytab(t)})
	if err != nil {
		t.Fatal(err)
	}
	ticket := tickets.New(t, func(i *tickets.Issue) { i.Client = client })
	l, err := kerberos.NewLogin(kerberos.Credentials{Cache: tickets.Cache(t, ticket), Config: tickets.Config(t)})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{LearnerRequired: true, ServerRequired: true, Server: KerberosServer(a, names), Learner: KerberosLearner(l, "zookeeper/_HOST", names)}
	if identity != "" {
		o.Learner = func(ctx context.Context, _ string) (Learner, error) {
			x, first, err := l.Begin(ctx, tickets.Service, kerberos.InitiatorOptions{Identity: identity})
			return &kerberosLearner{x, first}, err
		}
	}
	return o
}

// The host in a principal decides. CVE-2023-44981 was that a principal without one passed.
func TestKerberosHosts(t *testing.T) {
	for _, c := range []struct{ client, identity, err string }{
		{"zkquorum/zk1.example.com", "", ""},
		{"another/zk1.example.com", "", ""}, // Apache's guide uses one name for learners and one for servers
		{"zkquorum/zk2.example.com", "", "names a host that no server line has"},
		{"zkquorum", "", "names no host"},
		{"zk1.example.com", "", "names no host"},
		{"zkquorum/zk2.example.com", "zkquorum/zk1.example.com@EXAMPLE.COM", "asks to be"},
	} {
		learner := byKerberos(t, c.client, c.identity, nil)
		o := connectHost(t, learner, learner, "HOST.example.com", "zk0", "ZK1.example.com")
		if c.err == "" {
			if o.proved != nil || o.admitted != nil || o.name != c.client+"@EXAMPLE.COM" || o.next != "what comes next" {
				t.Errorf("%s: %+v", c.client, o)
			}
			continue
		}
		if !errors.Is(o.admitted, ErrRefused) || !strings.Contains(o.admitted.Error(), c.err) || !errors.Is(o.proved, ErrRefused) {
			t.Errorf("%s: %v, %v; want %q", c.client, o.admitted, o.proved, c.err)
		}
	}
}

// A server and a learner with different mechanisms do not log in.
func TestMechanismsDiffer(t *testing.T) {
	digest, ticket := ensemble("secret", true, true), byKerberos(t, "zkquorum/zk1.example.com", "", nil)
	for _, o := range []outcome{connect(t, digest, ticket), connectHost(t, ticket, digest, "host.example.com")} {
		if !errors.Is(o.proved, ErrRefused) || o.admitted == nil || o.name != "" {
			t.Errorf("%+v", o)
		}
	}
}

// Without a ticket there is no login, and the error does not blame the other server.
func TestNoTicket(t *testing.T) {
	o := byKerberos(t, "zkquorum/zk1.example.com", "", nil)
	err := New(o).Prove(t.Context(), strings.NewReader(""), nil, "elsewhere.example.com")
	if err == nil || errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "elsewhere.example.com") {
		t.Errorf("%v", err)
	}
}

// A server's last word counts only when the exchange is complete.
func TestLastWordOfKerberos(t *testing.T) {
	o := byKerberos(t, "zkquorum/zk1.example.com", "", nil)
	for _, token := range [][]byte{nil, {}, []byte("token")} {
		l, err := o.Learner(t.Context(), "host.example.com")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Answer(token, true); err == nil {
			t.Errorf("%q is taken for the end of the login", token)
		}
	}
}

func TestCutHost(t *testing.T) {
	type parts struct {
		service, realm string
		ok             bool
	}
	for principal, want := range map[string]parts{
		"zkquorum/localhost": {"zkquorum", "", false}, "zkquorum/_HOST": {"zkquorum", "", true},
		"zkquorum/_HOST@R": {"zkquorum", "@R", true}, "zkquorum": {"zkquorum", "", false}, "a/_HOSTS": {"a", "", false},
	} {
		service, realm, ok := cutHost(principal)
		if got := (parts{service, realm, ok}); got != want {
			t.Errorf("%s: %+v, want %+v", principal, got, want)
		}
	}
}

// FuzzKerberosLogin: no tokens get in without a ticket.
func FuzzKerberosLogin(f *testing.F) {
	a, err := kerberos.NewAcceptor(kerberos.AcceptorOptions{Principal: tickets.Service, DefaultRealm: tickets.Realm, Keytab: tickets.Keytab(f)})
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte("\x60\x82\x00\x10\x06\x09\x2A\x86\x48\x86\xF7\x12\x01\x02\x02\x01\x00"), []byte{})
	f.Fuzz(func(t *testing.T, first, second []byte) {
		s := KerberosServer(a, nil)(noHost)
		for _, token := range [][]byte{first, second} {
			if _, name, done, _ := s.Step(token); done || name != "" {
				t.Errorf("%q is logged in by %x, %x", name, first, second)
			}
		}
	})
}
