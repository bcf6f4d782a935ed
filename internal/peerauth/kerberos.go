package peerauth

import (
	"context"
	"fmt"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/kerberos"
)

// KerberosLearner returns what Options.Learner is for logins by Kerberos at servers with
// the principal, in which _HOST means the canonical name of the server's host.
func KerberosLearner(l *kerberos.Login, principal string, names *Names) func(context.Context, string) (Learner, error) {
	return func(ctx context.Context, host string) (Learner, error) {
		at := principal
		if service, realm, ok := cutHost(principal); ok {
			name, err := names.canonical(ctx, host)
			if err != nil {
				return nil, err
			}
			at = service + "/" + strings.ToLower(name) + realm
		}
		x, first, err := l.Begin(ctx, at, kerberos.InitiatorOptions{})
		if err != nil {
			return nil, err
		}
		return &kerberosLearner{x, first}, nil
	}
}

// cutHost returns what is before and after the host in a principal whose host is _HOST; the latter is empty,
// or @ and a realm.
func cutHost(principal string) (service, realm string, ok bool) {
	service, rest, _ := strings.Cut(principal, "/")
	name, realm, hasRealm := strings.Cut(rest, "@")
	if hasRealm {
		realm = "@" + realm
	}
	return service, realm, name == "_HOST"
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
// other server's principal must be NAME/HOST@REALM with the canonical name of a member's host, and it may
// not ask for another identity; NAME and REALM are not compared.
func KerberosServer(a *kerberos.Acceptor, names *Names) func(members func() []string) Server {
	return func(members func() []string) Server { return &kerberosServer{a.Begin(), names, members} }
}

type kerberosServer struct {
	x       *kerberos.Acceptance
	names   *Names
	members func() []string
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
	}
	if err := s.names.check(s.members(), host); err != nil {
		return nil, "", false, fmt.Errorf("the principal %.200q %w", principal, err)
	}
	return answer, principal, true, nil
}
