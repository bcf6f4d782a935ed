package kerberos

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/types"

	"github.com/pinfold-zk/pinfold/test/tickets"
)

// write makes a file in a directory of the test.
func write(t testing.TB, dir, name, content string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestSettings: sections of all files together, whatever else is in them.
func TestSettings(t *testing.T) {
	dir := t.TempDir()
	more := filepath.Join(dir, "conf.d")
	if err := os.Mkdir(more, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, more, "one.conf", "[realms]\n B = {\n  kdc = b.example:1088\n }\n")
	write(t, more, ".hidden.conf", "not a configuration")
	write(t, more, "two.conf~", "not a configuration")
	file := write(t, dir, "krb5.conf", `# comment
includedir `+more+`
module /x/y:z
[libdefaults]
	default_realm = A   ; comment
	clockskew = 120
[logging]
 kdc = FILE:/x
[realms]
 A = {
  kdc = a.example
  auth_to_local_names = {
    fred = freddy
  }
  admin_server = a.example
 }
[domain_realm]
 .b.example = B
`)
	s, err := ReadSettings(file)
	if err != nil {
		t.Fatal(err)
	}
	if s.Realm() != "A" || s.Skew() != 2*time.Minute || len(s.conf.Realms) != 2 || s.conf.ResolveRealm("x.b.example") != "B" {
		t.Errorf("realm %q, skew %v, realms %+v", s.Realm(), s.Skew(), s.conf.Realms)
	}
	if got := s.conf.LibDefaults.DefaultTktEnctypeIDs; len(got) != len(enctypes) {
		t.Errorf("encryption types %v", got)
	}
	t.Setenv("KRB5_CONFIG", file+":/other")
	if s, err := ReadSettings(""); err != nil || s.Realm() != "A" {
		t.Errorf("by KRB5_CONFIG: %v", err)
	}
	t.Setenv("KRB5_CONFIG", filepath.Join(dir, "absent"))
	if s, err := ReadSettings(""); err != nil || s.Realm() != "" || s.Skew() != DefaultSkew {
		t.Errorf("without a file: %v", err)
	}
	loop := write(t, dir, "loop.conf", "include "+filepath.Join(dir, "loop.conf"))
	for _, bad := range []string{filepath.Join(dir, "absent"), loop, write(t, dir, "bad.conf", "[libdefaults]\n clockskew = soon\n")} {
		if _, err := ReadSettings(bad); err == nil {
			t.Errorf("%s is read", bad)
		}
	}
}

// Names of KDCs that are given replace those of krb5.conf for the realm that is given, as in Java.
func TestOverride(t *testing.T) {
	file := write(t, t.TempDir(), "krb5.conf", "[libdefaults]\n default_realm = A\n[realms]\n A = {\n  kdc = a.example\n }\n B = {\n  kdc = b.example\n }\n")
	for _, c := range []struct {
		realm string
		kdcs  []string
		want  [3]string // the default realm, the KDCs of A and of B
	}{
		{"", nil, [3]string{"A", "a.example:88", "b.example:88"}},
		{"B", nil, [3]string{"B", "a.example:88", "b.example:88"}},
		{"B", []string{"k1", "k2"}, [3]string{"B", "a.example:88", "k1:88 k2:88"}},
		{"C", []string{"k1"}, [3]string{"C", "a.example:88", "b.example:88"}},
	} {
		s, err := ReadSettings(file)
		if err != nil {
			t.Fatal(err)
		}
		s.Override(c.realm, c.kdcs)
		kdcsOf := func(realm string) string {
			_, list, err := s.conf.GetKDCs(realm, true)
			if err != nil {
				t.Error(err)
			}
			return strings.Join(slices.Sorted(maps.Values(list)), " ")
		}
		if got := [3]string{s.Realm(), kdcsOf("A"), kdcsOf("B")}; got != c.want {
			t.Errorf("%q %q: %q, want %q", c.realm, c.kdcs, got, c.want)
		}
		if c.realm == "C" && kdcsOf("C") != "k1:88" {
			t.Errorf("a realm that krb5.conf lacks has %s", kdcsOf("C"))
		}
	}
}

// granting issues a ticket-granting ticket, sealed with any key.
func granting(t testing.TB, client string, till time.Duration) tickets.Ticket {
	t.Helper()
	k := tickets.New(t, func(i *issue) { i.Client, i.Till = client, till })
	k.Service = "krbtgt/" + realm
	return k
}

// TestTicketCache: whose cache it is, and what is wrong with one.
func TestTicketCache(t *testing.T) {
	r, dir := newRig(t), t.TempDir()
	conf := tickets.Config(t)
	good := tickets.Cache(t, granting(t, "bob/admin", time.Hour))
	for _, c := range []Credentials{{Cache: good}, {Cache: "FILE:" + good}, {Cache: good, Principal: "bob/admin"}, {Cache: good, Principal: "bob/admin@EXAMPLE.COM"}} {
		c.Config = conf
		l, err := NewLogin(c)
		if err != nil || l.Principal() != "bob/admin@EXAMPLE.COM" {
			t.Errorf("%+v: %v", c, err)
		}
	}
	t.Setenv("KRB5CCNAME", "FILE:"+good)
	if _, err := NewLogin(Credentials{Config: conf}); err != nil {
		t.Errorf("KRB5CCNAME: %v", err)
	}
	for want, c := range map[string]Credentials{
		"not of eve":          {Cache: good, Principal: "eve"},
		"run kinit":           {Cache: filepath.Join(dir, "absent")},
		"only files":          {Cache: "KEYRING:persistent:0"},
		"its first two bytes": {Cache: conf},
		"it is damaged":       {Cache: write(t, dir, "cut", "\x05\x04\x00")},
		"has no key of":       {Keytab: r.file, Principal: "bob"},
		"is no principal":     {Keytab: r.file},
	} {
		c.Config = conf
		if _, err := NewLogin(c); err == nil || !strings.Contains(strings.ToLower(err.Error()), want) {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
	}
}

// TestExpiredCache: the cache's ticket has expired, until kinit makes another one.
func TestExpiredCache(t *testing.T) {
	conf := tickets.Config(t)
	file := tickets.Cache(t, granting(t, "bob", -time.Second))
	l, err := NewLogin(Credentials{Cache: file, Config: conf})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.Begin(t.Context(), service, InitiatorOptions{}); err == nil || !strings.Contains(err.Error(), "has expired") {
		t.Errorf("%v", err)
	}
	if err := os.Rename(tickets.Cache(t, granting(t, "bob", time.Hour)), file); err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.Begin(t.Context(), service, InitiatorOptions{}); err == nil || strings.Contains(err.Error(), "has expired") {
		t.Errorf("after kinit: %v; want that no KDC answers", err)
	}
}

// TestCachedServiceTicket: a ticket for the service in the cache needs no KDC.
func TestCachedServiceTicket(t *testing.T) {
	r := newRig(t)
	l, err := NewLogin(Credentials{Cache: tickets.Cache(t, tickets.New(t, nil)), Config: tickets.Config(t)})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{service, service + "@" + realm} {
		x, token, err := l.Begin(t.Context(), name, InitiatorOptions{})
		for s := r.Begin(); err == nil && !x.Done(); {
			if token, err = s.Step(token); err == nil {
				token, err = x.Step(token)
			}
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTicketsAreKept: a ticket is used until most of its lifetime is over, and after that
// as long as the KDC gives none.
func TestTicketsAreKept(t *testing.T) {
	r, conf := newRig(t), tickets.Config(t)
	l, err := NewLogin(Credentials{Cache: tickets.Cache(t, granting(t, "bob/admin", time.Hour)), Config: conf})
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		from, till time.Duration
		good       bool
	}{
		"fresh":   {-time.Minute, time.Hour, true},
		"old":     {-time.Hour, time.Minute, true},
		"expired": {-time.Hour, -time.Second, false},
	} {
		k := r.ticket(nil)
		k.from, k.till = time.Now().Add(tt.from), time.Now().Add(tt.till)
		l.keep(service+"@"+realm, k)
		_, token, err := l.Begin(t.Context(), service, InitiatorOptions{})
		if tt.good != (err == nil) || tt.good && !Begins(token) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzFiles: no key table, ticket cache or krb5.conf ends the process, whatever is in it.
func FuzzFiles(f *testing.F) {
	r, dir := newRig(f), f.TempDir()
	conf := write(f, dir, "krb5.conf", "[libdefaults]\n default_realm = EXAMPLE.COM\n[realms]\n A = {\n kdc = x\n }\n[domain_realm]\n .x = A\n")
	for i, name := range []string{r.file, tickets.Cache(f, granting(f, "bob", time.Hour), tickets.New(f, func(i *issue) { i.Client = "bob" })), conf} {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(byte(i), b)
	}
	f.Fuzz(func(t *testing.T, kind byte, b []byte) {
		if bytes.Contains(b, []byte("include")) {
			return // it would read other files
		}
		file := write(t, dir, fmt.Sprint("input", os.Getpid()), string(b))
		switch kind % 3 {
		case 0:
			if k, err := readKeys(file); err == nil {
				holds(k, "x")
			}
		case 1:
			if l, err := NewLogin(Credentials{Cache: file, Config: conf}); err == nil && strings.Count(l.Principal(), "@") != 1 {
				t.Errorf("principal %q", l.Principal())
			}
		case 2:
			if s, err := ReadSettings(file); err == nil {
				s.conf.ResolveRealm(s.Realm())
			}
		}
	})
}

// FuzzTokens: no token ends the process or logs anybody in, unless it is the right one.
func FuzzTokens(f *testing.F) {
	r := newRig(f)
	sent, err := r.tokens(r.Begin(), r.ticket(nil), InitiatorOptions{})
	if err != nil {
		f.Fatal(err)
	}
	x := r.Begin()
	in, token, err := initiate(r.ticket(nil), InitiatorOptions{OneWay: true, Identity: "x"})
	if err != nil {
		f.Fatal(err)
	}
	offered, err := x.Step(token)
	if err != nil {
		f.Fatal(err)
	}
	mutual, request, err := initiate(r.ticket(nil), InitiatorOptions{})
	if err != nil {
		f.Fatal(err)
	}
	reply, err := r.Begin().Step(request)
	if err != nil {
		f.Fatal(err)
	}
	good, err := in.secret.wrap([]byte{1, 0, 0, 0, 'x'}, 0, false)
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range append(sent, offered, reply, good) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, token []byte) {
		first := r.Begin()
		if _, err := first.Step(token); err == nil && first.state != acceptOffered && first.state != acceptReplied {
			t.Error("one token logs in")
		}
		second := &Acceptance{acceptor: r.Acceptor, state: acceptOffered, secret: x.secret, name: "bob"}
		if _, err := second.Step(token); err == nil && !bytes.Equal(token[16:len(token)-12], []byte("\x01\x00\x00\x00x")) {
			t.Errorf("the token %x logs in", token)
		}
		a := *in
		a.state = initOffer
		if _, err := a.Step(token); err == nil && !bytes.Equal(token[8:], offered[8:]) {
			t.Errorf("the offer %x is accepted", token)
		}
		b := *mutual
		b.state = initReply
		if _, err := b.Step(token); err == nil && !bytes.Equal(token, reply) {
			t.Logf("the reply %x is accepted", token) // DER has one form, but decoders are not strict
		}
		var q types.Authenticator
		_ = guard("authenticator", func() error { return q.Unmarshal(token) })
	})
}
