package cli

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/internal/server/memconn"
)

// certify writes a certificate for 10.0.0.1, that vouches for itself, and its key.
func certify(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().AddDate(100, 0, 0), IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC), IPAddresses: []net.IP{net.IPv4(10, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

func TestTLS(t *testing.T) {
	cert, key := certify(t)
	var shown atomic.Int32 // certificates that a client has shown
	inBubble(t, func(o *Options) {
		f := newFlagSet("cli")
		o.Register(f)
		words := []string{"-server", "10.0.0.1:2181", "--tls-ca", cert, "--tls-cert", cert, "--tls-key", key}
		if _, err := Arguments(f, words); err != nil {
			t.Fatal(err)
		}
	}, func(r *rig) {
		own, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		config := &tls.Config{Certificates: []tls.Certificate{own}, ClientAuth: tls.RequireAnyClientCert}
		r.opts.dialOptions = []client.Option{client.Dialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
			inner, err := r.server.Dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			near, far := memconn.New(32<<10, netip.MustParseAddrPort("10.9.0.1:40000"))
			outer := tls.Server(far, config)
			for _, c := range [][2]net.Conn{{inner, outer}, {outer, inner}} {
				go func() {
					io.Copy(c[0], c[1])
					shown.Store(int32(len(outer.ConnectionState().PeerCertificates)))
					c[0].Close()
				}()
			}
			return near, nil
		})}
		if got := r.must("ls /"); got != "[zookeeper]\n" {
			t.Errorf("ls / = %q", got)
		}
		r.disconnect()
		if shown.Load() != 1 {
			t.Errorf("the client has shown %d certificates", shown.Load())
		}
		r.opts.tls = tlsOptions{on: true} // nobody vouches for the server
		if _, errs, status := r.do("ls /"); status != statusNoConnection || !strings.Contains(errs, "certificate") {
			t.Errorf("status %d: %s", status, errs)
		}
	})
}

func TestTLSOptionsThatAreWrong(t *testing.T) {
	_, key := certify(t)
	for _, o := range []tlsOptions{{ca: "no/such/file"}, {ca: key}, {cert: key, key: key}, {cert: key}} {
		if _, err := o.config(); ExitStatus(err) != statusUsage {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if c, err := (tlsOptions{}).config(); c != nil || err != nil {
		t.Errorf("without options: %v, %v", c, err)
	}
}
