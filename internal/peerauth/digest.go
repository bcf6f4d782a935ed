package peerauth

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/pinfold-zk/pinfold/internal/sasl"
)

// DigestLearner returns what Options.Learner is for logins by DIGEST-MD5. Each login is that of
// the account at this moment, a user and its password.
func DigestLearner(account func() (user, password string)) func(context.Context, string) (Learner, error) {
	return func(context.Context, string) (Learner, error) {
		user, password := account()
		return &digestLearner{x: sasl.NewClientExchange(sasl.PeerProtocol, sasl.PeerServerName, user, password)}, nil
	}
}

// digestLearner has one challenge to answer and one proof to check.
type digestLearner struct {
	x        *sasl.ClientExchange
	answered bool
}

// Begin returns an empty token: the server speaks first.
func (l *digestLearner) Begin() ([]byte, error) { return []byte{}, nil }

// Answer proves the password, and then has the server prove it.
func (l *digestLearner) Answer(challenge []byte, last bool) ([]byte, error) {
	switch {
	case last:
		return nil, l.x.Verify(challenge)
	case l.answered:
		return nil, errors.New("a second challenge")
	}
	l.answered = true
	return l.x.Respond(challenge, rand.Reader)
}

// DigestServer returns what Options.Server is for logins by DIGEST-MD5. begin begins one at a
// server with the protocol and the name of servers of an ensemble. A user's name says nothing
// of a host: it is not compared with the members.
func DigestServer(begin func() *sasl.Exchange) func(func() []string) Server {
	return func(func() []string) Server { return &digestServer{begin()} }
}

type digestServer struct{ x *sasl.Exchange }

// Step is a step of the exchange.
func (s *digestServer) Step(token []byte) (answer []byte, name string, done bool, err error) {
	answer, err = s.x.Step(token, rand.Reader)
	name, done = s.x.User()
	return answer, name, done, err
}
