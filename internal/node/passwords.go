package node

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"

	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/sasl"
)

// passwords are those of logins by DIGEST-MD5, and the superuser's digest, as their files say at
// this moment: a server that runs reads the login file and the file of the digest again, and uses the
// last content that is correct. Connections that exist keep the identities that they have.
type passwords struct {
	log   *slog.Logger
	files []*passwordFile

	clients atomic.Pointer[sasl.Server] // the users as which clients log in
	servers atomic.Pointer[sasl.Server] // the users as which other servers log in
	own     atomic.Pointer[sasl.Client] // as which this server logs in at others
	super   atomic.Pointer[string]
}

// passwordFile is a file with passwords.
type passwordFile struct {
	name   string
	most   int64 // bytes
	use    func(text []byte) error
	known  bool // it was read since the start
	sum    [sha256.Size]byte
	failed string // the last failure to read the file; "": it was read
}

// newPasswords returns those of the files of a configuration, none of which it reads: authority,
// logins and peerLogins do.
func newPasswords(cfg *config.Config, log *slog.Logger) *passwords {
	p := &passwords{log: log}
	if name := cfg.Auth.SuperFile; name != "" {
		p.files = append(p.files, &passwordFile{name: name, most: maxSecretBytes, use: p.useSuper})
	}
	if name := cfg.Auth.SASL.LoginFile; name != "" {
		var first *accounts // those of the start
		p.files = append(p.files, &passwordFile{name: name, most: sasl.MaxLoginBytes, use: func(text []byte) error {
			a, err := readAccounts(cfg, text)
			if err != nil {
				return err
			}
			if first == nil {
				first = a
			}
			return p.useAccounts(a, first)
		}})
	}
	return p
}

// start has refresh use what differs from the present content of the files. REQUIRES: it was used.
func (p *passwords) start() error {
	for _, f := range p.files {
		if _, err := f.read(); err != nil {
			return fmt.Errorf("server: %s: %w", f.name, err)
		}
	}
	return nil
}

// refresh reads the files, and uses what has changed. A file that cannot be read, or is wrong, is
// reported once, and the earlier passwords remain.
func (p *passwords) refresh() {
	for _, f := range p.files {
		changed, err := f.read()
		switch {
		case err != nil && (changed || err.Error() != f.failed):
			f.failed = err.Error()
			p.log.Error("the new passwords are not used, the earlier ones remain: correct the file", "file", f.name, "err", err)
		case err == nil && changed:
			p.log.Info("the passwords of a file have changed, and are in use for new logins", "file", f.name)
		}
		if err == nil {
			f.failed = ""
		}
	}
}

// read reads the file, and uses its content if that is not that of the last call.
func (f *passwordFile) read() (changed bool, err error) {
	text, err := readFile(f.name, f.most)
	if err != nil {
		return false, err
	}
	sum := sha256.Sum256(text)
	if f.known && sum == f.sum {
		return false, nil
	}
	f.known, f.sum = true, sum
	return true, f.use(text)
}

// useSuper uses the content of the file of the superuser's digest.
func (p *passwords) useSuper(text []byte) error {
	digest := strings.TrimRight(string(text), "\r\n")
	if err := config.CheckSuperDigest(digest); err != nil {
		return err
	}
	p.super.Store(&digest)
	return nil
}

// accounts are what a login file says. Of DIGEST-MD5 it is users and passwords, which may change
// while the server runs; of the rest, everything is fixed at the start.
type accounts struct {
	clients, servers sasl.Users // as which clients, and other servers, log in; nil: none do by DIGEST-MD5
	own              sasl.Client
	services         [2]sasl.Service // of Kerberos, for clients and for other servers
}

// readAccounts reads the content of a login file.
func readAccounts(cfg *config.Config, text []byte) (a *accounts, err error) {
	login, err := parseLogin(cfg, text)
	if err != nil {
		return nil, err
	}
	a = new(accounts)
	if a.clients, a.services[0], err = mechanisms(login, cfg.Auth.SASL.Section); err != nil {
		return nil, err
	}
	superPassword(cfg, a.clients)
	p := &cfg.Quorum.Login
	if !p.Enabled || !cfg.Quorum.Distributed() {
		return a, nil
	}
	if a.servers, a.services[1], err = mechanisms(login, p.ServerSection); err != nil {
		return nil, err
	}
	own, err := login.Client(p.LearnerSection)
	if err != nil {
		return nil, err
	}
	if own == nil {
		return nil, fmt.Errorf("no section %s: quorum.auth.enableSasl needs it", p.LearnerSection)
	}
	a.own = *own
	return a, nil
}

// mechanisms is Login.Mechanisms with a value for the service.
func mechanisms(login sasl.Login, section string) (users sasl.Users, service sasl.Service, err error) {
	users, s, _, err := login.Mechanisms(section)
	if s != nil {
		service = *s
	}
	return users, service, err
}

// superPassword gives the user super of a login file the password of the configuration. ok is false
// if there is such a password and no such user.
func superPassword(cfg *config.Config, users sasl.Users) (ok bool) {
	const super = "super"
	password := cfg.Auth.SASL.SuperPassword
	if password == "" || users == nil {
		return true
	}
	if _, ok = users[super]; ok {
		users[super] = password
	}
	return ok
}

// errFixed is why a login file is not used.
var errFixed = errors.New("the login modules, principals or key tables are others than at the start: restart the server")

// useAccounts uses what a login file says, unless it differs in more than users and passwords from
// what the file said at the start.
func (p *passwords) useAccounts(a, first *accounts) error {
	before, now := first.own, a.own
	before.User, before.Password, now.User, now.Password = "", "", "", ""
	if a.services != first.services || before != now || (a.clients == nil) != (first.clients == nil) || (a.servers == nil) != (first.servers == nil) {
		return errFixed
	}
	p.clients.Store(sasl.NewServer(sasl.ClientProtocol, sasl.ClientServerName, a.clients))
	p.servers.Store(sasl.NewServer(sasl.PeerProtocol, sasl.PeerServerName, a.servers))
	p.own.Store(&a.own)
	return nil
}

// superDigest returns the superuser's digest.
func (p *passwords) superDigest() string { return *p.super.Load() }

// beginClient begins a client's login by DIGEST-MD5.
func (p *passwords) beginClient() *sasl.Exchange { return p.clients.Load().Begin() }

// beginServer begins another server's login by DIGEST-MD5.
func (p *passwords) beginServer() *sasl.Exchange { return p.servers.Load().Begin() }

// account is that of this server at others.
func (p *passwords) account() (user, password string) {
	own := p.own.Load()
	return own.User, own.Password
}
