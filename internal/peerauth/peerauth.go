// Package peerauth is the login of servers at each other by SASL, before the first packet
// on the quorum port, and after the first message on the election port. It carries the
// tokens of a mechanism and decides what follows from the outcome. It blocks and sets no
// deadline: the caller bounds the time, and chooses the goroutine.
//
// The side that has connected, the learner in ZooKeeper's words, logs in; the other one,
// the server, asks for it or not:
//
//	learner                          server
//	inProgress, first token    →     looks at the first 8 bytes: no login?
//	                           ←     inProgress, challenge      (at most maxRounds times)
//	inProgress, response       →
//	                           ←     success, last token or null
//
// A learner that need not log in sends nothing, and what it says next comes first: so
// servers with and without logins understand each other while a setting is rolled out.
//
// Invariants, each with a test that carries its number:
//
//  1. With ServerRequired, no server is admitted without a login that the mechanism has
//     accepted.
//  2. A learner that has to log in has done so, and has seen the server's proof, or Prove
//     fails: it says nothing to a server that would do without.
//  3. A failed login is an error on both sides, whatever is required. (Apache's server
//     goes on without a login unless it requires one; its learners do not.)
//  4. Nothing is read after the login, and what is no login is not consumed.
//  5. A login has at most maxRounds tokens of maxTokenBytes each.
package peerauth

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// maxRounds is how many challenges a server sends, as in Apache.
const maxRounds = 5

// ErrRefused is wrapped by the error of a login that the other server has caused to fail.
// Errors of the connection do not wrap it.
var ErrRefused = errors.New("peerauth: login refused")

// A Learner is the connecting half of one login. Begin returns the first token. Answer
// takes a challenge, nil if it was null, and returns the response; last says that the
// server has called it the last one: then there is no response, and a nil error means
// that the server has proved its identity as well, if the mechanism does that.
type Learner interface {
	Begin() (token []byte, err error)
	Answer(challenge []byte, last bool) (response []byte, err error)
}

// A Server is the accepting half of one login. Step takes a token and returns the answer,
// nil for null. With done, the login has succeeded and name is what the other server is
// called; an error refuses it.
type Server interface {
	Step(token []byte) (answer []byte, name string, done bool, err error)
}

// Options says which side has to log in, and how.
type Options struct {
	ServerRequired  bool // quorum.auth.serverRequireSasl
	LearnerRequired bool // quorum.auth.learnerRequireSasl

	// Learner begins a login at the server of the host, as the configuration names it. It
	// may ask other services until ctx ends.
	Learner func(ctx context.Context, host string) (Learner, error)
	// Server begins a login of another server. members returns the hosts of the servers of
	// the ensemble, as the configuration names them.
	Server func(members func() []string) Server
}

// An Authority logs this server in, and others. It is immutable and safe for concurrent
// use.
type Authority struct{ o Options }

// New returns an Authority. REQUIRES: Options.Learner and Options.Server are set.
func New(o Options) *Authority { return &Authority{o} }

// ServerRequired reports whether other servers must log in.
func (a *Authority) ServerRequired() bool { return a.o.ServerRequired }

// LearnerRequired reports whether this server logs in where it connects.
func (a *Authority) LearnerRequired() bool { return a.o.LearnerRequired }

// Prove logs this server in at another one, to whose host it has connected. It does
// nothing unless LearnerRequired. After an error, the connection must be closed. ctx bounds
// what comes before the first token alone.
func (a *Authority) Prove(ctx context.Context, r io.Reader, w io.Writer, host string) error {
	if !a.o.LearnerRequired {
		return nil
	}
	l, err := a.o.Learner(ctx, host)
	if err != nil {
		return fmt.Errorf("peerauth: log in at %s: %w", host, err)
	}
	token, err := l.Begin()
	if err != nil {
		return fmt.Errorf("peerauth: log in at %s: %w", host, err)
	}
	for round := 0; ; round++ {
		if err := (packet{inProgress, token}).write(w); err != nil {
			return err
		}
		p, err := readPacket(r)
		switch {
		case errors.Is(err, io.EOF) && round == 0:
			return fmt.Errorf("%w: %s has closed the connection instead of answering: it must have quorum.auth.enableSasl=true", ErrRefused, host)
		case err != nil:
			return err
		case p.status == refused:
			return fmt.Errorf("%w: %s does not accept the login of this server", ErrRefused, host)
		case p.status != inProgress && p.status != success || round > maxRounds:
			return fmt.Errorf("%w: %s answers with status %d in round %d", ErrRefused, host, p.status, round)
		}
		if token, err = l.Answer(p.token, p.status == success); err != nil {
			return fmt.Errorf("%w: the answer of %s: %w", ErrRefused, host, err)
		}
		if p.status == success {
			return nil
		}
	}
}

// An Input is what another server sends: at least 8 bytes can be looked at without
// consuming them.
type Input interface {
	io.Reader
	Peek(n int) ([]byte, error)
}

// Admit has another server, which has connected, log in. members is that of Options.Server.
// name is what the server is called; it is empty if the
// connection begins with anything else than a login, and none is required: nothing is
// consumed then. After an error, the connection must be closed.
func (a *Authority) Admit(r Input, w io.Writer, members func() []string) (name string, err error) {
	head, err := r.Peek(8)
	if err != nil || !IsLogin(head) {
		if !a.o.ServerRequired {
			return "", nil // the next read reports err again
		}
		if err != nil {
			return "", fmt.Errorf("%w: no login came, and quorum.auth.serverRequireSasl demands one: %w", ErrRefused, err)
		}
		return "", fmt.Errorf("%w: the connection begins without a login, which quorum.auth.serverRequireSasl demands: "+
			"that server needs quorum.auth.learnerRequireSasl=true", ErrRefused)
	}
	if name, err = a.converse(r, w, members); err != nil {
		_ = packet{refused, []byte{}}.write(w) // the reason is what counts
		return "", err
	}
	return name, nil
}

// converse answers tokens until the login has succeeded.
func (a *Authority) converse(r io.Reader, w io.Writer, members func() []string) (string, error) {
	s := a.o.Server(members)
	for range maxRounds + 1 {
		p, err := readPacket(r)
		if err != nil {
			return "", err
		}
		if p.status != inProgress {
			return "", fmt.Errorf("%w: a token with status %d", ErrRefused, p.status)
		}
		answer, name, done, err := s.Step(p.token)
		if err != nil {
			return "", fmt.Errorf("%w: %w", ErrRefused, err)
		}
		if done {
			return name, packet{success, answer}.write(w)
		}
		if err := (packet{inProgress, answer}).write(w); err != nil {
			return "", err
		}
	}
	return "", fmt.Errorf("%w: more than %d tokens", ErrRefused, maxRounds+1)
}
