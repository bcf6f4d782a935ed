package node

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/test/certs"
)

// exposedFiles are a directory whose files have good modes, and the zoo.cfg that names them.
var exposedFiles = map[string]string{
	"key.pem": "k", "trust.pem": "t", "key.password": "p", "super": "s", "secret": "s", "limits": "", "audit.log": "", "krb5.conf": "", "server.keytab": "k", "peer.keytab": "k",
	"jaas.conf": `Server { com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true keyTab="DIR/server.keytab" principal="zookeeper/a"; };
QuorumServer { com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true keyTab="DIR/peer.keytab" principal="zkquorum/a"; };
QuorumLearner { com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="DIR/peer.keytab" principal="learner/a"; };`,
	"zoo.cfg": `dataDir=DIR/data
dataLogDir=DIR/log
secureClientPort=2281
ssl.keyStore.location=DIR/key.pem
ssl.keyStore.passwordPath=DIR/key.password
ssl.trustStore.location=DIR/trust.pem
sessionSecretFile=DIR/secret
DigestAuthenticationProvider.superDigestPath=DIR/super
limitsFile=DIR/limits
audit.file=DIR/audit.log
ssl.quorum.keyStore.password=x
`,
}

// A file or directory with a mode that lets other users read or change it is named, with its
// setting and the command that mends it.
func TestExposed(t *testing.T) {
	for _, c := range []struct {
		name string
		mode fs.FileMode
		want string // the key and what is said, with the name cut
	}{
		{"key.pem", 0o640, "ssl.keyStore.location: the group of the file may read key.pem, which has the private key. Run: chmod go= key.pem"},
		{"key.pem", 0o604, "ssl.keyStore.location: every user of this machine may read key.pem, which has the private key. Run: chmod go= key.pem"},
		{"key.pem", 0o666, "ssl.keyStore.location: every user of this machine may read and change key.pem, which has the private key. Run: chmod go= key.pem"},
		{"key.password", 0o644, "ssl.keyStore.passwordPath: every user of this machine may read key.password, which has a password. Run: chmod go= key.password"},
		{"trust.pem", 0o644, ""},
		{"trust.pem", 0o664, "ssl.trustStore.location: the group of the file may change trust.pem. Run: chmod go-w trust.pem"},
		{"secret", 0o644, "sessionSecretFile: every user of this machine may read secret, which has the secret of all sessions. Run: chmod go= secret"},
		{"super", 0o644, "DigestAuthenticationProvider.superDigestPath: every user of this machine may read super, which has the superuser's digest. Run: chmod go= super"},
		{"jaas.conf", 0o644, "java.security.auth.login.config: every user of this machine may read jaas.conf, which has the logins. Run: chmod go= jaas.conf"},
		{"server.keytab", 0o640, "java.security.auth.login.config: the group of the file may read server.keytab, which has keys of Kerberos. Run: chmod go= server.keytab"},
		{"peer.keytab", 0o640, "java.security.auth.login.config: the group of the file may read peer.keytab, which has keys of Kerberos. Run: chmod go= peer.keytab"},
		{"krb5.conf", 0o666, "java.security.krb5.conf: every user of this machine may change krb5.conf. Run: chmod go-w krb5.conf"},
		{"limits", 0o666, "limitsFile: every user of this machine may change limits. Run: chmod go-w limits"},
		{"audit.log", 0o620, "audit.file: the group of the file may change audit.log. Run: chmod go-w audit.log"},
		{"zoo.cfg", 0o644, "zoo.cfg: every user of this machine may read zoo.cfg, which has passwords. Run: chmod go= zoo.cfg"},
		{"data", 0o755, "dataDir: every user of this machine may read data, which has all data. Run: chmod go= data"},
		{"log/version-2", 0o750, "dataLogDir: the group of the file may read log/version-2, which has all changes of the data. Run: chmod go= log/version-2"},
		{".", 0o777, "zoo.cfg: every user of this machine may replace the files in .. Run: chmod go-w ."},
		{".", 0o777 | fs.ModeSticky, ""},
		{".", 0o700, ""},
	} {
		t.Run(c.name+" "+c.mode.String(), func(t *testing.T) {
			dir := t.TempDir()
			for _, d := range []string{filepath.Dir(dir), dir} { // testing makes the first with 0700
				if err := os.Chmod(d, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if mode, _ := reachable(dir, 0o055); mode != 0o055 {
				t.Skip("SKIPPED: other users cannot reach the directory of this test")
			}
			cfg := writeExposed(t, dir)
			if err := os.Chmod(filepath.Join(dir, c.name), c.mode); err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, r := range Exposed(cfg) {
				if r.Where == "" || r.Severe {
					t.Errorf("%+v", r)
				}
				text := strings.ReplaceAll(r.Key+": "+r.Danger+". "+r.Advice, dir+"/", "")
				got += strings.ReplaceAll(text, dir, ".")
			}
			if got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
		})
	}
}

// writeExposed writes exposedFiles.
func writeExposed(t *testing.T, dir string) *config.Config {
	t.Helper()
	for _, name := range []string{"data", "log", "log/version-2"} {
		mode := fs.FileMode(0o700)
		if name == "log" {
			mode = 0o755
		}
		if err := errors.Join(os.Mkdir(filepath.Join(dir, name), mode), os.Chmod(filepath.Join(dir, name), mode)); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range exposedFiles {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.ReplaceAll(text, "DIR", dir)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg, _, err := config.Load(filepath.Join(dir, "zoo.cfg"), []string{
		"-Djava.security.auth.login.config=" + dir + "/jaas.conf", "-Djava.security.krb5.conf=" + dir + "/krb5.conf", "-Dzookeeper.superUser=x"}, "")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Quorum.Login.Enabled = true
	return cfg
}

// A certificate that is about to end, and a key that is too short.
func TestCertificates(t *testing.T) {
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(1000 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, weak.Public(), weak)
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(weak)
	if err != nil {
		t.Fatal(err)
	}
	short := filepath.Join(t.TempDir(), "weak.pem")
	text := slices.Concat(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	if err := os.WriteFile(short, text, 0o600); err != nil {
		t.Fatal(err)
	}
	year := certs.New(t, "year", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(8760 * time.Hour) })
	for store, want := range map[string]string{
		certs.New(t, "hour").Store(t): "is valid until", year.Store(t): "", short: "has 1024 bits", "missing.pem": "",
	} {
		cfg := &config.Config{TLS: config.TLS{KeyStore: config.Store{File: store}}, Client: config.Client{Secure: true}}
		risks := Certificates(cfg, time.Now())
		if want == "" && len(risks) > 0 || want != "" && (len(risks) != 1 || !strings.Contains(risks[0].String(), want)) {
			t.Errorf("%v, want %q", risks, want)
		}
		cfg.Client.Secure = false
		if risks := Certificates(cfg, time.Now()); len(risks) > 0 {
			t.Errorf("without a port: %v", risks)
		}
	}
}
