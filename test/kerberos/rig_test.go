package kerberos

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
	"github.com/pinfold-zk/pinfold/test/kdc"
)

var (
	pinfold = flag.String("pinfold", "", "the binary; without it the tests are skipped")
	python  = flag.String("python", "", "a Python with kazoo, puresasl and kerberos; without it kazoo is left out")
)

// patience is how long anything may take on a busy machine.
const patience = 90 * time.Second

// root is the directory of the repository.
const root = "../.."

const apacheServer = root + "/scripts/apache-server"

// The principals of the realm.
const (
	service = "zookeeper/localhost@" + kdc.Realm
	bob     = "bob@" + kdc.Realm
	admin   = "bob/admin@" + kdc.Realm
	zk1     = "zk1/host@" + kdc.Realm

	alice      = "alice@" + kdc.Other
	aliceAdmin = "alice/admin@" + kdc.Other
	otherBob   = "bob@" + kdc.Other

	carol = "carol@" + kdc.Far
)

// rig is a realm and servers of several kinds that are in it.
type rig struct {
	*kdc.KDC
	t       *testing.T
	dir     string
	addrs   map[string]string // of the servers, by kind
	servers map[string]*cluster.Member

	keytab     string // of the clients
	serverKeys string // of the servers
}

// start starts a KDC and a server of each kind, with these properties.
func start(t *testing.T, kinds []string, properties ...string) *rig {
	t.Helper()
	if *pinfold == "" {
		t.Skip("no -pinfold")
	}
	binary := *pinfold
	if !filepath.IsAbs(binary) {
		binary = filepath.Join(root, binary)
	}
	r := &rig{t: t, dir: t.TempDir(), addrs: map[string]string{}, servers: map[string]*cluster.Member{}}
	specs, err := cluster.ParseSpecs(strings.Join(kinds, ","))
	must(t, err)
	flags := append([]string{
		"-Xmx300m", "-Djava.security.auth.login.config=" + r.file("jaas.conf"), "-Djava.security.krb5.conf=" + r.file("krb5.conf"),
	}, properties...)
	e, err := cluster.New(cluster.Options{
		Dir: r.dir, Specs: specs, Programs: cluster.Programs{Pinfold: binary, Apache: apacheServer, JVMFlags: strings.Join(flags, " ")},
		Lines: []string{"authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider"},
	})
	must(t, err)
	t.Cleanup(e.Close)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r.startKDC(ctx, e)
	for i, spec := range specs {
		m, err := e.Standalone(spec.Kind, e.Members[i])
		must(t, err)
		must(t, m.Start())
		t.Cleanup(func() { r.stop(m) })
		r.servers[kinds[i]] = m
		_, port, err := net.SplitHostPort(m.Client)
		must(t, err)
		r.addrs[kinds[i]] = "localhost:" + port
	}
	for _, m := range r.servers {
		_, err := m.WaitServing(ctx)
		must(t, err)
	}
	return r
}

func (r *rig) file(name string) string { return filepath.Join(r.dir, name) }

// startKDC starts the KDC, and writes the login file of servers and of Java's clients.
func (r *rig) startKDC(ctx context.Context, e *cluster.Ensemble) {
	r.t.Helper()
	var err error
	r.KDC, err = kdc.Start(ctx, r.dir, e.FreePort)
	must(r.t, err)
	r.t.Cleanup(r.Close)
	r.serverKeys, err = r.Keytab("server.keytab", service)
	must(r.t, err)
	r.keytab, err = r.Keytab("clients.keytab", bob, admin, zk1, alice, aliceAdmin, otherBob, carol)
	must(r.t, err)
	r.loginFile(admin)
}

// loginFile writes jaas.conf, in which Java's clients are the principal.
func (r *rig) loginFile(principal string) {
	r.t.Helper()
	const module = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true useTicketCache=false"
	text := fmt.Sprintf("Server { %s keyTab=%q principal=%q; };\nClient { %s keyTab=%q principal=%q; };\n",
		module, r.serverKeys, service, module, r.keytab, principal)
	must(r.t, os.WriteFile(r.file("jaas.conf"), []byte(text), 0o600))
}

// stop ends a server and reports what it should not have printed.
func (r *rig) stop(m *cluster.Member) {
	m.Kill()
	for _, c := range m.Complaints() {
		r.t.Error(c)
	}
}

// restart kills a server and starts it again.
func (r *rig) restart(kind string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	r.servers[kind].Kill()
	must(r.t, r.servers[kind].Start())
	_, err := r.servers[kind].WaitServing(ctx)
	must(r.t, err)
}

// mechanism logs in as a principal of the key table.
func (r *rig) mechanism(principal string) client.Mechanism {
	r.t.Helper()
	m, err := client.Kerberos(client.KerberosOptions{Principal: principal, Keytab: r.keytab, Config: r.Config, Realm: kdc.Realm})
	must(r.t, err)
	return m
}

// dial connects our client to the server of a kind.
func (r *rig) dial(kind string, m client.Mechanism) *client.Client {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	c, err := client.Dial(ctx, r.addrs[kind], client.SASL(m), client.SessionTimeout(30*time.Second))
	must(r.t, err)
	r.t.Cleanup(func() { c.Close() })
	return c
}

// run runs a program in the realm and returns its output.
func (r *rig) run(env []string, name string, args ...string) string {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(r.Env(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Errorf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// users returns the identities of a connection of scheme sasl.
func (r *rig) users(c *client.Client) []string {
	r.t.Helper()
	ids, err := c.WhoAmI(r.t.Context())
	must(r.t, err)
	var list []string
	for _, id := range ids {
		if id.Scheme == "sasl" {
			list = append(list, id.ID)
		}
	}
	slices.Sort(list)
	return list
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
