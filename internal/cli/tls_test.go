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
	"github.com/pinfold-zk/pinfold/test/memconn"
	"github.com/pinfold-zk/pinfold/test/tickets"
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

// encrypted makes connections to a server that wants TLS. It counts the certificates
// that a client has shown.
func encrypted(r *rig, config *tls.Config, shown *atomic.Int32) []client.Option {
	return []client.Option{client.Dialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
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
		r.opts.dialOptions = encrypted(r, config, &shown)
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

// The file that zkCli.sh is given by -client-configuration means the same here. The server's
// certificate is for 10.0.0.1.
func TestClientConfiguration(t *testing.T) {
	cert, key := certify(t)
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	var both strings.Builder
	for _, file := range []string{key, cert} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		both.Write(text)
	}
	store := write("store.pem", both.String())
	secure := "# of a test\nzookeeper.client.secure=true\nzookeeper.clientCnxnSocket = org.apache.zookeeper.ClientCnxnSocketNetty\n" +
		"zookeeper.ssl.trustStore.location=\\\n  " + cert + "\nzookeeper.ssl.trustStore.type PEM\n" +
		"zookeeper.ssl.keyStore.location: " + store + "\nzookeeper.ssl.keyStore.password=\n"
	for _, c := range []struct{ name, text, server, want string }{
		{"all", secure, "10.0.0.1:2181", ""},
		{"another host", secure, "10.0.0.2:2181", "certificate"},
		{"any host", secure + "zookeeper.ssl.hostnameVerification=false\n", "10.0.0.2:2181", ""},
		{"nobody vouches", "zookeeper.client.secure=true\nzookeeper.ssl.hostnameVerification=false\n", "10.0.0.2:2181", "certificate"},
		{"not secure", strings.Replace(secure, "secure=true", "secure=false", 1), "10.0.0.1:2181", "Cannot connect"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(o *Options) { o.properties, o.Servers = write("client.properties", c.text), c.server }, func(r *rig) {
				own, err := tls.LoadX509KeyPair(cert, key)
				if err != nil {
					t.Fatal(err)
				}
				r.opts.dialOptions = encrypted(r, &tls.Config{Certificates: []tls.Certificate{own}, ClientAuth: tls.RequestClientCert}, new(atomic.Int32))
				_, errs, status := r.do("ls /")
				if c.want == "" && status != statusOK || c.want != "" && (status != statusNoConnection || !strings.Contains(errs, c.want)) {
					t.Errorf("status %d: %s; want %q", status, errs, c.want)
				}
			})
		})
	}
	for _, text := range []string{
		"zookeeper.ssl.keyStore.location=/x/store.bcfks", "zookeeper.ssl.trustStore.type=DKS", "zookeeper.ssl.trustStore.location=x.pfx",
		"zookeeper.ssl.context.supplier.class=x", "zookeeper.ssl.keyStore.alias=x",
		"zookeeper.ssl.protocol=TLSv1.1", "zookeeper.ssl.enabledProtocols=TLSv1.3,SSLv3", "zookeeper.ssl.ciphersuites=TLS_NONE",
	} {
		o := tlsOptions{}
		properties, err := javaProperties("", write("client.properties", "zookeeper.client.secure=true\n"+text))
		if err != nil {
			t.Fatal(err)
		}
		err = o.use(properties)
		name, _, _ := strings.Cut(text, "=")
		if store, _, ok := strings.Cut(name, "Store."); ok && !strings.HasSuffix(name, "alias") {
			name = store + "Store"
		}
		if ExitStatus(err) != statusUsage || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := newShell(Options{properties: "no/such/file"}); ExitStatus(err) != statusUsage {
		t.Error(err)
	}
}

// The stores of a file of properties are in every format of zkCli.sh's.
func TestStoresOfProperties(t *testing.T) {
	const dir, password = "../keystore/testdata/", "changeit"
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ own, trust, password, want string }{
		{"keys.jks", "trust.jks", "password=" + password, ""},
		{"keys.p12", "trust.p12", "passwordPath=" + secret, ""},
		{"named.jks", "trust.p12", "password=" + password, ""},
		{"encrypted.pem", "trust.pem", "password=" + password, ""},
		{"keys.p12", "trust.p12", "password=wrong", "the password is wrong"},
		{"trust.jks", "trust.jks", "password=" + password, "has no private key"},
		{"keys.jks", "keys.pem.none", "password=" + password, "no such file"},
	} {
		text := "zookeeper.client.secure=true\n"
		for store, file := range map[string]string{"keyStore": c.own, "trustStore": c.trust} {
			text += "zookeeper.ssl." + store + ".location=" + dir + file + "\nzookeeper.ssl." + store + "." + c.password + "\n"
		}
		file := filepath.Join(t.TempDir(), "client.properties")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var o tlsOptions
		properties, err := javaProperties("", file)
		if err == nil {
			err = o.use(properties)
		}
		if err != nil {
			t.Fatal(err)
		}
		config, err := o.config()
		if c.want != "" {
			if ExitStatus(err) != statusUsage || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), password) {
				t.Errorf("%+v: %v", c, err)
			}
			continue
		}
		if err != nil || len(config.Certificates) != 1 || config.RootCAs == nil || config.RootCAs.Equal(x509.NewCertPool()) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestLoginFilesThatAreWrong(t *testing.T) {
	const module = "org.apache.zookeeper.server.auth.DigestLoginModule required"
	cache, conf := tickets.Cache(t, tickets.New(t, nil)), tickets.Config(t)
	t.Setenv("KRB5CCNAME", filepath.Join(t.TempDir(), "none"))
	for text, want := range map[string]string{
		"Client { " + module + ` username="bob" password="s3cret"; };`:                                                                                         "",
		"Client { " + module + ` username="bob"; };`:                                                                                                           "has no section",
		"Server { " + module + ` username="bob" password="s3cret"; };`:                                                                                         "has no section",
		`Client { com.sun.security.auth.module.Krb5LoginModule required username="bob" password="s3cret"; };`:                                                  "run kinit",
		`Client { com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="/nowhere" principal="a@B"; };`:                                  "/nowhere",
		`Client { com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true ticketCache="` + cache + `" principal="bob/admin@EXAMPLE.COM"; };`: "",
		`Client { com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true ticketCache="` + cache + `" principal="eve@EXAMPLE.COM"; };`:       "not of eve",
		"Client { " + module + ` username="bob" password="s3cret" };`:                                                                                          "line 1",
	} {
		file := filepath.Join(t.TempDir(), "jaas.conf")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := loginOptions{file: file, KerberosOptions: client.KerberosOptions{Config: conf}}.mechanism()
		if want == "" && (m == nil || err != nil) {
			t.Errorf("%s: %v", text, err)
		}
		if want != "" && (ExitStatus(err) != statusUsage || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret")) {
			t.Errorf("%s: %v; want %q", text, err, want)
		}
	}
	if _, err := (loginOptions{file: "no/such/file"}).mechanism(); ExitStatus(err) != statusUsage {
		t.Error(err)
	}
}

// TestKerberosOptions: what turns a login by Kerberos on, and what a file of properties adds.
func TestKerberosOptions(t *testing.T) {
	cache, conf := tickets.Cache(t, tickets.New(t, nil)), tickets.Config(t)
	t.Setenv("KRB5CCNAME", "FILE:"+cache)
	for name, tt := range map[string]struct {
		o  loginOptions
		on bool
	}{
		"nothing":     {},
		"--kerberos":  {loginOptions{kerberos: true}, true},
		"--principal": {loginOptions{KerberosOptions: client.KerberosOptions{Principal: "bob/admin"}}, true},
	} {
		tt.o.Config = conf
		if m, err := tt.o.mechanism(); (m != nil) != tt.on || err != nil {
			t.Errorf("%s: %v, %v", name, m, err)
		}
	}
	if _, err := (loginOptions{KerberosOptions: client.KerberosOptions{Keytab: "/nowhere", Principal: "a", Config: conf}}).mechanism(); ExitStatus(err) != statusUsage {
		t.Errorf("a keytab that is missing: %v", err)
	}
	file := filepath.Join(t.TempDir(), "client.properties")
	text := "zookeeper.sasl.clientconfig=Mine\nzookeeper.sasl.client.username=zoo\nzookeeper.server.realm=R\nzookeeper.server.principal=zoo/all@R\n" +
		"zookeeper.sasl.client.canonicalize.hostname=true\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o := loginOptions{KerberosOptions: client.KerberosOptions{Realm: "OTHER"}}
	want := loginOptions{section: "Mine", KerberosOptions: client.KerberosOptions{Service: "zoo", Realm: "OTHER", Server: "zoo/all@R", Canonicalize: true}}
	properties, err := javaProperties("", file)
	if o.use(properties); err != nil || o != want {
		t.Errorf("%+v, %v; want %+v", o, err, want)
	}
}
