package peerauth

import (
	"context"
	"fmt"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/kerberos"
)

// KerberosLearner returns what Options.Learner is for logins by Kerberos at servers with
// the principal, in which _HOST means the host of the server.
func KerberosLearner(l *kerberos.Login, principal string) func(context.Context, string) (Learner, error) {
	return func(ctx context.Context, host string) (Learner, error) {
		x, first, err := l.Begin(ctx, principalOf(principal, host), kerberos.InitiatorOptions{})
		if err != nil {
			return nil, err
		}
		return &kerberosLearner{x, first}, nil
	}
}

// principalOf replaces _HOST in a principal by a host in lower case.
func principalOf(principal, host string) string {
	service, rest, _ := strings.Cut(principal, "/")
	name, realm, hasRealm := strings.Cut(rest, "@")
	if name != "_HOST" {
		return principal
	}
	if service += "/" + strings.ToLower(host); hasRealm {
		service += "@" + realm
	}
	return service
}

type kerberosLearner struct {
	x     *kerberos.Initiation
	first []byte
}

// Begin returns the ticket for the server.
func (l *kerberosLearner) Begin() ([]byte, error) { return l.first, nil }

// Answer takes a step of the exchange. The server's last word is null, or empty: it has
// proved its identity before.
func (l *kerberosLearner) Answer(challenge []byte, last bool) ([]byte, error) {
	if last && len(challenge) == 0 && l.x.Done() {
		return nil, nil
	}
	if last {
		return nil, fmt.Errorf("a last token of %d bytes before the login is complete", len(challenge))
	}
	return l.x.Step(challenge)
}

// KerberosServer returns what Options.Server is for logins by Kerberos. As in Apache, the
// other server's principal must be NAME/HOST@REALM with the host of a member, and it may
// not ask for another identity; NAME and REALM are not compared.
func KerberosServer(a *kerberos.Acceptor) func(member func(host string) bool) Server {
	return func(member func(string) bool) Server { return &kerberosServer{a.Begin(), member} }
}

type kerberosServer struct {
	x      *kerberos.Acceptance
	member func(host string) bool
}

// Step is a step of the exchange.
func (s *kerberosServer) Step(token []byte) (answer []byte, name string, done bool, err error) {
	if answer, err = s.x.Step(token); err != nil {
		return nil, "", false, err
	}
	principal, done := s.x.Principal()
	if !done {
		return answer, "", false, nil
	}
	_, host, _, err := kerberos.Split(principal)
	switch identity := s.x.Identity(); {
	case err != nil:
		return nil, "", false, err
	case identity != "" && identity != principal:
		return nil, "", false, fmt.Errorf("%.200q asks to be %.200q", principal, identity)
	case host == "":
		return nil, "", false, fmt.Errorf("the principal %.200q names no host", principal)
	case !s.member(host):
		return nil, "", false, fmt.Errorf("the principal %.200q names a host that no server line has", principal)
	}
	return answer, principal, true, nil
}
