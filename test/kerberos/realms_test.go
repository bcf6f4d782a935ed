package kerberos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/internal/kerberos"
	"github.com/pinfold-zk/pinfold/test/kdc"
	"github.com/pinfold-zk/pinfold/zk"
)

// Rules that give users of the other realm names of their own.
const otherRules = "-Dzookeeper.security.auth_to_local=DEFAULTRULE:[1:$1@$0]s/@OTHER[.]COM$/-other/RULE:[2:$1;$2@$0](.*;admin@OTHER[.]COM)s/;.*/-adm/"

// TestRealms has users of a realm that the servers' realm trusts log in: with every setting
// they have the same names on servers of both kinds, and ACLs let in the same.
func TestRealms(t *testing.T) {
	const dropHost, dropRealm = "-Dzookeeper.kerberos.removeHostFromPrincipal=true", "-Dzookeeper.kerberos.removeRealmFromPrincipal=true"
	for _, tt := range []struct {
		name       string
		properties []string
		alice      string // her user
	}{
		{"defaults", nil, alice},
		{"without host and realm", []string{dropHost, dropRealm}, alice},
		{"rules", []string{otherRules}, "alice-other@" + kdc.Other},
		{"rules without realm", []string{otherRules, dropRealm}, "alice-other"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := start(t, kinds, tt.properties...)
			said := map[string]string{}
			for _, kind := range kinds {
				said[kind] = r.entered(kind)
			}
			for _, kind := range kinds[1:] {
				if said[kind] != said["pinfold"] {
					t.Errorf("%s:\n%s\nPinfold:\n%s", kind, said[kind], said["pinfold"])
				}
			}
			if want := alice + " is [" + tt.alice + "]\n"; !strings.HasPrefix(said["pinfold"], want) {
				t.Errorf("%s\nwant first: %s", said["pinfold"], want)
			}
			if tt.properties == nil {
				r.claims()
			}
		})
	}
}

// entered has every principal log in and create a znode for its creator alone, and returns
// their users, and who may read which znode.
func (r *rig) entered(kind string) string {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	principals := []string{alice, aliceAdmin, otherBob, bob, admin}
	clients := make([]*client.Client, len(principals))
	var b strings.Builder
	for i, p := range principals {
		clients[i] = r.dial(kind, r.mechanism(p))
		users := r.users(clients[i])
		fmt.Fprintf(&b, "%s is %v\n", p, users)
		acl := []zk.ACL{{Perms: zk.PermAll, ID: zk.ID{Scheme: "sasl", ID: strings.Join(users, "")}}}
		_, err := clients[i].Create(ctx, fmt.Sprintf("/%d", i), nil, zk.Persistent, acl)
		must(r.t, err)
	}
	for i, p := range principals {
		for j := range principals {
			_, _, err := clients[i].Get(ctx, fmt.Sprintf("/%d", j))
			fmt.Fprintf(&b, "%s reads /%d: %v\n", p, j, code(err))
		}
	}
	for _, id := range []string{"alice@" + kdc.Other, "alice/host@" + kdc.Other, "a/b/c@" + kdc.Other, "@" + kdc.Other, "alice@", "a@b@c", "a/b/c", ""} {
		acl := []zk.ACL{{Perms: zk.PermAll, ID: zk.ID{Scheme: "sasl", ID: id}}}
		_, err := clients[0].Create(ctx, "/id-", nil, zk.PersistentSequential, acl)
		fmt.Fprintf(&b, "the id %q: %v\n", id, code(err))
	}
	return b.String()
}

// code is the error code in an error; zk.OK if there is none.
func code(err error) zk.Code {
	code := zk.OK
	if err != nil && !errors.As(err, &code) {
		return -1
	}
	return code
}

// TestRealmsClients has clients of all kinds cross from the other realm: with the tickets of
// kinit, and with a key.
func TestRealmsClients(t *testing.T) { start(t, kinds[:1]).cross(alice) }

// cross has every client that there is log in at Pinfold as a principal of another realm.
func (r *rig) cross(principal string) {
	r.t.Helper()
	cache, err := r.Cache("krb5cc", r.keytab, principal)
	must(r.t, err)
	text, err := os.ReadFile(r.Config)
	must(r.t, err)
	must(r.t, os.WriteFile(r.Config, append(text, "[domain_realm]\n localhost = "+kdc.Realm+"\n"...), 0o600))
	out := r.run([]string{"KRB5CCNAME=FILE:" + cache}, *pinfoldPath(), "cli", "--server", r.addrs["pinfold"], "--waitforconnection", "--kerberos", "whoami")
	if !strings.Contains(out, "sasl: "+principal+"\n") {
		r.t.Errorf("pinfold cli: %s", out)
	}
	r.loginFile(principal)
	flags := "-Xmx200m -Dzookeeper.server.realm=" + kdc.Realm + " -Djava.security.auth.login.config=" + r.file("jaas.conf") + " -Djava.security.krb5.conf=" + r.Config
	env := []string{"CLASS=org.apache.zookeeper.ZooKeeperMain", "RELEASE=3.9", "JVMFLAGS=" + flags}
	if out := r.run(env, apacheServer, "-server", r.addrs["pinfold"], "-timeout", "60000", "-waitforconnection", "whoami"); !strings.Contains(out, "sasl: "+principal) {
		r.t.Errorf("zkCli.sh: %s", out)
	}
	if *python != "" {
		if out := r.run([]string{"KRB5CCNAME=FILE:" + cache}, *python, "kazoo_login.py", r.addrs["pinfold"]); !strings.Contains(out, "'sasl', id='"+principal) {
			r.t.Errorf("kazoo: %s", out)
		}
	}
}

// TestPathOfRealms has a user come from a realm that the servers' realm trusts through another
// one alone. Every server lets it in if the KDC knows that way. If the KDC does not, and gives a
// ticket all the same, the ticket says so: Java does not look at that, so Apache's servers let
// the user in, whatever realm has brought it; ours do not.
func TestPathOfRealms(t *testing.T) {
	r := start(t, kinds)
	for _, kind := range kinds {
		if got := fmt.Sprint(r.users(r.dial(kind, r.mechanism(carol)))); got != "["+carol+"]" {
			t.Errorf("%s: %s is %s", kind, carol, got)
		}
	}
	r.cross(carol)

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	begin := func() (token []byte, err error) {
		login, err := kerberos.NewLogin(kerberos.Credentials{Principal: carol, Keytab: r.keytab, Config: r.Config})
		must(t, err)
		_, token, err = login.Begin(ctx, service, kerberos.InitiatorOptions{})
		return token, err
	}
	must(t, r.ForgetPath(ctx, true))
	const unknown = "the service's KDC does not know the way of " + carol + " through other realms"
	if _, err := begin(); err == nil || !strings.Contains(err.Error(), unknown) {
		t.Errorf("a KDC that does not know the way: %v", err)
	}
	must(t, r.ForgetPath(ctx, false))
	token, err := begin()
	must(t, err)
	r.refusal(t, token, `realm \"`+kdc.Far+`\" is reached through other realms, which the KDC has not checked`, "capaths")
	for _, kind := range kinds[1:] {
		if got := fmt.Sprint(r.users(r.dial(kind, r.mechanism(carol)))); got != "["+carol+"]" {
			t.Errorf("%s: %s by a way that is not checked is %s", kind, carol, got)
		}
	}
	r.dial("pinfold", r.mechanism(alice)) // no realm is between
}

// claim is a mechanism that logs in and asks to be somebody else.
type claim struct {
	login *kerberos.Login
	to    string
}

// Authenticate is the exchange.
func (m *claim) Authenticate(ctx context.Context, _ string, send func(token []byte) ([]byte, error)) error {
	x, token, err := m.login.Begin(ctx, service, kerberos.InitiatorOptions{Identity: m.to})
	for err == nil {
		var answer []byte
		if answer, err = send(token); err != nil || x.Done() {
			return err
		}
		token, err = x.Step(answer)
	}
	return err
}

// claims has a user for whom no rule is ask to be another. Apache's servers believe the
// client, which docs/ops/security.md warns of; ours do not.
func (r *rig) claims() {
	r.t.Helper()
	login, err := kerberos.NewLogin(kerberos.Credentials{Principal: alice, Keytab: r.keytab, Config: r.Config})
	must(r.t, err)
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	for i, want := range []string{alice, bob, bob} {
		c, err := client.Dial(ctx, r.addrs[kinds[i]], client.SASL(&claim{login, bob}), client.SessionTimeout(30*time.Second))
		must(r.t, err)
		if got := fmt.Sprint(r.users(c)); got != "["+want+"]" {
			r.t.Errorf("%s: %s who asks to be %s is %s, want %s", kinds[i], alice, bob, got, want)
		}
		must(r.t, c.Close())
	}
}
