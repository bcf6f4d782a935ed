// Package sasl is a login by SASL: the file that lists the users, and the mechanism
// DIGEST-MD5 (RFC 2831) as Java implements it, both halves (protocol page, section 3.7;
// features page, section 16).
//
// It is pure: the caller provides the bytes of the file, the tokens of the client and
// the randomness, and keeps the Exchange. The package does not know what carries the
// tokens: requests of a client, or packets between servers.
//
// Invariants, each with a test that carries its number:
//
//  1. A login needs the password of a listed user, and gives that user's name and no
//     other. The name that a client asks to be used (authzid) counts only in the hash.
//  2. An exchange is valid for one login. After its end, successful or not, every token
//     fails.
//  3. Passwords are in no error.
//  4. A token longer than MaxTokenBytes is refused before it is read; no token
//     allocates more than a few times its own length.
//
// Java's server violates the first invariant: there an unknown name logs in with the
// password of the user that logged in last, and a user whose name has an @ may ask for
// any identity, including the superuser.
package sasl

import (
	"errors"
	"fmt"
	"maps"
	"strings"
)

// The names that ZooKeeper uses in the digest-uri between client and server, and between
// the servers of an ensemble; the second one of each is also the realm.
const (
	ClientProtocol   = "zookeeper"
	ClientServerName = "zk-sasl-md5"
	PeerProtocol     = "zookeeper-quorum"
	PeerServerName   = "zk-quorum-sasl-md5"
)

// MaxTokenBytes is the longest token that a client may send, as in Java.
const MaxTokenBytes = 4096

// ErrRefused is wrapped by the errors of every failed step of an Exchange. The text
// after it is for the operator; the client is only told that the login failed.
var ErrRefused = errors.New("sasl: login refused")

// The login modules of Java that this package replaces.
const (
	digestModule   = "org.apache.zookeeper.server.auth.DigestLoginModule"
	kerberosModule = "com.sun.security.auth.module.Krb5LoginModule"
)

// userPrefix precedes a name in the options of a section.
const userPrefix = "user_"

// Users maps the name of a user to the password.
type Users map[string]string

// A Service is what a section says of Kerberos: the server's principal, and the file with
// its keys.
type Service struct {
	Principal string // SERVICE/HOST@REALM, or without the realm; "*" is every one of the file
	Keytab    string
}

// Mechanisms returns the logins that a section allows. users are those of DIGEST-MD5, the options
// user_NAME="password" of its modules; if several modules have them, those of the last
// one, as in Java; nil if no module is of DIGEST-MD5. service is nil if no module is of
// Kerberos. ok is false if there is no such section or it is empty, which turns SASL off.
//
// Java's servers offer Kerberos alone if a section has both; here a client may use either.
//
// It fails for any other module: otherwise the server would accept no user, or other users
// than the file says.
func (f Login) Mechanisms(section string) (users Users, service *Service, ok bool, err error) {
	modules := f[section]
	if len(modules) == 0 {
		return nil, nil, false, nil
	}
	for _, m := range modules {
		switch m.Class {
		case digestModule:
			users = Users{}
			for key, value := range m.Options {
				if name, isUser := strings.CutPrefix(key, userPrefix); isUser && name != "" {
					users[name] = value
				}
			}
		case kerberosModule:
			service = &Service{Principal: m.Options["principal"], Keytab: m.Options["keyTab"]}
			if missing := m.lacks("true", "useKeyTab", "storeKey"); missing != "" {
				return nil, nil, false, fmt.Errorf("sasl: section %s: %s needs %s=true: a server has its key in a file", section, m.Class, missing)
			}
			if missing := m.lacks("", "keyTab", "principal"); missing != "" {
				return nil, nil, false, fmt.Errorf("sasl: section %s: %s has no %s", section, m.Class, missing)
			}
		default:
			return nil, nil, false, fmt.Errorf("sasl: section %s: unknown login module %s", section, m.Class)
		}
	}
	return users, service, true, nil
}

// lacks returns the first of the options that is not set, or does not have the value if
// that is not "".
func (m *Module) lacks(value string, options ...string) string {
	for _, o := range options {
		if got := m.Options[o]; got == "" || value != "" && !strings.EqualFold(got, value) {
			return o
		}
	}
	return ""
}

// A Client is what a section says of a login elsewhere: by DIGEST-MD5 with a name and a
// password, or by Kerberos.
type Client struct {
	User, Password string

	Kerberos  bool
	Principal string // "" is that of the ticket cache
	Keytab    string // "" is a ticket cache
	Cache     string // its file; "" is where Kerberos looks for it
}

// Client returns the login of a section's last module, nil if there is no such section or
// it is empty. It fails for unknown modules, and if an option is missing.
func (f Login) Client(section string) (*Client, error) {
	modules := f[section]
	if len(modules) == 0 {
		return nil, nil
	}
	m := modules[len(modules)-1]
	switch m.Class {
	case digestModule:
		if missing := m.lacks("", "username", "password"); missing != "" {
			return nil, fmt.Errorf("sasl: section %s: %s has no %s", section, m.Class, missing)
		}
		return &Client{User: m.Options["username"], Password: m.Options["password"]}, nil
	case kerberosModule:
		c := &Client{Kerberos: true, Principal: m.Options["principal"], Cache: m.Options["ticketCache"]}
		if m.lacks("true", "useKeyTab") != "" {
			return c, nil
		}
		if missing := m.lacks("", "keyTab", "principal"); missing != "" {
			return nil, fmt.Errorf("sasl: section %s: %s has no %s", section, m.Class, missing)
		}
		c.Keytab = m.Options["keyTab"]
		return c, nil
	}
	return nil, fmt.Errorf("sasl: section %s: unknown login module %s", section, m.Class)
}

// A Server checks logins to one service. It is immutable and safe for concurrent use.
type Server struct {
	protocol string
	name     string
	users    Users
}

// NewServer returns a server with the given protocol and name, which clients must
// repeat; the name is also the realm. It keeps a copy of users.
func NewServer(protocol, name string, users Users) *Server {
	return &Server{protocol: protocol, name: name, users: maps.Clone(users)}
}
