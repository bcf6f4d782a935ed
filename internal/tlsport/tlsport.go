// Package tlsport is TLS on the ports of a server: the configuration of package crypto/tls
// that the settings and the key and trust stores mean.
//
//	tlsport.go   a port of clients; the files, and how they are read again
//	peer.go      connections between servers, in both directions
//	client.go    the client of the command line, with the same settings
//	revocation.go  whether a certificate is revoked
//	turns.go     how many handshakes compute at a time
//	suites.go    which cipher suites of TLS 1.3 are allowed
//	subject.go   the identity in a client's certificate
//
// The files are read again when they change: at the next handshake, at most once a second.
// New connections then have the new certificates; established ones remain. If the new
// files cannot be used, the old certificates remain, and the log says so.
package tlsport

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/keystore"
)

// rereadInterval is how often the files are looked at, at most.
const rereadInterval = time.Second

// Port is TLS on one port. Its methods may be called concurrently.
type Port struct {
	cfg     config.TLS
	log     *slog.Logger
	revoked *revocation // nil: not checked
	suites  suites13
	current atomic.Pointer[tls.Config]

	mu     sync.Mutex // held by the goroutine that reads the files
	looked time.Time
	files  files // of current, or those that could not be used
}

// files are what Port has read.
type files struct{ keys, trusted *keystore.Files }

func (f files) equal(g files) bool { return f.keys.Equal(g.keys) && f.trusted.Equal(g.trusted) }

// Open reads the stores. The error says what is wrong with which file.
func Open(cfg config.TLS, log *slog.Logger) (*Port, error) {
	p := &Port{cfg: cfg, log: log, looked: time.Now(), suites: cfg.Suites13()}
	if cfg.CRL || cfg.OCSP {
		p.revoked = newRevocation(cfg.OCSP)
	}
	var err error
	if p.files, err = p.read(); err != nil {
		return nil, err
	}
	c, err := p.decode(p.files)
	if err != nil {
		return nil, err
	}
	p.current.Store(c)
	return p, nil
}

func (p *Port) read() (f files, err error) {
	if f.keys, err = store(p.cfg.KeyStore).Read(); err != nil {
		return f, fmt.Errorf("key store: %w", err)
	}
	if p.cfg.TrustStore.File == "" {
		return f, nil
	}
	if f.trusted, err = store(p.cfg.TrustStore).Read(); err != nil {
		return f, fmt.Errorf("trust store: %w", err)
	}
	return f, nil
}

func store(s config.Store) *keystore.Store { k := keystore.Store(s); return &k }

// decode makes a configuration of the files.
func (p *Port) decode(f files) (*tls.Config, error) {
	keys, err := f.keys.Keys()
	if err != nil {
		return nil, fmt.Errorf("key store: %w", err)
	}
	lowest, highest := p.cfg.Versions()
	c := &tls.Config{
		Certificates: keys, MinVersion: lowest, MaxVersion: highest, CipherSuites: p.cfg.SuiteIDs(),
		DynamicRecordSizingDisabled: true, // a frame is of use when it is whole
	}
	switch p.cfg.ClientAuth {
	case "need":
		c.ClientAuth = tls.RequireAndVerifyClientCert
	case "want":
		c.ClientAuth = tls.VerifyClientCertIfGiven
	}
	if f.trusted == nil {
		return c, nil
	}
	list, err := f.trusted.Trusted()
	if err != nil {
		return nil, fmt.Errorf("trust store: %w", err)
	}
	c.ClientCAs = x509.NewCertPool()
	for _, cert := range list {
		c.ClientCAs.AddCert(cert)
	}
	return c, nil
}

// Config returns a configuration for servers; each connection gets the certificates that
// are current when it shakes hands.
func (p *Port) Config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			p.suites.steer(hello)
			return p.configFor(hello.Conn.RemoteAddr()), nil
		},
	}
}

// configFor returns the current configuration for a client at that address.
func (p *Port) configFor(client net.Addr) *tls.Config {
	p.reread()
	c := p.current.Load()
	if c.ClientAuth == tls.NoClientCert && p.suites == nil {
		return c
	}
	c = c.Clone()
	c.VerifyConnection = func(s tls.ConnectionState) error { return p.verify(c, s, client) }
	return c
}

// verify checks what package crypto/tls does not: the cipher suite of TLS 1.3, that the
// certificate of a resumed connection is still trusted, and, if that is configured, whether it
// is revoked, and the client's address.
func (p *Port) verify(c *tls.Config, s tls.ConnectionState, client net.Addr) error {
	if err := p.suites.check(s); err != nil {
		return err
	}
	if len(s.PeerCertificates) == 0 {
		return nil // crypto/tls has refused it if it must have one
	}
	chains := s.VerifiedChains
	if s.DidResume {
		var err error
		if chains, err = verifyChain(s.PeerCertificates, c.ClientCAs, x509.ExtKeyUsageClientAuth); err != nil {
			return fmt.Errorf("%s: %w", Describe(s.PeerCertificates[0]), err)
		}
	}
	if err := p.revoked.check(chains); err != nil {
		return err
	}
	if !p.cfg.ClientHost || !p.cfg.Hosts {
		return nil
	}
	a, ok := client.(*net.TCPAddr)
	if !ok {
		return errors.New("the client has no address that its certificate could name")
	}
	if err := s.PeerCertificates[0].VerifyHostname(a.IP.String()); err != nil {
		return fmt.Errorf("%s: %w", Describe(s.PeerCertificates[0]), err)
	}
	return nil
}

// reread reads the files again if the last time was long ago. One goroutine does so at a
// time; the others go on with the current certificates.
func (p *Port) reread() {
	if !p.mu.TryLock() {
		return
	}
	defer p.mu.Unlock()
	now := time.Now()
	if now.Sub(p.looked) < rereadInterval {
		return
	}
	p.looked = now
	p.replace()
}

// replace takes the files if they have changed and can be used. REQUIRES: p.mu.
func (p *Port) replace() {
	f, err := p.read()
	if err == nil {
		if f.equal(p.files) {
			return
		}
		p.files = f
		var c *tls.Config
		if c, err = p.decode(f); err == nil {
			p.current.Store(c)
			p.log.Info("new certificates are in use for new connections", "key_store", p.cfg.KeyStore.File, "trust_store", p.cfg.TrustStore.File)
			return
		}
	} else if p.files == (files{}) {
		return // it is known already
	} else {
		p.files = files{} // so that the same files are taken when they are back
	}
	p.log.Error("new certificates cannot be used; the old ones remain in use", "err", err)
}
