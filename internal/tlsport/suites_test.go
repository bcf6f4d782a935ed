package tlsport

import (
	"crypto/tls"
	"crypto/x509"
	"slices"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/test/certs"
)

// all13 are the cipher suites of TLS 1.3, all of which a client of package crypto/tls offers.
var all13 = []string{"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}

// A connection has one of the suites that are listed, whatever package crypto/tls prefers: on the
// port of clients, resumed or not, and between servers in both directions.
func TestSuites(t *testing.T) {
	authority := certs.New(t, "authority")
	pass := func(*x509.Certificate) error { return nil }
	for set := 1; set < 1<<len(all13); set++ {
		var listed []string
		for i, name := range all13 {
			if set>>i&1 == 1 {
				listed = append(listed, name)
			}
		}
		allowed := func(where string, state tls.ConnectionState, errs ...error) {
			t.Helper()
			if name := tls.CipherSuiteName(state.CipherSuite); !slices.Contains(listed, name) || errs[0] != nil || errs[1] != nil {
				t.Errorf("%s: %v allows %s: %v", where, listed, name, errs)
			}
		}
		for _, auth := range []string{"none", "need"} {
			p := open(t, authority.Issue(t, "server"), config.TLS{ClientAuth: auth, Suites: listed}, authority)
			shared, client := p.Config(), clientConfig(authority, authority.Issue(t, "client"))
			client.ClientSessionCache = tls.NewLRUClientSessionCache(1)
			for _, resumed := range []bool{false, true} {
				state, _, err, clientErr := shake(t, shared, client)
				allowed("client port, clientAuth="+auth, state, err, clientErr)
				if state.DidResume != resumed {
					t.Errorf("resumed: %v", state.DidResume)
				}
			}
		}
		restricted := open(t, authority.Issue(t, "a"), config.TLS{ClientAuth: "need", Suites: listed}, authority)
		state, _, err, dialErr := shake(t, restricted.Accept(pass), restricted.Dial(pass))
		allowed("peers", state, err, dialErr)
	}
}

// A connection with a suite that is not listed is refused, even if package crypto/tls has chosen
// it: on the port of clients, and by a server that dials or accepts.
func TestSuitesFailClosed(t *testing.T) {
	const why = "the cipher suite TLS_AES_128_GCM_SHA256 is not one of ciphersuites"
	authority := certs.New(t, "authority")
	pass := func(*x509.Certificate) error { return nil }
	listed := config.TLS{ClientAuth: "need", Suites: all13[1:2]}
	p := open(t, authority.Issue(t, "server"), listed, authority)
	other := open(t, authority.Issue(t, "other"), config.TLS{ClientAuth: "need", Suites: all13[:1]}, authority)
	unsteered := func(c *tls.Config) *tls.Config {
		c = c.Clone()
		c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) { return nil, nil }
		return c
	}
	for _, auth := range []string{"none", "need"} {
		listed.ClientAuth = auth
		q := open(t, authority.Issue(t, "server"), listed, authority)
		bare := &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			return q.configFor(hello.Conn.RemoteAddr()), nil
		}}
		if _, _, err, _ := shake(t, bare, clientConfig(authority, authority.Issue(t, "client"))); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("client port, clientAuth=%s: %v", auth, err)
		}
	}
	if _, _, err, _ := shake(t, unsteered(p.Accept(pass)), clientConfig(authority, authority.Issue(t, "client"))); err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("a server that accepts: %v", err)
	}
	if _, _, _, err := shake(t, other.Accept(pass), p.Dial(pass)); err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("a server that dials: %v", err)
	}
}
