package clients

import (
	"crypto/tls"
	"fmt"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/test/certs"
)

// TestRevocation has clients with revoked certificates and with others connect to Apache 3.8.0
// and 3.9.3 and to Pinfold with the same settings: the same are let in. Apache 3.9.3 lets nobody in
// with ssl.ocsp: its TLS has no OCSP, it says.
func TestRevocation(t *testing.T) {
	i := certs.NewIssuer(t)
	cases := []struct {
		name string
		cert tls.Certificate
	}{}
	for _, of := range []struct{ list, responder string }{
		{"", ""}, {"/crl", ""}, {"/late", ""}, {"/none", ""}, {"", "/ocsp"}, {"/crl", "/ocsp"}, {"/crl", "/none"}, {"/crl", "/unsure"}, {"/none", "/ocsp"}, {"/late", "/none"},
	} {
		for _, revoked := range []bool{false, true} {
			name := fmt.Sprintf("CRL %q, OCSP %q, revoked %v", of.list, of.responder, revoked)
			own := i.Named(t, "client", of.list, of.responder)
			if revoked {
				i.Revoke(own)
			}
			cases = append(cases, struct {
				name string
				cert tls.Certificate
			}{name, own.TLS})
		}
	}
	server, trust := i.Issue(t, "server").Store(t), i.Trust(t)
	for _, settings := range []string{"ssl.crl=true", "ssl.ocsp=true", "ssl.crl=true ssl.ocsp=true"} {
		t.Run(settings, func(t *testing.T) {
			kinds := []string{"apache", "apache-3.9", "pinfold"}
			if *pinfold == "" {
				t.Skip("-pinfold names the binary")
			}
			let := map[string][]bool{}
			for _, kind := range kinds {
				addr := secured(t, kind, append(strings.Fields(settings), "ssl.keyStore.location="+server, "ssl.trustStore.location="+trust)...)
				for _, c := range cases {
					let[kind] = append(let[kind], letIn(t, addr, c.cert))
				}
			}
			for n, c := range cases {
				t.Logf("%-60s %v %v %v", c.name, let[kinds[0]][n], let[kinds[1]][n], let[kinds[2]][n])
				ours, later := let["pinfold"][n], let["apache-3.9"][n]
				if ours != let["apache"][n] {
					t.Errorf("%s: Apache 3.8.0 lets it in: %v, Pinfold: %v", c.name, let["apache"][n], ours)
				}
				// "OCSP is not supported with this SslProvider: JDK"
				if broken := strings.Contains(settings, "ocsp"); later && broken || later != ours && !broken {
					t.Errorf("%s: Apache 3.9.3 lets it in: %v, Pinfold: %v", c.name, later, ours)
				}
			}
		})
	}
}

// letIn reports whether a server answers a client with a certificate.
func letIn(t *testing.T, addr string, cert tls.Certificate) bool {
	t.Helper()
	return version(t, addr, &tls.Config{Certificates: []tls.Certificate{cert}}) != 0
}
