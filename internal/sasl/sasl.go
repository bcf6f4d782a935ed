// Package sasl is the server's half of a login by SASL: the file that says who
// may log in, and the mechanism DIGEST-MD5 (RFC 2831) as Java's servers speak it
// (protocol page, section 3.7; features page, section 16).
//
// It is pure: who calls it brings the bytes of the file, the tokens of the
// client and the randomness, and keeps the Exchange. What carries the tokens,
// requests of a client or packets between servers, is not known here.
//
// Invariants, each with a test that carries its number:
//
//  1. Nobody is logged in without the password of a user who is listed. The
//     name that a login gives is that user's name and no other: what a client
//     asks to be taken for (authzid) counts in the hash and nowhere else.
//  2. An exchange is good for one login. After its end, good or bad, every
//     token fails.
//  3. Passwords are in no error.
//  4. A token beyond MaxTokenBytes is refused before it is looked at; no token
//     makes more than a few times its own length.
//
// Where Java's server is looser than that, this one is not. There a name that
// nobody has logs in with the password of whoever logged in last, and a user
// whose name has an @ may ask to be anybody, the superuser too.
package sasl

import (
	"errors"
	"fmt"
	"maps"
	"strings"
)

// The names that servers and clients of ZooKeeper have in the digest-uri, and
// the second one as the realm.
const (
	ClientProtocol   = "zookeeper"
	ClientServerName = "zk-sasl-md5"
)

// MaxTokenBytes is the longest token that a client may send, as in Java.
const MaxTokenBytes = 4096

// ErrRefused is what every failed step of an Exchange wraps. The text behind it
// is for the operator; a client is told only that it failed.
var ErrRefused = errors.New("sasl: login refused")

// The login modules of Java that this package stands in for.
const (
	digestModule   = "org.apache.zookeeper.server.auth.DigestLoginModule"
	kerberosModule = "com.sun.security.auth.module.Krb5LoginModule"
)

// userPrefix is in front of a name in the options of a section.
const userPrefix = "user_"

// Users maps the name of a user to the password.
type Users map[string]string

// Users returns who may log in by a section: the options user_NAME="password" of
// its modules, of several modules those of the last, as Java does. ok is false
// if there is no such section or it is empty, which turns SASL off.
//
// It fails for a section of Kerberos and for any other module that is not
// ZooKeeper's DigestLoginModule: a server that went on would let in nobody, or
// somebody else than the file says.
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

// A Server judges logins to one service. It is immutable and safe for any number
// of users at once.
type Server struct {
	protocol string
	name     string
	users    Users
}

// NewServer returns a server of the given protocol and name, which clients must
// name in turn; the name is the realm as well. It keeps a copy of users.
func NewServer(protocol, name string, users Users) *Server {
	return &Server{protocol: protocol, name: name, users: maps.Clone(users)}
}
