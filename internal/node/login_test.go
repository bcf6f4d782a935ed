package node

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/session"
	"github.com/pinfold-zk/pinfold/test/tickets"
)

func TestLogins(t *testing.T) {
	const digest, kerberosModule = "org.apache.zookeeper.server.auth.DigestLoginModule", "com.sun.security.auth.module.Krb5LoginModule"
	keytab, conf := tickets.Keytab(t), tickets.Config(t)
	tests := []struct {
		name     string
		file     string
		super    string
		rules    string // auth_to_local; "" for DEFAULT
		can      bool   // some user can log in
		kerberos bool   // some principal can
		err, log string // parts of
	}{
		{name: "users", file: `Server { ` + digest + ` required user_bob="b"; };`, can: true},
		{name: "another section", file: `Client { ` + digest + ` required username="b"; };`, log: "lacks the section"},
		{name: "empty file", log: "lacks the section"},
		{name: "syntax", file: "Server {\nx", err: "jaas.conf: sasl: login configuration, line 2: "},
		{name: "Kerberos", file: `Server { ` + kerberosModule + ` required useKeyTab=true storeKey=true keyTab="` + keytab + `" principal="zookeeper/host.example.com@EXAMPLE.COM"; };`, kerberos: true},
		{name: "Kerberos and users", file: `Server { ` + kerberosModule + ` required useKeyTab=true storeKey=true keyTab="` + keytab + `" principal="zookeeper/host.example.com"; ` + digest + ` required user_bob="b"; };`, can: true, kerberos: true},
		{name: "Kerberos without a key", file: `Server { ` + kerberosModule + ` required useKeyTab=true storeKey=true keyTab="` + keytab + `" principal="other"; };`, err: "has no key of other@EXAMPLE.COM"},
		{name: "Kerberos without a keytab", file: `Server { ` + kerberosModule + ` required useKeyTab=true storeKey=true keyTab="/nowhere" principal="a@B"; };`, err: "stat /nowhere"},
		{name: "rules", rules: "DEFAULT RULE", file: `Server { ` + kerberosModule + ` required useKeyTab=true storeKey=true keyTab="` + keytab + `" principal="zookeeper/host.example.com"; };`, err: "security.auth_to_local: invalid rule"},
		{name: "a property", file: `Server { ` + digest + ` required user_bob="${my.password}"; };`, can: true},
		{name: "no such property", file: `Server { ` + digest + ` required user_bob="${your.password}"; };`, err: `no property "your.password"`},
		{name: "password of super", file: `Server { ` + digest + ` required user_super="s"; };`, super: "other", can: true},
		{name: "password of nobody", file: `Server { ` + digest + ` required user_bob="b"; };`, super: "other", can: true, log: "no user super"},
		{name: "too long", file: strings.Repeat(" ", 1<<20) + "x", err: "sasl: login configuration of 1048577 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := config.Default()
			cfg.Properties = map[string]string{"my.password": "b"}
			cfg.Auth.SASL.LoginFile = filepath.Join(t.TempDir(), "jaas.conf")
			cfg.Auth.SASL.SuperPassword, cfg.Auth.SASL.KerberosFile = tt.super, conf
			if tt.rules != "" {
				cfg.Auth.SASL.NameRules = tt.rules
			}
			if err := os.WriteFile(cfg.Auth.SASL.LoginFile, []byte(tt.file), 0o600); err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			l, err := logins(cfg, new(passwords), slog.New(slog.NewTextHandler(&log, nil)))
			if (l.Digest != nil) != tt.can || (l.Kerberos != nil) != tt.kerberos {
				t.Errorf("users %v, principals %v", l.Digest != nil, l.Kerberos)
			}
			if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
			if tt.log == "" && log.Len() > 0 || !strings.Contains(log.String(), tt.log) {
				t.Errorf("log %q, want %q", log.String(), tt.log)
			}
		})
	}
}

func TestLoginsWithoutAFile(t *testing.T) {
	cfg := config.Default()
	if l, err := logins(cfg, new(passwords), slog.New(slog.DiscardHandler)); l.Digest != nil || err != nil {
		t.Errorf("%v, %v", l.Digest != nil, err)
	}
	cfg.Auth.SASL.LoginFile = filepath.Join(t.TempDir(), "none")
	if l, err := logins(cfg, new(passwords), slog.New(slog.DiscardHandler)); l.Digest != nil || err == nil || !strings.Contains(err.Error(), "java.security.auth.login.config") {
		t.Errorf("%v, %v", l.Digest != nil, err)
	}
}

func TestSessionPasswords(t *testing.T) {
	const id = 0x1000123456780000
	apache := session.Password(id)
	for _, tt := range []struct {
		name, file, password string
		apache               bool   // Apache's password is accepted
		err                  string // part of it
	}{
		{name: "a secret", file: "0123456789abcdef"},
		{name: "secret", file: "0123456789abcdef", password: "secret"},
		{name: "both", file: "0123456789abcdef", password: "both", apache: true},
		{name: "apache", file: "0123456789abcdef", password: "apache", apache: true},
		{name: "too short", file: "0123456789abcde", err: "has 15 bytes; it must have 16 to 1024"},
		{name: "too long", file: strings.Repeat("x", maxSecretBytes+1), err: "has 1025 bytes"},
	} {
		cfg := config.Default()
		cfg.Session.SecretFile, cfg.Session.Password = filepath.Join(t.TempDir(), "secret"), tt.password
		if err := os.WriteFile(cfg.Session.SecretFile, []byte(tt.file), 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := sessionPasswords(cfg)
		if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.err)
		}
		if err == nil && p.Accepts(id, apache[:]) != tt.apache {
			t.Errorf("%s: Apache's password is accepted: %v", tt.name, !tt.apache)
		}
	}
	cfg := config.Default()
	if p, err := sessionPasswords(cfg); err != nil || p.Of(id) != apache {
		t.Errorf("without a secret: %v", err)
	}
	cfg.Session.SecretFile = filepath.Join(t.TempDir(), "none")
	if _, err := sessionPasswords(cfg); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no such file: %v", err)
	}
}

func TestPeerLogins(t *testing.T) {
	const server = `QuorumServer { org.apache.zookeeper.server.auth.DigestLoginModule required user_bob="secret"; };`
	const learner = `QuorumLearner { org.apache.zookeeper.server.auth.DigestLoginModule required username="bob" password="secret"; };`
	const kerberosModule = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
	key := ` keyTab="` + tickets.Keytab(t) + `" principal="` + tickets.Service + `@` + tickets.Realm + `"; };`
	short := strings.ReplaceAll(key, "@"+tickets.Realm, "")
	for _, tt := range []struct{ name, file, err string }{
		{"both", server + learner, ""},
		{"the realm of the property", server + `QuorumLearner { ` + kerberosModule + short, ""},
		{"Kerberos", `QuorumServer { ` + kerberosModule + key + `QuorumLearner { ` + kerberosModule + key, ""},
		{"Kerberos without a key", `QuorumServer { ` + kerberosModule + ` keyTab="/nowhere" principal="a/b"; };` + learner, "jaas.conf: kerberos: keytab: stat /nowhere"},
		{"no key of this server", server + `QuorumLearner { ` + kerberosModule + ` keyTab="/nowhere" principal="a/b@C"; };`, "jaas.conf: kerberos: keytab: stat /nowhere"},
		{"no users", learner, "jaas.conf: no section QuorumServer: quorum.auth.enableSasl needs it"},
		{"no password", server, "jaas.conf: no section QuorumLearner: quorum.auth.enableSasl needs it"},
		{"half", server + `QuorumLearner { org.apache.zookeeper.server.auth.DigestLoginModule required username="bob"; };`,
			"jaas.conf: sasl: section QuorumLearner: org.apache.zookeeper.server.auth.DigestLoginModule has no password"},
		{"syntax", "QuorumServer {", "jaas.conf: sasl: login configuration, line 1"},
	} {
		cfg := config.Default()
		cfg.Quorum.StandaloneEnabled, cfg.Quorum.Members.Servers = false, []config.Member{{ID: 1}}
		cfg.Auth.SASL.KerberosFile, cfg.Auth.SASL.KerberosRealm = os.DevNull, tickets.Realm
		cfg.Auth.SASL.LoginFile = filepath.Join(t.TempDir(), "jaas.conf")
		if err := os.WriteFile(cfg.Auth.SASL.LoginFile, []byte(tt.file), 0o600); err != nil {
			t.Fatal(err)
		}
		if a, err := peerLogins(cfg, new(passwords), slog.New(slog.DiscardHandler)); a != nil || err != nil {
			t.Errorf("%s, not enabled: %v, %v", tt.name, a, err)
		}
		cfg.Quorum.Login = config.PeerLogin{Enabled: true, LearnerRequired: true, ServerSection: "QuorumServer", LearnerSection: "QuorumLearner"}
		a, err := peerLogins(cfg, new(passwords), slog.New(slog.DiscardHandler))
		if (a != nil) != (tt.err == "") || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %v, %v; want %q", tt.name, a, err, tt.err)
		}
		if a != nil && (!a.LearnerRequired() || a.ServerRequired()) {
			t.Errorf("%s: what is required is lost", tt.name)
		}
		if tt.err == "" {
			var log bytes.Buffer
			if _, err := logins(cfg, new(passwords), slog.New(slog.NewTextHandler(&log, nil))); err != nil || log.Len() > 0 {
				t.Errorf("a file for servers alone: %v, %s", err, log.String())
			}
		}
	}
}

// A server that logs in with a ticket cache, which it does not renew, says so.
func TestPeerLoginByCache(t *testing.T) {
	cfg := config.Default()
	cfg.Quorum.StandaloneEnabled, cfg.Quorum.Members.Servers = false, []config.Member{{ID: 1}}
	cfg.Quorum.Login = config.PeerLogin{Enabled: true, LearnerRequired: true, ServerSection: "QuorumServer", LearnerSection: "QuorumLearner"}
	cfg.Auth.SASL.KerberosFile = tickets.Config(t)
	cfg.Auth.SASL.LoginFile = filepath.Join(t.TempDir(), "jaas.conf")
	const module = " { com.sun.security.auth.module.Krb5LoginModule required "
	text := `QuorumServer` + module + `useKeyTab=true storeKey=true keyTab="` + tickets.Keytab(t) + `" principal="` + tickets.Service + `"; };` +
		`QuorumLearner` + module + `useTicketCache=true ticketCache="` + tickets.Cache(t, tickets.New(t, func(*tickets.Issue) {})) + `"; };`
	if err := os.WriteFile(cfg.Auth.SASL.LoginFile, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	if _, err := peerLogins(cfg, new(passwords), slog.New(slog.NewTextHandler(&log, nil))); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "ticket cache") || !strings.Contains(log.String(), "principal=bob/admin@"+tickets.Realm) {
		t.Errorf("log: %s", log.String())
	}
}

// The superuser's digest from a file, and no other.
func TestSuperDigestOfAFile(t *testing.T) {
	const digest = "super:lK75jTNcA+U9vtVEw5vB51mj/w4=" // of super:secret
	for _, c := range []struct{ text, err string }{
		{digest, ""}, {digest + "\n", ""}, {digest + "\r\n", ""},
		{"", "not of the form user:base64"}, {"secret", "not of the form user:base64"}, {strings.Repeat("x", 5000), "not of the form"},
	} {
		cfg := config.Default()
		cfg.Auth.SuperDigest = "other:x"
		cfg.Auth.SuperFile = filepath.Join(t.TempDir(), "super")
		if err := os.WriteFile(cfg.Auth.SuperFile, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		a, err := authority(cfg, new(passwords))
		if (err == nil) != (c.err == "") || err != nil && (!strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%.40q: %v, want %q", c.text, err, c.err)
		}
		if err != nil {
			continue
		}
		if ids, _ := a.Authenticate("digest", []byte("super:secret"), nil); len(ids) != 2 || ids[0].Scheme != "super" {
			t.Errorf("%.40q: identities %v", c.text, ids)
		}
	}
	cfg := config.Default()
	cfg.Auth.SuperFile = "/nowhere"
	if _, err := authority(cfg, new(passwords)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no such file: %v", err)
	}
}
