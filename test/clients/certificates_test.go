package clients

import (
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/certs"
	"github.com/pinfold-zk/pinfold/test/frames"
	"github.com/pinfold-zk/pinfold/zk"
)

// TestCertificatesDecide has clients with and without certificates connect to Apache 3.8.0 and
// 3.9.3 and to Pinfold with the same settings: the same are let in, are the same identities, and
// may do the same.
func TestCertificatesDecide(t *testing.T) {
	if *pinfold == "" {
		t.Skip("-pinfold names the binary")
	}
	authority, clients := certs.New(t, "authority"), certs.New(t, "clients")
	own := map[string]tls.Certificate{
		"nobody":   {},
		"user":     clients.Issue(t, "user").TLS,
		"root":     clients.Issue(t, "root").TLS,
		"stranger": certs.New(t, "stranger").Issue(t, "user").TLS,
	}
	const (
		class    = "org.apache.zookeeper.server.auth.X509AuthenticationProvider"
		explicit = " ssl.authProvider=x509"
		enforced = " enforce.auth.enabled=true enforce.auth.schemes=x509"
		super    = "X509AuthenticationProvider.superUser=CN=root "
	)
	stores := []string{"ssl.enabledProtocols=TLSv1.3,TLSv1.2",
		"ssl.keyStore.location=" + authority.Issue(t, "server").Store(t), "ssl.trustStore.location=" + clients.Trust(t)}
	for _, settings := range []string{
		super, super + "ssl.clientAuth=want", super + "ssl.clientAuth=none",
		super + explicit, super + explicit + " ssl.clientAuth=want", super + explicit + " ssl.clientAuth=none",
		super + "ssl.clientAuth=want" + enforced, super + "ssl.clientAuth=none" + enforced,
		"superUser=CN=root ssl.clientAuth=want authProvider.1=" + class + " enforce.auth.enabled=true enforce.auth.schemes=x509,digest",
	} {
		t.Run(settings, func(t *testing.T) {
			got := map[string]map[string]string{}
			for _, kind := range []string{"apache", "apache-3.9", "pinfold"} {
				addr := secured(t, kind, append(strings.Fields(settings), stores...)...)
				got[kind] = map[string]string{}
				for _, name := range slices.Sorted(maps.Keys(own)) {
					got[kind][name] = whatMay(t, addr, own[name])
				}
			}
			for name, ours := range got["pinfold"] {
				t.Logf("%-8s %s", name, ours)
				if ours != got["apache"][name] || ours != got["apache-3.9"][name] {
					t.Errorf("%s\n  3.8.0:   %s\n  3.9.3:   %s\n  Pinfold: %s", name, got["apache"][name], got["apache-3.9"][name], ours)
				}
			}
		})
	}
}

// whatMay returns what a server lets the owner of a certificate do: its identities, and the errors of a create whose
// ACL names the creator, of a create whose ACL names another subject, and of a read of that.
func whatMay(t *testing.T, addr string, own tls.Certificate) string {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	must(t, err)
	defer nc.Close()
	must(t, nc.SetDeadline(time.Now().Add(patience)))
	c := frames.New(tls.Client(nc, &tls.Config{InsecureSkipVerify: true, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return &own, nil // even if the server does not know the authority
	}}))
	if _, err := c.Connect(wire.ConnectRequest{TimeoutMillis: 30000, HasReadOnly: true}); err != nil {
		return "refused"
	}
	r, err := c.Call(1, wire.OpWhoAmI, nil)
	said := []string{fmt.Sprint("whoAmI ", r.Err)}
	if d := jute.NewDecoder(r.Body); err == nil && r.Err == 0 {
		var ids []string
		for range d.Int() {
			ids = append(ids, d.String()+":"+d.String())
		}
		slices.Sort(ids)
		said = append(said, ids...)
	}
	for i, acl := range []zk.ID{{Scheme: "auth"}, {Scheme: "x509", ID: "CN=another"}} {
		if err != nil {
			break
		}
		q := wire.CreateRequest{Path: fmt.Sprintf("/%d", i), ACL: []zk.ACL{{Perms: zk.PermAll, ID: acl}}, Flags: zk.Ephemeral}
		if r, err = c.Call(2, wire.OpCreate, q.Append(nil, wire.OpCreate)); err == nil {
			said = append(said, fmt.Sprint("create ", r.Err))
		}
	}
	if err == nil {
		r, err = c.Call(4, wire.OpGetData, frames.Path("/1", false))
		said = append(said, fmt.Sprint("read ", r.Err))
	}
	if err != nil {
		return strings.Join(append(said, "closed"), ", ")
	}
	_, _ = c.Call(5, wire.OpCloseSession, nil) // its znodes go
	return strings.Join(said, ", ")
}
