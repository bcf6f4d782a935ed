package client

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/pinfold-zk/pinfold/internal/sasl"
	"github.com/pinfold-zk/pinfold/zk"
)

// DigestMD5 logs in by SASL's DIGEST-MD5 with a name and password that the servers'
// login file lists. The connection has the identity sasl:user then. A server that
// does not prove that it knows the password as well is not used.
func DigestMD5(user, password string) Mechanism { return digestMD5{user, password} }

type digestMD5 struct{ user, password string }

// Authenticate is the exchange of RFC 2831, section 2.1.
func (m digestMD5) Authenticate(_ context.Context, _ string, send func(token []byte) ([]byte, error)) error {
	challenge, err := send([]byte{})
	if err != nil {
		return fmt.Errorf("sasl: %w", err)
	}
	if len(challenge) == 0 {
		return fmt.Errorf("sasl: the server has no logins: %w", zk.ErrAuthFailed)
	}
	x := sasl.NewClientExchange(sasl.ClientProtocol, sasl.ClientServerName, m.user, m.password)
	token, err := x.Respond(challenge, rand.Reader)
	if err != nil {
		return err
	}
	proof, err := send(token)
	if err != nil {
		return fmt.Errorf("sasl: user %s: %w", m.user, err)
	}
	return x.Verify(proof)
}
