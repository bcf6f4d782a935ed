package clients

import (
	"context"
	"os"
	"os/exec"
	"testing"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/test/certs"
	"github.com/pinfold-zk/pinfold/zk"
)

// testForeignClients has zkCli.sh of 3.8 and 3.9 and kazoo, with the user's certificate, create
// znodes whose ACL names its subject.
func testForeignClients(t *testing.T, e *Env, c *client.Client, addr string, authority, user certs.Identity) {
	t.Helper()
	ca, store := authority.Trust(t), user.Store(t)
	const class = "CLASS=org.apache.zookeeper.ZooKeeperMain"
	flags := "JVMFLAGS=-Xmx200m -Dzookeeper.client.secure=true -Dzookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty" +
		" -Dzookeeper.ssl.keyStore.location=" + store + " -Dzookeeper.ssl.trustStore.location=" + ca
	shell := func(path string) []string {
		return []string{root + "/scripts/apache-server", "-server", addr, "-timeout", "60000", "-waitforconnection", "create", path, "x", "auth::cdrwa"}
	}
	for _, foreign := range []struct {
		path string
		env  []string
		argv []string
	}{
		{"/zkcli-3.8", []string{class, flags}, shell("/zkcli-3.8")},
		{"/zkcli-3.9", []string{class, flags, "RELEASE=3.9"}, shell("/zkcli-3.9")},
		{"/kazoo", nil, []string{*python, "kazoo_tls.py", addr, ca, store, "/kazoo"}},
	} {
		if foreign.argv[0] == "" {
			continue // there is no Python
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		cmd := exec.CommandContext(ctx, foreign.argv[0], foreign.argv[1:]...)
		cmd.Env = append(os.Environ(), foreign.env...)
		out, err := cmd.CombinedOutput()
		cancel()
		if err != nil {
			t.Errorf("%s: %v\n%s", foreign.path, err, out)
			continue
		}
		acl, _, err := c.GetACL(e.Context(), foreign.path)
		if err != nil || acl[0].ID != (zk.ID{Scheme: "x509", ID: "CN=user"}) {
			t.Errorf("%s: %v, %v\n%s", foreign.path, acl, err, out)
		}
	}
}
