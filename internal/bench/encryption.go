package bench

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/pinfold-zk/pinfold/internal/certificate"
)

// Encryption is TLS on every connection of what is measured: one authority has signed one
// certificate, which the servers and the clients have. nil is no encryption.
type Encryption struct {
	store, trust string // files, in PEM
	client       *tls.Config
}

// suites are those of TLS 1.3, in the order in which package crypto/tls prefers them. Apache 3.8 has
// none of them by default.
const suites = "TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256"

// validity is how long certificates that OpenEncryption makes are valid.
const validity = 10 * 365 * 24 * time.Hour

// OpenEncryption reads the key and the certificate in the file store.pem of a directory, and
// the certificate of the authority in trust.pem. If there is no such directory, it is made,
// with new ones for localhost and 127.0.0.1.
func OpenEncryption(dir string) (*Encryption, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	e := &Encryption{store: filepath.Join(dir, "store.pem"), trust: filepath.Join(dir, "trust.pem")}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		if err := e.create(dir); err != nil {
			return nil, fmt.Errorf("bench: make certificates: %w", err)
		}
	}
	own, err := tls.LoadX509KeyPair(e.store, e.store)
	if err != nil {
		return nil, fmt.Errorf("bench: %s: %w", e.store, err)
	}
	authority, err := os.ReadFile(e.trust)
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("bench: %s has no certificate in PEM", e.trust)
	}
	// As Java's clients do it: without a key exchange that resists quantum computers, and each
	// connection with a complete handshake.
	e.client = &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{own}, RootCAs: roots,
		CurvePreferences: []tls.CurveID{tls.X25519}, SessionTicketsDisabled: true, DynamicRecordSizingDisabled: true,
	}
	return e, nil
}

// create makes the directory and its files.
func (e *Encryption) create(dir string) error {
	authority, err := certificate.New(nil, "pinfold bench authority", validity, certificate.Authority)
	if err != nil {
		return err
	}
	own, err := certificate.New(&authority, "pinfold bench", validity, func(c *x509.Certificate) {
		c.DNSNames, c.IPAddresses = []string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)}
	})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(e.store, own.PEM(), 0o600), os.WriteFile(e.trust, authority.Cert, 0o600))
}

// configFor returns what a client uses for a connection to host:port. The certificate of the
// server must name the host.
func (e *Encryption) configFor(addr string) *tls.Config {
	c := e.client.Clone()
	c.ServerName, _, _ = net.SplitHostPort(addr) // it has been connected to
	return c
}

// clientPort returns the lines of zoo.cfg for the port that clients have.
func (e *Encryption) clientPort(port int) []string {
	if e == nil {
		return []string{"clientPort=" + strconv.Itoa(port), "clientPortAddress=127.0.0.1"}
	}
	return []string{
		"secureClientPort=" + strconv.Itoa(port), "secureClientPortAddress=127.0.0.1",
		"serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory", // Apache's other one has no TLS
		"ssl.enabledProtocols=TLSv1.3", "ssl.ciphersuites=" + suites, "ssl.keyStore.location=" + e.store, "ssl.trustStore.location=" + e.trust,
	}
}

// peerPorts returns the lines of zoo.cfg for the ports that the members of an ensemble have
// for each other.
func (e *Encryption) peerPorts() []string {
	if e == nil {
		return nil
	}
	return []string{
		"sslQuorum=true", "ssl.quorum.enabledProtocols=TLSv1.3", "ssl.quorum.ciphersuites=" + suites,
		"ssl.quorum.keyStore.location=" + e.store, "ssl.quorum.trustStore.location=" + e.trust,
	}
}
