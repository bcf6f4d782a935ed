package node

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"

	"github.com/pinfold-zk/pinfold/internal/auth"
	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/kerberos"
	"github.com/pinfold-zk/pinfold/internal/node/options"
	"github.com/pinfold-zk/pinfold/internal/peerauth"
	"github.com/pinfold-zk/pinfold/internal/sasl"
	"github.com/pinfold-zk/pinfold/internal/server"
	"github.com/pinfold-zk/pinfold/internal/session"
)

// authority returns the access control of the configuration, with the superuser of the file
// that it names, which p has from now on.
func authority(cfg *config.Config, p *passwords) (*auth.Authority, error) {
	o := options.Auth(cfg)
	if name := cfg.Auth.SuperFile; name != "" {
		text, err := readFile(name, maxSecretBytes)
		if err == nil {
			err = p.useSuper(text)
		}
		if err != nil {
			return nil, fmt.Errorf("server: DigestAuthenticationProvider.superDigestPath: %s: %w", name, err)
		}
		o.CurrentSuperDigest = p.superDigest
	}
	return auth.New(o)
}

// loginFile reads the login file of the configuration.
func loginFile(cfg *config.Config) (sasl.Login, error) {
	name := cfg.Auth.SASL.LoginFile
	text, err := readFile(name, sasl.MaxLoginBytes)
	if err != nil {
		return nil, fmt.Errorf("server: java.security.auth.login.config: %w", err)
	}
	login, err := parseLogin(cfg, text)
	if err != nil {
		return nil, fmt.Errorf("server: %s: %w", name, err)
	}
	return login, nil
}

// parseLogin reads the content of a login file.
func parseLogin(cfg *config.Config, text []byte) (sasl.Login, error) {
	return sasl.ParseLogin(text, func(name string) (string, bool) {
		value, ok := cfg.Properties[name]
		return value, ok
	})
}

// logins returns how clients may log in by SASL, read from the login file: not at all if
// no login file is configured or, with a warning, if the file has no section for this
// server. p has the users from now on.
func logins(cfg *config.Config, p *passwords, log *slog.Logger) (l server.Logins, err error) {
	c := &cfg.Auth.SASL
	if c.LoginFile == "" {
		return l, nil
	}
	login, err := loginFile(cfg)
	if err != nil {
		return l, err
	}
	users, service, ok, err := login.Mechanisms(c.Section)
	if err != nil {
		return l, fmt.Errorf("server: %s: %w", c.LoginFile, err)
	}
	if !ok {
		if !cfg.Quorum.Login.Enabled { // the file may be for the other servers alone
			log.Warn("no client can log in by SASL: the login file lacks the section; add it, or name another one by zookeeper.sasl.serverconfig", "file", c.LoginFile, "section", c.Section)
		}
		return l, nil
	}
	if service != nil {
		if l.Kerberos, l.Names, err = kerberosLogins(cfg, service, "kerberos-replays", log); err != nil {
			return l, fmt.Errorf("server: %s: %w", c.LoginFile, err)
		}
	}
	if users == nil {
		return l, nil
	}
	if !superPassword(cfg, users) {
		log.Warn("SASLAuthenticationProvider.superPassword has no effect: the login file has no user super; add the user or remove the setting", "file", c.LoginFile)
	}
	p.clients.Store(sasl.NewServer(sasl.ClientProtocol, sasl.ClientServerName, users))
	l.Digest = p.beginClient
	return l, nil
}

// kerberosLogins returns what checks logins by Kerberos, and the names that the principals
// of clients have in ACLs. The logins are remembered in the file replays of the data
// directory.
func kerberosLogins(cfg *config.Config, service *sasl.Service, replays string, log *slog.Logger) (*kerberos.Acceptor, kerberos.Mapping, error) {
	c := &cfg.Auth.SASL
	if replays = filepath.Join(cfg.Data.Dir, replays); cfg.Data.Dir == "" {
		replays = "" // it is in memory
	}
	names := kerberos.Mapping{DropHost: c.RemoveHost, DropRealm: c.RemoveRealm}
	settings, err := kerberos.ReadSettings(c.KerberosFile)
	if err != nil {
		return nil, names, err
	}
	settings.Override(c.KerberosRealm, nil) // a server that accepts logins asks no KDC
	realm := settings.Realm()
	if names.Rules, err = kerberos.ParseRules(c.NameRules, realm); err != nil {
		return nil, names, fmt.Errorf("zookeeper.security.auth_to_local: %w", err)
	}
	a, err := kerberos.NewAcceptor(kerberos.AcceptorOptions{
		Principal: service.Principal, DefaultRealm: realm, Keytab: service.Keytab, Skew: settings.Skew(), Replays: replays, Logger: log,
	})
	return a, names, err
}

// peerLogins returns how the servers of the ensemble log in at each other; nil if they do
// not. Both sections must be in the login file, as in Apache. p has their passwords from now on.
func peerLogins(cfg *config.Config, p *passwords, log *slog.Logger) (*peerauth.Authority, error) {
	c, name := &cfg.Quorum.Login, cfg.Auth.SASL.LoginFile
	if !c.Enabled || !cfg.Quorum.Distributed() {
		return nil, nil
	}
	login, err := loginFile(cfg)
	if err != nil {
		return nil, err
	}
	o := peerauth.Options{ServerRequired: c.ServerRequired, LearnerRequired: c.LearnerRequired}
	var names *peerauth.Names
	if c.Canonicalize {
		names = &peerauth.Names{Resolve: net.DefaultResolver.LookupHost, Reverse: net.DefaultResolver.LookupAddr}
	}
	users, service, ok, err := login.Mechanisms(c.ServerSection)
	switch {
	case err != nil:
	case !ok:
		err = fmt.Errorf("no section %s: quorum.auth.enableSasl needs it", c.ServerSection)
	case service != nil:
		o.Server, err = peerService(cfg, service, names, log)
	default:
		p.servers.Store(sasl.NewServer(sasl.PeerProtocol, sasl.PeerServerName, users))
		o.Server = peerauth.DigestServer(p.beginServer)
	}
	if err != nil {
		return nil, fmt.Errorf("server: %s: %w", name, err)
	}
	own, err := login.Client(c.LearnerSection)
	switch {
	case err != nil:
	case own == nil:
		err = fmt.Errorf("no section %s: quorum.auth.enableSasl needs it", c.LearnerSection)
	case own.Kerberos:
		o.Learner, err = peerClient(cfg, own, names, log)
	default:
		p.own.Store(own)
		o.Learner = peerauth.DigestLearner(p.account)
	}
	if err != nil {
		return nil, fmt.Errorf("server: %s: %w", name, err)
	}
	return peerauth.New(o), nil
}

// peerService returns how other servers log in here by Kerberos.
func peerService(cfg *config.Config, service *sasl.Service, names *peerauth.Names, log *slog.Logger) (func(func() []string) peerauth.Server, error) {
	a, _, err := kerberosLogins(cfg, service, "kerberos-peer-replays", log)
	if err != nil {
		return nil, err
	}
	return peerauth.KerberosServer(a, names), nil
}

// peerClient returns how this server logs in at others by Kerberos.
func peerClient(cfg *config.Config, c *sasl.Client, names *peerauth.Names, log *slog.Logger) (func(context.Context, string) (peerauth.Learner, error), error) {
	l, err := kerberos.NewLogin(kerberos.Credentials{
		Principal: c.Principal, Keytab: c.Keytab, Cache: c.Cache,
		Config: cfg.Auth.SASL.KerberosFile, Realm: cfg.Auth.SASL.KerberosRealm, KDCs: cfg.Auth.SASL.KDCs,
	})
	if err != nil {
		return nil, err
	}
	if c.Keytab == "" {
		log.Warn("this server logs in at the others with a ticket cache, which it does not renew: run kinit before the tickets end, or use a key table", "principal", l.Principal())
	}
	return peerauth.KerberosLearner(l, cfg.Quorum.Login.ServicePrincipal, names), nil
}

// maxSecretBytes is the maximum length of a secret.
const maxSecretBytes = 1 << 10

// sessionPasswords returns the passwords of sessions, derived from the secret of the
// configuration if there is one.
func sessionPasswords(cfg *config.Config) (session.Passwords, error) {
	c := &cfg.Session
	if c.SecretFile == "" {
		return session.Passwords{}, nil
	}
	secret, err := readFile(c.SecretFile, maxSecretBytes)
	if err == nil && (len(secret) < session.MinSecretLen || len(secret) > maxSecretBytes) {
		err = fmt.Errorf("%s has %d bytes; it must have %d to %d", c.SecretFile, len(secret), session.MinSecretLen, maxSecretBytes)
	}
	if err != nil {
		return session.Passwords{}, fmt.Errorf("server: sessionSecretFile: %w", err)
	}
	kind := session.SecretPassword
	switch c.Password {
	case "apache":
		kind = session.ApachePassword
	case "both":
		kind = session.BothPasswords
	}
	return session.NewPasswords(kind, secret), nil
}

// readFile reads at most one byte more than most bytes of a file: so the caller can report
// that it is too long.
func readFile(name string, most int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() // read only
	return io.ReadAll(io.LimitReader(f, most+1))
}
