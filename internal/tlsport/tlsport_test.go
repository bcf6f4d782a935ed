package tlsport

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/test/certs"
)

// port is a Port with its files.
type port struct {
	*Port
	keys, trust string
	log         *bytes.Buffer
}

func write(t *testing.T, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, server certs.Identity, cfg config.TLS, clients ...certs.Identity) port {
	t.Helper()
	p := port{keys: filepath.Join(t.TempDir(), "k.pem"), trust: filepath.Join(t.TempDir(), "t.pem"), log: new(bytes.Buffer)}
	write(t, p.keys, server.PEM())
	cfg.KeyStore.File = p.keys
	if len(clients) > 0 {
		var all []byte
		for _, c := range clients {
			all = append(all, c.PEM()...)
		}
		write(t, p.trust, all)
		cfg.TrustStore.File = p.trust
	}
	var err error
	if p.Port, err = Open(cfg, slog.New(slog.NewTextHandler(p.log, nil))); err != nil {
		t.Fatal(err)
	}
	return p
}

// shake shakes hands over loopback; it returns the states and errors of both sides.
func (p port) shake(t *testing.T, c *tls.Config) (server, client tls.ConnectionState, serverErr, clientErr error) {
	t.Helper()
	return shake(t, p.Config(), c)
}

func shake(t *testing.T, config, c *tls.Config) (server, client tls.ConnectionState, serverErr, clientErr error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	far, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	near, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	s := tls.Server(near, config)
	go func() {
		defer close(done)
		defer near.Close()
		if serverErr = s.Handshake(); serverErr == nil {
			_, serverErr = s.Write([]byte("x")) // so that the client gets its tickets
		}
	}()
	tc := tls.Client(far, c)
	if clientErr = tc.Handshake(); clientErr == nil {
		_, clientErr = tc.Read(make([]byte, 1))
	}
	<-done
	return s.ConnectionState(), tc.ConnectionState(), serverErr, clientErr
}

func clientConfig(server certs.Identity, own ...certs.Identity) *tls.Config {
	c := &tls.Config{RootCAs: server.Pool(), ServerName: "localhost"}
	for _, o := range own {
		c.Certificates = append(c.Certificates, o.TLS)
	}
	return c
}

func TestClientCertificates(t *testing.T) {
	server, client, stranger := certs.New(t, "server"), certs.New(t, "client"), certs.New(t, "client")
	expired := certs.New(t, "expired", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	early := certs.New(t, "early", func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) })
	elsewhere := certs.New(t, "elsewhere", func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(10, 0, 0, 1)} })
	for _, c := range []struct {
		name string
		cfg  config.TLS
		own  []certs.Identity
		want string // part of the server's error; "" for none
	}{
		{"need", config.TLS{ClientAuth: "need"}, []certs.Identity{client}, ""},
		{"need and none", config.TLS{ClientAuth: "need"}, nil, "didn't provide a certificate"},
		{"need and a stranger", config.TLS{ClientAuth: "need"}, []certs.Identity{stranger}, "unknown authority"},
		{"expired", config.TLS{ClientAuth: "need"}, []certs.Identity{expired}, "expired"},
		{"not yet valid", config.TLS{ClientAuth: "need"}, []certs.Identity{early}, "not yet valid"},
		{"want", config.TLS{ClientAuth: "want"}, nil, ""},
		{"want and a stranger", config.TLS{ClientAuth: "want"}, []certs.Identity{stranger}, "unknown authority"},
		{"none", config.TLS{ClientAuth: "none"}, []certs.Identity{stranger}, ""},
		{"its address", config.TLS{ClientAuth: "need", ClientHost: true, Hosts: true}, []certs.Identity{client}, ""},
		{"another address", config.TLS{ClientAuth: "need", ClientHost: true, Hosts: true}, []certs.Identity{elsewhere}, "127.0.0.1"},
	} {
		p := open(t, server, c.cfg, client, expired, early, elsewhere)
		config := clientConfig(server)
		// The client sends what it has, whatever authorities the server names.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if len(c.own) == 0 {
				return new(tls.Certificate), nil
			}
			return &c.own[0].TLS, nil
		}
		_, _, err, _ := p.shake(t, config)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// The protocol versions and cipher suites are those of the configuration.
func TestVersions(t *testing.T) {
	server := certs.New(t, "server")
	const suite = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
	for _, c := range []struct {
		cfg     config.TLS
		highest uint16 // of the client
		want    uint16 // 0: no connection
	}{
		{config.TLS{Protocol: "TLSv1.3"}, tls.VersionTLS13, tls.VersionTLS13},
		{config.TLS{Protocol: "TLSv1.3"}, tls.VersionTLS12, 0},
		{config.TLS{Protocol: "TLSv1.2"}, tls.VersionTLS13, tls.VersionTLS12},
		{config.TLS{Protocol: "TLSv1.3", Protocols: []string{"TLSv1.2", "TLSv1.3"}}, tls.VersionTLS12, tls.VersionTLS12},
		{config.TLS{Protocol: "TLSv1.3", Protocols: []string{"TLSv1.2", "TLSv1.3"}}, tls.VersionTLS13, tls.VersionTLS13},
		{config.TLS{Protocol: "TLSv1.3", Protocols: []string{"TLSv1.2", "TLSv1.3"}, Suites: []string{suite}}, tls.VersionTLS13, tls.VersionTLS12},
		{config.TLS{}, tls.VersionTLS12, tls.VersionTLS12},
		{config.TLS{}, tls.VersionTLS11, 0},
	} {
		config := clientConfig(server)
		config.MinVersion, config.MaxVersion = tls.VersionTLS10, c.highest
		state, _, err, _ := open(t, server, c.cfg).shake(t, config)
		if (err == nil) != (c.want != 0) || err == nil && state.Version != c.want {
			t.Errorf("%v, client %x: %x, %v, want %x", c.cfg, c.highest, state.Version, err, c.want)
		}
		if len(c.cfg.Suites) > 0 && tls.CipherSuiteName(state.CipherSuite) != suite {
			t.Errorf("cipher suite %s", tls.CipherSuiteName(state.CipherSuite))
		}
	}
}

// New files are in use for new connections; broken ones are not, and the log says so once.
func TestReload(t *testing.T) {
	old, next, client := certs.New(t, "old"), certs.New(t, "next"), certs.New(t, "client")
	p := open(t, old, config.TLS{ClientAuth: "need"}, client)
	serves := func(id certs.Identity) {
		t.Helper()
		if _, _, err, clientErr := p.shake(t, clientConfig(id, client)); err != nil || clientErr != nil {
			t.Errorf("%v, %v", err, clientErr)
		}
	}
	replace := func(wantLog string) {
		t.Helper()
		p.log.Reset()
		p.mu.Lock()
		p.replace()
		p.mu.Unlock()
		if got := p.log.String(); !strings.Contains(got, wantLog) || (got == "") != (wantLog == "") {
			t.Errorf("the log says %q, want %q", got, wantLog)
		}
	}
	serves(old)
	replace("")
	write(t, p.keys, old.PEM()[:len(old.PEM())/2])
	replace("cannot be used")
	replace("")
	serves(old)
	if err := os.Remove(p.keys); err != nil {
		t.Fatal(err)
	}
	replace("cannot be used")
	replace("")
	serves(old)
	write(t, p.keys, slices.Concat(blocks(t, next.PEM(), "CERTIFICATE"), blocks(t, old.PEM(), "PRIVATE KEY")))
	replace("cannot be used") // they do not fit together
	serves(old)
	write(t, p.keys, next.PEM())
	write(t, p.trust, client.PEM()[:len(client.PEM())/2])
	replace("cannot be used") // neither file is used if one is broken
	serves(old)
	write(t, p.trust, client.PEM())
	replace("are in use")
	replace("")
	serves(next)
}

// blocks returns the blocks of a PEM file whose type ends in kind.
func blocks(t *testing.T, file []byte, kind string) (out []byte) {
	t.Helper()
	for {
		var b *pem.Block
		if b, file = pem.Decode(file); b == nil {
			break
		}
		if strings.HasSuffix(b.Type, kind) {
			out = append(out, pem.EncodeToMemory(b)...)
		}
	}
	if out == nil {
		t.Fatalf("no block of type %s", kind)
	}
	return out
}

// The files are looked at again by themselves.
func TestRereads(t *testing.T) {
	old, next := certs.New(t, "old"), certs.New(t, "next")
	p := open(t, old, config.TLS{ClientAuth: "none"})
	write(t, p.keys, next.PEM())
	p.mu.Lock()
	p.looked = time.Now().Add(-time.Hour)
	p.mu.Unlock()
	if _, _, err, clientErr := p.shake(t, clientConfig(next)); err != nil || clientErr != nil {
		t.Errorf("%v, %v", err, clientErr)
	}
}

// A session is resumed, but not if its certificate is not trusted any more.
func TestResumption(t *testing.T) {
	server, client, other := certs.New(t, "server"), certs.New(t, "client"), certs.New(t, "other")
	p := open(t, server, config.TLS{ClientAuth: "need"}, client)
	shared := p.Config()
	config := clientConfig(server, client)
	config.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	for _, resumed := range []bool{false, true} {
		state, _, err, _ := shake(t, shared, config)
		if err != nil || state.DidResume != resumed {
			t.Errorf("resumed %v, %v, want %v", state.DidResume, err, resumed)
		}
	}
	write(t, p.trust, other.PEM())
	p.mu.Lock()
	p.replace()
	p.mu.Unlock()
	if state, _, err, _ := shake(t, shared, config); err == nil {
		t.Errorf("a certificate that is not trusted any more is accepted, resumed %v", state.DidResume)
	}
}

// A certificate names the hosts among its alternative names; its common name only if it has
// none of these.
func TestNames(t *testing.T) {
	hosts := func(names []string, ips ...net.IP) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.DNSNames, c.IPAddresses = names, ips }
	}
	for _, c := range []struct {
		cert certs.Identity
		host string
		want bool
	}{
		{certs.New(t, "zk1", hosts([]string{"zk2", "*.example.org"})), "zk2", true},
		{certs.New(t, "zk1", hosts([]string{"zk2", "*.example.org"})), "ZK2.", true},
		{certs.New(t, "zk1", hosts([]string{"zk2", "*.example.org"})), "a.example.org", true},
		{certs.New(t, "zk1", hosts([]string{"zk2", "*.example.org"})), "a.b.example.org", false},
		{certs.New(t, "zk1", hosts([]string{"zk*.example.org"})), "zk2.example.org", false}, // Apache accepts these two
		{certs.New(t, "*.example.org", hosts(nil)), "zk2.example.org", false},
		{certs.New(t, "zk1", hosts([]string{"zk2"})), "zk1", false},
		{certs.New(t, "zk1", hosts(nil, net.IPv4(10, 0, 0, 1))), "zk1", false},
		{certs.New(t, "zk1", hosts(nil, net.IPv4(10, 0, 0, 1))), "10.0.0.1", true},
		{certs.New(t, "zk1", hosts(nil, net.IPv4(10, 0, 0, 1))), "10.0.0.2", false},
		{certs.New(t, "zk1", hosts(nil, net.ParseIP("2001:db8::1"))), "2001:db8:0::1", true},
		{certs.New(t, "zk1", hosts(nil)), "ZK1.", true},
		{certs.New(t, "zk1", hosts(nil)), "zk2", false},
		{certs.New(t, "10.0.0.1", hosts(nil)), "10.0.0.1", true},
		{certs.New(t, "", hosts(nil)), "", false},
	} {
		if got := Names(c.cert.TLS.Leaf, c.host); got != c.want {
			t.Errorf("%s names %q: %v", Describe(c.cert.TLS.Leaf), c.host, got)
		}
	}
}

// Connections between servers use the new files from the next handshake on, in both
// directions.
func TestPeersReload(t *testing.T) {
	authority, next := certs.New(t, "authority"), certs.New(t, "next")
	p := open(t, authority.Issue(t, "old"), config.TLS{ClientAuth: "need"}, authority)
	far := open(t, authority.Issue(t, "far"), config.TLS{ClientAuth: "need"}, authority, next)
	var seen string
	look := func(leaf *x509.Certificate) error {
		seen = leaf.Subject.CommonName
		return nil
	}
	pass := func(*x509.Certificate) error { return nil }
	both := func(want string) {
		t.Helper()
		if _, _, err, clientErr := shake(t, p.Accept(pass), far.Dial(look)); err != nil || clientErr != nil || seen != want {
			t.Errorf("accepted as %s: %v, %v, want %s", seen, err, clientErr, want)
		}
		seen = ""
		if _, _, err, clientErr := shake(t, far.Accept(look), p.Dial(pass)); err != nil || clientErr != nil || seen != want {
			t.Errorf("dialled as %s: %v, %v, want %s", seen, err, clientErr, want)
		}
	}
	both("old")
	write(t, p.keys, next.Issue(t, "new").PEM())
	p.mu.Lock()
	p.looked = time.Now().Add(-time.Hour)
	p.mu.Unlock()
	both("new")
	if state, _, err, _ := shake(t, p.Accept(func(*x509.Certificate) error { return errors.New("not this one") }), far.Dial(pass)); err == nil {
		t.Errorf("a certificate that the check refuses is accepted: %v", state.HandshakeComplete)
	}
}
