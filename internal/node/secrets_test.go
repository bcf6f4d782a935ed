package node

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/base64"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/test/certs"
	"github.com/pinfold-zk/pinfold/test/tickets"
	"github.com/pinfold-zk/pinfold/zk"
)

// The secrets that TestSecretsAreNotShown plants.
const (
	plantedPassword = "planted-of-a-store"
	plantedSuper    = "planted-of-the-superuser"
	plantedUser     = "planted-of-a-user"
	plantedLogin    = "planted-of-a-login"
	plantedSecret   = "planted-of-the-sessions"
	plantedPeer     = "planted-of-a-peer"
	plantedPeers    = "planted-of-the-stores-for-peers"
)

// said collects everything that a server says.
type said struct {
	mu sync.Mutex
	bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Buffer.Write(p)
}

// shown returns those of the secrets that were said.
func (s *said) shown(secrets []string) (list []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, secret := range secrets {
		if strings.Contains(s.String(), secret) {
			list = append(list, secret)
		}
	}
	return list
}

func digestOf(user, password string) string {
	sum := sha1.Sum([]byte(user + ":" + password))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// No log line, four-letter word, administration command, audit line or error contains a
// password, a digest of one, the password of a session or a private key.
func TestSecretsAreNotShown(t *testing.T) {
	var all said
	log := slog.New(slog.NewTextHandler(&all, &slog.HandlerOptions{Level: slog.LevelDebug}))
	cfg, fs := secretive(t), vfs.NewMem()
	n, stop := run(t, Options{Config: cfg, FS: fs, Logger: log})
	password, keys := useSecrets(t, n)
	for _, word := range []string{"conf", "cons", "crst", "dirs", "dump", "envi", "gtmk", "hash", "icfg", "isro", "lsnp", "mntr", "ruok", "srst", "srvr", "stat", "wchc", "wchp", "wchs"} {
		answer, err := client.FourLetter(t.Context(), n.Addr().String(), word)
		if err != nil {
			t.Errorf("%s: %v", word, err)
		}
		all.Write([]byte(answer))
	}
	page := "http://" + n.AdminAddr().String()
	for _, link := range regexp.MustCompile(`/commands/\w+`).FindAllString(get(t, &all, page+"/commands"), -1) {
		get(t, &all, page+link)
	}
	get(t, &all, page+"/metrics")
	if err := stop(); err != nil {
		t.Error(err)
	}
	f, err := fs.Open(cfg.Audit.File)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(&all, f); err != nil {
		t.Error(err)
	}
	if all.Len() < 10000 {
		t.Errorf("the server has said %d bytes only", all.Len())
	}
	secrets := []string{plantedPassword, plantedSuper, plantedUser, plantedLogin, plantedSecret, "BEGIN PRIVATE KEY",
		digestOf("super", plantedSuper), digestOf("bob", plantedUser), plantedPeer, plantedPeers}
	for _, secret := range append(keys, password) {
		secrets = append(secrets, string(secret), hex.EncodeToString(secret), base64.StdEncoding.EncodeToString(secret))
	}
	if shown := all.shown(secrets); len(shown) > 0 {
		t.Errorf("shown: %q", shown)
	}
}

// secretive is a configuration full of secrets.
func secretive(t *testing.T) *config.Config {
	t.Helper()
	dir, server := t.TempDir(), certs.New(t, "server")
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	login := write("jaas.conf", `Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_bob="`+plantedLogin+`" user_super="x";
com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true keyTab="`+tickets.Keytab(t)+`" principal="`+tickets.Service+"@"+tickets.Realm+`"; };
QuorumServer { org.apache.zookeeper.server.auth.DigestLoginModule required user_zk="`+plantedPeer+`"; };
QuorumLearner { org.apache.zookeeper.server.auth.DigestLoginModule required username="zk" password="`+plantedPeer+`"; };`)
	zoo := "dataDir=/data\npreAllocSize=64\nclientPort=0\nclientPortAddress=127.0.0.1\nclient.portUnification=true\nssl.clientAuth=none\n" +
		"4lw.commands.whitelist=*\nadmin.enableServer=true\nadmin.serverAddress=127.0.0.1\nadmin.serverPort=0\n" +
		"quorum.auth.enableSasl=true\nquorum.auth.learnerRequireSasl=true\nquorum.auth.serverRequireSasl=true\n" +
		"ssl.quorum.keyStore.location=" + server.Store(t) + "\nssl.quorum.trustStore.location=" + server.Trust(t) +
		"\nssl.quorum.trustStore.password=" + plantedPeers + "\nportUnification=true\n" +
		"audit.enable=true\naudit.file=/logs/audit.log\naudit.details=true\n" +
		"ssl.keyStore.location=" + server.Store(t) + "\nssl.trustStore.location=" + server.Trust(t) + "\nssl.trustStore.password=" + plantedPassword + "\n" +
		"DigestAuthenticationProvider.superDigest=super:" + digestOf("super", plantedSuper) + "\n" +
		"SASLAuthenticationProvider.superPassword=" + plantedLogin + "\nsessionSecretFile=" + write("secret", plantedSecret+" and so on, for 32 bytes") + "\n"
	cfg, _, err := config.Load(write("zoo.cfg", zoo), []string{"-Djava.security.auth.login.config=" + login}, "")
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// useSecrets has clients log in, rightly and wrongly, and returns the password of a session,
// and keys of Kerberos: those of the server and of one login.
func useSecrets(t *testing.T, n *Node) (password []byte, keys [][]byte) {
	t.Helper()
	ctx := t.Context()
	c := dial(t, n)
	try := func(what string, err error) {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	try("bob", c.AddAuth(ctx, "digest", []byte("bob:"+plantedUser)))
	_, err := c.Create(ctx, "/a", nil, zk.Persistent, zk.AuthACL(zk.PermAll))
	try("create", err)
	_, err = c.SetACL(ctx, "/a", []zk.ACL{{Perms: zk.PermAll, ID: zk.ID{Scheme: "digest", ID: "bob:" + digestOf("bob", plantedUser)}}}, -1)
	try("setACL", err)
	try("super", c.AddAuth(ctx, "digest", []byte("super:"+plantedSuper)))
	other := dial(t, n)
	if err := other.AddAuth(ctx, "none", []byte("bob:"+plantedUser)); err == nil {
		t.Error("an unknown scheme is accepted")
	}
	ticket := tickets.New(t, nil)
	keys = append(keys, ticket.Key.KeyValue)
	for _, e := range tickets.Keys().Entries {
		keys = append(keys, e.Key.KeyValue)
	}
	byKerberos, err := client.Kerberos(client.KerberosOptions{
		Cache: tickets.Cache(t, ticket), Config: tickets.Config(t), Server: tickets.Service + "@" + tickets.Realm,
	})
	try("kerberos", err)
	for _, m := range []client.Mechanism{byKerberos, client.DigestMD5("bob", plantedLogin)} {
		c, err := client.Dial(ctx, n.Addr().String(), client.SASL(m))
		try("login", err)
		c.Close()
	}
	if _, err := client.Dial(ctx, n.Addr().String(), client.SASL(client.DigestMD5("bob", plantedUser))); err == nil || strings.Contains(err.Error(), "planted") {
		t.Errorf("a wrong password: %v", err)
	}
	return c.SessionPassword(), keys
}

func get(t *testing.T, all *said, page string) string {
	t.Helper()
	q, err := http.NewRequestWithContext(context.Background(), http.MethodGet, page, nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "digest super:"+plantedSuper)
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Error(err)
	}
	if !strings.HasSuffix(page, "/snapshot") { // it is the data, ACLs included, for the superuser
		all.Write(body)
	}
	return string(body)
}

// What is wrong with a secret is said without the secret.
func TestErrorsHaveNoSecrets(t *testing.T) {
	server := certs.New(t, "server")
	for _, zoo := range []string{
		"ssl.keyStore.location=" + server.Store(t) + "\nssl.keyStore.type=JKS\nssl.keyStore.password=" + plantedPassword,
		"ssl.keyStore.Password=" + plantedPassword,
		"metricsProvider.ssl.keyStore.password=" + plantedPassword,
		"DigestAuthenticationProvider.superDigest=" + plantedPassword + "\nssl.keyStore.location=/none",
		"SASLAuthenticationProvider.superpassword=" + plantedPassword,
	} {
		var all said
		source := config.Source{Settings: map[string]string{"dataDir": "/data", "clientPort": "0", "clientPortAddress": "127.0.0.1", "client.portUnification": "true"}}
		for line := range strings.Lines(zoo) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			source.Settings[key] = value
		}
		cfg, warnings, err := source.Load()
		for _, w := range warnings {
			all.Write([]byte(w.String()))
		}
		if err == nil {
			for _, r := range cfg.Risks() {
				all.Write([]byte(r.String()))
			}
			_, err = Open(Options{Config: cfg, FS: vfs.NewMem(), Logger: slog.New(slog.NewTextHandler(&all, nil))})
		}
		if err == nil {
			t.Errorf("%q is accepted", zoo)
			continue
		}
		all.Write([]byte(err.Error()))
		if shown := all.shown([]string{plantedPassword}); len(shown) > 0 {
			t.Errorf("%q: %s", zoo, all.String())
		}
	}
}
