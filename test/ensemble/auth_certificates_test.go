package ensemble

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/test/certs"
	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
)

// certificateSettings are further configurations of TestAuthentication.
var certificateSettings = []authSetting{
	{"certificates", []string{tlsLine}, []string{
		"tls:bob whoami create:auth:x acl read", "tls:bob read", "tls:eve whoami read", "read", "auth:x509:CN=bob read", "tls:eve auth:x509:CN=bob whoami read",
		"tls:bob auth:digest:u:p whoami", "tls:none exists", "tls:stranger exists", "tls:expired exists", "tls:early exists", "tls:server-only exists",
		"create:x509:CN=eve", "create:x509:cn=eve", "create:x509:eve", "create:x509:", "create:x509:CN=eve,", "create:x509:O=a+CN=b", "create:x509:1.2.3=x", "create:x509:CN=a,XY=b",
		"tls:long whoami", "tls:special whoami", "tls:several whoami", "tls:utf8 whoami", "tls:nameless whoami create:auth:x",
	}},
	{"another's znode", []string{tlsLine}, []string{"tls:bob create:x509:CN=eve read", "tls:eve read acl", "tls:chained whoami"}},
	{"certificates of some clients", []string{tlsLine, "ssl.clientAuth=want"}, []string{
		"tls:none whoami create:auth:x", "tls:bob whoami create:auth:x", "tls:none read", "tls:stranger exists", "tls:expired exists",
	}},
	{"no certificates", []string{tlsLine, "ssl.clientAuth=none"}, []string{"tls:none whoami", "tls:bob whoami create:auth:x", "tls:stranger exists"}},
	{"a superuser with a certificate", []string{tlsLine, "X509AuthenticationProvider.superUser=CN=bob,O=Example"}, []string{
		"auth:digest:u:p create:auth:x read", "tls:bob read whoami", "tls:super whoami read", "tls:exchanged read", "auth:x509:CN=bob,O=Example read",
	}},
	{"enforced certificates", []string{tlsLine, "enforce.auth.enabled=true", "enforce.auth.schemes=x509"}, []string{
		"tls:bob exists", "exists", "auth:digest:u:p exists", "tls:stranger exists",
	}},
	{"addresses in certificates", []string{tlsLine, "ssl.clientHostnameVerification=true"}, []string{
		"tls:bob exists", "tls:elsewhere exists", "exists",
	}},
	{"addresses in certificates without host names", []string{tlsLine, "ssl.clientHostnameVerification=true", "ssl.hostnameVerification=false"}, []string{
		"tls:elsewhere exists",
	}},
	{"one port for both", []string{tlsLine, "client.portUnification=true"}, []string{
		"exists", "unified:bob whoami create:auth:x read", "read", "unified:stranger exists", "unified:eve read",
	}},
	{"enforced digest beside certificates", []string{tlsLine, "enforce.auth.enabled=true", "enforce.auth.schemes=digest"}, []string{
		"tls:bob exists", "tls:bob auth:digest:u:p exists whoami",
	}},
}

// tlsLine stands for the lines of a port with TLS.
const tlsLine = "secureClientPort="

// certificates are those of servers and clients.
type certificates struct {
	lines   []string // of zoo.cfg
	clients map[string]*tls.Config
}

// newCertificates makes them. Each client differs from bob in what its name says.
func newCertificates(t *testing.T) *certificates {
	authority := certs.New(t, "authority")
	c := &certificates{clients: map[string]*tls.Config{"none": {}}, lines: []string{
		"serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory", "ssl.enabledProtocols=TLSv1.3,TLSv1.2",
		"ssl.keyStore.location=" + authority.Issue(t, "server").Store(t), "ssl.trustStore.location=" + authority.Trust(t),
	}}
	subject := func(n pkix.Name) func(*x509.Certificate) { return func(c *x509.Certificate) { c.Subject = n } }
	extra := func(oid asn1.ObjectIdentifier, value any) pkix.Name {
		return pkix.Name{CommonName: "bob", ExtraNames: []pkix.AttributeTypeAndValue{{Type: oid, Value: value}}}
	}
	intermediate := authority.Issue(t, "between", func(c *x509.Certificate) { c.IsCA, c.BasicConstraintsValid = true, true })
	chained := intermediate.Issue(t, "bob")
	chained.TLS.Certificate = append(chained.TLS.Certificate, intermediate.TLS.Certificate...)
	for name, id := range map[string]certs.Identity{
		"bob": authority.Issue(t, "bob"), "eve": authority.Issue(t, "eve"), "chained": chained,
		"stranger": certs.New(t, "another authority").Issue(t, "bob"),
		"expired": authority.Issue(t, "bob", func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
		}),
		"early":       authority.Issue(t, "bob", func(c *x509.Certificate) { c.NotBefore = time.Now().Add(30 * time.Minute) }),
		"server-only": authority.Issue(t, "bob", func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }),
		"super":       authority.Issue(t, "bob", subject(pkix.Name{Organization: []string{"Example"}, CommonName: "bob"})),
		"exchanged": authority.Issue(t, "bob", func(c *x509.Certificate) {
			c.RawSubject = rawName(t, pkix.RDNSequence{{{Type: oidCommonName, Value: "bob"}}, {{Type: oidOrganization, Value: "Example"}}})
		}),
		"long": authority.Issue(t, "bob", subject(pkix.Name{
			Country: []string{"CH"}, Province: []string{"Bern"}, Locality: []string{"Thun"}, StreetAddress: []string{"Main Street 1"}, PostalCode: []string{"3600"},
			Organization: []string{"Example"}, OrganizationalUnit: []string{"one", "two"}, CommonName: "bob", SerialNumber: "7",
		})),
		"special":   authority.Issue(t, "bob", subject(pkix.Name{CommonName: ` #bob, "the" <builder>;+=\ `})),
		"utf8":      authority.Issue(t, "bob", subject(pkix.Name{CommonName: "bøb"})),
		"several":   authority.Issue(t, "bob", subject(extra(asn1.ObjectIdentifier{0, 9, 2342, 19200300, 100, 1, 1}, "b1"))),
		"elsewhere": authority.Issue(t, "bob", func(c *x509.Certificate) { c.DNSNames, c.IPAddresses = nil, []net.IP{net.IPv4(10, 0, 0, 1)} }),
		"nameless":  authority.Issue(t, "bob", subject(pkix.Name{})),
	} {
		// A server that names other authorities gets the certificate as well.
		c.clients[name] = &tls.Config{GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &id.TLS, nil }}
	}
	for _, config := range c.clients {
		config.RootCAs, config.ServerName = authority.Pool(), "localhost"
	}
	return c
}

var oidCommonName, oidOrganization = asn1.ObjectIdentifier{2, 5, 4, 3}, asn1.ObjectIdentifier{2, 5, 4, 10}

func rawName(t *testing.T, name pkix.RDNSequence) []byte {
	t.Helper()
	b, err := asn1.Marshal(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// authPorts are those of one server.
type authPorts struct {
	plain, secure string
	clients       map[string]*tls.Config
	node          string // the znode that scripts create and read
}

// newAuthPorts returns those of a member, which gets one with TLS if secure is true.
func newAuthPorts(e *cluster.Ensemble, m *cluster.Member, clients map[string]*tls.Config, secure bool) (*authPorts, error) {
	a := &authPorts{plain: m.Client, clients: clients}
	if !secure {
		return a, nil
	}
	port, err := e.FreePort()
	if err != nil {
		return nil, err
	}
	a.secure = fmt.Sprintf("127.0.0.1:%d", port)
	return a, m.Configure(fmt.Sprintf("secureClientPort=%d", port), "secureClientPortAddress=127.0.0.1")
}

// wait waits for the port with TLS, which Apache's servers open last.
func (a *authPorts) wait(r *rig) error {
	return r.e.Until(r.within(patience), func() bool {
		if a.secure == "" {
			return true
		}
		nc, err := net.Dial("tcp", a.secure)
		return err == nil && nc.Close() == nil
	})
}

// dial connects to the port for the script's first word; rest are the others.
func (a *authPorts) dial(script string) (nc net.Conn, rest string, err error) {
	addr := a.secure
	name, secure := strings.CutPrefix(script, "tls:")
	if !secure {
		addr = a.plain
		name, secure = strings.CutPrefix(script, "unified:")
	}
	if !secure {
		nc, err = net.Dial("tcp", addr)
		return nc, script, err
	}
	name, rest, _ = strings.Cut(name, " ")
	if nc, err = net.Dial("tcp", addr); err == nil {
		nc = tls.Client(nc, a.clients[name])
	}
	return nc, rest, err
}
