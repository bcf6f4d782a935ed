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

// Users returns the users that may log in by a section: the options
// user_NAME="password" of its modules; if several modules have them, those of the last
// one, as in Java. ok is false if there is no such section or it is empty, which turns
// SASL off.
//
// It fails for a section of Kerberos and for any other module than ZooKeeper's
// DigestLoginModule: otherwise the server would accept no user, or other users than the
// file says.
func (f Login) Users(section string) (users Users, ok bool, err error) {
	modules := f[section]
	if len(modules) == 0 {
		return nil, false, nil
	}
	for _, m := range modules {
		switch m.Class {
		case digestModule:
		case kerberosModule:
			return nil, false, fmt.Errorf("sasl: section %s: Kerberos is not supported yet (%s)", section, m.Class)
		default:
			return nil, false, fmt.Errorf("sasl: section %s: unknown login module %s", section, m.Class)
		}
		users = Users{}
		for key, value := range m.Options {
			if name, isUser := strings.CutPrefix(key, userPrefix); isUser && name != "" {
				users[name] = value
			}
		}
	}
	return users, true, nil
}

// User returns the name and the password with which a section logs in elsewhere: the
// options username and password of its module. ok is false if there is no such section
// or it is empty. It fails for other modules, as Users does, and if an option is missing.
func (f Login) User(section string) (name, password string, ok bool, err error) {
	if _, ok, err = f.Users(section); !ok {
		return "", "", false, err
	}
	for _, m := range f[section] {
		name, ok = m.Options["username"]
		if password = m.Options["password"]; !ok || password == "" {
			return "", "", false, fmt.Errorf("sasl: section %s: the options username and password are needed", section)
		}
	}
	return name, password, true, nil
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
